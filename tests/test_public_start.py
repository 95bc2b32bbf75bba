"""Fits that begin at a public model: the loss with an offset, results, and bad input."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.linalg import norm
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge

from skdpsco import (
    Ledger,
    PrivateElasticNet,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
)
from skdpsco.data import RowBlocks
from skdpsco.losses import Logistic, SmoothHinge, curvature, derivative, is_proven, value
from skdpsco.losses.library import Offset
from skdpsco.solvers import GradientDescent

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (600, 4))
SCORES = X @ [3.0, -2.0, 0.0, 1.0] + 0.5
Y = SCORES + 0.1 * rng.normal(size=600)
LABELS = SCORES + rng.logistic(size=600) > 0.0
START = SimpleNamespace(coef_=np.array([2.0, -1.0, 0.5, 0.0]), intercept_=0.3)
SOLVERS = (GradientDescent(), "gradient-descent")  # as it is given, and shrunk
EXACT = 1e9  # an epsilon with hardly any noise


def fitted(Model, X, y, init=START, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise that can be repeated
        return Model(**{"epsilon": EXACT, "random_state": 0, **params}).fit(X, y, init=init)


@pytest.mark.parametrize("loss", [Logistic(), SmoothHinge(0.5)], ids=str)
def test_an_offset_moves_predictions(loss):
    offset, signs = Offset(loss, 3.0), np.array([-1.0, 1.0])
    assert is_proven(offset)
    for number in (-3.0, -1.25, 0.0, 0.5, 3.0):
        for sign, target in zip(signs, offset.targets(signs, np.full(2, number)), strict=True):
            for z in np.linspace(-6.0, 6.0, 25):
                for kernel in (value, derivative, curvature):
                    assert kernel(offset, z, target) == kernel(loss, z + number, sign)
                assert abs(derivative(offset, z, target)) <= offset.lipschitz()
            assert value(offset, 0.0, target) <= offset.baseline()
    # Numbers of records are clipped.
    assert offset.targets(signs, np.array([9.0, -np.inf])).tolist() == [-9.0, 3.0]


def test_an_offset_trusts_its_loss_as_much_as_it_is_trusted():
    class Own(Logistic):
        pass

    assert not is_proven(Offset(Own()))


@pytest.mark.parametrize("alpha", [1.0, 500.0])
def test_the_penalty_is_that_of_the_difference(alpha):
    model = fitted(PrivateRidge, X, Y, alpha=alpha, target_bound=8.0)
    rest = Ridge(alpha=alpha).fit(X, Y - X @ START.coef_ - START.intercept_)
    assert_allclose(model.coef_, START.coef_ + rest.coef_, atol=1e-3)
    assert_allclose(model.intercept_, START.intercept_ + rest.intercept_, atol=1e-3)
    assert_allclose(model.predict(X[:5]), X[:5] @ model.coef_ + model.intercept_)
    assert any("init" in line for line in model.privacy_.assumptions)


def test_the_logistic_optimum():
    signs = 2.0 * LABELS - 1.0
    offset = X @ START.coef_ + START.intercept_

    def objective(u):
        z = offset + X @ u[:4] + u[4]
        return np.logaddexp(0.0, -signs * z).sum() / 600 + u[:4] @ u[:4] / (2.0 * 0.2 * 600)

    best = minimize(objective, np.zeros(5), tol=1e-12).x
    model = fitted(PrivateLogisticRegression, X, LABELS, C=0.2, classes=[False, True])
    assert_allclose(model.coef_[0] - START.coef_, best[:4], atol=0.02)
    assert_allclose(model.intercept_[0] - START.intercept_, best[4], atol=0.02)


@pytest.mark.parametrize("Model", [PrivateElasticNet, PrivateHuberRegressor])
def test_regressions_find_the_same_coefficients_from_anywhere(Model):
    params = {"alpha": 1e-6, "target_bound": 8.0}
    models = [fitted(Model, X, Y, init=init, **params) for init in (None, START)]
    assert_allclose(models[1].coef_, models[0].coef_, atol=0.03)
    assert_allclose(models[1].coef_, [3.0, -2.0, 0.0, 1.0], atol=0.03)


@pytest.mark.parametrize(
    ("Model", "y"),
    [
        (PrivateQuantileRegressor, Y),
        (PrivateLogisticRegression, LABELS),
        (PrivateLinearSVC, LABELS),
    ],
)
def test_noise_does_not_lead_away(Model, y):
    wide = np.hstack([X, np.zeros((600, 36))])
    init = SimpleNamespace(coef_=np.zeros(40), intercept_=0.0)
    # With nothing but noise a James-Stein factor is small: 1 - 40 / 40, up to the noise's noise.
    steps = [norm(fitted(Model, wide, y, init, epsilon=0.02, solver=s).coef_) for s in SOLVERS]
    assert 0.0 <= steps[1] < 0.6 * steps[0]


@pytest.mark.parametrize(("Model", "y"), [(PrivateRidge, Y), (PrivateLogisticRegression, LABELS)])
def test_dense_is_sparse_and_features_are_clipped(Model, y):
    wide = X.copy()
    wide[:50] *= 3.0
    params = {"conditioning": None, "epsilon": 1e6}
    dense = fitted(Model, np.clip(wide, -1, 1), y, **params)
    assert_allclose(fitted(Model, wide, y, **params).coef_, dense.coef_, atol=1e-9)
    by_rows = fitted(Model, sparse.csr_matrix(wide), y, **params)
    assert_allclose(by_rows.coef_, dense.coef_, atol=1e-6)


def test_names_of_columns_are_compared():
    frame = pd.DataFrame(X, columns=list("abcd"))
    public = Ridge().fit(frame, Y)
    fitted(PrivateRidge, frame, Y, init=public)
    fitted(PrivateRidge, X, Y, init=public)
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ValueError, match="in the same order"):
        fitted(PrivateRidge, frame[list("bacd")], Y, init=public, ledger=ledger, epsilon=0.1)
    assert ledger.spent().rho == 0.0


TWO = SimpleNamespace(coef_=np.ones((2, 4)), intercept_=np.zeros(2))


@pytest.mark.parametrize(
    ("Model", "records", "y", "init", "params", "message"),
    [
        (PrivateLasso, X, Y, START, {}, "init must be None for this fit"),
        (PrivatePoissonRegressor, X, abs(Y), START, {}, "init must be None for this fit"),
        (
            PrivateRidge,
            RowBlocks([lambda: (X, Y)], 600, 4),
            None,
            START,
            {},
            "init must be None for this fit",
        ),
        (PrivateRidge, X, Y, LogisticRegression(), {}, "fitted linear model"),
        (PrivateRidge, X, Y, TWO, {}, "of one target"),
        (PrivateRidge, X[:, :3], Y, START, {}, "one coefficient for each of 3 columns"),
        (PrivateRidge, X, Y, START, {"feature_bound": None}, "feature_bound must be declared"),
        (
            PrivateRidge,
            X,
            Y,
            SimpleNamespace(coef_=np.full(4, np.nan), intercept_=0.0),
            {},
            "Numbers of init",
        ),
        (
            PrivateRidge,
            X,
            Y,
            SimpleNamespace(coef_=np.zeros(4), intercept_=np.nan),
            {},
            "Numbers of init",
        ),
        *(
            (PrivateRidge, X, Y, SimpleNamespace(coef_=coef, intercept_=0.0), {}, message)
            for coef, message in (
                (1.0, "a vector coef_"),
                ([], "one coefficient for each"),
                (None, "of real numbers"),
                (np.full(4, 1j), "of real numbers"),
                (list("abcd"), "of real numbers"),
            )
        ),
        (PrivateLogisticRegression, X, np.digitize(Y, [-1, 1]), START, {}, "more than two classes"),
        (PrivateLogisticRegression, X, LABELS, START, {"class_weight": {True: 2.0}}, "weights"),
        (PrivateLogisticRegression, X, LABELS, START, {"solver": "moments"}, "does not take"),
    ],
)
def test_what_is_refused(Model, records, y, init, params, message):
    ledger = Ledger(2.0, 1e-5)
    with pytest.raises((ValueError, TypeError), match=message):
        Model(**params, ledger=ledger).fit(records, y, init=init)
    assert ledger.charges() == []


def test_moments_are_refused():
    moments = PrivateMoments(target_bound=8.0).fit(X, Y)
    with pytest.raises(ValueError, match="init must be None for this fit"):
        PrivateRidge().fit(moments, init=START)
