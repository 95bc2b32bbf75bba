"""How a ledger shows its charges: as rows, a frame, CSV or a plot."""

import csv
import io
import json
import math
import reprlib
from typing import Any

from ._checks import check_choice, library
from ._rows import Charge, epsilon_of_total, running_totals

__all__ = [
    "axes",
    "brief",
    "csv_of",
    "frame_of",
    "literal",
    "plain",
    "plot_charges",
    "pyplot",
    "readable",
    "rows_of",
]

_NAMES = 15  # number of names that fit below a plot
_COLOURS = 7
_BIG = 2**63
_SHORT_LINE = 80  # characters of the parameters of a charge in a frame to read


def rows_of(charges: list[Charge], delta: float) -> list[dict[str, Any]]:
    """The charges, each with the epsilon of everything that was charged until then."""
    return [
        {**charge._asdict(), "epsilon": epsilon_of_total(total, delta)}
        for charge, (total, _) in zip(charges, running_totals(charges), strict=True)
    ]


def readable(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its parameters shortened to one line."""
    words = ", ".join(f"{name}={value}" for name, value in row["parameters"].items())
    return {**row, "parameters": brief(words, _SHORT_LINE)}


def frame_of(rows: list[dict[str, Any]], columns: list[str]) -> Any:
    """The rows as a pandas DataFrame."""
    pd = library(
        "pandas",
        "Frames need pandas: pip install pandas. Ledger.charges() and Ledger.export() do not.",
    )
    frame = pd.DataFrame(rows, columns=columns)
    frame["time"] = pd.to_datetime(frame["time"], utc=True)
    return frame


def csv_of(rows: list[dict[str, Any]], columns: list[str]) -> str:
    """The rows as CSV, with their parameters as JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "parameters": json.dumps(row["parameters"])} for row in rows)
    return text.getvalue()


def plot_charges(ledger: Any, ax: Any, unit: str) -> Any:
    """Plot one bar per charge, on top of the earlier ones, and the line of the budget."""
    check_choice("unit", unit, ("epsilon", "rho"))
    ax = axes("Ledger.plot()", ax)
    charges = ledger.charges()
    if unit == "rho" and ledger.delta == 0:
        raise ValueError("unit must be 'epsilon' for a ledger with delta=0, got 'rho'.")
    in_rho = unit == "rho"

    def height(rho: float) -> float:
        return rho if in_rho else epsilon_of_total(rho, ledger.delta)

    starts = [start for _, start in running_totals(charges)]
    bottoms = [height(start) for start in starts]
    tops = [height(a + charge.rho) for a, charge in zip(starts, charges, strict=True)]
    heights = [top - bottom for top, bottom in zip(tops, bottoms, strict=True)]
    numbers = range(1, len(charges) + 1)
    names = [brief(charge.estimator or "release", 40) for charge in charges]
    few = len(charges) <= _NAMES
    parts = ["all records" if charge.part is None else "a part" for charge in charges]
    groups = parts if few else names  # colours group the bars if there are too many for names
    kinds = list(dict.fromkeys(groups))
    colours = {kind: f"C{j}" for j, kind in enumerate(kinds[:_COLOURS])}
    colour = [colours.get(group, "0.5") for group in groups]
    # Start from what was spent before, so that a small charge can be seen.
    ax.vlines(numbers, 0.0, bottoms, color="0.9", linewidth=0.8, zorder=0)
    ax.bar(numbers, heights, bottom=bottoms, width=0.8, color=colour, edgecolor=colour)
    budget = getattr(ledger, unit)
    ax.axhline(budget, color="C3", linestyle="--", label=f"budget, epsilon={ledger.epsilon:g}")
    if few:
        ax.set_xticks(numbers, [literal(name) for name in names], rotation=30, ha="right")
    else:
        ax.set_xlabel("charge")
    if len(kinds) > _COLOURS:
        colours["others"] = "0.5"
    for kind, shade in colours.items() if not few or len(kinds) > 1 else ():
        ax.scatter([], [], marker="s", color=shade, label=literal(kind))
    title = f"Privacy spent on {brief(ledger.dataset, 40)!r}"
    if (weakest := ledger.weakest_relation()) != "replace-one":
        title = f"{title}\n(neighbours: {weakest})"
    total = "rho (zCDP), summed" if in_rho else f"total epsilon, delta={ledger.delta:g}"
    ax.set(ylabel=total, title=literal(title))
    ax.set_ylim(0.0, 1.08 * max([*tops, budget]))
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, 0.9))
    if ax.figure.get_layout_engine() is None:  # otherwise names below the axes would be cut
        ax.figure.set_layout_engine("tight")
    return ax


def axes(who: str, ax: Any) -> Any:
    """The given axes, or those of a new figure.

    Raises
    ------
    TypeError
        If ``ax`` is not an Axes.
    """
    plt = pyplot(who)
    if ax is None:
        return plt.subplots(layout="tight")[1]
    if not isinstance(ax, plt.Axes):
        raise TypeError(f"ax must be None or axes of matplotlib, got {ax!r}.")
    return ax


def pyplot(who: str) -> Any:
    """Import matplotlib, or raise an ImportError that says who needs it."""
    return library("matplotlib.pyplot", f"{who} needs matplotlib: pip install matplotlib.")


def literal(text: str) -> str:
    """Text that matplotlib shows literally, without formulas, and that legends do not skip."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


_SHORT = reprlib.Repr()  # reads only a few elements of a long list, and survives bad reprs
_SHORT.maxother = _SHORT.maxlong = _SHORT.maxstring = 1000


def brief(value: Any, length: int = 200) -> str:
    """A string, or the repr of something else, in one line of Unicode of bounded length."""
    try:
        text = value if isinstance(value, str) else " ".join(_SHORT.repr(value).split())
    except Exception:  # an integer of too many digits, for instance
        text = f"<{type(value).__name__}>"
    text = text[: length + 1].encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= length else f"{text[: length - 3]}..."


def plain(value: Any) -> Any:
    """A parameter in a form that JSON can hold."""
    whole = isinstance(value, int) and -_BIG < value < _BIG  # or True or False
    finite = isinstance(value, float) and math.isfinite(value)
    return value if value is None or whole or finite else brief(value)
