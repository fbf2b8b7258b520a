"""The error for input that the caller can put right."""


class Refusal(ValueError):
    """Raised when input cannot be used; the message says what was given, what was expected, and what to do.

    Plug-ins raise it, too. Any other error that comes out of one is a bug of its file, and is shown as that.
    """
