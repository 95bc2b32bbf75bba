"""Linear discriminant analysis, and moments of classes."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import log_loss

from skdpsco import Ledger, PrivateLinearDiscriminantAnalysis, PrivateMoments, PrivateRidge
from skdpsco.moments.class_moments import differences, pooled_covariance

WIDE = {"epsilon": 1e6, "feature_bound": 8.0}


def classed(n, n_classes=3, d=4, seed=0, apart=1.5):
    """Normal classes of one covariance, of which the first is the largest."""
    rng = np.random.default_rng(seed)
    means = apart * np.random.default_rng(9).normal(size=(n_classes, d)) / np.sqrt(d)
    p = np.arange(n_classes, 0.0, -1.0)
    y = rng.choice(n_classes, n, p=p / p.sum())
    mixed = np.eye(d)
    mixed[1:, 0] = 0.5
    return means[y] + rng.normal(size=(n, d)) @ mixed, y


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("priors", [None, "equal"])
def test_without_noise_the_model_is_that_of_scikit_learn(n_classes, priors):
    X, y = classed(3000, n_classes)
    names = np.array(["a", "b", "c"])[y]
    priors = None if priors is None else np.full(n_classes, 1.0 / n_classes)
    expected = LinearDiscriminantAnalysis("lsqr", priors=priors).fit(X, names)
    options = {"classes": ["b", "a", "c"][:n_classes], **WIDE}
    for rows in (X, sparse.csr_matrix(X)):
        model = PrivateLinearDiscriminantAnalysis(priors=priors, **options).fit(rows, names)
        assert model.classes_.tolist() == ["a", "b", "c"][:n_classes]
        assert model.means_ == pytest.approx(expected.means_, abs=0.01)
        assert model.priors_ == pytest.approx(expected.priors_, abs=1e-4)
        # With given priors, scikit-learn weighs the covariances of classes by them.
        tolerance = 0.01 if priors is None else 0.05
        assert model.predict_proba(X) == pytest.approx(expected.predict_proba(X), abs=tolerance)
    assert model.coef_.shape == expected.coef_.shape
    assert model.to_sklearn().predict_proba(X) == pytest.approx(model.predict_proba(X))
    within = sum(np.cov(X[y == k].T, bias=True) * (y == k).mean() for k in range(n_classes))
    if priors is None:
        assert model.covariance_ == pytest.approx(within, abs=0.01)


def test_weights_of_classes_multiply_their_probabilities():
    X, y = classed(4000)
    moments = PrivateMoments(classes=[0, 1, 2], **WIDE).fit(X, y)
    plain = PrivateLinearDiscriminantAnalysis().fit(moments)
    model = PrivateLinearDiscriminantAnalysis(class_weight={2: 6}).fit(moments)
    expected = plain.priors_ * [1, 1, 6]
    np.testing.assert_allclose(model.priors_, expected / expected.sum(), rtol=1e-12)
    assert (model.predict(X) == 2).sum() > (plain.predict(X) == 2).sum()


def test_a_diagonal_covariance_is_naive_bayes():
    X, y = classed(3000)
    model = PrivateLinearDiscriminantAnalysis(covariance="diagonal", **WIDE).fit(X, y)
    within = sum(X[y == k].var(axis=0) * (y == k).mean() for k in range(3))
    assert model.covariance_ == pytest.approx(np.diag(within), abs=0.01)
    scores = [
        np.log((y == k).mean()) - 0.5 * ((X - X[y == k].mean(axis=0)) ** 2 / within).sum(axis=1)
        for k in range(3)
    ]
    found = model.decision_function(X)
    expected = np.column_stack(scores)
    assert found - found[:, :1] == pytest.approx(expected - expected[:, :1], abs=0.1)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.filterwarnings("ignore::skdpsco._random.UtilityWarning")
def test_differences_of_classes_are_as_noisy_as_is_said(n_classes):
    """Classes that do not differ: squares of what is found, over the variance of their noise."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (600, 40)), np.arange(600) % n_classes
    ratios = []
    for _ in range(8):
        moments = PrivateMoments(classes=range(n_classes)).fit(X, y).moments_
        total = pooled_covariance(moments.features_alone(), False)
        unit = moments.noise[0][:40]
        values, U = np.linalg.eigh(total / np.outer(unit, unit))
        white = (U / np.sqrt(values)).T / unit
        shares = np.full(n_classes, 1 / n_classes)
        found, noise = differences(moments, white, values, shares)
        ratios.append(np.square(found) / noise)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.3)  # 4 standard deviations


def test_fits_to_moments_cost_nothing():
    X, y = classed(3000)
    ledger = Ledger(2e6, 1e-5)
    moments = PrivateMoments(classes=[0, 1, 2], ledger=ledger, **WIDE).fit(X, y)
    assert moments.moments_.names == ("x0", "x1", "x2", "x3", "y=0", "y=1", "y=2")
    assert moments.moments_.classes.tolist() == [0, 1, 2]
    model = PrivateLinearDiscriminantAnalysis(ledger=ledger).fit(moments)
    assert [charge.rho > 0.0 for charge in ledger.charges()] == [True, False]
    assert model.privacy_.rho == 0.0
    expected = LinearDiscriminantAnalysis().fit(X, y)
    assert (model.predict(X) == expected.predict(X)).mean() > 0.99
    some = moments.select([0, 2])
    fewer = PrivateLinearDiscriminantAnalysis().fit(some)
    expected = LinearDiscriminantAnalysis().fit(X[:, [0, 2]], y)
    assert (fewer.predict(X[:, [0, 2]]) == expected.predict(X[:, [0, 2]])).mean() > 0.99
    merged = moments + PrivateMoments(classes=[0, 1, 2], **WIDE).fit(X, y)
    assert PrivateLinearDiscriminantAnalysis().fit(merged).score(X, y) > 0.5
    assert PrivateRidge().fit(moments.select(target="y=1")).coef_.shape == (4,)
    for other in (moments.select(target="x0"), moments.select(target=["y=0", "y=1"])):
        assert other.classes is None
        with pytest.raises(ValueError, match="moments of classes"):
            PrivateLinearDiscriminantAnalysis().fit(other)


@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
def test_few_records_give_no_sure_probabilities():
    losses = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1300, 10))
        y = X @ rng.normal(size=10) + rng.logistic(size=1300) > 0
        model = PrivateLinearDiscriminantAnalysis(classes=[False, True], epsilon=0.1)
        p = model.fit(X[:300], y[:300]).predict_proba(X[300:])
        losses.append(log_loss(y[300:], p, labels=[False, True]))
    assert np.mean(losses) < np.log(2.0) + 0.2  # it was 1.0 to 1.3
