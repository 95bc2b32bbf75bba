"""Records that are possible under public constraints, as disjoint boxes of codes.

A box holds the records whose code in each column is in a set. What is possible in some columns is
independent of what is possible in others that no constraint links to them.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

__all__ = ["CodeBox", "LinkedColumns", "legal_cells", "linked_columns"]

MAX_BOXES = 256  # most boxes of columns that are linked; chosen by hand, for time
CodeBox = dict[int, np.ndarray]  # by column, which of its codes are in the box


class LinkedColumns(NamedTuple):
    """Columns that constraints link, in order, and the disjoint boxes of their possible values."""

    columns: tuple[int, ...]
    boxes: list[CodeBox]


def linked_columns(
    forbidden: Sequence[Sequence[CodeBox]], shape: tuple[int, ...]
) -> tuple[LinkedColumns, ...]:
    """What is possible if some boxes are not.

    Parameters
    ----------
    forbidden : list of list of dict
        The boxes that each constraint forbids. A column that a box does not name may have any code.
    shape : tuple of int

    Raises
    ------
    ValueError
        If nothing is possible, or the rest is not a union of `MAX_BOXES` boxes. The message begins
        with the constraint.
    """
    found: list[LinkedColumns] = []
    for i, boxes in enumerate(forbidden):
        for box in boxes:
            met = [linked for linked in found if set(linked.columns) & set(box)]
            joint = reduce(_product, met, LinkedColumns((), [{}]))
            more = [j for j in box if j not in joint.columns]
            everything: list[CodeBox] = [{j: np.ones(shape[j], dtype=bool) for j in more}]
            joint = _product(joint, LinkedColumns(tuple(more), everything))
            left = _united([part for given in joint.boxes for part in _without(given, box)])
            if not left:
                raise ValueError(f"constraints[{i}] and those before it leave no record possible.")
            if len(left) > MAX_BOXES:
                raise ValueError(
                    f"constraints[{i}] and those before it divide the records into more than "
                    f"{MAX_BOXES} boxes. Name several values in one constraint, or merge some."
                )
            found = [linked for linked in found if not set(linked.columns) & set(box)]
            found.append(LinkedColumns(joint.columns, left))
    return tuple(found)


def legal_cells(
    possible: Sequence[LinkedColumns], columns: Sequence[int], shape: tuple[int, ...]
) -> np.ndarray:
    """Which cells of the table of some columns are possible, with one axis per column."""
    cells = np.ones([shape[j] for j in columns], dtype=bool)
    for linked in possible:
        axes = [j for j in columns if j in linked.columns]
        if axes:
            parts = [reduce(np.multiply.outer, [box[j] for j in axes]) for box in linked.boxes]
            cells &= np.logical_or.reduce(parts).reshape(
                [shape[j] if j in axes else 1 for j in columns]
            )
    return cells


def _product(one: LinkedColumns, other: LinkedColumns) -> LinkedColumns:
    boxes = [{**a, **b} for a in one.boxes for b in other.boxes]
    return LinkedColumns(tuple(sorted(one.columns + other.columns)), boxes)


def _without(box: CodeBox, forbidden: CodeBox) -> list[CodeBox]:
    """Disjoint boxes that make up a box without another."""
    if not all((box[j] & mask).any() for j, mask in forbidden.items()):
        return [box]
    parts, rest = [], box
    for j, mask in forbidden.items():
        if (rest[j] & ~mask).any():
            parts.append({**rest, j: rest[j] & ~mask})
        rest = {**rest, j: rest[j] & mask}
    return parts


def _united(boxes: list[CodeBox]) -> list[CodeBox]:
    """Unite boxes that differ in a single column."""
    for j in boxes[0] if boxes else ():
        alike: dict[tuple[bytes, ...], CodeBox] = {}
        for box in boxes:
            key = tuple(mask.tobytes() for k, mask in box.items() if k != j)
            alike[key] = {**box, j: box[j] | alike[key][j]} if key in alike else box
        boxes = list(alike.values())
    return boxes
