"""Accelerated recursion: what it refuses, and what probes find in operators declared monotone."""

import math

import numpy as np
import pytest
from cases import each

from skdpsco.constraints import L2Ball, LpBall, Simplex
from skdpsco.solvers import AcceleratedRecursive, Allowance
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.variational import Block, Operator
from skdpsco.variational.solve import MatrixGame, _clipped, solve_variational_inequality


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
    with pytest.raises(ValueError, match="monotone"):
        solve(monotone=False)
    with pytest.raises(TypeError, match="monotone"):
        solve(monotone=1)
    with pytest.raises(ValueError, match="smoothness"):
        solve(smoothness=None)
    with pytest.raises(ValueError, match="float64"):
        solve(smoothness=[[1e90]])
    with pytest.raises(ValueError, match="smoothness must be numbers of shape"):
        solve(smoothness=[[1.0], [2.0, 3.0]])
    with pytest.raises(TypeError, match=r"an instance, AcceleratedRecursive\(\), not a class"):
        solve(solver=AcceleratedRecursive)
    far = {"blocks": [Block(L2Ball(1e100), 3, 1e-100)], "smoothness": [[1e100]]}
    with pytest.raises(ValueError, match="float64"):  # where squares overflow
        solve(**far, solver=AcceleratedRecursive(2))
    with pytest.raises(ValueError, match="n_iter"):
        solve(n_iter=10)
    with pytest.raises(ValueError, match="block 0 is a LpBall"):
        solve(blocks=[Block(LpBall(1.5, 1.0), 3, 2.0)])
    with pytest.raises(ValueError, match="float64"):
        solve(solver=AcceleratedRecursive(n_rounds=30))


@each(
    ("n_rounds", "error"), [(0, ValueError), (41, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_rounds(n_rounds, error):
    with pytest.raises(error, match="n_rounds"):
        AcceleratedRecursive(n_rounds)


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


def test_clipping_an_operator_is_not_monotone():
    # The example of the proof.
    ball = [Block(L2Ball(3.0), 2, 1.0)]
    operator = _clipped(Operator(lambda z, x: z * [1.0, 10.0] + x, ball))
    nothing = (np.zeros((1, 2)),)
    z, other = np.array([1.0, 0.1]), np.array([2.0, 0.4])
    move = operator.total(z, nothing) - operator.total(other, nothing)
    assert move @ (z - other) == pytest.approx(-0.204, abs=1e-3)


def test_few_records_are_not_promised_anything():
    plan = AcceleratedRecursive().plan(VariationalProblem(MatrixGame(2, 2), 5), Allowance(0.01))
    assert plan.gap == math.inf
    assert len(plan.rounds) == 1


def test_what_an_operator_declares_is_about_its_own_blocks():
    # With other sets or bounds the operators of a game would be clipped, and then neighbours'
    # solutions may be farther apart than monotone ones: 1.07 times in a search over small games.
    game, payoffs = MatrixGame(2, 2), np.zeros((40, 2, 2))
    arguments = {"solver": "accelerated-recursive"}
    solve_variational_inequality(game, payoffs, **arguments)
    own = {"blocks": list(game.blocks), "smoothness": game.smoothness}
    for changes in (
        {"blocks": [Block(Simplex(50.0), 2, 1.0)] * 2},
        {"blocks": [Block(Simplex(), 2, 0.1)] * 2},
        {"smoothness": [[0.0, 0.1], [0.1, 0.0]]},
    ):
        with pytest.raises(ValueError, match="respects the bounds of its blocks"):
            solve_variational_inequality(Operator(game, **{**own, **changes}), payoffs, **arguments)
    solve_variational_inequality(Operator(game, **own, monotone=True), payoffs, **arguments)


class Mean:
    """G(z; x) = z - x, with what a subclass does to its rows."""

    blocks = (Block(L2Ball(1.0), 3, 2.0),)
    smoothness = ((1.0,),)
    monotone = True

    def __call__(self, z, x):
        return z - x


class Steep(Mean):
    def __call__(self, z, x):
        return np.tanh(100.0 * (z - x))


class MixesAllButTheEnds(Mean):
    def __call__(self, z, x):
        rows = z - x
        rows[1:-1] = rows[1:-1].mean(axis=0) if len(x) > 2 else rows[1:-1]
        return rows


@pytest.mark.parametrize(
    ("operator", "message"), [(Steep(), "smoothness"), (MixesAllButTheEnds(), "alone")]
)
def test_probes_find_what_is_steeper_or_mixed(operator, message):
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (50, 3))
    arguments = {"solver": "accelerated-recursive", "probes": x}
    solve_variational_inequality(Mean(), x, **arguments)
    with pytest.raises(ValueError, match=message):
        solve_variational_inequality(operator, x, **arguments)


def test_operators_cannot_change_their_records():
    # What it says would depend on how often it was asked.
    def moves(z, x):
        x -= z
        return -x

    x = np.zeros((50, 3))
    with pytest.raises(ValueError, match="read-only"):
        solve_variational_inequality(Operator(moves, Mean.blocks), x)


def test_short_floats_are_not_for_operators_declared_monotone():
    def short(z, x):
        return (z - x).astype(np.float32)

    x = np.zeros((50, 3))
    with pytest.raises(ValueError, match="float64"):
        solve_variational_inequality(Operator(short, Mean.blocks, monotone=True), x)
    solve_variational_inequality(Operator(short, Mean.blocks), x, n_iter=2)
