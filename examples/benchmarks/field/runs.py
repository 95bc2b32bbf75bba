"""Measurements: one method on one split of a data set, for every epsilon."""

import copy
import hashlib
import math
import time
import warnings
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

import skdpsco
from field import data, elsewhere
from field.measures import MEASURES, measured
from field.methods import all_methods, all_settings
from skdpsco.privacy import Budget

EPSILONS, SPLITS = [0.1, 0.3, 1.0, 3.0], 4
TUNED_EPSILONS, TUNED_SPLITS = [0.3, 1.0, 3.0], 3  # of settings other than the defaults
KEYS = ("track", "task", "data", "method", "epsilon", "split")
COLUMNS = (*KEYS, *MEASURES, "records", "seconds", "failure", "state")


problem_of = lru_cache(maxsize=1)(data.problem)  # methods follow each other on a problem


@cache
def state():
    """The version of skdpsco, and the start of a checksum of its source."""
    root = Path(skdpsco.__file__).parent
    sources = [path.read_bytes() for path in sorted(root.rglob("*.py"))]
    return f"{skdpsco.__version__}, {hashlib.sha256(b''.join(sources)).hexdigest()[:8]}"


class Cell(NamedTuple):
    """A method, a problem, a split, and budgets (infinity, for a method without privacy)."""

    track: str
    task: str
    name: str
    method: str
    split: int
    epsilons: tuple[float, ...]

    def keys(self):
        """What identifies the rows of the results."""
        start = self.track, self.task, self.name, self.method
        return [(*start, epsilon, self.split) for epsilon in self.epsilons]


def cells(methods, options):
    """All cells, the first split of everything before the second."""
    for split in range(options.splits):
        for task, name in data.PROBLEMS:
            if name not in (options.only or [name]) or task not in (options.tasks or [task]):
                continue
            for track, (label, method) in product(data.tracks_of(task, name), methods.items()):
                there = method.environment is None or elsewhere.python_of(method.environment)
                if (
                    there
                    and task in method.tasks
                    and method.only in (None, name)
                    and track in (options.tracks or [track])
                    and split < method.splits
                ):
                    epsilons = tuple(options.epsilons) if method.private else (math.inf,)
                    yield Cell(track, task, name, label, split, epsilons)


def arrays(frame):
    """The columns of a frame for other environments, which have other versions of pandas."""
    if frame is None:
        return None
    return [x.to_numpy(float if x.dtype.kind in "biuf" else object) for _, x in frame.items()]


def measure(cell, folder=None, done=()):
    """One row for each epsilon that is not done; a failure has the name of its error."""
    method = (all_methods() | all_settings())[cell.method]
    problem = problem_of(cell.task, cell.name, cell.split, folder, cell.track)
    shown = copy.copy(problem)
    shown.y_test = shown.group_test = None  # no method sees them
    if method.environment:
        shown.frame, shown.frame_test = arrays(problem.frame), arrays(problem.frame_test)
    rows = []
    for key in cell.keys():
        if key in done:
            continue
        row = dict.fromkeys(COLUMNS, math.nan) | dict(zip(COLUMNS, key, strict=False))
        epsilon, n = key[4], len(problem.y)
        row |= {"failure": "", "records": n, "state": state()}
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
