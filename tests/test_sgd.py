"""DP-SGD on Poisson samples: plans, convergence, batches."""

import dataclasses

import numpy as np
import pytest
from runs import make_problem, run
from scipy import sparse

from skdpsco._random import UtilityWarning
from skdpsco.data.design import as_design
from skdpsco.linear_model import PrivateLogisticRegression
from skdpsco.losses import Huber, Logistic, Multinomial, Squared
from skdpsco.privacy import Budget, PoissonSampledGaussianEvent, allows, compose, epsilon_of, rho_of
from skdpsco.privacy import _pld as pld_module
from skdpsco.privacy.events import leaves
from skdpsco.solvers import SGD, Allowance, GradientDescent, check_cost
from skdpsco.solvers.penalized import sgd as module

# ------------------------------------------------------------------------------ plans


@pytest.mark.parametrize(
    ("loss", "accountant"),
    [(Squared(), "rdp"), (Huber(0.5), "pld"), (Logistic(), "pld"), (Multinomial(3), "rdp")],
)
def test_plans_spend_the_budget_and_no_more(loss, accountant):
    for n, epsilon, size, n_iter in ((5000, 1.0, "auto", None), (200, 8.0, 10, 30)):
        budget, problem = Budget(epsilon, 1e-6), make_problem(loss, n, 5)
        plan = SGD(batch_size=size, accountant=accountant).plan(problem, budget, n_iter)
        spent = epsilon_of(plan.event, 1e-6, accountant)
        assert 0.99 * epsilon < spent <= epsilon
        check_cost(plan.event, budget)
        # The sampler's event is the one that is charged, as often as there are steps.
        assert (plan.sampling, plan.n_iter) in list(leaves(plan.event))
        assert hash(plan) is not None
        less = dataclasses.replace(plan.sampling, noise_multiplier=0.99 * _z(plan))
        parts = [less if leaf == plan.sampling else leaf for leaf, k in leaves(plan.event)
                 for _ in range(k)]  # fmt: skip
        assert not allows(budget, compose(*parts), accountant)


def _z(plan):
    return plan.sampling.noise_multiplier


def test_more_steps_than_a_distribution_can_hold():
    budget, problem = Budget(1.0, 1e-6), make_problem(Logistic(), 50_000, 5)
    plan = SGD(accountant="pld").plan(problem, budget, 2 * 10**6)
    assert plan == SGD(accountant="rdp").plan(problem, budget, 2 * 10**6)
    (warning,) = plan.warnings
    assert warning.startswith("accountant='pld' is for at most 1000000 steps: the 2000000 of")
    assert SGD(accountant="pld").plan(problem, budget, 100).warnings == ()


def test_a_warning_names_the_line_that_called_fit(monkeypatch):
    def stop(*args):
        raise InterruptedError

    monkeypatch.setattr(SGD, "run", stop)
    monkeypatch.setattr(module, "pld_applies", lambda event, accountant: False)
    model = PrivateLogisticRegression(solver=SGD(accountant="pld", batch_size=2.0), n_iter=2)
    X, y = np.zeros((20, 1)), np.arange(20) % 2
    with pytest.warns(UtilityWarning, match="accountant='pld'") as caught:
        with pytest.raises(InterruptedError):
            model.fit(X, y)
    assert [w.filename for w in caught if "accountant='pld'" in str(w.message)] == [__file__]


def test_without_dp_accounting(monkeypatch):
    monkeypatch.setattr(pld_module, "find_spec", lambda name: None)
    monkeypatch.setattr(module, "with_least_noise", module.with_least_noise.__wrapped__)
    budget, problem = Budget(1.0, 1e-6), make_problem(Logistic(), 5000, 5)
    assert SGD().plan(problem, budget) == SGD(accountant="rdp").plan(problem, budget)
    with pytest.raises(ImportError, match=r"skdpsco\[pld\]"):
        SGD(accountant="pld").plan(problem, budget)


def test_automatic_batches_follow_public_sizes():
    budget = Budget(1.0, 1e-6)
    plan = SGD().plan(make_problem(Logistic(), 50_000, 5), budget)
    assert plan.sampling.sampling_probability == pytest.approx(0.05)
    assert plan.n_iter == 1000
    given = SGD(batch_size=25).plan(make_problem(Logistic(), 1000, 5), budget, 7)
    assert given.sampling == PoissonSampledGaussianEvent(_z(given), 0.025)
    assert given.n_iter == 7
    # Where sampling counts for nothing, and where noise is negligible, all records.
    problem = make_problem(Logistic(), 50_000, 5)
    for rest, size in (
        (Allowance(budget.rho), "auto"), (Budget(1e5, 1e-6), "auto"), (budget, 50_000),
    ):  # fmt: skip
        expected = GradientDescent().plan(problem, rest)
        assert SGD(batch_size=size).plan(problem, rest) == expected


def test_a_budget_in_zcdp_is_charged_without_sampling():
    rest, problem = Allowance(0.02), make_problem(Logistic(), 1000, 5)
    plan = SGD(batch_size=100).plan(problem, rest, 10)
    assert rho_of(plan.event) == pytest.approx(rest.rho, rel=3e-3)
    assert rho_of(plan.event) <= rest.rho
    check_cost(plan.event, rest)


# ------------------------------------------------------------------------------ convergence


def test_all_records_are_full_batches():
    """And then scikit-learn's solution is reached as by gradient descent."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 3))
    y = np.clip(X @ [0.4, 0.0, -0.2], -1, 1)
    problem, budget = make_problem(Squared(), 500, 3), Budget(1e6, 1e-6)
    solvers = SGD(), GradientDescent(shrunk=False)
    fits = [run(s, s.plan(problem, budget), problem, X, y).coef for s in solvers]
    np.testing.assert_array_equal(*fits)


def test_rows_of_both_layouts_and_empty_samples():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (50, 3)) * (rng.random((50, 3)) < 0.5)
    for rows in (np.array([3, 7, 8, 49]), np.array([], dtype=np.int64)):
        dense = module.Rows(as_design(X, np.ones(3), True))[rows]
        csr = module.Rows(as_design(sparse.csr_matrix(X), np.ones(3), True))[rows]
        np.testing.assert_array_equal(dense.values, X[rows])
        back = sparse.csr_matrix((csr.data, csr.indices, csr.indptr), shape=(len(rows), 3))
        np.testing.assert_array_equal(back.toarray(), X[rows])
    # Samples of one record among fifty are mostly empty, and their noise is released all the same.
    problem = make_problem(Logistic(), 50, 3)
    solver = SGD(batch_size=0.5, accountant="rdp")  # which plans at once
    plan = solver.plan(problem, Budget(1.0, 1e-6), 5)
    for given in (X, sparse.csr_matrix(X)):
        assert np.isfinite(run(solver, plan, problem, given, np.ones(50)).coef).all()
