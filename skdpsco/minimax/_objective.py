"""Which mixtures of groups an objective maximises over, and which groups are too small for it."""

from typing import Any

import numpy as np

from skdpsco._progress import check_progress
from skdpsco._validation import check_bound

LEGAL = {
    "loss": ("logistic", "squared"),
    "group_membership": ("public",),
    "objective": ("worst", "cvar", "average"),
}


def check_options(model: Any) -> None:
    """Check what scikit-learn's declarations do not say.

    Raises
    ------
    ValueError, TypeError
    """
    for name, legal in LEGAL.items():
        if getattr(model, name) not in legal:
            raise ValueError(f"{name} must be one of {legal}, got {getattr(model, name)!r}.")
    for name, lowest in (("average_weight", 0.0), ("cvar_level", 1e-9)):
        value = getattr(model, name)
        if isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be a number in [{lowest:g}, 1], got {value!r}.")
        if not lowest <= value <= 1.0:
            raise ValueError(f"{name} must be in [{lowest:g}, 1], got {value!r}.")
    check_bound("target_bound", model.target_bound)
    check_progress(model.verbose)


def mixtures(objective: str, cvar_level: float, sizes: np.ndarray) -> dict[str, tuple[float, ...]]:
    """Largest weights of the groups, and those that smoothing pulls to."""
    k, shares = len(sizes), sizes / sizes.sum()
    if objective == "worst":
        return {"theta_cap": (1.0,) * k, "theta_base": (1.0 / k,) * k}
    level = 1.0 if objective == "average" else cvar_level
    cap = np.minimum(shares / level, 1.0)
    return {"theta_cap": tuple(cap.tolist()), "theta_base": tuple(shares.tolist())}


def too_small(groups: list[Any], sizes: np.ndarray, needed: int) -> str:
    """A sentence about groups with fewer than ``needed`` members; empty if there are none."""
    small = [f"{groups[g]!r} ({sizes[g]})" for g in np.flatnonzero(sizes < needed)]
    if not small or len(groups) == 1:
        return ""
    rest = f" and {len(small) - 10} more" if len(small) > 10 else ""
    return (
        f"The noise will be about as large as what these groups' records say: "
        f"{', '.join(small[:10])}{rest}. At this budget and number of features a group needs "
        f"{needed} records. Merge groups, use fewer features, or raise average_weight or epsilon."
    )
