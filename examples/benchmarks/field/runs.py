"""Measurements: one method on one split of a data set, for every epsilon."""

import copy
import math
import time
import warnings
from typing import NamedTuple

import numpy as np

from field import data, elsewhere
from field.measures import MEASURES, measured
from field.methods import all_methods, all_settings
from skdpsco.privacy import Budget

EPSILONS = [0.1, 0.3, 1.0, 3.0, 10.0]
TUNED_EPSILONS, TUNED_SPLITS = [0.3, 1.0, 3.0], 3  # of settings other than the defaults
COLUMNS = ("task", "data", "method", "epsilon", "split", *MEASURES, "seconds", "failure")


class Cell(NamedTuple):
    """A method, a problem, a split, and budgets (infinity, for a method without privacy)."""

    task: str
    name: str
    method: str
    split: int
    epsilons: tuple[float, ...]

    def keys(self):
        """What identifies the rows of the results."""
        start = self.task, self.name, self.method
        return [(*start, epsilon, self.split) for epsilon in self.epsilons]


def cells(methods, options):
    """All cells, the first split of everything before the second."""
    for split in range(options.splits):
        for task, name in data.PROBLEMS:
            if name not in (options.only or [name]) or task not in (options.tasks or [task]):
                continue
            for label, method in methods.items():
                there = method.environment is None or elsewhere.python_of(method.environment)
                if task in method.tasks and method.only in (None, name) and there:
                    epsilons = tuple(options.epsilons) if method.private else (math.inf,)
                    yield Cell(task, name, label, split, epsilons)


def measure(cell, folder=None, done=()):
    """One row for each epsilon that is not done; a failure has the name of its error."""
    method = (all_methods() | all_settings())[cell.method]
    problem = data.problem(cell.task, cell.name, cell.split, folder)
    shown = copy.copy(problem)
    shown.y_test = shown.group_test = None  # no method sees them
    rows = []
    for key in cell.keys():
        if key in done:
            continue
        row = dict.fromkeys(COLUMNS, math.nan) | dict(zip(COLUMNS, key, strict=False))
        row["failure"] = ""
        epsilon, n = key[3], len(problem.y)
        budget = Budget(epsilon, n**-1.1) if method.private else None
        start = time.process_time()
        try:
            if method.most_columns and problem.X.shape[1] > method.most_columns:
                raise NotImplementedError("too many columns for it to end within minutes")
            found = method.run(shown, budget, np.random.default_rng())
            row["seconds"] = found.pop("seconds", time.process_time() - start)
            row |= measured(problem, found)
        except Exception as error:
            row["failure"] = " ".join([type(error).__name__, *map(str, error.args[:1])])
        rows.append(row)
    return rows


def measure_quietly(*arguments):
    """`measure` in a process of its own, which has its own filters."""
    warnings.filterwarnings("ignore")
    return measure(*arguments)
