"""The exponential mechanism over coordinates and signs, for scores that change a few at a time.

`exponential_mechanism` of `skdpsco.mechanisms.samplers` looks at all candidates for every draw.
Here coordinates are sorted into buckets by the size of their scores. A new score costs a few swaps,
and a draw takes two or three trials. The distribution is exactly the same:
``docs/proofs/noise.md``, section 10.

The score of a coordinate is `score_of` its sum, an integer. Code that changes the sum must call
`move_to_bucket` if `bucket_of` changes with it; `forget` changes the scale.
"""

from typing import NamedTuple

import numpy as np

from skdpsco._kernels import inner
from skdpsco._random import below
from skdpsco.mechanisms.samplers import SCALE_BITS, bernoulli_exp, to_grid

__all__ = [
    "MAX_COORDINATES",
    "Buckets",
    "bucket_of",
    "draw_signed",
    "estimate",
    "forget",
    "move_to_bucket",
    "new_buckets",
]

# Bucket j holds scores that are at least j * BUCKET_WIDTH below the reference; the last holds the
# rest. exp(-BUCKET_WIDTH / 2**SCALE_BITS) is one half times KEEP, which is just below 1.
BUCKET_WIDTH = 11_629_080  # ceil(log(2) * 2**24)
LAST = 32
KEEP = (4611686009643720307, 1439227914436061345, 1704341747740123000)  # digits to base 2**62
MAX_COORDINATES = 2**28  # below it no sum of weights reaches 2**62
SLACK = 4 * BUCKET_WIDTH  # how far a score may rise above the largest before all are sorted again
ROUNDING = 4.0  # units by which the fast estimate of a score may be too small, see `bucket_of`


class Buckets(NamedTuple):
    """Coordinates sorted by bucket.

    Parameters
    ----------
    order : ndarray of shape (n_coordinates,), int32
        Coordinates, bucket by bucket.
    place : ndarray of shape (n_coordinates,), int32
        Position of each coordinate in ``order``.
    start : ndarray of shape (LAST + 2,), int64
        Where each bucket begins in ``order``.
    reference : ndarray of shape (1,), int64
        An upper bound on all absolute scores; negative if all must be sorted again.
    scale : ndarray of shape (2,), float64
        Factor and grid: the score of a sum is ``factor * sum / grid``, rounded.
    """

    order: np.ndarray
    place: np.ndarray
    start: np.ndarray
    reference: np.ndarray
    scale: np.ndarray


def new_buckets(n_coordinates: int) -> Buckets:
    """Return empty buckets for up to ``MAX_COORDINATES``; the next `draw_signed` fills them."""
    return Buckets(
        np.empty(n_coordinates, dtype=np.int32),
        np.empty(n_coordinates, dtype=np.int32),
        np.zeros(LAST + 2, dtype=np.int64),
        np.full(1, -1),
        np.ones(2),
    )


@inner
def forget(buckets, factor, grid):
    """Set the scale, and mark all coordinates to be sorted again before the next draw."""
    buckets.scale[0] = factor
    buckets.scale[1] = grid
    buckets.reference[0] = -1


@inner
def score_of(buckets, total):
    """Score of a coordinate with this sum; large scores are likely."""
    return to_grid(buckets.scale[0] * total, buckets.scale[1])


@inner
def estimate(buckets):
    """The two numbers that `bucket_of` takes, which change with the reference and the scale."""
    slope = abs(buckets.scale[0]) / (buckets.scale[1] * BUCKET_WIDTH)
    return (buckets.reference[0] - ROUNDING) / BUCKET_WIDTH, slope


@inner
def bucket_of(total, top, slope):
    """Bucket for a sum, computed fast; -1 if its score might exceed the reference.

    It may be one too low. The score and the estimate take nine roundings in all, each by less than
    1/4 unit for scores up to 2**50, and one rounding to an integer: together less than ROUNDING.
    """
    distance = top - abs(total) * slope
    return -1 if distance < 0.0 else np.int64(min(distance, 1.0 * LAST))


@inner
def sort_all(buckets, sums):
    """Sort all coordinates by bucket, below a new reference."""
    n = sums.shape[0]
    largest = 0
    for k in range(n):
        largest = max(largest, abs(sums[k]))
    buckets.reference[0] = abs(score_of(buckets, largest)) + SLACK
    order, place, start = buckets.order, buckets.place, buckets.start
    for j in range(LAST + 2):
        start[j] = 0
    top, slope = estimate(buckets)
    for k in range(n):
        start[bucket_of(sums[k], top, slope) + 1] += 1
    for j in range(1, LAST + 2):
        start[j] += start[j - 1]
    for k in range(n):  # start[j] moves to the end of bucket j, which is the start of the next
        j = bucket_of(sums[k], top, slope)
        order[start[j]] = k
        place[k] = start[j]
        start[j] += 1
    for j in range(LAST + 1, 0, -1):
        start[j] = start[j - 1]
    start[0] = 0


@inner
def move_to_bucket(buckets, k, b, j):
    """Move coordinate ``k`` from bucket ``b`` to bucket ``j``."""
    if j < 0:
        buckets.reference[0] = -1
        return
    order, place, start = buckets.order, buckets.place, buckets.start
    here = np.int64(place[k])
    while b != j:
        # Swap with the last coordinate of this bucket, or the first; then move the border.
        if b < j:
            b += 1
            start[b] -= 1
            there = start[b]
        else:
            there = start[b]
            start[b] += 1
            b -= 1
        order[here] = order[there]
        place[order[here]] = here
        order[there] = k  # at once, since `there` is `here` if k alone is in the bucket
        here = there
    place[k] = here


@inner
def keep(rng):
    """Draw from Bernoulli(p), where p is the number with the digits KEEP."""
    for digit in KEEP:
        word = below(rng, 1 << 62)
        if word != digit:
            return word < digit
    return False  # all 186 bits are equal with probability below 10**-55


@inner
def draw_signed(rng, sums, buckets):
    """Exact k with P(k) proportional to exp(s / 2**SCALE_BITS).

    Candidate ``k < n`` has the score ``s = score_of(buckets, sums[k])``, candidate ``n + k`` has
    its negative.

    Parameters
    ----------
    rng : numpy.random.Generator
    sums : ndarray of shape (n,), int64
        At least one; no score may reach +-GRID_LIMIT.
    buckets : Buckets

    Returns
    -------
    k : int
    """
    start = buckets.start
    # Few candidates of the last bucket are accepted, so it must not hold most of the weight. After
    # sorting it does not: the largest score alone weighs at least 2**(LAST - 4), and there are not
    # more coordinates than that.
    for _ in range(2):
        total = 0
        for j in range(LAST + 1):
            total += (start[j + 1] - start[j]) << (LAST - j)
        if buckets.reference[0] >= 0 and total >= 2 * (start[LAST + 1] - start[LAST]):
            break
        sort_all(buckets, sums)
    while True:
        # Draw bucket j with probability proportional to its size times 2**-j, then one of its
        # coordinates: the high bits of the unused part of the random word.
        word = below(rng, total)
        j = 0
        while word >= (start[j + 1] - start[j]) << (LAST - j):
            word -= (start[j + 1] - start[j]) << (LAST - j)
            j += 1
        k = np.int64(buckets.order[start[j] + (word >> (LAST - j))])
        score = score_of(buckets, sums[k])
        # Accept with probability exp(-(reference - |score|)) * 2**j.
        accepted = bernoulli_exp(
            rng, buckets.reference[0] - abs(score) - j * BUCKET_WIDTH, SCALE_BITS
        )
        while accepted and j > 0:
            accepted = keep(rng)
            j -= 1
        # Choose one of the two signs: that with the score -|score| with probability exp(-2
        # |score|).
        positive = below(rng, 2) == 1
        if (score > 0) != positive:
            accepted = accepted and bernoulli_exp(rng, 2 * abs(score), SCALE_BITS)
        if accepted:
            return k if positive else k + sums.shape[0]
