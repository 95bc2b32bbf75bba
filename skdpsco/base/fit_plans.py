"""What a fit of a linear model is planned from, and what it is planned to release."""

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdpsco.data.block_records import BlockRecords
from skdpsco.data.design import as_design
from skdpsco.data.record_sums import BlockDesign
from skdpsco.privacy import Budget, Event, rho_of
from skdpsco.privacy.spending import Allowance, pure_plan
from skdpsco.scaling.calibration import AnyCalibration
from skdpsco.scaling.conditioning import Conditioning
from skdpsco.scaling.stages import Stage, Units
from skdpsco.solvers.row_check import check_rows

__all__ = [
    "FitTask",
    "Found",
    "Prepared",
    "agreed",
    "check_reads_blocks",
    "check_rows_of",
    "is_sparse",
    "mu_left",
    "opened_design",
    "purely_prepared",
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
    """

    X: Any
    loss: Any
    weights: np.ndarray | None
    bounds: np.ndarray | None
    regression: bool
    target_bound: float | None
    n_iter: int | None


@dataclass(frozen=True)
class Prepared:
    """What a fit to so many records may release, from public numbers alone.

    Parameters
    ----------
    n_samples : int
    solver : Solver
    stages : tuple of Stage
    calibration : CalibrationPlan, ClassPlan, MeanPlan, ShorteningPlan or None
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
    """

    n_samples: int
    solver: Any
    stages: tuple[Stage, ...]
    calibration: AnyCalibration | None
    first: Units
    left: Any
    event: Event
    cost: Event | None
    last: tuple[Any, Any]
    warnings: tuple[str, ...]


class Found(NamedTuple):
    """What a fit has released.

    Parameters
    ----------
    units : Units
    problem : Problem
    plan : Plan
    result : Result
    steps : tuple of (str, Event, str)
        Names of the releases, what they cost and what they found.
    """

    units: Units
    problem: Any
    plan: Any
    result: Any
    steps: tuple[tuple[str, Event, str], ...]


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


def purely_prepared(
    prepared: Callable[[FitTask, int, Allowance], Prepared], task: FitTask, budget: Budget
) -> Prepared:
    """What a fit with delta=0 may release, if ``prepared`` says it for an allowance.

    The number of steps jumps with rho. With the one that is found, all of epsilon is spent.
    """

    def within(task: FitTask) -> Prepared:
        return pure_plan(lambda allowance: prepared(task, task.X.shape[0], allowance), budget)

    return within(task._replace(n_iter=within(task).last[1].n_iter))


def check_reads_blocks(solver: Any, name: Any) -> None:
    """Refuse a solver that cannot read blocks of records, given as ``name``."""
    if not getattr(solver, "by_blocks", False):
        raise ValueError(
            f"solver={name!r}, {type(solver).__name__}, cannot read blocks of records: it reads "
            "columns, samples or a clipped copy of them. Pass X and y as arrays, or choose a "
            "solver that the model has for blocks: see the page on data larger than memory."
        )


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


def check_rows_of(task: FitTask, prepared: Prepared, intercept: bool) -> None:
    """`check_rows` for the layout in which the solver of a fit reads its records."""
    d, dtype = task.X.shape[1], getattr(task.X, "dtype", np.float64)
    last: Any = prepared.stages[-1] if prepared.stages else None

    def design_of(values: np.ndarray) -> Any:
        table = sparse.csr_matrix(values) if is_sparse(task.X) else values
        design: Any = as_design(table.astype(dtype), np.ones(d), intercept)
        if getattr(last, "part", "") != "conditioning":
            return design
        plan = getattr(last, "stage", last)
        known = Conditioning(np.zeros(d), plan.stored(np.ones(d)), None, plan.single)
        return plan.apply(known, design, None)[0]

    problem, solver_plan = prepared.last
    check_rows(design_of, d, problem.loss)
    if hasattr(solver_plan, "descent_in"):  # in a design of selected columns, however many
        for k in {1, d}:
            check_rows(partial(as_design, bounds=np.ones(k), intercept=intercept), k, problem.loss)
