"""Write tables and plots of the measurements into docs/field.md, docs/field and docs/_static."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import studentized_range

from field.data import CODEBOOK, TRACKS
from field.methods import all_methods, all_settings
from field.results import Store
from field.runs import EPSILONS, KEYS

DOCS = Path(__file__).parents[3] / "docs"
OURS = "Private"
FIRST = {  # of ours, what the pages recommend to begin with
    "regression": "PrivateRidge",
    "sparse regression": "PrivateLasso",
    "worst group": "PrivateGroupDRO",
    "table": "PrivateSynthesizer",
}
ADDITIVE = {
    "binary": "PrivateAdditiveClassifier",
    "multiclass": "PrivateAdditiveClassifier",
    "regression": "PrivateAdditiveRegressor",
}
EXPECTED = (  # in the README
    ("binary", "Adult", "PrivateLogisticRegression"),
    ("multiclass", "digits", "PrivateLogisticRegression"),
    ("regression", "California", "PrivateRidge"),
    ("regression", "California", "PrivateAdditiveRegressor"),
    ("regression", "prices of diamonds", "PrivateRidge"),
)
LINEAR = ("LogisticRegression", "Ridge", "the records")  # without privacy
TREES = ("boosted trees", "boosted trees, regression")
GROUPS = {
    "classification": ("binary", "multiclass"),
    "regression": ("regression",),
}
KINDS = "known", "held out", "UCI"  # of data sets
POINT = 0.01
SLIPPED = 0.05  # below the constant: a disaster
KEPT = 0.9  # of the gain of a linear model
LEAST_GAIN = 0.02  # of a linear model, for shares of it
LEAST = -1.0  # below which an R^2 is as bad as it gets
MARKERS = "osv^D<>P*X"
BEGIN, END = "<!-- what `make field` writes -->\n", "<!-- end of what it writes -->"


def kind_of(name):
    entry = CODEBOOK[name]
    uci = entry.get("files", [""])[0].startswith("uci/")
    return "held out" if entry.get("held out") else "UCI" if uci else "known"


def views(rows):
    """Rows by track and kind of data set, those that there are."""
    kinds = rows["data"].map(kind_of)
    for track in TRACKS:
        for kind in KINDS:
            part = rows[(rows["track"] == track) & (kinds == kind)]
            if len(part):
                yield track, kind, part


def means(rows):
    """Mean score by problem, epsilon and method; failures count as the constant predictor.

    Scores of private methods are compared with the constant's on the same split, since some methods
    have fewer splits than others.
    """
    rows = rows.assign(score=rows["score"].astype(float).clip(lower=LEAST))
    index = ["task", "data"]
    public = rows[np.isinf(rows["epsilon"])].groupby([*index, "method"])["score"].mean().unstack()
    constant = rows[rows["method"] == "constant"].set_index([*index, "split"])["score"]
    private = rows[np.isfinite(rows["epsilon"])].copy()
    same = private.set_index([*index, "split"]).index.map(constant).to_numpy(float)
    mean = private.set_index(index).index.map(public["constant"]).to_numpy(float)
    private["score"] = (private["score"] - same).fillna(0.0) + mean
    table = private.groupby([*index, "epsilon", "method"])["score"].mean().unstack()
    return table, public


def one_of(public, names):
    """The score of the first of several methods that has one, by problem."""
    return public.reindex(columns=names).bfill(axis=1).iloc[:, 0]


def equal(table):
    """Without the methods whose guarantee is weaker than that of the others."""
    return table.drop(
        columns=[m for m, method in all_methods().items() if method.weaker], errors="ignore"
    )


def ranks(table, task):
    """Mean ranks by method and epsilon, the critical difference at 5 %, and how many data sets.

    It ranks the methods that protect a replaced record and were measured on all data sets at an
    epsilon.
    """
    found = {}
    for epsilon, part in equal(table).loc[task].groupby("epsilon"):
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


def shares(table, public):
    """The share of a linear model's gain over the constant that is left with privacy."""
    problems = table.index.droplevel("epsilon")
    low = pd.Series(problems.map(public["constant"]), table.index)
    gain = pd.Series(problems.map(one_of(public, LINEAR)), table.index) - low
    return table.sub(low, axis=0).div(gain, axis=0)[gain > LEAST_GAIN].clip(-1.0, 2.0)


def records_needed(rows, table, public):
    """The median of the least n epsilon from which on a method keeps `KEPT` of the gain."""
    n = rows.groupby(["task", "data"])["records"].max()

    def least(share):
        """By method, for one problem; infinite if the largest epsilon is too small."""
        good = (share >= KEPT)[::-1].cummin().sum()  # epsilons at the end
        epsilons = np.append(share.index.get_level_values("epsilon"), np.inf)
        return pd.Series(epsilons[len(share) - good], share.columns).where(share.notna().all())

    kept = shares(table, public).dropna(how="all").sort_index()
    found = pd.DataFrame(
        {key: n[key] * least(part) for key, part in kept.groupby(["task", "data"])}
    )
    return found.median(axis=1)


def share_of_trees(public, tasks):
    """The median share of a linear model's gain that boosted trees have."""
    part = public[public.index.get_level_values("task").isin(tasks)]
    gain = one_of(part, LINEAR) - part["constant"]
    return ((one_of(part, TREES) - part["constant"]) / gain)[gain > LEAST_GAIN].median()


def shown(table):
    """What the pictures show: of ours, one linear model of a task and the additive one."""
    ours = {*map(first_choice, ADDITIVE), *ADDITIVE.values()}
    table = equal(table)
    return table[[name for name in table if name in ours or not name.startswith(OURS)]]


def style(name, others):
    ours = name.startswith(OURS)
    look = {"linewidth": 2.0 if ours else 1.0, "linestyle": "-" if ours else "--"}
    return look | {"marker": MARKERS[others.index(name) % len(MARKERS)], "markersize": 4}


def draw(path, titles, label, plot):
    """One panel for each group of tasks, on a background that dark pages need."""
    figure = Figure(figsize=(10.0, 5.8), layout="constrained", facecolor="white")
    for ax, title in zip(figure.subplots(1, len(titles)), titles, strict=True):
        plot(ax, GROUPS[title])
        ax.set_title(title, fontsize="medium")
        ax.legend(fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    figure.supylabel(label, fontsize="medium")
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})


def draw_shares(table, public, path):
    def plot(ax, tasks):
        share = shares(of_tasks(table, tasks), public).groupby("epsilon").median()
        for name in share:
            ax.plot(share.index, share[name], label=name, **style(name, list(share)))
        trees = share_of_trees(public, tasks)
        ax.axhline(trees, color="green", linewidth=0.8, label="boosted trees, not private")
        ax.axhline(1.0, color="black", linewidth=0.8, label="linear, not private")
        ax.axhline(0.0, color="grey", linewidth=0.8)
        ax.set(xscale="log", xlabel="epsilon", xlim=(0.08, 3.8), ylim=(-1.05, 1.6))
        ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])

    draw(path, list(GROUPS), "share of the gain of a linear model (median)", plot)


def draw_profile(table, path):
    def plot(ax, tasks):
        loss = losses(table, tasks)
        grid = np.linspace(0.0, 0.2, 101)
        for name in loss:
            reached = [(loss[name].dropna() <= x + 1e-9).mean() for x in grid]
            ax.plot(grid, reached, label=name, markevery=10, **style(name, list(loss)))
        ax.set(xlabel="loss of score to the best method shown", ylim=(0.0, 1.02))

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


def rank_tables(tables):
    """By task, mean ranks at every epsilon, for each kind of data sets (a mapping to scores)."""
    for task in pd.concat(tables.values()).index.get_level_values("task").unique():
        header, columns = [task], []
        for kind, table in tables.items():
            if task in table.index.get_level_values("task"):
                rank, width, n = ranks(table, task)
                found = f"{n} data set{'s' if n > 1 else ''}, critical difference {width:.1f}"
                header.append(f"{kind} ({found})")
                columns.append(rank)
        order = pd.concat(columns, axis=1).mean(axis=1).sort_values(kind="stable").index
        cells = [rank.map("{:.1f}".format).agg(", ".join, axis=1) for rank in columns]
        lines = pd.concat(cells, axis=1).reindex(order).fillna("").replace("nan", "–", regex=True)
        names = [f"**{name}**" if name.startswith(OURS) else name for name in order]
        if len(names) > 1:
            yield markdown(
                header, [[name, *line] for name, line in zip(names, lines.to_numpy(), strict=True)]
            )


def loss_lines(table, public, epsilon):
    """By data set: the best private method, ours, and models without privacy."""
    for (task, name), scores in equal(table).xs(epsilon, level="epsilon").iterrows():
        scores = scores.dropna()
        ours = scores[scores.index.str.startswith(OURS)]
        if ours.empty or (task, name) not in public.index:
            continue  # not finished
        free = public.loc[[(task, name)]]
        found = (
            scores.max(), scores.max() - ours.max(), ours.get(first_choice(task), math.nan),
            ours.get(ADDITIVE.get(task), math.nan),
            one_of(free, LINEAR).iloc[0], one_of(free, TREES).iloc[0], free["constant"].iloc[0],
        )  # fmt: skip
        yield [f"{name} ({task})", scores.idxmax(), *map(number, found)]


def summary_lines(table, public):
    """By task: mean ranks at epsilon 1, and the share of the gain that two of our models keep."""
    for task in dict.fromkeys(table.index.get_level_values("task")):
        rank, _, n = ranks(table, task)
        rank = rank.get(1.0, pd.Series(dtype=float)).dropna()
        is_ours = rank.index.str.startswith(OURS)
        best = [
            f"{part.idxmin()} ({part.min():.1f})" if len(part) else ""
            for part in (rank[is_ours], rank[~is_ours])
        ]
        share = shares(of_tasks(table, (task,)), public).groupby("epsilon").median()
        kept = [
            share.get(name, pd.Series(dtype=float)).get(epsilon, math.nan)
            for name in (first_choice(task), ADDITIVE.get(task))
            for epsilon in (0.3, 1.0)
        ]
        kept.append(share_of_trees(public, (task,)))
        yield [f"{task} ({n})", *best, *map(number, kept)]


def first_choice(task):
    return FIRST.get(task, "PrivateLogisticRegression")


def expectations(rows):
    """The README's table: scores of our models on some raw tables."""
    table, public = means(rows[rows["track"] == TRACKS[0]])
    lines, epsilons = [], EPSILONS[1:4]
    for *problem, model in EXPECTED:
        free = public.loc[[tuple(problem)]]
        private = [table.loc[(*problem, epsilon), model] for epsilon in epsilons]
        best = [one_of(free, names).iloc[0] for names in (LINEAR, TREES)]
        found = [free["constant"].iloc[0], *private, *best]
        lines.append([f"{problem[1]}, `{model}`", *map(number, found)])
    header = ["data set", "constant", *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    return markdown([*header, "linear, not private", "boosted trees, not private"], lines)


def known_rows(folder):
    """Rows of known methods and data sets, and those of them at default settings."""
    rows, methods = Store(folder).read(), all_methods()
    known = rows["method"].isin({*methods, *all_settings()}) & rows["data"].isin(set(CODEBOOK))
    return rows[known], rows[known & rows["method"].isin(methods)]


def behind_lines(rows, table):
    """Where another method is ahead of ours by more than a point and two standard errors.

    Fits that failed are left out, and measurements on a single split, without a standard error.
    """
    scores = rows.assign(score=rows["score"].clip(lower=LEAST)).set_index(list(KEYS[1:]))["score"]
    splits = scores.groupby(["task", "data", "epsilon", "method"]).count().unstack()
    scores = scores.reorder_levels(["task", "data", "epsilon", "method", "split"]).sort_index()
    for key, found in equal(table).iterrows():
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
            yield [*line, number(found[ours]), gap]


def duel_lines(table):
    """On how many problems a linear model of ours is ahead of a method of others."""
    ours = pd.Series(
        [line.get(first_choice(key[0]), math.nan) for key, line in table.iterrows()], table.index
    )
    for name in table:
        both = table[name].notna() & ours.notna()
        if name.startswith(OURS) or not both.any():
            continue
        ahead = (ours > table[name])[both].groupby("epsilon").agg(["sum", "count"])
        cells = ahead.apply(lambda line: f"{line['sum']} of {line['count']}", axis=1)
        yield [name, *cells.reindex(EPSILONS).fillna("")]


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


def method_table(rows, table, public):
    """Failures and disasters, needed records, times and probabilities: header and lines."""
    private = rows[np.isfinite(rows["epsilon"])]
    needed, lines = records_needed(rows, table, public), []
    constant = private.set_index(["task", "data"]).index.map(public["constant"])
    private = private.assign(lost=constant - private["score"])
    for name, part in private.groupby("method"):
        failed = part["failure"].str.split(":").str[0]
        failed = failed[(failed != "") & ~failed.str.startswith("NotImplementedError")]
        least = needed.get(name, math.nan)
        means = [part[column].mean() for column in ("auc", "log_loss", "calibration")]
        times = [seconds(part["seconds"].quantile(q)) for q in (0.5, 0.95)]
        labels = part["task"].isin(GROUPS["classification"])
        counts = part["split"].nunique(), len(part), len(failed), sum(part["lost"] > SLIPPED)
        worse = str(sum(part["score"][~labels] < LEAST)) if (~labels).any() else ""
        amount = "" if pd.isna(least) else f"{least:,.0f}" if least < np.inf else "never"
        lines.append([name, *map(str, counts), worse, amount, *times, *map(number, means)])
    header = ["method", "splits", "fits", "failed", "below the constant", "R² < −1", "n ε for 90 %"]
    return [*header, "seconds", "95 %", "AUC", "log loss", "calibration error"], lines


def fill(page, parts):
    """Replace what stands between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    between = re.escape(BEGIN) + ".*?" + re.escape(END)
    content = BEGIN + "\n" + "\n".join(parts) + "\n" + END
    page.write_text(re.sub(between, lambda _: content, text, flags=re.DOTALL), encoding="utf-8")


def state_of(rows):
    """The version and state of our code that was measured; rows of others may be older."""
    states = set(rows["state"][rows["method"].str.startswith(OURS)])
    if len(states) != 1:
        raise ValueError(
            f"Our models were measured in several states: {states}. Measure them again."
        )
    return states.pop()


def write(folder, docs=DOCS):
    """Replace the tables of the pages, and the plots."""
    _, rows = known_rows(folder)
    summary, behind, tables = [], [], {}
    for track, kind, part in views(rows):
        table, public = means(part)
        summary += [[f"{track}, {kind}", *line] for line in summary_lines(table, public)]
        behind += [[f"{track}, {kind}", *line] for line in behind_lines(part, table)]
        if track == TRACKS[0]:
            tables[kind] = table
    raw = rows[rows["track"] == TRACKS[0]]
    table, public = means(raw[raw["data"].map(kind_of) != "UCI"])
    draw_shares(shown(table), public, docs / "_static" / "field_shares.png")
    draw_profile(shown(table), docs / "_static" / "field_profile.png")
    header = ["track, data", "task (data sets)", "best of ours (rank)", "best of the others (rank)"]
    kept = [f"{kind}, ε = {epsilon:g}" for kind in ("linear", "additive") for epsilon in (0.3, 1)]
    fill(docs / "field.md", [markdown([*header, *kept, "trees, not private"], summary)])
    splits = rows.groupby(["track", "task", "data", "method"])["split"].nunique()
    state = f"Ours: skdpsco {state_of(rows)}.\n"
    parts = [f"{len(rows):,} fits; {splits.min()} to {splits.max()} splits. {state}"]
    parts += ["## Mean ranks on raw tables\n", *rank_tables(tables)]
    best = ["ε", "best of the others", "score", "best of ours", "score", "gap"]
    parts += ["## Where others are ahead\n", markdown(["track, data", "data set", *best], behind)]
    book = rows[rows["track"] == TRACKS[1]]
    parts += ["## Synthetic tables at ε = 1\n", synthetic_table(book, 1.0)]
    header, lines = method_table(raw, *means(raw))
    shorter = slice(header.index("AUC"))
    parts += ["## Disasters and times on raw tables\n"]
    parts += [markdown(header[shorter], [line[shorter] for line in lines])]
    fill(docs / "field" / "tables.md", parts)


def more_tables(folder):
    """What the pages leave out: ranks with a code book, scores, duels, settings, probabilities."""
    with_settings, rows = known_rows(folder)
    scores, duels, tables = [], [], {}
    for track, kind, part in views(rows):
        table, public = means(part)
        scores += [[f"{track}, {kind}", *line] for line in loss_lines(table, public, 1.0)]
        duels += [[f"{track}, {kind}", *line] for line in duel_lines(table)]
        if track == TRACKS[1]:
            tables[kind] = table
    parts = ["## Mean ranks with a code book\n", *rank_tables(tables), "## Scores at ε = 1\n"]
    header = ["track, data", "data set", "best private", "score", "loss of our best"]
    others = ["ours, linear", "ours, additive", "linear, not private", "boosted trees", "constant"]
    parts += [markdown([*header, *others], scores), "## Duels\n"]
    parts += ["Where our linear first choice has a higher mean score than others.\n"]
    epsilons = [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    parts += [markdown(["track, data", "method", *epsilons], duels)]
    parts += ["## Loss to the best of the others, tuned on test records\n"]
    tuned = with_settings[with_settings["track"] == TRACKS[1]]
    parts += [tuned_table(tuned[tuned["data"].map(kind_of) == "known"], all_methods())]
    for track, part in rows.groupby("track", sort=False):
        parts += [f"## Disasters, times and probabilities: {track}\n"]
        parts += [markdown(*method_table(part, *means(part)))]
    return "\n".join(parts)
