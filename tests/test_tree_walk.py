"""The trees of `TreeFrankWolfe`: the walk, fresh nodes, batches, and the bounds of plans."""

import itertools
import math

import numpy as np
import pytest
from cases import each

from skdpsco.constraints import L1Ball, L2Ball, LpBall
from skdpsco.constraints.norms import conjugate
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared, derivatives
from skdpsco.solvers import Problem
from skdpsco.solvers.lp_ball.tree import along_paths, nodes, share_records, step_size, travel, uses
from skdpsco.solvers.lp_ball.tree_bounds import BallBounds, weights
from skdpsco.solvers.lp_ball.tree_frank_wolfe import NOISES

LOSSES = [Logistic(), Squared(), Huber(0.5), SmoothHinge(0.5), Multinomial(3)]
BALLS = [L1Ball(3.0), LpBall(1.5, 2.0), L2Ball(2.0), LpBall(math.inf, 1.0)]


def published_walk(n_phases):
    """The nodes in the order of a depth-first search, by recursion, as strings of bits."""
    found, owner = [], {}

    def visit(phase, s, parent):
        if s == "" or s[-1] == "1":
            owner[phase, s] = len(found)
            found.append((phase, s, owner.get((phase, parent)), 0))
        else:
            owner[phase, s] = owner[phase, parent]
        if len(s) == phase:
            for k in {owner[phase, s[:j]] for j in range(phase + 1)}:
                found[k] = (*found[k][:3], found[k][3] + 1)
            return
        for bit in "01":
            visit(phase, s + bit, s)

    for phase in range(1, n_phases + 1):
        visit(phase, "", None)
    return found


def test_the_loop_over_steps_visits_the_trees_depth_first():
    expected = published_walk(6)
    tree = nodes(2**7 - 2)
    roots = [node.depth == 0 for node in tree]
    assert len(tree) == len(expected)
    assert uses(tree, roots) == [count for *_, count in expected] == [n.span for n in tree]
    for t, (node, (phase, s, parent, _)) in enumerate(zip(tree, expected, strict=True)):
        assert (node.phase, node.depth) == (phase, len(s))
        assert t == 2**phase - 2 + int((s + "0" * (phase - len(s))) or "0", 2)
        assert node.span == 2 ** (phase - len(s))
        # The steps since its parent's point are those of its left sibling.
        assert node.parent == (t if s == "" else parent)
        assert roots[t] or node.parent == t - node.span
    for t in (1, 5, 40, 90):  # a tree that is cut off
        assert nodes(t) == tree[:t]


@each("n_steps", [1, 13, 30, 47])
def test_gradients_start_anew_at_fresh_nodes(n_steps):
    tree = nodes(n_steps)
    fresh = [node.depth in (0, 1, 3) for node in tree]
    paths = []
    for t in range(n_steps):
        paths.append([t])
        while not fresh[paths[-1][-1]]:
            paths[-1].append(tree[paths[-1][-1]].parent)
    assert uses(tree, fresh) == [sum(s in p for p in paths) for s in range(n_steps)]
    terms = [float(2**t) for t in range(n_steps)]
    assert along_paths(terms, tree, fresh) == [sum(terms[s] for s in p) for p in paths]
    if n_steps == 30:
        # 8 of 16 leaves are below a fresh child, 4 more below its fresh grandchildren.
        assert uses(tree, fresh)[14] == 4


def test_points_travel_as_far_as_the_bound_says():
    for t, node in enumerate(nodes(62)):
        if node.depth:
            kept = math.prod(1 - step_size(s) for s in range(t - node.span, t))
            assert travel(t, node.span) == pytest.approx(1 - kept, rel=1e-12)
            assert travel(t, node.span) <= 2.0 ** (1 - node.depth)  # what the paper uses


@each("noise", NOISES)
@each(("n", "n_iter"), [(1, 1), (7, 6), (127, 14), (1000, 61), (1000, 1000)])
def test_batches_share_out_all_records(noise, n, n_iter):
    tree = nodes(n_iter)
    bounds = BallBounds(Problem(Logistic(), L1Ball(3.0), n, 5))
    sizes = share_records(tree, weights(bounds, tree, noise), n)
    assert sum(sizes) == n
    assert min(sizes) >= 1
    if n_iter == 14:  # most of the records are in the last tree, and most of these high up
        assert sum(sizes[6:]) > 0.65 * n
        assert min(sizes[6], sizes[10]) > sizes[8] >= sizes[12] >= sizes[7] > 1


def test_difference_bounds_hold():
    """What `BallBounds` promises of gradients and of their differences is true, and not far off."""
    rng = np.random.default_rng(0)
    for loss, ball, row_norm in itertools.product(LOSSES, BALLS, (0.8, math.inf)):
        problem = Problem(loss, ball, 10, 3, row_norm=row_norm)
        bounds, K = BallBounds(problem), loss.n_outputs
        x = np.ones(3) * min(1.0, row_norm / 3**0.5)
        assert np.linalg.norm(x, conjugate(ball.p)) <= problem.feature_norm(conjugate(ball.p))
        for _ in range(20):
            a, b = (ball.radius * w / np.linalg.norm(w, ball.p)
                    for w in rng.standard_normal((2, 3 * K)))  # fmt: skip
            y = float(rng.integers(3)) if K > 1 else rng.choice([-1.0, 1.0])
            R = np.empty((2, 1, K))
            for w, out in zip((a, b), R, strict=True):
                derivatives(loss, (w.reshape(K, 3) @ x)[None, :], np.array([y]), out)
            lengths = {p: np.linalg.norm(a - b, p) for p in (1.0, 2.0, ball.p)}
            for order in (2.0, 3.0, math.inf):
                assert np.linalg.norm(R[0, 0], order) <= bounds.slope(order) * (1 + 1e-12)
                difference = np.linalg.norm(R[0, 0] - R[1, 0], order)
                limit = bounds.change(order, lengths)
                # At the bound of a gradient no difference is taken.
                assert difference <= limit * (1 + 1e-12) or limit == bounds.slope(order)
