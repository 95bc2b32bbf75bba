"""What attackers can find out: closed forms, brute force, the way back to epsilon, and a plot."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsco import Ledger, PrivateRidge
from skdpsco.inspection import RiskDisplay, epsilon_for_risk, plan, privacy_report
from skdpsco.inspection._trade_off import ApproximateGuarantee, GaussianGuarantee
from skdpsco.privacy import (
    Budget,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceNoisyMaxEvent,
    NoOpEvent,
    PoissonSampledGaussianEvent,
    PureDPEvent,
    RandomStoppingEvent,
    RepeatedEvent,
    Risk,
    SamplerErrorEvent,
    TruncatedNegativeBinomial,
    ZCDPEvent,
    compose,
    epsilon_of,
)

DELTA = 1e-6
NOISE = ("any", "gaussian", "zcdp")
RATES = (1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.999)


def risk_of(event, delta=DELTA):
    return Risk(epsilon_of(event, delta), delta, event)


def best_of(p, q, rate):
    """The largest probability by p of a test that has probability ``rate`` by q."""
    possible = (p > 0.0) & (q > 0.0)  # probabilities that underflow decide nothing
    p, q = p[possible], q[possible]
    order = np.argsort(-p / q)
    return np.interp(rate, np.append(0.0, np.cumsum(q[order])), np.append(0.0, np.cumsum(p[order])))


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 4.0, 50.0])
def test_gaussian_noise_has_its_exact_curve(multiplier):
    risk = risk_of(
        compose(GaussianEvent(2 * multiplier), RepeatedEvent(GaussianEvent(2 * multiplier), 3))
    )
    for rate in RATES:
        exact = ndtr(ndtri(rate) + 1 / multiplier)
        assert exact <= risk.true_positive_rate(rate) <= exact * (1 + 1e-8)
        assert exact == pytest.approx(1 - GaussianGuarantee(1 / multiplier).least(1 - rate))
    exact = ndtr(0.5 / multiplier)
    assert exact <= risk.accuracy <= exact * (1 + 1e-8)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0, 800.0])
def test_epsilon_and_delta_have_a_curve_of_two_lines(epsilon):
    risk, guarantee = Risk(epsilon, 1e-3), ApproximateGuarantee(epsilon, 1e-3)
    for rate in RATES:
        assert risk.true_positive_rate(rate) == pytest.approx(1 - guarantee.least(1 - rate))
    # The total variation of the worst mechanism, which tells outright with probability delta.
    odds = math.exp(-epsilon)
    between = 1e-3 + (1 - 1e-3) * (1 - odds) / (1 + odds)
    assert risk.accuracy == pytest.approx((1 + between) / 2)


def coin(epsilon0):
    """Randomised response."""
    p = np.array([1.0, math.exp(-epsilon0)]) / (1 + math.exp(-epsilon0))
    return p, p[::-1]


def draws(epsilon0):
    """The exponential mechanism among three candidates, whose scores change by 0 to 1."""
    scores = np.array([0.3, 0.0, 0.2])
    p, q = (np.exp(epsilon0 * s) for s in (scores, scores + np.array([0.0, 0.4, 1.0])))
    return p / p.sum(), q / q.sum()


def geometric(epsilon0):
    """Two-sided geometric noise on a count."""
    k = np.arange(-400, 401)
    p, q = (np.exp(-epsilon0 * np.abs(k - shift)) for shift in (0, 1))
    return p / p.sum(), q / q.sum()


def discrete_gaussian(rho):
    k = np.arange(-400, 401)
    p, q = (np.exp(-((k - shift) ** 2) * rho) for shift in (0, 1))
    return p / p.sum(), q / q.sum()


def several(pair, count):
    """The same mechanism several times."""
    p, q = pair
    for _ in range(count - 1):
        p, q = np.outer(p, pair[0]).ravel(), np.outer(q, pair[1]).ravel()
    return p, q


@pytest.mark.parametrize("epsilon0", [0.1, 0.7, 2.0])
@pytest.mark.parametrize(
    ("pair", "event", "count"),
    [
        (coin, PureDPEvent, 1),
        (coin, PureDPEvent, 8),
        (coin, LaplaceNoisyMaxEvent, 3),
        (draws, ExponentialMechanismEvent, 1),
        (draws, ExponentialMechanismEvent, 6),
        (geometric, PureDPEvent, 1),
        (discrete_gaussian, ZCDPEvent, 1),
    ],
)
def test_no_attack_finds_more_than_is_told(pair, event, count, epsilon0):
    p, q = several(pair(epsilon0), count)
    risk = risk_of(RepeatedEvent(event(epsilon0), count))
    for rate in RATES:
        assert max(best_of(p, q, rate), best_of(q, p, rate)) <= risk.true_positive_rate(rate)
    assert 0.5 + np.abs(p - q).sum() / 4 <= risk.accuracy


def test_zcdp_is_bounded_closely_and_never_by_less_than_gaussian_noise():
    for rho in (1e-4, 0.03, 0.5, 4.0):
        risk, mu = risk_of(ZCDPEvent(rho)), math.sqrt(2 * rho)
        for rate in (0.001, 0.01, 0.1):
            gaussian = ndtr(ndtri(rate) + mu)
            # The best attack on any mechanism of this rho, by its moments of orders 1 + b.
            b = np.geomspace(1e-4, 1e4, 4000)
            moment = float(np.exp(np.min(b * rho + b / (1 + b) * math.log(rate))))
            found = risk.true_positive_rate(rate)
            assert gaussian <= found <= 1.03 * max(min(moment, 1.0), gaussian)


EVENTS = [
    None,
    NoOpEvent(),
    PureDPEvent(0.3),
    GaussianEvent(3.0),
    ExponentialMechanismEvent(0.2),
    compose(GaussianEvent(5.0), ExponentialMechanismEvent(0.2)),
    compose(ZCDPEvent(0.01), SamplerErrorEvent(1e-12, 1e-14)),
    RandomStoppingEvent(0.003, TruncatedNegativeBinomial(1.0, 0.1)),
    RepeatedEvent(PoissonSampledGaussianEvent(1.0, 0.01), 100),
]


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_curves_are_above_guesses_and_grow(event):
    epsilon = 2.0 if event in (None, NoOpEvent()) else epsilon_of(event, DELTA)
    rates, found = np.transpose(Risk(epsilon, DELTA, event).curve())
    assert np.all(found >= rates * (1 - 1e-12))
    assert np.all(np.diff(found) >= 0.0)
    assert np.all(np.diff(np.diff(found) / np.diff(rates)) <= 1e-9)  # concave
    assert found[0] < 0.1
    assert found[-1] <= 1.0
    assert 0.5 <= Risk(epsilon, DELTA, event).accuracy < 1.0
    if event == NoOpEvent():
        np.testing.assert_allclose(found, rates)


@pytest.mark.parametrize(
    ("relation", "said"),
    [
        ("replace-one", "odds between one record and any other in its place by"),
        ("add-or-remove-one", "odds that one record was used by"),
        (
            "replace-one within groups",
            "odds between one record and another of its groups in its place by",
        ),
        (
            "replace one unit of at most 4 records",
            "odds between one unit of at most 4 records and any other in its place by",
        ),
    ],
)
def test_words_name_what_is_protected(relation, said):
    assert said in Risk(1.0, 1e-5, relation=relation).lines()[0]


@pytest.mark.parametrize("rate", [0, 1, -0.1, math.nan, "0.1", True])
def test_rates_are_checked(rate):
    with pytest.raises((ValueError, TypeError), match="false_positive_rate must be a finite real"):
        Risk(1.0, DELTA).true_positive_rate(rate)


@pytest.mark.parametrize(
    ("epsilon", "delta", "match"), [(-1.0, 0.1, "epsilon must be"), (1.0, 1.5, "delta must be")]
)
def test_guarantees_are_checked(epsilon, delta, match):
    with pytest.raises(ValueError, match=match):
        Risk(epsilon, delta)


# The way back.


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("wanted", [0.12, 0.5, 0.9])
def test_epsilon_for_risk_is_an_inverse(rate, wanted):
    found = {noise: epsilon_for_risk(wanted, rate, noise=noise) for noise in NOISE}
    risks = {
        "any": Risk(found["any"], DELTA),
        "gaussian": Risk(
            found["gaussian"], DELTA, GaussianEvent(1 / Budget(found["gaussian"], DELTA).mu)
        ),
        "zcdp": Risk(found["zcdp"], DELTA, ZCDPEvent(Budget(found["zcdp"], DELTA).rho)),
    }
    for risk in risks.values():
        assert wanted * (1 - 1e-5) < risk.true_positive_rate(rate) <= wanted
    assert found["any"] < found["zcdp"] < found["gaussian"]
    mu = ndtri(wanted) - ndtri(rate)
    assert found["gaussian"] == pytest.approx(epsilon_of(GaussianEvent(1 / mu), DELTA), rel=1e-6)
    linear = math.log((wanted - DELTA) / rate)
    level = math.log((1 - DELTA - rate) / (1 - wanted))
    assert found["any"] == pytest.approx(max(linear, level), rel=1e-9)


def test_a_fit_with_this_epsilon_keeps_the_risk():
    epsilon = epsilon_for_risk(0.1, noise="gaussian")
    planned = plan(PrivateRidge(epsilon=epsilon), 5000, 5)
    assert planned.mu is not None
    assert 0.0999 < planned.risk.true_positive_rate(0.01) <= 0.1
    model = PrivateRidge(epsilon=epsilon_for_risk(0.1, noise="zcdp"), ledger=Ledger(9.0, 1e-5))
    counted = plan(model, 5000, 5)
    assert counted.risk.true_positive_rate(0.01) <= 0.1


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"true_positive_rate": 1.0}, ValueError, "true_positive_rate must be"),
        ({"true_positive_rate": "a"}, TypeError, "true_positive_rate must be"),
        ({"true_positive_rate": 0.01}, ValueError, "larger than false_positive_rate, which"),
        ({"false_positive_rate": 0.0}, ValueError, "false_positive_rate must be"),
        ({"delta": 0.0, "noise": "zcdp"}, ValueError, "delta must be"),
        ({"delta": 1.0}, ValueError, "delta must be"),
        ({"noise": "laplace"}, ValueError, "noise must be one of"),
    ],
)
def test_parameters_of_epsilon_for_risk(given, error, match):
    with pytest.raises(error, match=match):
        epsilon_for_risk(**{"true_positive_rate": 0.1, **given})


# The plot.


def test_a_plot_of_anything_with_a_risk():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (200, 2))
    model = PrivateRidge(epsilon=2.0, target_bound=2.0).fit(X, X[:, 0])
    first = RiskDisplay.from_report(model, color="k")
    risk = model.privacy_.risk
    np.testing.assert_allclose(first.line_.get_xydata(), risk.curve())
    np.testing.assert_allclose(first.guess_.get_xdata(), first.guess_.get_ydata())
    found = [risk.true_positive_rate(rate) for rate in (0.001, 0.01, 0.1)]
    np.testing.assert_allclose(first.marks_.get_ydata(), found)
    assert first.line_.get_color() == first.marks_.get_color() == "k"
    others = [model.privacy_, privacy_report(model), plan(model, 200, 2), risk]
    for other in others:
        again = RiskDisplay.from_report(other, ax=first.ax_, name="_$x$")
        np.testing.assert_allclose(again.line_.get_ydata(), first.line_.get_ydata())
    texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert texts == ["epsilon=2, delta=1e-06", "guesses", *[r" _\$x\$"] * 4]
    matplotlib.pyplot.close("all")


def test_plots_need_a_risk():
    for wrong in (PrivateRidge(), None, "model"):
        with pytest.raises(TypeError, match="report must be a PrivacyReport"):
            RiskDisplay.from_report(wrong)
    with pytest.raises(ValueError, match="a step is not private, or none learns"):
        RiskDisplay.from_report(privacy_report(make_pipeline(StandardScaler(), PrivateRidge())))
