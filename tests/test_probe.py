"""Whether a probe finds that few coordinates matter, what it costs, and when it is planned."""

import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from stand_ins import Declared

from skdpsco.constraints import L1Ball
from skdpsco.data.design import as_design
from skdpsco.losses import Logistic, Multinomial, Squared
from skdpsco.losses.library import curvature, derivatives, values
from skdpsco.mechanisms.samplers import SCALE_BITS, select
from skdpsco.privacy import compose, rho_of
from skdpsco.solvers import Allowance, Problem, Stagewise
from skdpsco.solvers import gradient_sums as sums_module
from skdpsco.solvers.l1 import probe as probe_module
from skdpsco.solvers.l1 import screening as screening_module
from skdpsco.solvers.l1 import vertex_path as path_module
from skdpsco.solvers.l1.probe import PROBE, few_pay, plan_probe
from skdpsco.solvers.l1.stagewise import STAGEWISE, radius_of

N, D = 1500, 160
CORNERS = list(itertools.product((-9.0, 0.0, 9.0), repeat=2))


def probed(w, loss=None, alike=0.0, off=0.0, mu=0.3):
    """Whether few coordinates seem to matter if ``w`` is the truth."""
    rng = np.random.default_rng(0)
    X = (1.0 - alike) * rng.uniform(-1.0, 1.0, (N, D)) + alike * rng.uniform(-1.0, 1.0, (N, 1))
    z = X @ w
    z = 2.0 * z / z.std() + off
    if isinstance(loss, Logistic):
        y = np.where(z + rng.logistic(size=N) > 0.0, 1.0, -1.0)
    else:
        loss, y = Squared(1.0), np.clip(0.2 * z, -1.0, 1.0)
    squares = (float(np.square(X[:, 1]).mean()),) * D
    problem = Problem(loss, None, N, D + 1, True, mean_square=squares)
    plan, _, _ = plan_probe(problem, mu**2 / 2.0, Stagewise()._along_path)
    design, generator = as_design(X, np.ones(D), True), np.random.Generator(np.random.PCG64(1))
    return few_pay(plan, problem, design, y, generator, np.zeros(1, dtype=np.int64))[0]


FEW = np.isin(np.arange(D), [3, 40, 77]).astype(float)
MANY = np.random.default_rng(5).choice([-1.0, 1.0], D)


@pytest.mark.parametrize("loss", [None, Logistic()])
def test_first_steps_tell_few_from_many(loss):
    assert probed(FEW, loss)
    assert not probed(MANY, loss)
    # Where columns have a common part, all of them count, though each explains much.
    assert not probed(FEW, loss, alike=0.7)


class Untrue(Declared):
    """A loss that is steeper than it declares."""


@values.register(Untrue)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        out[i] = 9.0 * y[i]


@derivatives.register(Untrue)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        out[i, 0] = -9.0 if y[i] > 0.0 else 9.0


@curvature.register(Untrue)
def _(loss, z, y):
    return 1.0


@pytest.mark.parametrize("loss", [Logistic(), Squared(1.0), Squared(0.7), Untrue(0.5, 1.0)])
@pytest.mark.parametrize("square", [0.01, 0.5])
def test_numbers_change_by_what_is_charged(monkeypatch, loss, square):
    """Over neighbours of extreme records, whatever steps came first."""
    first, found = np.zeros(3), []
    monkeypatch.setattr(probe_module, "run_vertices", lambda *_: (first.copy(), None, None))
    monkeypatch.setattr(screening_module, "differentiate", screening_module.differentiate.py_func)

    def recorded(rng, values, sensitivity, multiplier, magnitude):
        found.append((values.copy(), sensitivity))
        assert np.abs(values).max() <= magnitude
        return 1.0

    monkeypatch.setattr(probe_module, "release", recorded)
    n, d = 3, 2
    problem = Problem(loss, None, n, d + 1, True, mean_square=(square,) * d)
    plan, _, _ = plan_probe(problem, 1.0, Stagewise()._along_path)
    records = list(itertools.product((-9.0, 0.0, 0.1, 9.0), (-9.0, 0.0, 9.0), (-1.0, 1.0)))
    worst = 0.0
    for first[:] in ((1.0, 0.0, 0.0), (0.0, -2.0, 1.0), (0.5, 1.0, 0.0), (0.0, 0.0, 1.0)):
        for rest in records[:: len(records) // 3]:
            found.clear()
            for x, z, y in records:
                X = np.array([(x, z), rest[:2], rest[:2]])
                design = as_design(X, np.ones(d), True)
                few_pay(plan, problem, design, np.array([y, rest[2], rest[2]]), None, None)
            values = np.array([value for value, _ in found])
            change = np.linalg.norm(values[:, None] - values[None], axis=2).max()
            worst = max(worst, float(change) / found[0][1])
    assert worst <= 1.0
    assert worst > 0.5


class Scores(NamedTuple):
    """A choice of the largest score that keeps the scores."""

    log: list


@select.register(Scores)
def _(mechanism, rng, scores):
    mechanism.log.append(scores.copy())
    return int(np.argmax(scores))


def steps_of(plan, problem, X, y, start=None):
    """Scores along a path without noise, and its vertices and their stopping point."""
    log, progress = Scores([]), np.zeros(1, dtype=np.int64)
    plan, design = replace(plan, mechanism=log), as_design(X, np.ones(2), problem.intercept)
    ball = L1Ball(radius_of(problem)[0])
    w, chosen, stop = path_module.run_vertices(
        plan, problem, ball, design, y, None, progress, start
    )
    return log.log, w, chosen, stop


def in_python(monkeypatch):
    for module, name in (
        (path_module, "choose_vertex"),
        (path_module, "draw"),
        (sums_module, "add_gradients"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name).py_func)


@pytest.mark.parametrize("loss", [Logistic(), Squared(1.0), Squared(0.5)])
def test_a_path_in_two_parts_is_a_path(monkeypatch, loss):
    in_python(monkeypatch)
    rng = np.random.default_rng(3)
    X, y = rng.uniform(-1.0, 1.0, (8, 2)), rng.choice([-1.0, 1.0], 8)
    problem = Problem(loss, None, 8, 3, True)
    plan = Stagewise().plan(problem, Allowance(50.0), 5).path
    first, rest = plan.split(2)
    assert (len(first.weight), len(rest.weight)) == (2, 3)
    assert compose(first.event, rest.event) == plan.event
    assert rho_of(first.event) == pytest.approx(2.0 * rho_of(plan.of_step))
    whole, _, vertices, stop = steps_of(plan, problem, X, y)
    begun, w, chosen, _ = steps_of(first, problem, X, y)
    ended, _, others, last = steps_of(rest, problem, X, y, w)
    np.testing.assert_array_equal(np.append(chosen, others), vertices)
    np.testing.assert_array_equal(whole[:5], [*begun, *ended[:3]])
    np.testing.assert_array_equal(whole[5][2:], ended[3])  # losses, from the second step on
    assert last == np.argmax(whole[5][2:])
    assert stop == np.argmax(whole[5])


@pytest.mark.parametrize("loss", [Logistic(), Squared(1.0), Squared(0.5), Untrue(0.5, 1.0)])
@pytest.mark.parametrize("start", [(0.0, 0.0), (4.8, 0.0), (-2.4, 2.4)])
def test_scores_of_what_follows_change_by_what_is_charged(monkeypatch, loss, start):
    """From wherever the first steps have ended."""
    in_python(monkeypatch)
    problem = Problem(loss, None, 2, 2, False)
    plan = Stagewise().plan(problem, Allowance(50.0), 5).path.split(2)[1]
    start = np.array(start) * radius_of(problem)[0] / 12.0
    pairs = [np.array([x, (9.0, 0.3)]) for x in CORNERS]
    logs = [
        steps_of(plan, problem, X, np.array([y, 1.0]), start)[0][0]
        for X, y in itertools.product(pairs, (-1.0, 1.0))
    ]
    scores = np.array(logs)
    widest = np.ptp(scores[:, None] - scores[None], axis=2).max()
    charged = plan.of_step.epsilon0 * 2.0**SCALE_BITS
    assert 0.5 < widest / charged <= 1.0


def planned(mu, loss=None, **changes):
    squares = (0.3,) * D
    problem = Problem(loss or Logistic(), None, N, D + 1, True, mean_square=squares)
    return Stagewise().plan(replace(problem, **changes), Allowance(mu**2 / 2.0))


@pytest.mark.parametrize("loss", [Logistic(), Squared(1.0)])
def test_either_branch_costs_what_is_left(loss):
    for mu in (0.12, 0.2, 0.5):
        plan = planned(mu, loss)
        left = rho_of(plan.probe.few.event)
        assert rho_of(plan.probe.many.event) == pytest.approx(left, rel=1e-9)
        assert rho_of(plan.event) == pytest.approx(mu**2 / 2.0, rel=1e-9)
        spent = rho_of(plan.probe.first.event) + plan.probe.multiplier**-2 / 2.0
        assert spent + left == pytest.approx(mu**2 / 2.0, rel=1e-9)
        assert 0.75 <= left / (mu**2 / 2.0) < 0.99  # noise of either branch fits its grid


def test_a_probe_is_for_dense_records_of_many_columns():
    assert planned(0.3).probe is not None
    assert planned(0.3, mean_square=None).probe is None
    assert planned(0.3, added=True).probe is None
    assert planned(0.3, sparse=True).probe is None
    assert planned(0.3, Multinomial(3)).probe is None
    assert planned(0.3, n_features=61, mean_square=(0.3,) * 60).probe is None
    assert planned(0.03).probe is None  # a selection would be a guess
    enough = STAGEWISE.all_records * (D + 1) / N
    assert planned(0.99 * enough).probe is not None
    assert planned(1.01 * enough).descent
    least = PROBE.residuals * (D + 1) / N
    assert planned(1.01 * least, Squared(1.0)).probe.first is not None
    assert planned(0.99 * least, Squared(1.0)).probe.first is None  # norms alone are counted
