"""Noise as it is drawn: on the grid that was planned, and as large, for solvers of many kinds."""

import math

import numpy as np
import pytest
from scipy import sparse
from test_group_dro import BOUNDS, LABELS, LOSSES, Given, problem_for
from test_group_dro import MODULES as OF_GROUPS
from test_measure_project_noise import CASES as MEASURED
from test_measure_project_noise import setting as measured
from test_monotone_glm import MODULES as OF_LINKS
from test_select_measure_noise import CASES as SELECTED
from test_select_measure_noise import setting as selected

from skdpsco import PrivateMonotoneGLM
from skdpsco.data.design import as_design
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, gaussian_mechanism
from skdpsco.solvers import SelectMeasure
from skdpsco.solvers.groups.descent import GroupDescent
from skdpsco.solvers.synthesis import measure_project, select_measure
from skdpsco.solvers.synthesis.measure_project import MeasureProject

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.usefixtures("as_they_are"),
]


def groups(monkeypatch, mode):
    """Group descent: counts, losses and gradients."""
    problem = problem_for(LOSSES[0], LABELS, 2, True, mode=mode)
    plan = GroupDescent().plan(problem, Given(50.0), 4)
    X = as_design(np.random.default_rng(0).uniform(-1, 1, (6, 2)), BOUNDS[:2], True)
    y, membership = np.array([-1.0, 1, 1, -1, 1, -1]), sparse.csr_array(LABELS.astype(float))
    return lambda rng: GroupDescent().run(plan, problem, X, y, membership, rng, np.zeros(1, int))


def links(monkeypatch, solver):
    """A fit with a link."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (30, 4)), rng.random(30)
    model = PrivateMonotoneGLM(solver=solver, epsilon=50.0, n_iter=4)
    return lambda rng: model.set_params(random_state=int(rng.integers(2**31))).fit(X, y)


def queries(monkeypatch, solver, setting, case, *sizes):
    """One measurement, or some that are chosen."""
    problem, plan = setting(monkeypatch, case, *sizes)
    codes = np.zeros((problem.n_samples, len(problem.shape)), dtype=int)
    return lambda rng: solver.run(plan, problem, codes, rng, np.zeros(1, dtype=np.int64))


CASES = {
    **{f"groups, {mode}": (OF_GROUPS, groups, mode) for mode in ("public", "counts")},
    **{
        f"links, {solver}": (OF_LINKS, links, solver)
        for solver in ("gradient-descent", "mirror-prox")
    },
    **{
        f"measured, {case}": ([measure_project], queries, MeasureProject(), measured, case, 0.3)
        for case in MEASURED
    },
    **{
        f"selected, {case}": ([select_measure], queries, SelectMeasure(), selected, case, 0.3, 8)
        for case in SELECTED
    },
}


@pytest.mark.parametrize("case", CASES)
def test_noise_is_on_its_grid_and_as_large_as_planned(monkeypatch, case):
    """Six standard deviations of the mean square: a false alarm has probability below 1e-8.

    Half the noise would make it 1/4, more than 10 deviations away.
    """
    modules, make, *arguments = CASES[case]
    run, noise = make(monkeypatch, *arguments), []

    def spy(rng, values, grid):
        before = values.copy()
        gaussian_mechanism(rng, values, grid)
        assert np.array_equal(np.rint(values / grid) * grid, values)
        noise.extend((values - before) / (grid * 2.0**SCALE_BITS))
        return deviation_on(grid)

    for module in modules:
        monkeypatch.setattr(module, "gaussian_mechanism", spy)
    rng = np.random.Generator(np.random.PCG64(3))
    while len(noise) < 1000:
        run(rng)
    assert abs(np.square(noise).mean() - 1) < 6 * math.sqrt(2 / len(noise))
