"""How two states of the code differ, and what is wrong with one, in words and in a picture."""

import numpy as np
import pandas as pd
from scipy import stats

from laws.results import Store
from laws.runs import CONSTANT, KEYS, OPTIMUM

LEAST = -1.0  # scores below it count as this one in means
WORSE, BELOW_CONSTANT, DIP = 0.03, 0.05, 0.03
LESS = {"all": 0.003, "model": 0.005, "law": 0.05}  # than stored means: a check fails
ROOM = 4.5  # standard errors of room that unchanged code has in a check
ABSURD, NEAR_ZERO = -1.0, -0.05  # R^2 of a fit, and of a constant that the budget can release
LISTED = 25
CELL = ["law", "task", "model", "n", "relation", "epsilon"]
TABLE = ["law", "task", "n", "relation", "epsilon", "seed"]


def read(label, folder):
    """Rows of models, with the constant's score for the same table and budget, and references."""
    rows = Store(label, folder).read()
    if rows.empty:
        raise SystemExit(f"nothing was measured under the label {label}")
    references = rows[rows.model.isin([CONSTANT, OPTIMUM])]
    constants = references[references.model == CONSTANT].set_index(TABLE).score
    rows = rows[~rows.model.isin([CONSTANT, OPTIMUM])]
    return rows.join(constants.rename("constant"), on=TABLE), references


def clipped(scores):
    return scores.astype(float).clip(lower=LEAST)


def cells_of(rows, values):
    """Mean, standard error and number of values in every cell."""
    found = values.groupby([rows[name] for name in CELL]).agg(["mean", "std", "count"])
    found["se"] = found["std"] / np.sqrt(found["count"])
    found["error"] = two_errors(found["std"], found["count"])
    return found.reset_index()


def two_errors(deviation, count):
    """Two standard errors of a mean, or what Student's law has in their place for few values."""
    factor = stats.t.ppf(stats.norm.cdf(2.0), np.maximum(count - 1, 1))
    return np.where(count > 1, factor * deviation / np.sqrt(count), np.inf)


def overall(cells):
    """The mean over cells, and its standard error."""
    variance = (cells["se"].fillna(0.0) ** 2).sum()
    return cells["mean"].mean(), np.sqrt(variance) / max(len(cells), 1)


def name_of(cell):
    relation = "" if cell.relation == "replace-one" else ", added"
    return f"{cell.law} ({cell.task}), {cell.model}, n {cell.n}, eps {cell.epsilon:g}{relation}"


def listed(title, lines):
    """Print a list: all of its length, some of its lines."""
    print(f"\n{title}: {len(lines) or 'none'}")
    for line in lines[:LISTED]:
        print(f"  {line}")
    if len(lines) > LISTED:
        print(f"  and {len(lines) - LISTED} more")


# ------------------------------------------------------------------------------ two states


def differences(old, new):
    """Print what the second state gains on the first; medians would hide accidents."""
    both = old.merge(new, on=KEYS, suffixes=("_old", "_new"))
    if both.empty:
        raise SystemExit("the two labels have no tables in common")
    cells = cells_of(both, clipped(both.score_new) - clipped(both.score_old))
    known = cells[cells["count"] > 1]
    print("all cells: {:+.4f} +- {:.4f}".format(*overall(known)), f"({len(known)} cells)")
    for by in ("model", "relation", "epsilon", "n", "law"):
        print(f"\nby {by}")
        for name, part in known.groupby(by):
            print("  {:28}{:+.4f} +- {:.4f}".format(str(name), *overall(part)))
    worse = known[known["mean"] + known["error"] < -WORSE].sort_values("mean")
    better = known[known["mean"] - known["error"] > WORSE].sort_values("mean")[::-1]
    for title, found in ((f"worse by {WORSE}", worse), (f"better by {WORSE}", better)):
        lines = [
            f"{cell.mean:+.3f} +- {cell.se:.3f}  {name_of(cell)}" for cell in found.itertuples()
        ]
        listed(f"cells {title} beyond two standard errors", lines)
    times = both[["seconds_old", "seconds_new"]].astype(float).mean() * 1000.0
    print(f"\nprocessor time of a fit: {times.iloc[0]:.1f} and {times.iloc[1]:.1f} ms (means)")


# ------------------------------------------------------------------------------ a check


def changes(old, new):
    """Mean change of the score in every cell."""
    both = old.merge(new, on=KEYS, suffixes=("_old", "_new"))
    return cells_of(both, clipped(both.score_new) - clipped(both.score_old))


def mean_of(labels, folder):
    """Mean scores of several labels on every table."""
    rows = pd.concat([read(label, folder)[0] for label in labels])
    return rows.assign(score=clipped(rows.score)).groupby(KEYS, as_index=False).score.mean()


def change(old, new):
    """The mean change in words, and what a check fails for: means too low, fits that fail."""
    cells = changes(old, new).assign(all="cells")
    words = "mean change of the score: {:+.4f} +- {:.4f}".format(*overall(cells))
    rows = new[new.failure != ""].itertuples()
    failed = sorted({f"{row.failure}  {name_of(row)}" for row in rows})
    fallen = (text for by, less in LESS.items() for text in falls(cells, by, less))
    return words, [*failed, *fallen]


def falls(cells, by, less):
    """Models, or laws, whose mean falls by more than ``less`` and more than chance explains."""
    for name, part in cells.groupby(by):
        mean, error = overall(part)
        room = stats.t.ppf(stats.norm.cdf(ROOM), (part["count"] - 1).sum()) * error
        if mean < -max(less, room):
            yield f"{mean:+.4f} +- {error:.4f}  {by} {name}"


# ------------------------------------------------------------------------------ one state


def below_constant(rows):
    medians = rows.assign(score=clipped(rows.score), constant=clipped(rows.constant))
    medians = medians.groupby(CELL)[["score", "constant"]].median().reset_index()
    found = medians[medians.score < medians.constant - BELOW_CONSTANT]
    order = (found.score - found.constant).argsort()
    return [
        f"{cell.score:+.3f}, the constant {cell.constant:+.3f}  {name_of(cell)}"
        for cell in found.iloc[order].itertuples()
    ]


def dips(rows, along):
    """Falls of the mean score from one epsilon, or n, to the next: on the same seeds."""
    wide = rows.assign(score=clipped(rows.score))
    others = [name for name in CELL if name != along]
    found = []
    for _, series in wide.groupby(others):
        by_seed = series.pivot_table(index="seed", columns=along, values="score")
        for low, high in zip(by_seed.columns[:-1], by_seed.columns[1:], strict=True):
            change = (by_seed[high] - by_seed[low]).dropna()
            error = change.std() / np.sqrt(max(len(change), 1))
            if change.mean() + two_errors(change.std(), len(change)) < -DIP:
                cell = series[series[along] == high].iloc[0]
                means = by_seed.loc[change.index, [low, high]].mean()
                text = f"{means[low]:.3f} to {means[high]:.3f} +- {error:.3f}"
                found.append((change.mean(), f"{text}  {name_of(cell)} ({along} {low:g} before)"))
    return [text for _, text in sorted(found)]


def absurd(rows):
    """Fits with R^2 below -1 where a constant of the same budget is about 0, by cell."""
    numbers = rows[rows.task.str.startswith("numbers") & (rows.constant > NEAR_ZERO)]
    found = numbers[numbers.score < ABSURD]
    print(f"\nR^2 below {ABSURD:g} where the constant has about 0: ", end="")
    print(f"{len(found)} of {len(numbers)} fits, {1000.0 * len(found) / len(numbers):.1f} in 1,000")
    cells = found.groupby(CELL).score.agg(["size", "min"]).reset_index()
    return [
        f"{cell.size} fits, the least {cell.min:.3g}  {name_of(cell)}"
        for cell in cells.sort_values("size", ascending=False).itertuples()
    ]


def alone(rows, references):
    """Print what is wrong with one state."""
    cells = cells_of(rows, clipped(rows.score))
    for model, part in cells.groupby("model"):
        print("  {:28}{:.4f} +- {:.4f}".format(model, *overall(part)), f"({len(part)} cells)")
    best = references[references.model == OPTIMUM]
    for task, part in best.groupby("task"):
        print(f"  not private, {task:18}{clipped(part.score).mean():.4f}")
    failures = rows[rows.failure != ""]
    listed("failures", [f"{row.failure}  {name_of(row)}" for row in failures.itertuples()])
    listed(f"medians below the private constant by {BELOW_CONSTANT}", below_constant(rows))
    for along in ("epsilon", "n"):
        listed(f"dips of {DIP} beyond two standard errors as {along} grows", dips(rows, along))
    listed("cells with such fits", absurd(rows))


def compare(labels, folder):
    """Print how two states differ, and what is wrong with the last one."""
    states = [read(label, folder) for label in labels]
    if len(labels) == 2:
        print(f"{labels[0]} to {labels[1]}")
        differences(states[0][0], states[1][0])
    print(f"\n{labels[-1]} alone: mean scores, those below {LEAST:g} as {LEAST:g}")
    alone(*states[-1])


# ------------------------------------------------------------------------------ picture

BLUE, ORANGE, GREY = "#2166ac", "#d95f02", "#777777"


def plot(labels, folder, columns=8):
    """Save scores over epsilon, a panel for each law: blue ridge or logistic, orange l1."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    states = [read(label, folder) for label in labels]
    rows, references = states[0]
    laws = list(dict.fromkeys(zip(rows.task, rows.law, strict=True)))
    laws.sort(key=lambda key: ("of groups" in key[0], key))
    lines = -(-len(laws) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(2.3 * columns, 1.7 * lines))
    for axis in axes.flat[len(laws) :]:
        axis.axis("off")
    for axis, (task, law) in zip(axes.flat, laws, strict=False):
        for (state, _), style in zip(states, ("-", ":"), strict=False):
            panel(axis, state[(state.law == law) & (state.task == task)], style)
        known = references[(references.law == law) & (references.task == task)]
        best = clipped(known[known.model == OPTIMUM].score).median()
        axis.axhline(best, color=GREY, linewidth=0.7, linestyle="--")
        constant = clipped(known[known.model == CONSTANT].score).median()
        axis.axhline(constant, color=GREY, linewidth=0.7)
        axis.set(xscale="log", title=f"{law}\n{task}")
        axis.title.set_fontsize(7)
        axis.tick_params(labelsize=6, which="both")
        axis.set_xticks([0.1, 0.3, 1, 3, 8], ["0.1", "0.3", "1", "3", "8"])
        axis.minorticks_off()
    figure.tight_layout()
    path = folder / f"{'_'.join(labels)}.png"
    figure.savefig(path, dpi=110)
    print(f"scores over epsilon are in {path}; darker lines have more records")


def panel(axis, rows, style):
    """Mean scores of a law, a line for each model and number of records."""
    first = ("PrivateRidge", "PrivateLogisticRegression", "PrivateGroupDRO")
    sizes = sorted(rows.n.unique())
    for (model, n, relation), part in rows.groupby(["model", "n", "relation"]):
        means = clipped(part.score).groupby(part.epsilon).mean()
        axis.plot(
            means.index,
            means,
            style if relation == "replace-one" else "-.",
            color=BLUE if model in first else ORANGE,
            alpha=0.35 + 0.65 * (sizes.index(n) + 1) / len(sizes),
            linewidth=0.9,
            marker="." if len(means) == 1 else None,
        )
