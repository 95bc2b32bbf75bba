"""What a fit of a linear model is planned from, and what it is planned to release."""

from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdpsco.data.block_records import BlockRecords
from skdpsco.data.record_sums import BlockDesign
from skdpsco.privacy import Event, rho_of
from skdpsco.privacy.spending import Allowance
from skdpsco.scaling.calibration import CalibrationPlan, ClassPlan
from skdpsco.scaling.conditioning import Conditioning
from skdpsco.scaling.raw_columns import RawTest
from skdpsco.scaling.stages import Stage, Units

__all__ = [
    "FitTask",
    "Prepared",
    "agreed",
    "is_sparse",
    "mu_left",
    "opened_design",
    "with_layout",
]


class FitTask(NamedTuple):
    """What is fitted, all but the number of records, which may be private.

    Parameters
    ----------
    X
        Validated, of which the planner sees the layout.
    loss : NamedTuple of `skdpsco.losses`
    weights : ndarray of shape (n_samples,), or None
        They are for regressions: targets of classes hold theirs.
    bounds : ndarray of shape (n_features,), or None
        None if bounds are to be found.
    regression : bool
    target_bound : float or None
    n_iter : int or None
    least_bound : float, default=1.0
        As in `skdpsco.scaling.feature_bounds.BoundPlan`, if bounds are to be found.
    """

    X: Any
    loss: Any
    weights: np.ndarray | None
    bounds: np.ndarray | None
    regression: bool
    target_bound: float | None
    n_iter: int | None
    least_bound: float = 1.0


@dataclass(frozen=True)
class Prepared:
    """What a fit to so many records may release, from public numbers alone.

    Parameters
    ----------
    n_samples : int
    solver : Solver
    stages : tuple of Stage
    calibration : CalibrationPlan, ClassPlan or None
    first : Units
        The smallest that may be found.
    left : object or None
        What is left for the solver, which is planned again; None if its plan stays the same.
    event : Event
        The whole cost.
    cost : Event or None
        Cost of the solver; None if it depends on what is found.
    last : tuple of (Problem, Plan)
        The last rehearsal.
    warnings : tuple of str
    test : RawTest or None, default=None
        A count that tells whether columns are raw, which is released before all else.
    scaled : Prepared or None, default=None
        What may be released after that if they are not.
    """

    n_samples: int
    solver: Any
    stages: tuple[Stage, ...]
    calibration: CalibrationPlan | ClassPlan | None
    first: Units
    left: Any
    event: Event
    cost: Event | None
    last: tuple[Any, Any]
    warnings: tuple[str, ...]
    test: RawTest | None = None
    scaled: "Prepared | None" = None


@contextmanager
def opened_design(design: Any):
    """Release what the workers of blocks hold, whatever happens."""
    try:
        yield design
    finally:
        if isinstance(design, BlockDesign):
            design.close()


def agreed(solver: Any, event: Event, cost: Event | None) -> Event:
    """The cost of a plan, which must equal that of the plans before it.

    Raises
    ------
    RuntimeError
        If the costs differ.
    """
    if cost not in (None, event):
        raise RuntimeError(f"{solver!r} has a fixed_cost, but its plans do not cost the same.")
    return event


def mu_left(stages: Iterable[Stage], spend: Any) -> float:
    """The mu of which conditioning and calibration get shares, after the searches for a target.

    If these take more than half of rho, since records are few, the shares are of twice what is
    left, so that the solver keeps a part.
    """
    spent = sum(rho_of(stage.event) for stage in stages if stage.part == "target")
    return Allowance(min(spend.rho, 2.0 * (spend.rho - spent))).mu


def is_sparse(X: Any) -> bool:
    """Whether records are sparse, in blocks or not."""
    return X.blocks.sparse if isinstance(X, BlockRecords) else sparse.issparse(X)


def with_layout(problem: Any, X: Any, conditioning: Conditioning | None) -> Any:
    """The problem with public hints for solvers of linear models."""
    known = None
    if conditioning is not None and conditioning.mean_square is not None:
        known = tuple(conditioning.mean_square.tolist())
    return replace(
        problem, sparse=is_sparse(X), centred=conditioning is not None, mean_square=known
    )
