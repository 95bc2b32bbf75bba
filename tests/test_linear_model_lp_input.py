"""`PrivateLinearClassifier` and `PrivateLinearRegressor`: mistakes, and that they cost nothing."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from cases import each
from test_bad_input import (
    N,
    refuses,
)
from test_linear_model_lp import BOTH

from skdpsco import PrivateLinearClassifier, PrivateLinearRegressor
from skdpsco.losses import Hinge, Logistic, Multinomial, SmoothHinge, derivative, value

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")


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


@BOTH
@each("solver", ["phased-sgd", "tree-frank-wolfe", "one-pass-frank-wolfe"])
def test_solvers_that_need_a_smooth_loss(Estimator, solver):
    loss = "hinge" if Estimator is PrivateLinearClassifier else "absolute"
    refuses(Estimator(loss=loss, solver=solver, p=1.0), "smooth")


@BOTH
def test_solvers_that_need_vertices(Estimator):
    match = r"solver='one-pass-frank-wolfe' needs the vertices of an l1 ball, p=1; got p=2\.0"
    refuses(Estimator(solver="one-pass-frank-wolfe"), match)
