"""Second opinions on `audit`: which mistakes three audits find, in fits of known epsilon.

Every estimator claims epsilon = 1 and is fitted with 1, 4, 16 or 64, as if its noise were too
small. The audits are

- `skdpsco.inspection.audit`: a lower bound on epsilon from fits of two neighbours;
- the hockey-stick test of DP-Auditorium (Kong et al., 2023): a lower bound on delta at the claimed
  epsilon, from as many fits, half of which train a classifier. The package is not on PyPI: put
  python/dp_auditorium of github.com/google/differential-privacy on PYTHONPATH, and install
  tensorflow and google-vizier. Without it, the column says nan;
- canaries within one fit (Steinke, Nasr and Jagielski, 2023): each of 400 records is alone in its
  column, and its target is drawn by a coin. The surest quarter of signs of coefficients is guessed.

"One Gaussian number" is the clearest release that there is for its epsilon: what an audit misses
there, it misses everywhere. **Convicted** is bold. All levels are 99 %.

python examples/benchmarks/second_opinions.py [--n-fits 300] [--only NAME ...]
"""

import argparse
import contextlib
import io
import math

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator, clone, is_classifier

from skdpsco import (
    Budget,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateRidge,
)
from skdpsco.inspection import audit
from skdpsco.linear_model import PrivateHuberRegressor

try:
    from dp_auditorium.configs import privacy_property
    from dp_auditorium.configs import property_tester_config as configs
    from dp_auditorium.testers import hockey_stick_tester
except ImportError:
    hockey_stick_tester = None

CLAIM, DELTA, LEVEL = 1.0, 1e-6, 0.99
TRUE = (1.0, 4.0, 16.0, 64.0)
N, N_CANARIES, N_EPOCHS = 40, 400, 50


class OneGaussianNumber(BaseEstimator):
    """A coefficient of every column, the sum of its signed targets, with Gaussian noise."""

    def __init__(self, epsilon=1.0, delta=1e-6, random_state=None):
        self.epsilon, self.delta, self.random_state = epsilon, delta, random_state

    def fit(self, X, y):
        rng = np.random.default_rng(self.random_state)
        noise = 2.0 / Budget(self.epsilon, self.delta).mu
        self.coef_ = X.T @ y + noise * rng.standard_normal(X.shape[1])
        return self


BALL = {"target_bound": 1.0, "feature_bound": 1.0, "fit_intercept": False}
LABELS = {"classes": [-1, 1], "feature_bound": 1.0, "fit_intercept": False}
ESTIMATORS = {
    "one Gaussian number": OneGaussianNumber(),
    "PrivateRidge": PrivateRidge(**BALL),
    "PrivateHuberRegressor": PrivateHuberRegressor(**BALL),
    "PrivateLogisticRegression": PrivateLogisticRegression(**LABELS),
    "PrivateLinearSVC": PrivateLinearSVC(**LABELS),
    "PrivateLogisticL1": PrivateLogisticL1(**LABELS),
}


def neighbours(estimator):
    """Records of one column, and the targets of two data sets that differ in the first."""
    X = np.where(np.arange(N) < 1, 1.0, 0.0)[:, None]
    y = np.where(np.arange(N) % 2, 1, -1)
    y = y if is_classifier(estimator) else y.astype(float)
    other = y.copy()
    other[0] = -y[0]
    return X, y, other


def by_audit(estimator, n_fits):
    """A lower bound on epsilon, and whether it exceeds the claim."""
    X, y, other = neighbours(estimator)
    options = {"neighbour": {"y": other}, "relation": "replace-one", "confidence": LEVEL}
    found = audit(estimator, X, y, epsilon=CLAIM, delta=DELTA, n_fits=n_fits, **options)
    return found.epsilon_lower, found.epsilon_lower > CLAIM


def by_auditorium(estimator, n_fits):
    """A lower bound on delta at the claimed epsilon, and whether it exceeds the claim."""
    if hockey_stick_tester is None:
        return None
    X, y, other = neighbours(estimator)
    first, second = (
        np.array([np.ravel(clone(estimator).fit(X, t).coef_) for _ in range(n_fits)])
        for t in (y, other)
    )
    scale = first.std() + 1e-9
    training = hockey_stick_tester.make_default_hs_training_config()
    training.training_epochs = N_EPOCHS
    guarantee = privacy_property.ApproximateDp(CLAIM, DELTA)
    tester = hockey_stick_tester.HockeyStickPropertyTester(
        configs.HockeyStickPropertyTesterConfig(training, guarantee),
        hockey_stick_tester.make_default_hs_base_model(),
    )
    with contextlib.redirect_stdout(io.StringIO()):  # a bar for every evaluation
        bound = tester.estimate_lower_bound(first / scale, second / scale, 1.0 - LEVEL)
    return bound, tester.reject_property(bound)


def level_of_guesses(n_canaries, n_guesses, n_right, epsilon, delta):
    """The probability of as many right guesses, at most, if (epsilon, delta) holds.

    Theorem 5.2 of Steinke, Nasr and Jagielski (2023).
    """
    right = stats.binom(n_guesses, 1.0 / (1.0 + math.exp(-epsilon)))
    below = np.cumsum(right.pmf(n_right - np.arange(1, n_right + 1)))
    extra = max((below / np.arange(1, n_right + 1)).max(initial=0.0), 0.0)
    return right.sf(n_right - 1) + 2.0 * n_canaries * delta * extra


def by_canaries(estimator, n_fits):
    """A lower bound on epsilon from a single fit, and whether it exceeds the claim."""
    coins = np.where(np.random.default_rng().random(N_CANARIES) < 0.5, -1, 1)
    y = coins if is_classifier(estimator) else coins.astype(float)
    w = np.ravel(clone(estimator).fit(np.eye(N_CANARIES), y).coef_)
    surest = np.argsort(-np.abs(w))[: N_CANARIES // 4]
    n_right = int((np.sign(w[surest]) == coins[surest]).sum())
    low, high = 0.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2.0
        level = level_of_guesses(N_CANARIES, len(surest), n_right, middle, DELTA)
        low, high = (middle, high) if level < 1.0 - LEVEL else (low, middle)
    return low, low > CLAIM


AUDITS = {
    "audit: epsilon at least": by_audit,
    "DP-Auditorium: delta at least": by_auditorium,
    "one fit: epsilon at least": by_canaries,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n-fits", type=int, default=300)
    parser.add_argument("--only", nargs="*", default=list(ESTIMATORS))
    options = parser.parse_args()
    print(f"claimed: epsilon = {CLAIM:g}, delta = {DELTA:g}; {options.n_fits} fits of each\n")
    print(f"| estimator | true epsilon | {' | '.join(AUDITS)} |\n|---|---|{'---|' * len(AUDITS)}")
    for name in options.only:
        for epsilon in TRUE:
            estimator = clone(ESTIMATORS[name]).set_params(epsilon=epsilon, delta=DELTA)
            cells = []
            for method in AUDITS.values():
                bound, convicted = method(estimator, options.n_fits) or (math.nan, False)
                cells.append(f"**{bound:.2f}**" if convicted else f"{max(bound, 0.0):.2f}")
            print(f"| {name} | {epsilon:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
