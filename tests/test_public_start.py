"""Fits that begin at a public model: the loss with an offset, results, and bad input."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from cases import costs_nothing, each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from skdpsco import (
    Ledger,
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateGridSearchCV,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    UtilityWarning,
)
from skdpsco.data import RowBlocks
from skdpsco.preprocessing import PublicBoundsScaler
from skdpsco.privacy import is_gaussian, mu_of

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (600, 4))
SCORES = X @ [3.0, -2.0, 0.0, 1.0] + 0.5
Y = SCORES + 0.1 * rng.normal(size=600)
LABELS = SCORES + rng.logistic(size=600) > 0.0
START = SimpleNamespace(coef_=np.array([2.0, -1.0, 0.5, 0.0]), intercept_=0.3)
EXACT = 1e9  # an epsilon with hardly any noise


def fitted(Model, X, y, init=START, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise that can be repeated
        return Model(**{"epsilon": EXACT, "random_state": 0, **params}).fit(X, y, init=init)


@pytest.mark.parametrize("alpha", [1.0, 500.0])
def test_the_penalty_is_that_of_the_difference(alpha):
    model = fitted(PrivateRidge, X, Y, alpha=alpha, target_bound=8.0)
    rest = Ridge(alpha=alpha).fit(X, Y - X @ START.coef_ - START.intercept_)
    assert_allclose(model.coef_, START.coef_ + rest.coef_, atol=1e-3)
    assert_allclose(model.intercept_, START.intercept_ + rest.intercept_, atol=1e-3)
    assert_allclose(model.predict(X[:5]), X[:5] @ model.coef_ + model.intercept_)
    assert any("init" in line for line in model.privacy_.assumptions)


@pytest.mark.parametrize("Model", [PrivateRidge, PrivateElasticNet])
def test_several_targets_begin_at_a_model_of_them(Model):
    both = np.column_stack([Y, -2.0 * Y + X[:, 2]])
    start = SimpleNamespace(coef_=np.outer([1.0, -2.0], START.coef_), intercept_=np.array([0.3, 0]))
    params = {"target_bound": [8.0, 20.0], "alpha": 500.0 if Model is PrivateRidge else 0.5}
    if Model is PrivateElasticNet:
        params["l1_ratio"] = 0.0
    model = fitted(Model, X, both, start, **params)
    rest = Ridge(alpha=500.0 if Model is PrivateRidge else 300.0)
    rest.fit(X, both - X @ start.coef_.T - start.intercept_)
    assert_allclose(model.coef_, start.coef_ + rest.coef_, atol=1e-3)
    assert_allclose(model.intercept_, start.intercept_ + rest.intercept_, atol=1e-3)
    assert_allclose(model.predict(X[:5]), X[:5] @ model.coef_.T + model.intercept_)
    assert any("init" in line for line in model.privacy_.assumptions)
    assert any("±16,40" in line.replace(" ", "") for line in str(model.privacy_).splitlines())
    found = fitted(Model, sparse.csr_matrix(X), both, start, **{**params, "target_bound": None})
    assert_allclose(found.coef_, model.coef_, atol=1e-3)
    with pytest.raises(ValueError, match="each of 2 classes or targets"):
        fitted(Model, X, both, START, **params)
    with pytest.raises(ValueError, match="feature_bound must be declared"):
        fitted(Model, X, both, start, feature_bound=None)


@pytest.mark.parametrize(
    ("weighted", "solver", "error"),
    [(False, "auto", 0.02), (True, "gradient-descent", 0.05), (True, "sgd", 0.05)],
)
def test_the_logistic_optimum(weighted, solver, error):
    signs, weights = 2.0 * LABELS - 1.0, WEIGHTS if weighted else np.ones(600)
    offset = X @ START.coef_ + START.intercept_

    def objective(u):
        z = offset + X @ u[:4] + u[4]
        return 0.2 * (weights * np.logaddexp(0.0, -signs * z)).sum() + 0.5 * u[:4] @ u[:4]

    best = minimize(objective, np.zeros(5), tol=1e-12).x
    model = PrivateLogisticRegression(
        epsilon=EXACT, C=0.2, classes=[False, True], max_weight=2.0, solver=solver
    )
    model.fit(X, LABELS, init=START, sample_weight=weights if weighted else None)
    assert_allclose(model.coef_[0] - START.coef_, best[:4], atol=error)
    assert_allclose(model.intercept_[0] - START.intercept_, best[4], atol=error)


MEANS = np.exp(X @ [0.8, -0.5, 0.0, 0.3] + 1.0)
NEAR = SimpleNamespace(coef_=np.array([0.5, -0.5, 0.2, 0.0]), intercept_=0.5)
LAWS = [
    (PrivatePoissonRegressor, rng.poisson(MEANS), lambda z, y: np.exp(z) - y * z),
    (PrivateGammaRegressor, MEANS * rng.gamma(4, 0.25, 600), lambda z, y: y * np.exp(-z) + z),
]


@pytest.mark.parametrize(("Model", "y", "loss"), LAWS)
@pytest.mark.parametrize("alpha", [0.1, 3.0])
@pytest.mark.parametrize("centred", [True, False])
def test_the_optimum_of_counts_and_sizes(Model, y, loss, alpha, centred, request):
    """The penalty is that of the difference, for any scale and centre of the targets."""

    def objective(u):
        z = X @ u[:4] + u[4]
        return loss(z, y).mean() + alpha / 2.0 * np.square(u[:4] - NEAR.coef_).sum()

    best = minimize(objective, np.zeros(5), tol=1e-12).x
    if not centred:
        request.getfixturevalue("as_they_are")
    model = fitted(Model, X, y, NEAR, alpha=alpha, target_bound=60.0)
    assert_allclose(model.coef_, best[:4], atol=0.02)
    assert_allclose(model.intercept_, best[4], atol=0.02)
    assert any("init" in line for line in model.privacy_.assumptions)


TWO = SimpleNamespace(coef_=np.ones((2, 4)), intercept_=np.zeros(2))
PUBLIC, PRIVATE = slice(200), slice(200, 600)
DATA = {
    PrivateRidge: (Y, {}),
    PrivateElasticNet: (Y, {"alpha": 1e-4}),
    PrivateHuberRegressor: (Y, {}),
    PrivateQuantileRegressor: (Y, {}),
    PrivatePoissonRegressor: (LAWS[0][1], {"target_bound": 60.0}),
    PrivateGammaRegressor: (LAWS[1][1], {"target_bound": 60.0}),
    PrivateLogisticRegression: (LABELS, {"classes": [False, True]}),
    PrivateLinearSVC: (LABELS, {"classes": [False, True]}),
}


def beside(Model, rows=PRIVATE, **params):
    """A fit to some records that is given the public ones."""
    y, options = DATA[Model]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # public fits say nothing
        warnings.simplefilter("ignore", UtilityWarning)
        warnings.filterwarnings("ignore", "epsilon=50 is above 20")
        model = Model(**options, **params)
        return model.fit(X[rows], y[rows], public_data=(X[PUBLIC], y[PUBLIC]))


@pytest.mark.parametrize("Model", DATA)
def test_public_records_cost_nothing_and_replace_what_units_cost(Model):
    model = beside(Model, epsilon=1.0)
    assert is_gaussian(model.privacy_.event)  # there are no draws for the scale of targets
    assert mu_of(model.privacy_.event) == pytest.approx(model._budget().mu)
    assert any("those of public_data" in line for line in str(model.privacy_).splitlines())
    ledger = Ledger(1.0, 1e-6)
    other = beside(Model, slice(300, 450), epsilon=0.9, ledger=ledger)
    (charge,) = ledger.charges()
    assert charge.rho == pytest.approx(other.privacy_.rho)
    assert charge.rho <= other._budget().rho * (1 + 1e-9)
    # Units are the same, whatever the private records are.
    assert_array_equal(other.feature_range_, model.feature_range_)
    assert (model.privacy_.epsilon, other.privacy_.epsilon) == (1.0, 0.9)


def test_bounds_are_those_of_public_records():
    wide = X * [1e-3, 1.0, 50.0, 1.0]
    model = PrivateRidge(feature_bound=None, epsilon=0.5)
    found = [
        model.fit(rows, y, public_data=(wide[PUBLIC], Y[PUBLIC])).feature_bound_
        for rows, y in ((wide[PRIVATE], Y[PRIVATE]), (9.0 * wide[300:320], Y[300:320]))
    ]
    assert_array_equal(*found)
    assert (found[0] >= 0.5 * abs(wide[PUBLIC]).max(axis=0)).all()
    assert (found[0] <= 4.0 * abs(wide[PUBLIC]).max(axis=0)).all()
    assert model.feature_bound is None


def test_public_records_with_a_model_blocks_units_pipelines_and_added_records():
    data = X[PUBLIC], LABELS[PUBLIC]
    params = {"classes": [False, True], "epsilon": 50.0, "n_iter": 5}
    expected = beside(PrivateLogisticRegression, epsilon=50.0, n_iter=5)
    blocks = RowBlocks.from_arrays(X[PRIVATE], LABELS[PRIVATE], block_size=150)
    model = PrivateLogisticRegression(**params)
    assert_allclose(model.fit(blocks, public_data=data).coef_, expected.coef_, atol=0.3)
    start = SimpleNamespace(coef_=[9.0, 9.0, 9.0, 9.0], intercept_=0.0)
    far = PrivateLogisticRegression(**{**params, "epsilon": 0.01})
    far.fit(X[PRIVATE], LABELS[PRIVATE], public_data=data, init=start)
    assert_allclose(far.coef_, [start.coef_], atol=2.0)
    added = PrivateLogisticRegression(relation="add-or-remove-one", **params)
    added.fit(X[PRIVATE], LABELS[PRIVATE], public_data=data)
    assert_allclose(added.coef_, expected.coef_, atol=0.5)
    of_units = PrivateLogisticRegression(max_records_per_unit=2, **params)
    of_units.fit(X[PRIVATE], LABELS[PRIVATE], units=np.arange(400) // 2, public_data=data)
    assert of_units.privacy_.relation == "replace one unit of at most 2 records"
    steps = make_pipeline(PublicBoundsScaler(-1, 1), model)
    steps.fit(X[PRIVATE], LABELS[PRIVATE], privatelogisticregression__public_data=data)
    assert steps.score(X, LABELS) > 0.8
    search = PrivateGridSearchCV(model, {"C": [0.1, 1.0]}, epsilon=50.0)
    search.fit(X[PRIVATE], LABELS[PRIVATE], public_data=data)
    assert search.score(X, LABELS) > 0.8


def test_several_targets_begin_at_public_records():
    both = np.column_stack([Y, -Y])
    model = PrivateRidge(epsilon=3.0, target_bound=8.0)
    model.fit(X[PRIVATE], both[PRIVATE], public_data=(X[PUBLIC], both[PUBLIC]))
    assert model.score(X, both) > 0.8
    model.set_params(epsilon=0.1, target_bound=None)  # each has the units of its residuals
    model.fit(
        X[PRIVATE], both[PRIVATE] * [1.0, 30.0], public_data=(X[PUBLIC], both[PUBLIC] * [1.0, 30.0])
    )
    assert model.score(X, both * [1.0, 30.0]) > 0.5


BAD_PUBLIC = [
    (PrivateRidge, X, "public_data must be a pair"),
    (PrivateRidge, (X[:1], Y[:1]), "A fit to public_data is impossible"),
    (PrivateRidge, (X[:9], Y[:8]), "public_data"),
    (PrivateRidge, (X[:9] * np.nan, Y[:9]), "A fit to public_data is impossible"),
    (PrivateRidge, (X[:, :3], Y), "one coefficient for each of 4 columns"),
    (PrivateLasso, (X, Y), "init must be None for this fit"),
    (PrivateLinearSVC, (X, Y > 99.0), "A fit to public_data is impossible"),
]


@each(("Model", "data", "message"), BAD_PUBLIC)
def test_public_records_that_are_refused(Model, data, message):
    y = LABELS if Model is PrivateLinearSVC else Y
    costs_nothing(Model(), message, X, y, public_data=data)


PARTS = np.array([[1.0, -1.0, 0.0, 0.5], [0.0, 1.0, -0.5, 0.0], [-1.0, 0.0, 0.5, -0.5]])
THREE = SimpleNamespace(coef_=PARTS, intercept_=np.array([0.2, 0.0, -0.1]))
CLASS = (X @ (2.0 * PARTS).T + rng.gumbel(size=(600, 3))).argmax(axis=1)
WEIGHTS = rng.uniform(0.0, 2.0, 600)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("factors", [None, {1: 3.0}])
def test_the_optimum_of_several_classes(weights, factors):
    """And of records with weights: the penalty is that of the difference."""
    offset, C = X @ PARTS.T + THREE.intercept_, 0.05
    each = (1.0 if weights is None else weights) * np.where(
        CLASS == 1, 3.0 if factors else 1.0, 1.0
    )

    def objective(u):
        U = u.reshape(3, 5)
        z = offset + X @ U[:, :4].T + U[:, 4]
        losses = logsumexp(z, axis=1) - z[np.arange(600), CLASS]
        return C * (each * losses).sum() + 0.5 * np.square(U[:, :4]).sum()

    best = minimize(objective, np.zeros(15), tol=1e-10).x.reshape(3, 5)
    params = {"C": C, "class_weight": factors, "classes": [0, 1, 2], "max_weight": 2.0}
    model = PrivateLogisticRegression(epsilon=EXACT, **params)
    model.fit(X, CLASS, init=THREE, sample_weight=weights)
    assert_allclose(model.coef_ - PARTS, best[:, :4], atol=0.02)
    both = model.intercept_ - THREE.intercept_ - best[:, 4]
    assert_allclose(both - both.mean(), 0.0, atol=0.03)  # a common shift changes nothing


def test_one_against_the_rest_begins_at_a_model():
    public = fitted(PrivateLinearSVC, X, CLASS, init=None)
    model = fitted(PrivateLinearSVC, X, CLASS, init=public, epsilon=1e-3, delta=1e-9)
    assert_allclose(model.coef_, public.coef_, atol=0.3)  # with hardly any budget it stays there
    near = fitted(PrivateLinearSVC, X, CLASS, init=THREE, C=100.0)
    assert_allclose(near.coef_, fitted(PrivateLinearSVC, X, CLASS, None, C=100.0).coef_, atol=0.05)


def test_classifiers_begin_at_a_model_in_blocks():
    for y, init in ((LABELS, START), (CLASS, THREE)):
        params = {"classes": np.unique(y), "epsilon": 50.0, "n_iter": 5}
        blocks = RowBlocks.from_arrays(X, y, block_size=200)
        again = fitted(PrivateLogisticRegression, blocks, None, init, **params)
        expected = fitted(PrivateLogisticRegression, X, y, init, **params)
        assert_allclose(again.coef_, expected.coef_, rtol=1e-6)


@pytest.mark.parametrize("Model", [PrivateElasticNet, PrivateHuberRegressor])
def test_regressions_find_the_same_coefficients_from_anywhere(Model):
    params = {"alpha": 1e-6, "target_bound": 8.0}
    models = [fitted(Model, X, Y, init=init, **params) for init in (None, START)]
    assert_allclose(models[1].coef_, models[0].coef_, atol=0.03)
    assert_allclose(models[1].coef_, [3.0, -2.0, 0.0, 1.0], atol=0.03)


def test_names_of_columns_are_compared():
    frame = pd.DataFrame(X, columns=list("abcd"))
    public = Ridge().fit(frame, Y)
    fitted(PrivateRidge, frame, Y, init=public)
    fitted(PrivateRidge, X, Y, init=public)
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ValueError, match="in the same order"):
        fitted(PrivateRidge, frame[list("bacd")], Y, init=public, ledger=ledger, epsilon=0.1)
    assert ledger.spent().rho == 0.0


def begun(coef, intercept=0.0, **more):
    return SimpleNamespace(coef_=coef, intercept_=intercept, **more)


NOT_FOR_IT = "init must be None for this fit"
OTHER_CLASSES = begun(np.zeros((1, 4)), classes_=[1, 2])
BLOCKS = RowBlocks([lambda: (X, Y)], 600, 4)
MOMENTS = PrivateMoments(target_bound=8.0).fit(X, Y)
CONSTANT = {"fit_intercept": False}


@each(
    ("Model", "records", "y", "init", "params", "message"),
    [
        (PrivateLasso, X, Y, START, {}, NOT_FOR_IT),
        (PrivateLinearRegressor, X, Y, START, {}, NOT_FOR_IT),
        (PrivatePoissonRegressor, X, abs(Y), START, CONSTANT, "intercept of 0"),
        (PrivateGammaRegressor, X, abs(Y), TWO, {}, "of one target"),
        (PrivateRidge, BLOCKS, None, START, {}, NOT_FOR_IT),
        (PrivateRidge, MOMENTS, None, START, {}, NOT_FOR_IT),
        (PrivateRidge, X, Y, LogisticRegression(), {}, "fitted linear model"),
        (PrivateRidge, X, Y, TWO, {}, "of one target"),
        (PrivateRidge, X[:, :3], Y, START, {}, "one coefficient for each of 3 columns"),
        (PrivateRidge, X, Y, START, {"feature_bound": None}, "feature_bound must be declared"),
        (PrivateRidge, X, Y, begun(np.full(4, np.nan)), {}, "Numbers of init"),
        (PrivateRidge, X, Y, begun(1.0), {}, "a vector or one row"),
        (PrivateRidge, X, Y, begun([*"abcd"]), {}, "of real numbers"),
        (PrivateLogisticRegression, X, np.digitize(Y, [-1, 1]), START, {}, "each of 3 classes"),
        (PrivateLinearSVC, X, LABELS, START, {"solver": "coordinate-descent"}, "solver must be"),
        (PrivateLinearSVC, X, LABELS, START, CONSTANT, "an intercept of 0"),
        (PrivateLinearSVC, X, LABELS, OTHER_CLASSES, {}, "the same classes"),
        (PrivateLinearSVC, X, LABELS, begun(TWO.coef_, np.zeros(3)), {}, "a number for each"),
    ],
)
def test_what_is_refused(Model, records, y, init, params, message):
    costs_nothing(Model(**params), message, records, y, init=init)


@pytest.mark.parametrize(
    "params", [{"solver": "coordinate-descent"}, {"standard_errors": True}, {}], ids=str
)
def test_public_centres_of_sparse_records_are_for_solvers_that_read_them(monkeypatch, params):
    """Others would take rows without the centre for the records, and add too little noise."""
    follow, seen = PrivateRidge._follow, []

    def spied(self, solver, plan, problem, design, *data):
        seen.append((type(design).__name__, getattr(solver, "reads_centred", False)))
        return follow(self, solver, plan, problem, design, *data)

    monkeypatch.setattr(PrivateRidge, "_follow", spied)
    model = PrivateRidge(epsilon=30.0, target_bound=10.0, feature_bound=3.0, **params)
    model.fit(sparse.csr_matrix(X), Y, public_data=(X[:200], Y[:200]))
    assert seen[-1] == (("CSR", False) if params else ("CentredCSR", True))
    assert model.score(X, Y) > 0.9
