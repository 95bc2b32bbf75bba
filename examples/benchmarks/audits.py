"""Audits of every estimator's default fit: lower bounds against the claim.

Each estimator is fitted with its defaults, except for epsilon and for declared classes, targets and
domains, to 100 records and to a neighbouring table: features are 1 or -1, and the target of one
record, or the whole record, changes from one bound to the other. Each bound holds with 99 %
confidence. At a large epsilon fewer fits find a part of it. "Found from" is the epsilon from which
on an estimator would be convicted with probability 0.8 if one number showed everything that it
releases. Searches are left out, since each of them makes many fits.

With --solvers every solver is fitted by itself: without an intercept, a centre, scales and
calibration, which would share its budget, with a single step if possible, to 20 records of one
feature that are all zero except the replaced one.

python examples/benchmarks/audits.py [--solvers] [--epsilon 16] [--n-fits 400] [--only NAME ...]
"""

import argparse
import time

import numpy as np

from skdpsco import (
    PrivateElasticNet,
    PrivateGroupDRO,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMoments,
    PrivateMonotoneGLM,
    PrivateRidge,
    PrivateSynthesizer,
)
from skdpsco.inspection import audit
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateStandardScaler,
)

N = 100
X = np.where(np.arange(N) % 4 < 2, 1.0, -1.0)[:, None]
LABELS, GROUPS = np.arange(N) % 2, np.arange(N) % 2
GROUPED = {"fit_params": {"sensitive_features": GROUPS}}
CLASSES, TARGETS = {"classes": [0, 1]}, {"target_bound": 1.0}

# The estimator, its targets and other arguments of the audit.
CASES = [
    (PrivateLogisticRegression(**CLASSES), LABELS, {}),
    (PrivateRidge(**TARGETS), np.zeros(N), {}),
    (PrivateElasticNet(**TARGETS), np.zeros(N), {}),
    (PrivateLasso(**TARGETS), np.zeros(N), {}),
    (PrivateLogisticL1(**CLASSES), LABELS, {}),
    (PrivateLinearClassifier(**CLASSES), LABELS, {}),
    (PrivateLinearRegressor(**TARGETS), np.zeros(N), {}),
    (PrivateGroupDRO(**CLASSES), LABELS, GROUPED),
    (PrivateMinimaxClassifier(**CLASSES), LABELS, {}),
    (PrivateMinimaxRegressor(**TARGETS), np.zeros(N), {}),
    (PrivateMonotoneGLM(), LABELS.astype(float), {}),
    (PrivateSynthesizer(domain=[[-1.0, 1.0]]), None, {}),
    (PrivateStandardScaler(), None, {}),
    (PrivateQuantileClipper(lower=-1.0, upper=1.0), None, {}),
    (
        PrivateFeatureSelector(n_features_to_select=1, **CLASSES),
        LABELS,
        {"X": np.column_stack([X, -X])},
    ),
]

ALONE = {"fit_intercept": False, "conditioning": None}
FEW = 20
NAUGHT, HALVES = np.zeros((FEW, 1)), np.arange(FEW) % 2
ONE_GROUP = {"fit_params": {"sensitive_features": np.zeros(FEW)}}


def of_solver(Model, solver, y, **params):
    """A case of one solver."""
    about = TARGETS if y is None else CLASSES
    targets = np.zeros(FEW) if y is None else y
    more = ONE_GROUP if Model is PrivateGroupDRO else {}
    return Model(**about, **params, solver=solver), targets, more


SOLVERS = [
    (PrivateMoments(conditioning=None, **TARGETS), np.zeros(FEW), {}),
    *(
        of_solver(PrivateRidge, solver, None, **ALONE, alpha=1.0, n_iter=1)
        for solver in ("coordinate-descent", "gradient-descent")
    ),
    *(
        of_solver(PrivateLasso, solver, None, **ALONE, radius=1.0, n_iter=1)
        for solver in ("stagewise", "frank-wolfe", "frank-wolfe-laplace", "noisy-frank-wolfe")
    ),
    of_solver(PrivateLinearClassifier, "phased-sgd", HALVES, **ALONE),
    of_solver(PrivateLinearClassifier, "phased-erm", HALVES, **ALONE),
    of_solver(PrivateLinearClassifier, "one-pass-frank-wolfe", HALVES, **ALONE, p=1.0),
    of_solver(PrivateLinearClassifier, "tree-frank-wolfe", HALVES, **ALONE, p=1.0),
    *(
        of_solver(PrivateMinimaxRegressor, solver, None, **ALONE, radius=1.0, n_iter=1)
        for solver in ("mirror-descent", "mirror-prox")
    ),
    of_solver(PrivateGroupDRO, "gradient-descent", HALVES, **ALONE, n_iter=1),
]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epsilon", type=float, default=16.0)
    parser.add_argument("--n-fits", type=int, default=400)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--solvers", action="store_true")
    options = parser.parse_args()
    print(f"epsilon = {options.epsilon:g}, delta = 1e-6, {options.n_fits} fits of each neighbour\n")
    print("| estimator | epsilon at least | mu at least | mu claimed | found from | fits/s |")
    print("|---|---|---|---|---|---|")
    for estimator, y, more in SOLVERS if options.solvers else CASES:
        name = type(estimator).__name__
        if options.solvers and hasattr(estimator, "solver"):
            name = f"{name}, {estimator.solver}"
        if options.only and name not in options.only:
            continue
        arguments, records = dict(more), NAUGHT if options.solvers else X
        features = arguments.pop("X", records)
        estimator.set_params(epsilon=options.epsilon)
        start = time.perf_counter()
        found = audit(estimator, features, y, n_fits=options.n_fits, random_state=0, **arguments)
        rate = 2 * options.n_fits / (time.perf_counter() - start)
        claimed = "-" if found.mu is None else f"{found.mu:.2f}"
        at_least = "-" if found.mu is None else f"{found.mu_lower:.2f}"
        verdict = "**convicted** " if found.convicted else ""
        print(
            f"| {verdict}`{name}` | {found.epsilon_lower:.2f} | {at_least} | {claimed} | "
            f"{found.detectable:.1f} | {rate:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
