"""What holds for every solver of saddle points: one test of each law, over a table of solvers."""

import numpy as np
import pytest
from stand_ins import Payoffs

from skdpsco.privacy import Budget, epsilon_of, is_gaussian, mu_of, rho_of
from skdpsco.solvers import (
    AcceleratedRecursive,
    Allowance,
    BiasReducedMirrorDescent,
    BoostedMirrorDescent,
    MirrorDescent,
    MirrorProx,
    RecursiveRegularisation,
    check_cost,
)
from skdpsco.solvers.saddle.problem import VariationalProblem

# Solvers, a number of steps or None, and how many parts the records are divided into.
CASES = [
    (MirrorProx("mirror-prox"), 7, 1),
    (MirrorProx("mirror-descent"), 7, 1),
    (RecursiveRegularisation(n_rounds=3), 2, 3),
    (AcceleratedRecursive(3), None, 3),
    (MirrorDescent(), 1, 1),
    (MirrorDescent(), 7, 7),
    (MirrorDescent(), None, None),
    (BiasReducedMirrorDescent(2), 12, 12),
    (BoostedMirrorDescent(1.0), 3, None),
]
each_case = pytest.mark.parametrize(("solver", "n_iter", "n_parts"), CASES)
N = 500


def visited(solver, n_iter, A, seed):
    """The plan of a run, and the parts of the records that it has read, in order."""
    game, progress = Payoffs(A), np.zeros(1, dtype=np.int64)
    problem = VariationalProblem(game, N)
    plan = solver.plan(problem, Budget(1.0, 1e-6), n_iter)
    solver.run(plan, problem, (np.arange(N),), np.random.default_rng(seed), progress)
    n_runs = plan.counts[0] if isinstance(solver, BoostedMirrorDescent) else 1
    assert progress[0] == n_runs * plan.n_iter
    return plan, list(dict.fromkeys(map(tuple, game.calls)))


@each_case
def test_every_record_is_in_one_part(solver, n_iter, n_parts):
    """The order of all records is random, and independent of the data until noise is drawn."""
    plan, parts = visited(solver, n_iter, np.eye(3), 0)
    assert sorted(sum(parts, ())) == list(range(N))
    assert n_parts in (len(parts), None)
    sizes = [len(part) for part in parts]
    assert sizes == list(getattr(plan, "sizes", sizes))
    if isinstance(solver, MirrorDescent):
        assert sizes == list(plan.batches.sizes)
        assert len(parts) == plan.n_iter
    other, again = (visited(solver, n_iter, A, 1)[1] for A in (np.eye(3), -np.eye(3)))
    assert again == other or isinstance(solver, BoostedMirrorDescent)  # which orders some later
    assert (other != parts) == (not isinstance(solver, MirrorProx))


@each_case
def test_plans_keep_to_the_budget_and_spend_it(solver, n_iter, n_parts):
    problem = VariationalProblem(Payoffs(np.eye(4, 9)), 1000)
    for budget in (Budget(1.0, 1e-6), Allowance(0.05)):
        plan = solver.plan(problem, budget, n_iter)
        check_cost(plan.event, budget)
        if isinstance(budget, Budget):
            assert epsilon_of(plan.event, budget.delta) <= budget.epsilon * (1.0 + 1e-12)
        spent = rho_of(plan.event) / budget.rho
        if is_gaussian(plan.event):
            spent = mu_of(plan.event) / budget.mu
        assert spent < 1.0 + 1e-5
        # With few steps, mirror descent has as many draws as are of use.
        assert spent > 1.0 - 1e-5 or (isinstance(solver, MirrorDescent) and n_iter)
