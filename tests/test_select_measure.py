"""Synthetic data from chosen measurements: plans, fits, accuracy."""

import itertools
import math

import numpy as np
import pytest
from query_answers import BUDGET, error_of, run, skewed, true_answers

from skdpsco.privacy import Budget, GaussianEvent, NoOpEvent, is_gaussian, rho_of
from skdpsco.privacy.spending import check_cost
from skdpsco.solvers import SelectMeasure
from skdpsco.solvers.synthesis import measurements as _measured
from skdpsco.solvers.synthesis import select_measure
from skdpsco.solvers.synthesis.contrasts import helmert, positions, scales
from skdpsco.solvers.synthesis.distributions import Histogram, ProductHistogram
from skdpsco.solvers.synthesis.measurements import MeasuredQueries, MeasuredTables
from skdpsco.solvers.synthesis.workload import LinearQueries, Marginals, QueryProblem


@pytest.mark.parametrize(
    ("shape", "workload"),
    [
        ((2,) * 10, Marginals(3)),
        ((2, 3, 1, 4, 7), Marginals([(4, 0), (2, 3, 1)])),
        ((2,) * 30, Marginals(2)),
        ((2,) * 5, LinearQueries(np.random.default_rng(0).choice([-3, 1], (50, 32)))),
    ],
)
def test_plans(shape, workload):
    problem, solver = QueryProblem(shape, workload, 10_000), SelectMeasure()
    plan = solver.plan(problem, BUDGET)
    check_cost(plan.event, BUDGET)
    assert rho_of(plan.event) == pytest.approx(BUDGET.rho)
    assert not is_gaussian(plan.event)
    assert plan.n_iter >= 1
    for n_iter in (1, 7, 500):
        other = solver.plan(problem, BUDGET, n_iter)
        assert other.n_iter == n_iter
        assert rho_of(other.event) == pytest.approx(BUDGET.rho)
    # More records, more choices.
    assert solver.plan(QueryProblem(shape, workload, 100), BUDGET).n_iter <= plan.n_iter


def test_without_tables_of_two_columns_nothing_is_chosen():
    solver = SelectMeasure()
    problem = QueryProblem((3, 1, 2), Marginals([(0,), (1, 2)]), 100)
    plan = solver.plan(problem, BUDGET, 5)
    assert plan.event == GaussianEvent(1 / BUDGET.mu)
    assert plan.n_iter == 0
    codes = skewed(100, (3, 1, 2))
    assert error_of(SelectMeasure(), problem, codes, budget=Budget(1e5, 1e-6)) < 0.02
    # Column 1 has one value: nothing can be told.
    nothing = QueryProblem((3, 1, 2), Marginals([(1,)]), 100)
    plan, result = run(SelectMeasure(), nothing, codes)
    assert plan.event == NoOpEvent()
    assert result.answers == pytest.approx([1.0])
    assert result.distribution.p == pytest.approx(1 / 6)
    large = QueryProblem((1,) * 31, Marginals(1), 100)
    assert run(SelectMeasure(), large, np.zeros((100, 31), dtype=int))[1].answers == pytest.approx(
        np.ones(31)
    )


def test_small_tables_only_where_there_are_too_many(monkeypatch):
    tables = [tuple(t) for t in itertools.combinations(range(6), 3)]
    assert len(select_measure._candidate_tables(tables, (2,) * 6)) == 15 + 20
    monkeypatch.setattr(select_measure, "MAX_CANDIDATES", 30)
    assert len(select_measure._candidate_tables(tables, (2,) * 6)) == 15
    problem = QueryProblem((2,) * 6, Marginals(3), 5000)
    codes = skewed(5000, (2,) * 6)
    assert error_of(SelectMeasure(), problem, codes, budget=Budget(1e5, 1e-6), n_iter=15) < 0.02


def test_groups_that_are_too_large(monkeypatch):
    """Tables across groups are in the answers, and not in the distribution."""
    monkeypatch.setattr(_measured, "GROUP_CELLS", 4)
    rng = np.random.default_rng(0)
    codes = np.repeat(rng.integers(0, 2, (5000, 1)), 22, axis=1)
    problem = QueryProblem((2,) * 22, Marginals([(0, 1), (1, 2), (2, 3)]), 5000)
    _, result = run(SelectMeasure(), problem, codes, budget=Budget(1e6, 1e-6), n_iter=3)
    groups = result.distribution.groups
    assert max(map(len, groups)) == 2
    assert sorted(j for group in groups for j in group) == list(range(22))
    assert np.abs(result.answers - true_answers(problem, codes)).max() < 3e-3
    model = result.distribution.answers(problem.workload)
    assert np.abs(model - true_answers(problem, codes)).max() > 0.2


def test_the_fit_factorises():
    """Groups, or one histogram of everything: the same distribution."""
    shape, rng = (2, 3, 2, 2), np.random.default_rng(1)
    problem = QueryProblem(shape, Marginals(4), 1000)
    truth = Histogram(rng.dirichlet(np.full(24, 2.0)), shape)

    def measure(subsets):
        tables = [truth.marginal(s) for s in subsets]
        parts = [
            (scales(p.shape) * helmert(p)).flat[positions(s, s, shape)]
            for s, p in zip(subsets, tables, strict=True)
        ]
        values = np.concatenate(parts)
        return subsets, values, np.full(values.size, 1e-4)

    apart, joint = MeasuredTables(problem), MeasuredTables(problem)
    for measured in (apart, joint):
        measured.start(*measure(((0,), (1,), (2,), (3,))), rng)
        measured.add(*measure(((0, 1),)))
        measured.add(*measure(((2, 3),)))
    tables = Marginals(4)
    joint.groups = [(0, 1, 2, 3)]
    assert apart.fit(tables).answers == pytest.approx(joint.fit(tables).answers, abs=1e-3)
    assert sorted(apart.groups) == [(0, 1), (2, 3)]
    pairs = Marginals([(0, 1), (2, 3)])
    assert apart.fit(pairs).answers == pytest.approx(truth.answers(pairs), abs=2e-3)


def test_measurements_are_averaged_by_precision():
    problem = QueryProblem((2, 2), LinearQueries(np.eye(4)), 10)
    measured = MeasuredQueries(problem)
    assert measured.fit().answers == pytest.approx(0.25)
    measured.add(1, 0.5, 0.1)
    measured.add(1, 0.2, 0.2)
    assert measured.sums[1] / measured.precisions[1] == pytest.approx((4 * 0.5 + 0.2) / 5)
    tables = MeasuredTables(QueryProblem((2, 2), Marginals(2), 10))
    for value, deviation in ((0.5, 0.1), (0.2, 0.2)):
        tables.add(((0, 1),), np.array([value]), np.array([deviation]))
    assert tables.sums[0, 1] / tables.precisions[0, 1] == pytest.approx((4 * 0.5 + 0.2) / 5)


def test_product_of_histograms():
    rng = np.random.default_rng(2)
    first, second = (Histogram(rng.dirichlet(np.ones(math.prod(s))), s) for s in ((3, 2), (2,)))
    product = ProductHistogram(((2, 0), (1,)), (first, second))
    assert product.shape == (2, 2, 3)
    whole = product.histogram()
    tensor = np.einsum("ca,b->abc", first.p.reshape(3, 2), second.p)
    assert whole.p.reshape(2, 2, 3) == pytest.approx(tensor)
    workload = Marginals([(2, 1, 0), (0,), (1, 2), (2, 0)])
    assert product.answers(workload) == pytest.approx(whole.answers(workload))
    matrix = LinearQueries(rng.normal(size=(3, 12)))
    assert product.answers(matrix) == pytest.approx(whole.answers(matrix))
    codes = product.sample(50_000, rng)
    shares = true_answers(QueryProblem((2, 2, 3), workload, 50_000), codes)
    # 6 standard deviations of a share, of at most 1/2: false alarms below 1e-7 for 25 cells.
    assert np.abs(shares - product.answers(workload)).max() < 6 * 0.5 / math.sqrt(50_000)
