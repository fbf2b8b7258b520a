"""The network with two heads: features from a backbone, a mean and a log-variance, and the losses they are trained by.

A batch of images comes in, two tensors go out.
"""
