"""Accelerated recursion: what it refuses, and what probes find in operators declared monotone."""

import numpy as np
import pytest
from cases import each

from skdpsco.constraints import L2Ball, LpBall
from skdpsco.solvers import AcceleratedRecursive
from skdpsco.variational import Block, Operator
from skdpsco.variational.solve import solve_variational_inequality


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


class Mean:
    """G(z; x) = z - x, with what a subclass does to its rows."""

    blocks = (Block(L2Ball(1.0), 3, 2.0),)
    smoothness = ((1.0,),)
    monotone = True

    def __call__(self, z, x):
        return z - x


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
