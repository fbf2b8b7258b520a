"""A method in a file of its own: the same sigma for every case, the root of the mean squared error of held cases."""

from truesigma.imaging.sampling.frozen import look


def fit(net, held):
    """The same sigma for every case."""
    return {"variance": look(net, held).errors.mean(axis=0)}


def predict(net, batches, learned):
    """The network's means with that variance."""
    seen = look(net, batches, labelled=False)
    return seen.prediction(learned["variance"] * seen.variance)
