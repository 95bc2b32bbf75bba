"""Gaussian noise on Poisson samples: the worst pair, its Renyi curve, the oracle, the sampler."""

import math
import pickle

import numpy as np
import pytest
from cases import each
from scipy import special, stats

from skdpsco.privacy import (
    AddedPoissonSampledGaussianEvent,
    Budget,
    BudgetExceededError,
    GaussianEvent,
    Ledger,
    PoissonSampledGaussianEvent,
    RandomStoppingEvent,
    RepeatedEvent,
    TruncatedNegativeBinomial,
    ZCDPEvent,
    allows,
    compose,
    delta_of,
    epsilon_of,
    gaussian_delta,
    is_gaussian,
    mu_of,
    rho_of,
)
from skdpsco.privacy import _pld as pld_module
from skdpsco.privacy.sampling import log_moment_of_sample
from skdpsco.solvers import Allowance, check_cost
from skdpsco.solvers.penalized.sgd import poisson_sample

MULTIPLIERS = (0.3, 1.0, 4.0, 30.0)
PROBABILITIES = (1e-3, 0.1, 0.5, 0.95)
ORDERS = (0.01, 0.7, 1.0, 3.0, 20.0, 63.0)
STEP = PoissonSampledGaussianEvent(2.0, 0.01)


def worst_pair(x, event):
    """Both densities."""
    r, q = 1 / event.noise_multiplier, event.sampling_probability
    return [(1 - q) * stats.norm.pdf(x) + q * stats.norm.pdf(x, sign * r) for sign in (1, -1)]


def exact_delta(event, epsilon):
    """Hockey-stick divergence of the worst pair, by its distribution functions, at any epsilons."""
    r, q = 1 / event.noise_multiplier, event.sampling_probability
    low, high = np.full(np.shape(epsilon), -60.0), np.full(np.shape(epsilon), 60.0)
    for _ in range(80):  # where the ratio of the densities is exp(epsilon)
        x = (low + high) / 2
        p, other = (np.log1p(q * np.expm1(s * r * x - r * r / 2)) for s in (1, -1))
        low, high = np.where(p - other < epsilon, x, low), np.where(p - other < epsilon, high, x)
    p, other = ((1 - q) * special.ndtr(-high) + q * special.ndtr(s * r - high) for s in (1, -1))
    return p - np.exp(epsilon) * other


# ------------------------------------------------------------------------------ the event


def test_the_event_is_a_value_and_its_probability_is_the_sampler_s():
    event = PoissonSampledGaussianEvent(2, 0.3)
    assert pickle.loads(pickle.dumps(event)) == event
    assert hash(event) == hash(PoissonSampledGaussianEvent(2.0, 0.3))
    for q in (1e-300, 1e-9, 1 / 3, 0.1, 1 - 2**-53):
        event = PoissonSampledGaussianEvent(1.0, q)
        assert 1 <= event.threshold < 2**53
        assert event.sampling_probability == event.threshold / 2**53  # exact
        assert q <= event.sampling_probability <= q + 2**-53


@each("bad", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf, "0.1", None, True, 1j])
def test_bad_probabilities(bad):
    number = type(bad) is float
    match = r"sampling_probability must be .* in \(0, 1\)" if number else "sampling_probability"
    with pytest.raises(ValueError if number else TypeError, match=match):
        PoissonSampledGaussianEvent(1.0, bad)
    with pytest.raises(ValueError, match="noise_multiplier"):
        PoissonSampledGaussianEvent(-abs(bad) if number else -1.0, 0.5)


def test_it_is_not_gaussian_and_a_ledger_charges_its_noise_alone():
    event = RepeatedEvent(PoissonSampledGaussianEvent(40.0, 0.01), 10)
    assert not is_gaussian(event)
    with pytest.raises(ValueError, match="Gaussian noise only"):
        mu_of(event)
    # A replaced record moves the sum by twice a norm: as many Gaussians of half the multiplier.
    assert rho_of(event) == pytest.approx(rho_of(RepeatedEvent(GaussianEvent(20.0), 10)))
    ledger = Ledger(1.0, 1e-6)
    ledger.charge(event)
    assert ledger.remaining().rho == pytest.approx(ledger.rho - 20 / 40.0**2)
    with pytest.raises(BudgetExceededError):
        ledger.charge(RepeatedEvent(event, 2))


def test_unknown_subclasses_and_accountants_are_refused():
    class Cheaper(PoissonSampledGaussianEvent):
        pass

    with pytest.raises(TypeError, match="Cheaper"):
        epsilon_of(Cheaper(1.0, 0.1), 1e-6)
    for function in (epsilon_of, delta_of):
        with pytest.raises(ValueError, match="accountant must be"):
            function(STEP, 0.5, accountant="moments")


# ------------------------------------------------------------------------------ the worst pair


@pytest.mark.parametrize("alpha", [0.2, 0.9, 1.0, 1.3, 4.0])
@pytest.mark.parametrize(("r", "q"), [(1.0, 0.2), (2.0, 0.5), (0.5, 0.05)])
def test_no_gradients_in_the_plane_are_worse(alpha, r, q):
    """Hockey-stick divergences of mixtures in the plane, on a grid; the theorems' are attained.

    A gradient is replaced by another one, or added and removed.
    """
    t = np.linspace(-8.0, 8.0, 321)
    x, cell = np.stack(np.meshgrid(t, t)), (t[1] - t[0]) ** 2

    def mixture(g):
        at = [np.exp(-((x[0] - a) ** 2 + (x[1] - b) ** 2) / 2) for a, b in ((0, 0), g)]
        return ((1 - q) * at[0] + q * at[1]) / (2 * math.pi)

    def divergence(p, other):
        return float(np.maximum(p - alpha * other, 0.0).sum() * cell)

    def at(size, angle):
        return mixture((size * math.cos(angle), size * math.sin(angle)))

    worst = divergence(mixture((r, 0.0)), mixture((-r, 0.0)))
    found = []
    rng = np.random.default_rng(0)
    for _ in range(25):
        angles, sizes = rng.uniform(0, 2 * math.pi, 2), r * np.sqrt(rng.choice([0, 0.5, 1], 2))
        found.append(divergence(*map(at, sizes, angles)))
    assert max(found) <= worst + 3e-5  # of the grid
    if worst > 1e-3 + max(0.0, 1 - alpha):  # more than what equal laws have
        assert max(found) > max(0.0, 1 - alpha) + 0.3 * (worst - max(0.0, 1 - alpha))
    if alpha > 1:
        event = PoissonSampledGaussianEvent(1 / r, q)
        assert worst == pytest.approx(float(exact_delta(event, math.log(alpha))), abs=1e-4)
    nothing = mixture((0.0, 0.0))
    longest = mixture((r, 0.0))
    for angle, size in ((0.3, 0.2), (1.0, 0.7), (2.0, 0.95), (4.0, 0.9)):
        shorter = at(r * size, angle)
        assert divergence(shorter, nothing) <= divergence(longest, nothing) + 3e-5
        assert divergence(nothing, shorter) <= divergence(nothing, longest) + 3e-5


def log_integral(log_integrand, reach):
    """Logarithm of the integral of a positive function of a normal variable, by quadrature."""
    edges = np.linspace(*reach, 400)
    nodes, weights = special.roots_legendre(30)
    half = (edges[1] - edges[0]) / 2
    x = (edges[:-1] + half)[:, None] + half * nodes
    log_phi = -x * x / 2 - math.log(2 * math.pi) / 2
    return special.logsumexp(log_integrand(x) + log_phi, b=half * weights)


@each("z", MULTIPLIERS)
@each("q", PROBABILITIES)
def test_the_moment_is_that_of_the_worst_pair_rounded_up(z, q):
    event = PoissonSampledGaussianEvent(z, q)
    for b in ORDERS:
        found, r = log_moment_of_sample(event, b), 1 / z
        assert found <= event.rho * b * (1 + b)

        def log_integrand(x, b=b, r=r):
            A = [np.logaddexp(np.log1p(-q), math.log(q) + s * r * x - r * r / 2) for s in (1, -1)]
            return (1 + b) * A[0] - b * A[1]

        expected = log_integral(log_integrand, (-14.0, 14.0 + r * (1 + 2 * b)))
        assert expected - 1e-13 * (1 + abs(expected)) <= found
        if (z, b) != (0.3, 63.0):  # too many terms: the bound for a known sample
            size = 14.0 + r * (1 + 2 * b)
            assert found <= expected + 1e-12 + 1e-14 * size**2


def divergence_of_an_added_record(z, q, order):
    """Mironov, Talwar, Zhang (2019), Section 3.3, for whole orders."""
    k = np.arange(order + 1)
    terms = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
    terms += k * math.log(q) + (order - k) * math.log1p(-q) + k * (k - 1) / (2 * z * z)
    return special.logsumexp(terms) / (order - 1)


@each("z", [0.7, 1.0, 4.0])
@each("q", [1e-3, 0.1, 0.5])
@each("order", [2, 3, 8, 32])
def test_between_an_added_record_and_two_of_them(z, q, order):
    """Known moments of the pair of an added record bound those of a replaced one on both sides."""

    def added(a):
        return divergence_of_an_added_record(z, q, a)

    replaced = log_moment_of_sample(PoissonSampledGaussianEvent(z, q), order - 1.0) / (order - 1)
    assert added(order) < replaced
    event = AddedPoissonSampledGaussianEvent(z, q)
    found = log_moment_of_sample(event, order - 1.0) / (order - 1)
    assert added(order) <= found <= added(order) + 1e-11
    # Mironov (2017), Proposition 11, by way of a record that contributes nothing. The divergence in
    # the other direction is smaller.
    two = (order - 0.5) / (order - 1) * added(2 * order) + added(2 * order - 1)
    assert replaced < two


@each("z", MULTIPLIERS)
@each("q", PROBABILITIES)
@each("b", [0.01, 0.7, 2.5, 20.0])
def test_to_remove_a_record_costs_no_more_than_to_add_it(z, q, b):
    """The moment is that of the first direction, rounded up, which is the larger one."""
    event, r = AddedPoissonSampledGaussianEvent(z, q), 1 / z
    found = log_moment_of_sample(event, b)
    assert found <= event.rho * b * (1 + b)

    def mixture(x):
        return np.logaddexp(math.log1p(-q), math.log(q) + r * x - r * r / 2)

    reach = -14.0 - r * b, 14.0 + r * (1 + b)
    adding, removing = (
        log_integral(lambda x, p=power: p * mixture(x), reach) for power in (1 + b, -b)
    )
    assert max(adding, removing) - 1e-13 * (1 + abs(adding)) <= found
    size = 14.0 + r * (1 + b)
    assert found <= adding + 1e-12 + 1e-14 * size**2 or found == event.rho * b * (1 + b)


def test_added_records_cost_about_half_and_a_quarter_in_zcdp():
    added, replaced = (
        RepeatedEvent(kind(3.0, 0.02), 1000)
        for kind in (AddedPoissonSampledGaussianEvent, PoissonSampledGaussianEvent)
    )
    assert rho_of(added) == pytest.approx(rho_of(replaced) / 4)
    for accountant in ("rdp", "pld"):
        less, more = (epsilon_of(event, 1e-6, accountant) for event in (added, replaced))
        assert 0.4 * more < less < 0.6 * more
    assert 0.8 * epsilon_of(added, 1e-6, "rdp") < epsilon_of(added, 1e-6, "pld")
    assert epsilon_of(added, 1e-6, "pld") < epsilon_of(added, 1e-6, "rdp")
    # One step, by the distribution functions of both directions.
    r, q, epsilon = 0.5, 0.1, 0.2
    one = AddedPoissonSampledGaussianEvent(1 / r, q)
    cut = r / 2 + math.log1p(math.expm1(epsilon) / q) / r
    adding = q * special.ndtr(r - cut) + (1 - q - math.exp(epsilon)) * special.ndtr(-cut)
    assert adding <= pld_module.pld_delta(one, epsilon) <= adding * 1.003 + 1e-7
    mixed = compose(RepeatedEvent(added, 1), GaussianEvent(8.0))
    assert epsilon_of(mixed, 1e-6) > epsilon_of(added, 1e-6)


# ------------------------------------------------------------------------------ composition


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_laws(accountant):
    def epsilon(event, delta=1e-6):
        return epsilon_of(event, delta, accountant)

    few, many = epsilon(RepeatedEvent(STEP, 100)), epsilon(RepeatedEvent(STEP, 1000))
    assert 0 < few < many
    assert many == epsilon(compose(*[RepeatedEvent(STEP, 100)] * 10))
    assert epsilon(RepeatedEvent(PoissonSampledGaussianEvent(2.5, 0.01), 1000)) < many
    assert epsilon(RepeatedEvent(PoissonSampledGaussianEvent(2.0, 0.012), 1000)) > many
    assert epsilon(RepeatedEvent(STEP, 1000), 1e-7) > many
    mixed = epsilon(compose(RepeatedEvent(STEP, 1000), GaussianEvent(8.0)))
    assert max(many, epsilon(GaussianEvent(8.0))) < mixed < many + epsilon(GaussianEvent(8.0))
    search = RandomStoppingEvent(1e-3, TruncatedNegativeBinomial(0.0, 0.1))
    for other in (ZCDPEvent(1e-3), search):
        assert many < epsilon(compose(RepeatedEvent(STEP, 1000), other)) < many + epsilon(other)
    assert delta_of(RepeatedEvent(STEP, 1000), many, accountant) <= 1e-6


@pytest.mark.parametrize(("z", "q", "k"), [(2, 0.01, 1000), (6, 0.05, 1000), (0.8, 1e-3, 2000)])
def test_both_accountants_agree_about(z, q, k):
    event = RepeatedEvent(PoissonSampledGaussianEvent(z, q), k)
    for delta in (1e-8, 1e-5):
        renyi, pld = (epsilon_of(event, delta, name) for name in ("rdp", "pld"))
        assert 0.3 * renyi < pld < renyi
        assert epsilon_of(event, delta) == pld
        assert delta_of(event, pld, "pld") <= delta < delta_of(event, 0.99 * pld, "pld")


@pytest.mark.parametrize(("z", "q"), [(0.7, 0.1), (2.0, 0.5), (1.0, 0.01)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_privacy_loss_distribution_of_one_step_and_of_two(z, q, epsilon):
    """Against the hockey-stick divergence; that of two steps is an integral of that of one."""
    event = PoissonSampledGaussianEvent(z, q)
    x = np.linspace(-14.0, 14.0, 4001)
    p, other = worst_pair(x, event)
    exact = [
        float(exact_delta(event, epsilon)),
        float((p * exact_delta(event, epsilon - np.log(p / other))).sum() * (x[1] - x[0])),
    ]
    for steps, delta in enumerate(exact, 1):
        pld = pld_module.pld_delta(RepeatedEvent(event, steps), epsilon)
        assert delta * (1 - 1e-6) <= pld <= delta * (1 + 3e-3) + 1e-7
        assert delta <= delta_of(RepeatedEvent(event, steps), epsilon, "rdp")


def test_privacy_loss_distribution_of_gaussians():
    """With almost all records sampled, against the exact curve."""
    event = compose(
        RepeatedEvent(PoissonSampledGaussianEvent(60.0, 1 - 1e-12), 1000), GaussianEvent(2.0)
    )
    mu = math.sqrt(1000 * (2 / 60) ** 2 + 0.25)
    for epsilon in (0.5, 2.0, 5.0):
        exact = gaussian_delta(mu, epsilon)
        assert exact <= pld_module.pld_delta(event, epsilon) <= exact * 1.01 + 1e-9


def test_more_steps_than_convolutions_can_hold_have_a_renyi_curve_only():
    """The distribution of 10**8 steps would fill the memory, with errors of percents."""
    for steps in (10**8, 10**15):
        event = RepeatedEvent(PoissonSampledGaussianEvent(2 * steps**0.5, 0.5), steps)
        assert not pld_module.pld_applies(event, "pld")
        assert delta_of(event, 1.0) == delta_of(event, 1.0, "rdp") == delta_of(event, 1.0, "pld")
        assert gaussian_delta(0.5, 1.0) < delta_of(event, 1.0)
    assert pld_module.pld_applies(RepeatedEvent(STEP, 10**6), "auto")


@pytest.mark.parametrize(
    ("event", "least", "most"),
    [
        # Grids four times finer give 0.9103 and 0.0224. In the third, the noise on all records
        # alone costs 2.2542.
        (RepeatedEvent(PoissonSampledGaussianEvent(1.0, 1e-4), 10**6), 0.908, 0.920),
        (RepeatedEvent(PoissonSampledGaussianEvent(3.0, 1e-5), 10**6), 0.022, 0.031),
        (
            compose(
                RepeatedEvent(PoissonSampledGaussianEvent(20.0, 1e-4), 999_999),
                RepeatedEvent(GaussianEvent(200.0), 10**4),
            ),
            2.2540,
            2.2560,
        ),
    ],
)
def test_many_small_steps_have_a_tight_distribution(event, least, most):
    assert least < epsilon_of(event, 1e-6, "pld") < most


@pytest.mark.parametrize(("z", "q"), [(0.11, 1e-6), (2000.0, 0.5)])
def test_the_size_of_a_distribution_has_a_bound(z, q):
    """And with it time and memory: a million steps take about two seconds."""
    event = RepeatedEvent(PoissonSampledGaussianEvent(z, q), 10**6)
    assert pld_module._distribution(event)._pmf_remove.size < 6e6


@pytest.mark.parametrize(
    ("z", "q", "k"), [(1.0, 1e-8, 10**6), (30.0, 1e-9, 10**6), (1.0, 1e-12, 10)]
)
def test_the_renyi_order_is_found_for_rare_samples(z, q, k):
    """At small probabilities the best order is far from those of the noise at either end."""
    event = RepeatedEvent(PoissonSampledGaussianEvent(z, q), k)
    assert epsilon_of(event, 1e-6, "rdp") < 0.3
    assert delta_of(event, 0.3, "rdp") < 1e-6


def test_without_dp_accounting(monkeypatch):
    event, budget = RepeatedEvent(STEP, 1000), Budget(1.4, 1e-6)
    assert allows(budget, event)
    assert not allows(budget, event, "rdp")
    monkeypatch.setattr(pld_module, "find_spec", lambda name: None)
    assert epsilon_of(event, 1e-6) == epsilon_of(event, 1e-6, "rdp")
    assert not allows(budget, event)
    with pytest.raises(ImportError, match=r"skdpsco\[pld\]"):
        epsilon_of(event, 1e-6, "pld")


@pytest.mark.parametrize("z", [1e-100, 1e-3, 0.05, 1e3, 1e100])
@pytest.mark.parametrize("q", [1e-15, 1e-3, 0.999])
def test_extreme_events_have_finite_charges(z, q):
    event = RepeatedEvent(PoissonSampledGaussianEvent(z, q), 1000)
    delta = delta_of(event, 1.0)
    assert 0.0 < delta <= 1.0
    epsilon = epsilon_of(event, 1e-6)
    assert 0.0 <= epsilon < math.inf
    assert delta_of(event, epsilon) <= 1e-6


def test_check_cost_uses_the_curve_for_budgets_and_rho_for_the_rest():
    event, budget = RepeatedEvent(STEP, 1000), Budget(1.5, 1e-6)
    assert rho_of(event) > 1000 * budget.rho
    check_cost(event, budget)
    with pytest.raises(ValueError, match="plan costs"):
        check_cost(event, Allowance(budget.rho))
    with pytest.raises(ValueError, match="plan costs"):
        check_cost(RepeatedEvent(event, 2), budget)


# ------------------------------------------------------------------------------ the sampler


class Words:
    """A generator of chosen words."""

    def __init__(self, words):
        self.words, self.bit_generator = iter(words), self

    def random_raw(self):
        return next(self.words)


@each("threshold", [1, 2, 5, 2**52, 2**52 + 1, 2**53 - 1, 0x15555555555555])
def test_the_sampler_compares_53_bits_with_the_threshold(threshold):
    """64 records at a time: record i gets bit i of every word, the most significant first."""
    near = [threshold + s for s in range(-20, 20)] + [0, 1, 2**52, 2**53 - 1]
    numbers = [v for v in near if 0 <= v < 2**53]
    words = [
        sum((v >> place & 1) << i for i, v in enumerate(numbers)) for place in range(52, -1, -1)
    ]
    out = np.empty(len(numbers), dtype=np.int64)
    size = poisson_sample.py_func(Words(words), threshold, out)
    assert out[:size].tolist() == [i for i, v in enumerate(numbers) if v < threshold]


@pytest.mark.parametrize("q", [1e-3, 0.05, 0.3, 0.5, 0.97])
def test_the_sampler_s_frequencies(q):
    """Samples, records and pairs, to 5.5 standard errors; q is known to 2 % at worst."""
    rng = np.random.Generator(np.random.PCG64(0))
    n, repeats, threshold = 130, 20_000, PoissonSampledGaussianEvent(1.0, q).threshold
    member, out = np.zeros((repeats, n), dtype=bool), np.empty(n, dtype=np.int64)
    for row in member:
        row[out[: poisson_sample(rng, threshold, out)]] = True
    deviation = math.sqrt(q * (1 - q))
    assert abs(member.mean() - q) < 5.5 * deviation / math.sqrt(n * repeats)
    assert 5.5 * deviation / math.sqrt(n * repeats) < 0.12 * q
    assert np.abs(member.mean(axis=0) - q).max() < 5.8 * deviation / math.sqrt(repeats) + 3e-4
    centred = (member - q) / deviation
    for lag in (1, 2, 63, 64, 65, 128):
        products = centred[:, lag:] * centred[:, :-lag]
        assert abs(products.mean()) < 6 / math.sqrt(products.size)
