"""`PrivateLinearClassifier` and `PrivateLinearRegressor`: mistakes, and that they cost nothing."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from cases import each
from scipy import sparse
from test_bad_input import (
    BAD_CLASSES,
    BAD_TARGET_BOUNDS,
    BAD_X,
    BAD_Y,
    INF,
    NAN,
    ONE_OF_EACH,
    D,
    N,
    X,
    Y,
    predictions,
    refuses,
)
from test_linear_model_lp import BOTH, OneGradient, fitted

from skdpsco import Ledger, PrivateLinearClassifier, PrivateLinearRegressor
from skdpsco.losses import Hinge, Logistic, Multinomial, SmoothHinge, derivative, value
from skdpsco.solvers import PhasedERM, PhasedSGD

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

LEGAL = ("epsilon", "delta", "feature_bound", "n_iter", "fit_intercept", "random_state")
POSITIVE = r"in the range \(0(\.0)?, inf\)"
COUNT = r"n_samples.* in the range \[1, 9007199254740992\]"
PARAMETERS = [
    *(case for case in ONE_OF_EACH if case[0] in LEGAL),
    ("feature_bound", "found", "feature_bound.* in the range"),
    *(
        ("p", v, r"p.* in the range \[1(\.0)?, inf\]")
        for v in (NAN, -INF, 0, 0.99, -2, "2", None, [2])
    ),
    ("p", True, r"p must be a number in \[1, inf\], got True"),
    *(
        ("p", v, r"p must be 1, in \[1 \+ 2\*\*-40, 2\*\*40\] or inf, got " + got)
        for v, got in ((1.0 + 1e-15, r"1\.0+1"), (1e13, "1"), (10**400, "1"))
    ),
    *(
        ("radius", v, "radius.* " + POSITIVE)
        for v in (NAN, INF, 0, -1, "automatic", None, 1j, [1.0])
    ),
    ("radius", True, "radius must be a positive number, got True"),
    ("radius", 1e300, r"radius must be in \[1e-100, 1e\+100\], got 1e\+300"),
    *(("row_norm", v, "row_norm.* " + POSITIVE) for v in (NAN, INF, 0, -1, "auto", 1j, [1.0])),
    ("row_norm", True, "row_norm must be a positive number, got True"),
    ("row_norm", 1e-300, r"row_norm must be in \[1e-100, 1e\+100\], got 1e-300"),
    ("row_norm", 10**400, r"row_norm must be in \[1e-100, 1e\+100\], got 1000"),
    *(("solver", v, "solver.*'phased-sgd'.*'plan' and 'run'") for v in ("sgd", None, 3, object())),
    ("solver", PhasedSGD, r"solver must be an instance, PhasedSGD\(\)"),
    *(("n_samples", v, COUNT) for v in (0, -1, 40.0, NAN, INF, "40", [40], 2**60, 10**400)),
    ("n_samples", True, r"n_samples must be None or an int in \[1, 9007199254740992\], got True"),
    ("n_samples", 39, "n_samples must be None or the number of records in X, 40; got 39"),
    *(("shuffle", v, "shuffle.*'bool'") for v in ("yes", 1, None)),
    *(
        ("loss", v, "loss.*'lipschitz' and 'smoothness'")
        for v in ("log", None, 3, object(), (1, 2))
    ),
    ("loss", Hinge, r"loss must be an instance, Hinge\(\.\.\.\), not a class"),
]


@BOTH
@each(("name", "value", "match"), PARAMETERS)
def test_parameters(Estimator, name, value, match):
    message = refuses(Estimator(**{name: value}), match)
    assert "array([[" not in message


@each(("value", "match"), BAD_TARGET_BOUNDS)
def test_target_bound(value, match):
    refuses(PrivateLinearRegressor(target_bound=value), match)


@each(("value", "match"), BAD_CLASSES)
def test_classes(value, match):
    refuses(PrivateLinearClassifier(classes=value), match)


@BOTH
@each(
    "params",
    [
        {"radius": 1e60, "feature_bound": 1e60},
        {"radius": 1e-60, "feature_bound": 1e-60},
        {"radius": 1e60, "feature_bound": [1, 1, 1e60, 1]},
    ],
)
def test_products_of_bounds(Estimator, params):
    refuses(Estimator(**params), r"radius \* max\(feature_bound\) must be in \[1e-100, 1e\+100\]")


@pytest.mark.parametrize(("radius", "target_bound"), [(1e60, 1e-60), (1e-60, 1e60)])
def test_quotients_of_bounds(radius, target_bound):
    model = PrivateLinearRegressor(radius=radius, target_bound=target_bound)
    refuses(model, r"radius \* max\(feature_bound\) / target_bound must be in \[1e-100, 1e\+100\]")


@BOTH
def test_too_small_a_budget(Estimator):
    refuses(Estimator(epsilon=1e-9, delta=1e-12), "epsilon=1e-09 is too small with delta=1e-12")


# --- losses


class Vector(NamedTuple):
    """Two predictions for each record."""

    n_outputs = 2

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return 1.0

    def smoothness(self):
        return 1.0


class Steep(NamedTuple):
    """Declares half of its slope."""

    n_outputs = 1

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return 0.5

    def smoothness(self):
        return 1.0


class Bare(NamedTuple):
    """Has no kernels."""

    n_outputs = 1
    lipschitz = Steep.lipschitz
    smoothness = Steep.smoothness


@value.register(Steep)
def _(loss, z, y):
    return math.sqrt(1.0 + (z - y) ** 2)


@derivative.register(Steep)
def _(loss, z, y):
    return (z - y) / math.sqrt(1.0 + (z - y) ** 2)


@BOTH
@each("loss", [Vector(), Steep(), Bare()])
def test_losses_of_users_are_probed(Estimator, loss):
    refuses(Estimator(loss=loss), f"loss.*{type(loss).__name__}|{type(loss).__name__}.*loss")


@each("loss", [Logistic(), SmoothHinge(), Hinge(), Multinomial(2)])
def test_losses_of_labels(loss):
    refuses(PrivateLinearRegressor(loss=loss), "loss=.* is not for PrivateLinearRegressor")


@each("loss", ["hinge", "smooth-hinge", Logistic(), Multinomial(2)])
def test_losses_of_several_classes(loss):
    match = r"With 3 classes loss must be 'logistic' or Multinomial\(3\), got "
    refuses(PrivateLinearClassifier(loss=loss), match, y=np.arange(N) % 3)
    refuses(PrivateLinearClassifier(loss=loss, classes=[0, 1, 2]), match)


def test_losses_of_two_classes():
    match = "With 2 classes loss must be of one prediction, got Multinomial"
    refuses(PrivateLinearClassifier(loss=Multinomial(2)), match)


@BOTH
@each("solver", ["phased-sgd", "tree-frank-wolfe", "one-pass-frank-wolfe"])
def test_solvers_that_need_a_smooth_loss(Estimator, solver):
    loss = "hinge" if Estimator is PrivateLinearClassifier else "absolute"
    refuses(Estimator(loss=loss, solver=solver, p=1.0), "smooth")


@BOTH
def test_solvers_that_need_vertices(Estimator):
    match = r"solver='one-pass-frank-wolfe' needs the vertices of an l1 ball, p=1; got p=2\.0"
    refuses(Estimator(solver="one-pass-frank-wolfe"), match)


# --- data


@BOTH
@each("case", BAD_X)
def test_X(Estimator, case):
    bad, match = BAD_X[case]
    if case == "words":
        bad = [list(row) for row in bad]
    refuses(Estimator(), match, X=bad)


@BOTH
@each("case", BAD_Y)
def test_y(Estimator, case):
    bad, match, of_classifiers = BAD_Y[case]
    if Estimator is PrivateLinearClassifier and of_classifiers != "same":
        match = of_classifiers
    if match is None:
        assert np.isfinite(Estimator(solver=OneGradient()).fit(X, bad).coef_).all()
    else:
        refuses(Estimator(), match, y=bad)


@BOTH
def test_sparse_entries_whose_sum_is_infinite(Estimator):
    indptr, zeros = np.arange(0, 2 * N + 1, 2), np.zeros(2 * N, dtype=int)
    bad = sparse.csr_matrix((np.full(2 * N, 1e308), zeros, indptr), shape=(N, D))
    refuses(Estimator(), "duplicate entries whose sum is infinite", X=bad)


@BOTH
def test_arguments_of_fit(Estimator):
    refuses(Estimator(), "sample_weight is not supported", sample_weight=np.ones(N))
    refuses(Estimator(), r"unexpected arguments \['groups'\]", groups=1)


@BOTH
def test_a_mistake_costs_nothing(Estimator):
    ledger = Ledger(1.0, 1e-6)
    for params in ({"p": 0.5}, {"radius": -1.0}, {"n_samples": 3}, {"solver": "none"}):
        with pytest.raises(ValueError, match=next(iter(params))):
            Estimator(ledger=ledger, **params).fit(X, Y)
    assert ledger.charges() == []


@BOTH
@pytest.mark.parametrize("solver", [OneGradient(), PhasedERM(), "auto"])
def test_hardly_any_records(Estimator, solver):
    """A fit, or a sentence that says how many records are needed."""
    params = {"classes": [0, 1]} if Estimator is PrivateLinearClassifier else {}
    for n in (1, 2, 5):
        model = Estimator(solver=solver, **params)
        try:
            model.fit(X[:n], Y[:n])
        except ValueError as error:
            assert f"{n} records" in str(error)  # noqa: PT017
        else:
            assert np.isfinite(model.predict(X)).all()


@BOTH
@each("value", [0.0, 1e-320, 3.0, 1e308])
def test_constant_columns(Estimator, value):
    assert np.isfinite(fitted(Estimator, np.full_like(X, value), Y).coef_).all()


@BOTH
def test_predictions(Estimator):
    model = Estimator(solver=OneGradient()).fit(X, Y)
    for name in ["predict"] if Estimator is PrivateLinearRegressor else predictions(Estimator):
        with pytest.raises(ValueError, match="X has 3 features"):
            getattr(model, name)(X[:, :3])
        with pytest.raises(ValueError, match="NaN"):
            getattr(model, name)(np.full((2, D), NAN))
