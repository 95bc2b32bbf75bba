"""The public audit: exact levels, bounds that are nearly attained, bugs that it convicts."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse, stats
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsco import Ledger, PrivateLinearClassifier, PrivateLogisticL1, PrivateMoments, PrivateRidge
from skdpsco.data import columns_of
from skdpsco.inspection import _audit as module
from skdpsco.inspection import audit
from skdpsco.inspection._trade_off import (
    ApproximateGuarantee,
    GaussianGuarantee,
    least_found,
    lower_bound,
    p_value,
)
from skdpsco.mechanisms import gaussian_grid, gaussian_mechanism, summation_error
from skdpsco.preprocessing import PrivateFeatureSelector, PrivateStandardScaler
from skdpsco.privacy import GaussianEvent, gaussian_epsilon, gaussian_mu
from skdpsco.solvers import Plan, Result

GUARANTEES = [
    ApproximateGuarantee(1.0, 1e-3),
    ApproximateGuarantee(3.0, 0.0),
    ApproximateGuarantee(0.0, 0.1),
    GaussianGuarantee(0.5),
    GaussianGuarantee(2.0),
]

# ------------------------------------------------------------------------------ the bounds


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_false_alarms_are_as_rare_as_stated(guarantee):
    """Exactly, over all outcomes, for pairs of probabilities at the limit of what is allowed."""
    n, hits = 25, np.arange(26)
    levels = p_value(guarantee, hits[:, None], hits, n)
    for q in (1e-4, 0.01, 0.1, 0.3, 0.5, 0.8, 0.99):
        p = 1.0 - guarantee.least(1.0 - q)  # all these guarantees are symmetric
        law = np.outer(stats.binom.pmf(hits, n, p), stats.binom.pmf(hits, n, q))
        for alpha in (0.2, 0.05, 1e-3):
            assert law[levels <= alpha].sum() <= alpha
    assert (np.diff(levels, axis=0) <= 1e-9).all()  # more hits are more evidence
    assert (np.diff(levels, axis=1) >= -1e-9).all()
    assert np.all(levels[hits[:, None] <= hits] > 0.5)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_the_search_finds_the_least_favourable_pair(guarantee):
    n, p = 400, np.linspace(0.0, 1.0, 200_001)
    for a, b in [(400, 0), (300, 10), (200, 150), (5, 0), (390, 300)]:
        tails = stats.binom.sf(a - 1, n, p) * stats.binom.cdf(b, n, guarantee.least(p))
        c = tails.max()
        found = p_value(guarantee, a, b, n)
        assert found >= c * (1 - math.log(c)) * (1 - 1e-3) or found == 1.0
        assert found <= 1.01 * c * (1 - math.log(c / 1.01)) or a == 5


@pytest.mark.parametrize("make", [GaussianGuarantee, lambda e: ApproximateGuarantee(e, 1e-3)])
def test_bounds_are_below_the_truth_and_near_it(make):
    n, rng = 20_000, np.random.default_rng(0)
    for p, q in make(1.5).clearest()[::12]:
        bounds = [
            lower_bound(make, rng.binomial(n, p), rng.binomial(n, q), n, 1e-6) for _ in range(3)
        ]
        assert max(bounds) <= 1.5
        assert min(bounds) > (1.35 if 0.05 < q < 0.6 else 0.0)
    assert lower_bound(make, 10, 10, n, 1e-6) == 0.0
    assert lower_bound(make, n, 0, n, 1e-6) > 5.0  # so many fits prove no more
    assert lower_bound(make, n, 0, n, 1e-6) < 12.0


@pytest.mark.parametrize("make", [GaussianGuarantee, lambda e: ApproximateGuarantee(e, 1e-6)])
def test_power_is_that_of_simulated_audits(make):
    n, alpha, rng = 100, 0.01, np.random.default_rng(0)
    found = least_found([make(0.5)], make, n, alpha)
    powers = []
    for p, q in make(found).clearest():
        levels = p_value(make(0.5), rng.binomial(n, p, 400), rng.binomial(n, q, 400), n)
        powers.append(np.mean(levels <= alpha))
    assert 0.75 < max(powers) < 0.9
    assert least_found([make(0.5)], make, 2, alpha) == math.inf


# ------------------------------------------------------------------------------ planted bugs


@dataclasses.dataclass(frozen=True)
class DirectionPlan(Plan):
    grid: float = 0.0


class Direction:
    """One noisy sum of targets times features, whose l2 norm is clipped to 1."""

    noise = 1.0
    limit = 1.0
    change = 2.0

    def plan(self, problem, budget, n_iter=None):
        n, D = problem.n_samples, problem.n_coefficients
        sensitivity = self.change + 2.0 * math.sqrt(D) * summation_error(n + 1, 1.0)
        grid = self.noise * gaussian_grid(sensitivity, 1.0 / budget.mu, D, n * math.sqrt(D))
        return DirectionPlan(event=GaussianEvent(1.0 / budget.mu), n_iter=1, grid=grid)

    def run(self, plan, problem, X, y, rng, progress):
        rows = columns_of(X, 0, problem.n_samples, np.arange(problem.n_features))
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1) / self.limit, 1.0)[:, None]
        coef = y @ rows
        gaussian_mechanism(rng, coef, plan.grid)
        return Result(1e-6 * coef, plan.n_iter)  # into the ball: the direction is what counts


class HalfTheNoise(Direction):
    noise = 0.5


class NoClipping(Direction):
    limit = math.inf


class ChangeOfARemoval(Direction):
    change = 1.0


X, Y = np.zeros((4, 4)), np.array([0, 1, 0, 1])
ALARM = 1e-6


def model_with(solver):
    return PrivateLinearClassifier(
        solver=solver, epsilon=8.0, classes=[0, 1], fit_intercept=False, radius=1.0
    )


@pytest.mark.parametrize("solver", [Direction, HalfTheNoise, NoClipping, ChangeOfARemoval])
def test_planted_bugs_are_convicted(solver):
    result = audit(model_with(solver()), X, Y, n_fits=200, confidence=1 - ALARM, random_state=0)
    assert result.convicted == (solver is not Direction)
    assert result.mu == pytest.approx(gaussian_mu(8.0, 1e-6), rel=1e-6)
    assert result.detectable < gaussian_epsilon(2 * result.mu, 1e-6)  # such a bug is found
    if solver is Direction:
        assert 0.4 * result.mu < result.mu_lower < result.mu  # the statistic is nearly the best


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_too_little_noise_for_an_added_record_is_convicted(share, monkeypatch):
    """Noise of less than half the size, in one release of moments."""
    from skdpsco.moments import release

    honest = release.gaussian_grid
    monkeypatch.setattr(release, "gaussian_grid", lambda *args: share * honest(*args))
    moments = PrivateMoments(epsilon=8.0, conditioning=None, relation="add-or-remove-one")
    result = audit(moments, np.zeros((10, 1)), n_fits=200, confidence=1 - ALARM, random_state=0)
    assert result.convicted == (share < 1.0)
    assert result.epsilon == 8.0
    assert result.mu_lower > 0.0


def test_what_is_released_is_seen_wherever_it_is():
    """The default statistic finds a leak in any attribute, and in any step of a pipeline."""

    class Leaking(PrivateStandardScaler):
        def fit(self, X, y=None):
            super().fit(X)
            self.kept_ = X[:2].copy() if self.random_state % 2 else X[:1].copy()  # of any length
            self.mean_of_first_ = float(np.mean(X[0])) + 100.0 * (self.random_state % 3)
            return self

    pipeline = make_pipeline(Leaking(epsilon=0.5), PrivateStandardScaler(epsilon=0.5))
    result = audit(pipeline, X, neighbour={"X": X + np.eye(4)[:, :1]}, n_fits=60, random_state=1)
    assert result.convicted
    assert result.hits == (0, 30) or result.hits == (30, 0)


@pytest.mark.parametrize(
    "kept",
    [
        lambda x: {"of": {"the first": x}},
        lambda x: [(0.0, x)],
        lambda x: sparse.csr_array([[0.0, x]]),
        lambda x: Plan(GaussianEvent(1.0), int(np.sign(x))),
    ],
    ids=["dict", "list", "sparse", "dataclass"],
)
def test_parts_of_attributes_are_seen_too(kept):
    class Leaking(PrivateStandardScaler):
        def fit(self, X, y=None):
            super().fit(X)
            self.kept_ = kept(float(np.mean(X[0])))
            return self

    assert audit(Leaking(epsilon=0.5), X, n_fits=60, random_state=1).convicted


def test_what_is_nearly_constant_does_not_hide_the_rest():
    """The deviation of equal numbers is rounding, and that of a radius its last bit."""
    rng = np.random.default_rng(0)

    def seen(sign):
        near = np.where(rng.random(200) < 0.5, 1.0, np.nextafter(1.0, 0.0))
        coef = sign * np.where(rng.random(200) < 0.9, 1.0, -1.0)
        pairs = zip(near, coef, strict=True)
        return [{"rho_": np.full(1, 3.3504647), "r_": r[None], "coef_": c[None]} for r, c in pairs]

    claim = module._Claim(16.0, 1e-6, None)
    first, second = seen(1.0), seen(-1.0)
    event = module._clearest_event(claim, first[:100], second[:100], 0.01)
    assert event.hits(first[100:]) > 80
    assert event.hits(second[100:]) < 20


def test_moments_are_seen():
    moments = PrivateMoments(epsilon=16.0, feature_bound=1.0, conditioning=None)
    result = audit(moments, np.zeros((20, 1)), n_fits=200, random_state=0)
    assert 0.3 * result.mu < result.mu_lower < result.mu


def test_an_event_needs_no_fits_to_be_chosen():
    scaler = PrivateStandardScaler(epsilon=4.0)
    seen = []

    def event(fitted):
        seen.append(fitted.mean_[0])
        return fitted.mean_[0] > 0.0

    result = audit(scaler, np.zeros((20, 1)), statistic=event, n_fits=100, random_state=0)
    first, second = np.array(seen[::2]), np.array(seen[1::2])
    assert len(set(seen)) == 200  # no two fits share noise
    assert result.n_counted == 100
    assert result.hits == ((first > 0).sum(), (second > 0).sum())
    again = audit(scaler, np.zeros((20, 1)), statistic=event, n_fits=100, random_state=0)
    assert again == result
    value = audit(scaler, np.zeros((3, 1)), statistic=lambda m: m.mean_, n_fits=100, random_state=0)
    assert value.n_counted == 50
    assert value.mu_lower > 0.0


def test_results_are_the_same_in_parallel_and_cannot_be_changed():
    scaler = PrivateStandardScaler(epsilon=8.0)
    with parallel_config("threading"):
        one, two = (
            audit(scaler, np.zeros((3, 1)), n_fits=20, random_state=5, n_jobs=n) for n in (None, 2)
        )
    assert one == two
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.epsilon = 1.0
    assert "not convicted" in str(one)
    assert "mu" in str(one)
    assert "Privacy audit" in one._repr_html_()
    secret = dataclasses.replace(one, epsilon_lower=9.0, mu=None)
    assert secret.convicted
    assert "CONVICTED" in str(secret)
    assert "\nmu" not in str(secret)


def test_claims_of_other_libraries():
    ridge = Ridge()  # without privacy
    X = np.ones((5, 2))
    result = audit(ridge, X, np.arange(5.0), n_fits=40, epsilon=1.0, delta=0.0)
    assert result.convicted
    assert result.mu is None
    assert result.hits == (20, 0)
    assert result.detectable > 1.0


# ------------------------------------------------------------------------------ neighbours


def canaries(estimator, X, y=None):
    """The two data sets that are fitted."""
    return module._canaries(estimator, {"X": X, "y": y})


def test_canaries_are_at_the_declared_bounds():
    model = PrivateRidge(feature_bound=[1.0, 2.0], target_bound=3.0)
    first, second = canaries(model, np.full((3, 2), 0.5), [0, 1, 0])
    assert first["X"].tolist() == second["X"].tolist() == [[1.0, 2.0], [0.5, 0.5], [0.5, 0.5]]
    assert (first["y"].tolist(), second["y"].tolist()) == ([3.0, 1.0, 0.0], [-3.0, 1.0, 0.0])
    first, second = canaries(Ridge(), sparse.csr_matrix([[0.0, -4.0], [0.0, 2.0]]), np.zeros(2))
    assert sparse.isspmatrix_csr(first["X"])
    assert first["X"].toarray().tolist() == [[1.0, 4.0], [0.0, 2.0]]
    assert (first["y"].tolist(), second["y"].tolist()) == ([1.0, 0.0], [-1.0, 0.0])
    model = PrivateLogisticL1(classes=["a", "bcd"])
    first, second = canaries(model, np.zeros((2, 1)), np.array(["a", "a"]))
    assert (first["y"].tolist(), second["y"].tolist()) == (["bcd", "a"], ["a", "a"])
    first, second = canaries(PrivateFeatureSelector(classes=[0, 1]), np.zeros((2, 1)), [0, 0])
    assert (first["y"].tolist(), second["y"].tolist()) == ([1, 0], [0, 0])
    first, second = canaries(PrivateStandardScaler(), np.zeros((2, 1)))
    assert (first["X"][0, 0], second["X"][0, 0]) == (1.0, -1.0)


FINE = {"X": np.zeros((3, 1)), "y": np.zeros(3)}
MODEL = PrivateRidge(target_bound=1.0)
ADDED = PrivateRidge(target_bound=1.0, relation="add-or-remove-one")


@pytest.mark.parametrize(
    ("estimator", "arguments", "error", "match"),
    [
        (PrivateRidge, {}, TypeError, "estimator"),
        (PrivateRidge(ledger=Ledger(10.0, 1e-6)), {}, ValueError, "ledger must be None"),
        (
            make_pipeline(PrivateStandardScaler(ledger=Ledger(10.0, 1e-6)), PrivateRidge()),
            {},
            ValueError,
            "privatestandardscaler__ledger must be None",
        ),
        (make_pipeline(StandardScaler(), PrivateRidge()), {}, ValueError, "Not private"),
        (Ridge(), {}, ValueError, "must be private"),
        (MODEL, {"n_fits": 1}, ValueError, "n_fits must be an int >= 2"),
        (MODEL, {"n_fits": 2.0}, TypeError, "n_fits"),
        (MODEL, {"confidence": 1.0}, ValueError, r"confidence must be .* \(0, 1\)"),
        (MODEL, {"epsilon": 1.0}, ValueError, "both"),
        (MODEL, {"epsilon": -1.0, "delta": 0.0}, ValueError, "epsilon"),
        (MODEL, {"epsilon": 1.0, "delta": 2.0}, ValueError, r"delta .* \[0, 1\]"),
        (MODEL, {"statistic": "coef_"}, TypeError, "statistic must be callable"),
        (MODEL, {"random_state": -1}, ValueError, "random_state"),
        (MODEL, {"neighbour": np.zeros(3)}, TypeError, "neighbour must be a mapping"),
        (MODEL, {"neighbour": {"z": 1}}, ValueError, "neighbour must name arguments"),
        (MODEL, {"neighbour": {"y": np.zeros(3)}}, ValueError, "one record, got 0"),
        (MODEL, {"neighbour": {"y": np.ones(3)}}, ValueError, "one record, got 3"),
        (MODEL, {"neighbour": {"y": np.ones(4)}}, ValueError, "keep the shape of y"),
        (
            MODEL,
            {"neighbour": {"y": np.array([1.0, 0, 0]), "X": np.array([[0.0], [1.0], [0.0]])}},
            ValueError,
            "one record, got 2",
        ),
        (PrivateLogisticL1(), {}, ValueError, "two classes"),
        (MODEL, {"relation": "remove"}, ValueError, "relation must be one of"),
        (MODEL, {"relation": "add-or-remove-one"}, ValueError, "needs epsilon and delta"),
        (ADDED, {"neighbour": {"X": np.zeros((4, 1))}}, ValueError, "have y with one record more"),
        (ADDED, {"neighbour": {"X": np.zeros((3, 1))}}, ValueError, "have X with one record more"),
        (
            ADDED,
            {"neighbour": {"X": np.zeros((4, 1)), "y": np.ones(4)}},
            ValueError,
            "keep all others",
        ),
        (
            ADDED,
            {"neighbour": {"X": np.zeros((4, 1)), "y": np.zeros(2)}},
            ValueError,
            "keep all others",
        ),
        (
            ADDED,
            {"neighbour": {"X": np.zeros((4, 1)), "y": None}},
            ValueError,
            "have y with one record more",
        ),
        (MODEL, {"X": pd.DataFrame({"a": [0.0, 1.0, 2.0]})}, TypeError, "give neighbour"),
        (MODEL, {"X": [["a"], ["b"], ["c"]]}, TypeError, "give neighbour"),
    ],
)
def test_bad_input(estimator, arguments, error, match, monkeypatch):
    """All of it is found before any fit."""
    monkeypatch.setattr(module, "_fit", None)
    with pytest.raises(error, match=match):
        audit(estimator, **{**FINE, **arguments})


def test_a_record_is_added_or_removed(monkeypatch):
    seen = []

    def fit(estimator, data, seeds):
        seen.append(data)
        return estimator

    monkeypatch.setattr(module, "_fit", fit)
    weights = np.array([2.0, 1.0, 1.0])
    options = {"n_fits": 2, "epsilon": 1.0, "delta": 0.0}
    options |= {"statistic": lambda _: 0.0, "fit_params": {"sample_weight": weights}}
    audit(ADDED, **FINE, **options)
    for data, n in zip(seen[:2], (3, 2), strict=True):
        assert [len(data[name]) for name in ("X", "y", "sample_weight")] == [n] * 3
    assert (seen[0]["X"][0], seen[0]["y"][0]) == (1.0, 1.0)
    assert seen[1]["sample_weight"].tolist() == [1.0, 1.0]
    more = {name: np.append(value[:1], value, axis=0) for name, value in FINE.items()}
    more["sample_weight"] = np.array([2.0, 1.0, 9.0, 1.0])
    audit(MODEL, **FINE, **options, neighbour=more, relation="add-or-remove-one")
    assert seen[-1]["sample_weight"][2] == 9.0


def test_neighbours_are_compared_where_they_can_be():
    nothing = np.array([[np.nan, 1.0], [2.0, 3.0]])
    table = pd.DataFrame({"a": ["x", None, "y"], "b": [1, 2, 3]})
    for old, new, n_changed in (
        (nothing, nothing.copy(), 0),
        (sparse.eye(3), 2 * sparse.eye(3), 3),
    ):
        with pytest.raises(ValueError, match=f"one record, got {n_changed}"):
            module._neighbours({"X": old}, {"X": new}, False)
    for old, new in ((table, table.assign(b=[1, 5, 3])), (object(), object())):
        first, second = module._neighbours({"X": old}, {"X": new}, False)
        assert first["X"] is old
        assert second["X"] is new
