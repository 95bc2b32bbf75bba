"""Write tables and plots of the measurements into docs/field.md, docs/field and docs/_static."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import studentized_range

from field.data import CODEBOOK
from field.methods import all_methods, all_settings
from field.results import Store
from field.runs import EPSILONS
from field.start import FILE

DOCS = Path(__file__).parents[3] / "docs"
OURS = "Private"
FIRST = {  # of ours, what the pages recommend to begin with
    "regression": "PrivateRidge",
    "sparse regression": "PrivateLasso",
    "worst group": "PrivateGroupDRO",
    "table": "PrivateSynthesizer",
}
EXPECTED = (  # in the README
    ("binary", "Adult"),
    ("multiclass", "digits"),
    ("regression", "California"),
    ("regression", "prices of diamonds"),
)
LINEAR = ("LogisticRegression", "Ridge", "the records")  # without privacy
TREES = ("boosted trees", "boosted trees, regression")
GROUPS = {
    "classification": ("binary", "multiclass", "text"),
    "regression": ("regression", "sparse regression"),
}
POINT = 0.01
LEAST = -1.0  # below which an R^2 is as bad as it gets
MARKERS = "osv^D<>P*X"
BEGIN, END = "<!-- what `make field` writes -->\n", "<!-- end of what it writes -->"


def means(rows):
    """Mean score by problem, epsilon and method; failures count as the constant predictor."""
    rows = rows.assign(score=rows["score"].astype(float).clip(lower=LEAST))
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
    """Mean ranks by method and epsilon, the critical difference at 5 %, and how many data sets.

    It ranks the methods that were measured on all data sets at an epsilon.
    """
    found = {}
    for epsilon, part in table.loc[task].groupby("epsilon"):
        complete = part.dropna(axis=1)
        found[epsilon] = complete.rank(axis=1, ascending=False).mean()
        n = len(complete)
    rank = pd.DataFrame(found)
    k = len(rank)
    width = studentized_range.ppf(0.95, k, np.inf) / math.sqrt(2.0) if k > 1 else math.nan
    return rank, float(width * math.sqrt(k * (k + 1) / (6.0 * n))), n


def of_tasks(table, tasks):
    """Scores of methods in some tasks, at epsilons at which a method has seen all its data sets."""
    part = table[table.index.get_level_values("task").isin(tasks)].dropna(axis=1, how="all")
    counts = part.groupby("epsilon").transform("count")
    return part.where(counts == counts.max())


def losses(table, tasks):
    """How far every method is from the best private one; of methods measured at all epsilons."""
    part = of_tasks(table, tasks)
    everywhere = part.notna().groupby("epsilon").any().all()
    return part.loc[:, everywhere].rsub(part.max(axis=1), axis=0)


def shares(table, public, tasks):
    """The share of a linear model's gain over the constant that is left with privacy."""
    part = of_tasks(table, tasks)
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
    text = "" if pd.isna(x) else f"{x:.3f}" if abs(x) < 1 else f"{x:.2f}"
    return text.replace("-0.000", "0.000").replace("0.", ".", 1) if abs(x) < 1 else text


def seconds(x):
    """Two digits, or all that are before the point."""
    return "" if pd.isna(x) else f"{x:.2g}" if x < 100.0 else f"{x:.0f}"


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
        order = rank.mean(axis=1).to_numpy().argsort()
        rows = [[cell.replace("nan", "") for cell in rows[k]] for k in order]
        found = f"{n} data set{'s' if n > 1 else ''}, critical difference {width:.1f}"
        header = [f"{task} ({found})", *(f"ε = {epsilon:g}" for epsilon in rank.columns)]
        yield markdown(header, rows)


def loss_table(table, public, epsilon):
    """By data set: the best private method, ours, and models without privacy."""
    rows = []
    for (task, name), scores in table.xs(epsilon, level="epsilon").iterrows():
        scores = scores.dropna()
        ours = scores[scores.index.str.startswith(OURS)]
        if ours.empty or (task, name) not in public.index:
            continue  # not finished
        free = public.loc[[(task, name)]]
        first = ours.get(first_choice(task), math.nan)
        found = (
            scores.max(), scores.max() - ours.max(), scores.max() - first,
            one_of(free, LINEAR).iloc[0], one_of(free, TREES).iloc[0], free["constant"].iloc[0],
        )  # fmt: skip
        rows.append([f"{name} ({task})", scores.idxmax(), *map(number, found)])
    header = ["data set", "best private", "score", "loss of our best", "loss of our first choice"]
    return markdown([*header, "linear, not private", "boosted trees", "constant"], rows)


def summary_table(table, public):
    """By task: mean ranks at epsilon 1, and the share of the gain that our first choice keeps."""
    lines, epsilons = [], EPSILONS[1:4]
    for task in dict.fromkeys(table.index.get_level_values("task")):
        rank, _, n = ranks(table, task)
        rank = rank.get(1.0, pd.Series(dtype=float)).dropna()
        is_ours = rank.index.str.startswith(OURS)
        best = [
            f"{part.idxmin()} ({part.min():.1f})" if len(part) else ""
            for part in (rank[is_ours], rank[~is_ours])
        ]
        share = shares(table, public, (task,)).groupby("epsilon").median()
        kept = share.get(first_choice(task), pd.Series(dtype=float)).reindex(epsilons)
        lines.append([f"{task} ({n})", *best, *map(number, kept)])
    header = ["task (data sets)", "best of ours (rank)", "best of the others (rank)"]
    return markdown([*header, *(f"kept, ε = {epsilon:g}" for epsilon in epsilons)], lines)


def first_choice(task):
    return FIRST.get(task, "PrivateLogisticRegression")


def expectations(rows):
    """The README's table: scores of models of our first choice on some data sets."""
    table, public = means(rows)
    lines, epsilons = [], EPSILONS[1:4]
    for problem in EXPECTED:
        free, model = public.loc[[problem]], first_choice(problem[0])
        private = [table.loc[(*problem, epsilon), model] for epsilon in epsilons]
        found = [free["constant"].iloc[0], *private, one_of(free, LINEAR).iloc[0]]
        lines.append([f"{problem[1]}, `{model}`", *map(number, found)])
    header = ["data set", "constant", *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    return markdown([*header, "linear, not private"], lines)


def known_rows(folder):
    """Rows of known methods and data sets, and those of them at default settings."""
    rows, methods = Store(folder).read(), all_methods()
    known = rows["method"].isin({*methods, *all_settings()}) & rows["data"].isin(set(CODEBOOK))
    return rows[known], rows[known & rows["method"].isin(methods)]


def behind_table(rows, table):
    """Where another method is ahead of ours by more than a point and two standard errors.

    Measurements on a single split have no standard error, and are left out.
    """
    scores = rows.assign(score=rows["score"].clip(lower=LEAST)).set_index(
        ["task", "data", "epsilon", "method", "split"]
    )["score"]
    lines, splits = [], scores.groupby(["task", "data", "epsilon", "method"]).count().unstack()
    for key, found in table.iterrows():
        found = found[splits.loc[key].reindex(found.index) > 1].dropna()
        is_ours = found.index.str.startswith(OURS)
        if is_ours.all() or not is_ours.any():
            continue
        best, ours = found[~is_ours].idxmax(), found[is_ours].idxmax()
        ahead = (scores[(*key, best)] - scores[(*key, ours)]).dropna()
        error = ahead.std() / math.sqrt(len(ahead))
        if ahead.mean() > max(POINT, 2.0 * error):
            gap = f"{number(ahead.mean())} ± {number(error)}"
            line = f"{key[1]} ({key[0]})", f"{key[2]:g}", best, number(found[best]), ours
            lines.append([*line, number(found[ours]), gap])
    header = ["data set", "ε", "best of the others", "score", "best of ours", "score", "gap"]
    return markdown(header, lines)


def tuned_table(rows, methods):
    """How far our best is behind the best setting of any other method, chosen on test records.

    It compares on the splits on which settings were measured. Below 0 ours are ahead.
    """
    settings = rows[~rows["method"].isin(methods)]
    keys = ["task", "data", "epsilon", "split"]
    same = rows.merge(settings[keys].drop_duplicates(), on=keys)
    same = same.assign(score=same["score"].clip(lower=LEAST))
    groups = same.groupby([*keys[:3], "method"])["score"]
    table, splits = groups.mean().unstack(), groups.count().unstack()
    table = table.where(splits.eq(splits.max(axis=1), axis=0))
    is_ours = table.columns.str.startswith(OURS)
    references = [name for name, method in methods.items() if not method.private]
    others = table.loc[:, ~is_ours].drop(columns=references, errors="ignore")
    loss = (others.max(axis=1) - table.loc[:, is_ours].max(axis=1)).unstack("epsilon")
    lines = []
    for (task, name), losses in loss.dropna(how="all").iterrows():
        at = others.loc[(task, name, 1.0)] if (task, name, 1.0) in others.index else None
        best = ["", ""] if at is None else [at.idxmax(), number(at.max())]
        lines.append([f"{name} ({task})", *best, *map(number, losses)])
    lines.append(["mean", "", "", *map(number, loss.mean())])
    names = [f"loss of our best, ε = {epsilon:g}" for epsilon in loss]
    return markdown(["data set", "best of the others at ε = 1, tuned", "score", *names], lines)


def synthetic_table(rows, epsilon):
    """Errors of marginals of synthetic records, the score of a model of them, and seconds."""
    part = rows[(rows["task"] == "table") & (rows["epsilon"].isin([epsilon, math.inf]))]
    part = part[part["failure"] == ""].assign(triples=1.0 - part["score"])
    columns = ["triples", "pairs", "largest", "downstream", "seconds"]
    lines = []
    for (name, method), found in part.groupby(["data", "method"])[columns].mean().iterrows():
        label = f"**{method}**" if method.startswith(OURS) else method
        errors = [f"{x:.4f}".replace("0.", ".", 1).replace("nan", "") for x in found.iloc[:3]]
        lines.append([name, label, *errors, number(found.iloc[3]), seconds(found.iloc[4])])
    header = ["table", "method", "distance of three columns", "of pairs", "largest error"]
    return markdown([*header, "accuracy learned", "seconds"], lines)


def start_table(folder):
    """The measurements of `start`, if there are any."""
    path = Path(folder) / FILE
    if not path.exists():
        return ""
    rows = pd.read_csv(path)
    lines = [
        [name, *map(seconds, found)] for name, *found in rows.itertuples(index=False, name=None)
    ]
    header = ["method", "import, s", "first fit, s", "later fit, s", "peak, MB"]
    return markdown([*header, "first fit that compiles, s"], lines)


def method_table(rows):
    """Seconds of a fit and failures, by method."""
    private = rows[np.isfinite(rows["epsilon"])]
    lines = []
    for name, part in private.groupby("method"):
        failed = part["failure"].str.split(":").str[0]
        failed = failed[(failed != "") & ~failed.str.startswith("NotImplementedError")]
        means = [part[column].mean() for column in ("auc", "log_loss", "calibration")]
        times = [seconds(part["seconds"].quantile(q)) for q in (0.5, 0.95)]
        counts = part["split"].nunique(), len(part), len(failed)
        lines.append([name, *map(str, counts), *times, *map(number, means)])
    header = ["method", "splits", "fits", "failed", "seconds, median", "95 %", "AUC", "log loss"]
    return markdown([*header, "calibration error"], lines)


def fill(page, parts):
    """Replace what stands between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    between = re.escape(BEGIN) + ".*?" + re.escape(END)
    content = BEGIN + "\n" + "\n".join(parts) + "\n" + END
    page.write_text(re.sub(between, lambda _: content, text, flags=re.DOTALL), encoding="utf-8")


def write(folder, docs=DOCS):
    """Replace the tables of the pages, and the plots."""
    with_settings, rows = known_rows(folder)
    methods, (table, public) = all_methods(), means(rows)
    draw_shares(table, public, docs / "_static" / "field_shares.png")
    draw_profile(table, docs / "_static" / "field_profile.png")
    fill(docs / "field.md", [summary_table(table, public)])
    splits = rows.groupby(["task", "data", "method"])["split"].nunique()
    parts = [
        f"{len(rows):,} fits; {splits.min()} to {splits.max()} splits.\n",
        "## Mean ranks\n",
        *rank_tables(table),
        "## Loss to the best known at ε = 1\n",
        loss_table(table, public, 1.0),
        "## Where others are ahead\n",
        behind_table(rows, table),
        "## Loss to the best of the others, tuned on test records\n",
        tuned_table(with_settings, methods),
        "## Synthetic tables at ε = 1\n",
        synthetic_table(rows, 1.0),
        "## Failures, times and probabilities\n",
        method_table(rows),
        "## Start and memory\n",
        start_table(folder),
    ]
    fill(docs / "field" / "tables.md", parts)
