"""Statistical audits: what an observer of many fits can prove about epsilon.

Neighbours S, S' and an event E are fixed beforehand. From the numbers of hits `skdpsco.inspection`
bounds epsilon from below, with a false alarm below 1e-6 per audit. Every audit is repeated on a
mechanism with too little noise, which it must convict.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from skdpsco import PrivateLasso, PrivateLogisticL1
from skdpsco.constraints import L1Ball, L2Ball, Simplex
from skdpsco.data.design import as_design
from skdpsco.inspection import audit
from skdpsco.inspection._trade_off import ApproximateGuarantee, lower_bound
from skdpsco.losses import Logistic, Squared
from skdpsco.mechanisms import samplers as m
from skdpsco.privacy import Budget, gaussian_mu
from skdpsco.privacy.events import leaves
from skdpsco.solvers import (
    AnytimeMirrorDescent,
    FrankWolfe,
    NoisyFrankWolfe,
    Problem,
    Stagewise,
)
from skdpsco.solvers.l1 import frank_wolfe as frank_wolfe_module
from skdpsco.solvers.l1 import vertex_path as path_module
from skdpsco.solvers.lp_ball import anytime_mirror_descent as anytime_module
from skdpsco.solvers.penalized import gradient_descent as descent_module

ALARM = 1e-6


def audited_epsilon(hits, hits_of_neighbour, n, delta):
    """Lower bound on epsilon, which fails with probability at most ALARM."""
    return lower_bound(lambda e: ApproximateGuarantee(e, delta), hits, hits_of_neighbour, n, ALARM)


def test_the_bound_on_epsilon_is_one():
    """Randomised response of known epsilon: never above, and not far below."""
    n, epsilon = 20_000, 2.0
    p = 1 / (1 + math.exp(-epsilon))
    rng = np.random.default_rng(0)
    for _ in range(50):
        bound = audited_epsilon(rng.binomial(n, p), rng.binomial(n, 1 - p), n, 0.0)
        assert epsilon - 0.15 < bound <= epsilon


def test_gaussian_release():
    """At (2, 1e-3) the exact curve is tight: P(E | S) - exp(epsilon) P(E | S') is delta.

    Here to 5.5 standard errors, of 1.5e-4 each. With half the noise it would be 0.14.
    """
    epsilon, delta, n = 2.0, 1e-3, 4_000_000
    mu = gaussian_mu(epsilon, delta)
    grid = m.gaussian_grid(1.0, 1 / mu, 1, 10.0)

    def hits(rng, value, grid, threshold, n):
        released = np.full(n, value)
        m.gaussian_mechanism(rng, released, grid)
        return int((released > threshold).sum())

    def audit(grid, threshold):
        rng = np.random.Generator(np.random.PCG64(0))
        a, b = hits(rng, 1.0, grid, threshold, n), hits(rng, 0.0, grid, threshold, n)
        excess = a / n - math.exp(epsilon) * b / n
        error = math.sqrt(a + math.exp(2 * epsilon) * b) / n
        return audited_epsilon(a, b, n, delta), excess, error

    # The likelihood ratio is exp(mu**2 (v - 1/2)): it exceeds exp(epsilon) above the threshold.
    bound, excess, error = audit(grid, 0.5 + epsilon / mu**2)
    assert error < 1.6e-4
    assert abs(excess - delta) < 5.5 * error
    assert bound <= epsilon
    bound, excess, _ = audit(grid / 2, 0.5 + epsilon / (4 * mu**2))
    assert bound > epsilon
    assert excess > 100 * delta


@pytest.mark.parametrize("mechanism", ["exponential", "laplace"])
def test_one_choice_of_frank_wolfe(mechanism):
    """One step over a simplex, one record: pure epsilon0 = 2, of which 1.4 can be proved here.

    With half the noise more than 3 can.
    """
    n, d, epsilon0 = 20_000, 20, 2.0
    problem = Problem(Squared(1.0), Simplex(1.0), 1, d)
    rho = {"exponential": epsilon0**2 / 8, "laplace": epsilon0**2 / 2}[mechanism]
    budget = type("Given", (), {"rho": rho, "mu": math.sqrt(2 * rho)})()
    plan = FrankWolfe(mechanism).plan(problem, budget, 1)
    ((leaf, _),) = leaves(plan.event)
    assert leaf.epsilon0 == pytest.approx(epsilon0)
    # The first coefficient against all others: all scores change, by 2 in opposite directions.
    X = np.full((1, d), -1.0)
    X[0, 0] = 1.0
    design = as_design(X, np.ones(d), False)

    def hits(plan, target, seed):
        rng = np.random.Generator(np.random.PCG64(seed))
        y, progress, total = np.array([target]), np.zeros(1, dtype=np.int64), 0
        for _ in range(n):
            _, chosen, _ = path_module.run_vertices(
                plan, problem, problem.constraint, design, y, rng, progress
            )
            total += chosen[0] == 0
        return total

    half = dataclasses.replace(plan.path, grid=tuple(g / 2 for g in plan.path.grid))
    bounds = [audited_epsilon(hits(p, 1.0, 0), hits(p, -1.0, 1), n, 0.0) for p in (plan.path, half)]
    assert 0.7 < bounds[0] <= epsilon0
    assert bounds[1] > epsilon0


EPSILON, DELTA, FITS = 2.0, 1e-3, 1000


class DescentOnly(Stagewise):
    """Gradient descent on all coordinates, which three records would not be offered."""

    def plan(self, problem, budget, n_iter=None):
        return self._in_all_coordinates(problem, budget, problem.constraint.radius, False)


# A path spends its budget on several releases, and the sign shows a part of them: it is audited at
# a delta that asks for less, in a ball so small that the sign is that of the last gradient.
SMALL = {"epsilon": 0.5, "delta": 0.1, "radius": 0.1}

# One record flips its target, the others are zero. Noise is planted that is too small by the given
# factor, which so many fits convict. That it is more than two is the price of an event that is only
# the sign of one coefficient, and of charges that one fit does not exhaust.
CASES = [
    (PrivateLasso, {"solver": "noisy-frank-wolfe", "n_iter": 1}, [frank_wolfe_module], 6),
    # With three records a fifth of rho is left to the descent, since the target is searched before:
    # its noise is 2.2 times as large, and 13 about what a factor of 6 would be of all.
    (PrivateLasso, {"solver": DescentOnly()}, [descent_module], 13),
    (PrivateLogisticL1, {"solver": DescentOnly()}, [descent_module], 10),
    (PrivateLogisticL1, {"solver": "frank-wolfe", "n_iter": 3}, [path_module], 8),
    (
        PrivateLogisticL1,
        {"solver": AnytimeMirrorDescent(shuffle=False), "n_iter": 3},
        [anytime_module],
        24,
    ),
    (
        PrivateLogisticL1,
        {"solver": "stagewise", "n_iter": 3, **SMALL},
        [path_module, descent_module, m],
        24,
    ),
]


@pytest.mark.filterwarnings("ignore:delta=0.1 is large:skdpsco.UtilityWarning")
@pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")  # seeds: to be repeatable
@pytest.mark.parametrize(("estimator", "parameters", "modules", "factor"), CASES)
def test_whole_fits(monkeypatch, estimator, parameters, modules, factor):
    classifier = estimator is PrivateLogisticL1
    # With few records most of the budget finds the target's scale.
    n = 3 if classifier or modules == [descent_module] else 100
    parameters = {"epsilon": EPSILON, "delta": DELTA, "radius": 1.0, **parameters}
    model = estimator(
        fit_intercept=False,
        **parameters,
        **({"classes": [-1, 1]} if classifier else {"target_bound": 1.0}),
    )

    def audited():
        return audit(
            model,
            np.eye(n, 1),
            np.ones(n),
            statistic=lambda fitted: fitted.coef_.ravel()[0] > 0,
            n_fits=FITS,
            confidence=1.0 - ALARM,
            random_state=0,
        )

    honest = audited()
    names = ("gaussian_grid", "exponential_grid")
    for module, name in itertools.product(modules, names):
        if hasattr(module, name):
            original = getattr(module, name)
            monkeypatch.setattr(
                module, name, lambda *args, original=original: original(*args) / factor
            )
    assert not honest.convicted
    assert audited().epsilon_lower > model.epsilon


@pytest.mark.parametrize("value", [0.0, 1.0, 1 / 3, -0.7])
@pytest.mark.parametrize("constraint", [L2Ball(1.0), L1Ball(1.0)])
def test_noisy_gradients_are_on_the_public_grid(monkeypatch, value, constraint):
    problem = Problem(Logistic(), constraint, 5, 2)
    solver = NoisyFrankWolfe()
    plan = solver.plan(problem, Budget(1.0, 1e-6), 200)
    released = []
    mechanism = frank_wolfe_module.gaussian_mechanism

    def record(rng, values, grid):
        exact = values.copy()
        mechanism(rng, values, grid)
        released.extend((noisy, grid, x) for noisy, x in zip(values, exact, strict=True))

    monkeypatch.setattr(frank_wolfe_module, "gaussian_mechanism", record)
    design = as_design(np.full((5, 2), value), np.ones(2), False)
    rng, progress = np.random.default_rng(0), np.zeros(1, dtype=int)
    solver.run(plan, problem, design, np.ones(5), rng, progress)
    noisy, grid, exact = np.array(released).T
    assert len(noisy) == 400
    assert set(grid) == {plan.grid}  # the public one
    assert np.array_equal(np.rint(noisy / grid) * grid, noisy)
    # Noise in floating point would not be: the power of this test.
    naive = exact + np.random.default_rng(0).normal(size=400) * grid * 2.0**m.SCALE_BITS
    assert np.mean(np.rint(naive / grid) * grid == naive) < 0.01


def test_low_bits_of_releases_do_not_tell_zero_from_one(monkeypatch):
    """The attack of Mironov (2012) tells floating-point noise apart, and not that of a release.

    Among outputs within 1/8 of zero, 1 + noise is always a multiple of 2**-53, 0 + noise rarely.
    """

    def multiples(statistic):
        rng, found = np.random.Generator(np.random.PCG64(0)), []
        for _ in range(20_000):
            total = np.array([statistic])
            m.release(rng, total, 1.0, 1.0, 1.0)  # noise of standard deviation 1
            found.append(total[0])
        near = np.array(found) * 2.0**53
        near = near[np.abs(near) < 2.0**50]
        hits = int((np.rint(near) == near).sum())
        return hits, len(near) - hits

    table = np.array([multiples(0.0), multiples(1.0)])
    assert table.sum(axis=1).min() > 1000
    assert stats.fisher_exact(table).pvalue > 1e-7

    def naive(rng, values, grid):
        values += rng.normal(size=len(values)) * (grid * 2.0**m.SCALE_BITS)
        return m.deviation_on(grid)

    monkeypatch.setattr(m, "gaussian_mechanism", naive)
    table = np.array([multiples(0.0), multiples(1.0)])
    assert stats.fisher_exact(table).pvalue < 1e-20


@pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")  # seeds: to be repeatable
@pytest.mark.filterwarnings("ignore:target_bound=1 seems:skdpsco.UtilityWarning")  # all are 0
def test_low_bits_of_coefficients_do_not_tell_zero_from_one():
    """Trailing zero bits of coefficients of fits on x = 0 and on x = 1, by chi-square at 1e-7.

    A coefficient is a function of what was released, all of it on lattices that are public.
    """
    counts = []
    for x in (0.0, 1.0):
        bits = []
        for seed in range(1000):
            model = PrivateLasso(
                solver=DescentOnly(),
                epsilon=0.5,
                delta=1e-3,
                radius=1e3,
                target_bound=1.0,
                fit_intercept=False,
                random_state=2 * seed + int(x),
            )
            coef = model.fit(np.full((3, 1), x), np.zeros(3)).coef_[0]
            word = int(np.float64(coef).view(np.int64))
            bits.append((word & -word).bit_length() if coef else 0)
        assert np.count_nonzero(bits) > 300  # the others are below the soft threshold
        counts.append(np.bincount(bits, minlength=65)[1:])
    table = np.array(counts)
    table = table[:, table.sum(axis=0) >= 10]
    assert table.shape[1] > 3
    assert stats.chi2_contingency(table).pvalue > 1e-7
