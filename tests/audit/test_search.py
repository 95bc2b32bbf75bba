"""Searches and cross-validation: laws of their draws, and their sensitivities by brute force."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from skdpsco import PrivateLasso, PrivateLogisticL1
from skdpsco._random import generator
from skdpsco.data.pieces import replace_one
from skdpsco.mechanisms import samplers
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, exponential_grid, gaussian_grid
from skdpsco.model_selection import (
    PrivateGridSearchCV,
    _selection,
    make_private_scorer,
    private_cross_val_score,
)
from skdpsco.model_selection import search as search_module
from skdpsco.model_selection import validation as validation_module
from skdpsco.model_selection._fitting import Part
from skdpsco.model_selection.scorers import ACCURACY, clipped_squared_error
from skdpsco.privacy import (
    Budget,
    Poisson,
    RandomStoppingEvent,
    TruncatedNegativeBinomial,
    ZCDPEvent,
    compose,
    epsilon_of,
    rho_of,
)
from skdpsco.scaling.target import Target
from skdpsco.solvers import Allowance

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
FALSE_ALARM = 1e-7
SEEN = 1e-12  # p-values of laws that are wrong by a little: the power is above 0.99
WIDE = make_private_scorer(np.subtract, -3.0, 5.0)
ERROR = clipped_squared_error(Target(5.0, 0.3, 0.7))
EXTREME = (-1e300, -7.0, 0.0, 0.3, 7.0, np.inf, np.nan)


def rng(seed):
    return generator(seed)[0]


# --- laws


def p_value(counts, law):
    """p-value of Pearson's statistic."""
    n = counts.sum()
    return stats.chi2.sf(((counts - n * law) ** 2 / (n * law)).sum(), len(law) - 1)


@pytest.mark.parametrize("scorer", [ACCURACY, WIDE])
def test_winner_follows_the_exponential_mechanism(scorer):
    n, rho, draws = 50, 0.02, 20_000
    width = scorer.upper - scorer.lower
    sums = np.array([-3.0, 4.0, 0.0, 6.0]) * width
    source = rng(0)
    won = [_selection.choose_winner(sums, scorer, n, rho, source) for _ in range(draws)]
    counts = np.bincount(won, minlength=4)
    # A sum changes by at most the width, in either direction: exp(epsilon0 sum / (2 width)).
    exponents = math.sqrt(8 * rho) * sums / (2 * width)
    law = np.exp(exponents) / np.exp(exponents).sum()
    assert p_value(counts, law) > FALSE_ALARM
    for factor in (0.8, 1.25):  # of the noise: the test would see it
        wrong = law**factor / (law**factor).sum()
        assert p_value(counts, wrong) < SEEN


@pytest.mark.parametrize("k", [2, 5])
def test_noise_of_released_sums(k):
    n, rho, draws = 40, 0.3, 6000
    sums = np.arange(k, dtype=float)
    source = rng(1)
    released = [_selection.noisy_sums(sums, WIDE, n, rho, source) for _ in range(draws)]
    noise = np.array([noisy - sums for noisy, _ in released])
    expected = math.sqrt(k) * 8.0 / math.sqrt(2 * rho)
    assert released[0][1] == pytest.approx(expected, rel=1e-6)
    square = (noise**2).sum() / expected**2
    assert FALSE_ALARM < stats.chi2.cdf(square, noise.size) < 1 - FALSE_ALARM
    assert stats.chi2.cdf(square / 1.1**2, noise.size) < SEEN
    assert stats.kstest(noise[:, 0] / expected, "norm").pvalue > FALSE_ALARM
    assert abs(np.corrcoef(noise[:, 0], noise[:, 1])[0, 1]) < 0.1  # 7 standard deviations
    means, std = _selection.noisy_means(sums, WIDE, n, rho, rng(2))
    again, _ = _selection.noisy_sums(sums, WIDE, n, rho, rng(2))
    np.testing.assert_allclose(means, 1.0 + again / n)
    assert std == pytest.approx(expected / n, rel=1e-6)


def test_best_try():
    n, rho, draws = 50, 0.05, 6000
    sums, source = np.array([0.0, 2.0, 0.0]), rng(3)
    won = [_selection.best_try(sums, ACCURACY, n, rho, source) for _ in range(draws)]
    counts = np.bincount(won, minlength=3)
    std = 1 / math.sqrt(2 * rho)

    def wins_second(t):
        return stats.norm.pdf(t) * stats.norm.cdf(t + 2.0 / std) ** 2

    second = integrate.quad(wins_second, -10, 10)[0]
    law = np.array([(1 - second) / 2, second, (1 - second) / 2])
    assert p_value(counts, law) > FALSE_ALARM
    assert p_value(counts, np.full(3, 1 / 3)) < SEEN
    assert _selection.best_try(np.array([]), ACCURACY, n, rho, source) is None


def test_first_of_equal_tries(monkeypatch):
    monkeypatch.setattr(
        samplers, "gaussian_mechanism", lambda rng, values, grid: deviation_on(grid)
    )
    assert _selection.best_try(np.array([0.0, 3.0, 3.0]), ACCURACY, 9, 0.1, None) == 1


@pytest.mark.parametrize(
    "tries", [TruncatedNegativeBinomial.for_mean(2.0, 6.0), Poisson(1.5)], ids=["TNB", "Poisson"]
)
def test_number_of_tries_and_their_candidates(tries):
    plan = _selection.plan_search(Allowance(0.1), 3, 50, ACCURACY, None, 0.5, tries)
    source, draws = rng(4), 5000
    tried = [plan.draw(3, source) for _ in range(draws)]
    numbers = np.bincount([len(t) for t in tried])
    law = np.array([tries.pmf(j) for j in range(200)])
    cut = int(np.flatnonzero(draws * law[::-1].cumsum()[::-1] > 20)[-1])
    counts = np.append(numbers[:cut], numbers[cut:].sum())
    law = np.append(law[:cut], 1 - law[:cut].sum())
    kept = law > 0
    assert counts[~kept].sum() == 0
    assert p_value(counts[kept], law[kept]) > FALSE_ALARM
    assert p_value(counts[kept], np.roll(law[kept], 1)) < SEEN
    candidates = np.bincount(np.concatenate(tried).astype(int), minlength=3)
    assert p_value(candidates, np.full(3, 1 / 3)) > FALSE_ALARM


# --- sensitivity


class Fixed:
    """A model that no data change: it stands for what was released on the other part."""

    def __init__(self, response):
        self.response = response

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.response[np.asarray(X)[:, 0].astype(int)]


@pytest.mark.parametrize("scorer", [ACCURACY, ERROR, WIDE], ids=["accuracy", "error", "own"])
def test_sums_change_by_what_is_charged(scorer):
    """For one record that is replaced in the validation part, target and response at will."""
    n = 4
    X = np.arange(n, dtype=float)[:, None]
    train = Part(X, np.zeros(n), {})
    sums = []
    for y, response in itertools.product(EXTREME, EXTREME):
        targets, responses = np.r_[y, 1.0, 0.0, 3.0], np.r_[response, 1.0, 0.5, np.nan]
        part = Part(X, targets, {})
        sums.append(search_module.fit_and_sum(Fixed(responses), train, part, scorer, False)[0])
    worst = np.ptp(sums)
    charged = replace_one(n, (scorer.upper - scorer.lower) / 2.0)
    assert np.isfinite(sums).all()
    assert 0.99 * charged < worst <= charged
    # What the grids were made of, in units of the scale of the noise.
    rho, half = 0.2, (scorer.upper - scorer.lower) / 2
    epsilon0 = math.sqrt(8 * rho)
    grid = exponential_grid(2 * charged, epsilon0, n * half)
    assert 2 * worst / grid / 2**SCALE_BITS <= epsilon0
    grid = gaussian_grid(charged, 1 / math.sqrt(2 * rho), 1, n * half)
    assert worst / grid / 2**SCALE_BITS <= math.sqrt(2 * rho)


def test_moments_change_by_what_is_charged():
    """For one replaced record; the law of the worst change is in docs/proofs/search.md."""
    grid = np.unique(np.r_[np.linspace(-1.0, 1.0, 401), 1.0 - (3.0 - math.sqrt(0.5)) / 2.0])
    error = clipped_squared_error(Target(5.0, 0.0, 1.0)).record_score
    moments = np.array([error.moments(np.array([u])) for u in (*grid, -np.inf, 7.0, 1e300)])
    assert np.linalg.norm(moments, axis=1).max() <= _selection.MOMENTS_NORM * (1 + 1e-15)
    changes = np.linalg.norm(moments[:, None] - moments[None], axis=2)
    assert 0.998 * _selection.MOMENTS_CHANGE < changes.max() <= _selection.MOMENTS_CHANGE


def test_noisy_r2_is_that_of_clipped_numbers_plus_noise_of_the_stated_deviation(monkeypatch):
    n, k, source = 4000, 3, np.random.default_rng(0)
    target = Target(9.0, 0.4, 2.0)
    scorer = clipped_squared_error(target)
    y = source.normal(1.0, 1.5, n)  # neither centred nor within the scale
    u = target.apply(y)
    sums, expected = [], []
    for mix in (0.0, 0.5, 1.0):
        predicted = y.mean() + mix * (y - y.mean()) + source.normal(0.0, 0.1, n)
        sums.append(_selection.centred_sum(scorer.of_response(y, predicted), scorer))
        errors = np.minimum((u - target.apply(predicted)) ** 2, 1.0)
        expected.append(1.0 - errors.mean() / u.var())
    released = []
    with monkeypatch.context() as patch:
        release = _selection.release
        patch.setattr(
            _selection, "release", lambda *args: released.append(args[2:4]) or release(*args)
        )
        without_noise, _ = _selection.noisy_r2(np.array(sums), scorer, y, 1e12, rng(1))
    np.testing.assert_allclose(without_noise, expected, atol=1e-4)
    ((sensitivity, multiplier),) = released  # one release, of all numbers, for the whole budget
    assert sensitivity >= math.sqrt(k + _selection.MOMENTS_CHANGE**2)
    assert multiplier == pytest.approx(1 / math.sqrt(2e12))
    draws = [_selection.noisy_r2(np.array(sums), scorer, y, 0.02, rng(s)) for s in range(2, 402)]
    noise = np.array([scores - expected for scores, _ in draws])
    stated = np.mean([std for _, std in draws], axis=0)
    # 400 draws of a ratio: a deviation is known within a tenth.
    np.testing.assert_allclose(noise.std(axis=0), stated, rtol=0.2)
    assert (np.abs(noise.mean(axis=0)) < 0.25 * stated).all()


def recorded_sums(monkeypatch, fit, module, names):
    """The sums to which a search or a cross-validation adds noise, and the parts it used."""
    seen, parts = [], []

    def stub(estimator, train, validation, scorer, keep):
        parts.append((train, validation))
        response = np.sin(np.arange(20))  # as if it had been released
        if len(parts) % 2:
            response = np.round(np.abs(response))
        return original(Fixed(response), train, validation, scorer, keep)

    original = search_module.fit_and_sum
    with monkeypatch.context() as patch:
        patch.setattr(module, "fit_and_sum", stub)
        for name in names:
            release = getattr(module, name)

            def record(sums, *args, release=release):
                seen.append(np.array(sums))
                return release(sums, *args)

            patch.setattr(module, name, record)
        fit()
    return np.concatenate(seen), parts


SEARCHES = {
    "composition": {"strategy": "composition"},
    "scores": {"return_scores": True},
    "random stopping": {"strategy": "random-stopping"},
}


@pytest.mark.parametrize("case", SEARCHES)
@pytest.mark.parametrize("regression", [False, True])
def test_one_record_moves_the_sums_of_its_part_only(monkeypatch, case, regression):
    """The same seed: given what was released, each sum changes by at most the width."""
    n = 20
    X = np.column_stack([np.arange(n), np.zeros(n)])
    y = np.tile([0.0, 1.0], n // 2)
    scorer = None
    if regression:
        model = PrivateLasso(feature_bound=n, target_bound=1.0)
        scorer = ERROR  # a given scale: that of the search is a release
    else:
        model = PrivateLogisticL1(feature_bound=n, classes=[0.0, 1.0])

    def sums(y):
        search = PrivateGridSearchCV(
            model,
            {"radius": [1.0, 2.0, 3.0]},
            epsilon=50.0,
            scoring=scorer,
            refit=True,
            validation_fraction=0.3,
            random_state=0,
            **SEARCHES[case],
        )
        names = ["choose_winner", "shown_scores", "best_try"]
        return recorded_sums(monkeypatch, lambda: search.fit(X, y), search_module, names)

    before, parts = sums(y)
    in_validation = set(parts[0][1].X[:, 0].astype(int))
    assert len(in_validation) == 6
    for train, validation in parts:  # one split for all
        assert set(validation.X[:, 0].astype(int)) == in_validation
        assert set(train.X[:, 0].astype(int)) == set(range(n)) - in_validation
    worst = 0.0
    for i in [*in_validation, *list(set(range(n)) - in_validation)[:3]]:
        changed = y.copy()
        changed[i] = 1.0 - y[i]
        after, again = sums(changed)
        np.testing.assert_array_equal(again[0][1].X, parts[0][1].X)  # nothing moves the split
        change = np.abs(after - before).max()
        assert change <= (replace_one(6, 0.5) if i in in_validation else 0.0)
        worst = max(worst, change)
    assert worst > 0.5


def test_scale_of_the_target_is_that_of_the_validation_part():
    n = 400
    X = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    order = np.random.RandomState(0).permutation(n)
    y = X[:, 0].copy()
    model = PrivateLasso(target_bound=100.0)

    def scale(y):
        search = PrivateGridSearchCV(
            model, {"radius": [1.0]}, epsilon=50.0, strategy="composition", random_state=0
        )
        return search.fit(X, y).scorer_.record_score.target.scale

    first = scale(y)
    y[order[80:]] *= 100.0
    assert scale(y) == first
    y[order[:80]] *= 100.0
    assert scale(y) > 50.0 * first


def test_one_record_moves_the_cross_validated_sum_by_its_own_score(monkeypatch):
    n = 20
    X = np.column_stack([np.arange(n), np.zeros(n)])
    y = np.tile([0.0, 1.0], n // 2)
    model = PrivateLogisticL1(feature_bound=n, classes=[0.0, 1.0])

    def total(y):
        def fit():
            private_cross_val_score(model, X, y, epsilon=5.0, cv=3, random_state=0)

        return recorded_sums(monkeypatch, fit, validation_module, ["shown_scores"])

    before, parts = total(y)
    numbers = np.concatenate([fold.X[:, 0] for _, fold in parts])
    assert sorted(numbers) == list(range(n))  # folds are disjoint, and cover
    for train, validation in parts:
        both = np.concatenate([train.X[:, 0], validation.X[:, 0]])
        assert sorted(both) == list(range(n))
    changes = []
    for i in range(n):
        changed = y.copy()
        changed[i] = 1.0 - y[i]
        changes.append(abs((total(changed)[0] - before).item()))
    assert max(changes) == pytest.approx(1.0)
    assert max(changes) <= replace_one(n, 0.5)


def test_the_noise_of_a_cross_validated_score():
    """Its deviation is what is reported: that of one record, over sqrt(2 rho)."""
    n, fits = 60, 150
    X = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    y = (X[:, 0] > 0).astype(int)
    y[::5] = 1 - y[::5]  # so that no score comes close to 1, where it would be clipped
    model = PrivateLogisticL1(epsilon=1e5, radius=2.0, n_iter=1, classes=[0, 1])
    scores = []
    for seed in range(fits):
        result = private_cross_val_score(model, X, y, epsilon=40.0, cv=2, random_state=seed)
        scores.append(result.score)
    spent = result.privacy.rho - model._budget().rho  # cv - 1 = 1 fit
    assert result.noise_std == pytest.approx(1 / math.sqrt(2 * spent) / n, rel=1e-5)
    noise = (np.array(scores) * n) % 1.0  # sums are whole numbers
    noise = np.where(noise > 0.5, noise - 1.0, noise)
    assert result.noise_std * n < 0.2
    square = (noise**2).sum() / (result.noise_std * n) ** 2
    assert FALSE_ALARM < stats.chi2.cdf(square, fits) < 1 - FALSE_ALARM
    assert stats.chi2.cdf(square / 2, fits) < FALSE_ALARM  # the power
    assert stats.chi2.sf(2 * square, fits) < FALSE_ALARM


@pytest.mark.parametrize("tries", [None, Poisson(3.0)])
@pytest.mark.parametrize("bound", [None, 1.0])
def test_cost_of_the_scale_is_part_of_the_search(tries, bound):
    share, budget = 0.4, Budget(1.0, 1e-6)
    plan = _selection.plan_search(budget, 5, 2000, "r2", bound, share, tries)
    scale = rho_of(plan.scores.event)
    assert scale > 0.01 * share * budget.rho
    assert scale + plan.scores.rho == pytest.approx(share * budget.rho, rel=1e-12)
    assert plan.rho_refit == pytest.approx((1 - share) * budget.rho, rel=1e-12)
    if tries is None:
        expected = ZCDPEvent(share * budget.rho)
    else:
        expected = compose(RandomStoppingEvent(plan.rho_fit, tries), plan.scores.event)
    assert plan.event == compose(expected, ZCDPEvent(plan.rho_refit))
    assert epsilon_of(plan.event, 1e-6) <= 1.0
