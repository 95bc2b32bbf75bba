"""How a ledger shows its charges: as rows, a frame or a plot."""

import reprlib
from typing import Any

from ._rows import Charge

_NAMES = 15  # number of names that fit below a plot
_COLOURS = 7
_BIG = 2**63


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
    """Plot one bar per charge, on top of the earlier ones, and the line of the budget."""
    ax = axes("Ledger.plot()", ax)
    charges = ledger.charges()
    own: dict[str, float] = {}  # of each part
    counted: dict[str, float] = {}  # of each partition: its dearest part
    total, bottoms = 0.0, []
    for charge in charges:
        if charge.part is None:
            bottoms.append(total)
            total += charge.rho
            continue
        partition = charge.part.split(":")[0]
        base = total - counted.get(partition, 0.0)  # parts stand side by side
        bottoms.append(base + own.get(charge.part, 0.0))
        own[charge.part] = own.get(charge.part, 0.0) + charge.rho
        counted[partition] = max(counted.get(partition, 0.0), own[charge.part])
        total = base + counted[partition]
    numbers = range(1, len(charges) + 1)
    names = [brief(charge.estimator or "release", 40) for charge in charges]
    few = len(charges) <= _NAMES
    groups = names  # if there are too many for names, use colours
    if few:
        groups = ["all records" if charge.part is None else "a part" for charge in charges]
    kinds = list(dict.fromkeys(groups))
    colours = {kind: f"C{j}" for j, kind in enumerate(kinds[:_COLOURS])}
    colour = [colours.get(group, "0.5") for group in groups]
    # What was spent before, so that a small charge can be seen.
    ax.vlines(numbers, 0.0, bottoms, color="0.9", linewidth=0.8, zorder=0)
    heights = [charge.rho for charge in charges]
    ax.bar(numbers, heights, bottom=bottoms, width=0.8, color=colour, edgecolor=colour)
    ax.axhline(ledger.rho, color="C3", linestyle="--", label=f"budget, epsilon={ledger.epsilon:g}")
    if few:
        ax.set_xticks(numbers, [literal(name) for name in names], rotation=30, ha="right")
    else:
        ax.set_xlabel("charge")
    if len(kinds) > _COLOURS:
        colours["others"] = "0.5"
    for kind, shade in colours.items() if not few or len(kinds) > 1 else ():
        ax.scatter([], [], marker="s", color=shade, label=literal(kind))
    title = f"Privacy spent on {brief(ledger.dataset, 40)!r}"
    ax.set(ylabel="rho (zCDP), summed", title=literal(title))
    ax.set_ylim(0.0, 1.08 * max(total, ledger.rho))
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, 0.9))
    return ax


def axes(who: str, ax: Any) -> Any:
    """The given axes, or those of a new figure."""
    plt = pyplot(who)
    return plt.subplots(layout="tight")[1] if ax is None else ax


def pyplot(who: str) -> Any:
    """Import matplotlib, or raise an ImportError that says who needs it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"{who} needs matplotlib: pip install matplotlib.") from error
    return plt


def literal(text: str) -> str:
    """Text that matplotlib shows literally, without formulas, and that legends do not skip."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


_SHORT = reprlib.Repr()  # looks at a few elements of a long list only, and survives bad reprs
_SHORT.maxother = _SHORT.maxlong = _SHORT.maxstring = 1000


def brief(value: Any, length: int = 200) -> str:
    """A string, or the repr of something else, in one line of Unicode of bounded length."""
    try:
        text = value if isinstance(value, str) else " ".join(_SHORT.repr(value).split())
    except Exception:  # an integer of too many digits, say
        text = f"<{type(value).__name__}>"
    text = text[: length + 1].encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= length else f"{text[: length - 3]}..."


def plain(value: Any) -> Any:
    """A parameter in a form that JSON can hold."""
    if (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, int) and -_BIG < value < _BIG)
    ):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    return brief(value)
