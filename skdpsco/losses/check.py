"""Whether a loss keeps to what it declares, as judged from public points."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import distinguish, implements, njit
from skdpsco.constraints.norms import UNIT
from skdpsco.losses.kernels import curvatures, derivative, derivatives, value, values
from skdpsco.losses.library import Absolute, Hinge, Huber, Logistic, SmoothHinge, Squared
from skdpsco.losses.traits import traits_of

__all__ = ["TRIALS", "TRIED_TARGETS", "check_loss", "loss_of"]

BY_NAME: dict[str, dict[str, Any]] = {
    "signs": {"logistic": Logistic(), "smooth-hinge": SmoothHinge(), "hinge": Hinge()},
    # "huber" is that of scikit-learn's SGDRegressor.
    "numbers": {"squared": Squared(1.0), "huber": Huber(0.1), "absolute": Absolute()},
}
TRIED_TARGETS: dict[str, tuple[float, ...]] = {
    "signs": (-1.0, 1.0),
    "numbers": (-1.0, 0.0, 1.0),
}  # of probes

# Predictions: round ones, where kinks are; others at irregular distances (multiples of the golden
# ratio), so that nothing periodic is missed; and far ones.
NEAR = 8.0
_ROUND = [k / 16 for k in range(-64, 65)]
_BETWEEN = [NEAR * (2.0 * (k * 0.6180339887498949 % 1.0) - 1.0) for k in range(1, 501)]
_FAR = [*(NEAR * 1.07**k for k in range(1, 73)), 1e4, 1e6, 1e8]
GRID = sorted({*_ROUND, *_BETWEEN, *_FAR, *(-z for z in _FAR)})
BOUNDS = (0.0, 0.25, 1.0, 2.0, 4.0, 60.0, math.inf)  # bounds on predictions
HALVINGS = 24  # of an interval in which the derivative climbs or falls faster than around it
TOLERANCE = 1e-9  # relative error of rounded numbers


def loss_of(
    owner: Any, parameter: str, given: Any, targets: str, foreign: tuple[str, ...] = ()
) -> Any:
    """The loss with a given name, or the one that is given, after `check_loss`.

    Parameters
    ----------
    owner : object
        The estimator, for messages.
    parameter : str
        The name of its parameter.
    given : str or NamedTuple
    targets : {"signs", "numbers"}
    foreign : tuple of str
        Losses for these targets are refused.

    Raises
    ------
    TypeError
        If it is a class, or lacks a kernel or method.
    ValueError
        If the name is unknown, or the loss is for other targets, or violates what it declares.
    """
    if isinstance(given, str):
        named = BY_NAME[targets]
        if given not in named:
            raise ValueError(
                f"{parameter} must be among {sorted(named)} or of skdpsco.losses, got {given!r}."
            )
        return named[given]
    if isinstance(given, type):
        raise TypeError(f"{parameter} must be an instance, {given.__name__}(...), not a class.")
    if traits_of(given).targets in foreign:
        raise ValueError(
            f"{parameter}={given!r} is not for {type(owner).__name__}: it needs other targets."
        )
    try:
        check_loss(given, TRIED_TARGETS[targets])
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{parameter}={given!r} cannot be used. {error}") from error
    return given


def check_loss(loss: Any, targets: Sequence[float] = (-1.0, 0.0, 1.0)) -> None:
    """Probe a loss of one prediction: whether it is convex, and keeps to its constants.

    Its kernels are called as Python functions, with public predictions and targets, never with
    data, and the compiled derivative must agree with them. What holds at these points need not hold
    at all others: violations that are narrower than a few hundredths, or occur at other targets,
    may be missed.

    Parameters
    ----------
    loss : NamedTuple
        With ``n_outputs = 1``, methods `lipschitz` and `smoothness`, and the kernels `value` and
        `derivative`.
    targets : sequence of float, default=(-1.0, 0.0, 1.0)
        In [-1, 1]. Those of a classifier are -1 and 1; for a regression take some in between.

    Raises
    ------
    TypeError
        If something is missing, Numba cannot compile the derivative, or the loss is for several
        predictions.
    ValueError
        If a number is not finite, the derivative falls, exceeds ``lipschitz()`` or climbs faster
        than ``smoothness()``, or is not that of the value or of the compiled code.
    """
    name = _check_parts(loss)
    smoothness = _constant(name, "smoothness()", loss.smoothness)
    calls: list[tuple[str, float, tuple[float, ...]]]
    calls = [(f"{b:g}, 1.0", b, (b, 1.0)) for b in BOUNDS] + [("", math.inf, ())]
    try:
        bounds = [
            (given, b, _constant(name, f"lipschitz({given})", loss.lipschitz, *arguments))
            for given, b, arguments in calls
        ]
    except TypeError as error:
        raise TypeError(
            f"{name}: lipschitz(prediction_bound, target_bound) must have defaults, and give a "
            f"number: {error}"
        ) from error
    for y in targets:
        found = (_evaluate(loss, name, z, y, smoothness < math.inf) for z in GRID)
        points = [point for point in found if point is not None]
        near = [point for point in points if abs(point.z) <= NEAR]
        probe = _Probe(
            name,
            y,
            smoothness,
            value=max((abs(point.value) for point in near), default=0.0),
            slope=max((abs(point.slope) for point in near), default=0.0),
        )
        for given, b, largest in bounds:
            inside = (point for point in points if abs(point.z) <= b)
            z, _, d = max(inside, key=lambda point: abs(point.slope), default=_Point(0.0, 0.0, 0.0))
            if abs(d) > largest * (1.0 + TOLERANCE) + 600.0 * UNIT * probe.slope:
                raise ValueError(
                    f"{name}: the derivative at z={z:g}, y={y:g} is {d:g}, "
                    f"and lipschitz({given}) is {largest:g}."
                )
        pairs = list(itertools.pairwise(points))
        for pair in pairs:
            probe.derivatives(*pair)
        for (left, right), sign in probe.extremes(pairs):
            for _ in range(HALVINGS):  # towards a jump, if there is one
                middle = _evaluate(loss, name, 0.5 * (left.z + right.z), y, smoothness < math.inf)
                if middle is None:
                    break
                probe.derivatives(left, middle)
                probe.derivatives(middle, right)
                if sign * (2.0 * middle.slope - left.slope - right.slope) > 0.0:
                    right = middle
                else:
                    left = middle
        for pair in pairs:
            probe.values(*pair)
        _check_compiled(loss, name, y, points, probe.slope)


def _check_parts(loss: Any) -> str:
    """Check that the loss has all that solvers ask for, and return the name of its class."""
    if isinstance(loss, type) or not isinstance(loss, tuple) or not hasattr(loss, "_fields"):
        raise TypeError(f"loss must be an instance of a NamedTuple, got {loss!r}.")
    name = type(loss).__name__
    n_outputs = getattr(loss, "n_outputs", None)
    if not isinstance(n_outputs, int) or n_outputs != 1:
        raise TypeError(
            f"{name}: n_outputs must be 1, one prediction per record, got {n_outputs!r}."
        )
    for method in ("lipschitz", "smoothness"):
        if not callable(getattr(loss, method, None)):
            raise TypeError(f"{name} needs a method `{method}`.")
    for kernel in (value, derivative):
        if not implements(kernel, type(loss)):
            kernel_name = kernel.dispatch(object).__name__
            raise TypeError(f"{name} needs the kernel `{kernel_name}`, see skdpsco.losses.")
    traits_of(loss)
    distinguish(type(loss))
    return name


def _number(result: Any) -> float:
    """A real number in double precision; NaN for anything else.

    All that follows from a short float of NumPy, float32 for instance, would be as short.
    """
    try:
        return float(result) if isinstance(result, (int, float, np.integer)) else math.nan
    except OverflowError:
        return math.nan


def _constant(name: str, call: str, method: Callable[..., Any], *arguments: float) -> float:
    try:
        result = method(*arguments)
    except ArithmeticError as error:
        raise ValueError(f"{name}: {call}: {error}.") from error
    constant = _number(result)
    if not constant >= 0.0:
        raise ValueError(f"{name}: {call} must be a number >= 0, or inf, got {result!r}.")
    return constant


class _Point(NamedTuple):
    """A prediction with its value and derivative; the value is NaN if Python's overflows."""

    z: float
    value: float
    slope: float


def _evaluate(loss: Any, name: str, z: float, y: float, smooth: bool) -> _Point | None:
    """Value and derivative; None if the derivative overflows and the loss may grow that fast.

    Python's exp raises where compiled code returns inf, from which the rest may be right, or NaN.
    For a smooth loss the derivative is then taken from compiled code.
    """
    found = []
    for kernel in (value, derivative):
        kernel_name = kernel.dispatch(object).__name__
        try:
            result = kernel(loss, z, y)
        except OverflowError:
            if kernel is value:
                found.append(math.nan)
                continue
            if not smooth:
                return None
            result = _machine_code(loss, name, [z], y)[0]
        except ArithmeticError as error:
            raise ValueError(f"{name}: {kernel_name} at z={z:g}, y={y:g}: {error}.") from error
        number = _number(result)
        if not math.isfinite(number):
            raise ValueError(
                f"{name}: {kernel_name} at z={z:g}, y={y:g} must be finite, got {result!r}."
            )
        found.append(number)
    return _Point(z, *found)


@njit
def _compiled_derivatives(loss, Z, y, out):
    derivatives(loss, Z, y, out)


@njit
def _compiled_values(loss, Z, y, out):
    values(loss, Z, y, out[:, 0])


@njit
def _compiled_curvatures(loss, Z, y, out):
    curvatures(loss, Z, y, out[:, 0])


# How kernels are tried at public predictions: those of many records call those of one.
TRIALS = {
    derivatives: _compiled_derivatives,
    values: _compiled_values,
    curvatures: _compiled_curvatures,
}


def _machine_code(loss: Any, name: str, predictions: Sequence[float], y: float) -> list[float]:
    """The derivatives as solvers see them."""
    Z = np.array(predictions)[:, None]
    slopes = np.full_like(Z, math.nan)
    try:
        _compiled_derivatives(loss, Z, np.full(len(Z), y), slopes)
    except Exception as error:  # Numba's own, or one of a kernel that behaves differently there
        reason = str(error).strip().split("\n")[0]
        raise TypeError(f"{name}: Numba cannot compile or run `derivative`: {reason}") from error
    return slopes[:, 0].tolist()


def _check_compiled(loss: Any, name: str, y: float, points: Sequence[_Point], size: float) -> None:
    """Check that the machine code that solvers call agrees with the function that is probed."""
    compiled = _machine_code(loss, name, [point.z for point in points], y)
    for (z, _, slope), number in zip(points, compiled, strict=True):
        if not abs(number - slope) <= TOLERANCE * max(abs(slope), size):
            raise ValueError(
                f"{name}: the derivative at z={z:g}, y={y:g} is {slope:g}, and {number:g} when "
                "compiled. After a change of a kernel, or of a global name that it uses, define "
                "the class anew, too: Numba compiles once for a class."
            )


class _Probe(NamedTuple):
    """Checks of pairs of predictions, for one target.

    Parameters
    ----------
    name : str
    y : float
    smoothness : float
    value, slope : float
        Largest magnitudes at predictions that are not far from 0.
    """

    name: str
    y: float
    smoothness: float
    value: float
    slope: float

    def rounding(self, left: _Point, right: _Point) -> float:
        """The effect of rounding on the difference of two derivatives.

        For a smooth loss it is twice what the proof of phased-sgd allows: a few units, and those of
        the prediction. (A derivative by differences, or in float32, would exceed it.)
        """
        largest = max(abs(left.slope), abs(right.slope), self.slope)
        if self.smoothness == math.inf:
            return TOLERANCE * largest
        size = 1.0 + abs(self.y) + max(abs(left.z), abs(right.z))
        return UNIT * (600.0 * largest + 16.0 * self.smoothness * size)

    def derivatives(self, left: _Point, right: _Point) -> None:
        """Check convexity and smoothness."""
        rounding, climb = self.rounding(left, right), right.slope - left.slope
        if climb < -rounding:
            raise ValueError(
                f"{self.name} is not convex: {self._between(left, right)} the derivative falls "
                f"from {left.slope:g} to {right.slope:g}."
            )
        if climb > self.smoothness * (right.z - left.z) * (1.0 + TOLERANCE) + rounding:
            raise ValueError(
                f"{self.name}: {self._between(left, right)} the derivative climbs from "
                f"{left.slope:g} to {right.slope:g}, faster than smoothness()={self.smoothness:g}."
            )

    def values(self, left: _Point, right: _Point) -> None:
        """Check that derivatives bracket difference quotients, as for a convex function."""
        width, climb = right.z - left.z, right.value - left.value
        error = 1e-14 * max(abs(left.value), abs(right.value), self.value)
        error += TOLERANCE * max(abs(left.slope), abs(right.slope)) * width
        if climb < left.slope * width - error or climb > right.slope * width + error:
            raise ValueError(
                f"{self.name}: {self._between(left, right)} the value changes by {climb:g}, and "
                f"the derivative is {left.slope:g} to {right.slope:g}: it is not that of the value."
            )

    def extremes(self, pairs: list[Any]) -> Iterator[Any]:
        """Pairs between which the derivative climbs faster (1) or slower (-1) than around them."""
        rates = [(right.slope - left.slope) / (right.z - left.z) for left, right in pairs]
        for k, pair in enumerate(pairs):
            around = [rates[i] for i in (k - 1, k + 1) if 0 <= i < len(rates)]
            rounding = 2.0 * self.rounding(*pair) / (pair[1].z - pair[0].z)
            if rates[k] > max(around) + rounding:
                yield pair, 1.0
            elif rates[k] < min(around) - rounding:
                yield pair, -1.0

    def _between(self, left: _Point, right: _Point) -> str:
        return f"between z={left.z:.9g} and z={right.z:.9g}, y={self.y:g}"
