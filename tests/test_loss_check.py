"""The check of a user's own loss: what it lets pass, and which mistakes it finds."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from cases import each

from skdpsco._kernels import inner
from skdpsco.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Quantile,
    SmoothHinge,
    Squared,
    derivative,
    value,
)
from skdpsco.losses.check import check_loss


@pytest.mark.parametrize(
    "loss",
    [
        Hinge(),
        Absolute(),
        *(Quantile(level=q) for q in (0.1, 0.5, 0.95)),
        Squared(),
        *(Squared(clip=c) for c in (1e-3, 0.7, 1e3)),
        *(Huber(delta=d) for d in (1e-3, 1.35, 50.0)),
        Logistic(),
        *(SmoothHinge(width=w) for w in (1e-4, 0.3, 1.0, 9.0)),
    ],
    ids=str,
)
def test_check_accepts_the_losses_of_the_library(loss):
    check_loss(loss)
    check_loss(loss, targets=(-1.0, 1.0))


class Own(NamedTuple):
    """Logistic loss with mistakes to choose from."""

    slope: float = 1.0
    shift: float = 0.0
    steepest: float = 1.0
    bend: float = 0.25
    jump: float = 0.0

    n_outputs = 1

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return self.steepest

    def smoothness(self):
        return self.bend


@value.register(Own)
def _(loss, z, y):
    m = y * z
    bent = max(z - 0.777, 0.0) * loss.jump
    return max(-m, 0.0) + math.log1p(math.exp(-abs(m))) + bent


@derivative.register(Own)
def _(loss, z, y):
    s = -loss.slope * y / (1.0 + math.exp(y * z)) + loss.shift  # overflows in Python, far away
    return s + (loss.jump if z > 0.777 else 0.0)


def test_check_accepts_a_good_loss():
    check_loss(Own())
    check_loss(Own(jump=0.5, steepest=1.5, bend=math.inf))


@each(
    ("loss", "match"),
    [
        (Own(slope=1.1, steepest=2.0, bend=2.0), "it is not that of the value"),
        (Own(slope=0.99), "it is not that of the value"),
        (Own(slope=-1.0, bend=2.0), "is not convex.*derivative falls from"),
        (Own(shift=0.01, steepest=2.0), "it is not that of the value"),
        (Own(steepest=0.9), r"the derivative at z=.* is .*, and lipschitz\(.*\) is 0.9"),
        (Own(bend=0.2), r"faster than smoothness\(\)=0.2"),
        (Own(jump=1e-3, bend=100.0, steepest=2.0), r"faster than smoothness\(\)=100"),
        (Own(jump=-0.5), "is not convex"),
        (Own(steepest=math.nan), r"lipschitz\(.*\) must be a number >= 0, or inf, got nan"),
        (Own(bend=-1.0), r"smoothness\(\) must be a number >= 0, or inf, got -1.0"),
        (Own(bend=None), r"smoothness\(\) must be a number >= 0, or inf, got None"),
        (Own(shift=math.inf), "derivative at z=.*must be finite, got inf"),
        (Own(shift=math.nan), "derivative at z=.*must be finite, got nan"),
    ],
)
def test_check_finds_mistakes(loss, match):
    with pytest.raises(ValueError, match=rf"^Own.*{match}"):
        check_loss(loss)


class Made(NamedTuple):
    """Constants of a loss whose kernels are given as functions of z and y."""

    steepest: float
    bend: float

    n_outputs = 1
    lipschitz = Own.lipschitz
    smoothness = Own.smoothness


made = itertools.count()


def make(at, slope, steepest, bend):
    """A loss of a class of its own."""
    cls = type(f"Made{next(made)}", (Made,), {})
    value.register(cls)(at)
    derivative.register(cls)(slope)
    return cls(steepest, bend)


def softplus(z, y):
    return max(-y * z, 0.0) + math.log1p(math.exp(-abs(z)))


def sigmoid(z, y):
    return -y * math.exp(-max(y * z, 0.0)) / (1.0 + math.exp(-abs(z)))


@inner
def clipped(r):
    return max(min(r, 0.9), -0.1)


GOOD = {
    "naive logistic": (
        lambda loss, z, y: math.log(1.0 + math.exp(-y * z)),
        lambda loss, z, y: 1.0 / (1.0 + math.exp(-z)) - (y + 1.0) / 2.0,
        (1.0, 0.25),
    ),
    "log cosh": (  # its derivative overflows, and is right in machine code
        lambda loss, z, y: abs(z - y) + math.log1p(math.exp(-2.0 * abs(z - y))),
        lambda loss, z, y: 1.0 - 2.0 / (math.exp(2.0 * (z - y)) + 1.0),
        (1.0, 1.0),
    ),
    "squared hinge, clipped": (
        lambda loss, z, y: (s := max(1.0 - y * z, 0.0)) * min(s, 2.0) - min(s, 2.0) ** 2 / 2.0,
        lambda loss, z, y: -y * min(max(1.0 - y * z, 0.0), 2.0),
        (2.0, 1.0),
    ),
    "pseudo-Huber": (
        lambda loss, z, y: 1e-8 * (math.hypot(1.0, (z - y) / 1e-4) - 1.0),
        lambda loss, z, y: (z - y) / math.hypot(1.0, (z - y) / 1e-4),
        (1e-4, 1.0),
    ),
    "smoothed quantile": (
        lambda loss, z, y: (c := clipped((z - y) / 1e-5)) * (z - y) - 1e-5 * c * c / 2.0,
        lambda loss, z, y: clipped((z - y) / 1e-5),
        (0.9, 1e5),
    ),
    "exponential": (
        lambda loss, z, y: math.exp(-y * z),
        lambda loss, z, y: -y * math.exp(-y * z),
        (math.inf, math.inf),
    ),
}
BAD = {
    "a kink where it bends little": (
        lambda loss, z, y: softplus(z, y) + 1e-3 * max(z - 3.3, 0.0),
        lambda loss, z, y: sigmoid(z, y) + 1e-3 * (z > 3.3),
        (2.0, 0.25),
        r"faster than smoothness\(\)=0.25",
    ),
    "a step down": (
        lambda loss, z, y: softplus(z, y) - 1e-3 * max(z - 0.5, 0.0),
        lambda loss, z, y: sigmoid(z, y) - 1e-3 * (z > 0.5),
        (2.0, 0.25),
        "is not convex",
    ),
    "waves between sixteenths": (
        lambda loss, z, y: z * z / 2.0 - y * z - 0.02 / (32 * math.pi) * math.cos(32 * math.pi * z),
        lambda loss, z, y: z - y + 0.02 * math.sin(32 * math.pi * z),
        (math.inf, 4.0),
        "is not convex",
    ),
    "a dip beyond ordinary predictions": (
        lambda loss, z, y: (z - y) ** 2 / 2.0,
        lambda loss, z, y: z - y - max(3.0 - 1.5 * abs(z - 10.3), 0.0),
        (math.inf, 2.5),
        "is not convex",
    ),
    "single precision": (
        lambda loss, z, y: softplus(z, y),
        lambda loss, z, y: float(np.float32(sigmoid(z, y))),
        (1.0, 1.0),
        r"is not convex|faster than smoothness\(\)=1|not that of the value",
    ),
    "divided differences": (
        lambda loss, z, y: softplus(z, y),
        lambda loss, z, y: (softplus(z + 1e-6, y) - softplus(z - 1e-6, y)) / 2e-6,
        (1.01, 0.3),
        r"is not convex|faster than smoothness\(\)=0.3",
    ),
    "no number far away": (  # where Python raises, and machine code goes on
        lambda loss, z, y: math.log(1.0 + math.exp(-y * z)),
        lambda loss, z, y: -y * math.exp(-y * z) / (1.0 + math.exp(-y * z)),
        (1.0, 0.25),
        "derivative at z=.*must be finite, got nan",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_check_accepts_other_losses(name):
    at, slope, constants = GOOD[name]
    check_loss(make(at, slope, *constants), targets=(-1.0, 1.0))


@each("name", BAD)
def test_check_finds_small_mistakes(name):
    at, slope, constants, match = BAD[name]
    with pytest.raises(ValueError, match=rf"^Made\d+.*({match})"):
        check_loss(make(at, slope, *constants), targets=(-1.0, 1.0))


def test_check_at_targets_in_between():
    loss = make(lambda loss, z, y: 0.0, lambda loss, z, y: -z if y == 0.73 else 0.0, math.inf, 1.0)
    check_loss(loss)
    with pytest.raises(ValueError, match=r"is not convex.*y=0\.73"):
        check_loss(loss, targets=(-1.0, 0.73, 1.0))


class Tight(NamedTuple):
    """Its bound on small predictions is too small."""

    n_outputs = 1
    smoothness = Squared.smoothness

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return prediction_bound


value.register(Tight)(lambda loss, z, y: 0.5 * (z - y) ** 2)
derivative.register(Tight)(lambda loss, z, y: z - y)


class Divides(Tight):
    """Divides by zero."""


derivative.register(Divides)(lambda loss, z, y: 1.0 / (z - y))


class Rigid(Tight):
    """Takes no bounds."""

    def lipschitz(self):
        return 1.0


class Bare(NamedTuple):
    """Has nothing."""

    n_outputs = 1


class Mute(NamedTuple):
    """Has constants only."""

    n_outputs = 1
    lipschitz = Hinge.lipschitz
    smoothness = Hinge.smoothness


def test_check_takes_bounds_on_predictions_at_their_word():
    with pytest.raises(ValueError, match=r"^Tight: .* and lipschitz\(0, 1.0\) is 0\."):
        check_loss(Tight())
    with pytest.raises(ValueError, match=r"^Divides: derivative at z=.*division by zero"):
        check_loss(Divides())
    with pytest.raises(ValueError, match=r"^SmoothHinge: smoothness\(\): float division by zero"):
        check_loss(SmoothHinge(0.0))


@each(
    ("loss", "match"),
    [
        (Bare(), "Bare needs a method `lipschitz`"),
        (Mute(), "Mute needs the kernel `value`"),
        (Rigid(), r"Rigid: lipschitz\(prediction_bound, target_bound\) must have defaults"),
        (Multinomial(3), "Multinomial: n_outputs must be 1, one prediction per record, got 3"),
        ((1.0, 2.0), "loss must be an instance of a NamedTuple"),
        (Logistic, "loss must be an instance of a NamedTuple"),
        ("logistic", "loss must be an instance of a NamedTuple, got 'logistic'"),
    ],
)
def test_check_names_what_is_missing(loss, match):
    with pytest.raises(TypeError, match=match):
        check_loss(loss)
