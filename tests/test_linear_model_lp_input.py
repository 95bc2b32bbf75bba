"""`PrivateLinearClassifier` and `PrivateLinearRegressor`: mistakes, and that they cost nothing."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from cases import each
from test_bad_input import (
    INF,
    NAN,
    ONE_OF_EACH,
    N,
    X,
    Y,
    refuses,
)
from test_linear_model_lp import BOTH

from skdpsco import Ledger, PrivateLinearClassifier, PrivateLinearRegressor
from skdpsco.losses import Hinge, Logistic, Multinomial, SmoothHinge, derivative, value
from skdpsco.solvers import PhasedSGD

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


@pytest.mark.parametrize(("radius", "target_bound"), [(1e60, 1e-60), (1e-60, 1e60)])
def test_quotients_of_bounds(radius, target_bound):
    model = PrivateLinearRegressor(radius=radius, target_bound=target_bound)
    refuses(model, r"radius \* max\(feature_bound\) / target_bound must be in \[1e-100, 1e\+100\]")


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
def test_a_mistake_costs_nothing(Estimator):
    ledger = Ledger(1.0, 1e-6)
    for params in ({"p": 0.5}, {"radius": -1.0}, {"n_samples": 3}, {"solver": "none"}):
        with pytest.raises(ValueError, match=next(iter(params))):
            Estimator(ledger=ledger, **params).fit(X, Y)
    assert ledger.charges() == []
