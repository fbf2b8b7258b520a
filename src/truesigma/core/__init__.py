"""What a statistician reads: values, laws, elements and sums, and the loader of plug-ins.

Arrays of numpy, torch, JAX or CuPy come in and are checked once, when `Draws`, `Prediction` or `Cases` are made.
Sums over elements, scores and a `Tally` go out. Nothing here knows a file, a metric by name, a picture or a network;
torch is imported only where a torch tensor was handed in.
"""
