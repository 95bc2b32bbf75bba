"""Fairlearn's reductions around a private model: every fit is charged."""

import numpy as np
import pytest

from skdpsco import Ledger, PrivateLogisticRegression

reductions = pytest.importorskip("fairlearn.reductions", reason="fairlearn is not installed")
GridSearch, ExponentiatedGradient = reductions.GridSearch, reductions.ExponentiatedGradient
DemographicParity = reductions.DemographicParity


# fairlearn 0.15 sets values of a Series in ways that pandas 3 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:Setting a:DeprecationWarning")
N = 1000
GROUP = (np.arange(N) % 4 == 0).astype(int)
rng = np.random.default_rng(0)
X = np.column_stack([rng.uniform(-1, 1, (N, 2)), 2.0 * GROUP - 1.0])
Y = (X[:, 0] + 0.8 * GROUP + rng.logistic(0.0, 0.3, N) > 0.4).astype(int)


def reduction(kind, estimator, constraints):
    if kind is GridSearch:
        return GridSearch(estimator, constraints, grid_size=3)
    return ExponentiatedGradient(estimator, constraints, max_iter=3)


@pytest.mark.parametrize("kind", [GridSearch, ExponentiatedGradient])
def test_every_fit_is_charged(kind):
    ledger = Ledger(epsilon=100.0, delta=1e-4)
    model = PrivateLogisticRegression(epsilon=1.0, classes=[0, 1], max_weight=5.0, ledger=ledger)
    fitted = reduction(kind, model, DemographicParity()).fit(X, Y, sensitive_features=GROUP)
    n_fits = 3 if kind is GridSearch else fitted.n_oracle_calls_
    assert len(ledger.charges()) == n_fits >= 3
    assert all(part.privacy_.epsilon == 1.0 for part in fitted.predictors_)
    assert set(fitted.predict(X)) <= {0, 1}
