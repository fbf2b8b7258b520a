"""Training, and the folder that it writes: steps, epochs, validation, checkpoints, the history.

A network, a data set and a recipe come in; `Trained` goes out, with a folder from which training resumes exactly.
"""
