"""Declared categories of a column, and the codes of values among them."""

from collections.abc import Iterable, Mapping, Set
from numbers import Integral, Real
from typing import Any

import numpy as np

from skdpsco._validation import dtype_name, is_missing
from skdpsco.privacy._checks import abridged

__all__ = ["as_held", "check_categories", "codes_among", "is_list"]


def is_list(value: Any) -> bool:
    """Whether a value is a list of entries, and not a string, set, mapping or frame."""
    wrong = isinstance(value, (str, bytes, Mapping, Set)) or hasattr(value, "columns")
    return not wrong and np.iterable(value) and hasattr(value, "__len__")


def check_categories(name: str, categories: Any) -> np.ndarray:
    """Declared categories as an array of objects, in their order.

    Raises
    ------
    ValueError
        If they are not different numbers or different strings, with at most one missing value.
    """
    values = list(categories) if is_list(categories) else []
    values = [v.item() if isinstance(v, np.generic) else v for v in values]
    known = [v for v in values if not is_missing(v)]
    if (
        not values
        or len(values) - len(known) > 1
        or not (all(isinstance(v, str) for v in known) or all(isinstance(v, Real) for v in known))
        or len(set(known)) < len(known)
    ):
        raise ValueError(
            f"{name} must be a list of at least one category, all different, all numbers or all "
            f"strings, and at most one None or NaN; got {abridged(categories)}."
        )
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def as_held(declared: Iterable[Any], dtype: Any) -> list[Any]:
    """Declared values as a column of a dtype holds them: floats round numbers."""
    name = dtype_name(dtype, of_categories=True)
    if name not in ("float16", "float32"):
        if not _may_hold_floats(dtype):
            return list(declared)
        name = "float64"
    rounded = np.dtype(name).type
    with np.errstate(over="ignore"):
        return [rounded(v).item() if isinstance(v, Real) else v for v in declared]


def _may_hold_floats(dtype: Any) -> bool:
    """Whether one value may make floats of all: integers of NumPy, where one is missing."""
    own = getattr(getattr(dtype, "categories", None), "dtype", dtype)
    return isinstance(own, np.dtype) and own.kind in "iufO"


def codes_among(values: np.ndarray, categories: Iterable[Any], dtype: Any) -> list[int]:
    """Positions of values of a dtype among the categories, and -1 for values not declared.

    Raises
    ------
    ValueError
        If the dtype cannot tell two categories apart.
    """
    floats = _may_hold_floats(dtype)
    # NumPy would sort the values, which may be of types that cannot be compared.
    position: dict[Any, int] = {}
    missing = -1
    for code, category in enumerate(as_held(categories, dtype)):
        if is_missing(category):
            missing = code
        elif position.setdefault(category, code) != code:
            raise ValueError(
                f"A column of dtype {dtype} takes two categories for one: declare strings."
            )

    def code_of(value):
        try:
            return position[float(value) if floats and isinstance(value, Integral) else value]
        except Exception:  # not declared, or not hashable, which may raise anything
            return missing if is_missing(value) else -1

    return [code_of(value) for value in values.tolist()]
