"""Where a result comes from: the versions of what computed it."""

from functools import cache


def versions(*packages: str) -> dict[str, str]:
    """The versions of Python, of this package and of others, NumPy and SciPy where none are named.

    >>> list(versions("torch"))
    ['python', 'truesigma', 'torch']
    """
    import platform  # slow to import, and only results that are written need it

    names = ("truesigma", *(packages or ("numpy", "scipy")))
    return {"python": platform.python_version(), **{name: _version(name) for name in names}}


@cache  # all that a package says about itself is parsed for it
def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, too

    try:
        return version(name)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
