"""One release per fit: what a record may change in it, how much noise there is, and no more."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from recorded_releases import RecordedReleases

from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import mu_of
from skdpsco.solvers.synthesis import measure_project
from skdpsco.solvers.synthesis import workload as _workload
from skdpsco.solvers.synthesis.measure_project import MeasureProject
from skdpsco.solvers.synthesis.workload import LinearQueries, Marginals, QueryProblem

N = 6
RNG = np.random.default_rng(0)
# Shape, workload, strategy, and whether arrays over the domain are made.
CASES = {
    "binary": ((2,) * 5, Marginals(3), "contrasts", True),
    "mixed": ((2, 3, 1, 4), Marginals(2), "contrasts", True),
    "list": ((3, 2, 4), Marginals([(2, 0), (1,)]), "contrasts", True),
    "few": ((2,) * 4, LinearQueries(RNG.normal(size=(2, 16))), "queries", True),
    "large numbers": ((3, 2), LinearQueries(1e10 + RNG.integers(0, 2, (2, 6))), "queries", True),
    "contrasts of queries": ((2, 3), LinearQueries(RNG.normal(size=(3, 6))), "contrasts", True),
    "low order": ((2,) * 5, LinearQueries(np.resize([1.0, 0, 0, 0], (1, 32))), "queries", True),
    "cells": ((2, 3), LinearQueries(RNG.choice([-1.0, 1.0], (40, 6))), "cells", True),
    "column": ((5,), Marginals(1), "cells", True),
    "large": ((2,) * 5, Marginals(3), "contrasts", False),
    "large, mixed": ((2, 3, 1, 4), Marginals(2), "contrasts", False),
    "large, list": ((3, 2, 4), Marginals([(2, 0), (1,)]), "contrasts", False),
}  # fmt: skip
each_case = pytest.mark.parametrize("case", CASES)


def setting(monkeypatch, case, mu):
    shape, workload, strategy, dense = CASES[case]
    if not dense:
        monkeypatch.setattr(_workload, "DENSE_CELLS", 1)
    problem = QueryProblem(shape, workload, N)
    assert problem.dense == dense
    worth = measure_project.worth_of_subsets(problem)
    plan = {  # whichever promises least error
        "contrasts": lambda: measure_project.plan_contrasts(problem, mu, worth),
        "cells": lambda: measure_project._plan_cells(problem, mu, worth),
        "queries": lambda: measure_project._plan_answers(problem, mu, 0.01),
    }[strategy]()
    assert plan.strategy == strategy
    assert mu_of(plan.event) == pytest.approx(mu)
    return problem, plan


def run(problem, plan, codes):
    rng = np.random.Generator(np.random.PCG64(0))
    return MeasureProject().run(plan, problem, codes, rng, np.zeros(1, dtype=np.int64))


@each_case
@pytest.mark.parametrize("mu", [0.3, 30.0])
def test_no_record_changes_more_than_is_charged(monkeypatch, case, mu):
    """All pairs of cells; the largest is within a part in 10**4 of the charge, at sane scales."""
    problem, plan = setting(monkeypatch, case, mu)
    releases = RecordedReleases(monkeypatch, measure_project)
    cells = np.array(list(itertools.product(*map(range, problem.shape))))
    others = cells[np.random.default_rng(2).integers(0, len(cells), N - 1)]
    tables = [np.concatenate([others[:3], [cell], others[3:]]) for cell in cells]
    # There is one release per run.
    (ratio,) = releases.ratios(lambda codes: run(problem, plan, codes).answers, tables, [mu])
    assert ratio <= 1.0
    if case != "large numbers":  # whose sums are rounded
        assert ratio >= 0.9999


def test_noise_by_its_scale():
    """Two scales that can be found by hand."""
    for mu in (0.1, 3.0):
        budget = SimpleNamespace(mu=mu, rho=mu**2 / 2)
        plan = MeasureProject().plan(QueryProblem((5,), Marginals(1), 1000), budget)
        assert plan.grid * 2.0**SCALE_BITS * mu == pytest.approx(math.sqrt(2), rel=1e-4)
        assert plan.grid * 2.0**SCALE_BITS * mu > math.sqrt(2)
        # All contrasts of one order of binary columns: a record and its opposite.
        plan = MeasureProject().plan(QueryProblem((2,) * 9, Marginals(1), 1000), budget)
        assert plan.grid * 2.0**SCALE_BITS * mu == pytest.approx(2 * math.sqrt(9), rel=1e-4)
        assert plan.grid * 2.0**SCALE_BITS * mu > 6
