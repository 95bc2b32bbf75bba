"""Published methods, most of them from `baselines.py`, with an exact accounting of their noise.

All protect against the replacement of a record. Linear models find a centre and a scale of rows,
and the scale of a target, as the library's estimators do, and handle two classes.
"""

import math
from functools import partial
from itertools import combinations

import baselines
import numpy as np

from field.methods import REGRESSION, Method


def classify(predict, problem, budget, rng, **setting):
    labels = predict(problem.X, problem.y, problem.X_test, 1.0, budget, rng, **setting)
    return {"labels": labels}


def regress(predict, problem, budget, rng, **setting):
    values = predict(problem.X, problem.y, problem.X_test, 1.0, budget, rng, **setting)
    return {"values": values}


def gaussian_projection(problem, budget, rng):
    """Records of the distribution whose marginals of three columns are closest to noisy ones.

    A replaced record moves every marginal by sqrt(2). The distribution is found by exponentiated
    gradients on the cells of the whole domain, with steps that get longer while they are good.
    """
    sizes, n = problem.sizes, len(problem.X)
    cells = np.indices(sizes).reshape(len(sizes), -1)
    triples = list(combinations(range(len(sizes)), min(3, len(sizes))))
    noise = math.sqrt(2.0 * len(triples)) / budget.mu / n
    index, target = [], []
    for triple in triples:
        shape = [sizes[j] for j in triple]
        index.append(np.ravel_multi_index(cells[list(triple)], shape))
        records = np.ravel_multi_index(problem.X[:, triple].T, shape)
        shares = np.bincount(records, minlength=math.prod(shape)) / n
        target.append(shares + noise * rng.normal(size=len(shares)))

    def distances(p):
        return [
            np.bincount(k, weights=p, minlength=len(y)) - y
            for k, y in zip(index, target, strict=True)
        ]

    logits, step = np.zeros(cells.shape[1]), 1.0
    p = np.full(len(logits), 1.0 / len(logits))
    off = distances(p)
    for _ in range(PROJECTION_STEPS):
        moved = logits - step * sum(d[k] for k, d in zip(index, off, strict=True))
        moved -= moved.max()
        q = np.exp(moved) / np.exp(moved).sum()
        found = distances(q)
        if sum(d @ d for d in found) < sum(d @ d for d in off):
            logits, p, off, step = moved, q, found, 1.3 * step
        else:
            step *= 0.5
    counts = np.floor(n * p + rng.random(len(p))).astype(int)
    records = np.repeat(np.arange(len(p)), counts)
    return {"table": cells[:, records].T}


def of(kind, tasks, predict, settings, most_columns=None):
    run = partial(kind, predict)
    return Method(tasks, run, most_columns=most_columns, settings=settings)


PROJECTION_STEPS = 300
TWO_CLASSES = ("binary", "text", "worst group")
STEPS = tuple(
    {"steps": steps, "step": step}
    for steps, step in [(10, 8.0), (10, 32.0), (30, 2.0), (30, 32.0), (100, 8.0)]
)
PENALTIES = tuple({"penalty": share} for share in (0.02, 0.4))
RIDGES = tuple({"share": share} for share in (0.3, 0.1, 0.03))
BOOSTS = tuple(
    {"rounds": rounds, "residual": residual}
    for rounds, residual in [(3, 0.3), (30, 0.3), (10, 0.1), (10, 1.0)]
)
METHODS = {
    "DP gradient descent": of(classify, TWO_CLASSES, baselines.gradient_descent, STEPS),
    "DP Newton": of(classify, ("binary",), baselines.newton, ()),
    "objective perturbation": of(
        classify, TWO_CLASSES, baselines.objective_perturbation, PENALTIES, 600
    ),
    "AdaSSP": of(regress, REGRESSION, baselines.adassp, RIDGES),
    "boosted AdaSSP": of(regress, REGRESSION, baselines.boosted_adassp, BOOSTS),
    "Gaussian marginals, projected": Method(
        ("table",), gaussian_projection, only="ten binary columns"
    ),
}
