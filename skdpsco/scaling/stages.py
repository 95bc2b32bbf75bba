"""Stages of a fit before its solver, each of which releases one part of the solver's units.

A stage is planned from public sizes, and its extremes are rehearsed, since a solver must have a
plan for everything that the stage may find. Then the stage is released and applied to the records.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np

from skdpsco._problem import Uncertainty
from skdpsco.privacy import Event, NoOpEvent
from skdpsco.scaling.calibration import Calibration
from skdpsco.scaling.conditioning import Conditioning, ConditioningPlan
from skdpsco.scaling.target import Target, declared_target

__all__ = ["Stage", "Units", "known_stages", "rehearsed", "release_stages"]


class Units(NamedTuple):
    """The conversion of a solver's numbers to the user's units.

    Parameters
    ----------
    bounds : ndarray of shape (n_features,), or None while they are not known
    target : Target, or None while only units of features are known
    conditioning : Conditioning or None
        None if features are read as they are.
    calibration : Calibration or None
        The calibration of the solver's scores, or None.
    """

    bounds: Any
    target: Any = Target(1.0, 0.0, 1.0)
    conditioning: Conditioning | None = None
    calibration: Calibration | None = None

    @property
    def features(self) -> np.ndarray:
        """Size in the user's units of a feature of 1, column by column."""
        if self.conditioning is None:
            return self.bounds
        return self.bounds * self.conditioning.scale

    @property
    def feature_range(self) -> np.ndarray:
        """Interval to which every column is clipped, in the user's units."""
        if self.conditioning is None:
            return self.bounds * np.array([[-1.0], [1.0]])
        return self.conditioning.ranges(self.bounds)

    @property
    def sizes(self) -> Any:
        """Three root mean squares of features as the solver sees them, or 1: most are within it."""
        if self.conditioning is None or self.conditioning.mean_square is None:
            return 1.0
        return 3.0 * np.sqrt(self.conditioning.mean_square)

    def unscale(
        self, w: np.ndarray, intercept: bool, n_outputs: int
    ) -> tuple[np.ndarray, np.ndarray | float]:
        """Convert flat coefficients of the solver to coefficients and intercept of the user."""
        W = w.reshape(n_outputs, -1) * self.target.scale
        d = len(self.bounds)
        coef = W[:, :d]
        offset = self.target.centre + (W[:, d] if intercept else np.zeros(n_outputs))
        if self.calibration is not None:
            coef = coef * self.calibration.slope
            offset = offset + self.calibration.shift * self.target.scale
        if self.conditioning is not None:
            coef = coef / self.conditioning.scale
            offset = offset - coef @ self.conditioning.centre
        coef = coef / self.bounds
        return (coef[0], float(offset[0])) if n_outputs == 1 else (coef, offset)

    def scaled(self, coef: np.ndarray, intercept: np.ndarray, ones: bool) -> np.ndarray:
        """Flat coefficients from what `unscale` returns: its inverse, without a calibration.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_features)
        intercept : ndarray of shape (n_outputs,)
        ones : bool
            Whether the solver sees a column of ones.
        """
        coef = coef * self.bounds
        intercept = intercept - self.target.centre
        if self.conditioning is not None:
            intercept = intercept + coef @ self.conditioning.centre
            coef = coef * self.conditioning.scale
        return np.column_stack([coef, intercept] if ones else [coef]).ravel() / self.target.scale

    def of_uncertainty(self, known: Uncertainty, intercept: bool) -> Uncertainty:
        """Uncertainty of the user's coefficients, from that of the solver's numbers."""
        D = known.covariance.shape[-1]
        each: Any = np.vstack([np.eye(D), np.zeros((1, D))])
        coef, offset = map(np.asarray, self.unscale(each, intercept, D + 1))
        J = np.column_stack([coef[:-1], offset[:-1] - offset[-1]])
        variance, joint = known.residual_variance, known.joint
        if variance is not None:
            variance *= self.target.scale**2
        if joint is not None:
            joint = np.einsum("ai,kalb,bj->kilj", J, joint, J, optimize=True)
        return known._replace(
            covariance=J.T @ known.covariance @ J,
            residual_variance=variance,
            joint=joint,
            debiasing=None if known.debiasing is None else known.debiasing @ J,
        )


class Stage(Protocol):
    """The plan of one release before the solver: `BoundPlan`, `TargetPlan`, `ConditioningPlan`."""

    @property
    def event(self) -> Event:
        """What the release costs."""

    @property
    def part(self) -> str:
        """The field of `Units` that is found."""

    @property
    def name(self) -> str:
        """What is found, in plain words."""

    @property
    def extremes(self) -> tuple[Any, ...]:
        """The smallest and the largest value that may be found, or the only one."""

    def release(self, X: Any, y: Any, rng: Any) -> Any:
        """Find the value privately."""

    def apply(self, value: Any, X: Any, y: Any) -> tuple[Any, Any]:
        """The records and targets as the solver sees them."""

    def note(self, value: Any) -> str:
        """What was decided, for the report."""


class KnownStage(NamedTuple):
    """A stage whose value is public, so that nothing is released.

    Parameters
    ----------
    stage : TargetPlan or ConditioningPlan
        It applies the value.
    value : Target or Conditioning
    said : str
        A line for the report.
    """

    stage: Any
    value: Any
    said: str

    @property
    def event(self) -> Event:
        """Nothing is released."""
        return NoOpEvent()

    @property
    def part(self) -> str:
        """The field of `Units`."""
        return self.stage.part

    @property
    def name(self) -> str:
        """As in `Stage`."""
        return self.stage.name

    @property
    def extremes(self) -> tuple[Any, ...]:
        """The value."""
        return (self.value,)

    def read_by(self, plan: Any, tiled: bool, widths: tuple[float, float]) -> "KnownStage":
        """The stage for the layout that a solver's plan wants."""
        return self._replace(stage=replace(self.stage, tiled=tiled))

    def release(self, X: Any, y: Any, rng: Any) -> Any:
        """The value."""
        return self.value

    def apply(self, value: Any, X: Any, y: Any) -> tuple[Any, Any]:
        """The records and targets as the solver sees them."""
        return self.stage.apply(value, X, y)

    def note(self, value: Any) -> str:
        """A line for the report."""
        return self.said


def known_stages(units: Units, regression: bool) -> list[Any]:
    """Stages for units that are public: the target of a regression, and conditioned features.

    The target's may be None, where only those of features have been found before.
    """
    stages: list[Any] = []
    said = "features have the centres and scales that were found for the first target"
    if units.target is not None:
        said = "centres and scales of columns and targets are those of public_data"
        if regression:
            stages.append(KnownStage(declared_target(units.target.bound), units.target, said))
    if units.conditioning is not None:
        d = len(units.conditioning.centre)
        centring = ConditioningPlan(NoOpEvent(), 0, d, {}, 0.0, 0.0)
        stages.append(KnownStage(centring, units.conditioning, said))
    return stages


def rehearsed(stages: Sequence[Stage], units: Units) -> list[Units]:
    """The units for every combination of extremes of what ``stages`` may find."""
    parts = [stage.part for stage in stages]
    return [
        units._replace(**dict(zip(parts, values, strict=True)))
        for values in product(*(stage.extremes for stage in stages))
    ]


def release_stages(
    stages: Iterable[Stage], units: Units, X: Any, y: Any, rng: Any
) -> tuple[Units, Any, Any, tuple[tuple[str, Event, str], ...]]:
    """Release one stage after the other.

    Returns
    -------
    units : Units
        Units that include the released values.
    X, y
        Records and targets as the solver sees them.
    steps : tuple of (str, Event, str)
        Names of the stages, what they cost and what they found.
    """
    steps = []
    for stage in stages:
        value = stage.release(X, y, rng)
        X, y = stage.apply(value, X, y)
        units = units._replace(**{stage.part: value})
        steps.append((stage.name, stage.event, stage.note(value)))
    return units, X, y, tuple(steps)
