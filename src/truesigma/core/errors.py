"""Errors that a caller can do something about."""


class Refusal(ValueError):
    """What was given cannot be used; the sentence says what it was, what was expected, and what to do.

    Plug-ins raise it, too. Any other error that comes out of one is a bug of its file, and is shown as that.
    """
