"""What users should know about a fit's accuracy before they run it, from public numbers alone."""

import math
from typing import NamedTuple

from skdpsco.privacy import Budget, GaussianEvent, ZCDPEvent, epsilon_of
from skdpsco.scaling.conditioning import CONDITIONING

__all__ = ["BOUNDS_OF_1", "LARGEST_EPSILON", "PublicNumbers", "advice_on", "counted", "rounded_up"]

# Even among more features than this, a model of few features may still be found.
MANY_FEATURES = 1000
LARGEST_DELTA = 0.1  # in units of 1 / number of records
SMALLEST_REACH = 0.01  # the largest prediction, in units of the bound on targets
LARGEST_EPSILON = 1e4  # no larger epsilon is advised
BOUNDS_OF_1 = (
    "This fit finds no bounds of features, so that feature_bound='auto' means 1, and X is clipped "
    "to [-1, 1]. Declare the bounds of columns that are larger; feature_bound=1 says that none is."
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
    conditioning : bool
        Whether features would be conditioned if there were enough records.
    max_records_per_unit : int
        How many records at once epsilon holds for.
    least_n_mu : float
        The least n mu from which on the scale of the target is found; 0 if it is declared, or if
        targets have no scale.
    """

    n_samples: int
    n_features: int
    mu: float
    epsilon: float
    delta: float
    reach: float | None = None
    conditioning: bool = False
    max_records_per_unit: int = 1
    least_n_mu: float = 0.0


def advice_on(public: PublicNumbers) -> tuple[str, ...]:
    """Sentences about parameters with which a fit cannot be accurate, or is hardly private.

    They rest on the defaults of six models on planted data (5 and 20 features, 500 records). Their
    median share of the accuracy above chance, or of the R^2, that is possible without noise is .00
    at n mu = 2.5 sqrt(d), .03 at 5 sqrt(d), .12 at 10 sqrt(d) and .55 at 20 sqrt(d).
    """
    n, d, mu, epsilon, delta, reach, conditioning, k, least_n_mu = public
    records, features = counted(n, "record"), counted(d, "feature")
    says = "says" if n == 1 else "say"
    lines = []
    needed = CONDITIONING.least_ratio * math.sqrt(min(max(d, 1), MANY_FEATURES))
    unknown = n * mu < least_n_mu
    needed = max(needed, least_n_mu if unknown else 0.0)
    if n * mu < needed:
        enough = epsilon_of(GaussianEvent(n / (needed * k)), delta)
        if unknown:  # its searches are planned in zCDP
            rho = Budget(epsilon, delta).rho * (needed / (n * mu)) ** 2
            enough = epsilon_of(ZCDPEvent(rho), delta)
        known = 0.0 < enough < LARGEST_EPSILON
        or_epsilon = f", or epsilon={rounded_up(enough):g}" if known else ""
        fault = (
            f"The scale of the target cannot be found from {records} at epsilon={epsilon:g}, and "
            "predictions may be far off. Declare target_bound, close to the largest target:"
            if unknown
            else f"The noise will be larger than what {records} {says} about {features} at "
            f"epsilon={epsilon:g}{', and they are not conditioned' if conditioning else ''}."
        )
        without = " without it" if unknown else ""
        lines.append(f"{fault} {math.ceil(needed / mu)} records would do{without}{or_epsilon}.")
    if delta > LARGEST_DELTA / n:
        lines.append(
            f"delta={delta:g} is large for {records}: a mechanism that reveals one of them with "
            f"probability delta is allowed. Choose at most 1 / (10 n), {LARGEST_DELTA / n:g}."
        )
    if reach is not None and reach < SMALLEST_REACH:
        lines.append(
            f"No prediction can be larger than {reach:.1g} times target_bound. Choose a radius "
            f"{rounded_up(1.0 / reach):g} times as large, or radius='auto' if the model has it."
        )
    return tuple(lines)


def counted(number: int, noun: str) -> str:
    """A number of things, such as "1 record" or "2 records"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def rounded_up(x: float) -> float:
    """Round up to a number of two digits."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 1)
    return float(f"{math.ceil(x / unit) * unit:.3g}")
