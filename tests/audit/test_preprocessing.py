"""Private preprocessing: sensitivities by brute force, laws of the noise, what can be proved.

Statistics are recorded in grid units just before noise is drawn, for all pairs of data
sets that differ in one record; as in tests/audit/test_sensitivity.py. Audits are those of
`skdpsco.inspection`.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse, stats
from stand_ins import Forced
from test_sensitivity import largest_range

import skdpsco.scaling.quantiles as quantiles_module
from skdpsco.data import as_design
from skdpsco.inspection import audit
from skdpsco.mechanisms.samplers import SCALE_BITS, gaussian_mechanism, to_grid
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
)
from skdpsco.preprocessing import clipper as clipper_module
from skdpsco.preprocessing import scaler as scaler_module
from skdpsco.preprocessing import selector as selector_module
from skdpsco.privacy import Budget, ExponentialMechanismEvent, epsilon_of, mu_of, rho_of
from skdpsco.privacy.events import leaves
from skdpsco.scaling.target import Target

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

ONE = 2.0**SCALE_BITS
SELECT = {"n_features_to_select": 2, "classes": [0, 1, 2], "feature_bound": [1.0, 0.5, 2.0]}


def scores_of(monkeypatch, estimator, X, y=None, choices=()):
    """Integer scores of every draw of a fit whose draws have given results."""
    mechanism, kernel = Forced(choices, []), quantiles_module.choose_score.py_func

    def forced(scores, grid, _, rng, units):
        return kernel(scores, grid, mechanism, rng, units)

    with monkeypatch.context() as patch:
        patch.setattr(quantiles_module, "choose_score", forced)
        correlate = selector_module.correlate_columns
        patch.setattr(
            selector_module, "correlate_columns", getattr(correlate, "py_func", correlate)
        )
        estimator.set_params(random_state=0).fit(X, y)
    return mechanism.log


def charges(estimator):
    """Ranges in grid units that the draws of a fit were charged for, the largest first."""
    event = estimator.privacy_.event
    draws = [item for item in leaves(event) if isinstance(item[0], ExponentialMechanismEvent)]
    epsilons = [leaf.epsilon0 for leaf, count in draws for _ in range(count)]
    return ONE * np.array(sorted(epsilons, reverse=True))


def largest_ranges(logs):
    """Largest range of ``scores - scores'`` over all pairs of fits, draw by draw."""
    return np.array([largest_range(group) for group in zip(*logs, strict=True)])


def test_the_factor_of_the_squares():
    """The lemma, on a grid that holds the worst pair; a factor larger by 0.1 % breaks it."""
    v = np.concatenate([np.linspace(-1, 1, 1001), [2 - math.sqrt(5)]])
    u, v = v[:, None], v[None, :]

    def largest(c):
        return ((u - v) ** 2 * (1 + c**2 * (u + v) ** 2)).max()

    assert largest(scaler_module.SQUARES) <= 4 * (1 + 1e-15)
    assert largest(math.sqrt((11 + 5 * math.sqrt(5)) / 8)) <= 4 * (1 + 1e-12)
    assert largest(1.001 * math.sqrt((11 + 5 * math.sqrt(5)) / 8)) > 4.0005


@pytest.mark.parametrize("with_std", [True, False])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 2), (3, 1)])
def test_moments_change_by_what_is_charged(monkeypatch, n, d, with_std):
    lower, upper = np.array([-3.0, 10.0])[:d], np.array([1.0, 30.0])[:d]
    units: list = []

    def record(rng, values, grid):
        units.append([int(to_grid(value, grid)) for value in values])

    monkeypatch.setattr(scaler_module, "gaussian_mechanism", record)
    # Beyond the bounds, the worst pair of the lemma, and a mild value, in units of the map.
    values = np.array([-9.0, 2 - math.sqrt(5), 0.3, math.sqrt(5) - 2, 1.0])
    worst = 0.0
    for rest in ([0.9, -0.4][: n - 1], [-1.0, -1.0][: n - 1]):
        units.clear()
        for row in itertools.product(values, repeat=d):
            U = np.array([row, *([x] * d for x in rest)])
            X = (lower + upper) / 2 + U * (upper - lower) / 2
            scaler = PrivateStandardScaler(
                lower=lower, upper=upper, with_std=with_std, random_state=0
            ).fit(X)
        released = np.array(units, dtype=float)
        assert released.shape[1] == (2 * d if with_std else d)
        change = np.linalg.norm(released[:, None] - released[None], axis=2).max()
        # The variance of discrete Gaussian noise counts 16 units less (docs/proofs/noise.md).
        allowed = mu_of(scaler.privacy_.event) * math.sqrt(4.0**SCALE_BITS - 16)
        worst = max(worst, change / allowed)
    assert 0.999 < worst <= 1.0


EXTREME = (-40.0, -3.0, -0.7, 0.0, 1.1, 3.0, 40.0)


@pytest.mark.parametrize("quantile_range", [(0.01, 0.99), (0, 1), (0.3, 0.8)])
@pytest.mark.parametrize(("n", "epsilon", "n_draws"), [(12, 40.0, 3), (5, 15.0, 2), (3, 40.0, 2)])
def test_ranges_change_by_what_is_charged(monkeypatch, n, epsilon, n_draws, quantile_range):
    clipper = PrivateQuantileClipper(
        quantile_range=quantile_range, lower=-3, upper=3, epsilon=epsilon, delta=1e-3
    )
    worst = np.zeros(n_draws)
    rests = ([0.5] * (n - 1), [*EXTREME, 2.0, 2.0, -2.0, 0.1][: n - 1], [-3.0] * (n - 1))
    centres = (0, 200, 400, 588) if n_draws == 3 else (None,)
    for rest, centre in itertools.product(rests, centres):
        choices = () if centre is None else (centre,)
        logs = [scores_of(monkeypatch, clipper, np.c_[[x, *rest]], None, choices) for x in EXTREME]
        assert len(logs[0]) == n_draws
        worst = np.maximum(worst, largest_ranges(logs) / charges(clipper))
    assert worst.max() <= 1.0
    assert worst.min() > 0.9  # half of the charge would not be enough


@pytest.mark.parametrize(("n", "layout"), [(2, np.asarray), (3, sparse.csr_array)])
@pytest.mark.parametrize(
    "params",
    [
        {"classes": [0, 1]},
        {"classes": [0, 1, 2]},
        {"task": "regression", "target_bound": 1.0},
        {"task": "regression", "target_bound": 2.0},
    ],
)
def test_covariances_change_by_what_is_charged(monkeypatch, n, params, layout):
    regression = "task" in params
    selector = PrivateFeatureSelector(
        **{**SELECT, "epsilon": 3000.0, "delta": 1e-3, **params}
    )  # so large a budget that a target is released for two records
    targets = (-9.0, 0.1, 9.0) if regression else params["classes"]
    features = [(-9, 9, -9), (9, -9, 9), (9, 9, 0), (0.3, -0.2, 1.1), (-9, -9, -9)]
    records = list(itertools.product(features, targets))
    if regression:  # the same scale for all, of which the counts say nothing here
        bound = params["target_bound"]
        monkeypatch.setattr(selector_module, "release_target", lambda *_: Target(bound, 0.0, bound))
    worst = np.zeros(2)
    rests = list(itertools.combinations_with_replacement(records, n - 1))
    for rest, first in itertools.product(rests[:: 2 if n == 2 else 9], range(3)):
        logs = []
        for record in records:
            X = np.array([x for x, _ in (record, *rest)], dtype=float)
            y = np.array([t for _, t in (record, *rest)])
            logs.append(scores_of(monkeypatch, selector, layout(X), y, (first,)))
        assert [len(scores) for scores in logs[0]] == [3, 2]
        worst = np.maximum(worst, largest_ranges(logs) / charges(selector))
    assert worst.max() <= 1.0
    assert worst.min() > 0.9  # half of the charge would not be enough


def test_the_error_of_covariances():
    """Against exact sums, with records in an order and of sizes that round badly."""
    rng = np.random.default_rng(0)
    n = 4000
    X = np.sort(rng.uniform(-1, 1, (n, 1)) ** 9, axis=0)
    t = np.sort(rng.uniform(-1, 1, n)) + 1e-9
    design = as_design(X, np.ones(1), False)
    score = selector_module.covariance_scores(design, t, lambda y: y[:, None], n)[0]
    mean = math.fsum(t) / n
    exact = abs(math.fsum(X[:, 0] * (t - mean)))
    assert abs(score - exact) < 8 * scaler_module.sum_error(n, 1.0)
    assert score != exact  # otherwise nothing was tested


FITS = [
    (PrivateStandardScaler, {}),
    (PrivateStandardScaler, {"with_std": False}),
    (PrivateQuantileClipper, {}),
    (PrivateSplineTransformer, {}),
    (PrivateSplineTransformer, {"lower": -1, "upper": 1}),
    (PrivateFeatureSelector, SELECT),
    (PrivateFeatureSelector, {**SELECT, "task": "regression"}),
    (PrivateFeatureSelector, {**SELECT, "task": "regression", "target_bound": 2.0}),
]
each_fit = pytest.mark.parametrize(("Estimator", "params"), FITS)
X = np.random.default_rng(0).uniform(-1, 1, (3000, 3))
Y = np.digitize(X[:, 0], [-0.3, 0.3])


class Purse:
    """A ledger that pays for everything."""

    def __init__(self):
        self.events = []

    def charge(self, event, *args):
        self.events.append(event)


@each_fit
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 20.0])
def test_the_whole_budget_is_charged_and_no_more(Estimator, params, epsilon):
    budget = Budget(epsilon, 1e-6)
    model = Estimator(**params, epsilon=epsilon, random_state=0).fit(X, Y)
    event = model.privacy_.event
    assert model.privacy_.rho == rho_of(event)
    assert epsilon_of(event, 1e-6) <= epsilon
    if Estimator in (PrivateStandardScaler, PrivateSplineTransformer):
        assert mu_of(event) == pytest.approx(budget.mu, rel=1e-12)
    else:
        assert rho_of(event) == pytest.approx(budget.rho, rel=1e-12)
    purse = Purse()
    model.set_params(ledger=purse).fit(X, Y)
    assert purse.events == [model.privacy_.event]
    assert rho_of(purse.events[0]) == pytest.approx(budget.rho, rel=1e-12)
    assert rho_of(purse.events[0]) <= budget.rho * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_noise_of_moments(monkeypatch, epsilon):
    """Variance by chi-square at 1e-7 per sum, no correlation, on the grid of the budget."""
    n_fits, noises, grids = 300, [], set()

    def record(rng, values, grid):
        exact = values.copy()
        gaussian_mechanism(rng, values, grid)
        assert np.array_equal(np.rint(values / grid) * grid, values)
        noises.append(values - exact)
        grids.add(grid)

    monkeypatch.setattr(scaler_module, "gaussian_mechanism", record)
    scaler = PrivateStandardScaler(epsilon=epsilon, lower=-1.0, upper=1.0)
    for seed in range(n_fits):
        scaler.set_params(random_state=seed).fit(X[:50])
    noise = np.array(noises)
    assert noise.shape == (n_fits, 6)
    # 2 sqrt(3) is the sensitivity; the largest error of a sum is far below the test's power.
    squares = (noise**2).sum(axis=0) / (2 * math.sqrt(3) / Budget(epsilon, 1e-6).mu) ** 2

    def p_values(factor):
        q = squares / factor**2
        return 2 * np.minimum(stats.chi2.cdf(q, n_fits), stats.chi2.sf(q, n_fits))

    assert p_values(1.0).min() > 1e-8
    assert max(p_values(0.7).max(), p_values(1.4).max()) < 1e-8
    correlation = np.corrcoef(noise.T) - np.eye(6)
    assert np.abs(correlation).max() < 6 / math.sqrt(n_fits)
    assert len(grids) == 1


def softmax(x):
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def p_value(counts, law):
    """Chi-square; rare categories count as one."""
    rare = law * counts.sum() < 10
    observed, expected = counts[~rare], law[~rare] * counts.sum()
    if rare.any():
        observed = np.append(observed, counts[rare].sum())
        expected = np.append(expected, law[rare].sum() * counts.sum())
    return stats.chisquare(observed, expected).pvalue


def test_law_of_ranges(monkeypatch):
    """Ends are draws by their scores; twice or half the noise is refused."""
    x = np.random.default_rng(0).normal(size=(20, 1))
    clipper = PrivateQuantileClipper(lower=-3, upper=3, epsilon=4.0, delta=1e-3)
    log = scores_of(monkeypatch, clipper, x)
    assert len(log) == 2
    plan = clipper_module.plan_ranges(20, 1, Budget(4.0, 1e-3).rho)
    rng = np.random.Generator(np.random.PCG64(0))
    design, bounds = as_design(x, np.ones(1), False), (np.full(1, -3.0), np.full(1, 3.0))
    released = [
        np.ravel(clipper_module.release_ranges(plan, design, 20, bounds, (0.01, 0.01), rng))
        for _ in range(4000)
    ]
    points, place = np.unique(np.minimum(6.0 * plan.distances, 3.0), return_inverse=True)
    for ends, scores in zip(np.abs(released).T, log, strict=True):
        counts = np.bincount(np.searchsorted(points, ends), minlength=len(points))
        laws = [np.bincount(place, softmax(scores / ONE * factor)) for factor in (1.0, 0.5, 2.0)]
        assert p_value(counts, laws[0]) > 1e-7
        assert max(p_value(counts, law) for law in laws[1:]) < 1e-12


def test_law_of_selections(monkeypatch):
    """The set of two features, by the law of draws without replacement."""
    few, y = X[:60], Y[:60]
    selector = PrivateFeatureSelector(**{**SELECT, "epsilon": 3.0, "delta": 1e-3})
    scores = scores_of(monkeypatch, selector, few, y)[0] / ONE
    counts = np.zeros(3)
    for seed in range(1500):
        support = selector.set_params(random_state=seed).fit(few, y).support_
        assert support.sum() == 2
        counts[np.flatnonzero(~support)[0]] += 1

    def law(scores):
        p = softmax(scores)
        left_out = np.zeros(3)
        for i, j in itertools.permutations(range(3), 2):
            left_out[3 - i - j] += p[i] * p[j] / (1 - p[i])
        return left_out

    assert stats.chisquare(counts, 1500 * law(scores)).pvalue > 1e-7
    for factor in (0.5, 2.0):
        assert stats.chisquare(counts, 1500 * law(factor * scores)).pvalue < 1e-10


def column(*values):
    return np.c_[list(values)]


# The estimator, one data set, its neighbour, the targets, an event, and the noise, too small by
# this factor, that 400 fits of each convict.
AUDITS = {
    "means": (
        PrivateStandardScaler(lower=-1, upper=1),
        column(1.0, 0.0),
        column(-1.0, 0.0),
        None,
        lambda model: model.mean_[0] > 0,
        7,
    ),
    "variances": (
        PrivateStandardScaler(lower=-1, upper=1),
        column(1.0, 0.0),
        column(2 - math.sqrt(5), 0.0),
        None,
        lambda model: model.var_[0] + model.mean_[0] > 0.35,
        12,
    ),
    "ranges": (
        PrivateQuantileClipper(quantile_range=(0, 1), lower=-1, upper=1),
        column(2.0**-20, *[0.0] * 11),
        column(*[0.0] * 12),
        None,
        lambda model: model.upper_[0] >= 2.0**-20,
        16,
    ),
    "selection": (
        PrivateFeatureSelector(n_features_to_select=1, classes=[0, 1]),
        np.array([[1.0, -1.0], [-1.0, -1.0], [-1.0, -1.0]]),
        np.array([[-1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]]),
        [1, 0, 0],
        lambda model: model.support_[0],
        8,
    ),
}


@pytest.mark.parametrize("case", AUDITS)
def test_audit(monkeypatch, case):
    model, first, second, y, event, factor = AUDITS[case]
    model.set_params(epsilon=2.0, delta=1e-3)

    def audited():
        options = {"statistic": event, "n_fits": 400, "confidence": 1 - 1e-6, "random_state": 0}
        return audit(model, first, y, neighbour={"X": second}, **options)

    assert not audited().convicted
    for module, name in (
        (scaler_module, "gaussian_grid"),
        (clipper_module, "exponential_grid"),
        (selector_module, "exponential_grid"),
    ):
        exact = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, exact=exact: exact(*args) / factor)
    assert audited().epsilon_lower > 2.0
