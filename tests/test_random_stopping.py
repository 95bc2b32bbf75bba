"""Random stopping: laws of the number of tries, published and exact bounds, calibration."""

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from scipy import stats

from skdpsco.privacy import (
    Budget,
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    NoOpEvent,
    Poisson,
    RandomStoppingEvent,
    RepeatedEvent,
    TruncatedNegativeBinomial,
    ZCDPEvent,
    calibrate,
    compose,
    delta_of,
    epsilon_of,
    is_gaussian,
    mu_of,
    rho_of,
    zcdp_delta,
    zcdp_epsilon,
)
from skdpsco.privacy.random_stopping import log_moment_of_best

for_mean = TruncatedNegativeBinomial.for_mean
BINOMIALS = [for_mean(s, k) for s in (0.0, 0.5, 1.0, 3.0, 10.0) for k in (1.5, 20.0)]
TRIES = [
    for_mean(-0.5, 6.0),
    *BINOMIALS,
    for_mean(10.0, 300.0),
    *map(Poisson, (0.1, 1.0, 4.0, 20.0)),
]
each_tries = pytest.mark.parametrize("tries", TRIES, ids=repr)
SOME = [for_mean(0.0, 20.0), for_mean(3.0, 5.0), Poisson(0.3), Poisson(20.0)]
some_tries = pytest.mark.parametrize("tries", SOME, ids=repr)
ORDERS = np.exp(np.linspace(-5, 5, 21))  # less one


# Laws of the number of tries


def n_terms(tries):
    return 200 if isinstance(tries, Poisson) else math.ceil(60 / tries.gamma)


PMFS = {t: np.array([t.pmf(j) for j in range(n_terms(t))]) for t in TRIES}


def by_scipy(tries, j):
    if isinstance(tries, Poisson):
        return stats.poisson.pmf(j, tries.mean)
    shape, gamma = tries.shape, tries.gamma
    if shape == 0:
        return stats.logser.pmf(j, 1 - gamma)
    if shape > 0:
        return stats.nbinom.pmf(j, shape, gamma) / -math.expm1(shape * math.log(gamma))
    weights = np.cumprod(np.append(1.0, (1 - gamma) * (j[1:-1] + shape) / j[2:]))
    return np.append(0.0, weights / weights.sum())  # scipy has none; j ends in the far tail


@each_tries
def test_pmf_and_mean(tries):
    pmf = PMFS[tries]
    j = np.arange(len(pmf))
    expected = by_scipy(tries, j)
    if not isinstance(tries, Poisson):
        expected[0] = 0.0
    np.testing.assert_allclose(pmf, expected, rtol=1e-10, atol=1e-300)
    assert math.fsum(pmf) == pytest.approx(1, rel=1e-12)
    assert math.fsum(j * pmf) == pytest.approx(tries.mean, rel=1e-10)


@each("shape", [-0.999, -0.5, -1e-9, 0.0, 5e-324, 1e-12, 0.3, 1.0, 7.0, 999.0])
@each("mean", [1 + 1e-12, 1.001, 2.0, 20.0, 1e4])
def test_for_mean_finds_the_law(shape, mean):
    largest = TruncatedNegativeBinomial(shape, 1e-9).mean
    if mean > largest:
        with pytest.raises(ValueError, match=r"mean must be in \(1, "):
            for_mean(shape, mean)
    else:
        tries = for_mean(shape, mean)
        assert tries.mean == pytest.approx(mean, rel=1e-11)
        assert 1e-9 <= tries.gamma < 1


def test_closed_forms():
    assert for_mean(1.0, 20.0).gamma == pytest.approx(1 / 20, rel=1e-12)
    gamma = for_mean(0.0, 20.0).gamma
    assert (1 / gamma - 1) / math.log(1 / gamma) == pytest.approx(20, rel=1e-12)
    continuous = [TruncatedNegativeBinomial(shape, 0.3).mean for shape in (-1e-7, 0.0, 1e-7)]
    assert np.ptp(continuous) < 1e-6


@each_tries
def test_quantile_inverts_the_cdf(tries):
    cdf = np.cumsum([tries.pmf(j) for j in range(3000)])
    for u in np.random.default_rng(0).random(100):
        j = tries.quantile(float(u))
        assert cdf[j] > u - 1e-12
        assert j == 0 or cdf[j - 1] <= u + 1e-12
    first = 0 if isinstance(tries, Poisson) else 1
    assert tries.quantile(0.0) == tries.quantile(0) == first
    tail = [tries.quantile(1 - Fraction(1, 2**k)) for k in (1, 10, 53, 128, 300)]
    assert tail == sorted(tail)
    assert tail[1] < tail[2] < tail[3]


@each("j", [1, 2, 50, 250])
def test_quantile_is_exact_to_150_bits(j):
    tries = TruncatedNegativeBinomial(1.0, 0.25)  # P(J > j) = (3 / 4)^j
    cdf = 1 - Fraction(3, 4) ** j
    assert tries.quantile(cdf + Fraction(1, 2**150)) == j + 1
    assert tries.quantile(cdf - Fraction(1, 2**150)) == j


@each("bad", [1.0, 1, -0.1, 1.5, math.nan, math.inf, Fraction(1)])
@some_tries
def test_quantile_refuses_what_is_no_uniform(tries, bad):
    with pytest.raises(ValueError, match="u must be"):
        tries.quantile(bad)
    with pytest.raises(TypeError, match="u must be"):
        tries.quantile("0.5")


@each(
    ("name", "make", "ends"),
    [
        ("shape", lambda bad: TruncatedNegativeBinomial(bad, 0.5), ()),
        ("gamma", lambda bad: TruncatedNegativeBinomial(0.0, bad), (0.0, 1.0, 1e-10)),
        ("shape", lambda bad: for_mean(bad, 2.0), ()),
        ("mean", lambda bad: for_mean(0.0, bad), (1.0,)),
        ("mean", Poisson, (0.0, 1e7)),
    ],
)
def test_laws_refuse_values_outside_the_range(name, make, ends):
    for bad in (math.nan, math.inf, -1, -2, *ends):
        with pytest.raises(ValueError, match=f"{name} must be"):
            make(bad)
    with pytest.raises(ValueError, match="j must be"):
        Poisson(1.0).pmf(-1)


# The published bounds. They are implied by ours, hence never smaller.


def published(tries, rho, b):
    """Theorems 2 and 6 of Papernot and Steinke, times b = order - 1."""
    curve = b * (1 + b) * rho + math.log(tries.mean)
    if isinstance(tries, Poisson):
        return curve + b * tries.mean * zcdp_delta(rho, math.log1p(1 / b))
    log_inverse = math.log(1 / tries.gamma)
    order = max(1.0, math.sqrt(log_inverse / rho))
    return curve + b * (1 + tries.shape) * (rho * (order - 1) + log_inverse / order)


def converted(log_moment, delta):
    b = np.exp(np.linspace(-4, 8, 600))
    moments = np.array([log_moment(t) for t in b])
    return np.min((moments - np.log(delta) - np.log1p(b)) / b - np.log1p(1 / b))


@each_tries
@each("rho", [1e-8, 1e-3, 0.02, 0.5, 10.0])
def test_never_looser_than_the_published_bounds(tries, rho):
    if tries.mean >= 1:
        for b in ORDERS:
            assert log_moment_of_best(tries, rho, b) <= published(tries, rho, b) * (1 + 1e-10)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, math.inf])
def test_published_bounds_agree_with_an_independent_accountant(shape):
    reason = "dp-accounting is an optional oracle: a second implementation of the same theorems"
    dp = pytest.importorskip("dp_accounting", reason=reason)
    rdp = pytest.importorskip("dp_accounting.rdp", reason=reason)
    tries = for_mean(shape, 20.0) if shape < math.inf else Poisson(20.0)
    event = dp.dp_event.RepeatAndSelectDpEvent(dp.ZCDpEvent(0.005), 20.0, shape)
    accountant = rdp.RdpAccountant(orders=1 + np.exp(np.linspace(-2, 5, 300)))
    oracle = accountant.compose(event).get_epsilon(1e-6)
    assert oracle == pytest.approx(
        converted(lambda b: published(tries, 0.005, b), 1e-6), rel=2e-3 if shape < math.inf else 0.1
    )
    assert epsilon_of(RandomStoppingEvent(0.005, tries), 1e-6) < oracle


# Bounds against the exact law of the best of J tries of small mechanisms


LAWS = [
    *TRIES,
    TruncatedNegativeBinomial(-0.9, 0.01),
    TruncatedNegativeBinomial(1.0, 1e-3),
    TruncatedNegativeBinomial(100.0, 0.77),
    Poisson(0.05),
]
each_law = pytest.mark.parametrize("law", LAWS, ids=repr)
SOME_ORDERS = ORDERS[::2]
ALL_ORDERS = np.exp(np.linspace(-9, 9, 500))


def generating(law, T):
    """E[(1 - T)^J]."""
    if isinstance(law, Poisson):
        return np.exp(-law.mean * T)
    u = law.gamma + (1 - law.gamma) * T
    if law.shape == 0:
        return np.log(u) / math.log(law.gamma)
    return (u**-law.shape - 1) / (law.gamma**-law.shape - 1)


def best_of(law, p, ranks):
    """Law of the best try: outcomes of the same rank tie, and the first of them is released."""
    in_rank = np.bincount(ranks, weights=p)
    above = np.append(np.cumsum(in_rank[::-1])[-2::-1], 0.0)
    wins = generating(law, above) - generating(law, np.minimum(above + in_rank, 1.0))
    return np.append(p / in_rank[ranks] * wins[ranks], generating(law, 1.0))


def outcomes_of_best(law, p, q, ranks):
    """Both laws of the best, where rounding errors leave something of them."""
    both = best_of(law, p, ranks), best_of(law, q, ranks)
    return [one[np.minimum(*both) > 1e-13] for one in both]


def log_moments(p, q, b):
    """Renyi divergences of orders 1 + b, times b."""
    x = np.log(p) + np.multiply.outer(b, np.log(p) - np.log(q))
    top = x.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))[..., 0]


def zcdp(p, q):
    """The least rho of a pair, both directions, from below by less than 1e-4 of it."""
    curves = [
        log_moments(*pair, ALL_ORDERS) / (ALL_ORDERS * (1 + ALL_ORDERS))
        for pair in ((p, q), (q, p))
    ]
    return max(map(np.max, curves))


def gaussian(rho, n_bins=60):
    """Unit Gaussians whose means differ by sqrt(2 rho), in bins: rho-zCDP by post-processing."""
    shift = math.sqrt(2 * rho)
    edges = np.concatenate([[-np.inf], np.linspace(-4, 4 + shift, n_bins - 1), [np.inf]])
    return rho, np.diff(stats.norm.cdf(edges - shift)), np.diff(stats.norm.cdf(edges))


def randomised_response(epsilon0, k=3):
    p = np.ones(k)
    p[-1] = math.exp(epsilon0)
    return epsilon0**2 / 2, p / p.sum(), p[::-1] / p.sum()


def bounded_range(epsilon0, seed):
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(8))
    p = q * np.exp(epsilon0 * rng.random(8))
    return epsilon0**2 / 8, p / p.sum(), q


def pairs(seed, count):
    """Random mechanisms of two to six outcomes, similar or not, with ties or without."""
    rng = np.random.default_rng(seed)
    while count > 0:
        k = int(rng.integers(2, 7))
        ranks = np.unique(np.sort(rng.integers(0, k, k)), return_inverse=True)[1]
        logs = rng.normal(0, rng.choice([1.0, 4.0]), k)
        other = logs + rng.choice([0.03, 0.3, 1.0, 3.0]) * rng.normal(size=k)
        p, q = np.exp(logs), np.exp(other)
        p, q = p / p.sum(), q / q.sum()
        if min(p.min(), q.min()) > 1e-9:
            count -= 1
            rho = zcdp(p, q) * (1 + 1e-4)
            yield rho, p, q, ranks if rng.random() < 0.5 else np.arange(k)


MECHANISMS = [
    (*mechanism, np.arange(len(mechanism[1])))
    for mechanism in (
        *map(gaussian, (1e-3, 0.02, 0.5)),
        *map(randomised_response, (0.1, 1.0, 4.0)),
        *(bounded_range(epsilon0, seed) for epsilon0 in (0.3, 3.0) for seed in (0, 1)),
    )
]


def excess(law, formula, mechanisms=MECHANISMS):
    """The largest ratio of an exact divergence to what a formula bounds it with."""
    worst = 0.0
    for rho, *mechanism in mechanisms:
        first, second = outcomes_of_best(law, *mechanism)
        exact = [log_moments(*pair, SOME_ORDERS) for pair in ((first, second), (second, first))]
        for b, moment in zip(SOME_ORDERS, np.max(exact, axis=0), strict=True):
            if moment > 1e-8:  # otherwise it is rounding
                worst = max(worst, moment / formula(law, rho, b))
    return worst


def test_the_best_of_j_by_counting():
    """Against all outcomes of up to three tries, in the order in which they were made."""
    p, ranks, law = np.array([0.1, 0.4, 0.2, 0.3]), np.array([0, 1, 1, 2]), Poisson(0.01)
    expected = np.zeros(5)
    for j in range(4):
        weight = math.exp(-0.01) * 0.01**j / math.factorial(j)
        for tries in itertools.product(range(4), repeat=j):
            winner = max(tries, key=lambda y: ranks[y]) if tries else 4  # the first of the best
            expected[winner] += weight * math.prod(p[list(tries)])
    np.testing.assert_allclose(best_of(law, p, ranks), expected, rtol=1e-4)


@each_law
def test_generating_functions_are_those_of_the_laws(law):
    n = 150 if isinstance(law, Poisson) else int(25 / law.gamma + 5 * law.mean)
    pmf = [law.pmf(j) for j in range(n)]
    for T in (0.0, 0.2, 0.9):
        total = math.fsum(p * (1 - T) ** j for j, p in enumerate(pmf))
        assert total == pytest.approx(float(generating(law, T)), rel=1e-9)


@each_law
def test_no_pair_of_mechanisms_exceeds_the_charge_of_its_best(law):
    assert 0.4 < excess(law, log_moment_of_best, [*MECHANISMS, *pairs(7, 50)]) <= 1


@each_law
def test_no_pair_exceeds_the_delta_and_the_rho_of_its_best(law):
    worst = 0.0
    for rho, *mechanism in [*MECHANISMS, *pairs(8, 3)]:
        event = RandomStoppingEvent(rho, law)
        both = outcomes_of_best(law, *mechanism)
        for epsilon in (0.0, 0.3, 1.0):
            delta = delta_of(event, epsilon)
            for first, second in (both, both[::-1]):
                assert np.maximum(first - math.exp(epsilon) * second, 0.0).sum() <= delta + 1e-12
        worst = max(worst, zcdp(*both) / rho_of(event))
    assert 0.1 < worst <= 1


# Events and conversions


def test_it_is_not_gaussian():
    event = compose(GaussianEvent(3.0), RandomStoppingEvent(0.01, SOME[0]))
    assert not is_gaussian(event)
    with pytest.raises(ValueError, match="Gaussian"):
        mu_of(event)


def test_one_sure_try_costs_what_it_costs():
    event = RandomStoppingEvent(0.01, for_mean(1.0, 1 + 1e-13))
    assert epsilon_of(event, 1e-6) == pytest.approx(zcdp_epsilon(0.01, 1e-6), rel=1e-8)
    assert delta_of(event, 0.5) == pytest.approx(zcdp_delta(0.01, 0.5), rel=1e-6)


OTHERS = [GaussianEvent(10.0), ExponentialMechanismEvent(0.1), ZCDPEvent(0.005)]


@some_tries
def test_curves_add(tries):
    event = RandomStoppingEvent(0.01, tries)
    rest = 0.005 + 0.1**2 / 8 + 0.005
    composed = ComposedEvent([event, *OTHERS, NoOpEvent(), RepeatedEvent(event, 2)])
    assert rho_of(composed) == pytest.approx(3 * rho_of(event) + rest)
    exact = converted(lambda b: 3 * log_moment_of_best(tries, 0.01, b) + b * (1 + b) * rest, 1e-6)
    assert epsilon_of(composed, 1e-6) == pytest.approx(exact, rel=1e-4)
    orders = itertools.permutations([event, event, *OTHERS[:2]])
    assert len({delta_of(ComposedEvent(order), 1.0) for order in orders}) == 1
    # Dropping zCDP's detour through one rho is what makes a search affordable.
    assert epsilon_of(composed, 1e-6) < zcdp_epsilon(rho_of(composed), 1e-6)


@some_tries
@pytest.mark.parametrize("rho", [1e-80, 1e-3, 0.1, 1e4])
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.1])
def test_reported_epsilon_errs_on_the_private_side_and_hardly(tries, rho, delta):
    event = RandomStoppingEvent(rho, tries)
    epsilon = epsilon_of(event, delta)
    assert 0 <= epsilon < math.inf
    assert delta_of(event, epsilon) <= delta
    assert epsilon < 1e-9 or delta_of(event, epsilon * (1 - 1e-4) - 1e-9) > delta


@some_tries
@pytest.mark.parametrize("rho", [1e-80, 30.0, 1e3, 1e50])
def test_a_search_is_never_cheaper_than_a_try(tries, rho):
    if tries.mean >= 1:
        event = RandomStoppingEvent(rho, tries)
        assert rho_of(event) >= rho
        assert epsilon_of(event, 1e-6) >= zcdp_epsilon(rho, 1e-6) * (1 - 1e-9)
        for epsilon in (0.0, 1.0, 1e4):
            assert delta_of(event, epsilon) >= zcdp_delta(rho, epsilon) * (1 - 1e-9)


@some_tries
@pytest.mark.parametrize("rho", [1e-12, 0.01, 1.0, 1e3])
def test_rho_bounds_the_whole_curve_closely(tries, rho):
    total = rho_of(RandomStoppingEvent(rho, tries))
    b = np.exp(np.linspace(-6, 25, 400))
    divergence = np.array([log_moment_of_best(tries, rho, t) / t for t in b])
    least = np.minimum.accumulate(divergence[::-1])[::-1]  # over all larger orders
    ratio = np.max(least / (1 + b)) / total
    assert 0.95 < ratio <= 1
    assert total >= min(1.0, tries.mean) * rho


# Calibration


@some_tries
@pytest.mark.parametrize(
    ("epsilon", "others"),
    [(0.7, ZCDPEvent(0.005)), (1.0, GaussianEvent(30.0)), (8.0, NoOpEvent())],
    ids=repr,
)
def test_calibration_errs_on_the_private_side_and_hardly(tries, epsilon, others):
    budget = Budget(epsilon, 1e-6)
    rho = calibrate(budget, tries, others)
    costlier = RandomStoppingEvent(rho * (1 + 1e-6), tries)
    assert delta_of(compose(RandomStoppingEvent(rho, tries), others), epsilon) <= 1e-6
    assert delta_of(compose(costlier, others), epsilon) > 1e-6
    assert epsilon_of(compose(RandomStoppingEvent(rho, tries), others), 1e-6) <= epsilon


@pytest.mark.parametrize("tries", SOME[1::2], ids=repr)
def test_calibration_to_a_limit_in_zcdp(tries):
    limit, others = SimpleNamespace(rho=0.02), ZCDPEvent(0.005)
    rho = calibrate(limit, tries, others)
    assert rho_of(compose(RandomStoppingEvent(rho, tries), others)) <= 0.02
    assert rho_of(compose(RandomStoppingEvent(rho * (1 + 1e-6), tries), others)) > 0.02
    assert rho <= calibrate(Budget.from_rho(0.02, 1e-6), tries, others) * (1 + 1e-6)


def test_calibration_refuses_what_others_have_spent():
    for budget in (Budget(1.0, 1e-6), SimpleNamespace(rho=0.02)):
        with pytest.raises(ValueError, match="others must leave something"):
            calibrate(budget, SOME[0], ZCDPEvent(0.03))
    with pytest.raises(TypeError, match="tries must be"):
        calibrate(Budget(1.0, 1e-6), 20.0)
    with pytest.raises(TypeError, match="Event"):
        calibrate(Budget(1.0, 1e-6), SOME[0], 0.01)
