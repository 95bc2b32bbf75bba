"""Base classes of linear models with a penalty, and their solvers by name."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from skdpsco._typing import SolverLike
from skdpsco._validation import (
    LARGEST,
    SMALLEST,
    HasMethods,
    Interval,
    Real,
    StrOptions,
    check_bound,
    is_number,
)
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.base.parameters import Constraints, LinearParameters, with_parameters
from skdpsco.base.private_estimator import resolve_solver
from skdpsco.penalties import L1, L2, ElasticNet
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.scaling.target import Target, TargetPlan, plan_target
from skdpsco.solvers import (
    SGD,
    CompositeProblem,
    CoordinateDescent,
    GradientDescent,
    GreedyCoordinateDescent,
)
from skdpsco.solvers.newton_step import NewtonStep

__all__ = [
    "AnySolver",
    "CompositeModel",
    "UncalibratedModel",
    "check_weight",
    "inverse_penalty",
    "mixed_penalty",
]

SOLVERS: dict[str, Callable[[], Any]] = {
    "auto": GradientDescent,
    "coordinate-descent": CoordinateDescent,
    "greedy-coordinate-descent": GreedyCoordinateDescent,
    "gradient-descent": GradientDescent,
    "sgd": SGD,
}
Descent: TypeAlias = Literal["auto", "gradient-descent", "sgd"] | SolverLike
AnySolver: TypeAlias = Literal["coordinate-descent", "greedy-coordinate-descent"] | Descent
BEGINNING = GradientDescent, SGD  # solvers that know where a problem starts


class PenaltyTuning(NamedTuple):
    """Widths for fits that clipping should not bias.

    examples/benchmarks/standard_errors.py shows the coverage with them.

    Parameters
    ----------
    unclipped_features : float
        Width of features with standard errors, in root mean squares.
    unclipped_targets : float
        Scale of targets, in units of the scale that is found: with standard errors, and where means
        are exponentials.
    """

    unclipped_features: float = 4.5
    unclipped_targets: float = 2.0


PENALTY = PenaltyTuning()


def check_weight(name: str, value: Any, high: float = LARGEST) -> float:
    """Check a number in [0, high], which must be 0 or large enough for float64 sums.

    Raises
    ------
    TypeError
        If it is not a number.
    ValueError
        If it is out of range.
    """
    if not is_number(value):
        raise TypeError(f"{name} must be a number in [0, {high:g}], got {value!r}.")
    number: Any = value  # unconverted, since a huge int does not fit into a float
    if not (number == 0 or SMALLEST <= number <= high):
        raise ValueError(f"{name} must be 0 or in [{SMALLEST:g}, {high:g}], got {value!r}.")
    return float(value)


def mixed_penalty(weight: float, l1_ratio: float) -> Any:
    """``weight * (l1_ratio * |w| + (1 - l1_ratio) * w**2 / 2)``, in its simplest form."""
    if l1_ratio == 0.0:
        return L2(weight)
    if l1_ratio == 1.0:
        return L1(weight)
    return ElasticNet(weight * l1_ratio, weight * (1.0 - l1_ratio))


def inverse_penalty(C: Any, l1_ratio: Any, total: float) -> Any:
    """The penalty against C times ``total`` times a mean loss; none if C is infinite.

    Raises
    ------
    TypeError
        If ``C`` or ``l1_ratio`` is not a number.
    ValueError
        If one of them is out of range.
    """
    C = math.inf if C == math.inf else check_bound("C", C)
    ratio = check_weight("l1_ratio", l1_ratio, high=1.0)
    if C == math.inf:
        return mixed_penalty(0.0, 0.0)
    return mixed_penalty(1.0 / (C * total), ratio)


@with_parameters()
class CompositeModel(LinearParameters, PrivateLinearModel):
    """Mean loss plus a penalty of the coefficients; see the subclasses."""

    solver: AnySolver = "auto"
    standard_errors: bool = False

    _parameter_constraints: ClassVar[Constraints] = {
        "alpha": [Interval(Real, 0, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="right")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "solver": [StrOptions(set(SOLVERS)), HasMethods(["plan", "run"])],
        "standard_errors": ["boolean"],
    }

    _takes_init = True
    _degree: ClassVar[float] = 2.0  # the loss grows with this power of the target's scale
    # Whether predictions depend on the largest targets, of which the scale that is found cuts off
    # too many.
    _means_in_tails: ClassVar[bool] = False

    def _penalty(self, n_samples: int) -> Any:
        """The penalty that is added to the mean loss, with checked parameters."""
        raise NotImplementedError

    def _public_bounds(self, n_features: int) -> np.ndarray | None:
        if self._finds_bounds():
            return None
        return self._feature_bounds(n_features)

    def _reads_centred(self, *sizes: Any) -> bool:
        own = isinstance(self.solver, GradientDescent)
        return not self.standard_errors and (own or self.solver in ("auto", "gradient-descent"))

    def _prepared_once(self, task: Any, n_samples: int, available: Any) -> Any:
        # A centre that public records, or other fits, tell makes sparse rows ones of another kind.
        if self._sparse and self._known_units is not None and not self._reads_centred():
            self._known_units = self._known_units._replace(conditioning=None)
        return super()._prepared_once(task, n_samples, available)

    @property
    def _narrowest(self) -> float:  # type: ignore[override]
        return PENALTY.unclipped_features if self.standard_errors else 0.0

    def _plan_target(
        self, loss: Any, bound: float | None, n_samples: int, rho: float
    ) -> TargetPlan:
        plan = super()._plan_target(loss, bound, n_samples, rho)
        wide = self.standard_errors or self._means_in_tails
        return replace(plan, slack=PENALTY.unclipped_targets) if wide else plan

    def _resolved_solver(self, loss: Any, n_samples: int, n_features: int, rho: float) -> Any:
        solver = resolve_solver(self.solver, SOLVERS)
        if self.standard_errors:
            if self._relation == ADD_OR_REMOVE:
                raise ValueError(
                    f"standard_errors must be False with relation={ADD_OR_REMOVE!r}: a model of "
                    "PrivateMoments(relation=...) has them."
                )
            if not isinstance(solver, GradientDescent):
                raise ValueError(
                    "With standard_errors=True solver must be 'auto' or 'gradient-descent', or a "
                    f"GradientDescent, got {self.solver!r}."
                )
            return NewtonStep(solver)
        if self._init is not None and self._begins_at_scores:
            if not isinstance(solver, BEGINNING):
                raise ValueError(
                    "solver must be 'auto', 'gradient-descent' or 'sgd' if init is given, got "
                    f"{self.solver!r}."
                )
        return solver

    def _problem(
        self, loss: Any, n_samples: int, bounds: np.ndarray, target: Target
    ) -> CompositeProblem:
        # Coefficient j in the user's units is unit_j times that of the kernels, and the mean loss
        # is scale**_degree times theirs.
        units = (target.scale / bounds).tolist()
        for extreme in (min(units), max(units)):
            check_bound("target_bound / feature_bound", extreme)
        intercept = bool(self.fit_intercept)
        return CompositeProblem(
            loss,
            None,
            n_samples,
            len(units) + intercept,
            intercept,
            penalty=self._penalty(n_samples),
            unit=(*units, *(0.0,) * intercept),
            weight=target.scale**-self._degree,
        )


@with_parameters()
class UncalibratedModel(CompositeModel):
    """A regression whose scores are not calibrated; see the subclasses."""

    solver: Descent = "auto"

    _parameter_constraints: ClassVar[Constraints] = {
        "solver": [StrOptions({"auto", "gradient-descent", "sgd"}), HasMethods(["plan", "run"])],
    }

    # Whether the loss is in units of the spread of most targets, of which far ones say nothing.
    _steady_scale: ClassVar[bool] = False

    def _plan_target(
        self, loss: Any, bound: float | None, n_samples: int, rho: float
    ) -> TargetPlan:
        if self._steady_scale and not self.standard_errors:  # which clipping should not bias
            return plan_target(bound, bool(self.fit_intercept), n_samples, rho, steady=True)
        return super()._plan_target(loss, bound, n_samples, rho)
