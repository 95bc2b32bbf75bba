"""Options of group DRO: losses and solvers by name, and priors of groups."""

import math
from typing import Any

import numpy as np

from skdpsco._validation import check_bound, real_array
from skdpsco.base.private_estimator import resolve_solver
from skdpsco.losses.library import Absolute, Hinge, Logistic, Squared
from skdpsco.privacy._checks import abridged
from skdpsco.solvers.groups.descent import GroupDescent
from skdpsco.solvers.groups.mirror_prox import GroupMirrorProx
from skdpsco.solvers.saddle.accelerated_recursive import AcceleratedRecursive
from skdpsco.solvers.saddle.mirror_prox import MirrorProx, prox_of_models
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation

__all__ = [
    "CLASSIFIERS",
    "GROUP_SOLVERS",
    "LOSSES",
    "check_options",
    "check_prior",
    "group_solver",
    "needed_size",
    "too_small",
]

LOSSES: dict[str, Any] = {
    "logistic": Logistic(),
    "hinge": Hinge(),
    "squared": Squared(1.0),
    "absolute": Absolute(),
}
CLASSIFIERS = ("logistic", "hinge")
# A function for each name that makes its solver; "auto" resolves to one of these.
GROUP_SOLVERS: dict[str, Any] = {
    "gradient-descent": GroupDescent,
    "mirror-prox": lambda: GroupMirrorProx(prox_of_models()),
    "recursive-regularisation": lambda: GroupMirrorProx(RecursiveRegularisation(prox_of_models())),
}
LEAST_PRIOR = 1e-9
NEEDED_RATIO = 10.0  # of the mean of a group's rows times targets to its noise; see `needed_size`


def group_solver(solver: Any) -> Any:
    """The solver of a group DRO problem, from its name or as it was given.

    Raises
    ------
    TypeError
        If the solver is a class, or a saddle-point solver that does not know groups.
    ValueError
        If there is no solver with this name.
    """
    if isinstance(solver, (MirrorProx, RecursiveRegularisation, AcceleratedRecursive)):
        raise TypeError(
            "solver must be one for groups, such as GroupMirrorProx(MirrorProx()); "
            f"{type(solver).__name__} is for operators."
        )
    return resolve_solver(solver, {"auto": GroupDescent, **GROUP_SOLVERS})


def check_options(model: Any) -> None:
    """Check parameters beyond what scikit-learn's constraints express.

    Raises
    ------
    TypeError
        If a parameter has the wrong type.
    ValueError
        If a parameter is out of range or contradicts another one.
    """
    for name in ("average_weight", "cvar_level"):
        value = getattr(model, name)
        if isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be a number in [0, 1], got {value!r}.")
    if model.target_bound is not None:
        check_bound("target_bound", model.target_bound)
    if model.class_weight is not None and model.loss not in CLASSIFIERS:
        raise ValueError(f"class_weight must be None with loss={model.loss!r}, a regression.")
    if model.group_membership == "private":
        if model.groups is None:
            raise ValueError(
                "groups must be declared with group_membership='private': list all possible "
                "labels, whether they occur or not."
            )
    elif model.group_prior is not None:
        raise ValueError(
            "group_prior must be None with group_membership='public': the shares of the groups "
            "are then known."
        )


def check_prior(
    prior: Any, n_groups: int, overlapping: bool = False, of: str = "group"
) -> tuple[float, ...] | None:
    """Check the shares of the groups, which sum to 1 unless groups overlap; None stays None.

    Raises
    ------
    TypeError
        If the parameter ``{of}_prior`` does not hold numbers.
    ValueError
        If it has the wrong shape, range or sum.
    """
    if prior is None:
        return None
    shares = real_array(prior)
    if shares is None:
        raise TypeError(f"{of}_prior must hold one number per {of}, got {abridged(prior)}.")
    if shares.shape != (n_groups,):
        raise ValueError(
            f"{of}_prior must have shape ({n_groups},), one share per {of}; got shape "
            f"{shares.shape}."
        )
    shares = shares.astype(np.float64)
    if not ((shares >= LEAST_PRIOR) & (shares <= 1.0)).all():
        raise ValueError(
            f"{of}_prior must hold shares in [{LEAST_PRIOR:g}, 1], got {abridged(prior)}."
        )
    if not overlapping:
        total = float(shares.sum())
        if abs(total - 1.0) > 1e-6:
            raise ValueError(f"{of}_prior must sum to 1 within 1e-6, got {total!r}.")
        shares /= total
    return tuple(shares.tolist())


def needed_size(n_features: int, mu: float) -> int:
    """Number of members that a group needs if features are uniform on [-1, 1].

    The noise of a mean of its rows has a norm of about ``n_features / (n_members mu)``.
    """
    return math.ceil(NEEDED_RATIO * math.sqrt(n_features / 3.0) * math.sqrt(n_features) / mu)


def too_small(groups: list[Any], sizes: tuple[float, ...], needed: int, declared: bool) -> str:
    """A sentence about groups with fewer than ``needed`` members; empty if there are none such.

    It shows groups and their sizes only if groups are ``declared``. Others were read off the data,
    and may be values of a column that was taken for groups by mistake.
    """
    small = [f"{groups[g]!r} ({size:.0f})" for g, size in enumerate(sizes) if size < needed]
    if not small or len(groups) == 1:
        return ""
    rest = f" and {len(small) - 10} more" if len(small) > 10 else ""
    which = "some groups (declare groups=[...] to see which)"
    if declared:
        which = f"these groups: {', '.join(small[:10])}{rest}"
    return (
        f"The noise will be about as large as the signal of {which}. At this budget and "
        f"number of features a group needs {needed} records. Merge groups, use fewer features, or "
        "raise average_weight or epsilon."
    )
