"""Selecting and measuring: sensitivities by brute force, noise as planned, and nothing else."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, to_grid
from skdpsco.privacy import ExponentialMechanismEvent, GaussianEvent, rho_of
from skdpsco.privacy.events import leaves
from skdpsco.solvers.synthesis import select_measure
from skdpsco.solvers.synthesis import workload as _workload
from skdpsco.solvers.synthesis.select_measure import SelectMeasure
from skdpsco.solvers.synthesis.workload import LinearQueries, Marginals, QueryProblem

N = 6
RNG = np.random.default_rng(0)
# Shape, workload, and whether arrays over the domain are made.
CASES = {
    "binary": ((2,) * 4, Marginals(3), True),
    "mixed": ((2, 3, 1, 4), Marginals(2), True),
    "list": ((3, 2, 4), Marginals([(2, 0, 1), (1,)]), True),
    "large": ((2, 3, 1, 2), Marginals(3), False),
    "queries": ((2, 3), LinearQueries(RNG.normal(size=(7, 6))), True),
    "large numbers": ((3, 2), LinearQueries(1e10 + RNG.integers(0, 2, (4, 6))), True),
}  # fmt: skip
each_case = pytest.mark.parametrize("case", CASES)


def setting(monkeypatch, case, rho, n_iter):
    shape, workload, dense = CASES[case]
    if not dense:
        monkeypatch.setattr(_workload, "DENSE_CELLS", 1)
    problem = QueryProblem(shape, workload, N)
    assert problem.dense == dense
    return problem, SelectMeasure().plan(problem, SimpleNamespace(rho=rho, mu=None), n_iter)


class Tape:
    """Stand-in for both mechanisms: keeps grid units; then plays the first run's releases."""

    def __init__(self, monkeypatch, draws):
        self.draws, self.outputs, self.runs = draws, [], []
        monkeypatch.setattr(select_measure, "gaussian_mechanism", self.measure)
        monkeypatch.setattr(select_measure, "choose_index", self.choose)

    def units(self, values, grid):
        units = np.array([int(to_grid(v, grid)) for v in values], dtype=float)
        assert np.abs(units).max() <= 2**49  # nothing is clamped
        return units

    def choose(self, rng, scores, grid):
        kept = [units for kind, units in self.runs[-1] if kind == "choice"]
        self.runs[-1].append(("choice", self.units(scores, grid)))
        return self.draws[len(kept)] % scores.size

    def measure(self, rng, values, grid):
        kept = [units for kind, units in self.runs[-1] if kind == "measurement"]
        self.runs[-1].append(("measurement", self.units(values, grid)))
        if len(self.runs) == 1:
            noise = np.random.default_rng(len(kept)).normal(size=values.shape)
            self.outputs.append(values + 2.0**22 * grid * noise)
        values[:] = self.outputs[len(kept)]
        return deviation_on(grid)

    def run(self, problem, plan, codes):
        self.runs.append([])
        rng = np.random.Generator(np.random.PCG64(0))
        return SelectMeasure().run(plan, problem, codes, rng, np.zeros(1, dtype=np.int64))


@each_case
@pytest.mark.parametrize("rho", [0.05, 50.0])
def test_no_record_changes_more_than_is_charged(monkeypatch, case, rho):
    """All pairs of cells for one record, the others and all releases being the same.

    Measurements reach their charge to a part in 1000, choices in one case, so that a sensitivity
    that is one percent too small would show.
    """
    problem, plan = setting(monkeypatch, case, rho, 5)
    tape = Tape(monkeypatch, np.random.default_rng(0).integers(0, 2**30, 5))
    cells = np.array(list(itertools.product(*map(range, problem.shape))))
    others = cells[np.random.default_rng(2).integers(0, len(cells), N - 1)]
    answers = [
        tape.run(problem, plan, np.concatenate([others[:3], [cell], others[3:]])).answers
        for cell in cells
    ]
    for found in answers:  # releases decide everything
        assert np.array_equal(found, answers[0])
    charged = {
        kind: [
            event
            for event, count in leaves(plan.event)
            for _ in range(count)
            if type(event) is kind
        ]
        for kind in (GaussianEvent, ExponentialMechanismEvent)
    }
    assert rho_of(plan.event) == pytest.approx(rho)
    runs = tape.runs
    kinds = [kind for kind, _ in runs[0]]
    assert kinds.count("choice") == len(charged[ExponentialMechanismEvent]) == 5
    assert kinds.count("measurement") == len(charged[GaussianEvent])
    epsilon0 = charged[ExponentialMechanismEvent][0].epsilon0
    measured, ratios = [], []
    for at, kind in enumerate(kinds):
        units = np.array([run[at][1] for run in runs])
        changes = units[:, None] - units[None]
        if kind == "choice":
            ratios.append(np.ptp(changes, axis=-1).max() / (epsilon0 * 2**SCALE_BITS))
        else:
            measured.append(np.sqrt(np.square(changes).sum(axis=-1)).max())
    assert max(ratios) <= 1
    assert max(ratios) >= 0.45  # what these few records reach; the bound is for all
    if case == "binary" and rho < 1:
        assert max(ratios) >= 0.999
    # The variance of discrete Gaussian noise counts 16 units less (docs/proofs/noise.md).
    scale = math.sqrt(4.0**SCALE_BITS - 16)
    mus = [1 / event.noise_multiplier for event in charged[GaussianEvent]]
    if len(mus) > 5:  # the first release, of single columns, is charged first
        first = 1 / plan.first.event.noise_multiplier
        assert measured[0] <= first * scale
        assert measured[0] >= 0.999 * first * scale
        mus.remove(first)
        measured = measured[1:]
    assert max(measured) <= mus[0] * scale
    full = isinstance(problem.workload, Marginals)  # the query of full width may not be chosen
    assert max(measured) >= (0.999 if full else 0.6) * mus[0] * scale


def test_grids_by_their_scale():
    """Two that can be found by hand: a pair of coins has one contrast, of +1 and -1."""
    rho = 0.1
    problem = QueryProblem((2, 2), Marginals(2), 1000)
    plan = SelectMeasure().plan(problem, SimpleNamespace(rho=rho, mu=None), 1)
    (kind,) = plan.kinds.values()
    left = (1 - select_measure.SELECT.first) * rho
    mu = math.sqrt(2 * (1 - select_measure.SELECT.choice) * left)
    assert kind.plan.grid * 2.0**SCALE_BITS * mu == pytest.approx(2.0, rel=1e-6)
    assert kind.plan.grid * 2.0**SCALE_BITS * mu > 2.0
    epsilon0 = math.sqrt(8 * select_measure.SELECT.choice * left)
    assert plan.choice_grid * 2.0**SCALE_BITS * epsilon0 == pytest.approx(4.0, rel=1e-6)
    assert plan.choice_grid * 2.0**SCALE_BITS * epsilon0 > 4.0
