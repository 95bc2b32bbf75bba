"""The version of this package, and what a bug report needs to say about the machine."""

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version

__all__ = ["__version__", "show_versions"]

__version__ = "0.1.0"


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def show_versions() -> None:
    """Print the versions of skdpsco, Python and what skdpsco depends on, for bug reports.

    Nothing but versions and the kind of machine is printed: no paths, no names and no data.

    Examples
    --------
    >>> import skdpsco
    >>> skdpsco.show_versions()  # doctest: +ELLIPSIS
    skdpsco...
    """
    tools = {"dev", "docs", "test"}  # extras that have no part in what a fit does
    names = ["skdpsco"]
    for requirement in requires("skdpsco") or ():
        extra = re.search(r"extra == ['\"](\w+)", requirement)
        if extra is None or extra[1] not in tools:
            names += re.findall(r"^[\w.-]+", requirement)
    lines = {name: _installed(name) for name in names}
    lines |= {
        "Python": f"{platform.python_version()} ({sys.implementation.name})",
        "machine": f"{platform.system()} {platform.machine()}",
    }
    width = max(map(len, lines)) + 2
    for name, text in lines.items():
        print(f"{name:{width}}{text}")  # noqa: T201 -- printing is its purpose
