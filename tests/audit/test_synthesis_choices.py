"""Choices of queries: what a record may change in their scores, and the law of whole runs."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from skdpsco.mechanisms.samplers import SCALE_BITS, to_grid
from skdpsco.privacy import ExponentialMechanismEvent, rho_of
from skdpsco.privacy.events import leaves
from skdpsco.solvers.synthesis import multiplicative_weights
from skdpsco.solvers.synthesis.multiplicative_weights import VARIANTS, MultiplicativeWeights
from skdpsco.solvers.synthesis.workload import LinearQueries, Marginals, QueryProblem

ORDERS = np.concatenate([1 + np.geomspace(1e-3, 1, 20), np.geomspace(2, 1e3, 20)])
each_variant = pytest.mark.parametrize("variant", VARIANTS)

CASES = {
    "one query": ((2,), LinearQueries([[0.0, 1.0]]), 3),
    "two columns": ((2, 2), Marginals(1), 2),
    "queries": ((3,), LinearQueries([[1.0, -1.0, 0.2], [0.0, 0.3, 2.0]]), 2),
}


class Script:
    """Stand-in for the mechanism: draws what it is told to, and keeps all laws."""

    def __init__(self, monkeypatch):
        self.draws, self.units = (), []
        monkeypatch.setattr(multiplicative_weights, "choose_index", self.choose)

    def choose(self, rng, scores, grid):
        units = np.array([to_grid(v, grid) for v in scores], dtype=float)
        assert np.abs(units).max() < 2**49  # nothing is clamped
        self.units.append(units)
        return self.draws[len(self.units) - 1] if len(self.units) <= len(self.draws) else 0

    def laws(self, solver, plan, problem, codes, draws):
        self.draws, self.units = draws, []
        solver.run(plan, problem, codes, None, np.zeros(1, dtype=np.int64))
        return self.units


def log_law(units):
    z = units / 2.0**SCALE_BITS
    return z - z.max() - math.log(np.exp(z - z.max()).sum())


def transcripts(script, solver, plan, problem, codes):
    """Log-probabilities of all sequences of draws, in one order."""
    found = np.zeros(1)
    candidates = range(2 * problem.n_answers)
    for t in range(plan.n_iter):
        parts = []
        for before, so_far in zip(itertools.product(candidates, repeat=t), found, strict=True):
            units = script.laws(solver, plan, problem, codes, before)[t]
            parts.append(so_far + log_law(units))
        found = np.concatenate(parts)
    assert np.exp(found).sum() == pytest.approx(1)
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rho", [0.05, 2.0])
@each_variant
def test_law_of_a_run_over_neighbours(monkeypatch, variant, rho, case):
    """All transcripts of all pairs of neighbours, against the charge, at 40 Renyi orders.

    With one query the worst pair comes to 90 percent of the charge at the smaller budget: half
    of the noise, or a sensitivity that is 6 percent too small, would not pass.
    """
    shape, workload, n = CASES[case]
    problem, solver = QueryProblem(shape, workload, n), MultiplicativeWeights(variant)
    plan = solver.plan(problem, SimpleNamespace(rho=rho), 3)
    script, worst = Script(monkeypatch), 0.0
    cells = list(itertools.product(*map(range, shape)))
    laws = {
        data: transcripts(script, solver, plan, problem, np.array([cells[i] for i in data]))
        for data in itertools.combinations_with_replacement(range(len(cells)), n)
    }
    for data, other in itertools.permutations(laws, 2):
        if sum((np.bincount(data, minlength=9) - np.bincount(other, minlength=9)).clip(0)) > 1:
            continue
        p, q = laws[data], laws[other]
        for a in ORDERS:
            z = a * p + (1 - a) * q
            divergence = (z.max() + math.log(np.exp(z - z.max()).sum())) / (a - 1)
            worst = max(worst, divergence / a)
    charged = rho_of(plan.event)
    assert charged <= rho * (1 + 1e-9)
    assert worst <= charged
    if case == "one query" and rho < 1:
        assert worst >= 0.9 * charged


@pytest.mark.parametrize(
    ("shape", "workload"),
    [
        ((2, 3, 1, 2), Marginals(2)),
        ((2, 2), Marginals([(1,), (1, 0)])),
        ((4,), LinearQueries(np.random.default_rng(0).normal(size=(5, 4)))),
        ((4,), LinearQueries(1e10 + np.random.default_rng(0).integers(0, 2, (5, 4)))),
    ],
)
@each_variant
def test_range_of_the_changes_of_scores(monkeypatch, variant, shape, workload):
    """All pairs of cells, after the same draws: at most what is charged, and that is reached."""
    n = 5
    problem, solver = QueryProblem(shape, workload, n), MultiplicativeWeights(variant)
    plan = solver.plan(problem, SimpleNamespace(rho=0.3), 6)
    charged = sorted(
        event.epsilon0
        for event, count in leaves(plan.event)
        for _ in range(count)
        if type(event) is ExponentialMechanismEvent
    )
    charged = [0.0] * (plan.n_iter - len(charged)) + charged  # the first draw may be free
    cells = np.array(list(itertools.product(*map(range, shape))))
    rng, script = np.random.default_rng(1), Script(monkeypatch)
    others = cells[rng.integers(0, len(cells), n - 1)]
    draws = rng.integers(0, 2 * problem.n_answers, plan.n_iter)
    units = np.array(
        [
            script.laws(solver, plan, problem, np.concatenate([others, [cell]]), draws)
            for cell in cells
        ]
    )
    for t, epsilon0 in enumerate(charged):
        change = np.ptp(units[:, None, t] - units[None, :, t], axis=-1).max()
        assert change <= epsilon0 * 2**SCALE_BITS
        assert change >= 0.9999 * epsilon0 * 2**SCALE_BITS
