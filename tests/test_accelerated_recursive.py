"""Accelerated recursion: exact solutions, certificates, rounding, stability, constants."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from cases import each
from exact_projections import exact_projection

from skdpsco.constraints import L1Ball, L2Ball, LpBall, Simplex
from skdpsco.privacy import Budget, mu_of
from skdpsco.solvers import AcceleratedRecursive, Allowance
from skdpsco.solvers.saddle.accelerated_recursive import (
    ACCELERATED,
    Solve,
    _round,
    _Space,
    project_blocks,
)
from skdpsco.solvers.saddle.geometry import Geometry
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.variational import Block, Operator
from skdpsco.variational.solve import solve_variational_inequality

NOISELESS = Allowance(1e10)


class Affine:
    """G(z; x) = R z - x, R monotone but no gradient, on a product of sets."""

    saddle = False
    monotone = True

    def __init__(self, *constraints, size=3, symmetric=0.2, sensitivity=None):
        d = size * len(constraints)
        upper = np.triu(np.ones((d, d)), 1)
        R = upper - upper.T + symmetric * np.eye(d)
        self.R = R / np.linalg.norm(R, 2)
        # Records and R z have l2 norms of at most 1 and 2.
        self.blocks = tuple(Block(c, size, 3.0, sensitivity) for c in constraints)
        self.smoothness = np.ones((len(constraints),) * 2)
        self.calls = []

    def total(self, z, data):
        self.calls.append(len(data[0]))
        return len(data[0]) * (self.R @ z) - data[0].sum(axis=0)


def unit_rows(n, size, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, size)) + 0.5
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)


def exact_solution(problem, round_, data, centres):
    """Exact solution of the regularised inequality of a round."""
    solve = Solve(problem, round_, data, centres)
    z = solve.centre
    for _ in range(4_000):
        half = solve.nearest(z - round_.step * (solve.mean(z) + solve.pull(z)))
        new = solve.nearest(z - round_.step * (solve.mean(half) + solve.pull(half)))
        if np.array_equal(new, z):
            break
        z = new
    return z


def first_round(operator, data, n_rounds=2, budget=NOISELESS):
    problem = VariationalProblem(operator, len(data[0]))
    plan = AcceleratedRecursive(n_rounds).plan(problem, budget)
    return problem, plan.rounds[0]._replace(n_samples=len(data[0]))


# --- solutions


@pytest.mark.parametrize("n", [200, 20_000])
def test_an_inequality_is_solved(n):
    x = unit_rows(n, 3)
    operator = Affine(L2Ball(5.0))
    problem = VariationalProblem(operator, n)
    solver = AcceleratedRecursive(n_rounds=5)
    plan = solver.plan(problem, NOISELESS)
    same = np.tile(x.mean(axis=0), (n, 1))  # so that all parts are alike
    z = solver.run(plan, problem, (same,), np.random.default_rng(0))
    # Without regulariser it is R z = x, well within the ball; each round is nearer.
    centres, solution = [np.zeros(3)], np.linalg.solve(operator.R, same[0])
    assert 0.5 < np.linalg.norm(solution) < 5.0
    for r in plan.rounds:
        c = np.average(centres, axis=0, weights=r.weights)
        centres.append(np.linalg.solve(operator.R + r.mu * np.eye(3), same[0] + r.mu * c))
    steps = [np.linalg.norm(c - solution) for c in centres]
    assert steps[-1] < 0.2 * steps[0]
    errors = [r.error for r in plan.rounds]
    # Errors of earlier rounds move the centres of the later by no more than themselves.
    assert np.linalg.norm(z - centres[-1]) <= sum(errors) + 1e-6
    assert (ACCELERATED.batch in operator.calls) == (n == 20_000)  # where variance reduction pays


SETS = {
    "simplices": (Simplex(), Simplex(2.0)),
    "l1": (L1Ball(1.5), L2Ball(0.3)),
    "l2": (L2Ball(1.0),),
}


@pytest.mark.parametrize("sets", SETS.values(), ids=SETS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [7, 2_000])
def test_certificate(sets, seed, n):
    # Distance to the solution <= error, at the point that is returned; with a tolerance that is
    # three times as large some points would be beyond (see the next test).
    operator = Affine(*sets, symmetric=0.0)
    data = (unit_rows(n, 3 * len(sets), seed),)
    problem, round_ = first_round(operator, data)
    rng = np.random.default_rng(seed)
    centres = [project_blocks(problem.geometry, rng.standard_normal(problem.geometry.size))]
    z = Solve(problem, round_, data, centres).solution(rng)
    exact = exact_solution(problem, round_, data, centres)
    assert np.linalg.norm(z - exact) <= round_.error
    assert round_.tolerance <= round_.mu * round_.error


@pytest.mark.parametrize("sets", SETS.values(), ids=SETS)
def test_the_cap_is_enough(sets):
    # Without a warm start, from the farthest corners.
    operator = Affine(*sets, symmetric=0.0)
    data = (unit_rows(30, 3 * len(sets)),)
    problem, round_ = first_round(operator, data, n_rounds=4)
    for seed in range(5):
        operator.calls.clear()
        centre = 100 * np.random.default_rng(seed).standard_normal(problem.geometry.size)
        centres = [project_blocks(problem.geometry, centre)]
        Solve(problem, round_._replace(n_warm=0), data, centres).solution(None)
        assert 2 <= len(operator.calls) <= 2 * round_.n_iter
        # What the cap is for never happens: the fallback is the centre.
        assert len(operator.calls) < 2 * round_.n_iter


def test_an_operator_that_lies_ends_at_a_public_point():
    class Liar(Affine):
        def total(self, z, data):
            return -50.0 * super().total(z, data) + 1e300 * z**3

    operator = Liar(L2Ball(1.0))
    data = (unit_rows(20, 3),)
    problem, round_ = first_round(operator, data, n_rounds=1)
    centre = np.array([0.1, 0.2, -0.3])
    with np.errstate(all="ignore"):
        z = Solve(problem, round_, data, [centre]).solution(np.random.default_rng(0))
    np.testing.assert_allclose(z, centre, rtol=1e-15)


# --- rounding


@each("constraint", [Simplex(), Simplex(0.3), L1Ball(0.7)])
@each("d", [1, 2, 9, 60])
def test_projections_err_by_less_than_is_allowed_for(constraint, d):
    geometry = Geometry((Block(constraint, d, 1.0),))
    rng = np.random.default_rng(d)
    worst = 0.0
    for scale in (0.0, 1e-8, 0.1, 1.0, 3.0):
        for ties in (False, True):
            w = scale * (rng.integers(-2, 3, d) if ties else rng.standard_normal(d))
            z = project_blocks(geometry, w)
            exact = exact_projection(w, constraint.radius, isinstance(constraint, L1Ball))
            error = math.sqrt(sum((Fraction(float(a)) - b) ** 2 for a, b in zip(z, exact)))  # noqa: B905
            allowed = 2.0**-50 * d**1.5 * (constraint.radius + np.abs(w).max())
            worst = max(worst, error / allowed)
    assert worst <= 0.5


# --- privacy


@pytest.mark.parametrize("sets", [(L2Ball(1.0),), (Simplex(), L1Ball(0.5))], ids=["l2", "l1"])
@pytest.mark.parametrize("known", [None, 2.5])
def test_stability_over_neighbours(sets, known):
    size = 2
    operator = Affine(*sets, size=size, symmetric=0.0, sensitivity=known)
    d = size * len(sets)
    # Entries of R z are at most 2; those of a record make up the rest of the bound, or half of
    # the sensitivity in each block.
    edge = 1.0 if known is None else 0.5 * known
    extreme = np.array(list(product((-edge, edge), repeat=d)))
    if known is not None:
        extreme = extreme / math.sqrt(size)
    n = 4
    rest = np.random.default_rng(0).uniform(-0.3, 0.3, (n - 1, d))
    problem, round_ = first_round(operator, (np.zeros((n, d)),), n_rounds=1)
    centres = [problem.geometry.start()]
    released = np.array(
        [
            Solve(problem, round_, (np.vstack([rest, x]),), centres).solution(
                np.random.default_rng(k)
            )
            for k, x in enumerate(extreme)
        ]
    )
    moves = np.linalg.norm(released[:, None] - released, axis=2)
    space = _Space.of(problem)
    bound = space.change / (round_.mu * n) + 2.0 * round_.error
    assert moves.max() <= bound
    if known is not None and len(sets) == 1:
        # Nearly attained, as R is small next to the regulariser: half the bound would not hold.
        assert moves.max() >= 0.6 * bound


def test_noise_and_cost_of_a_round():
    operator = Affine(L2Ball(1.0), Simplex())
    problem = VariationalProblem(operator, 1_000)
    budget = Budget(1.0, 1e-6)
    plan = AcceleratedRecursive(3).plan(problem, budget)
    assert mu_of(plan.event) == pytest.approx(budget.mu)
    assert plan.n_iter == 3 == len(plan.rounds)
    assert sum(r.n_samples for r in plan.rounds) == 1_000
    d = math.sqrt(3)
    for r, mu in zip(plan.rounds, (2, 6, 14), strict=True):
        assert r.mu == pytest.approx(mu * plan.lam)
        # 2 L in l2: the simplex has an l1 norm, hence bounds on largest entries.
        sensitivity = 2 * math.hypot(3, 3 * d) / (r.mu * r.n_samples) + 2 * r.error
        assert r.grid * 2.0**24 * budget.mu == pytest.approx(sensitivity, rel=1e-5)


# --- the theorem


def test_weights_are_part_of_the_operator():
    class Weighted(Affine):
        largest_weights = (0.5,)

        def weights(self, z):
            return np.full(3, 0.5)

    plain = VariationalProblem(Affine(L2Ball(1.0)), 100)
    weighted = VariationalProblem(Weighted(L2Ball(1.0)), 100)
    assert _Space.of(weighted).change == pytest.approx(0.5 * _Space.of(plain).change)
    x, z = unit_rows(100, 3), np.array([0.1, 0.2, 0.3])
    round_ = _round(_Space.of(plain), 100, (1.0,), 1.0)
    whole, half = (Solve(p, round_, (x,), [z]).mean(z) for p in (plain, weighted))
    np.testing.assert_allclose(half, 0.5 * whole)


def test_only_what_is_declared_monotone():
    x, ball = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 3)), [Block(L2Ball(1.0), 3, 2.0)]

    def mean_operator(z, x):
        return z - x

    def solve(
        blocks=ball, smoothness=((1.0,),), monotone=True, solver="accelerated-recursive", **changes
    ):
        operator = Operator(mean_operator, blocks, smoothness=smoothness, monotone=monotone)
        return solve_variational_inequality(operator, x, solver=solver, **changes)

    solution = solve()
    assert "monotone for every data set" in str(solution.privacy)
    assert np.linalg.norm(solution.z) <= 1.0 + 1e-12
    far = {"blocks": [Block(L2Ball(1e100), 3, 1e-100)], "smoothness": [[1e100]]}
    for match, changes in (
        ("monotone", {"monotone": False}),
        ("monotone", {"monotone": 1}),
        ("smoothness", {"smoothness": None}),
        ("float64", {"smoothness": [[1e90]]}),
        ("smoothness must be numbers of shape", {"smoothness": [[1.0], [2.0, 3.0]]}),
        (r"instance, AcceleratedRecursive\(\), not a class", {"solver": AcceleratedRecursive}),
        ("float64", {**far, "solver": AcceleratedRecursive(2)}),  # where squares overflow
        ("n_iter", {"n_iter": 10}),
        ("block 0 is a LpBall", {"blocks": [Block(LpBall(1.5, 1.0), 3, 2.0)]}),
        ("float64", {"solver": AcceleratedRecursive(n_rounds=30)}),
    ):
        with pytest.raises((TypeError, ValueError), match=match):
            solve(**changes)


def test_probes_are_stricter_with_what_is_declared_monotone():
    probes = np.array([[1.0], [-1.0]])
    arguments = {"probes": probes, "solver": "accelerated-recursive"}

    def turns(z, x):
        return x * z + z  # monotone in the mean of these two, and each of them

    def wrong(z, x):
        return 2.0 * x * z + z  # in the mean only

    block = [Block(L2Ball(1.0), 1, 3.0)]
    data = np.zeros((50, 1))

    def declared(function, monotone=True, blocks=block):
        return Operator(function, blocks, smoothness=[[3.0]], monotone=monotone)

    solve_variational_inequality(declared(turns), data, **arguments)
    with pytest.raises(ValueError, match="not monotone"):
        solve_variational_inequality(declared(wrong), data, **arguments)
    arguments["solver"] = "mirror-prox"
    solve_variational_inequality(declared(wrong, monotone=False), data, n_iter=2, **arguments)
    narrow = declared(turns, blocks=[Block(L2Ball(1.0), 1, 3.0, 1.0)])
    with pytest.raises(ValueError, match="sensitivity of block 0"):
        solve_variational_inequality(narrow, data, **arguments)


BALL = (Block(L2Ball(1.0), 3, 2.0),)


def test_operators_cannot_change_their_records():
    # What it says would depend on how often it was asked.
    def moves(z, x):
        x -= z
        return -x

    x = np.zeros((50, 3))
    with pytest.raises(ValueError, match="read-only"):
        solve_variational_inequality(Operator(moves, BALL), x)


def test_short_floats_are_not_for_operators_declared_monotone():
    def short(z, x):
        return (z - x).astype(np.float32)

    x = np.zeros((50, 3))
    with pytest.raises(ValueError, match="float64"):
        solve_variational_inequality(Operator(short, BALL, monotone=True), x)
    solve_variational_inequality(Operator(short, BALL), x, n_iter=2)
