"""Harrell's index of concordance."""

import numpy as np

from skdpsco._kernels import inner, njit

__all__ = ["concordance"]


def concordance(event: np.ndarray, time: np.ndarray, risk: np.ndarray) -> float:
    """Share of comparable pairs in which the person of higher risk had the event first.

    A pair is comparable if the first of the two had an event, and the other was seen for longer, or
    as long without an event. Equal risks count one half.

    Parameters
    ----------
    event : ndarray of bool of shape (n_samples,)
    time, risk : ndarray of shape (n_samples,)

    Returns
    -------
    index : float
        NaN if no pair is comparable.
    """
    rank = np.unique(risk, return_inverse=True)[1] + 1
    order = np.lexsort((event, -time))  # among equal times those without an event first
    agreeing, pairs = _count_pairs(event[order], time[order], rank[order])
    return 0.5 * agreeing / pairs if pairs else float("nan")


@njit
def _count_pairs(event, time, rank):
    """Twice the number of pairs that agree, and the number of all, from the last time to the first.

    A tree of counts (Fenwick) holds the ranks of the people who were seen for longer.
    """
    tree = np.zeros(rank.max() + 1, np.int64)
    agreeing, pairs, start = 0, 0, 0
    for i in range(len(rank)):
        if time[i] != time[start] or event[i] != event[start]:
            for j in range(start, i):
                _add_rank(tree, rank[j])
            start = i
        if event[i]:
            agreeing += _up_to(tree, rank[i] - 1) + _up_to(tree, rank[i])
            pairs += start
    return agreeing, pairs


@inner
def _add_rank(tree, place):
    while place < len(tree):
        tree[place] += 1
        place += place & -place


@inner
def _up_to(tree, place):
    total = 0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total
