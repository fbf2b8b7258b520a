"""The origin of a result: the versions of the packages that computed it."""

from functools import cache


def versions(*packages: str) -> dict[str, str]:
    """List the versions of Python, of this package and of others, by default NumPy and SciPy.

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
