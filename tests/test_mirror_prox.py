"""Mirror prox and recursive regularisation: optima, budgets, sensitivities, constants."""

import math

import numpy as np
import pytest

from skdpsco.constraints import L2Ball, Simplex
from skdpsco.privacy import mu_of
from skdpsco.solvers import Allowance
from skdpsco.solvers.saddle.geometry import Block
from skdpsco.solvers.saddle.mirror_prox import MIRROR_METHODS, MirrorProx
from skdpsco.solvers.saddle.problem import VariationalProblem, calibration
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation, pull_weights

NOISELESS = Allowance(1e10)  # rounding to the grid is all that is left


class Game:
    """Mean payoff matrices, and a public ridge for both players."""

    saddle = True

    def __init__(self, m, k, ridge=0.0, smooth=True):
        self.m, self.ridge = m, ridge
        bound = 1.0 + ridge  # of payoffs within [-1, 1]
        self.blocks = (Block(Simplex(), m, bound), Block(Simplex(), k, bound))
        self.smoothness = [[ridge, 1.0], [1.0, ridge]] if smooth else None

    def total(self, z, data):
        A, n = data[0].sum(axis=0), len(data[0])
        w, v = z[: self.m], z[self.m :]
        return np.concatenate([A @ v + n * self.ridge * w, -A.T @ w + n * self.ridge * v])

    def gap(self, z, A):
        """Strong gap without ridge."""
        return float((A.T @ z[: self.m]).max() - (A @ z[self.m :]).min())


def payoffs(n, m, k, seed=0):
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-1, 1, (m, k))
    return np.clip(centre + 0.5 * rng.standard_normal((n, m, k)), -1, 1)


class Rotation:
    """G(z; x) = R z - x in a Euclidean ball, R monotone but no gradient."""

    saddle = False

    def __init__(self, size=4, symmetric=0.2):
        upper = np.triu(np.ones((size, size)), 1)
        R = upper - upper.T + symmetric * np.eye(size)
        self.R = R / np.linalg.norm(R, 2)
        self.blocks = (Block(L2Ball(1.0), size, 2.0),)
        self.smoothness = [[1.0]]

    def total(self, z, data):
        return len(data[0]) * (self.R @ z) - data[0].sum(axis=0)

    def gap(self, z, mean):
        """Minty gap sup <G(u), z - u> over the ball, a concave problem."""
        import cvxpy as cp

        u = cp.Variable(len(z))
        symmetric = 0.5 * (self.R + self.R.T)
        value = (self.R.T @ z + mean) @ u - cp.quad_form(u, cp.psd_wrap(symmetric)) - mean @ z
        return cp.Problem(cp.Maximize(value), [cp.norm(u) <= 1]).solve(solver=cp.CLARABEL)


def unit_rows(n, size, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, size)) + 1.0
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)


def solve(solver, operator, data, budget, seed=0, **options):
    problem = VariationalProblem(operator, len(data[0]))
    plan = solver.plan(problem, budget, **options)
    return solver.run(plan, problem, data, np.random.default_rng(seed)), plan


@pytest.mark.parametrize("method", MIRROR_METHODS[1:])
def test_without_noise_a_regularised_game_is_solved(method):
    import cvxpy as cp

    m, k, ridge = 5, 4, 0.5
    A = payoffs(50, m, k)
    z, _ = solve(MirrorProx(method), Game(m, k, ridge), (A,), NOISELESS, n_iter=2000)
    # max over v of c'v - ridge/2 v'v is a minimum over the multipliers of the simplex.
    M = A.mean(axis=0)
    w, s, t = cp.Variable(m), cp.Variable(k, nonneg=True), cp.Variable()
    slope = M.T @ w - t + s
    value = ridge / 2 * cp.sum_squares(w) + t + cp.sum_squares(slope) / (2 * ridge)
    cp.Problem(cp.Minimize(value), [w >= 0, cp.sum(w) == 1]).solve(solver=cp.CLARABEL)
    saddle = np.concatenate([w.value, slope.value / ridge])
    assert np.abs(saddle - np.concatenate([np.full(m, 1 / m), np.full(k, 1 / k)])).max() > 0.1
    np.testing.assert_allclose(
        z, saddle, atol={"mirror-prox": 0.01, "mirror-descent": 0.05}[method]
    )


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("method", MIRROR_METHODS[1:])
def test_gap_is_within_its_bound(method, smooth):
    A = payoffs(2000, 6, 5)
    operator = Game(6, 5, smooth=smooth)
    for budget in (NOISELESS, Allowance(0.05)):
        z, plan = solve(MirrorProx(method), operator, (A,), budget, n_iter=300)
        # The bound is for a fixed comparison point, and the gap a maximum: noise is small here.
        assert 0 <= operator.gap(z, A.mean(axis=0)) <= plan.schedule.bound


@pytest.mark.parametrize("known", [None, 1.0])
def test_sensitivity_over_neighbours(known):
    # Payoffs of +1 against -1 are the worst, where every action is paid alike.
    n, m, k = 5, 4, 3
    operator = Game(m, k)
    rng = np.random.default_rng(0)
    largest = np.zeros(2)
    signs = [np.ones((m, k)), -np.ones((m, k)), *rng.choice([-1.0, 1.0], (60, m, k))]
    rest = rng.uniform(-1, 1, (n - 1, m, k))
    for _ in range(20):
        z = np.concatenate([rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(k))])
        totals = [operator.total(z, (np.concatenate([rest, a[None]]),)) for a in signs]
        for one in totals[:3]:
            for other in totals:
                move = one - other
                norms = [np.linalg.norm(move[:m]), np.linalg.norm(move[m:])]
                largest = np.maximum(largest, norms)
    sensitivity = np.array(calibration(VariationalProblem(operator, n), 1.0)[0])
    assert (largest <= sensitivity).all()
    assert (largest >= 0.999 * sensitivity).all()
    if known is not None:  # what is stated instead is used
        operator.blocks = tuple(
            b.__class__(b.constraint, b.size, 1.0, known) for b in operator.blocks
        )
        stated = np.array(calibration(VariationalProblem(operator, n), 1.0)[0])
        assert (stated >= known).all()
        assert stated == pytest.approx(known, rel=1e-9)


def test_inequalities_return_a_uniformly_random_iterate():
    x, visited, indices = unit_rows(20, 4), [], []

    class Logging(Rotation):
        def total(self, z, data):
            visited.append(z)
            return super().total(z, data)

    for seed in range(200):
        visited.clear()
        z, _ = solve(MirrorProx("mirror-prox"), Logging(), (x,), NOISELESS, seed, n_iter=5)
        # The operator is not evaluated at the last of them.
        found = np.flatnonzero([np.allclose(z, other, atol=1e-12) for other in visited[1::2]])
        index = found[0] if len(found) else 4
        indices.append(index)
    assert len(visited) == 9  # all are computed, whichever is chosen
    # Each has 40 expected, deviation 5.7: false alarm below 1e-7.
    assert np.abs(np.bincount(indices, minlength=5) - 40).max() < 35


def test_constants_of_the_recursion():
    solver = RecursiveRegularisation(MirrorProx(max_calls=10**6))
    for operator in (Game(3, 3), Rotation()):
        problem = VariationalProblem(operator, 10**8)
        plan = solver.plan(problem, Allowance(1.0))
        geometry, T = problem.geometry, len(plan.sizes)
        L, B, kappa = geometry.bound, geometry.diameter, geometry.kappa
        assert T > 1
        assert sum(plan.sizes) == 10**8
        assert max(plan.sizes) - min(plan.sizes) <= 1
        assert mu_of(plan.event) == pytest.approx(Allowance(1.0).mu)
        assert 2**T * plan.lam * B <= L <= 2 ** (T + 1) * plan.lam * B * (1 + 1e-12)
        part = VariationalProblem(operator, min(plan.sizes))
        drift = L * L if operator.saddle else 2 * L * (L + problem.smoothness * B)
        for t, one in enumerate(plan.plans, start=1):
            weights = pull_weights(problem, plan.lam, t)
            # Strong monotonicity of round t, as the proof has it.
            power = 2 if operator.saddle else 1
            assert sum(weights) == pytest.approx((2 ** (t + power) - 2**power) * plan.lam)
            outside = weights[:-1] if operator.saddle else weights
            assert sum(outside) * B <= 2 * L
            distance = min(2.25 * B / 2**t, geometry.radius if t == 1 else B)
            expected = solver.solver.schedule(
                VariationalProblem(operator, plan.sizes[t - 1]),
                Allowance(1.0),
                distance=distance,
                drift=sum(outside) * B,
            )
            assert one.schedule == expected
            alpha = solver.solver.schedule(part, Allowance(1.0), None, B, 2 * L).bound / B
            assert one.schedule.bound / distance <= alpha * (1 + 1e-12)
            least = 4 * kappa / B * (alpha + math.sqrt(drift / min(plan.sizes)))
            assert plan.lam >= least * (1 - 1e-12)
        factor = 12 * T + 2 * math.sqrt(2) if operator.saddle else 6 * T + 2
        assert plan.gap == pytest.approx(factor * plan.lam * B**2)
