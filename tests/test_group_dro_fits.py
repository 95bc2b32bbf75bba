"""Group DRO by default: what it finds without noise and with it."""

import numpy as np
import pytest
from sklearn.base import clone

from skdpsco import PrivateGroupDRO, PrivateLogisticL1
from skdpsco.group_dro import worst_group_score

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning"),
]
NOISELESS = {"epsilon": 5e9, "delta": 1e-6, "random_state": 0}
SIZES = np.array([60, 240, 700])


# ------------------------------------------------------------------------------ without noise


def data(loss, seed=0, d=3):
    """Groups that disagree, differ in their features too, and are far from normal."""
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1, 2], SIZES)
    X = rng.uniform(-1, 1, (len(group), d))
    X[group == 0, 2] = X[group == 0, 2] > 0.5
    X[group == 1] *= 0.6
    coef = np.array([[2.0, 1.0, -1.0], [-2.0, 1.0, 0.5], [2.0, 1.5, 0.0]])[group]
    z = (X * coef).sum(axis=1) + 0.3 * (group == 0)
    if loss == "logistic":
        return X, rng.random(len(z)) < 1 / (1 + np.exp(-z)), group
    return X, np.clip(0.2 * z + 0.1 * rng.normal(size=len(z)), -1, 1), group


def exact(loss, X, y, group, cap, average_weight, radius):
    """The optimum, by cvxpy."""
    import cvxpy as cp

    w, b, t = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    z = X @ w + b
    each = cp.logistic(-cp.multiply(2.0 * y - 1, z)) if loss == "logistic" else (z - y) ** 2 / 2
    means = cp.hstack([cp.sum(each[group == g]) / SIZES[g] for g in range(3)])
    average = cp.sum(each) / len(y)
    worst = (1 - average_weight) * (t + cap @ cp.pos(means - t)) + average_weight * average
    problem = cp.Problem(cp.Minimize(worst), [cp.norm(w) <= radius])
    problem.solve()
    return problem.value


def largest_mean(means, cap):
    """The largest mixture of means whose weights are below a cap."""
    order, left = np.argsort(-means), 1.0
    total = 0.0
    for g in order:
        weight = min(cap[g], left)
        total, left = total + weight * means[g], left - weight
    return total


@pytest.mark.parametrize(
    ("loss", "objective", "average_weight"),
    [
        ("logistic", "worst", 0.0),
        ("logistic", "worst", 0.3),
        ("logistic", "cvar", 0.0),
        ("logistic", "average", 0.0),
        ("squared", "worst", 0.3),
        ("squared", "cvar", 0.0),
    ],
)
def test_without_noise_the_worst_mixture_is_minimised(loss, objective, average_weight):
    X, y, group = data(loss)
    shares = SIZES / SIZES.sum()
    cap = {"worst": np.ones(3), "cvar": np.minimum(shares / 0.4, 1), "average": shares}[objective]
    best = exact(loss, X, y, group, cap, average_weight, 10.0)
    model = PrivateGroupDRO(
        loss=loss,
        objective=objective,
        average_weight=average_weight,
        cvar_level=0.4,
        **NOISELESS,
    ).fit(X, y, sensitive_features=group)
    z = X @ np.ravel(model.coef_) + model.intercept_
    each = np.logaddexp(0, -(2.0 * y - 1) * z) if loss == "logistic" else (z - y) ** 2 / 2
    means = np.array([each[group == g].mean() for g in range(3)])
    value = (1 - average_weight) * largest_mean(means, cap) + average_weight * each.mean()
    assert best * (1 - 1e-6) <= value <= 1.02 * best
    assert model.group_weights_.sum() == pytest.approx(1.0)
    assert (model.group_weights_ >= average_weight * shares - 1e-9).all()


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_units(loss):
    """Feature bounds and target bounds are units: the fit is the same in all of them."""
    X, y, group = data(loss)
    params = {"loss": loss, "epsilon": 50.0, "random_state": 0}
    declared = {"feature_bound": 1.0, "target_bound": 1.0}
    model = PrivateGroupDRO(**params, **declared).fit(X, y, sensitive_features=group)
    units, scale = np.array([4.0, 0.5, 2.0]), 1.0 if loss == "logistic" else 8.0
    other = PrivateGroupDRO(**params, feature_bound=units, target_bound=scale)
    other.fit(X * units, y if loss == "logistic" else y * scale, sensitive_features=group)
    assert other.coef_ * units == pytest.approx(model.coef_ * scale)
    assert other.intercept_ == pytest.approx(model.intercept_ * scale)
    # What lies beyond the bounds is clipped: wherever it is, the fit is the same.
    X, y = X.copy(), np.array(y)
    X[:100, 1], far = 1.0, X.copy()
    far[:100, 1] = 1e90
    model = PrivateGroupDRO(**params, feature_bound=1.0)
    fits = [clone(model).fit(Z, y, sensitive_features=group) for Z in (X, far)]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)


# ------------------------------------------------------------------------------ with noise


def planted(n, d, rng, share=0.05, minority=-3.4):
    """A minority for which the first feature means the opposite."""
    group = (rng.random(n) < share).astype(int)
    X = rng.uniform(-1, 1, (n, d))
    v = 0.9 ** np.arange(d - 1) * (-1.0) ** np.arange(d - 1)
    z = 2.2 * np.sqrt(3) * X[:, 1:] @ v / np.linalg.norm(v)
    z += np.where(group == 1, minority, -minority) * X[:, 0]
    return X, rng.random(n) < 1 / (1 + np.exp(-z)), group


def test_planted_conflict():
    """Worst-group accuracy exceeds that of private ERM by 15 points (it is 19 to 23)."""
    train = planted(50_000, 20, np.random.default_rng(0))
    X, y, group = planted(40_000, 20, np.random.default_rng(1), share=0.5)
    for seed in range(3):
        common = {"epsilon": 1.0, "classes": [False, True], "random_state": seed}
        robust = PrivateGroupDRO(**common, groups=[0, 1])
        robust.fit(*train[:2], sensitive_features=train[2])
        plain = PrivateLogisticL1(**common).fit(*train[:2])
        worst = [worst_group_score(m, X, y, sensitive_features=group) for m in (robust, plain)]
        assert worst[0] > 0.68
        assert worst[0] - worst[1] > 0.15
        assert robust.group_weights_ == pytest.approx([0.5, 0.5], abs=0.1)
