"""A law of data: a function of a generator and a number of records, and where it is tried."""

import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit

N_TEST = 4000
REPLACED, ADDED = "replace-one", "add-or-remove-one"
MODELS = {
    "numbers": ("PrivateRidge", "PrivateLasso"),
    "labels": ("PrivateLogisticRegression", "PrivateLogisticL1"),
    "numbers of groups": ("PrivateGroupDRO",),
    "labels of groups": ("PrivateGroupDRO",),
    "numbers of curves": ("additive", "PrivateRidge"),
    "labels of curves": ("additive", "PrivateLogisticRegression"),
}


class Cells(NamedTuple):
    """Budgets that are tried at one number of records, and how many tables are drawn."""

    n: int
    epsilons: tuple[float, ...]
    seeds: int
    relation: str = REPLACED


ORDINARY = (
    Cells(500, (1.0, 2.0, 4.0), 12),
    Cells(1000, (0.5, 1.0, 2.0, 4.0, 8.0), 12),
    Cells(4000, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), 12),
    Cells(16_000, (0.25, 1.0, 4.0), 4),
    Cells(2000, (0.25, 0.5, 1.0, 2.0, 4.0), 12, ADDED),
)
WIDE = (
    Cells(1500, (0.5, 1.0, 2.0, 4.0, 8.0), 8),
    Cells(4000, (0.5, 1.0, 2.0, 4.0, 8.0), 8),
    Cells(2000, (1.0, 2.0, 4.0), 8, ADDED),
)
GROUPED = (
    Cells(1000, (0.5, 1.0, 2.0, 4.0), 12),
    Cells(4000, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), 12),
    Cells(16_000, (0.25, 1.0, 4.0), 4),
)
FEW = tuple(
    Cells(n, (0.1, 0.2, 0.3, 0.5, 1.0), 24, relation)
    for n in (300, 500, 800, 1200)
    for relation in (REPLACED, ADDED)
)
QUICK_SEEDS, QUICK_N = 3, 4000


class Law(NamedTuple):
    """Where such data occur, what is predicted, and how a table is drawn."""

    name: str
    where: str
    task: str
    draw: Callable
    design: tuple[Cells, ...]

    def table(self, n, seed):
        """Records to fit and records to test: X, y and, of groups, g of each.

        Two states of the code see the same tables. Coefficients depend on the seed alone.
        """
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), seed])
        X, y, *group = self.draw(rng, n + N_TEST)
        test, train = slice(None, len(y) - n), slice(len(y) - n, None)
        return [part[train] for part in (X, y, *group)], [part[test] for part in (X, y, *group)]


LAWS: dict[tuple[str, str], Law] = {}


def register(draw, task, design, make):
    where = " ".join(draw.__doc__.split())
    LAWS[draw.__name__, task] = Law(draw.__name__, where, task, make, design)


def of_numbers(design=ORDINARY):
    """A law of features and targets."""

    def decorate(draw):
        register(draw, "numbers", design, draw)
        return draw

    return decorate


def of_labels(design=ORDINARY):
    """A law of features and the logarithms of the odds of class 1."""

    def decorate(draw):
        register(draw, "labels", design, labelled(draw))
        return draw

    return decorate


def of_columns(design=ORDINARY):
    """A law of features and predictions: targets have R^2 .8, labels follow the logistic law."""

    def decorate(draw):
        register(draw, "numbers", design, measured(draw))
        register(draw, "labels", design, labelled(draw))
        return draw

    return decorate


def of_groups(design=GROUPED):
    """A law of features, predictions and groups."""

    def decorate(draw):
        register(draw, "numbers of groups", design, measured(draw))
        register(draw, "labels of groups", design, labelled(draw))
        return draw

    return decorate


def measured(draw):
    def with_noise(rng, n):
        X, z, *group = draw(rng, n)
        return X, z + 0.5 * z.std() * rng.normal(size=len(z)), *group

    return with_noise


def labelled(draw):
    def with_labels(rng, n):
        X, z, *group = draw(rng, n)
        return X, (rng.random(len(z)) < expit(z)).astype(int), *group

    return with_labels
