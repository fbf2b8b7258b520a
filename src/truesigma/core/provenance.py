"""Where a result comes from: the versions of what computed it."""


def versions(*packages: str) -> dict[str, str]:
    """The versions of Python, of this package and of others, NumPy and SciPy where none are named.

    >>> list(versions("torch"))
    ['python', 'truesigma', 'torch']
    """
    import platform  # these two are slow to import, and only results that are written need them
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("truesigma", *(packages or ("numpy", "scipy"))):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a source tree that is not installed
            found[name] = "unknown"
    return found
