"""Group DRO by mirror prox: gradients, sensitivities, saddle points, what is refused."""

import itertools
import math

import numpy as np
import pytest
from cases import each
from scipy import sparse

from skdpsco.constraints import L1Ball, L2Ball
from skdpsco.data.design import as_design
from skdpsco.group_dro.options import group_solver
from skdpsco.losses.kernels import values
from skdpsco.losses.library import Absolute, Hinge, Logistic, Squared
from skdpsco.solvers import Allowance
from skdpsco.solvers.groups.mirror_prox import GroupMirrorProx, GroupOperator, largest_loss
from skdpsco.solvers.groups.problem import GroupProblem
from skdpsco.solvers.saddle.mirror_prox import MirrorProx
from skdpsco.solvers.saddle.problem import VariationalProblem, calibration
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation

NOISELESS = Allowance(1e10)  # rounding to the grid is all that is left
# Losses, with weights of classes.
CLASSIFICATION = [
    (Logistic(), None),
    (Hinge(), None),
    (Logistic(), (1.0, 0.1)),
    (Hinge(), (0.3, 1.0)),
]
LOSSES = [*CLASSIFICATION, (Squared(1.0), None), (Absolute(), None)]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def memberships(groups, k):
    """Groups of every record: an index, or several."""
    matrix = np.zeros((len(groups), k))
    for row, group in zip(matrix, groups, strict=True):
        row[np.atleast_1d(np.array(group, dtype=int))] = 1.0
    return sparse.csr_array(matrix)


def problem_for(loss, membership, F, *, radius=1.0, private=None, intercept=False, **options):
    sizes = membership.sum(axis=0).astype(int)
    return GroupProblem(
        loss[0],
        L2Ball(radius),
        membership.shape[0],
        F,
        intercept,
        n_groups=membership.shape[1],
        group_sizes=None if private is not None else tuple(sizes.tolist()),
        prior=private,
        max_memberships=int(np.diff(membership.indptr).max()),
        class_weights=loss[1],
        **options,
    )


def records(loss, n=90, k=3, seed=0):
    """Rows of norm at most 1 whose groups disagree, small targets, and an index of groups."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(k), [n // 2, n // 3, n - n // 2 - n // 3])
    X = rng.uniform(-1.0, 1.0, (n, 3))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    directions = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [-1.0, 0.2, 0.5]])
    z = np.einsum("ij,ij->i", X, directions[group])
    if type(loss[0]) in (Logistic, Hinge):
        return X, np.where(z + 0.2 * rng.standard_normal(n) > 0, 1.0, -1.0), group
    return X, np.clip(0.5 * z, -0.45, 0.45), group


def weights(loss, t):
    """What users have declared for the classes of the targets."""
    low, high = loss[1] or (1.0, 1.0)
    return np.where(t > 0, high, low)


def losses_of(loss, z, t):
    out = np.empty(len(t))
    values(loss[0], z[:, None], t, out)
    return out


def mean_losses(loss, X, t, membership, w):
    each = weights(loss, t) * np.clip(losses_of(loss, X @ w, t), 0.0, largest_loss(loss[0]))
    return membership.T @ each / membership.sum(axis=0)


@each_loss
@pytest.mark.parametrize("average_weight", [0.0, 0.3])
@pytest.mark.parametrize("overlap", [False, True])
def test_operator_is_the_gradient_of_the_objective(loss, average_weight, overlap):
    X, t, group = records(loss)
    groups = [[g, (g + 1) % 3] if overlap and g == 1 else [g] for g in group]
    membership = memberships(groups, 3)
    problem = problem_for(loss, membership, 3, average_weight=average_weight)
    assert problem.max_memberships == 1 + overlap
    operator = GroupOperator(problem, 1.0)
    saddle = VariationalProblem(operator, len(t))
    sizes = membership.sum(axis=0)

    def objective(w, theta):
        mix = (1 - average_weight) * theta + average_weight * sizes / sizes.sum()
        return mix @ mean_losses(loss, X, t, membership, w)

    rng = np.random.default_rng(1)
    for theta in (*np.eye(3), rng.dirichlet(np.ones(3))):
        w = rng.uniform(-0.5, 0.5, 3)
        z = np.concatenate([w, theta])
        total = operator.total(z, (X, t, membership))
        found = saddle.mean(z, total, len(t))
        h = 1e-6 * np.eye(3)
        numeric = [(objective(w + e, theta) - objective(w - e, theta)) / 2e-6 for e in h]
        assert found[:3] == pytest.approx(np.array(numeric), abs=1e-4)
        levels = -(1 - average_weight) * mean_losses(loss, X, t, membership, w)
        # Up to a constant, which makes no difference on the simplex.
        assert np.ptp(found[3:] - levels) < 1e-12
        if not overlap:  # the right prior says what the sizes say
            shares = tuple((sizes / len(t)).tolist())
            prior = problem_for(loss, membership, 3, private=shares, average_weight=average_weight)
            same = VariationalProblem(GroupOperator(prior, 1.0), len(t))
            assert np.array_equal(found, same.mean(z, total, len(t)))
        weights = operator.weights(z)
        assert np.ptp(weights[:3]) == 0.0
        assert weights[0] <= operator.largest_weights[0] * (1 + 1e-12)
        assert weights[3:].max() <= operator.largest_weights[1] * (1 + 1e-12)
        # The bounds that steps are chosen for.
        assert np.linalg.norm(found[:3]) <= operator.blocks[0].lipschitz
        assert np.abs(found[3:]).max() <= operator.blocks[1].lipschitz


@each_loss
@pytest.mark.parametrize(
    ("allowed", "private", "same"),
    [
        ([[0], [1]], None, True),
        ([[0, 1], [1, 2]], None, True),
        ([[0], [1], [2]], (0.2, 0.3, 0.5), False),
        ([[], [0, 1], [1, 2], [0]], (0.2, 0.3, 0.5), False),
    ],
)
def test_sensitivity_over_neighbours(loss, allowed, private, same):
    rng = np.random.default_rng(0)
    extreme = (-1.0, 1.0)
    # Predictions of one sign, and gradients that are nearly opposite.
    rows = [*np.eye(2), *-np.eye(2), (0.1, 0.99**0.5), (0.1, -(0.99**0.5)), np.zeros(2)]
    others = [(rng.uniform(-0.7, 0.7, 2), rng.choice(extreme), g) for g in ([0], [1], [2])]
    n, r = len(others) + 1, max(map(len, allowed))
    largest, sensitivity = np.zeros(2), None
    for start in allowed if same else [None]:
        candidates = itertools.product(rows, extreme, [start] if same else allowed)
        found = []
        for record in candidates:
            data = [record, *others]
            membership = memberships([g for _, _, g in data], 3)
            problem = GroupProblem(
                loss[0], L2Ball(99.0), n, 2, n_groups=3, max_memberships=r, prior=private,
                class_weights=loss[1],
                group_sizes=tuple(membership.sum(axis=0).astype(int)) if same else None,
            )  # fmt: skip
            operator = GroupOperator(problem, 1.0)
            sensitivity = np.array(calibration(VariationalProblem(operator, n), 1.0)[0])
            X, t = np.array([x for x, _, _ in data]), np.array([y for _, y, _ in data])
            points = itertools.product([[99.0, 0.0], [1.0, 0.0], [0.0, 0.0]], np.eye(3))
            totals = [operator.total(np.concatenate(z), (X, t, membership)) for z in points]
            found.append(np.array(totals))
        stack = np.array(found)
        change = stack[:, None] - stack[None]
        for block, part in enumerate((slice(0, 2), slice(2, 5))):
            moved = float(np.linalg.norm(change[..., part], axis=-1).max())
            largest[block] = max(largest[block], moved)
    assert sensitivity is not None
    assert (largest <= sensitivity).all()
    assert (largest >= 0.99 * sensitivity).all()


@each("overlap", [1, 3])
@each("average_weight", [0.0, 0.6, 1.0])
def test_largest_weights_are_reached_at_a_corner(overlap, average_weight):
    prior = (0.5, 0.05, 0.2, 0.7)
    problem = GroupProblem(
        Logistic(), L2Ball(1.0), 10, 2, n_groups=4, prior=prior, max_memberships=overlap,
        average_weight=average_weight,
    )  # fmt: skip
    operator = GroupOperator(problem, 1.0)
    corners = np.hstack([np.zeros((4, 2)), np.eye(4)])
    weights = np.max([operator.weights(z) for z in corners], axis=0)
    expected = (weights[0], weights[-4:].max())[: len(operator.blocks)]
    assert operator.largest_weights == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("intercept", [False, True])
def test_rows_are_clipped_scaled_and_shortened(intercept):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (20, 4)) * (rng.random((20, 4)) < 0.6)
    bounds = np.array([1.0, 2.0, 0.5, 4.0])
    membership = memberships(np.zeros(20, dtype=int), 1)
    problem = problem_for(LOSSES[0], membership, 4 + intercept, intercept=intercept)
    operator = GroupOperator(problem, 1.2)
    expected = np.clip(X, -bounds, bounds) / bounds
    if intercept:
        expected = np.hstack([expected, np.ones((20, 1))])
    norms = np.linalg.norm(expected, axis=1)
    assert norms.max() > 1.2 > norms.min()
    expected *= (1.2 / np.maximum(norms, 1.2))[:, None]
    dense = operator.rows(as_design(X, bounds, intercept))
    csr = operator.rows(as_design(sparse.csr_matrix(X), bounds, intercept))
    assert np.allclose(dense, expected, rtol=1e-14)
    assert np.allclose(csr.toarray(), expected, rtol=1e-14)
    assert np.linalg.norm(dense, axis=1).max() <= 1.2 * (1 + 4 * 2.0**-50)


@pytest.mark.parametrize(
    ("loss", "average_weight"), [(LOSSES[0], 0.0), *((loss, 0.4) for loss in LOSSES)], ids=str
)
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # of the solver we compare with
def test_without_noise_the_saddle_point_is_found(loss, average_weight):
    import cvxpy as cp

    X, t, group = records(loss)
    membership = memberships(group, 3)
    radius = 2.0 if type(loss[0]) in (Logistic, Hinge) else 0.5  # no loss is cut
    problem = problem_for(loss, membership, 3, radius=radius, average_weight=average_weight)
    solver = GroupMirrorProx(row_norm=1.0)
    progress = np.zeros(1, dtype=np.int64)
    plan = solver.plan(problem, NOISELESS, 1200)
    design = as_design(X, np.ones(3), False)
    rng = np.random.default_rng(0)
    result = solver.run(plan, problem, design, t, membership, rng, progress)
    assert progress[0] == plan.n_iter == 1200

    w = cp.Variable(3)
    z = X @ w
    each = {
        Logistic: cp.logistic(-cp.multiply(t, z)),
        Hinge: cp.pos(1 - cp.multiply(t, z)),
        Squared: cp.square(z - t) / 2,
        Absolute: cp.abs(z - t),
    }[type(loss[0])]
    each = cp.multiply(weights(loss, t), each)
    means = cp.hstack([cp.sum(each[group == g]) / (group == g).sum() for g in range(3)])
    share = np.bincount(group) / len(group)
    goal = (1 - average_weight) * cp.max(means) + average_weight * share @ means
    best = cp.Problem(cp.Minimize(goal), [cp.norm(w) <= radius]).solve(solver=cp.CLARABEL)
    assert each.value.max() < largest_loss(loss[0])

    def value(w):
        of_groups = mean_losses(loss, X, t, membership, w)
        return (1 - average_weight) * of_groups.max() + average_weight * share @ of_groups

    # What the weights of the groups promise is a lower bound.
    lower = cp.Problem(cp.Minimize(result.theta @ means), [cp.norm(w) <= radius]).solve(
        solver=cp.CLARABEL
    )
    # Errors, as shares of what is to be gained, fall like 1 / T and 1 / sqrt(T).
    gain = value(np.zeros(3)) - best
    assert gain > 0.05 * best
    share_left = 0.05 if isinstance(loss[0], (Logistic, Squared)) else 0.3
    assert -1e-6 <= value(result.coef) - best <= share_left * gain
    assert -1e-6 <= best - lower <= share_left * gain
    assert value(result.coef) - lower <= plan.schedule.bound
    assert result.theta.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("solver", [MirrorProx(), RecursiveRegularisation()])
def test_solvers_of_other_problems(solver):
    with pytest.raises(TypeError, match="solver must be one for groups"):
        group_solver(solver)


def test_bad_problems():
    membership = memberships([0, 1, 2, 1], 3)
    loss, solver = LOSSES[0], GroupMirrorProx()

    def plan(**options):
        return solver.plan(problem_for(loss, membership, 2, **options), Allowance(1.0))

    with pytest.raises(ValueError, match="cvar_level must be 0 or 1 for mirror prox"):
        plan(cvar_level=0.2)
    plan(cvar_level=1.0)  # the average
    for prior in ((), (0.5, 0.5), (0.5, 0.5, 0.0), (0.5, 0.5, math.nan), (0.5, 0.5, 1.5)):
        with pytest.raises(ValueError, match="prior"):
            plan(private=prior)
    no_prior = GroupProblem(loss[0], L2Ball(1.0), 4, 2, n_groups=3)
    with pytest.raises(ValueError, match="prior"):
        solver.plan(no_prior, Allowance(1.0))
    one_norm = GroupProblem(loss[0], L1Ball(1.0), 4, 2, n_groups=3, group_sizes=(1, 2, 1))
    with pytest.raises(TypeError, match="L2Ball"):
        solver.plan(one_norm, Allowance(1.0))
    problem = problem_for(loss, membership, 2)
    many = memberships([[0, 1], [1], [2], [1]], 3)
    with pytest.raises(ValueError, match="at most 1 groups"):
        solver.run(
            solver.plan(problem, Allowance(1.0)),
            problem,
            as_design(np.zeros((4, 2)), np.ones(2), False),
            np.full(4, 1.0),
            many,
            np.random.default_rng(0),
        )
