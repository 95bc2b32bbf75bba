"""Losses of linear models: kernels that solvers call, and the public constants that plans need.

A loss is a ``NamedTuple``. A scalar loss registers the kernels `value`, `derivative` and
`curvature` of one prediction ``z`` and one target ``y``. If it is not smooth, there is no
`curvature`, and `derivative` is a subgradient that does not decrease in ``z``. A loss of several
predictions per record registers `values`, `derivatives` and `curvatures` of all records instead;
for scalar losses these three loop over the kernels of one prediction. `check_loss` probes a loss of
your own.

``n_outputs`` is the number of predictions per record. The methods are bounds over every record that
the declared bounds allow, so they are public: sensitivities come from them and from nowhere else.
Solvers clip what the kernels return to these bounds. ``tests/test_losses.py`` checks each of them
by brute force; ``proven`` says so, for guarantees that rest on constants that are not enforced.
``traits`` is what else solvers ask.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import inner
from skdpsco.losses.kernels import curvature, curvatures, derivative, derivatives, value, values
from skdpsco.losses.traits import Traits, traits_of

__all__ = [
    "OF_ONE_TYPE",
    "Absolute",
    "Hinge",
    "Huber",
    "Logistic",
    "Mixture",
    "Multinomial",
    "OneVsRest",
    "Quantile",
    "SmoothHinge",
    "SmoothQuantile",
    "Squared",
    "Weighted",
    "derivative",
    "derivatives",
    "for_kernels",
    "is_proven",
    "lipschitz_l2",
    "lipschitz_norm",
    "separated",
    "softmax_parts",
    "taken_on_trust",
    "unweighted",
    "value",
    "values",
    "weighted",
    "with_weights",
    "without_weights",
]


class Squared(NamedTuple):
    """Half squared residual, ``(z - y)**2 / 2``, linear beyond a residual of ``clip``.

    The derivative is the residual clipped to ``[-clip, clip]``, so that no record weighs more.

    Parameters
    ----------
    clip : float, default=inf
        Bound on the residual, in units of the target.
    """

    clip: float = math.inf

    def lipschitz(
        self, prediction_bound: float = math.inf, target_bound: float = math.inf
    ) -> float:
        """Bound on ``|derivative|`` where ``|z| <= prediction_bound, |y| <= target_bound``."""
        return min(self.clip, prediction_bound + target_bound)

    def smoothness(self) -> float:
        """Bound on the second derivative in the prediction."""
        return 1.0

    def baseline(self, target_bound: float = 1.0) -> float:
        """Largest loss of the prediction 0."""
        residual = min(self.clip, target_bound)
        return residual * (target_bound - residual / 2)


class Huber(NamedTuple):
    """Huber loss: ``r**2 / 2`` for a residual up to ``delta``, linear beyond.

    Parameters
    ----------
    delta : float, default=1.35
        Residual at which the loss becomes linear, in units of the target.
    """

    delta: float = 1.35

    @property
    def clip(self) -> float:
        """The residual is clipped to ``delta``, as in `Squared`."""
        return self.delta

    def lipschitz(
        self, prediction_bound: float = math.inf, target_bound: float = math.inf
    ) -> float:
        """Bound on ``|derivative|`` where ``|z| <= prediction_bound, |y| <= target_bound``."""
        return Squared(self.delta).lipschitz(prediction_bound, target_bound)

    def smoothness(self) -> float:
        """Bound on the second derivative in the prediction."""
        return 1.0

    def baseline(self, target_bound: float = 1.0) -> float:
        """Largest loss of the prediction 0."""
        return Squared(self.delta).baseline(target_bound)


class Logistic(NamedTuple):
    """Logistic loss ``log(1 + exp(-y z))`` for targets -1 and +1."""

    def lipschitz(self, prediction_bound: float = math.inf, target_bound: float = 1.0) -> float:
        """``1 / (1 + exp(-prediction_bound))``: one half where every prediction is 0."""
        return 1.0 / (1.0 + math.exp(-prediction_bound))

    def smoothness(self) -> float:
        """Bound on the second derivative in the prediction, one quarter."""
        return 0.25

    def baseline(self, target_bound: float = 1.0) -> float:
        """Largest loss of the prediction 0, ``log(2)``."""
        return math.log(2.0)


class SmoothHinge(NamedTuple):
    """Hinge loss for targets -1 and +1, quadratic where the margin is in ``[1 - width, 1]``.

    Parameters
    ----------
    width : float, default=1.0
        Width of the quadratic part; the hinge loss is approached as it goes to 0.
    """

    width: float = 1.0

    @property
    def traits(self) -> Traits:
        """The best score is the mean label where both classes are on the quadratic part."""
        return Traits("signs", scores="means" if self.width >= 2.0 else None)

    def lipschitz(self, prediction_bound: float = math.inf, target_bound: float = 1.0) -> float:
        """Bound on ``|derivative|`` where ``|z| <= prediction_bound``."""
        return min(1.0, (1.0 + prediction_bound) / self.width)

    def smoothness(self) -> float:
        """Bound on the second derivative in the prediction, ``1 / width``."""
        return 1.0 / self.width

    def baseline(self, target_bound: float = 1.0) -> float:
        """Loss of the prediction 0."""
        slope = min(1.0, 1.0 / self.width)
        return slope * (1.0 - slope * self.width / 2)


class Hinge(NamedTuple):
    """Hinge loss ``max(0, 1 - y z)`` for targets -1 and +1. It is not smooth."""

    def lipschitz(self, prediction_bound: float = math.inf, target_bound: float = 1.0) -> float:
        """Bound on ``|derivative|``: 1, which the prediction 0 attains."""
        return 1.0

    def smoothness(self) -> float:
        """No bound on the second derivative: the derivative jumps."""
        return math.inf

    def baseline(self, target_bound: float = 1.0) -> float:
        """Loss of the prediction 0."""
        return 1.0


class Absolute(NamedTuple):
    """Absolute residual ``|z - y|``. It is not smooth."""

    def lipschitz(self, prediction_bound: float = math.inf, target_bound: float = 1.0) -> float:
        """Bound on ``|derivative|``, 1."""
        return 1.0

    def smoothness(self) -> float:
        """No bound on the second derivative: the derivative jumps."""
        return math.inf

    def baseline(self, target_bound: float = 1.0) -> float:
        """Largest loss of the prediction 0."""
        return target_bound


class Quantile(NamedTuple):
    """Pinball loss: ``level (y - z)`` if ``z < y``, else ``(1 - level) (z - y)``. It is not smooth.

    The best constant prediction is the quantile of the targets.

    Parameters
    ----------
    level : float, default=0.5
        Probability in (0, 1). One half is half of the absolute residual.
    """

    level: float = 0.5

    def lipschitz(self, prediction_bound: float = math.inf, target_bound: float = 1.0) -> float:
        """Bound on ``|derivative|``."""
        return max(self.level, 1.0 - self.level)

    def smoothness(self) -> float:
        """No bound on the second derivative: the derivative jumps."""
        return math.inf

    def baseline(self, target_bound: float = 1.0) -> float:
        """Largest loss of the prediction 0."""
        return self.lipschitz() * target_bound


class SmoothQuantile(NamedTuple):
    """Pinball loss of the residual plus uniform noise within ``width``: its mean, which is smooth.

    It exceeds `Quantile` by at most ``width / 4``, and is equal to it beyond ``width``.

    Parameters
    ----------
    level : float, default=0.5
        Probability in (0, 1), as in `Quantile`.
    width : float, default=0.1
        Residual up to which the loss is quadratic, in units of the target.
    """

    level: float = 0.5
    width: float = 0.1

    @property
    def traits(self) -> Traits:
        """Curvatures are 0 or their bound, and few targets are beyond an extreme quantile."""
        return Traits("numbers", off_centre=abs(2.0 * self.level - 1.0))

    def lipschitz(self, prediction_bound: float = math.inf, target_bound: float = 1.0) -> float:
        """Bound on ``|derivative|``, as for `Quantile`."""
        return Quantile(self.level).lipschitz()

    def smoothness(self) -> float:
        """Bound on the second derivative in the prediction, ``1 / (2 * width)``."""
        return 0.5 / self.width

    def baseline(self, target_bound: float = 1.0) -> float:
        """Largest loss of the prediction 0."""
        r, h = target_bound, self.width
        size = r if r > h else 0.5 * (r * r / h + h)
        return 0.5 * size + abs(self.level - 0.5) * r


class Multinomial(NamedTuple):
    """Cross-entropy of the softmax of ``n_classes`` predictions, for targets 0, 1, ... .

    All classes form one problem. The gradient in the predictions is ``softmax(z) - e_y``.

    Parameters
    ----------
    n_classes : int
    weighted : bool, default=False
        Whether targets are class indices plus half the weight of the record, in [0, 1].
    """

    n_classes: int
    weighted: bool = False

    @property
    def n_outputs(self) -> int:
        """Predictions per record."""
        return self.n_classes

    @property
    def traits(self) -> Traits:
        """Two classes attain the largest curvature; with more, probabilities are smaller."""
        return Traits(
            "classes",
            usual_curvature=1.0 / self.n_classes,
            scores="log-odds",
            sums_to_zero=True,
            weighted=self.weighted,
        )

    def lipschitz(self, prediction_bound: float = math.inf, target_bound: float = 0.0) -> float:
        """Bound on every component of the gradient where predictions differ by at most the bound.

        For a coefficient matrix of joint l1 norm r and features in [-1, 1], two predictions of a
        record differ by at most r.
        """
        return 1.0 / (1.0 + math.exp(-prediction_bound) / max(self.n_classes - 1, 1))

    def smoothness(self) -> float:
        """Bound on the eigenvalues of the Hessian in the predictions, one half (Boehning 1992)."""
        return 0.5

    def curvature_constant(self, diameter: float) -> float:
        """Bound by a variance, the form of the Hessian: ``(max - min)**2 / 4`` of a difference."""
        return diameter * diameter / 4

    def baseline(self, target_bound: float = 0.0) -> float:
        """Loss of equal predictions, ``log(n_classes)``."""
        return math.log(self.n_classes)


class Weighted(NamedTuple):
    """A loss of one prediction times the weight of its record, for targets made by `with_weights`.

    Parameters
    ----------
    loss : NamedTuple of this module
        For targets in [-1, 1]. What is proven about it holds for weights in [0, 1], too.
    """

    loss: Any

    @property
    def traits(self) -> Traits:
        """The traits of weight 1."""
        return replace(traits_of(self.loss), weighted=True)

    def lipschitz(self, prediction_bound: float = math.inf, target_bound: float = 1.0) -> float:
        """Bound on ``|derivative|``, that of weight 1."""
        return self.loss.lipschitz(prediction_bound, target_bound)

    def smoothness(self) -> float:
        """Bound on the second derivative in the prediction, that of weight 1."""
        return self.loss.smoothness()

    def baseline(self, target_bound: float = 1.0) -> float:
        """Largest loss of the prediction 0."""
        return self.loss.baseline(target_bound)


class Mixture(NamedTuple):
    """Weighted mean of losses of one prediction, over several targets of every record.

    Targets have shape (n, number of targets). The weights are not negative, and at most 1 in sum.

    Parameters
    ----------
    losses : tuple of NamedTuple of this module
    factors : tuple of float
        A factor of every loss, which the weights do not contain.
    weights : tuple of tuple of float
        For every loss, one weight per target.
    """

    losses: tuple[Any, ...]
    factors: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]

    @property
    def traits(self) -> Traits:
        """The traits of the loss that it is like, or the defaults."""
        alike = unweighted(self)
        return Traits() if alike is self else traits_of(alike)

    def _largest(self, bounds: list[float]) -> float:
        return max(f * bound for f, bound in zip(self.factors, bounds, strict=True))

    def lipschitz(self, prediction_bound: float = math.inf, target_bound: float = 1.0) -> float:
        """Bound on ``|derivative|`` for any weights."""
        return self._largest([a.lipschitz(prediction_bound, target_bound) for a in self.losses])

    def smoothness(self) -> float:
        """Bound on the second derivative in the prediction, for any weights."""
        return self._largest([loss.smoothness() for loss in self.losses])

    def baseline(self, target_bound: float = 1.0) -> float:
        """Largest loss of the prediction 0, for any weights."""
        return self._largest([loss.baseline(target_bound) for loss in self.losses])


class OneVsRest(NamedTuple):
    """The sum over classes of a loss for targets -1 and +1: each class against all others.

    Targets are class indices 0, 1, ..., plus half the weight of the record if there are weights.

    Parameters
    ----------
    loss : NamedTuple of this module
        For targets -1 and +1. What is proven about it holds for the sum, too.
    n_classes : int
    weighted : bool, default=False
        Whether targets hold weights, in [0, 1].
    """

    loss: Any
    n_classes: int
    weighted: bool = False

    @property
    def traits(self) -> Traits:
        """Scores that are means remain so."""
        means = traits_of(self.loss).scores == "means"
        return Traits("classes", scores="means" if means else None, weighted=self.weighted)

    @property
    def n_outputs(self) -> int:
        """Predictions per record."""
        return self.n_classes

    def lipschitz(self, prediction_bound: float = math.inf, target_bound: float = 0.0) -> float:
        """Bound on every component of the gradient, that of one class."""
        return self.loss.lipschitz(prediction_bound)

    def smoothness(self) -> float:
        """Bound on the eigenvalues of the Hessian in the predictions, which is diagonal."""
        return self.loss.smoothness()

    def curvature_constant(self, diameter: float) -> float:
        """Frank-Wolfe curvature of all predictions together."""
        return self.n_classes * (self.loss.smoothness() * diameter * diameter)

    def baseline(self, target_bound: float = 0.0) -> float:
        """Loss of predictions of 0."""
        return self.n_classes * self.loss.baseline()


# In the bodies of the classes, type checkers would take these for fields.
# The order is that of the kinds of `AnyOfOnePrediction`.
OF_ONE_TYPE: Any = (
    Squared,
    Huber,
    Logistic,
    SmoothHinge,
    SmoothQuantile,
    Quantile,
    Hinge,
    Absolute,
)
for _loss in (*OF_ONE_TYPE, Weighted, Mixture):
    _loss.n_outputs = 1
for _loss in (*OF_ONE_TYPE, Weighted, Mixture, Multinomial, OneVsRest):
    _loss.proven = True
_TRAITS: Any = {
    Squared: Traits("numbers", residuals=True, usual_curvature=1.0),
    Huber: Traits("numbers", residuals=True, robust=True, usual_curvature=1.0),
    Logistic: Traits("signs", usual_curvature=0.25, scores="log-odds"),
    Hinge: Traits("signs"),
    Absolute: Traits("numbers"),
    Quantile: Traits("numbers"),
}
for _loss, _traits in _TRAITS.items():
    _loss.traits = _traits

WEIGHT_STEPS = 2.0**24  # a weight in [0, 1] is a multiple of one over this


def with_weights(targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Put targets in [-1, 1] and weights in [0, 1] into one number each: the targets of `Weighted`.

    Weights are rounded to multiples of 2**-24, and targets to multiples of 2**-26 or finer ones.
    """
    return targets + 4.0 * np.round(WEIGHT_STEPS * weights)


def without_weights(targets: np.ndarray) -> np.ndarray:
    """Extract the targets in [-1, 1] from the result of `with_weights`."""
    return targets - 4.0 * np.floor(0.25 * targets + 0.5)


def unweighted(loss: Any) -> Any:
    """The loss that `Weighted` multiplies by weights, or a loss that is like a `Mixture`.

    A mixture is like its steepest part if all are of one class, but one of quantiles is the loss of
    their mean level. Any other loss is returned as it is.
    """
    if type(loss) is Mixture and len({type(part) for part in loss.losses}) == 1:
        if type(loss.losses[0]) is SmoothQuantile:
            shares = [f * sum(row) for f, row in zip(loss.factors, loss.weights, strict=True)]
            level = np.average([part.level for part in loss.losses], weights=shares)
            return SmoothQuantile(float(level), 0.5 / loss.smoothness())
        parts = zip(loss.factors, loss.losses, strict=True)
        return max(parts, key=lambda p: (p[0] * p[1].smoothness(), p[0] * p[1].lipschitz()))[1]
    return loss.loss if type(loss) is Weighted else loss


def weighted(loss: Any) -> Any:
    """The loss for targets that hold weights."""
    return Weighted(loss) if loss.n_outputs == 1 else loss._replace(weighted=True)


def separated(loss: Any, targets: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """The loss without weights, targets for it, and the weights in [0, 1] that targets held."""
    if type(loss) is Weighted:
        steps = np.floor(0.25 * targets + 0.5)
        return loss.loss, targets - 4.0 * steps, steps / WEIGHT_STEPS
    if type(loss) is Multinomial and loss.weighted:
        classes = np.floor(targets)
        return Multinomial(loss.n_classes), classes, 2.0 * (targets - classes)
    return loss, targets, np.ones(len(targets))


def lipschitz_l2(loss: Any) -> float:
    """Bound on the l2 norm of a record's gradient in its predictions, wherever they are."""
    return lipschitz_norm(loss, 2.0)


def lipschitz_norm(loss: Any, order: float, spread: float = math.inf) -> float:
    """Bound on the norm of ``order`` >= 1 of a record's gradient in its predictions.

    ``spread`` bounds the distance of two of the predictions; only `Multinomial` uses it.
    The proof for the softmax is in section 2 of ``docs/proofs/frank_wolfe.md``.
    """
    if type(loss) is not Multinomial:  # a subclass may have other derivatives
        return loss.lipschitz() * loss.n_outputs ** (1.0 / order)
    others = max(loss.n_classes - 1, 1)
    if order == math.inf:
        return loss.lipschitz(spread)
    # At a maximum the record's own class has the smallest prediction, and any other class has
    # either the smallest or the largest one: `high` of them have the largest.
    low, high = math.exp(-spread), np.arange(1.0, others + 1.0)
    total = high + (others - high) * low  # over the other classes, in units of the largest
    powers = (high + (others - high) * low**order) * total**-order
    largest = float((total * (1.0 + powers) ** (1.0 / order) / (total + low)).max())
    return min(largest * (1.0 + 2.0**-48), 2.0 ** (1.0 / order))


def is_proven(loss: Any) -> bool:
    """Whether exactly this class declares by ``proven = True`` that its constants are proven.

    A subclass may register its own kernels, so it does not inherit the claim of its parent.
    """
    if type(loss) in (Weighted, OneVsRest) and not is_proven(loss.loss):
        return False
    if type(loss) is Mixture and not all(is_proven(part) for part in loss.losses):
        return False
    return vars(type(loss)).get("proven") is True


def taken_on_trust(loss: Any) -> tuple[str, ...]:
    """What a report says about a loss whose constants are not proven; otherwise nothing."""
    if is_proven(loss):
        return ()
    return (f"the loss {loss!r} is convex and keeps to the constants it declares",)


@value.register(Squared)
def _(loss, z, y):
    r = abs(z - y)
    if r <= loss.clip:
        return 0.5 * r * r
    return loss.clip * (r - 0.5 * loss.clip)


@derivative.register(Squared)
def _(loss, z, y):
    return min(max(z - y, -loss.clip), loss.clip)


@curvature.register(Squared)
def _(loss, z, y):
    return 1.0


@value.register(Huber)
def _(loss, z, y):
    return value(Squared(loss.delta), z, y)


@derivative.register(Huber)
def _(loss, z, y):
    return derivative(Squared(loss.delta), z, y)


@curvature.register(Huber)
def _(loss, z, y):
    return 1.0


@value.register(Logistic)
def _(loss, z, y):
    m = y * z
    return max(-m, 0.0) + math.log1p(math.exp(-abs(m)))


@derivative.register(Logistic)
def _(loss, z, y):
    e = math.exp(-abs(z))  # in (0, 1]: no overflow
    return -y * (e if y * z > 0.0 else 1.0) / (1.0 + e)


@curvature.register(Logistic)
def _(loss, z, y):
    e = math.exp(-abs(z))
    return e / ((1.0 + e) * (1.0 + e))


@value.register(SmoothHinge)
def _(loss, z, y):
    s = 1.0 - y * z
    if s <= 0.0:
        return 0.0
    if s < loss.width:
        return 0.5 * s * s / loss.width
    return s - 0.5 * loss.width


@derivative.register(SmoothHinge)
def _(loss, z, y):
    return -y * min(max((1.0 - y * z) / loss.width, 0.0), 1.0)


@curvature.register(SmoothHinge)
def _(loss, z, y):
    return 1.0 / loss.width


@value.register(Hinge)
def _(loss, z, y):
    return max(1.0 - y * z, 0.0)


@derivative.register(Hinge)
def _(loss, z, y):
    return -y if y * z < 1.0 else 0.0


@value.register(Absolute)
def _(loss, z, y):
    return abs(z - y)


@derivative.register(Absolute)
def _(loss, z, y):
    return 1.0 if z > y else (-1.0 if z < y else 0.0)


@value.register(Quantile)
def _(loss, z, y):
    return max(loss.level * (y - z), (1.0 - loss.level) * (z - y))


@derivative.register(Quantile)
def _(loss, z, y):
    return 1.0 - loss.level if z > y else (-loss.level if z < y else 0.0)


@value.register(SmoothQuantile)
def _(loss, z, y):
    r, h = y - z, loss.width
    size = abs(r) if abs(r) > h else 0.5 * (r * r / h + h)
    return 0.5 * size + (loss.level - 0.5) * r


@derivative.register(SmoothQuantile)
def _(loss, z, y):
    return min(max(0.5 * (z - y) / loss.width + 0.5, 0.0), 1.0) - loss.level


@curvature.register(SmoothQuantile)
def _(loss, z, y):
    return 0.5 / loss.width


@inner
def _weight_of(loss, y):
    return 2.0 * (y - int(y)) if loss.weighted else 1.0


@inner
def softmax_parts(Z, i):
    """Largest entry of row i, and the sum of the exponentials of the entries minus that entry.

    Probabilities are quotients by the sum. (Subtracting its logarithm from huge predictions would
    lose it to rounding: they would no longer sum to 1, and the norm of the gradient would exceed
    its bound.)
    """
    top = Z[i, 0]
    for k in range(Z.shape[1]):
        top = max(top, Z[i, k])
    total = 0.0
    for k in range(Z.shape[1]):
        total += math.exp(Z[i, k] - top)
    return top, total


@values.register(Multinomial)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        top, total = softmax_parts(Z, i)
        out[i] = _weight_of(loss, y[i]) * (top - Z[i, int(y[i])] + math.log(total))


@derivatives.register(Multinomial)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        top, total = softmax_parts(Z, i)
        for k in range(Z.shape[1]):
            out[i, k] = math.exp(Z[i, k] - top) / total
        out[i, int(y[i])] -= 1.0
        if loss.weighted:
            for k in range(Z.shape[1]):
                out[i, k] *= _weight_of(loss, y[i])


@curvatures.register(Multinomial)
def _(loss, Z, y, out):
    # Row k of diag(p) - p p' sums in absolute value to 2 p_k (1 - p_k): Gershgorin's bound.
    for i in range(y.shape[0]):
        top, total = softmax_parts(Z, i)
        out[i] = 0.0
        for k in range(Z.shape[1]):
            p = math.exp(Z[i, k] - top) / total
            out[i] = max(out[i], 2.0 * p * (1.0 - p))
        out[i] *= _weight_of(loss, y[i])


@inner
def _weight_steps(y):
    return math.floor(0.25 * y + 0.5)


@value.register(Weighted)
def _(loss, z, y):
    steps = _weight_steps(y)
    return steps / WEIGHT_STEPS * value(loss.loss, z, y - 4.0 * steps)


@derivative.register(Weighted)
def _(loss, z, y):
    steps = _weight_steps(y)
    return steps / WEIGHT_STEPS * derivative(loss.loss, z, y - 4.0 * steps)


@curvature.register(Weighted)
def _(loss, z, y):
    steps = _weight_steps(y)
    return steps / WEIGHT_STEPS * curvature(loss.loss, z, y - 4.0 * steps)


@inner
def _against_rest(y, k):
    return 1.0 if int(y) == k else -1.0


@values.register(OneVsRest)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        total = 0.0
        for k in range(Z.shape[1]):
            total += value(loss.loss, Z[i, k], _against_rest(y[i], k))
        out[i] = _weight_of(loss, y[i]) * total


@derivatives.register(OneVsRest)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        weight = _weight_of(loss, y[i])
        for k in range(Z.shape[1]):
            out[i, k] = weight * derivative(loss.loss, Z[i, k], _against_rest(y[i], k))


@curvatures.register(OneVsRest)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        largest = 0.0
        for k in range(Z.shape[1]):
            largest = max(largest, curvature(loss.loss, Z[i, k], _against_rest(y[i], k)))
        out[i] = _weight_of(loss, y[i]) * largest


class AnyOfOnePrediction(NamedTuple):
    """A loss of one prediction of this module as kernels see it: all of them have one type.

    So machine code that was compiled for one of them serves all others.

    Parameters
    ----------
    kind : int
        Number of its class in `OF_ONE_TYPE`.
    first, second : float
        Its parameters, or 0.
    """

    kind: int
    first: float
    second: float


def for_kernels(loss: Any) -> Any:
    """The same loss in the type that compiled code is made for, for losses of this module.

    Kernels of solvers are given this, and plans the loss itself. What others wrote stays as it is.
    """
    if type(loss) in (Weighted, OneVsRest):
        return loss._replace(loss=for_kernels(loss.loss))
    if type(loss) is Mixture:
        table = np.array([for_kernels(part) for part in loss.losses], dtype=np.float64)
        return _MixtureOfAny(table, np.array(loss.factors)[:, None] * np.array(loss.weights))
    if type(loss) not in OF_ONE_TYPE:  # a subclass may have other kernels
        return loss
    parameters = [*map(float, loss), 0.0, 0.0]
    return AnyOfOnePrediction(OF_ONE_TYPE.index(type(loss)), *parameters[:2])


def _of_any(scalar):
    """The kernel ``scalar`` of all these losses."""

    def of_any(loss, z, y):
        if loss.kind == 0:
            return scalar(Squared(loss.first), z, y)
        if loss.kind == 1:
            return scalar(Huber(loss.first), z, y)
        if loss.kind == 2:
            return scalar(Logistic(), z, y)
        if loss.kind == 3:
            return scalar(SmoothHinge(loss.first), z, y)
        if loss.kind == 4:
            return scalar(SmoothQuantile(loss.first, loss.second), z, y)
        if loss.kind == 5:
            return scalar(Quantile(loss.first), z, y)
        if loss.kind == 6:
            return scalar(Hinge(), z, y)
        return scalar(Absolute(), z, y)

    return of_any


value.register(AnyOfOnePrediction)(_of_any(value))
derivative.register(AnyOfOnePrediction)(_of_any(derivative))


@curvature.register(AnyOfOnePrediction)
def _(loss, z, y):
    if loss.kind < 2:
        return 1.0
    if loss.kind == 2:
        return curvature(Logistic(), z, y)
    if loss.kind == 3:
        return curvature(SmoothHinge(loss.first), z, y)
    return curvature(SmoothQuantile(loss.first, loss.second), z, y)


class _MixtureOfAny(NamedTuple):
    """A `Mixture` as kernels see it.

    Parameters
    ----------
    table : ndarray of shape (n_losses, 3)
        The fields of `AnyOfOnePrediction`.
    weights : ndarray of shape (n_losses, n_targets)
        Factors times weights.
    """

    table: np.ndarray
    weights: np.ndarray


@inner
def _part(table, k):
    """Loss k of a mixture."""
    return AnyOfOnePrediction(int(table[k, 0]), table[k, 1], table[k, 2])


@values.register(_MixtureOfAny)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        out[i] = 0.0
        for k in range(loss.table.shape[0]):
            part = _part(loss.table, k)
            for j in range(y.shape[1]):
                out[i] += loss.weights[k, j] * value(part, Z[i, 0], y[i, j])


@derivatives.register(_MixtureOfAny)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        z, total = Z[i, 0], 0.0
        for k in range(loss.table.shape[0]):
            part = _part(loss.table, k)
            for j in range(y.shape[1]):
                total += loss.weights[k, j] * derivative(part, z, y[i, j])
        out[i, 0] = total
