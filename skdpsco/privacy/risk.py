"""What a guarantee means for one record: what attackers can find out, in numbers and in words.

An attack is a test that says "used" with probability t if a record was used, and a if it was not.
If a release is (epsilon, delta)-DP, t <= exp(epsilon) a + delta; and, since neighbours may be
exchanged and the test turned around, 1 - a <= exp(epsilon) (1 - t) + delta. So each pair of epsilon
and delta that an event keeps bounds t, and the least of these bounds holds. A release that is
mu-GDP allows t = Phi(Phi^-1(a) + mu), and Gaussian noise reaches it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

from ._checks import check_delta, check_real
from .accounting import delta_of, gdp_of, is_gaussian, rho_of, zcdp_delta
from .events import Event
from .relations import ADD_OR_REMOVE, REPLACE_ONE, WITHIN_GROUPS, records_of_unit

__all__ = ["FALSE_ALARMS", "Risk", "percent"]

FALSE_ALARMS = (0.001, 0.01, 0.1)  # rates for which reports say what an attack finds
_NORMAL = NormalDist()
_UP = 1 + 1e-11
_LARGE = 1e6  # larger factors are not written out


@dataclass(frozen=True)
class Risk:
    """What an attacker can find out about one record, from a guarantee.

    The attacker knows all other records, and has to tell from the result whether one record was
    used, or its neighbour: another record in its place, or none. All numbers are upper bounds that
    hold for every attack [1]_. They are exact for Gaussian noise.

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float
        In [0, 1).
    event : Event or None, default=None
        What was released, of which more is known than epsilon and delta.
    relation : str, default="replace-one"
        Which data sets are neighbours.

    References
    ----------
    .. [1] Dong, Roth and Su (2019), "Gaussian Differential Privacy".

    Examples
    --------
    >>> from skdpsco.privacy import Risk
    >>> round(Risk(epsilon=1.0, delta=1e-6).true_positive_rate(0.01), 4)
    0.0272
    """

    epsilon: float
    delta: float
    event: Event | None = None
    relation: str = REPLACE_ONE

    def __post_init__(self) -> None:
        check_real("epsilon", self.epsilon, 0, math.inf, closed=True)
        check_delta(self.delta, pure=True)

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """The largest share of used records that an attack recognises.

        Parameters
        ----------
        false_positive_rate : float
            Share of the records that were not used for which the attack raises a false alarm, in
            (0, 1).

        Returns
        -------
        rate : float
            Not less than ``false_positive_rate``, with which guessing finds as many.
        """
        rate = check_real("false_positive_rate", false_positive_rate, 0, 1)
        return self._rates((rate,))[0]

    @property
    def accuracy(self) -> float:
        """How often the best attack is right if both neighbours are equally likely."""
        at_0 = math.tanh(self.epsilon / 2) + 2 * self.delta / (1 + math.exp(min(self.epsilon, 700)))
        found = at_0 if self.event is None else min(at_0, delta_of(self.event, 0.0, "rdp"))
        return min((1 + found) / 2 * _UP, 1.0)

    def curve(self) -> list[tuple[float, float]]:
        """False and true positive rates of the best attacks, from 0.0001 to 0.9999."""
        odds = [k / 10 for k in range(-92, 93)]  # in logarithms
        rates = [1 / (1 + math.exp(-t)) for t in odds]
        return list(zip(rates, self._rates(rates), strict=True))

    def lines(self) -> list[str]:
        """The same in sentences."""
        factor = math.exp(min(self.epsilon, 700.0))
        change = f"at most {_up(factor, 3):,.6g}" if factor < _LARGE else "more than a million"
        least, *others = zip(FALSE_ALARMS, self._rates(FALSE_ALARMS), strict=True)
        found = (f"at {percent(a)}, at most {percent(rate)}" for a, rate in others)
        fails = (
            "More is possible: at worst, everything is revealed with probability "
            f"{_one_in(self.delta)}."
        )
        return [
            f"The result changes the odds {_alternatives(self.relation)} by a factor of {change}.",
            fails if self.delta > 0 else "This holds for every result: delta = 0.",
            "Starting at 50:50, someone who knows all other records guesses right at most "
            f"{percent(self.accuracy, 3)} of the time, averaged over results.",
            f"At a false-positive rate of {percent(least[0])}, the true-positive rate of an attack "
            f"is at most {percent(least[1])}; {'; '.join(found)}.",
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _rates(self, false_positives: Iterable[float]) -> list[float]:
        pairs, mu = [(self.epsilon, self.delta)], math.inf
        if self.event is not None:
            mu = gdp_of(self.event) * _UP
            pairs += [] if is_gaussian(self.event) else self._pairs(self.event)
        return [
            min(
                1.0,
                math.inf if mu == math.inf else _phi(_NORMAL.inv_cdf(rate) + mu) * _UP,
                *(_of_pair(epsilon, delta, rate) * _UP for epsilon, delta in pairs),
            )
            for rate in false_positives
        ]

    def _pairs(self, event: Event) -> list[tuple[float, float]]:
        """Epsilons and deltas that an event keeps. Every pair is valid, so any choice is safe."""
        unit = max(self.epsilon, 1e-6) / 32
        fine = [unit * k for k in range(65)] + [unit * 0.8**k for k in range(1, 33)]
        rho = rho_of(event)
        pairs = [(one, zcdp_delta(rho, one)) for one in fine] if rho < math.inf else []
        # Renyi curves take milliseconds for each.
        return pairs + [(one, delta_of(event, one, "rdp")) for one in fine[:40:3]]


def _of_pair(epsilon: float, delta: float, rate: float) -> float:
    """The best true positive rate that (epsilon, delta) allows."""
    if epsilon > 700.0:
        return 1.0
    factor = math.exp(epsilon)
    return min(factor * rate + delta, 1 - (1 - delta - rate) / factor, 1.0)


def _phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _alternatives(relation: str) -> str:
    """What is protected, and what may be in its place."""
    k = records_of_unit(relation) or 1
    thing = "one record" if k == 1 else f"one unit of at most {k} records"
    if relation == ADD_OR_REMOVE:
        return f"that {thing} was used"
    another = "another of its groups" if relation == WITHIN_GROUPS else "any other"
    return f"between {thing} and {another} in its place"


def _up(x: float, digits: int) -> float:
    """Round up to so many digits."""
    if x <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(x)) - digits + 1)
    return math.ceil(x / unit * (1 - 1e-9)) * unit


def percent(share: float, digits: int = 2) -> str:
    """A share in words, rounded up."""
    return f"{min(_up(100 * share, digits), 100.0):.4g} %"


def _one_in(delta: float) -> str:
    if delta < 1e-12:
        return f"{delta:g}"
    unit = 10.0 ** (math.floor(-math.log10(delta)) - 2)  # three digits, rounded down
    return f"1 in {math.floor(max(math.floor(1 / delta / unit * (1 + 1e-9)) * unit, 1.0)):,}"
