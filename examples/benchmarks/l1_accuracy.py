"""
Accuracy of the sparse linear models
====================================

Prints, for planted and for real data, the median test score over random repetitions beside its
target, the score of the planted model and that of a non-private fit::

    python examples/benchmarks/l1_accuracy.py [--seeds 5] [--only digits]

Everything is at its default unless the row says otherwise; delta is 1e-6, neighbours differ by the
replacement of one record. Standardised columns assume that their means and spreads are public.
"""

import argparse
import time
import warnings
from dataclasses import dataclass
from functools import partial

import _data
import numpy as np
from sklearn.linear_model import LassoCV, LogisticRegression

from skdpsco import PrivacyWarning, PrivateLasso, PrivateLogisticL1

TEXTBOOK = {"solver": "frank-wolfe-laplace"}
EXPONENTIAL = {"solver": "frank-wolfe"}
AUTO = {"radius": "auto"}
RADII = (2.0, 5.0, 10.0, 30.0, 150.0, "auto")


@dataclass
class Problem:
    """A data set, what its rows share, and the rows: (epsilon, target, changed parameters)."""

    name: str
    data: object
    private: object
    non_private: object
    rows: list
    repetitions: int = 5


logistic = partial(PrivateLogisticL1, classes=[False, True])
strong_l1 = partial(_data.l1_logistic, C=0.02, max_iter=30)
PROBLEMS = [
    Problem(
        "planted, d=2000",
        partial(_data.planted_logistic, weights=_data.TEN, d=2000),
        partial(logistic, radius=15.0),
        strong_l1,
        [
            (0.5, 0.80, {}),
            (1.0, 0.83, {}),
            (0.5, None, AUTO),
            (1.0, None, AUTO),
            (0.5, None, EXPONENTIAL),
            (1.0, None, EXPONENTIAL),
            (0.5, None, TEXTBOOK),
            (1.0, None, TEXTBOOK),
        ],
    ),
    Problem(
        "radii, d=1000",
        partial(_data.planted_logistic, weights=_data.TEN, d=1000),
        partial(logistic, feature_bound=1.0),
        strong_l1,
        [(epsilon, None, {"radius": r}) for epsilon in (1.0, 0.25) for r in RADII],
        repetitions=9,
    ),
    Problem(
        "planted, correlated",
        partial(_data.planted_logistic, weights=_data.TEN, d=2000, correlation=0.5),
        partial(logistic, radius=15.0),
        strong_l1,
        [(0.5, None, {}), (1.0, None, {}), (1.0, None, AUTO), (1.0, None, TEXTBOOK)],
    ),
    Problem(
        "geometric, d=200",
        partial(_data.planted_logistic, weights=_data.GEOMETRIC, d=200),
        partial(logistic, radius=20.0),
        LogisticRegression,
        [(1.0, 0.892, {}), (1.0, None, AUTO), (1.0, None, TEXTBOOK)],
    ),
    Problem(
        "planted squared",
        partial(_data.planted_squared, weights=_data.TEN, d=2000),
        partial(PrivateLasso, radius=15.0),
        partial(LassoCV, cv=2, alphas=[0.02, 0.05]),
        [
            (1.0, 0.75, {}),
            (1.0, None, AUTO | {"target_bound": 15.0}),
            (1.0, None, EXPONENTIAL),
            (1.0, None, TEXTBOOK),
        ],
    ),
    Problem(
        "breast cancer",
        _data.breast_cancer,
        PrivateLogisticL1,
        partial(LogisticRegression, max_iter=1000),
        [(1.0, 0.92, {}), (1.0, None, {"radius": 5.0}), (1.0, None, {"radius": 5.0} | TEXTBOOK)],
        repetitions=20,
    ),
    Problem(
        "digits, 0-4 or 5-9",
        _data.digits,
        logistic,
        partial(LogisticRegression, max_iter=1000),
        [(1.0, 0.77, {}), (1.0, None, {"radius": 5.0}), (1.0, None, {"radius": 5.0} | TEXTBOOK)],
        repetitions=20,
    ),
    Problem(
        "digits, ten classes",
        partial(_data.digits, halved=False),
        PrivateLogisticL1,
        partial(LogisticRegression, max_iter=1000),
        [(1.0, None, {}), (8.0, None, {})],
        repetitions=20,
    ),
    Problem(
        "diabetes",
        _data.diabetes,
        partial(PrivateLasso, target_bound=160.0),
        LassoCV,
        [(1.0, None, {}), (8.0, None, {})],
        repetitions=20,
    ),
    *(
        Problem(
            f"text, {kind}",
            partial(_data.text_split, kind=kind),
            logistic,
            _data.l1_logistic,
            [(1.0, None, {}), (8.0, None, {})],
            repetitions=3,
        )
        for kind in ("tf-idf", "clipped", "binary")
    ),
    Problem(
        "text, balanced",
        partial(_data.text_split, kind="binary", balanced=True),
        logistic,
        _data.l1_logistic,
        [(1.0, 0.78, {}), (1.0, None, {"n_iter": 15}), (1.0, None, {"radius": 10.0} | TEXTBOOK)],
        repetitions=3,
    ),
]


def scores(problem, repetitions):
    """Test scores of every row, and those of the planted and of the non-private model."""
    private = np.zeros((len(problem.rows), repetitions))
    oracle, free = [], []
    for seed in range(repetitions):
        X, y, X_test, y_test, best = problem.data(seed)
        oracle.append(best)
        if seed == 0 or len(y) < 5000:  # it is slow, and varies little where data are many
            free.append(problem.non_private().fit(X, y).score(X_test, y_test))
        for i, (epsilon, _, options) in enumerate(problem.rows):
            model = problem.private(epsilon=epsilon, random_state=seed).set_params(**options)
            private[i, seed] = model.fit(X, y).score(X_test, y_test)
    return private, np.median(oracle), np.median(free)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--seeds", type=int, help="repetitions, 3 to 20 by default")
    parser.add_argument("--only", default="", help="problems whose names contain this")
    arguments = parser.parse_args()
    # The noise is reproducible so that the table is; the data are no secret.
    warnings.simplefilter("ignore", PrivacyWarning)

    start = time.perf_counter()
    print(
        f"{'problem':<20} {'eps':>4} {'median':>7} {'lowest':>7} {'target':>7} {'':<7}"
        f"{'oracle':>7} {'free':>6}  not default"
    )
    missed = 0
    for problem in PROBLEMS:
        if arguments.only not in problem.name:
            continue
        values, oracle, reference = scores(problem, arguments.seeds or problem.repetitions)
        for (epsilon, target, options), row in zip(problem.rows, values, strict=True):
            median = float(np.median(row))
            verdict = "" if target is None else "ok" if median >= target else "MISSED"
            missed += verdict == "MISSED"
            print(
                f"{problem.name:<20} {epsilon:>4g} {median:>7.3f} {row.min():>7.3f} "
                f"{target or '':>7} {verdict:<7}{'' if np.isnan(oracle) else f'{oracle:.3f}':>7} "
                f"{reference:>6.3f}  {', '.join(f'{k}={v}' for k, v in options.items())}",
                flush=True,
            )
    print("oracle: the planted model. free: a non-private fit.")
    print(f"{missed} targets missed. Took {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
