"""Smooth losses in place of those that have a kink, of which descent follows the gradient."""

import math
from typing import Any, NamedTuple

from skdpsco.losses.library import Absolute, Hinge, Huber, Quantile, SmoothHinge, SmoothQuantile

__all__ = ["WIDTHS", "quantile_width", "smoothed"]


class WidthTuning(NamedTuple):
    """Constants of widths, fitted on the data of examples/benchmarks/named_models.py.

    Parameters
    ----------
    most : float
        Largest width of the quadratic part of a quantile's loss, in units of the targets' scale.
    ratio : float
        n mu per feature up to which the width is constant; beyond, it falls with its root.
    least : float
        Smallest width.
    reach : float
        Smallest width, in units of columns over the square of the number of passes: steps, which
        are short where the loss is bent, have to reach the optimum.
    """

    most: float = 0.2
    ratio: float = 30.0
    least: float = 0.002
    reach: float = 4.0


WIDTHS = WidthTuning()


def quantile_width(level: float, n_mu: float, n_features: int, passes: int) -> float:
    """Width of the quadratic part of a quantile's loss, a function of public sizes.

    Parameters
    ----------
    level : float
    n_mu : float
        Number of records times mu.
    n_features : int
    passes : int
        Number of steps.
    """
    spread = 2.0 * math.sqrt(level * (1.0 - level))  # of the signs of residuals
    reached = WIDTHS.reach * n_features / (passes**2 * spread)
    falling = WIDTHS.most * math.sqrt(WIDTHS.ratio * n_features / n_mu)
    return min(max(reached, falling, WIDTHS.least), WIDTHS.most)


def smoothed(loss: Any, n_mu: float, n_features: int, passes: int) -> tuple[Any, float]:
    """A smooth loss, and the factor by which it is close to the given one.

    Losses that are smooth are returned as they are, unless their widths are small. Huber's with a
    small threshold is one of the median.
    """
    level = getattr(loss, "level", 0.5)
    width = quantile_width(level, n_mu, n_features, passes)
    if type(loss) in (Hinge, SmoothHinge):  # margins are between targets of -1 and 1
        return SmoothHinge(max(2.0 * width, getattr(loss, "width", 0.0))), 1.0
    if type(loss) in (Quantile, SmoothQuantile):
        return SmoothQuantile(level, max(width, getattr(loss, "width", 0.0))), 1.0
    if type(loss) is Absolute:
        return SmoothQuantile(0.5, width), 2.0
    if type(loss) is Huber and loss.delta < WIDTHS.most:
        return SmoothQuantile(0.5, max(width, loss.delta)), 2.0 * loss.delta
    return loss, 1.0
