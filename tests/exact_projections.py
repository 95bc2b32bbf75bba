"""Projections in rational arithmetic."""

from fractions import Fraction
from itertools import accumulate


def exact_projection(w, radius, signed=True):
    """Project onto an l1 ball, or onto a simplex if it is not signed, by sorting."""
    w, radius = [Fraction(float(x)) for x in w], Fraction(float(radius))
    sizes = [abs(x) if signed else x for x in w]
    if signed and sum(sizes) <= radius:
        return w
    sums = accumulate(sorted(sizes, reverse=True))
    threshold = max((total - radius) / k for k, total in enumerate(sums, start=1))
    kept = [max(size - threshold, Fraction(0)) for size in sizes]
    return [-v if signed and x < 0 else v for v, x in zip(kept, w, strict=True)]
