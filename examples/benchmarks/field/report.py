"""Tables and plots of what was measured, into docs/field.md and docs/_static."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import studentized_range

from field.data import CODEBOOK
from field.methods import all_methods
from field.results import Store
from field.runs import EPSILONS

DOCS = Path(__file__).parents[3] / "docs"
OURS = "Private"
LINEAR = ("LogisticRegression", "Ridge", "the records")  # without privacy
TREES = ("boosted trees", "boosted trees, regression")
GROUPS = {
    "classification": ("binary", "multiclass", "text"),
    "regression": ("regression", "sparse regression"),
}
LEAST = -1.0  # below which an R^2 is as bad as it gets
MARKERS = "osv^D<>P*X"
BEGIN, END = "<!-- what `make field` writes -->\n", "<!-- end of what it writes -->"


def means(rows):
    """Mean score by problem, epsilon and method; what failed counts as the constant predictor."""
    rows = rows.assign(score=rows["score"].clip(lower=LEAST))
    index = ["task", "data"]
    public = rows[np.isinf(rows["epsilon"])].groupby([*index, "method"])["score"].mean().unstack()
    private = rows[np.isfinite(rows["epsilon"])].copy()
    constant = private.set_index(index).index.map(public["constant"])
    private["score"] = private["score"].fillna(pd.Series(constant, private.index))
    table = private.groupby([*index, "epsilon", "method"])["score"].mean().unstack()
    return table, public


def one_of(public, names):
    """The score of the first of several methods that has one, by problem."""
    return public.reindex(columns=names).bfill(axis=1).iloc[:, 0]


def ranks(table, task):
    """Mean ranks over data sets by method and epsilon, and the critical difference at 5 %."""
    part = table.loc[task].dropna(axis=1, how="all")
    part = part.dropna(axis=1, thresh=math.ceil(0.9 * len(part))).dropna()
    rank = part.rank(axis=1, ascending=False).groupby("epsilon").mean().T
    k, n = part.shape[1], part.index.get_level_values("data").nunique()
    width = studentized_range.ppf(0.95, k, np.inf) / math.sqrt(2.0) if k > 1 else math.nan
    return rank, float(width * math.sqrt(k * (k + 1) / (6.0 * n))), n


def losses(table, tasks):
    """How far every method is from the best private one, by problem and epsilon."""
    part = table[table.index.get_level_values("task").isin(tasks)].dropna(axis=1, how="all")
    return part.rsub(part.max(axis=1), axis=0)


def shares(table, public, tasks):
    """Of what a linear model gains over the constant, the share that is left with privacy."""
    part = table[table.index.get_level_values("task").isin(tasks)].dropna(axis=1, how="all")
    problems = part.index.droplevel("epsilon")
    low = pd.Series(problems.map(public["constant"]), part.index)
    gain = pd.Series(problems.map(one_of(public, LINEAR)), part.index) - low
    share = part.sub(low, axis=0).div(gain, axis=0)[gain > 0.02]
    return share.clip(-1.0, 1.2)


def style(name, others):
    ours = name.startswith(OURS)
    look = {"linewidth": 2.0 if ours else 1.0, "linestyle": "-" if ours else "--"}
    return look | {"marker": MARKERS[others.index(name) % len(MARKERS)], "markersize": 4}


def draw(path, titles, label, plot):
    """One panel for each group of tasks, on a background that dark pages need."""
    figure = Figure(figsize=(10.0, 4.6), layout="constrained", facecolor="white")
    for ax, title in zip(figure.subplots(1, len(titles)), titles, strict=True):
        plot(ax, GROUPS[title])
        ax.set_title(title, fontsize="medium")
        ax.legend(fontsize="x-small")
    figure.supylabel(label, fontsize="medium")
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})


def draw_shares(table, public, path):
    def plot(ax, tasks):
        share = shares(table, public, tasks).groupby("epsilon").median()
        for name in share:
            ax.plot(share.index, share[name], label=name, **style(name, list(share)))
        ax.axhline(0.0, color="grey", linewidth=0.8)
        ax.axhline(1.0, color="black", linewidth=0.8)
        ax.set(xscale="log", xlabel="epsilon", xlim=(0.08, 12.5), ylim=(-1.05, 1.15))
        ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])

    draw(path, list(GROUPS), "share of the gain without privacy (median)", plot)


def draw_profile(table, path):
    def plot(ax, tasks):
        loss = losses(table, tasks)
        grid = np.linspace(0.0, 0.2, 101)
        for name in loss:
            reached = [(loss[name].dropna() <= x + 1e-9).mean() for x in grid]
            ax.plot(grid, reached, label=name, markevery=10, **style(name, list(loss)))
        ax.set(xlabel="loss of score to the best private method", ylim=(0.0, 1.02))

    draw(path, list(GROUPS), "share of data sets and epsilons", plot)


def number(x):
    return "" if pd.isna(x) else f"{x:.3f}".replace("0.", ".", 1) if abs(x) < 1 else f"{x:.2f}"


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def rank_tables(table):
    for task in dict.fromkeys(table.index.get_level_values("task")):
        rank, width, n = ranks(table, task)
        if rank.shape[0] < 2 or not n:
            continue
        rows = [
            [f"**{name}**" if name.startswith(OURS) else name, *(f"{x:.1f}" for x in line)]
            for name, line in zip(rank.index, rank.to_numpy(), strict=True)
        ]
        rows.sort(key=lambda row: float(row[1 + len(rank.columns) // 2]))
        found = f"{n} data set{'s' if n > 1 else ''}, critical difference {width:.1f}"
        header = [f"{task} ({found})", *(f"ε = {epsilon:g}" for epsilon in rank.columns)]
        yield markdown(header, rows)


def loss_table(table, public, epsilon):
    """By data set: the best private method, ours, and what there is without privacy."""
    rows = []
    for (task, name), scores in table.xs(epsilon, level="epsilon").iterrows():
        scores, free = scores.dropna(), public.loc[task, name]
        ours = scores[scores.index.str.startswith(OURS)]
        if ours.empty:
            continue
        rows.append([
            f"{name} ({task})", scores.idxmax(), number(scores.max()), ours.idxmax(),
            number(scores.max() - ours.max()), number(one_of(free.to_frame().T, LINEAR).iloc[0]),
            number(one_of(free.to_frame().T, TREES).iloc[0]), number(free["constant"]),
        ])  # fmt: skip
    header = ["data set", "best private", "score", "best of ours", "loss", "linear, not private"]
    return markdown([*header, "boosted trees", "constant"], rows)


def method_table(rows):
    """Seconds of a fit and failures, by method."""
    private = rows[np.isfinite(rows["epsilon"])]
    lines = []
    for name, part in private.groupby("method"):
        failed = part["failure"].str.split(":").str[0]
        failed = failed[(failed != "") & ~failed.str.startswith("NotImplementedError")]
        seconds = part["seconds"].dropna()
        means = [part[column].mean() for column in ("auc", "log_loss", "calibration")]
        times = [f"{seconds.quantile(q):.2g}" if len(seconds) else "" for q in (0.5, 0.95)]
        lines.append([name, f"{len(part)}", f"{len(failed)}", *times, *map(number, means)])
    header = ["method", "fits", "failed", "seconds, median", "95 %", "AUC", "log loss"]
    return markdown([*header, "calibration error"], lines)


def write(folder, docs=DOCS):
    """Replace the tables of the page, and the plots."""
    rows = Store(folder).read()
    unknown = set(rows["method"]) - set(all_methods()) | set(rows["data"]) - set(CODEBOOK)
    rows = rows[~rows["method"].isin(unknown) & ~rows["data"].isin(unknown)]
    table, public = means(rows)
    draw_shares(table, public, docs / "_static" / "field_shares.png")
    draw_profile(table, docs / "_static" / "field_profile.png")
    page = docs / "field.md"
    splits = rows.groupby(["task", "data", "method"])["split"].nunique()
    parts = [
        f"{len(rows):,} fits; {splits.min()} to {splits.max()} splits.\n",
        "### Mean ranks\n",
        *rank_tables(table),
        "### Loss to the best known at ε = 1\n",
        loss_table(table, public, 1.0),
        "### Failures, times and probabilities\n",
        method_table(rows),
    ]
    text = page.read_text(encoding="utf-8")
    between = re.escape(BEGIN) + ".*?" + re.escape(END)
    content = BEGIN + "\n" + "\n".join(parts) + "\n" + END
    page.write_text(re.sub(between, lambda _: content, text, flags=re.DOTALL), encoding="utf-8")
