"""
Private against non-private models on real data
===============================================

Fits `PrivateLogisticL1` and `PrivateLasso` to data sets that ship with scikit-learn, over a range
of epsilon, and prints the test scores beside those of non-private models, the selected features
and the privacy report. It saves a plot in the working directory. Any CSV file with a header will do
instead, if pandas is installed::

    python examples/quickstart.py
    python examples/quickstart.py --csv FILE --target NAME --feature-bound age=0:100

It fits the same records many times to show how the score depends on epsilon. Each of these fits,
and each test score, is a release: on data that deserve protection, fit once.
"""

import argparse
import math
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV, LogisticRegression
from sklearn.model_selection import train_test_split

from skdpsco import PrivateLasso, PrivateLogisticL1, Schema
from skdpsco.preprocessing import TableEncoder

EPSILONS = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
SHOWN = 10  # features
FEW = 10  # distinct values that make a numeric target a class
CATEGORIES = 50  # distinct values up to which a text column is one-hot encoded

# %%
# Preparation
# -----------
# The models need public bounds: features in [-1, 1] after scaling, beyond which they are clipped.
# Standardising with the mean and spread of the data themselves would not be private, since the
# scaled records depend on all others. Bounds should come from what a column means.


@dataclass
class Problem:
    """Features in [-1, 1], a target, and what their names are."""

    name: str
    X: np.ndarray
    y: np.ndarray
    features: list[str]
    target_bound: float | None = None  # of a regression

    @property
    def score_name(self):
        return "accuracy" if self.target_bound is None else "R²"


def scaled(X, low, high):
    """From [low, high] to [-1, 1]; what lies beyond is clipped."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    half = np.where(high > low, high - low, 2.0) / 2.0
    return np.clip((X - low) / half - 1.0, -1.0, 1.0)


def breast_cancer():
    """The benign and malignant tumours of Wisconsin."""
    data = load_breast_cancer()
    # Within two standard deviations of the mean. These 60 constants are computed from the data and
    # treated as public here, as if taken from an earlier study. The guarantee does not cover them.
    mean, spread = data.data.mean(axis=0), data.data.std(axis=0)
    X = scaled(data.data, mean - 2.0 * spread, mean + 2.0 * spread)
    return Problem("breast cancer", X, data.target_names[data.target], list(data.feature_names))


def digits(halved):
    """Handwritten digits: 0-4 against 5-9, or all ten."""
    data = load_digits()
    X = scaled(data.data, 0, 16)  # public: pixels are counts from 0 to 16
    if halved:
        return Problem("digits", X, np.where(data.target < 5, "0-4", "5-9"), data.feature_names)
    return Problem("digits, ten classes", X, data.target.astype(str), data.feature_names)


def diabetes():
    """Progression of diabetes after a year."""
    data = load_diabetes(scaled=False)
    ranges = {  # public: what a clinician would expect, not what the data show
        "age": (20, 80),
        "sex": (1, 2),
        "bmi": (18, 42),
        "bp": (60, 130),
        "s1": (100, 300),
        "s2": (40, 240),
        "s3": (20, 100),
        "s4": (2, 9),
        "s5": (3, 6),
        "s6": (60, 120),
    }
    low, high = np.transpose([ranges[name] for name in data.feature_names])
    # The target's documented range is 25 to 346.
    return Problem("diabetes", scaled(data.data, low, high), data.target - 185.0, [*ranges], 165.0)


# %%
# Any CSV file
# ------------


def parse_range(text, what):
    """Low and high of ``LOW:HIGH``, or of a number that bounds the absolute value."""
    try:
        low, high = map(float, text.split(":")) if ":" in text else (-float(text), float(text))
    except ValueError:
        raise ValueError(f"{what} must be a number or LOW:HIGH, got {text!r}.") from None
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"{what} must be an interval of positive length, got {text!r}.")
    return low, high


def parse_bounds(texts, names):
    """Range of every declared column; the key None holds the range of all others."""
    bounds = {}
    for text in texts:
        name, _, interval = text.rpartition("=")
        if name and name not in names:
            raise ValueError(f"--feature-bound: there is no feature {name!r}.")
        bounds[name or None] = parse_range(interval, "--feature-bound")
    return bounds


def read_csv(options):
    """A problem from a CSV file, and what had to be assumed."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # cells would be lost
        try:
            frame = pd.read_csv(
                options.csv,
                sep=None,  # a comma, a semicolon or a tab
                engine="python",
                encoding="utf-8-sig",
                skipinitialspace=True,
                na_values=["?"],
                index_col=False,
            ).drop(columns=options.drop)
        except (ValueError, KeyError, pd.errors.ParserWarning) as error:
            raise ValueError(f"{options.csv} is not a table: {error}") from None
    for name in (options.target, *options.categorical):
        if name not in frame:
            raise ValueError(f"{options.csv} has no column {name!r}: {', '.join(frame)}.")
    if frame[options.target].isna().any():
        raise ValueError(f"Column {options.target!r} has missing values, but is the target.")
    if len(frame) < 20:
        raise ValueError(f"{options.csv} has {len(frame)} records; privacy needs many more.")

    features = frame.drop(columns=options.target)
    bounds = parse_bounds(options.feature_bound, features)
    columns, guessed, encoded = {}, [], []
    for name, column in features.items():
        columns[name] = {"missing": bool(column.isna().any())}
        numeric = pd.api.types.is_numeric_dtype(column) and column.dtype != bool
        if numeric and name not in options.categorical:
            if name not in bounds and None not in bounds:
                guessed.append(name)
            found = bounds.get(name, bounds.get(None, (column.min(), column.max())))
            columns[name]["bounds"] = list(map(float, found))
            continue
        features[name] = column.map(str, na_action="ignore")
        columns[name]["categories"] = values = sorted(features[name].dropna().unique())
        encoded.append(name)
        if len(values) > CATEGORIES and name not in options.categorical:
            raise ValueError(
                f"Column {name!r} is not numeric and has {len(values)} distinct values; use "
                f"--categorical {name} to encode them or --drop {name}."
            )
    missing = [name for name, declared in columns.items() if declared["missing"]]
    notes = [
        f"{what} of {', '.join(names)}{hint}"
        for what, names, hint in (
            ("ranges", guessed, " (declare: --feature-bound NAME=LOW:HIGH)"),
            ("categories", encoded, ""),
            ("that values are missing", missing, ""),
        )
        if names
    ]
    encoder = TableEncoder(Schema(columns))
    X, names = encoder.fit_transform(features), list(encoder.get_feature_names_out())

    target, title = frame[options.target], Path(options.csv).stem
    numeric, counts = pd.api.types.is_numeric_dtype(target), target.value_counts()
    if options.task == "classification" or (
        options.task is None and (not numeric or len(counts) <= FEW)
    ):
        if len(counts) < 2 or counts.min() < 2:
            raise ValueError(
                f"Every class of {options.target!r} needs two records, and there must be two "
                "classes at least. If it is a number, use --task regression."
            )
        return Problem(title, X, target.astype(str).to_numpy(str), names), [*notes, "the labels"]
    if not numeric:
        raise ValueError(f"Target {options.target!r} is not numeric, as a regression needs it.")
    if options.target_bound is None:
        low, high = float(target.min()), float(target.max())
        notes.append("the range of the target (declare: --target-bound LOW:HIGH)")
    else:
        low, high = parse_range(options.target_bound, "--target-bound")
    if low == high:
        raise ValueError(f"Target {options.target!r} is constant.")
    half = (high - low) / 2.0
    return Problem(title, X, target.to_numpy(float) - low - half, names, half), notes


# %%
# Private and non-private models
# ------------------------------


def private_model(problem, epsilon):
    if problem.target_bound is None:
        return PrivateLogisticL1(epsilon=epsilon, classes=np.unique(problem.y))
    return PrivateLasso(epsilon=epsilon, target_bound=problem.target_bound)


def non_private_model(problem):
    return LogisticRegression(max_iter=500) if problem.target_bound is None else LassoCV()


def compare(problem, epsilons, n_splits):
    """Test scores, of shape (n_epsilons, n_splits) and (n_splits,)."""
    private, free = np.empty((len(epsilons), n_splits)), np.empty(n_splits)
    stratify = problem.y if problem.target_bound is None else None
    for split in range(n_splits):
        X, X_test, y, y_test = train_test_split(
            problem.X, problem.y, random_state=split, stratify=stratify
        )
        free[split] = non_private_model(problem).fit(X, y).score(X_test, y_test)
        for i, epsilon in enumerate(epsilons):
            private[i, split] = private_model(problem, epsilon).fit(X, y).score(X_test, y_test)
    return private, free


def selected(problem, model):
    """Names and weights of the largest coefficients, and the number of those that are not 0."""
    coef = np.atleast_2d(model.coef_)
    labels = [""] if len(coef) == 1 else [f"{label}: " for label in model.classes_]
    order = np.argsort(-np.abs(coef), axis=None)[: min(SHOWN, np.count_nonzero(coef))]
    rows = [np.unravel_index(k, coef.shape) for k in order]
    return [(labels[c] + problem.features[j], coef[c, j]) for c, j in rows], np.count_nonzero(coef)


# %%
# Tables and a plot
# -----------------


def draw(axes, problem, epsilons, private, free, weights, title):
    """Scores over epsilon above, weights below."""
    above, below = axes
    quartiles = np.quantile(private, [0.25, 0.5, 0.75], axis=1)
    above.fill_between(epsilons, quartiles[0], quartiles[2], alpha=0.25, linewidth=0)
    above.plot(epsilons, quartiles[1], "o-", label="private: median, quartiles")
    above.axhline(np.median(free), color="black", linestyle="--", label="not private")
    baseline = 0.0
    if problem.target_bound is None:
        baseline = max(Counter(problem.y).values()) / len(problem.y)
    above.axhline(baseline, color="grey", linestyle=":", label="constant prediction")
    above.set_xscale("log", base=2)
    above.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    above.set(title=problem.name, xlabel="epsilon", ylabel=f"test {problem.score_name}")
    above.set_ylim(bottom=max(-0.5, above.get_ylim()[0]))
    above.legend(fontsize="small", loc="lower right")
    if weights:
        names, values = zip(*weights[::-1], strict=True)
        below.barh(range(len(values)), values, color=["C0" if v > 0 else "C3" for v in values])
        below.set_yticks(range(len(names)), [name[:28] for name in names], fontsize="small")
    below.axvline(0.0, color="black", linewidth=0.8)
    below.set(xlabel="weight", title=title)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    add = parser.add_argument
    add("--csv", metavar="FILE", help="a CSV file with a header")
    add("--target", metavar="NAME", help="its column to predict")
    add("--task", choices=["classification", "regression"], help="if not what the target suggests")
    add("--categorical", nargs="+", default=[], metavar="NAME", help="columns to one-hot encode")
    add("--drop", nargs="+", default=[], metavar="NAME", help="columns to leave out")
    add("--feature-bound", action="append", default=[], metavar="[NAME=]LOW:HIGH",
        help="public range of a column, or of all; a number B means -B:B; repeatable")  # fmt: skip
    add("--target-bound", metavar="LOW:HIGH", help="public range of the target of a regression")
    add("--epsilon", type=float, nargs="+", default=EPSILONS, help="privacy budgets to compare")
    add("--splits", type=int, default=10, help="random splits, of which medians are taken")
    add("--plot", type=Path, default=Path("quickstart.png"), help="where to save it")
    options = parser.parse_args(arguments)
    if (options.csv is None) != (options.target is None):
        parser.error("--csv and --target belong together")
    if not min(options.epsilon) > 0.0 or options.splits < 1:
        parser.error("--epsilon and --splits must be positive")
    return parser, options


def main(arguments=None):
    start = time.perf_counter()
    parser, options = parse(arguments)
    notes = []
    if options.csv is None:
        problems = [breast_cancer(), digits(True), digits(False), diabetes()]
    else:
        try:
            problem, notes = read_csv(options)
        except OSError as error:
            parser.error(f"cannot read {options.csv}: {error}")
        except ValueError as error:
            parser.error(str(error))
        problems = [problem]

    epsilons = sorted(options.epsilon)
    shown = min(epsilons, key=lambda epsilon: abs(math.log(epsilon)))  # the closest to 1
    figure = Figure(figsize=(4.6 * len(problems), 8), layout="constrained")
    panels = figure.subplots(2, len(problems), squeeze=False)
    for problem, axes in zip(problems, panels.T, strict=True):
        n, d = problem.X.shape
        print(f"\n{problem.name}: {n} records, {d} features")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            private, free = compare(problem, epsilons, options.splits)
        print(
            "  epsilon      " + "".join(f"{epsilon:>8g}" for epsilon in epsilons) + "  no privacy"
        )
        medians = "".join(f"{value:>8.3f}" for value in np.median(private, axis=1))
        print(f"  {problem.score_name:<13}{medians}{np.median(free):>12.3f}")

        model = private_model(problem, shown).fit(problem.X, problem.y)
        weights, count = selected(problem, model)
        is_binary = len(getattr(model, "classes_", [])) == 2
        towards = f", towards {model.classes_[1]}" if is_binary else ""
        print(
            f"  With epsilon = {shown:g} on all records, {count} of {model.coef_.size} weights are "
            f"not zero. The largest{towards}:"
        )
        for name, weight in weights:
            print(f"    {weight:>+9.3f}  {name}")
        title = f"weights{towards}; epsilon = {shown:g}"
        draw(axes, problem, epsilons, private, free, weights, title)
    print(f"\nThe privacy report of the last model\n{model.privacy_}")
    for note in notes:
        print(f"It does not cover what was read off the file as if it was public: {note}")
    figure.savefig(options.plot, dpi=110)
    print(f"\nSaved {options.plot}. Took {time.perf_counter() - start:.1f} s.")


if __name__ == "__main__":
    main()
