"""DP-EBM of InterpretML at its defaults: boosted curves of single columns.

It has two kinds of releases, counts of bins and sums of residuals, and takes the sensitivities of a
record that is added or removed. A replaced record moves counts by sqrt(2), and a sum by twice as
much, since both residuals can be in the same bin. So it is given the epsilon of its own with which
2 mu_1**2 + 4 mu_2**2 is the mu**2 of the budget. "DP-EBM, added record" is given the budget itself.
It handles two classes and regressions.
"""

from functools import partial

import numpy as np

from field import elsewhere
from field.methods import Method

BINS = 0.1  # share of epsilon; delta is halved


def fitted(columns, test, domains, y, y_range, epsilon, delta):
    """Predictions, in the environment of InterpretML."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    ranges = {j: tuple(d) for j, d in enumerate(domains) if not isinstance(d[0], str)}
    X, X_test = (np.column_stack([x.astype(object) for x in part]) for part in (columns, test))
    public = {
        "feature_types": ["continuous" if j in ranges else "nominal" for j in range(len(domains))],
        "privacy_bounds": ranges,
        "epsilon": epsilon,
        "delta": delta,
        "n_jobs": 1,
    }
    if y_range is None:
        model = DPExplainableBoostingClassifier(**public).fit(X, y)
        probabilities = model.predict_proba(X_test)
        return {"labels": probabilities.argmax(axis=1), "probabilities": probabilities}
    low, high = y_range
    model = DPExplainableBoostingRegressor(
        privacy_target_min=low, privacy_target_max=high, **public
    ).fit(X, y)
    return {"values": model.predict(X_test)}


def own_epsilon(budget):
    """The epsilon with which DP-EBM protects a replaced record."""
    from scipy.optimize import brentq

    from skdpsco.privacy import Budget  # the environment of InterpretML does not have it

    def excess(epsilon):
        bins, sums = (
            Budget(share * epsilon, budget.delta / 2.0).mu for share in (BINS, 1.0 - BINS)
        )
        return 2.0 * bins**2 + 4.0 * sums**2 - budget.mu**2

    return brentq(excess, 1e-3 * budget.epsilon, 2.0 * budget.epsilon)


def run(replaced, problem, budget, rng):
    return elsewhere.call(
        *("ebm", "interpret_ebm", "fitted", problem.frame, problem.frame_test),
        *([*problem.domains.values()], problem.y, problem.y_range),
        *(own_epsilon(budget) if replaced else budget.epsilon, budget.delta),
    )


METHODS = {
    "DP-EBM": Method(("binary", "regression"), partial(run, True), True, "ebm", splits=3),
    "DP-EBM, added record": Method(
        ("binary", "regression"), partial(run, False), True, "ebm", splits=1, weaker=True
    ),
}
