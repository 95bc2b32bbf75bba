"""Losses and solvers of group DRO, by name."""

from typing import Any

from skdpsco.solvers.groups.mirror_prox import AbsoluteLoss, GroupMirrorProx, HingeLoss
from skdpsco.solvers.groups.moments import GroupMoments, LogisticMoments, SquaredMoments
from skdpsco.solvers.saddle.accelerated_recursive import AcceleratedRecursive
from skdpsco.solvers.saddle.mirror_prox import MirrorProx
from skdpsco.solvers.saddle.recursive_regularization import RecursiveRegularization

LOSSES: dict[str, Any] = {
    "logistic": LogisticMoments,
    "hinge": HingeLoss,
    "squared": SquaredMoments,
    "absolute": AbsoluteLoss,
}
CLASSIFIERS = ("logistic", "hinge")
# More calls cost time in proportion, and gain less than a point of accuracy.
CALLS = 200
# What makes the solver of a name; "auto" is a name too.
SOLVERS: dict[str, Any] = {
    "auto": None,
    "moments": GroupMoments,
    "mirror-prox": lambda: GroupMirrorProx(MirrorProx(max_calls=CALLS)),
    "recursive-regularization": lambda: GroupMirrorProx(
        RecursiveRegularization(MirrorProx(max_calls=CALLS))
    ),
}


def resolve_solver(solver: Any, loss: Any) -> Any:
    """A solver from its name; an object that has ``plan`` and ``run`` is its own.

    Raises
    ------
    TypeError
        For a class, and for a solver of saddle points that knows nothing of groups.
    ValueError
        For noisy moments of a loss that is more than a function of the prediction, less the product
        of prediction and target.
    """
    if isinstance(solver, type):
        raise TypeError(f"solver must be an instance, {solver.__name__}(), not a class.")
    if isinstance(solver, (MirrorProx, RecursiveRegularization, AcceleratedRecursive)):
        raise TypeError(
            "solver must be one for groups, such as GroupMirrorProx(MirrorProx()): "
            f"{type(solver).__name__} is for operators."
        )
    has_moments = hasattr(loss, "response")
    if solver == "auto":
        solver = "moments" if has_moments else "mirror-prox"
    elif solver == "moments" and not has_moments:
        raise ValueError(
            "solver='moments' needs loss='logistic' or 'squared'; use solver='mirror-prox'."
        )
    return SOLVERS[solver]() if isinstance(solver, str) else solver
