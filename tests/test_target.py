"""Private bound, centre and scale of a regression target."""

import numpy as np
import pytest
from cases import each

from skdpsco import (
    PrivateGroupDRO,
    PrivateLasso,
    PrivateLinearRegressor,
    PrivateMinimaxRegressor,
    PrivateMonotoneGLM,
)
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.privacy import NoOpEvent, epsilon_of, rho_of
from skdpsco.privacy.events import leaves
from skdpsco.scaling.target import (
    FIELD,
    TARGET,
    Target,
    count_targets,
    declared_target,
    plan_target,
    release_target,
)

seeded_fits = pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")


def seeded(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def searches(plan):
    return [one for one in (plan.magnitude, *plan.centre, plan.scale) if one is not None]


@each("bound", [3.0, None])
@each("centred", [True, False])
@each("n_targets", [1, 3])
@each("rho", [1e-5, 0.02, 1.0, 1e4])
@each("n", [1, 10, 1000, 10**6])
def test_every_search_has_the_noise_that_is_charged(n, rho, n_targets, centred, bound):
    plan = plan_target(bound, centred, n, rho, n_targets)
    assert rho_of(plan.event) <= TARGET.most * rho * (1.0 + 1e-9)
    assert (plan.magnitude is None) == (bound is not None)
    assert len(plan.centre) <= 2 * centred
    charged = {leaf.noise_multiplier: count for leaf, count in leaves(plan.event)}
    needed = [n_targets * multiplier for multiplier in charged]
    for one in searches(plan):
        assert charged[min(charged, key=lambda z: abs(n_targets * z - deviation_on(one.grid)))]
        assert deviation_on(one.grid) >= min(needed)
        assert one.n_counts in (charged.values()) or len(charged) < len(searches(plan))
    assert sum(charged.values()) == sum(one.n_counts for one in searches(plan))


LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "far": lambda rng, n: 2000.0 + 10.0 * rng.normal(size=n),
    "tiny": lambda rng, n: 1e-4 * (1.0 + rng.normal(size=n)),
    "nanoseconds": lambda rng, n: 1.7e18 + 1e16 * rng.normal(size=n),
    "prices": lambda rng, n: 250_000.0 + 80_000.0 * rng.normal(size=n),
    "exponential": lambda rng, n: 30.0 * rng.exponential(size=n),
    "log-normal": lambda rng, n: np.exp(rng.normal(size=n)),
    "uniform": lambda rng, n: rng.uniform(-1.0, 1.0, n),
    "counts": lambda rng, n: rng.poisson(3.0, n).astype(float),
    "student": lambda rng, n: rng.standard_t(2, n),
}


@each("law", list(LAWS))
@each("bound", [None, 8.0])
def test_centre_and_scale_are_hardly_ever_far_off(law, bound):
    """1,000 records at epsilon .5, without a bound and with one that is eight times too large."""
    n, n_mu = 1000, 100.0
    y = LAWS[law](np.random.default_rng(0), n)
    bound = bound and bound * np.abs(y).max()
    plan = plan_target(bound, True, n, (n_mu / n) ** 2 / 2.0)
    tail = plan.scale.tolerated / n
    found = [release_target(plan, y, seeded(seed)) for seed in range(200)]
    spread = np.quantile(np.abs(y - np.median(y)), 1.0 - tail)
    ratios = np.array([target.scale for target in found]) / spread
    errors = np.array([target.centre for target in found]) - np.median(y)
    assert ratios.min() > 0.4
    assert np.quantile(ratios, 0.97) < 3.0
    assert np.mean(ratios > 6.0) <= 0.01
    assert np.quantile(np.abs(errors), 0.99) < 2.0 * spread
    assert 0.7 < np.median(ratios) < 1.5
    for target in found:
        assert bound in (None, target.bound)
        assert np.abs(target.apply(y)).max() <= 1.0


@each("n_targets", [1, 3])
def test_noise_grows_with_the_number_of_targets(n_targets):
    """Counts do too: what is found is as it is for one."""
    one, several = plan_target(None, True, 2000, 0.1), plan_target(None, True, 2000, 0.1, n_targets)
    assert several.event == one.event
    for alone, together in zip(searches(one), searches(several), strict=True):
        assert together.grid == pytest.approx(n_targets * alone.grid, rel=1e-6)
        assert together.tolerated == pytest.approx(n_targets * alone.tolerated)
    y = 300.0 + np.random.default_rng(0).normal(size=(2000, n_targets))
    found = [release_target(several, y, seeded(seed)) for seed in range(15)]
    assert max(abs(target.centre - 300.0) for target in found) < 1.0
    assert 1.5 < np.median([target.scale for target in found]) < 5.0


@seeded_fits
@pytest.mark.filterwarnings("ignore:target_bound=1000 seems")
@pytest.mark.parametrize("noise", ["normal", "none"])
def test_a_generous_bound_costs_little(noise):
    """A bound 500 times too wide, or none; without the scale the noise would be as much larger."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=20_000) * (noise == "normal")
    best = 0.78 if noise == "normal" else 1.0
    for bound in (2.0, 1000.0, None):
        model = PrivateLasso(epsilon=2.0, target_bound=bound, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.9 * best


def test_targets_with_other_fields():
    y = np.array([(3.0, 1), (-9.0, 0), (0.5, 2)], dtype=[(FIELD, float), ("group", int)])
    target = Target(4.0, 1.0, 2.0)
    seen = target.apply(y)
    assert seen[FIELD].tolist() == target.apply(y[FIELD]).tolist() == [1.0, -1.0, -0.25]
    assert seen["group"].tolist() == [1, 0, 2]
    assert y[FIELD].tolist() == [3.0, -9.0, 0.5]
    arguments = 4.0, 1.0, True, np.array([1.0, 2.0, 6.0])
    up_to, n = count_targets(None, y, *arguments)
    assert (up_to.tolist(), n) == ([1, 2, 3], 3)


def test_a_declared_unit_releases_nothing():
    plan = declared_target(4.0)
    assert plan.event == NoOpEvent()
    assert plan.extremes == (plan.release(None, None, None),) == (Target(4.0, 0.0, 4.0),)


def in_two_groups(**params):
    return PrivateGroupDRO(loss="squared", group_membership="public", **params)


@pytest.mark.parametrize(
    "make",
    [
        in_two_groups,
        lambda **params: PrivateMonotoneGLM(link="identity", **params),
        PrivateMinimaxRegressor,
        lambda **params: PrivateMinimaxRegressor(losses="huber", **params),
        PrivateLinearRegressor,
    ],
)
@seeded_fits
def test_every_regression_finds_a_far_target(make):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 3))
    y = 250_000.0 + 80_000.0 * (X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=4000))
    groups = {"sensitive_features": np.arange(4000) % 2} if make is in_two_groups else {}
    for bound in (None, 1e7):
        model = make(target_bound=bound, epsilon=4.0, random_state=0).fit(X, y, **groups)
        assert model.score(X, y) > 0.5
        assert "targets are clipped to ±" in str(model.privacy_)
        assert epsilon_of(model.privacy_.event, model.delta) <= 4.0


@seeded_fits
def test_a_given_radius_keeps_declared_units(monkeypatch):
    """In models whose ball would be another one in other units."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (1000, 3)), rng.normal(size=1000)
    given = {"radius": 1.0, "target_bound": 4.0, "random_state": 0}
    groups = {"sensitive_features": np.arange(1000) % 2}
    for model, options in (
        (in_two_groups(**given), groups),
        (PrivateMonotoneGLM(link="identity", **given), {}),
        (PrivateMinimaxRegressor(**given), {}),
        (PrivateLinearRegressor(**given), {}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("skdpsco.scaling.target.search", None)
            model.fit(X, y, **options)
        model.set_params(target_bound=None)  # nothing is declared
        assert epsilon_of(model.fit(X, y, **options).privacy_.event, 1e-6) <= 1.0
