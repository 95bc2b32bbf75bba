"""Problems with a penalty: mean loss plus a separable convex function of the coefficients."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from skdpsco._problem import Problem
from skdpsco.losses.traits import traits_of
from skdpsco.penalties import L2, checked

__all__ = ["CompositeProblem", "anchored", "coordinate_model", "unpenalised"]


class CoordinateModel(NamedTuple):
    """What kernels know about the objective along coordinates: the penalty, and curvatures.

    Parameters
    ----------
    penalty : NamedTuple of `skdpsco.penalties`
    weight : float
    unit : ndarray
        As in `CompositeProblem`, for every feature or, in greedy descent, every coefficient; so are
    smooth, curved : ndarray
        Curvatures of the mean loss and of the penalty.
    """

    penalty: Any
    weight: float
    unit: np.ndarray
    smooth: np.ndarray
    curved: np.ndarray


def coordinate_model(
    problem: "CompositeProblem", mean_square: np.ndarray, n_outputs: int = 1
) -> CoordinateModel:
    """The objective along the coordinates of all features, or of their coefficients one by one.

    Parameters
    ----------
    problem : CompositeProblem
    mean_square : ndarray of shape (n_features,)
        Mean squares of the columns.
    n_outputs : int, default=1
        Number of times that every feature comes.
    """
    smooth = problem.loss.smoothness() * mean_square
    curvatures = problem.unit, smooth, problem.penalty_curvature
    unit, smooth, curved = (np.tile(values, n_outputs) for values in curvatures)
    return CoordinateModel(problem.penalty, problem.weight, unit, smooth, curved)


@dataclass(frozen=True, kw_only=True)
class CompositeProblem(Problem):
    """Minimise ``mean_i loss(x_i'v, y_i) + weight * sum_j psi(unit_j v_j)`` over all v.

    Every output has its own coefficients, all penalised alike. ``constraint`` is None.

    Parameters
    ----------
    penalty : NamedTuple of `skdpsco.penalties`, or None
        The function psi of a coefficient in the user's units, ``unit_j v_j``.
    unit : tuple of float, length n_features
        0 for features that are not penalised, such as that of an intercept.
    weight : float, default=1.0
        One over the square of the target's scale.
    start : tuple of float, length n_coefficients, default=()
        Public coefficients that the fit begins at: predictions are those of ``start + v``, of which
        v is what is penalised and returned. Empty for zeros.
    mean_weight : float, default=1.0
        Mean weight of the records as far as it is known, if their losses are weighted: curvatures
        are as much smaller, and noise is as much larger beside them.
    """

    penalty: Any
    unit: tuple[float, ...]
    weight: float = 1.0
    start: tuple[float, ...] = ()
    mean_weight: float = 1.0

    def __post_init__(self) -> None:
        if self.constraint is not None:
            raise ValueError("A composite problem has a penalty, and no constraint.")
        if len(self.unit) != self.n_features:
            raise ValueError(
                f"unit must have one entry per feature, {self.n_features}, got {len(self.unit)}."
            )
        if not 0.0 < self.weight < math.inf:
            raise ValueError(f"weight must be positive and finite, got {self.weight!r}.")
        if not all(0.0 <= u and self.weight * u * u < math.inf for u in self.unit):
            raise ValueError("unit must be at least 0, and weight * unit**2 finite.")
        if self.penalty is not None:
            object.__setattr__(self, "penalty", checked(self.penalty))

    def n_mu(self, mu: float) -> float:
        """Number of records, each with the mean weight, times mu."""
        return self.mean_weight * super().n_mu(mu)

    @property
    def begin(self) -> Any:
        """``start`` as an array, or 0."""
        return np.array(self.start) if self.start else 0.0

    @property
    def penalty_curvature(self) -> np.ndarray:
        """Curvature of the penalty in every feature's coefficients, of shape (n_features,)."""
        return self.weight * self.penalty.curvature * np.array(self.unit) ** 2


def unpenalised(problem: Problem) -> CompositeProblem:
    """The problem without a ball."""
    known = {field.name: getattr(problem, field.name) for field in fields(Problem)}
    known |= {"constraint": None, "row_norm": math.inf}
    return CompositeProblem(**known, penalty=L2(0.0), unit=(0.0,) * problem.n_features)


def anchored(problem: Problem) -> CompositeProblem:
    """The problem without a ball, and for losses of residuals a penalty that is hardly one.

    It is that of one more record for every feature, which has this feature only, at its largest,
    and the target 0. Without it nothing but noise decides on the slope of a feature that is
    constant in all records, and on predictions for a later one in which it is not.
    """
    free = unpenalised(problem)
    if not traits_of(free.loss).residuals:
        return free
    unit = (1.0,) * (problem.n_features - problem.intercept) + (0.0,) * problem.intercept
    return replace(free, penalty=L2(1.0 / problem.n_samples), unit=unit)
