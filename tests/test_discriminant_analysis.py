"""Linear discriminant analysis, and moments of classes."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scikit_learn_checks import scikit_learn_checks
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import log_loss

from skdpsco import (
    Ledger,
    PrivateLinearDiscriminantAnalysis,
    PrivateMoments,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.data.design import as_design
from skdpsco.moments import release
from skdpsco.moments.class_moments import differences, pooled_covariance
from skdpsco.moments.release import ONE
from skdpsco.moments.table_sums import TableSums
from skdpsco.privacy import Budget

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


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
def test_blocks_are_arrays():
    X, y = classed(900)
    params = {"epsilon": 4.0, "classes": [0, 1, 2], "feature_bound": 8.0, "random_state": 0}
    for rows in (X, sparse.csr_matrix(X)):
        blocks = RowBlocks.from_arrays(rows, y, block_size=200)
        ours, expected = (
            PrivateLinearDiscriminantAnalysis(**params).fit(*data) for data in ((blocks,), (X, y))
        )
        assert ours.coef_ == pytest.approx(expected.coef_, rel=1e-6)
        moments = PrivateMoments(**params).fit(blocks).moments_
        assert moments.names[4:] == ("y=0", "y=1", "y=2")


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


def test_covariances_are_shrunk_as_far_as_they_are_noise():
    """Towards independent columns; with hardly any noise, and many records, not at all."""
    X, y = classed(20000, 2)
    exact = np.cov(X.T, bias=True)
    options = {"feature_bound": 8.0, "classes": [0, 1]}
    features = PrivateMoments(epsilon=1e6, **options).fit(X, y)._released.features_alone()
    assert pooled_covariance(features, False) == pytest.approx(exact, abs=0.01)
    assert pooled_covariance(features, True) == pytest.approx(np.diag(exact.diagonal()), abs=0.01)
    errors = []
    for _ in range(20):
        X = np.random.default_rng(1).normal(size=(1000, 12))
        moments = PrivateMoments(epsilon=1.0, **options).fit(X, np.arange(1000) % 2)._released
        features = moments.features_alone()
        found = pooled_covariance(features, False)
        assert np.linalg.eigvalsh(found).min() > 0.0
        units = np.outer(features.noise[0], features.noise[0])
        beside = ~np.eye(12, dtype=bool)
        sizes = [np.square((one / units)[beside]).sum() for one in (found, features.covariance)]
        errors.append(sizes[0] / sizes[1])
    assert np.mean(errors) < 0.2


def test_the_covariance_of_one_column_is_its_variance():
    """Also where a difference of equal numbers, as the square is of a sum of one, is rounded."""
    for variance in np.random.default_rng(0).uniform(0.1, 1.0, 20_000):
        matrix, noise = np.array([[variance]]), (np.ones(1), 0.01)
        features = SimpleNamespace(n_features=1, n_samples=3, noise=noise, covariance=matrix)
        assert pooled_covariance(features, False) == pytest.approx(matrix)


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


def test_one_charge_and_what_is_said():
    X, y = classed(3000)
    ledger = Ledger(2.0, 1e-5)
    model = PrivateLinearDiscriminantAnalysis(
        delta=1e-6, ledger=ledger, classes=[0, 1, 2], feature_bound=8.0
    ).fit(X, y)
    (charge,) = ledger.charges()
    assert charge.rho == pytest.approx(Budget(1.0, 1e-6).rho, rel=1e-9)
    assert any("3 labels are public (declared)" in line for line in model.privacy_.assumptions)
    assert not any("targets" in line for line in model.privacy_.assumptions)
    unknown = PrivateLinearDiscriminantAnalysis(epsilon=30.0, feature_bound=None).fit(X, y)
    assert unknown.feature_bound_.shape == (4,)
    assert unknown.score(X, y) > 0.5


def test_one_record_moves_the_matrix_by_what_is_charged():
    """For all replacements of a record and its label, in units of rows of norm 1."""
    c = np.sqrt(5.0)
    matrices = []
    for x in itertools.product((-1.0, 0.0, 1e9), repeat=2):
        for label in range(3):
            rows = np.vstack([[*x, *np.eye(3)[label]], [0.2, -0.4, 0.0, 1.0, 0.0]])
            sums = TableSums(as_design(rows, np.ones(5), False), np.zeros(2), np.ones(5))
            matrices.append(sums.matrix(np.zeros(5), np.ones(5), c, ONE))
    changes = [np.linalg.norm(one - other) for one, other in itertools.combinations(matrices, 2)]
    assert max(changes) <= np.sqrt(2.0) * (1.0 + ONE**2) * (1.0 + 1e-12)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("apart", [0.0, 3.0])
@pytest.mark.filterwarnings("ignore::skdpsco._random.UtilityWarning")
def test_fits_are_no_worse_than_the_frequent_label(covariance, apart):
    """At epsilon 1/2 with 500 records; and a larger budget makes up for the noise."""
    medians = []
    for epsilon in (0.5, 2.0, 50.0):
        gains = []
        for seed in range(25):
            X, y = classed(2500, 3, 5, seed, apart)
            model = PrivateLinearDiscriminantAnalysis(
                epsilon=epsilon, covariance=covariance, classes=[0, 1, 2], feature_bound=6.0
            ).fit(X[:500], y[:500])
            gains.append(model.score(X[500:], y[500:]) - np.bincount(y[500:]).max() / 2000)
        medians.append(np.median(gains))
    assert min(medians) > -0.04
    assert medians[2] > (-0.02 if apart == 0.0 else 0.2)


@pytest.mark.parametrize(("d", "k"), [(1, 0), (2, 3), (20, 1), (400, 2), (3, 30)])
def test_targets_are_stretched_by_what_costs_least_noise(d, k):
    def cost(u):
        return (d + k * u) ** 2 * (1.0 / u + release.MATRIX.feature_noise)

    u = release._stretch(d, k) ** 2
    assert u >= 1.0
    if k > 0:
        assert cost(u) <= cost(1.01 * u)
        assert cost(u) <= cost(max(0.99 * u, 1.0))


@pytest.mark.filterwarnings("ignore::skdpsco._random.UtilityWarning")
def test_more_budget_does_not_hurt_with_many_columns():
    """Where columns get scales of their own, accuracy fell from .71 to .68; it is .74."""
    scores = []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        X = rng.random((7000, 100))
        z = (X - 0.5) @ (rng.normal(size=100) / np.sqrt(np.arange(1, 101)))
        y = (2.0 * z / z.std() + rng.logistic(size=7000) > 0.0).astype(int)
        model = PrivateLinearDiscriminantAnalysis(epsilon=2.0, classes=[0, 1])
        scores.append(model.fit(X[:4000], y[:4000]).score(X[4000:], y[4000:]))
    assert np.median(scores) > 0.71


@pytest.mark.filterwarnings("ignore::skdpsco._random.UtilityWarning")
def test_noise_does_not_make_classes_look_apart():
    """Ten digits at epsilon 2: a loss of 1.3 with deviations of .24; it was 3.4 with .42."""
    X, y = load_digits(return_X_y=True)
    model = PrivateLinearDiscriminantAnalysis(epsilon=2.0, classes=range(10))
    losses = [log_loss(y, model.fit(X, y).predict_proba(X)) for _ in range(5)]
    assert np.mean(losses) < np.log(10.0)  # that of equal probabilities


def test_bad_input_costs_nothing():
    X, y = classed(300)
    ledger = Ledger(9.0, 1e-5)
    model = PrivateLinearDiscriminantAnalysis(ledger=ledger, classes=[0, 1, 2])
    for labels in (np.full(300, 7), np.column_stack([y, y]), y[:-1], None):
        with pytest.raises(ValueError, match=r"y |labels|samples"):
            model.fit(X, labels)
    blocks = RowBlocks.from_arrays(X, y, block_size=100)
    with pytest.raises(ValueError, match="classes must be declared"):
        clone(model).set_params(classes=None).fit(blocks)
    with pytest.raises(ValueError, match="labels that are not among"):
        clone(model).set_params(classes=[0, 1]).fit(blocks)
    with pytest.raises(ValueError, match="y must be None"):
        model.fit(PrivateMoments(classes=[0, 1, 2], epsilon=30.0).fit(X, y), y)
    assert ledger.charges() == []


@scikit_learn_checks(PrivateLinearDiscriminantAnalysis(epsilon=100.0))
@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning", "ignore::skdpsco.PrivacyWarning")
def test_scikit_learn_s_checks(estimator, check):
    check(estimator)
