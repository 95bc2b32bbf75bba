"""Fairlearn's reductions around a private model: what they charge, and what they do not protect."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skdpsco import Ledger, PrivateLogisticRegression

reductions = pytest.importorskip("fairlearn.reductions", reason="fairlearn is not installed")
GridSearch, ExponentiatedGradient = reductions.GridSearch, reductions.ExponentiatedGradient
DemographicParity = reductions.DemographicParity
TruePositiveRateParity = reductions.TruePositiveRateParity

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


class Recorder(LogisticRegression):
    """A model that remembers which weights it was given."""

    seen = []

    def fit(self, X, y, sample_weight=None):
        Recorder.seen.append(np.asarray(sample_weight))
        return super().fit(X, y, sample_weight)


def weights_of_others(kind, constraints, x, label):
    """Weights of all records but one, in every fit, where that one has these values."""
    Recorder.seen, values, labels = [], X.copy(), Y.copy()
    values[0, :2], labels[0] = x, label
    reduction(kind, Recorder(), constraints()).fit(values, labels, sensitive_features=GROUP)
    return [weights[1:] for weights in Recorder.seen]


@pytest.mark.parametrize(
    ("kind", "constraints", "own"),
    [
        (GridSearch, DemographicParity, True),
        (GridSearch, TruePositiveRateParity, False),  # it counts the labels of each group
        (ExponentiatedGradient, DemographicParity, False),  # it looks at its predictions
    ],
)
def test_whether_a_weight_follows_from_its_own_record(kind, constraints, own):
    """If not, what one record changes is more than the inner fits are private for."""
    pairs = zip(
        weights_of_others(kind, constraints, [0.9, -0.9], 0),
        weights_of_others(kind, constraints, [-0.9, 0.9], 1),
        strict=False,
    )
    assert all(np.array_equal(*pair) for pair in pairs) == own
