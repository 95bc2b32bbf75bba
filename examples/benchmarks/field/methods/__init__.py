"""Methods, one file for each source: a file adds the methods in its dict ``METHODS``.

A method's function takes a problem (see `field.data.problem`, without the test records' targets), a
budget and a generator, and returns a dict of predictions for the test records: ``labels`` (class
indices), and ``probabilities`` (one column for each class) or ``scores`` (of class 1) if it has
them; ``values`` of a regression; or ``table``, synthetic records of codes.

A method's ``settings`` are keyword arguments of its function, other than its defaults: what a user
could have tried. With `--tuned` each of them is a method of its own.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

CLASSIFICATION = ("binary", "multiclass", "text")
REGRESSION = ("regression", "sparse regression")


class Method(NamedTuple):
    """What the comparison knows about a method."""

    tasks: tuple[str, ...]
    run: Callable
    private: bool = True
    environment: str | None = None  # in which its library is installed
    most_columns: int | None = None  # of a problem, so that a fit ends within minutes
    settings: tuple[dict[str, float], ...] = ()
    only: str | None = None  # the data set that it is for
    splits: int = 10  # at most, of a method that takes long
    weaker: bool = False  # than the protection of a replaced record


def all_methods():
    """Every method by name."""
    found = {}
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        found |= importlib.import_module(f"{__name__}.{module}").METHODS
    return found


def all_settings():
    """Every setting of every method, by a name such as ``method [rate=4]``."""
    return {
        f"{name} [{', '.join(f'{key}={value:g}' for key, value in setting.items())}]": (
            method._replace(run=partial(method.run, **setting))
        )
        for name, method in all_methods().items()
        for setting in method.settings
    }
