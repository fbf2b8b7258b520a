"""Make training and sampling quick on an NVIDIA GPU. Without one, everything here can be left out.

Each file replaces a plain way of doing something, gives the same numbers, and is checked against it:

cuda_graph     Replays work that was captured once, instead of launching it kernel by kernel. `Captured` compares its
               first replay with a plain call of the same function, and gives up with a warning if they differ.
captured_step  Captures a whole training step (`training.step.plain`). Weights, buffers and optimiser are put back
               after the capture; tests with a pretended GPU compare the training that follows with plain steps.
faster         Casts all weights to bfloat16 at once, and fuses batch norm with what comes after it, while a step is
               captured. The network is not changed. Before it is used, its gradients are compared with those in
               float32: they may not err by more than 1.5 times what the plain step's do, and .05 of their length.
kernels        Batch norm in training with activation, residual and drop path, in Triton: torch's batch norm, and
               timm's blocks. Tests compare values and gradients block by block, on a GPU or in Triton's interpreter.
squeeze, tiles Squeeze-and-excite behind a norm, and what both share. Checked with `kernels`.
optimise       Computes once what depends on weights alone, before many draws are made; with `compile=True` it also
               folds batch norm into convolutions. Tests compare with the pieces as they were traced. (The first part
               is used on a processor, too.)
conv_relu      cuDNN's convolution with bias, sum and ReLU in one. Tests compare with the three operations apart.

The tests are in tests/imaging/gpu. Those that need a GPU are skipped without one, and the speed they print on one is in
docs/benchmarks-imaging.md, made by benchmarks/training.py and benchmarks/sampling.py.
"""
