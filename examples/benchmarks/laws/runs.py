"""Measurements: models and references on one table of a law, for every epsilon."""

import hashlib
import math
import time
import warnings
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import balanced_accuracy_score, r2_score

import skdpsco
from laws import columns, curves, references, targets  # noqa: F401  (they fill LAWS)
from laws.law import LAWS, MODELS, QUICK_N, QUICK_SEEDS, Cells

DELTA = 1e-6
CONSTANT, OPTIMUM = "constant", "optimum"
OPTIMUM_SEEDS = 4
KEYS = ["law", "task", "model", "n", "relation", "epsilon", "seed"]
COLUMNS = [*KEYS, "score", "balanced", "seconds", "failure", "code"]


@cache
def code():
    """A digest of the package that is measured."""
    digest = hashlib.sha256()
    for path in sorted(Path(skdpsco.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Job(NamedTuple):
    """A table, and what is fitted to it."""

    law: str
    task: str
    cells: Cells
    seed: int
    models: tuple[str, ...]

    def keys(self):
        """What identifies the rows of the results."""
        start = self.law, self.task
        for model in self.models:
            epsilons = (math.inf,) if model == OPTIMUM else self.cells.epsilons
            for epsilon in epsilons:
                yield (*start, model, self.cells.n, self.cells.relation, epsilon, self.seed)


def jobs(quick=False, only=None, models=None, seeds=None, compared=True):
    """All jobs, the first seed of everything before the second; ``compared`` with references."""
    most = seeds or max(cells.seeds for law in LAWS.values() for cells in law.design)
    for seed in range(min(most, QUICK_SEEDS) if quick else most):
        for (name, task), law in LAWS.items():
            if only and name not in only:
                continue
            fitted = [model for model in MODELS[task] if not models or model in models]
            if not fitted:
                continue
            if compared:
                fitted += [CONSTANT, OPTIMUM] if seed < OPTIMUM_SEEDS else [CONSTANT]
            for cells in law.design:
                if seed < (seeds or cells.seeds) and not (quick and cells.n > QUICK_N):
                    yield Job(name, task, cells, seed, tuple(fitted))


def estimator(model, labels, groups, epsilon, relation):
    """A model with its defaults."""
    params = {"epsilon": epsilon, "delta": DELTA}
    if labels:
        params["classes"] = [0, 1]
    if groups is not None:
        params |= {"groups": np.arange(groups), "loss": "logistic" if labels else "squared"}
    elif relation != "replace-one":
        params["relation"] = relation
    kind = "PrivateAdditive" + ("Classifier" if labels else "Regressor")
    return getattr(skdpsco, kind if model == "additive" else model)(**params)


def scores(y, predicted, labels, group):
    """R^2 or accuracy, of the worst group if there are groups, and balanced accuracy."""
    if labels:
        right = predicted == y
        parts = [right] if group is None else [right[group == g] for g in np.unique(group)]
        return min(part.mean() for part in parts), balanced_accuracy_score(y, predicted)
    if group is None:
        return r2_score(y, predicted), math.nan
    errors = (y - predicted) ** 2
    return 1.0 - max(errors[group == g].mean() for g in np.unique(group)) / y.var(), math.nan


def predictions(key, labels, train, test):
    """Predictions of test records by the model of a key."""
    _, _, model, _, relation, epsilon, _ = key
    X, y, *group = train
    if model == CONSTANT:
        rng = np.random.default_rng(zlib.crc32(repr(key).encode()))
        value = references.private_constant(y, labels, epsilon, DELTA, relation, rng)
        return np.full(len(test[1]), value)
    if model == OPTIMUM:
        return references.optimum(X, y, labels).predict(test[0])
    groups = int(group[0].max()) + 1 if group else None
    fit = estimator(model, labels, groups, epsilon, relation)
    return fit.fit(X, y, **({"sensitive_features": group[0]} if group else {})).predict(test[0])


def measure(job, done=frozenset()):
    """One row for each key that is not done; a failure has the name of its error."""
    warnings.filterwarnings("ignore")
    law, labels = LAWS[job.law, job.task], job.task.startswith("labels")
    train, test = law.table(job.cells.n, job.seed)
    group = test[2] if len(test) > 2 else None
    rows = []
    for key in job.keys():
        if key in done:
            continue
        row = dict.fromkeys(COLUMNS, math.nan) | dict(zip(KEYS, key, strict=True))
        row |= {"failure": "", "code": code()}
        start = time.process_time()
        try:
            predicted = predictions(key, labels, train, test)
            row["seconds"] = time.process_time() - start
            row["score"], row["balanced"] = scores(test[1], predicted, labels, group)
        except Exception as error:
            row["failure"] = " ".join([type(error).__name__, *map(str, error.args[:1])])
        rows.append(row)
    return rows
