"""Functions of single columns as pipelines of scikit-learn's own estimators.

A function that is linear between knots is a sum of ramps, which rise from 0 to 1 between two
neighbouring knots: a `MinMaxScaler` that clips computes them. What is missing becomes a number
beyond all others. A function's value at a single point, such as a code, is the difference of two
steep ramps around it. Where these begin and end is exact, also in float32.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdpsco.base.plain import fitted_as, scaler_between

__all__ = [
    "ColumnFunction",
    "RampFeatures",
    "feature_steps",
    "linear_map",
    "numbers_among",
    "pandas_na",
    "refuse_dates",
]

AROUND = np.array([-2.0, -1.0, 1.0, 2.0])  # where ramps around a point begin and end
STEEPEST_RAMP = 1e-20  # width of a ramp at 0, over the largest number
MISSING_AT = 2.0  # the place of what is missing, where numbers are in [-1, 1]
NUMBER_RAMPS, POINT_RAMPS, WORD_RAMPS = "numbers", "points {}", "words"


class ColumnFunction(NamedTuple):
    """A function of one column, of numbers or words.

    Parameters
    ----------
    knots : ndarray of shape (n_knots,)
        Between them the function is linear, and beyond them constant.
    values : ndarray of shape (n_knots, n_outputs) or (n_words, n_outputs)
    missing : ndarray of shape (n_outputs,)
        The value for missing numbers and for other words.
    points : dict of float to ndarray of shape (n_outputs,)
        Values at single numbers.
    words : tuple
        Strings, and what is missing, as `missing_words` has it; empty for numbers.
    """

    knots: np.ndarray
    values: np.ndarray
    missing: np.ndarray
    points: Mapping[float, np.ndarray]
    words: tuple[Any, ...] = ()

    @classmethod
    def of_words(cls, words: tuple[Any, ...], values: np.ndarray, other: np.ndarray) -> Any:
        """A function of words."""
        return cls(np.empty(0), values, other, {}, words)

    @classmethod
    def at_points(cls, points: Mapping[float, Any], other: np.ndarray, missing: np.ndarray) -> Any:
        """A function that has the value ``other`` for all but these numbers."""
        return cls(np.arange(2.0), np.stack([other, other]), missing, points)

    @classmethod
    def indicators(cls, places: Mapping[Any, int], n_outputs: int, lost: int | None) -> Any:
        """The function that is 1 at the place of a category and 0 elsewhere, also for unknown ones.

        ``lost`` is the place of what is missing, if it has one.
        """
        unit = np.eye(n_outputs + 1, n_outputs)
        other, missing = unit[-1], unit[-1 if lost is None else lost]
        if not isinstance(next(iter(places)), str):
            points = {category: unit[places[category]] for category in numbers_among(places)}
            return cls.at_points(points, other, missing)
        known = dict(places)
        if lost is not None:
            known.update(dict.fromkeys(missing_words(), lost))
        return cls.of_words(tuple(known), unit[list(known.values())], other)

    def from_zero(self, sign: int, value: np.ndarray) -> Any:
        """The same function with a ``value`` for 0 and all numbers of the other sign."""
        steepest = sign * STEEPEST_RAMP * np.abs(self.knots).max()
        knots = np.sort([0.0, steepest, *self.knots[sign * self.knots > sign * steepest]])
        values = self.at(knots)
        values[knots == 0.0] = value
        return self._replace(knots=knots, values=values)

    def at(self, numbers: Any) -> np.ndarray:
        """Values for numbers, apart from single points."""
        return np.column_stack([np.interp(numbers, self.knots, one) for one in self.values.T])


def pandas_na() -> Any:
    """The NA of pandas; None if pandas is not installed: then no column holds it."""
    with suppress(ImportError):
        from pandas import NA

        return NA
    return None


def missing_words() -> list[Any]:
    """What stands for a missing text; NaN is the last, as OneHotEncoder wants it."""
    return [*dict.fromkeys([None, pandas_na()]), np.nan]


def numbers_among(values: Any) -> list[float]:
    """The values that are numbers."""
    return [float(value) for value in values if not isinstance(value, str)]


class Ramps(NamedTuple):
    """The ramps of a column: those of its numbers, those around a point, or one for each word.

    Parameters
    ----------
    column : int
    kind : {"numbers", "points 0", "points 1", ..., "words"}
        All ramps of a kind are of different columns.
    knots : ndarray
        Where ramps begin and end, in units of the column.
    words : tuple
        Each of them has an input of its own.
    point : float
    """

    column: int
    kind: str
    knots: np.ndarray
    words: tuple[Any, ...] = ()
    point: float = 0.0

    @property
    def n_inputs(self) -> int:
        """Number of values that are read."""
        return len(self.words) or 1

    @property
    def size(self) -> float:
        """A power of 2 that becomes 1: nothing is shifted or rounded."""
        return 1.0 if self.words else 2.0 ** float(np.frexp(np.abs(self.knots).max())[1])

    @property
    def ends(self) -> np.ndarray:
        """Where the ramps of one input begin and end, in units of ``size``: shape (n_ramps, 2)."""
        knots = self.knots / self.size
        if self.kind != NUMBER_RAMPS:
            return knots.reshape(-1, 2)
        return np.vstack([np.column_stack([knots[:-1], knots[1:]]), [1.0, MISSING_AT]])

    def coefficients(self, function: ColumnFunction) -> np.ndarray:
        """Coefficients of these ramps for a function of the column."""
        if self.kind == WORD_RAMPS:
            return function.values - function.missing
        if self.kind == NUMBER_RAMPS:
            return np.diff(np.vstack([function.at(self.knots), function.missing]), axis=0)
        usual = function.at([self.point])[0]
        return np.array([[1.0], [-1.0]]) * (function.points.get(self.point, usual) - usual)

    def constant(self, function: ColumnFunction) -> Any:
        """What is added to these ramps."""
        if self.kind == WORD_RAMPS:
            return function.missing
        return function.at(self.knots[:1])[0] if self.kind == NUMBER_RAMPS else 0.0


def around(point: float, largest: float) -> np.ndarray:
    """Knots of the ramps around a point, beyond the next numbers of float32."""
    single = np.float32(np.clip(abs(point), 1e-30, 1e38))
    return point + AROUND * (float(np.spacing(single)) if point else STEEPEST_RAMP * largest)


class RampFeatures:
    """The ramps of all columns: those of numbers first, then those around points, then words.

    Parameters
    ----------
    functions : sequence of lists of ColumnFunction
        All functions of every column.
    """

    starts: np.ndarray
    n_columns: int

    def __init__(self, functions: Sequence[Sequence[ColumnFunction]]) -> None:
        known = list(enumerate(functions))
        self.blocks: list[Ramps] = [
            Ramps(j, NUMBER_RAMPS, np.unique(np.concatenate([one.knots for one in some])))
            for j, some in known
            if not some[0].words
        ]
        points = []
        for j, _, knots, *_ in self.blocks:
            largest = float(np.abs(knots).max())
            for k, p in enumerate(sorted({p for one in functions[j] for p in one.points})):
                points.append(Ramps(j, POINT_RAMPS.format(k), around(p, largest), point=p))
        self.blocks += sorted(points, key=lambda block: block.kind)
        words = [(j, some[0].words) for j, some in known if some[0].words]
        self.blocks += [Ramps(j, WORD_RAMPS, np.arange(2.0), some) for j, some in words]
        n_ramps = [block.n_inputs * len(block.ends) for block in self.blocks]
        self.starts = np.cumsum([0, *n_ramps])
        self.n_columns = len(functions)

    def coefficients(self, column: int, function: ColumnFunction) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of all ramps for a function of one column, and what is added to them."""
        n_outputs = len(function.missing)
        out, constant = np.zeros((self.starts[-1], n_outputs)), np.zeros(n_outputs)
        for block, (start, stop) in zip(self.blocks, pairwise(self.starts), strict=True):
            if block.column == column:
                out[start:stop] = block.coefficients(function)
                constant = constant + block.constant(function)
        return out, constant

    def steps(self, names: Any) -> list[tuple[str, Any]]:
        """Steps of a pipeline that computes the ramps, from all columns, which may have names."""
        inputs = [block for block in self.blocks for _ in range(block.n_inputs)]
        sizes = np.array([block.size for block in inputs])
        copies = np.repeat(np.eye(len(inputs)), [len(block.ends) for block in inputs], axis=0)
        begin, end = np.concatenate([block.ends for block in inputs]).T
        missing = SimpleImputer(strategy="constant", fill_value=MISSING_AT).fit(sizes[None, :])
        clip = scaler_between(-sizes, sizes, (-1, 1))
        steps = [
            ("clip", clip),
            ("missing", missing),
            ("copies", linear_map(copies)),
            ("ramps", scaler_between(begin, end)),
        ]
        if any(block.kind != NUMBER_RAMPS for block in self.blocks):
            return [("columns", self._columns_read(names)), *steps]
        if names is not None:
            clip.feature_names_in_ = names
        return steps

    def _columns_read(self, names: Any) -> Any:
        """A transformer that puts columns into the order of the ramps, with words as indicators.

        It is fitted to an invented record.
        """
        words = {block.column: block.words for block in self.blocks if block.words}
        record = np.array([words.get(j, (0.0,))[0] for j in range(self.n_columns)], dtype=object)
        known = [np.array(some, dtype=object) for some in words.values()]
        # A fit would sort the words, and pandas' NA cannot be compared.
        numbered = [np.array([str(k) for k in range(len(some))], dtype=object) for some in known]
        encoder = OneHotEncoder(categories=numbered, handle_unknown="ignore", sparse_output=False)
        parts = []
        for kind in dict.fromkeys(block.kind for block in self.blocks):
            columns: Any = [block.column for block in self.blocks if block.kind == kind]
            columns = columns if names is None else [names[j] for j in columns]
            parts.append((kind, encoder if kind == WORD_RAMPS else "passthrough", columns))
        rows: Any = record[None, :].astype(object if words else float)
        if names is not None:
            import pandas as pd

            rows = pd.DataFrame(record[None, :], columns=names).infer_objects()
        out = ColumnTransformer(parts).fit(rows)
        encoder.set_params(categories=known)
        if words:
            fitted_as(out.named_transformers_[WORD_RAMPS], categories=known, categories_=known)
        return out


def refuse_dates(columns: Sequence[Any]) -> None:
    """Refuse columns that no estimator of scikit-learn turns into numbers.

    Raises
    ------
    TypeError
        If there are columns of dates.
    """
    if names := [column.name for column in columns if column.dates]:
        raise TypeError(
            f"columns {names} hold dates, which no transformer of scikit-learn turns into days. "
            "If you need such a pipeline, declare numbers of days instead."
        )


def linear_map(rows: np.ndarray) -> Any:
    """A transformer that multiplies records by these rows."""
    return fitted_as(TruncatedSVD(len(rows)), components_=rows, n_features_in_=rows.shape[1])


def feature_steps(functions: Sequence[ColumnFunction], names: Any) -> list[tuple[str, Any]]:
    """Steps of a pipeline that computes the outputs of these functions, one for each column."""
    features = RampFeatures([[function] for function in functions])
    parts = [features.coefficients(j, function) for j, function in enumerate(functions)]
    rows = np.hstack([coef for coef, _ in parts]).T
    constant = fitted_as(
        StandardScaler(with_std=False),
        mean_=-np.concatenate([part for _, part in parts]),
        scale_=None,
        n_features_in_=len(rows),
    )
    return [*features.steps(names), ("features", linear_map(rows)), ("constant", constant)]
