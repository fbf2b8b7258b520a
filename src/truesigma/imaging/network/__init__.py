"""The network with two heads: features from a backbone, a mean and a log-variance, and the losses they are trained by.

A batch of images comes in, two tensors go out.
"""

from ..._moved import old_names

__getattr__ = old_names(__name__)
