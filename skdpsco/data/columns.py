"""Columns of a table: what is declared about each, and which features it becomes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from numbers import Real
from typing import Any

import numpy as np

from skdpsco._validation import check_interval, is_missing, is_number
from skdpsco.data.categories import as_held, check_categories, codes_among, is_list
from skdpsco.data.frames import (
    BOOLEANS,
    CATEGORICAL,
    DATES,
    HOLD_DATES,
    NUMBERS,
    OBJECTS,
    TEXT,
    dates_of,
    day_of,
    days_of,
    kind_of,
    missing_in,
    numbers_of,
    objects_of,
)
from skdpsco.privacy._checks import abridged

__all__ = ["CATEGORY", "KEYS", "NUMBER", "Column", "declared_column", "read_declaration"]

NUMBER, CATEGORY, BOOLEAN = "number", "category", "boolean"
KEYS: dict[str, tuple[str, ...]] = {
    NUMBER: ("bounds", "integer", "unit", "fill", "missing"),
    CATEGORY: ("categories", "missing"),
    BOOLEAN: ("boolean", "missing"),
}
LEGAL_DECLARATIONS = (
    "'boolean', a list of categories, or a dict with 'bounds': [low, high] (and 'integer', 'unit', "
    "'fill', 'missing'; for dates, 'fill' and 'missing'), with 'categories': [...] (and "
    "'missing'), or with 'boolean': True (and 'missing')"
)


@dataclass(frozen=True)
class Column:
    """What is public about one column.

    Parameters
    ----------
    name : str
    kind : {"number", "category", "boolean"}
    bounds : tuple of two floats
        Bounds of numbers, in their units; of dates, in days.
    categories : tuple
        Categories, without missing values.
    integer : bool
        Whether the numbers are whole.
    unit : str
    fill : float
        The number that stands for a missing one.
    missing : bool
        Whether values may be missing.
    codes : tuple
        Values that mean "missing", besides None and NaN.
    dates : bool
        Whether the numbers are days, read from dates.
    """

    name: str
    kind: str
    bounds: tuple[float, float] = (0.0, 1.0)
    categories: tuple[Any, ...] = ()
    integer: bool = False
    unit: str = ""
    fill: float = 0.0
    missing: bool = False
    codes: tuple[Any, ...] = ()
    dates: bool = False

    @property
    def noun(self) -> str:
        """What one value is."""
        return "date" if self.dates else self.kind

    def to_dict(self) -> dict[str, Any]:
        """The declaration, of types that JSON knows."""
        out: dict[str, Any] = {}
        if self.kind == NUMBER:
            out["bounds"] = self._written(self.bounds)
            out.update({"integer": True} if self.integer and not self.dates else {})
            out.update({"unit": self.unit} if self.unit else {})
            if self.fill != sum(self.bounds) / 2:
                out["fill"] = self._written([self.fill])[0]
        elif self.kind == CATEGORY:
            out["categories"] = list(self.categories)
        else:
            out["boolean"] = True
        if self.missing:
            out["missing"] = self._written(self.codes) or True
        return out

    def _written(self, values: Any) -> list[Any]:
        return dates_of(values).astype(str).tolist() if self.dates else list(values)

    def names_out(self) -> list[str]:
        """Names of the features that the column becomes."""
        names = [self.name]
        if self.kind == CATEGORY:
            names = [f"{self.name}_{category}" for category in self.categories]
        return names + [f"{self.name}_missing"] * self.missing

    def unfit(self, column: Any) -> str:
        """Why the dtype of a column cannot hold what is declared; empty if it can."""
        kinds: tuple[str, ...] = HOLD_DATES if self.dates else (NUMBERS, BOOLEANS, OBJECTS)
        if self.kind == CATEGORY:
            text = isinstance(self.categories[0], str)
            kinds = (TEXT, CATEGORICAL, OBJECTS) if text else (*kinds, CATEGORICAL)
        if kind_of(column) in kinds:
            known = (*self.categories, *self.codes) if self.kind == CATEGORY else ()
            held = as_held(known, _dtype(column))
            same = len(set(held)) < len(held)
            which = f"{self.name!r} has dtype {_dtype(column)}, which takes two categories for one"
            return f"{which}: declare strings" if same else ""
        what = {
            NUMBER: f"{self.noun}s",
            BOOLEAN: "booleans",
            CATEGORY: "such categories; numbers and strings differ, even 1 and '1'",
        }[self.kind]
        dtype = str(column.dtype).partition("(")[0]  # an Enum prints its values as parameters
        dtype = str(_dtype(column)) if dtype == "Unknown" else dtype
        return f"{self.name!r} has dtype {dtype}, which holds no {what}"

    def read(self, column: Any) -> tuple[np.ndarray, np.ndarray]:
        """The numbers, truth values or codes of categories, and which of them are missing.

        Missing values become NaN or, for categories, -1. Undeclared values become the same: they
        count as missing in a column of numbers or booleans, but not in one of categories.
        """
        if self.kind == CATEGORY:
            values = objects_of(column)
            known = np.array([*self.categories, *self.codes, None], dtype=object)
            places = np.array(codes_among(values, known, _dtype(column)), dtype=np.intp)
            lost = places >= len(self.categories)
            return np.where(lost, -1, places), lost
        numbers = days_of(column) if self.dates else numbers_of(column)
        codes = [float(code) for code in self.codes if isinstance(code, Real)]
        wrong = np.isin(numbers, as_held(codes, _dtype(column)))
        if self.kind == BOOLEAN:
            wrong |= (numbers != 0.0) & (numbers != 1.0)
        numbers = np.where(wrong, np.nan, numbers)
        return numbers, np.isnan(numbers)

    def slots(self, column: Any) -> Iterator[tuple[Any, np.ndarray]]:
        """Positions among the features that the column becomes, and the values there.

        A position is one for all records, or an array of one per record.
        """
        values, lost = self.read(column)
        if self.kind == CATEGORY:
            position = np.maximum(values, 0)
            if self.missing:
                position = np.where(lost, len(self.categories), position)
            yield position, ((values >= 0) | (lost & self.missing)).astype(np.float64)
            return
        values = np.where(lost, self.fill, values)
        if self.kind == NUMBER:
            low, high = self.bounds
            values = np.clip(values, low, high)
            # Differences from the centre, because a symmetric map keeps the digits of small
            # numbers.
            values = np.clip((values - (low + high) / 2) / ((high - low) / 2), -1.0, 1.0)
        yield 0, values
        if self.missing:
            yield 1, lost.astype(np.float64)

    def faults(self, column: Any) -> Iterator[str]:
        """Sentences about values of the column that do not fit the declaration."""
        values, lost = self.read(column)
        empty = missing_in(column)
        if not self.missing and empty.any():
            yield "has missing values, which are not declared"
        codes = np.array(self.codes, dtype=object)
        given = days_of(column) if self.dates else objects_of(column)
        coded = np.array(codes_among(given, codes, _dtype(column))) >= 0
        odd = lost & ~empty & ~coded
        if odd.any():
            yield f"holds values that are not {self.noun}s"
        if self.kind == CATEGORY:
            if ((values < 0) & ~lost).any():
                yield "holds values that are not among its categories, which become zeros"
        elif self.kind == NUMBER:
            known = values[~lost]
            if ((known < self.bounds[0]) | (known > self.bounds[1])).any():
                yield f"holds {self.noun}s beyond its bounds, to which they are clipped"
            if self.integer and (known != np.round(known)).any():
                yield "holds numbers that are not whole"

    def values(self) -> list[Any]:
        """All declared values of categories or booleans, except for missing ones."""
        return [False, True] if self.kind == BOOLEAN else list(self.categories)

    def levels(self) -> list[Any]:
        """All values that a record may have: codes of missing values and None are among them.

        A code that is text among numbers, or a number among text, cannot be in a list of
        categories.
        """
        values = self.values()
        kind = str if isinstance(values[0], str) else Real
        codes = [code for code in self.codes if isinstance(code, kind) and code not in values]
        return values + codes + [None] * self.missing


def _dtype(column: Any) -> Any:
    """The dtype of a column of narwhals; the library's own says more about categories."""
    return getattr(column.to_native(), "dtype", column.dtype)


def in_days(where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration of a column of dates as one of numbers.

    Raises
    ------
    TypeError
        If a value is no date.
    ValueError
        If it has keys that dates do not have, or bounds that do not increase.
    """
    if not set(given) <= {"bounds", "fill", "missing"}:
        raise ValueError(f"{where} must be {LEGAL_DECLARATIONS}; got the keys {list(given)}.")
    out = {**given, "integer": True}
    for key, value in given.items():
        if key == "missing" and not is_list(value):
            continue
        dates = value if is_list(value) else [value]
        if key == "missing":  # as well as codes, the list may say that nothing is there
            dates = [one for one in dates if not is_missing(one)]
        days = [day_of(one) for one in dates]
        if np.isnan(days).any():
            raise TypeError(
                f"{where} must have either numbers or dates such as '2024-01-31' throughout; "
                f"{key!r} is {abridged(value)}."
            )
        out[key] = days if is_list(value) else days[0]
    if out["bounds"] != sorted(set(out["bounds"])):
        raise ValueError(
            f"{where}['bounds'] must be two dates, the earlier one first; got "
            f"{abridged(given['bounds'])}."
        )
    return out


def declared_column(name: str, given: Any) -> Column:
    """Check the declaration of a column, and return the column.

    Raises
    ------
    TypeError, ValueError
        If the declaration is not legal.
    """
    where = f"columns[{name!r}]"
    if isinstance(given, Column):
        return replace(given, name=name)
    if isinstance(given, str) and given == BOOLEAN:
        given = {"boolean": True}
    elif is_list(given):
        if len(given) == 2 and all(map(is_number, given)):
            low, high = given
            raise ValueError(
                f"{where} is two numbers, which may be bounds or categories. For bounds write "
                f"{{'bounds': [{low}, {high}]}}, for categories {{'categories': [{low}, {high}]}}."
            )
        given = {"categories": given}
    if not isinstance(given, Mapping):
        raise TypeError(f"{where} must be {LEGAL_DECLARATIONS}; got {given!r}.")
    first = {"bounds": NUMBER, "categories": CATEGORY, "boolean": BOOLEAN}
    kinds = [kind for key, kind in first.items() if key in given]
    if len(kinds) != 1 or not set(given) <= set(KEYS[kinds[0]]):
        raise ValueError(f"{where} must be {LEGAL_DECLARATIONS}; got the keys {list(given)}.")
    kind, declared = kinds[0], given
    ends: Any = given.get("bounds")
    dates = is_list(ends) and any(isinstance(end, (str, date, np.datetime64)) for end in ends)
    if dates:
        given = in_days(where, given)
    missing = given.get("missing", False)
    codes: tuple[Any, ...] = ()
    if is_list(missing):
        listed = check_categories(f"{where}['missing']", missing).tolist()
        missing, codes = True, tuple(code for code in listed if not is_missing(code))
    integer, unit = given.get("integer", False), str(given.get("unit", ""))
    codes_too = ", or a list of the values that mean it"
    for key, flag, also in (("missing", missing, codes_too), ("integer", integer, "")):
        if not isinstance(flag, bool):
            raise TypeError(f"{where}[{key!r}] must be True or False{also}, got {flag!r}.")
    if given.get("boolean", True) is not True:
        raise ValueError(f"{where}['boolean'] must be True, got {given['boolean']!r}.")
    common = {"name": name, "kind": kind, "missing": missing, "codes": codes}
    if kind == CATEGORY:
        categories = check_categories(f"{where}['categories']", given["categories"]).tolist()
        known = tuple(value for value in categories if not is_missing(value))
        if not known or set(known) & set(codes):
            raise ValueError(
                f"{where} must have a category, and none that is also listed as missing."
            )
        common["missing"] = missing or len(known) < len(categories)
        return Column(categories=known, **common)
    if kind == BOOLEAN:
        return Column(**common)
    pair = given["bounds"]
    if not is_list(pair) or len(pair) != 2:
        raise ValueError(
            f"{where}['bounds'] must be two numbers or two dates, low and high; got "
            f"{declared['bounds']!r}."
        )
    low, high = check_interval(f"{where}['bounds'][0]", pair[0], f"{where}['bounds'][1]", pair[1])
    fill = given.get("fill", (low + high) / 2)
    if not is_number(fill) or not low <= float(fill) <= high:
        what = "date" if dates else "number"
        raise ValueError(
            f"{where}['fill'] must be a {what} within the bounds, got {declared['fill']!r}."
        )
    common |= {"integer": integer, "unit": unit, "dates": dates}
    return Column(bounds=(low, high), fill=float(fill), **common)


def read_declaration(column: Any, categorical: bool) -> dict[str, Any] | None:
    """Guess a declaration from the values of a column; None if that is impossible."""
    kind, lost = kind_of(column), missing_in(column)
    values = objects_of(column)[~lost].tolist()
    declared: dict[str, Any] = {"missing": True} if lost.any() else {}
    if not values:
        return None
    text = all(isinstance(value, str) for value in values)
    if kind == CATEGORICAL:
        if not text and not all(isinstance(value, Real) for value in values):
            return None
        categorical = True
    elif kind == BOOLEANS or all(isinstance(value, (bool, np.bool_)) for value in values):
        return {"boolean": True, **declared}
    if text or categorical:
        return {"categories": sorted(set(values)), **declared}
    dates = kind == DATES or all(isinstance(value, (date, np.datetime64)) for value in values)
    numbers = days_of(column) if dates else numbers_of(column)
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) < len(values) or numbers.min() == numbers.max():
        return None
    if dates:
        return {"bounds": dates_of([numbers.min(), numbers.max()]), **declared}
    # In pandas, whole numbers are floats where some are missing.
    if column.dtype.is_integer() or (lost.any() and (numbers == np.round(numbers)).all()):
        declared["integer"] = True
    return {"bounds": [float(numbers.min()), float(numbers.max())], **declared}
