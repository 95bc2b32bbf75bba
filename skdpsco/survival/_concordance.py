"""Harrell's index of concordance."""

import numpy as np

from skdpsco._kernels import inner, njit

__all__ = ["concordance"]


def concordance(
    event: np.ndarray, time: np.ndarray, risk: np.ndarray, entry: np.ndarray | None = None
) -> float:
    """Share of comparable pairs in which the person of higher risk had the event first.

    A pair is comparable if the first of the two had an event, and the other was seen for longer, or
    as long without an event, and had entered before. Equal risks count one half.

    Parameters
    ----------
    event : ndarray of bool of shape (n_samples,)
    time, risk : ndarray of shape (n_samples,)
    entry : ndarray of shape (n_samples,) or None, default=None
        None if all enter at the start.

    Returns
    -------
    index : float
        NaN if no pair is comparable.
    """
    rank = np.unique(risk, return_inverse=True)[1] + 1
    order = np.lexsort((event, -time))  # among equal times those without an event first
    first = np.full(len(time), -np.inf) if entry is None else np.where(entry > 0, entry, -np.inf)
    late = np.argsort(-first)
    agreeing, pairs = _count_pairs(event[order], time[order], rank[order], first[late], rank[late])
    return 0.5 * agreeing / pairs if pairs else float("nan")


@njit
def _count_pairs(event, time, rank, entry, rank_of_entry):
    """Twice the number of pairs that agree, and the number of all, from the last time to the first.

    A tree of counts (Fenwick) holds the ranks of the people who were seen for longer, and entered
    before. Entries are in decreasing order.
    """
    tree = np.zeros(rank.max() + 1, np.int64)
    agreeing, pairs, start, gone = 0, 0, 0, 0
    for i in range(len(rank)):
        if time[i] != time[start] or event[i] != event[start]:
            for j in range(start, i):
                _add_rank(tree, rank[j], 1)
            start = i
        while entry[gone] >= time[i]:  # of somebody who was seen for longer
            _add_rank(tree, rank_of_entry[gone], -1)
            gone += 1
        if event[i]:
            agreeing += _up_to(tree, rank[i] - 1) + _up_to(tree, rank[i])
            pairs += start - gone
    return agreeing, pairs


@inner
def _add_rank(tree, place, number):
    while place < len(tree):
        tree[place] += number
        place += place & -place


@inner
def _up_to(tree, place):
    total = 0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total
