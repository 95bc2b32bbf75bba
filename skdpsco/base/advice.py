"""What users should know about a fit's accuracy: from public numbers, and from its releases."""

import math
from typing import Any, NamedTuple

import numpy as np

from skdpsco.privacy import Budget, GaussianEvent, ZCDPEvent, epsilon_of
from skdpsco.scaling.conditioning import CONDITIONING

__all__ = [
    "BOUNDS_OF_1",
    "LARGEST_EPSILON",
    "PublicNumbers",
    "advice_on",
    "counted",
    "doubts_about",
    "doubts_about_events",
    "rounded_up",
    "with_bounds_of_1",
]

# Even among more features than this, a model of few features may still be found.
MANY_FEATURES = 1000
LARGEST_DELTA = 0.1  # in units of 1 / number of records
SMALLEST_REACH = 0.01  # the largest prediction, in units of the bound on targets
WIDE = 0.01  # what is found, in units of the declared bound, below which the bound is too wide
AT_BOUND = 0.9999  # the least of the targets that are found, in these units, if most are clipped
UNSURE = 2.0  # a number of events, in deviations of its noise, below which it says nothing
LARGEST_EPSILON = 1e4  # no larger epsilon is advised
BOUNDS_OF_1 = (
    "This fit finds no bounds of features, so that feature_bound='auto' means 1, and X is clipped "
    "to [-1, 1]. Declare the bounds of larger columns, or feature_bound=1 if there are none."
)


class PublicNumbers(NamedTuple):
    """The public numbers of a fit.

    Parameters
    ----------
    n_samples, n_features : int
    mu : float
        The budget, as that of Gaussian noise.
    epsilon, delta : float
    reach : float or None
        The largest prediction that is possible, in units of the bound on targets; None if nothing
        is known about it.
    max_records_per_unit : int
        How many records at once epsilon holds for.
    least_n_mu : float
        The least n mu above which the scale of the target is found; 0 if it is declared, or if
        targets have no scale.
    bounds_n_mu : float
        The least n mu above which bounds of the features are found; 0 if they are declared.
    bounds_in : str
        Where users declare them.
    """

    n_samples: int
    n_features: int
    mu: float
    epsilon: float
    delta: float
    reach: float | None = None
    max_records_per_unit: int = 1
    least_n_mu: float = 0.0
    bounds_n_mu: float = 0.0
    bounds_in: str = "feature_bound"


def with_bounds_of_1(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lines, and that features are clipped to [-1, 1] if none of them says so."""
    return lines if any("clipped to [-1, 1]" in line for line in lines) else (*lines, BOUNDS_OF_1)


def advice_on(public: PublicNumbers) -> tuple[str, ...]:
    """Sentences about parameters with which a fit cannot be accurate, or is hardly private.

    They rest on the defaults of six models on planted data (5 and 20 features, 500 records). Their
    median share of the accuracy above chance, or of the R^2, that is possible without noise is .00
    at n mu = 2.5 sqrt(d), .03 at 5 sqrt(d), .12 at 10 sqrt(d) and .55 at 20 sqrt(d).
    """
    n, d, mu, epsilon, delta, reach, _, least_n_mu, bounds_n_mu, bounds_in = public
    records, features = counted(n, "record"), counted(d, "feature")
    says, are = ("says", "is") if n == 1 else ("say", "are")
    lines = []
    needed = needed_n_mu(d)
    if n * mu < least_n_mu:
        lines.append(
            f"The scale of the target cannot be found from {records} at epsilon={epsilon:g}, and "
            "predictions may be far off. Declare target_bound, close to the largest target. "
            f"Without it {_enough(public, max(needed, least_n_mu))}"
        )
    elif n * mu < needed:
        lines.append(
            f"The noise will be larger than what {records} {says} about {features} at "
            f"epsilon={epsilon:g}. {_enough(public, needed)}"
        )
    if n * mu < bounds_n_mu:
        if lines:
            lines[0] += f" Features are clipped to [-1, 1] unless you declare {bounds_in}."
        else:
            lines.append(
                f"This fit finds no bounds of features: {records} {are} too few at "
                f"epsilon={epsilon:g}, and features are clipped to [-1, 1]. Declare {bounds_in}. "
                f"Otherwise {_enough(public, bounds_n_mu)}"
            )
    if delta > LARGEST_DELTA / n:
        lines.append(
            f"delta={delta:g} is large for {records}: it allows a fit to reveal one of them with "
            f"this probability. Choose at most 1 / (10 n), {LARGEST_DELTA / n:g}."
        )
    if reach is not None and reach < SMALLEST_REACH:
        lines.append(
            f"No prediction can be larger than {reach:.1g} times target_bound. Choose a radius "
            f"{rounded_up(1.0 / reach):g} times as large, or radius='auto' if the model has it."
        )
    return tuple(lines)


def needed_n_mu(n_features: int) -> float:
    """The n mu below which noise is larger than what n records say about so many features."""
    return CONDITIONING.least_ratio * math.sqrt(min(max(n_features, 1), MANY_FEATURES))


def _enough(public: PublicNumbers, needed: float) -> str:
    """How many records, or which epsilon, would have the ``needed`` n mu."""
    n, _, mu, epsilon, delta, _, k, *_ = public
    enough = epsilon * needed / (n * mu)  # with delta=0, for the same number of draws
    if delta > 0.0:
        # Some searches are planned in zCDP even where all noise is Gaussian: enough for both.
        rho = Budget(epsilon, delta).rho * (needed / (n * mu)) ** 2
        enough = epsilon_of(ZCDPEvent(rho), delta)
    if delta > 0.0 and k == 1:  # units of several records are counted in zCDP
        enough = max(enough, epsilon_of(GaussianEvent(n / needed), delta))
    known = 0.0 < enough < LARGEST_EPSILON
    or_epsilon = f", or epsilon={rounded_up(enough):g}" if known else ""
    return f"{math.ceil(needed / mu)} records would do{or_epsilon}."


def doubts_about(units: Any, feature_bound: Any, target_bound: float | None) -> tuple[str, ...]:
    """Sentences about declared bounds that do not agree with what a fit has released.

    The scale of a column cannot be told from noise if it is small compared with those of others, so
    that only a bound that is too wide for most columns is found. Whether features exceed their
    bounds is not told by what is released: columns of two values look the same.

    Parameters
    ----------
    units : Units
        They follow from releases, and from what is public.
    feature_bound : object
        Bounds of the features as they are declared; None or "auto" if they are not.
    target_bound : float or None
        The bound of the targets, if it is declared.
    """
    lines, read, target = [], units.conditioning, units.target
    declared = not (feature_bound is None or isinstance(feature_bound, str))
    known = read is not None and read.mean_square is not None and read.shapes is None
    if declared and known:  # nobody declares bounds of functions of columns
        reach = np.abs(read.centre) + 3.0 * read.scale * np.sqrt(read.mean_square)
        if wide := int((reach < WIDE).sum()):
            lines.append(
                "feature_bound seems to be more than 100 times too wide for "
                f"{counted(wide, 'column')}, judging by the centre and scales that this fit has "
                "released. It may cost accuracy: declare a closer bound, or let "
                "feature_bound='auto' find one."
            )
    if target_bound is not None:
        centre = abs(target.centre)
        if centre + target.scale < WIDE * target_bound:
            lines.append(
                f"target_bound={target_bound:g} seems to be more than 100 times too wide, "
                "judging by the centre and scale of the targets that this fit has released."
            )
        elif centre - target.scale > AT_BOUND * target_bound:
            lines.append(
                f"target_bound={target_bound:g} seems to be too small: judging by what this fit "
                "has released, nearly all targets are at or beyond it, and were clipped to it."
            )
    return tuple(lines)


def doubts_about_events(events: float, noise: float, n_features: int, mu: float) -> tuple[str, ...]:
    """A sentence about a survival model, if the number of events that was released is small.

    People without an event say little, so events take the place of records.

    Parameters
    ----------
    events : float
        Their released number.
    noise : float
        Standard deviation of its noise.
    n_features : int
    mu : float
        The budget, as that of Gaussian noise.
    """
    if events < UNSURE * noise:
        return (
            "The number of events cannot be told from its noise, judging by the counts that this "
            "fit has released. Use a larger epsilon, a later horizon or fewer times.",
        )
    if events * mu < needed_n_mu(n_features):
        return (
            f"The noise is larger than what about {counted(round(events), 'event')} can say about "
            f"{counted(n_features, 'feature')}, judging by the counts that this fit has released. "
            "Use a larger epsilon, a later horizon or fewer features.",
        )
    return ()


def counted(number: int, noun: str) -> str:
    """A number of things, such as "1 record" or "2 records"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def rounded_up(x: float) -> float:
    """Round up to a number of two digits."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 1)
    return float(f"{math.ceil(x / unit) * unit:.3g}")
