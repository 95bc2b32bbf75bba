"""Laws of the accountant, brute-force checks of the charges, and an independent oracle."""

import dataclasses
import json
import math
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from scipy import integrate, special
from scipy.integrate import trapezoid

from skdpsco.privacy import (
    Budget,
    BudgetExceededError,
    ComposedEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceNoisyMaxEvent,
    Ledger,
    NoOpEvent,
    PureDPEvent,
    RepeatedEvent,
    SamplerErrorEvent,
    ZCDPEvent,
    allows,
    compose,
    delta_of,
    epsilon_of,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gdp_of,
    is_gaussian,
    mu_of,
    pure_epsilon_of,
    rho_of,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from skdpsco.privacy.accounting import _mills, for_units, zcdp_beside
from skdpsco.privacy.report import PrivacyReport

pytestmark = pytest.mark.filterwarnings("error")

EVENTS = [
    GaussianEvent(3.0),
    ExponentialMechanismEvent(0.1),
    PureDPEvent(0.1),
    LaplaceNoisyMaxEvent(0.1),
    ZCDPEvent(0.01),
]
EPSILONS = [1e-3, 1e-2, 0.1, 1.0, 8.0, 1e2, 1e3]
DELTAS = [1e-12, 1e-9, 1e-6, 1e-3, 0.1]
EXTREME_DELTAS = [1e-300, 1e-100, *DELTAS]
each_event = each("event", EVENTS)
each_epsilon = each("epsilon", [1e-6, *EPSILONS, 1e6])


def logspace(low, high):
    return [float(f"1e{k}") for k in range(low, high + 1)]


# Budget and events as values


NO_NUMBERS = [(bad, TypeError) for bad in ("1", None, True, 1j)]


@each(
    ("bad", "error"),
    [
        *((bad, ValueError) for bad in (math.nan, np.float64("nan"), math.inf, -math.inf)),
        *((bad, ValueError) for bad in (0, -1, 0.0)),
        *((bad, TypeError) for bad in (np.True_, [1.0], np.array([1.0]))),
        *NO_NUMBERS,
    ],
)
def test_budget_refuses_what_is_no_number_in_its_range(bad, error):
    with pytest.raises(error, match=r"epsilon must be .* in \(0, inf\), got .*"):
        Budget(bad, 1e-6)
    if isinstance(bad, list | np.ndarray) or bad != 0:  # which is pure privacy
        with pytest.raises(error, match=r"delta must be .*in \[0, 1\), got .*"):
            Budget(1.0, bad)


@each("use", [zcdp_rho, zcdp_epsilon, gaussian_mu, gaussian_epsilon, Budget.from_rho])
def test_what_a_delta_of_0_cannot_be_used_for(use):
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\) here.*PrivateQuantileClipper"):
        use(1.0, 0)


def test_pure_epsilons_add_up_and_only_those():
    noisy_max, pure = LaplaceNoisyMaxEvent(0.3), PureDPEvent(0.2)
    event = compose(RepeatedEvent(ExponentialMechanismEvent(0.1), 4), noisy_max, pure)
    assert pure_epsilon_of(event) == pytest.approx(0.9, rel=1e-14)
    assert pure_epsilon_of(NoOpEvent()) == 0.0
    assert pure_epsilon_of(compose(event, for_units(pure, 2))) == pytest.approx(1.3, rel=1e-14)
    for other in (GaussianEvent(9.0), ZCDPEvent(1e-9), for_units(ZCDPEvent(1e-9), 2)):
        assert pure_epsilon_of(compose(event, other)) == math.inf


@each_event
def test_events_are_values(event):
    for value in (event, RepeatedEvent(event, 3), ComposedEvent([event, NoOpEvent()])):
        copy = pickle.loads(pickle.dumps(value))
        assert (copy, hash(copy)) == (value, hash(value))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, dataclasses.fields(event)[0].name, 2.0)


def test_budget_is_a_value():
    budget = Budget(np.float32(1), 1e-6)
    assert budget == Budget(1, 1e-6)
    assert hash(budget) == hash(Budget(1, 1e-6))
    assert type(budget.epsilon) is float
    assert pickle.loads(pickle.dumps(budget)) == budget
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 2.0


@each_event
@each(
    ("bad", "error"),
    [
        *((bad, ValueError) for bad in (0, -1.0, math.nan, math.inf, 1e-101, 1e101)),
        *NO_NUMBERS,
    ],
)
def test_events_refuse_what_is_no_number_in_their_range(event, bad, error):
    field = dataclasses.fields(event)[0].name
    said = r" must be .* in \[1e-100, 1e\+100\], got" if error is ValueError else ""
    with pytest.raises(error, match=field + said):
        type(event)(bad)


@pytest.mark.parametrize(("bad", "error"), [(-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_repeated_event_refuses_a_bad_count(bad, error):
    with pytest.raises(error, match="count must be an int"):
        RepeatedEvent(EVENTS[0], bad)


@each("call", [lambda e: ComposedEvent([e]), lambda e: RepeatedEvent(e, 2), compose, rho_of])
@each("other", [None, 0.5, "GaussianEvent", GaussianEvent])
def test_what_is_not_an_event_is_refused(call, other):
    with pytest.raises(TypeError, match="Event"):
        call(other)


# Composition


@each_event
@each("k", [1, 2, 7, 1000])
def test_k_copies_cost_k_times_one(event, k):
    for composed in (RepeatedEvent(event, k), ComposedEvent([event] * k), compose(*[event] * k)):
        assert rho_of(composed) == pytest.approx(k * rho_of(event), rel=1e-15)
    if is_gaussian(event):
        assert mu_of(RepeatedEvent(event, k)) == pytest.approx(math.sqrt(k) * mu_of(event))


def test_compose_flattens_counts_and_drops_what_is_not_released():
    a, b = EVENTS[:2]
    assert compose() == compose(NoOpEvent(), RepeatedEvent(a, 0)) == NoOpEvent()
    assert compose(a, NoOpEvent()) == a
    nested = compose(a, ComposedEvent([b, RepeatedEvent(a, 2)]), compose(a, b))
    assert nested == ComposedEvent([RepeatedEvent(a, 4), RepeatedEvent(b, 2)])


class _StrangerEvent(Event):
    pass


@dataclasses.dataclass(frozen=True)
class _CheaperGaussianEvent(GaussianEvent):
    """A subclass could mean anything."""


@each("stranger", [_StrangerEvent(), _CheaperGaussianEvent(1.0)])
@each(
    "function",
    [rho_of, mu_of, is_gaussian, lambda e: epsilon_of(e, 1e-6), lambda e: delta_of(e, 1.0)],
)
def test_unknown_events_are_refused(stranger, function):
    for event in (stranger, ComposedEvent([EVENTS[1], RepeatedEvent(stranger, 2)])):
        with pytest.raises(TypeError, match=type(stranger).__name__):
            function(event)


def test_mu_is_never_pooled_with_another_mechanism():
    gaussian = ComposedEvent([GaussianEvent(3.0), GaussianEvent(4.0), NoOpEvent()])
    assert is_gaussian(gaussian)
    assert mu_of(gaussian) == pytest.approx(math.sqrt(1 / 9 + 1 / 16))
    mixed = compose(gaussian, ExponentialMechanismEvent(0.1))
    assert not is_gaussian(mixed)
    with pytest.raises(ValueError, match="Gaussian noise only"):
        mu_of(mixed)
    # A draw has a mu of its own. What has none counts in zCDP, and all else with it.
    assert epsilon_of(mixed, 1e-6) == gaussian_epsilon(gdp_of(mixed), 1e-6)
    assert delta_of(mixed, 1.0) == gaussian_delta(gdp_of(mixed), 1.0)
    draws = RepeatedEvent(ExponentialMechanismEvent(0.1), 100)
    assert epsilon_of(draws, 1e-6) == zcdp_epsilon(rho_of(draws), 1e-6)
    for stranger in (PureDPEvent(0.1), LaplaceNoisyMaxEvent(0.1), ZCDPEvent(0.01)):
        mixed = compose(gaussian, stranger)
        assert gdp_of(mixed) == math.inf
        assert epsilon_of(mixed, 1e-6) == zcdp_epsilon(rho_of(mixed), 1e-6)
        assert delta_of(mixed, 1.0) == zcdp_delta(rho_of(mixed), 1.0)
    assert epsilon_of(gaussian, 1e-6) == gaussian_epsilon(mu_of(gaussian), 1e-6)
    assert delta_of(gaussian, 1.0) == gaussian_delta(mu_of(gaussian), 1.0)


# Conversions


def test_reference_values():
    budget = Budget(1.0, 1e-6)
    assert budget.rho == zcdp_rho(1.0, 1e-6) == pytest.approx(0.0243560, abs=5e-8)
    assert budget.mu == gaussian_mu(1.0, 1e-6) == pytest.approx(1 / 4.2247, rel=1e-5)
    assert math.sqrt(1 / (2 * budget.rho)) == pytest.approx(4.531, abs=5e-4)


def test_mills_ratio():
    x = np.linspace(-5, 60, 2001)
    exact = math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2))
    np.testing.assert_allclose([_mills(t) for t in x], exact, rtol=1e-14)


@each("mu", [1e-7, 1e-4, 9.9e-3, 1.01e-2, 0.3, 2.0, 30.0])
@each("x", [-12.0, -1.0, 0.0, 0.7, 3.0, 10.0, 37.0])
def test_gaussian_delta_is_the_exact_curve_rounded_up(mu, x):
    # E[1 - exp(epsilon - loss)]+ by quadrature: the loss exceeds epsilon by mu t, t > 0.
    epsilon = (x + mu / 2) * mu
    if epsilon < 0:
        x, epsilon = -mu / 2, 0.0
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    integral, _ = integrate.quad(
        lambda t: math.exp(-t * x - t * t / 2) * -math.expm1(-mu * t) / mu,
        0,
        40 - min(x, 0),
        epsabs=0,
        epsrel=1e-12,
        limit=500,
        points=[0.01, 0.1, 1, -min(x, 0)],
    )
    exact = density * mu * integral
    assert gaussian_delta(mu, epsilon) == pytest.approx(exact, rel=1e-8)
    assert gaussian_delta(mu, epsilon) >= exact * (1 - 1e-12)


@each("rho", logspace(-12, 6))
@each_epsilon
def test_zcdp_delta_is_the_infimum_over_all_orders(rho, epsilon):
    b = np.logspace(-14, 14, 20001)  # b = alpha - 1
    log_delta = b * ((1 + b) * rho - epsilon) + b * np.log(b) - (1 + b) * np.log1p(b)
    delta = zcdp_delta(rho, epsilon)
    best = np.min(log_delta)
    if best < -700:
        assert 0 < delta < 1e-300
    else:
        # The grid is never below the infimum, and close to it; the last term is its rounding.
        rounding = 1e-13 * abs(best) + 2e-11 * (1 + 2 * epsilon * math.sqrt(abs(best)))
        assert best - 1e-4 * (1 + abs(best)) <= math.log(delta) <= best + 1e-9 + rounding


@each_epsilon
@each("delta", EXTREME_DELTAS)
def test_calibration_errs_on_the_private_side_and_hardly(epsilon, delta):
    rho, mu = zcdp_rho(epsilon, delta), gaussian_mu(epsilon, delta)
    assert 0 < rho < math.inf
    assert zcdp_delta(rho, epsilon) <= delta
    assert gaussian_delta(mu, epsilon) <= delta
    assert zcdp_delta(rho * (1 + 3e-9), epsilon) > delta
    assert gaussian_delta(mu * (1 + 3e-9), epsilon) > delta
    # The slack is enough that a report does not exceed the budget that was asked for.
    assert zcdp_epsilon(rho, delta) <= epsilon
    assert gaussian_epsilon(mu, delta) <= epsilon


@each("rho", logspace(-12, 6))
@each("delta", EXTREME_DELTAS)
def test_reported_epsilon_errs_on_the_private_side_and_hardly(rho, delta):
    mu = math.sqrt(2 * rho)
    pairs = [
        (zcdp_epsilon(rho, delta), lambda e: zcdp_delta(rho, e)),
        (gaussian_epsilon(mu, delta), lambda e: gaussian_delta(mu, e)),
    ]
    for epsilon, delta_at in pairs:
        assert 0 <= epsilon < math.inf
        assert delta_at(epsilon) <= delta
        assert epsilon == 0 or delta_at(epsilon * (1 - 1e-6)) > delta


@each("rho", logspace(-12, 6))
@each_epsilon
def test_gaussian_curve_is_never_looser_than_zcdp(rho, epsilon):
    assert 0 < gaussian_delta(math.sqrt(2 * rho), epsilon) <= zcdp_delta(rho, epsilon) <= 1


@each("epsilon", [5e-324, 1e-300, 1e150, 1.7e308])
@each("delta", [5e-324, 1e-6, 1 - 2**-53])
def test_absurd_budgets_are_finite_and_private(epsilon, delta):
    budget = Budget(epsilon, delta)
    assert 0 <= budget.rho < math.inf
    assert 0 <= budget.mu < math.inf
    assert zcdp_delta(budget.rho, epsilon) <= delta
    assert gaussian_delta(budget.mu, epsilon) <= delta


@each(
    ("function", "first"),
    [
        (zcdp_delta, "rho"),
        (zcdp_epsilon, "rho"),
        (zcdp_rho, "epsilon"),
        (gaussian_delta, "mu"),
        (gaussian_epsilon, "mu"),
        (gaussian_mu, "epsilon"),
    ],
)
def test_conversions_check_their_arguments(function, first):
    with pytest.raises(ValueError, match=first):
        function(-1.0, 0.5)
    with pytest.raises(ValueError, match=first):
        function(math.nan, 0.5)
    with pytest.raises(TypeError, match=first):
        function("1", 0.5)
    with pytest.raises(ValueError, match=r"delta|epsilon"):
        function(1.0, -0.5)


# Charges, by brute force


def renyi(p, q, alpha):
    return np.log(np.sum(p**alpha * q ** (1 - alpha), axis=0)) / (alpha - 1)


@each("epsilon0", [0.1, 0.5, 1.0, 3.0])
@each("alpha", [1.01, 1.5, 2.0, 8.0, 50.0])
def test_bounded_range_charge_holds_for_every_extreme_pair(epsilon0, alpha):
    # Extreme points of bounded range: two outcomes, with log-ratios t and t - epsilon0.
    t = np.linspace(0, epsilon0, 2003)[1:-1]
    q = (np.exp(-t) - math.exp(-epsilon0)) / -math.expm1(-epsilon0)
    p = np.exp(t) * q
    worst = np.max(renyi(np.array([p, 1 - p]), np.array([q, 1 - q]), alpha))
    rho = rho_of(ExponentialMechanismEvent(epsilon0))
    assert rho == pytest.approx(epsilon0**2 / 8)
    assert worst <= alpha * rho
    if alpha * epsilon0 <= 1:  # and it is nearly attained, so nothing smaller would hold
        assert worst >= 0.97 * alpha * rho


def laplace_argmax(scores):
    """Probabilities that score_i + Laplace(1) is the largest, by the trapezoidal rule."""
    x = np.linspace(-40, 40, 80001)  # the kinks, at the scores, must be nodes
    shifted = x - np.asarray(scores)[:, None]
    tail = np.exp(-np.abs(shifted)) / 2
    cdf = np.where(shifted < 0, tail, 1 - tail)
    others = np.array([np.prod(np.delete(cdf, i, axis=0), axis=0) for i in range(len(scores))])
    return trapezoid(tail * others, x, axis=1)


@pytest.mark.parametrize("epsilon0", [0.1, 0.5])
@pytest.mark.parametrize("alpha", [1.01, 2.0])
def test_laplace_noisy_max_needs_more_than_the_exponential_mechanism(epsilon0, alpha):
    # Two candidates rise and two fall.
    q = laplace_argmax([0, 0, 0, 0])
    p = laplace_argmax(np.array([1, 1, -1, -1]) * epsilon0 / 2)
    assert p.sum() == pytest.approx(1, abs=1e-6)
    loss = max(renyi(p, q, alpha), renyi(q, p, alpha))
    assert loss > 1.25 * alpha * rho_of(ExponentialMechanismEvent(epsilon0))
    assert loss <= alpha * rho_of(LaplaceNoisyMaxEvent(epsilon0))
    assert rho_of(LaplaceNoisyMaxEvent(epsilon0)) == pytest.approx(epsilon0**2 / 2)


@pytest.mark.parametrize("epsilon0", [0.1, 1.0, 5.0])
def test_pure_dp_charge_holds_for_randomised_response(epsilon0):
    p = np.array([1, math.exp(-epsilon0)]) / (1 + math.exp(-epsilon0))
    worst = max(renyi(p, p[::-1], alpha) / alpha for alpha in (1.001, 2.0, 20.0))
    rho = rho_of(PureDPEvent(epsilon0))
    assert rho == pytest.approx(epsilon0**2 / 2)
    assert worst <= rho
    assert worst > rho / 4  # so the charge of a bounded range would be wrong


@pytest.mark.parametrize("alpha", [1.01, 2.0, 8.0])
def test_gaussian_charge_is_exact(alpha):
    x = np.linspace(-60, 60, 240001)
    p, q = (np.exp(-((x - shift) ** 2) / 8) / math.sqrt(8 * math.pi) for shift in (0.5, -0.5))
    log_ratio = x / 4
    divergence = np.log(trapezoid(q * np.exp(alpha * log_ratio), x)) / (alpha - 1)
    assert trapezoid(p, x) == pytest.approx(1)
    assert divergence == pytest.approx(alpha * rho_of(GaussianEvent(2.0)), rel=1e-6)


# An independent accountant as the oracle. It is asked about what it is known to count
# correctly, and about nothing else:
# - Noise multipliers are handed over in units of the sensitivity, with its default relation.
#   RdpAccountant with REPLACE_ONE ignores that the sensitivity doubles, so that relation is
#   never used.
# - Not RandomizedResponseDpEvent: PLDAccountant ignores how often it is repeated.
# - Not ExponentialMechanismDpEvent: absent from 0.6, and its repetitions are ignored later.
TRUSTED = {
    ("PLDAccountant", "GaussianDpEvent"),  # repetitions enter the standard deviation
    ("PLDAccountant", "LaplaceDpEvent"),  # repetitions by self-composition
    ("RdpAccountant", "GaussianDpEvent"),  # RDP adds
    ("RdpAccountant", "ZCDpEvent"),  # RDP adds
}


def oracle_epsilon(accountant, event, parameter, count, delta):
    if (accountant, event) not in TRUSTED:
        raise LookupError(f"{accountant} is not trusted with {event}.")
    reason = "dp-accounting is an optional oracle: a second implementation of the same laws"
    dp = pytest.importorskip("dp_accounting", reason=reason)
    # dp_accounting exposes its accountants in subpackages.
    package = pytest.importorskip(f"dp_accounting.{accountant[:3].lower()}", reason=reason)
    single = getattr(dp, event)(parameter)
    return getattr(package, accountant)().compose(single, count).get_epsilon(delta)


@pytest.mark.parametrize("count", [1, 10, 200])
@pytest.mark.parametrize("delta", [1e-8, 1e-3])
def test_gaussian_agrees_with_the_oracle(count, delta):
    epsilon = epsilon_of(RepeatedEvent(GaussianEvent(5.0), count), delta)
    pld = oracle_epsilon("PLDAccountant", "GaussianDpEvent", 5.0, count, delta)
    rdp = oracle_epsilon("RdpAccountant", "GaussianDpEvent", 5.0, count, delta)
    assert epsilon == pytest.approx(pld, rel=1e-4, abs=2e-4)
    assert epsilon < rdp
    assert zcdp_epsilon(count / 50, delta) == pytest.approx(rdp, rel=1e-2)


@each("count", [1, 10, 200])
@each("delta", [1e-8, 1e-3])
def test_zcdp_agrees_with_the_oracle(count, delta):
    rdp = oracle_epsilon("RdpAccountant", "ZCDpEvent", 0.01, count, delta)
    epsilon = epsilon_of(RepeatedEvent(ZCDPEvent(0.01), count), delta)
    # The oracle minimises over a grid of orders, so it is never below by more than rounding.
    assert epsilon == pytest.approx(rdp, rel=1e-2)
    assert epsilon <= rdp * (1 + 1e-9)


@pytest.mark.parametrize("count", [1, 10, 200])
def test_pure_dp_covers_the_laplace_mechanism(count):
    pld = oracle_epsilon("PLDAccountant", "LaplaceDpEvent", 10.0, count, 1e-6)
    epsilon = epsilon_of(RepeatedEvent(PureDPEvent(0.1), count), 1e-6)
    assert epsilon >= pld
    if count == 200:  # many small losses are nearly Gaussian, so the charge is not far off
        assert epsilon < 1.25 * pld


def test_a_report_as_json():
    report = PrivacyReport(1.0, 1e-6, 0.02, ZCDPEvent(0.02), False, ("one", "two"))
    found = json.loads(report.to_json())
    assert found.pop("deployment")["privacy_loss"]["privacy_parameters"]["rho"] == 0.02
    assert found == report.to_dict()
    assert found["event"] == repr(report.event)
    assert (
        PrivacyReport(
            **{**found, "event": report.event, "assumptions": ("one", "two"), "steps": ()}
        )
        == report
    )


# Errors of samplers


ERROR = SamplerErrorEvent(1e-3, 1e-9)


@each("exact", [GaussianEvent(3.0), ZCDPEvent(0.01), ExponentialMechanismEvent(0.5)])
def test_errors_of_samplers_are_charged(exact):
    """By what the worst laws spend that are so close to those of exact noise."""
    eta, beta = 2 * ERROR.eta, 2 * ERROR.beta
    event = ComposedEvent([exact, RepeatedEvent(ERROR, 2)])
    assert rho_of(event) == gdp_of(event) == math.inf
    assert not is_gaussian(event)
    for epsilon in (0.1, 1.0, 2.0):
        # P(A) grows to e^eta P(A) + beta, and Q(A) falls to (Q(A) - beta) e^-eta.
        spent = math.exp(eta) * delta_of(exact, epsilon - 2 * eta)
        spent += beta + math.exp(epsilon - eta) * beta
        assert spent <= delta_of(event, epsilon) <= spent * (1 + eta)
    for delta in (1e-7, 1e-3):
        epsilon = epsilon_of(event, delta)
        assert delta_of(event, epsilon) <= delta < delta_of(event, epsilon * (1 - 1e-9))
    assert epsilon_of(event, beta) == math.inf
    assert delta_of(event, eta) == delta_of(event, 1e3) == 1.0


def test_no_budget_in_zcdp_covers_errors_of_samplers():
    budget = Budget(1.0, 1e-6)
    rho = zcdp_beside(budget, ERROR)
    event = compose(ZCDPEvent(rho), ERROR)
    assert allows(budget, event)
    assert not allows(budget, compose(event, ZCDPEvent(1e-6 * rho)))
    assert 0.99 * budget.rho < rho < budget.rho
    ledger, in_zcdp = Ledger(1.0, 1e-6), SimpleNamespace(rho=1.0)
    for small in (Budget(1.0, 2e-9), Budget(9.0, 1e-6), Budget(1.0, 1e-6, 2), in_zcdp):
        with pytest.raises(ValueError, match="must leave something"):
            zcdp_beside(small, ERROR)
    with pytest.raises(BudgetExceededError):
        ledger.charge(compose(ZCDPEvent(1e-6), ERROR))
    report = PrivacyReport(1.0, 1e-6, rho_of(event), event, False)
    assert json.loads(report.to_json())["rho"] is None
