"""Which data sets are neighbours, as written in charges, ledgers and reports."""

import re
from collections.abc import Iterable

from ._checks import abridged

__all__ = [
    "ADD_OR_REMOVE",
    "LARGEST_UNIT",
    "RELATIONS",
    "REPLACE_ONE",
    "WITHIN_GROUPS",
    "check_relation",
    "records_of_unit",
    "replacements",
    "unit_relation",
    "weakest",
]

REPLACE_ONE = "replace-one"
# Neighbours replace one record by another of the same groups: weaker than "replace-one".
WITHIN_GROUPS = "replace-one within groups"
ADD_OR_REMOVE = "add-or-remove-one"
RELATIONS = (REPLACE_ONE, ADD_OR_REMOVE)

_UNIT = re.compile(r"replace one unit of at most ([1-9][0-9]{0,5}) records")
LARGEST_UNIT = 999_999  # records of a unit


def unit_relation(max_records_per_unit: int) -> str:
    """The relation for which up to this many records are replaced at once."""
    if max_records_per_unit == 1:
        return REPLACE_ONE
    return f"replace one unit of at most {max_records_per_unit} records"


def records_of_unit(relation: object) -> int | None:
    """How many records neighbours replace at most; None if the relation does not say."""
    if relation == REPLACE_ONE:
        return 1
    found = _UNIT.fullmatch(relation) if isinstance(relation, str) else None
    return int(found[1]) if found and found[1] != "1" else None


def replacements(of: str, by: str) -> int | None:
    """How many neighbours by one relation lead to any neighbour of another one; None if none do.

    A guarantee that is rho-zCDP for ``by`` is then rho times the square of this number for ``of``:
    docs/proofs/units.md.
    """
    if by == of:
        return 1
    k, at_once = records_of_unit(of), records_of_unit(by)
    if k is not None and by == ADD_OR_REMOVE:
        return 2 * k  # each of them is added, and another one is removed
    return None if k is None or at_once is None else -(-k // at_once)


def weakest(relations: Iterable[str], otherwise: str = REPLACE_ONE) -> str:
    """The relation for which guarantees with these relations hold together.

    Relations for adding or removing are skipped, unless there are no others.
    """
    relations = set(relations)
    if relations == {ADD_OR_REMOVE}:
        return ADD_OR_REMOVE
    if WITHIN_GROUPS in relations:
        return WITHIN_GROUPS
    least = min((k for k in map(records_of_unit, relations) if k is not None), default=None)
    return otherwise if least is None else unit_relation(least)


def check_relation(relation: object) -> None:
    """Check that there is such a relation for a ledger.

    Raises
    ------
    ValueError
        If there is none.
    """
    known = isinstance(relation, str) and relation in RELATIONS
    if not known and records_of_unit(relation) is None:
        raise ValueError(
            f"relation must be one of {RELATIONS}, or {unit_relation(LARGEST_UNIT)!r} with any "
            f"smaller number from 2, got {abridged(relation)}."
        )
