"""What a loss says of itself to whoever plans with it."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from skdpsco._validation import check_bound

__all__ = ["Traits", "traits_of", "usual_curvature"]


@dataclass(frozen=True)
class Traits:
    """What solvers and estimators ask a loss, beside its constants: its attribute ``traits``.

    Clipping norms, steps and what is released follow from them, privacy does not: a loss whose
    traits are wrong is minimised less accurately. The defaults are those of a loss of which nothing
    is known.

    Parameters
    ----------
    targets : {"numbers", "signs", "classes"} or None, default=None
        Numbers in [-1, 1], only -1 and 1, or class indices. None is for any of them.
    residuals : bool, default=False
        Whether derivatives near 0 are residuals, so that their size follows the targets.
    robust : bool, default=False
        Whether many residuals are expected to exceed the bound on derivatives.
    exponential : bool, default=False
        Whether means are exponentials of predictions, so that curvatures differ much.
    usual_curvature : float or None, default=None
        The second derivative of most records. None if it may be anything up to ``smoothness()``.
    off_centre : float, default=0.0
        From 0 to 1, how far the best constant is from the median of the targets.
    jump : float, default=0.0
        Least jump of a target that is a count.
    scores : {"log-odds", "means"} or None, default=None
        What the best scores for labels are; they are then calibrated. None for anything else.
    sums_to_zero : bool, default=False
        Whether the derivatives in all predictions of a record sum to 0.
    weighted : bool, default=False
        Whether targets hold weights.
    """

    targets: Literal["numbers", "signs", "classes"] | None = None
    residuals: bool = False
    robust: bool = False
    exponential: bool = False
    usual_curvature: float | None = None
    off_centre: float = 0.0
    jump: float = 0.0
    scores: Literal["log-odds", "means"] | None = None
    sums_to_zero: bool = False
    weighted: bool = False

    def __post_init__(self) -> None:
        if self.targets not in ("numbers", "signs", "classes", None):
            raise ValueError(
                f"targets must be 'numbers', 'signs', 'classes' or None, got {self.targets!r}."
            )
        if self.scores not in ("log-odds", "means", None):
            raise ValueError(f"scores must be 'log-odds', 'means' or None, got {self.scores!r}.")
        if self.scores and self.targets not in ("signs", "classes"):
            raise ValueError("scores must be None unless targets are 'signs' or 'classes'.")
        if self.usual_curvature is not None:
            check_bound("usual_curvature", self.usual_curvature)
        if not (0.0 <= self.off_centre <= 1.0 and 0.0 <= self.jump < math.inf):
            raise ValueError("off_centre must be in [0, 1], and jump at least 0 and finite.")

    @property
    def quadratic(self) -> bool:
        """Whether derivatives are residuals up to their bound: gradients tell what is explained."""
        return self.residuals and not self.exponential

    @property
    def squared(self) -> bool:
        """Whether derivatives are residuals for almost all records."""
        return self.quadratic and not self.robust


def traits_of(loss: Any) -> Traits:
    """What the loss says of itself; the defaults if it says nothing.

    Raises
    ------
    TypeError
        If its ``traits`` are not `Traits`.
    """
    traits = getattr(loss, "traits", Traits())
    if not isinstance(traits, Traits):
        raise TypeError(f"traits of {loss!r} must be skdpsco.losses.Traits(...), got {traits!r}.")
    return traits


def usual_curvature(loss: Any) -> float:
    """A guess of the second derivative of most records, the bound of all if nothing is known."""
    usual, most = traits_of(loss).usual_curvature, float(loss.smoothness())
    return most if usual is None else min(usual, most)
