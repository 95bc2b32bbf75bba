"""What a ledger shows of its charges: rows, a frame, a plot."""

from typing import Any, NamedTuple


class Charge(NamedTuple):
    """One entry of a ledger.

    Parameters
    ----------
    time : str
        UTC, ISO 8601.
    estimator : str
    parameters : dict
    event : str
    rho : float
        Zero-concentrated differential privacy.
    part : str or None
        "partition:part" for a charge on one part of the data.
    """

    time: str
    estimator: str
    parameters: dict
    event: str
    rho: float
    part: str | None


def frame_of(charges: list[Charge]) -> Any:
    """The rows as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "Ledger.history() needs pandas: pip install pandas. Ledger.charges() does not."
        ) from error
    frame = pd.DataFrame(charges, columns=list(Charge._fields))
    frame["time"] = pd.to_datetime(frame["time"], utc=True)
    return frame


def plot_charges(ledger: Any, ax: Any) -> Any:
    """A bar per charge, on top of those before it, under the line of the budget."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Ledger.plot() needs matplotlib: pip install matplotlib.") from error
    if ax is None:
        _, ax = plt.subplots()
    charges = ledger.charges()
    top: dict[str, float] = {}  # of each partition's first charge, and of each part
    total = 0.0
    for i, charge in enumerate(charges):
        start = total
        if charge.part is not None:  # parts of one partition start side by side
            start = top.get(charge.part, top.setdefault(charge.part.split(":")[0], total))
            top[charge.part] = start + charge.rho
        ax.bar(i, charge.rho, bottom=start, width=0.8, color="C0", edgecolor="white")
        total = max(total, start + charge.rho)
    ax.axhline(ledger.rho, color="C3", linestyle="--", label=f"budget, epsilon={ledger.epsilon:g}")
    names = [charge.estimator or "release" for charge in charges]
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set(ylabel="rho (zCDP), summed", title=f"Privacy spent on {ledger.dataset!r}")
    ax.set_ylim(0.0, None)
    ax.legend()
    return ax


def plain(value: Any) -> Any:
    """What JSON can hold of a parameter."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
