"""How close synthetic records are to others, and what they are good for."""

from dataclasses import dataclass
from html import escape
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.utils import check_random_state

from skdpsco._quiet import quietly
from skdpsco._typing import Seed, Self
from skdpsco.data.frames import (
    DATES,
    HOLD_DATES,
    NUMBERS,
    dates_of,
    days_of,
    kind_of,
    missing_in,
    numbers_of,
    objects_of,
    open_frame,
)
from skdpsco.privacy._checks import abridged
from skdpsco.privacy.report import html_table

__all__ = ["QualityReport"]

PARTS = 16  # quantiles at which numbers are cut
CATEGORIES = 100  # most categories of a column, those that are rarer in the real records are one
_LEGEND = "grey: real records, blue: synthetic ones"


class _Column(NamedTuple):
    """A column of both tables, the real one first.

    Parameters
    ----------
    is_number : bool
    labels : list of str
        Names of the parts.
    parts, values : list of two ndarray
        The part of every record, and numbers for models: NaN if they are missing.
    """

    is_number: bool
    labels: list[str]
    parts: list[np.ndarray]
    values: list[np.ndarray]

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Shares of records in the parts."""
        one, other = (np.bincount(p, minlength=len(self.labels)) / len(p) for p in self.parts)
        return one, other


@dataclass(frozen=True, eq=False)
class QualityReport:
    """How close synthetic records are to real ones, and what models of them are worth.

    Make it with `from_tables`.

    Parameters
    ----------
    columns : tuple of str
    by_pair : ndarray of shape (n_columns, n_columns)
        Total variation between counts by two columns: the share of records that would have to move
        to other cells. The diagonal is that of single columns. Numbers and dates are divided at
        16-quantiles of the real ones.
    by_chance : float
        The mean over pairs after the records of both tables are mixed and divided at random.
    shares : dict
        By column, the names of its parts, and the shares of real and of synthetic records in them.
    target : str or None
    score_name : str
        "AUC" for two classes, "accuracy" for more, and "R²" for numbers.
    score, real_score : float or None
        Score on real records of boosted trees that were fitted to synthetic ones, and to other real
        ones.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpsco.inspection import QualityReport
    >>> rng = np.random.default_rng(0)
    >>> new, synthetic = (pd.DataFrame({"x": rng.normal(size=500)}) for _ in range(2))
    >>> new["y"], synthetic["y"] = new["x"] > 0, rng.random(500) < 0.5
    >>> report = QualityReport.from_tables(new, synthetic, target="y", random_state=0)
    >>> report.score_name, round(report.real_score, 1), report.score < 0.7
    ('AUC', 1.0, True)
    """

    columns: tuple[str, ...]
    by_pair: np.ndarray
    by_chance: float
    shares: dict[str, tuple[list[str], np.ndarray, np.ndarray]]
    target: str | None = None
    score_name: str = ""
    score: float | None = None
    real_score: float | None = None

    @classmethod
    def from_tables(
        cls, real: Any, synthetic: Any, *, target: str | None = None, random_state: Seed = None
    ) -> Self:
        """Compare synthetic records with real ones.

        **Never pass the records to which the synthesizer was fitted**: the report has no noise, and
        nothing counts what it reveals. Pass public records, or new ones of people who agreed.

        Parameters
        ----------
        real : data frame of shape (n_real, n_columns)
            New or public records, of pandas, polars or Arrow.
        synthetic : data frame of shape (n_synthetic, n_columns)
            At least the same columns.
        target : str or None, default=None
            A column to predict from the others.
        random_state : int, RandomState instance or None, default=None
            Decides which half of the real records is for tests, and what is due to chance.

        Returns
        -------
        report : QualityReport

        Raises
        ------
        TypeError
            If a table is not a data frame.
        ValueError
            If a column is absent, there are fewer than two records, or ``target`` has one value.
        """
        tables = [open_frame("real", real), open_frame("synthetic", synthetic)]
        names = tuple(tables[0].columns)
        if absent := [name for name in names if name not in tables[1].columns]:
            raise ValueError(f"synthetic must have the columns of real, but lacks {absent}.")
        if min(map(len, tables)) < 2 or not names:
            raise ValueError("real and synthetic must have at least two records and a column.")
        if target is not None and target not in names:
            raise ValueError(f"target must be a column of real, got {abridged(target)}.")
        message = "real and synthetic must hold numbers, booleans, strings or dates."
        columns = {
            name: quietly(message, _column, [table[name] for table in tables]) for name in names
        }
        rng = np.random.default_rng(check_random_state(random_state).randint(2**32))
        parts = [[column.parts[k] for column in columns.values()] for k in (0, 1)]
        by_pair = _distances(*parts)
        order, n = rng.permutation(sum(map(len, tables))), len(tables[0])
        pooled = [np.concatenate(pair)[order] for pair in zip(*parts, strict=True)]
        chance = _distances([p[:n] for p in pooled], [p[n:] for p in pooled])
        shares = {name: (column.labels, *column.shares()) for name, column in columns.items()}
        scored = () if target is None else _scores(columns, target, rng)
        return cls(names, by_pair, _over_pairs(chance), shares, target, *scored)

    def __str__(self) -> str:
        d = len(self.columns)
        words = f"{'Counts by two columns' if d > 1 else 'The counts'} differ by "
        words += f"{_over_pairs(self.by_pair):.3f} of the records"
        words += f"{' on average' if d > 1 else ''} ({self.by_chance:.3f} by chance alone)"
        if d > 1:
            pairs = np.where(np.eye(d, dtype=bool), -1.0, self.by_pair)
            worst = divmod(int(pairs.argmax()), d)
            a, b = (self.columns[j] for j in worst)
            words += f", and by at most {self.by_pair[worst]:.3f} (those by {a} and {b})"
        if self.score is not None:
            words += (
                f". Trees that predict {self.target} have {self.score_name} {self.score:.3f} on "
                f"real records if they learn from synthetic ones, and {self.real_score:.3f} if "
                "they learn from real ones"
            )
        return f"{words}."

    def _repr_html_(self) -> str:
        densities = "".join(
            f"<div style='display:inline-block;margin:4px'>{escape(name)} "
            f"({self.by_pair[j, j]:.3f})<br>{_bars(*self.shares[name])}</div>"
            for j, name in enumerate(self.columns)
        )
        head = ("", *self.columns)
        cells = [[f"{value:.3f}" for value in row] for row in self.by_pair]
        rows = [(name, *row) for name, row in zip(self.columns, cells, strict=True)]
        table = html_table("Total variation of counts by two columns", rows, head)
        return (
            f"<p>{escape(str(self))}</p><p>Shares of records, and their total variation ({_LEGEND})"
            f"</p>{densities}{table}"
        )


def _column(pair: list[Any]) -> _Column:
    """Parts and numbers of a column of two tables, as the first table decides."""
    kinds = {kind_of(column) for column in pair}
    dates = DATES in kinds and kinds <= set(HOLD_DATES)
    if dates or kinds == {NUMBERS}:
        values = [days_of(column) if dates else numbers_of(column) for column in pair]
        lost = [np.isnan(numbers) for numbers in values]
        known = values[0][~lost[0]]
        distinct = np.unique(known)
        if len(distinct) > PARTS:
            # Both sides of a number that many records share are edges.
            cuts = np.quantile(known, np.arange(1, PARTS) / PARTS, method="inverted_cdf")
            heaps = np.unique(cuts[:-1][cuts[:-1] == cuts[1:]])
            edges = np.union1d(cuts, np.nextafter(heaps, np.inf))
            labels = [f"from {_written(edge, dates)}" for edge in (-np.inf, *edges)]
            found = [np.searchsorted(edges, v, side="right") for v in values]
        else:
            labels = [_written(value, dates) for value in distinct] + ["other"]
            found = [_among(v, distinct) for v in values]
        parts = [np.where(gone, len(labels), p) for p, gone in zip(found, lost, strict=True)]
        return _Column(True, [*labels, "missing"], parts, values)
    lost = [missing_in(column) for column in pair]
    words = [np.array([str(v) for v in objects_of(c)], dtype=object) for c in pair]
    known, counts = np.unique(words[0][~lost[0]], return_counts=True)
    known = np.sort(known[np.argsort(-counts, kind="stable")[:CATEGORIES]])
    labels = [*known, "other", "missing"]
    parts = [
        np.where(gone, len(known) + 1, _among(w, known))
        for w, gone in zip(words, lost, strict=True)
    ]
    values = [np.where(gone, np.nan, p) for p, gone in zip(parts, lost, strict=True)]
    return _Column(False, labels, parts, values)


def _written(number: float, dates: bool) -> str:
    return str(dates_of(number)) if dates and np.isfinite(number) else f"{number:.4g}"


def _among(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Positions of values among sorted ones, or their number."""
    if not len(known):
        return np.zeros(len(values), dtype=np.intp)
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[at] == values, at, len(known))


def _distances(one: list[np.ndarray], other: list[np.ndarray]) -> np.ndarray:
    """Total variation between the counts of two tables, by pairs of columns, and by columns."""
    d = len(one)
    found = np.zeros((d, d))
    for i, j in [*combinations(range(d), 2), *((k, k) for k in range(d))]:
        size = 1 + max(one[j].max(), other[j].max())
        cells = [table[i] * size + table[j] for table in (one, other)]
        n_cells = 1 + max(map(np.max, cells))
        p, q = (np.bincount(c, minlength=n_cells) / len(c) for c in cells)
        found[i, j] = found[j, i] = np.abs(p - q).sum() / 2.0
    return found


def _over_pairs(by_pair: np.ndarray) -> float:
    """Mean over pairs, or the single column's."""
    pairs = by_pair[np.triu_indices(len(by_pair), 1)]
    return float(pairs.mean() if pairs.size else by_pair[0, 0])


def _scores(
    columns: dict[str, _Column], target: str, rng: np.random.Generator
) -> tuple[str, float, float]:
    """The name of a score, that of trees fitted to synthetic records, and to real ones."""
    others = {name: column for name, column in columns.items() if name != target}
    if not others:
        raise ValueError("target must not be the only column.")
    X = [np.stack([c.values[k] for c in others.values()], axis=1) for k in (0, 1)]
    aim = columns[target]
    regression = aim.is_number and len(np.unique(aim.values[0])) > PARTS
    y = aim.values if regression else aim.parts
    kept = [~np.isnan(values) for values in y]
    X, y = (
        [x[k] for x, k in zip(X, kept, strict=True)],
        [v[k] for v, k in zip(y, kept, strict=True)],
    )
    if any(len(np.unique(values)) < 2 for values in y):
        raise ValueError("target must have two values in real, and in synthetic.")
    order = rng.permutation(len(y[0]))
    train, test = order[::2], order[1::2]
    kind: Any = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    words = [not column.is_number for column in others.values()]
    found = []
    for records, labels in ((X[1], y[1]), (X[0][train], y[0][train])):
        trees = kind(categorical_features=words, random_state=0).fit(records, labels)
        given = X[0][test], y[0][test]
        if regression:
            name, score = "R²", r2_score(given[1], trees.predict(given[0]))
        elif len(np.unique(y[0])) == 2 and len(trees.classes_) == 2:
            name = "AUC"
            score = roc_auc_score(given[1], trees.predict_proba(given[0])[:, 1])
        else:
            name, score = "accuracy", accuracy_score(given[1], trees.predict(given[0]))
        found.append(float(score))
    return name, found[0], found[1]


def _bars(labels: list[str], real: np.ndarray, synthetic: np.ndarray) -> str:
    """Bars of the shares of both tables, as SVG; the names of parts are tooltips."""
    width, height, largest = 8, 60, max(real.max(), synthetic.max())
    drawn = []
    for k, label in enumerate(labels):
        for shift, share, colour in ((0, real[k], "#999"), (3, synthetic[k], "#37c")):
            tall = height * share / largest
            drawn.append(
                f"<rect x='{width * k + shift}' y='{height - tall:.1f}' width='3' "
                f"height='{tall:.1f}' fill='{colour}'><title>{escape(label)}: {share:.3f}</title>"
                "</rect>"
            )
    return f"<svg width='{width * len(labels)}' height='{height}'>{''.join(drawn)}</svg>"
