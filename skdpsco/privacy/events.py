"""What a mechanism releases, described so that an accountant can charge for it.

An event is a frozen value. Its meaning never changes: a mechanism with another guarantee
gets another event. Parameters are stated for the relation "replace one record, n public",
so a factor of two in a sensitivity is already inside them. They lie in [1e-100, 1e100], where
no charge can overflow or vanish in floating point.
"""

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from ._checks import check_int, check_real
from .random_stopping import Poisson, Tries, TruncatedNegativeBinomial

__all__ = [
    "ComposedEvent",
    "Event",
    "ExponentialMechanismEvent",
    "GaussianEvent",
    "LaplaceNoisyMaxEvent",
    "NoOpEvent",
    "PureDPEvent",
    "RandomStoppingEvent",
    "RepeatedEvent",
    "SamplerErrorEvent",
    "ZCDPEvent",
    "compose",
    "event_of",
    "leaves",
    "without_errors",
]

_POSITIVE = 1e-100, 1e100  # the range of "positive": squares neither vanish nor overflow


class Event:
    """Base class of the events; by itself it says nothing about privacy."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            if field.type is float:
                self._store_positive(field.name)

    def _store(self, name: str, value: object) -> None:
        # The only write to a frozen event: a validated field, during construction.
        object.__setattr__(self, name, value)

    def _store_positive(self, name: str) -> None:
        value = check_real(name, getattr(self, name), *_POSITIVE, closed=True)
        self._store(name, value)


@dataclass(frozen=True)
class NoOpEvent(Event):
    """Nothing about the data is released; rho = 0."""


@dataclass(frozen=True)
class GaussianEvent(Event):
    """Gaussian noise added to a statistic of bounded l2 sensitivity.

    It is exactly (1 / noise_multiplier)-GDP [1]_ and rho = 1 / (2 noise_multiplier^2) zCDP [2]_.
    A mechanism that draws its noise on a grid uses this event, too, and enlarges its noise by what
    the grid costs.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the l2 sensitivity of the statistic.

    References
    ----------
    .. [1] Dong, Roth and Su (2019), "Gaussian Differential Privacy".
    .. [2] Bun and Steinke (2016), "Concentrated Differential Privacy: Simplifications,
       Extensions, and Lower Bounds", Proposition 1.6.
    """

    noise_multiplier: float


@dataclass(frozen=True)
class ExponentialMechanismEvent(Event):
    """One draw of an index i with probability proportional to exp(score_i).

    It is epsilon0-bounded-range, hence rho = epsilon0^2 / 8 zCDP [1]_, and mu-GDP for the mu with
    Phi(mu / 2) = 1 / (1 + exp(-epsilon0 / 2)) (docs/proofs/noise.md). Only the exponential
    mechanism (equivalently: noisy max with Gumbel noise) has this property. Noisy max with Laplace
    noise and permute-and-flip lack it, and must be charged as pure DP.

    Parameters
    ----------
    epsilon0 : float
        Largest range, max_i - min_i, of the change of score_i between neighbours; that is
        2 D if every score changes by at most D in either direction.

    References
    ----------
    .. [1] Rogers and Steinke (2021), "A Better Privacy Analysis of the Exponential Mechanism".
    """

    epsilon0: float


@dataclass(frozen=True)
class PureDPEvent(Event):
    """Any epsilon0-differentially private mechanism; rho = epsilon0^2 / 2 zCDP [1]_.

    Parameters
    ----------
    epsilon0 : float
        Largest absolute log-ratio of the output probabilities of two neighbours.

    References
    ----------
    .. [1] Bun and Steinke (2016), "Concentrated Differential Privacy: Simplifications,
       Extensions, and Lower Bounds", Proposition 1.4.
    """

    epsilon0: float


@dataclass(frozen=True)
class LaplaceNoisyMaxEvent(Event):
    """The index of the largest score after independent Laplace noise; epsilon0-DP.

    Charged as pure DP, rho = epsilon0^2 / 2. It is not epsilon0-bounded-range, so the smaller
    charge of the exponential mechanism would be wrong.

    Parameters
    ----------
    epsilon0 : float
        Largest range of the change of the scores between neighbours, divided by the scale of
        the noise; that is 2 D / scale if every score changes by at most D in either direction.
    """

    epsilon0: float


@dataclass(frozen=True)
class ZCDPEvent(Event):
    """Any mechanism proved to be rho-zCDP; the proof is given where the mechanism is.

    Parameters
    ----------
    rho : float
        Bound on D_alpha / alpha for the Renyi divergences of all orders alpha > 1.
    """

    rho: float


@dataclass(frozen=True)
class SamplerErrorEvent(Event):
    """What floating point does to the noise of other events, which say what exact noise costs.

    For neighbours S and S' there are laws P* and Q* that cost what the other events say, and the
    law P of what is released from S has ``P(A) <= exp(eta) P*(A) + beta`` and ``P*(A) <= exp(eta)
    P(A) + beta`` for every set A, as the law for S' has with Q*. No rho covers it: only (epsilon,
    delta) can. Proof: docs/proofs/generalised_gaussian.md, section 6.

    Parameters
    ----------
    eta : float
        Logarithm of the factor.
    beta : float
        What is added to probabilities.
    """

    eta: float
    beta: float


@dataclass(frozen=True)
class RandomStoppingEvent(Event):
    """The best of a random number of independent tries, each of them rho-zCDP.

    A try draws a candidate from a public law, with replacement, and releases a fit and the score by
    which tries are ranked; both together are rho-zCDP. The number of tries, and the tries that
    lost, stay secret [1]_. Proof: docs/proofs/random_stopping.md.

    Parameters
    ----------
    rho : float
        Cost of one try.
    tries : TruncatedNegativeBinomial or Poisson
        Law of the number of tries.

    References
    ----------
    .. [1] Papernot and Steinke (2022), "Hyperparameter Tuning with Renyi Differential Privacy".
    """

    rho: float
    tries: Tries

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.tries) not in (TruncatedNegativeBinomial, Poisson):
            raise TypeError(
                f"tries must be a TruncatedNegativeBinomial or a Poisson, got {self.tries!r}."
            )


@dataclass(frozen=True)
class ComposedEvent(Event):
    """All of `events`, each of which may depend on what the earlier ones released.

    Parameters
    ----------
    events : sequence of Event
    """

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        self._store("events", tuple(_check_event(event) for event in self.events))


@dataclass(frozen=True)
class RepeatedEvent(Event):
    """Adaptive composition of `count` mechanisms, each of which is described by `event`.

    Parameters
    ----------
    event : Event
    count : int
        Number of repetitions, at least 0.
    """

    event: Event
    count: int

    def __post_init__(self) -> None:
        _check_event(self.event)
        self._store("count", check_int("count", self.count, low=0, high=math.inf))


def _check_event(event: Any) -> Event:
    if not isinstance(event, Event):
        raise TypeError(f"event must be an instance of Event, got {event!r}.")
    return event


def leaves(*events: Event) -> Iterator[tuple[Any, int]]:
    """Yield each event that is not itself a composition, with its number of uses (not 0)."""
    stack = [(_check_event(event), 1) for event in reversed(events)]
    while stack:
        event, count = stack.pop()
        if type(event) is RepeatedEvent:  # a subclass may mean something else
            stack.append((event.event, count * event.count))
        elif type(event) is ComposedEvent:
            stack.extend((part, count) for part in reversed(event.events))
        elif count:
            yield event, count


def compose(*events: Event) -> Event:
    """Return the adaptive composition of `events` in its shortest form.

    Nested compositions are flattened, equal events are counted, and those that release
    nothing are left out. Charges do not depend on the order, so it is not kept.

    Parameters
    ----------
    *events : Event

    Returns
    -------
    Event
        `NoOpEvent` if nothing is left, a single event if one is left, otherwise `ComposedEvent`.
    """
    counts: dict[Event, int] = {}
    for event, count in leaves(*events):
        if type(event) is not NoOpEvent:
            counts[event] = counts.get(event, 0) + count
    parts = [RepeatedEvent(e, count) if count > 1 else e for e, count in counts.items()]
    if len(parts) > 1:
        return ComposedEvent(tuple(parts))
    return parts[0] if parts else NoOpEvent()


def event_of(text: str) -> Event:
    """The event that has this repr.

    Raises
    ------
    TypeError, ValueError, SyntaxError
        If it is the repr of something else.
    """
    known: list[Any] = [*Event.__subclasses__(), TruncatedNegativeBinomial, Poisson]
    for kind in known:  # which grows: of events there are kinds of kinds
        known += kind.__subclasses__()
    kinds = {kind.__name__: kind for kind in known if kind.__module__.startswith(f"{__package__}.")}

    def value(node: Any) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in kinds and not node.args:
                given = {str(word.arg): value(word.value) for word in node.keywords}
                return kinds[node.func.id](**given)
        elif isinstance(node, ast.Tuple):
            return tuple(map(value, node.elts))
        return ast.literal_eval(node)

    return _check_event(value(ast.parse(text, mode="eval").body))


def without_errors(event: Event) -> tuple[Event, float, float]:
    """The event with exact noise, and the sums of eta and beta of its `SamplerErrorEvent`."""
    found = list(leaves(event))
    errors = [(leaf, count) for leaf, count in found if type(leaf) is SamplerErrorEvent]
    if not errors:
        return event, 0.0, 0.0
    exact = [RepeatedEvent(e, count) for e, count in found if type(e) is not SamplerErrorEvent]
    eta, beta = (
        math.fsum(count * getattr(leaf, name) for leaf, count in errors) for name in ("eta", "beta")
    )
    return compose(*exact), eta, beta
