"""PrivateMonotoneGLM: the equation that it solves, links, and what users and their tools see."""

import numpy as np
import pytest
from cases import each
from scipy.optimize import brentq, least_squares
from scipy.special import expit, ndtr
from sklearn.base import clone

from skdpsco import PrivateMonotoneGLM
from skdpsco.linear_model import Link

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
SOLVERS = pytest.mark.parametrize("solver", ["gradient-descent", "mirror-prox"])


def capped(z):
    """Counts: the exponential function, up to 5."""
    return np.exp(np.minimum(z, np.log(5.0)))


# Function, range, and parameters.
LINKS = {
    "logistic": (expit, 0.0, 1.0, {"link": "logistic"}),
    "probit": (ndtr, 0.0, 1.0, {"link": "probit"}),
    "ramp": (lambda z: np.clip(z + 0.5, 0, 1), 0.0, 1.0, {"link": "ramp"}),
    "identity": (lambda z: z.clip(-4, 4), -4.0, 4.0, {"link": "identity", "target_bound": 4.0}),
    "capped": (capped, 0.0, 5.0, {"link": Link(capped, 0.0, 5.0)}),
}
EACH = pytest.mark.parametrize("name", LINKS)
COEF = np.array([1.5, -1.0, 0.5])


def data(name, n=600, seed=0):
    """Features far from normal, and targets that are not quite those of the model."""
    g, low, high, params = LINKS[name]
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    X[: n // 3, 2] = X[: n // 3, 2] > 0.5
    X[n // 3 : n // 2] *= 0.5
    y = g(X @ COEF + 0.2 * X[:, 0] ** 2) + 0.1 * rng.normal(size=n)
    return X, np.clip(y, low, high), params


def model(**params):
    return PrivateMonotoneGLM(**{"epsilon": 10.0, "random_state": 0, **params})


def weights(fitted):
    return np.append(fitted.coef_, fitted.intercept_)


# ------------------------------------------------------------------------------ the equation


@EACH
@pytest.mark.parametrize(("solver", "n_iter", "error"), [
    ("gradient-descent", "auto", 1e-4), ("mirror-prox", 1000, 0.12)
])  # fmt: skip
def test_without_noise_the_root_is_found(name, solver, n_iter, error):
    """The mean of the steps of mirror prox comes closer in proportion to their number.

    For the identity, descent sees one more record of the target 0 for every feature.
    """
    error = 1e-2 if (name, solver) == ("identity", "gradient-descent") else error
    X, y, params = data(name, 600 if solver == "gradient-descent" else 200)
    g, A = LINKS[name][0], np.column_stack([X, np.ones(len(X))])
    root = least_squares(
        lambda w: A.T @ (g(A @ w) - y) / len(y), np.zeros(4), xtol=1e-14, ftol=1e-14, gtol=1e-14
    )
    assert np.abs(root.fun).max() < 1e-9
    options = {"solver": solver, "n_iter": n_iter, "feature_bound": 1.0}
    found = model(**params, epsilon=1e9, **options).fit(X, y)
    assert weights(found) == pytest.approx(root.x, abs=error)
    exact = g(A @ weights(found))
    assert found.predict(X) == pytest.approx(exact, abs=1e-2 if name == "capped" else 1e-12)


@pytest.mark.parametrize("solver", ["gradient-descent", "mirror-prox"])
@pytest.mark.parametrize("radius", [10.0, 0.8])
def test_the_identity_is_least_squares_in_a_ball(solver, radius):
    """Mirror prox ends at the minimum in the ball, descent at the point next to that without it."""
    X, y, _ = data("identity")
    X, y = X - X.mean(axis=0), 0.7 * y  # no prediction exceeds the bound

    def ridge(multiplier):
        return np.linalg.solve(X.T @ X + multiplier * np.eye(3), X.T @ y)

    inside = np.linalg.norm(ridge(0.0)) <= radius
    assert inside == (radius == 10.0)
    w = ridge(0.0 if inside else brentq(lambda m: np.linalg.norm(ridge(m)) - radius, 0.0, 1e4))
    descends = solver == "gradient-descent"
    if descends:  # and one more record of every feature, at its bound
        w = ridge(4.0) * min(1.0, radius / np.linalg.norm(ridge(4.0)))
    found = model(
        link="identity", target_bound=2.0, feature_bound=2.0, epsilon=1e9, solver=solver,
        n_iter="auto" if descends else 1000, radius=radius, fit_intercept=False,
    ).fit(X, y)  # fmt: skip
    assert np.linalg.norm(found.coef_) <= radius * (1 + 1e-9)
    assert found.coef_ == pytest.approx(w, abs=1e-3 if descends else 2e-2)
    assert found.intercept_ == 0.0


@SOLVERS
def test_units(solver):
    """Bounds of features, range and argument of a link are units: the fit is the same in all."""
    X, y, _ = data("probit")
    common = {"solver": solver, "n_iter": 20, "epsilon": 50.0}
    probit = model(link="probit", feature_bound=1.0, **common)
    plain = clone(probit).fit(X, y)
    units = np.array([4.0, 0.5, 2.0])
    link = Link(lambda z: 3.0 + 8.0 * ndtr(z / 16.0), 3.0, 11.0)
    other = model(link=link, feature_bound=units, **common).fit(X * units, 3.0 + 8.0 * y)
    assert other.coef_ * units == pytest.approx(16.0 * plain.coef_, rel=1e-3, abs=1e-3)
    assert other.intercept_ == pytest.approx(16.0 * plain.intercept_, abs=1e-3)
    # What lies beyond the bounds is clipped.
    y[:50], X[:50, 1] = 1.0, -1.0
    far = X.copy(), y.copy()
    far[0][:50, 1], far[1][:50] = -1e90, 1e90
    fits = [clone(probit).fit(*records) for records in ((X, y), far)]
    assert np.array_equal(weights(fits[0]), weights(fits[1]))


# ------------------------------------------------------------------------------ links


def test_the_intercept_is_outside_of_the_ball_of_descent():
    X, y, _ = data("logistic", 4000)
    found = model(radius=0.1, feature_bound=1.0).fit(X, np.maximum(y, 0.9))
    assert np.linalg.norm(found.coef_) <= 0.1 * (1 + 1e-9)
    assert found.intercept_ > 1.5


@SOLVERS
@pytest.mark.filterwarnings("ignore:target_bound=")
def test_the_range_of_the_identity_is_found(solver):
    """Far from 0, with a generous bound or none; the fitted link is that of predictions."""
    X, z, _ = data("identity", 4000)
    y = 1e6 + 10.0 * z
    for params in ({}, {"target_bound": 2.0**20}):
        params |= {"solver": solver, "n_iter": 10}
        found = model(link="identity", **params).fit(X, y)
        low, high = found.link_.low, found.link_.high
        assert 1e6 - 200.0 < low < y.min() + 20.0
        assert y.max() - 20.0 < high < 1e6 + 200.0
        assert found.predict(1e9 * X).max() <= high
        again = model(link=found.link_, solver=solver, n_iter=10).fit(X, y)
        assert max(-again.link_.low, again.link_.high) <= high
        if solver == "gradient-descent":
            assert min(fit.score(X, y) for fit in (found, again)) > 0.9


def test_a_link_of_ones_own_is_used():
    X, y, _ = data("probit")
    own = model(link=Link(ndtr, 0, 1)).fit(X, y)
    named = model(link="probit").fit(X, y)
    assert np.array_equal(weights(own), weights(named))
    assert repr(Link(capped, 0, 5)) == "Link(capped, low=0, high=5)"
    assert "link=Link(capped, low=0, high=5)" in repr(model(link=Link(capped, 0, 5)))
    ends = Link(expit, 0, 1)(np.array([[np.nan, -np.inf], [np.inf, 1e308]]))
    assert ends == pytest.approx(np.array([[0.5, 0.0], [1.0, 1.0]]))
    again = model(link=named.link_).fit(X, y)
    assert np.array_equal(again.predict(X), named.predict(X))


BAD_LINKS = [
    (("logit", 0, 1), TypeError, "function must be callable"),
    ((expit, True, 1), TypeError, "low must be a finite number, got True"),
    ((expit, 0, "1"), TypeError, "high must be a finite number, got '1'"),
    ((expit, np.nan, 1), ValueError, "low must be in"),
    ((expit, 0, np.inf), ValueError, "high must be in"),
    ((expit, 1, 0), ValueError, "low must be less than high"),
    ((lambda z: -expit(z), -1, 0), ValueError, "function must not decrease"),
    ((lambda z: expit(z) + 0.1 * np.sin(z), -1, 2), ValueError, "function must not decrease"),
    ((expit, 0.1, 1), ValueError, "function must stay within low=0.1 and high=1: at -1"),
    ((np.exp, 0, 1), ValueError, "function must be finite: at 7"),
    ((lambda z: np.exp(z) / (1 + np.exp(z)), 0, 1), ValueError, r"must be finite.* is nan"),
    ((np.sign, -1, 1), ValueError, "function must be continuous, but jumps"),
    ((lambda z: 0 * z, 0, 1), ValueError, "function must not be constant"),
    ((lambda z: expit(z)[:-1], 0, 1), ValueError, "function must return one real number"),
    ((lambda z: expit(z).astype(str), 0, 1), ValueError, "function must return one real number"),
    ((lambda z: expit(z) + 0j, 0, 1), ValueError, "function must return one real number"),
]


@each(("arguments", "kind", "message"), BAD_LINKS)
def test_bad_links(arguments, kind, message):
    with pytest.raises(kind, match=message):
        Link(*arguments)
