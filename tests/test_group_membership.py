"""Private membership of groups, and overlapping groups."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import accuracy_score
from test_private_group_dro import data, model

from skdpsco import UtilityWarning
from skdpsco.group_dro import group_report, worst_group_score
from skdpsco.solvers.groups.descent import GroupDescent

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning"),
]
NAMES = ["north", "south"]
PRIVATE = {"group_membership": "private", "groups": NAMES}
LOSSES = pytest.mark.parametrize("loss", ["logistic", "squared"])


class Recorder(GroupDescent):
    """A user's own solver, which keeps what the planner was told."""

    def plan(self, problem, budget, n_iter=None):
        self.problem = problem
        self.made = super().plan(problem, budget, n_iter)
        return self.made


# ------------------------------------------------------------------------------ private membership


@LOSSES
@pytest.mark.parametrize("cvar_level", [0.0, 0.5, 1.0])
def test_without_noise_membership_makes_no_difference(loss, cvar_level):
    X, y, group = data()
    share = (group == "north").mean()
    params = {"loss": loss, "cvar_level": cvar_level, "average_weight": 0.2}
    params["feature_bound"] = 1.0
    public, *private = (
        model(**params, **extra, epsilon=5e9).fit(X, y, sensitive_features=group)
        for extra in ({}, {**PRIVATE, "group_prior": [share, 1 - share]}, PRIVATE)
    )
    for fitted in private:
        assert fitted.coef_ == pytest.approx(public.coef_, abs=0.03)
        assert fitted.intercept_ == pytest.approx(public.intercept_, abs=0.03)
        assert fitted.group_weights_ == pytest.approx(public.group_weights_, abs=0.03)


@pytest.mark.filterwarnings("error::skdpsco.UtilityWarning")
@pytest.mark.parametrize("prior", [[0.3, 0.3, 0.4], None])
def test_plans_see_no_private_sizes(prior):
    """Plan, warnings and report do not depend on who is in which group, or in none."""
    X, y, group = data()
    params = {**PRIVATE, "groups": [*NAMES, "west"], "group_prior": prior}
    seen = []
    for labels in (group, np.sort(group), ["west"] * len(y)):
        solver = Recorder()
        fitted = model(**params, solver=solver).fit(X, y, sensitive_features=labels)
        assert np.isfinite(fitted.coef_).all()
        assert fitted.group_weights_.shape == (3,)
        seen.append((solver.problem, solver.made, str(fitted.privacy_), fitted.n_iter_))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0].group_sizes is None
    matrices = [np.eye(3, dtype=bool)[np.arange(600) % 3], np.zeros((600, 3), dtype=bool)]
    for matrix in [*matrices, ~matrices[1]]:
        solver = Recorder()
        model(**params, solver=solver).fit(X, y, sensitive_features=matrix)
        seen.append((solver.problem, solver.made))
    assert seen[3] == seen[4] == seen[5]
    assert seen[3][0].max_memberships == 3


def test_warnings_about_private_groups_are_about_public_numbers():
    X, y, group = data()
    for prior, named in [([0.01, 0.99], "'north' (6)"), (None, None), ([0.5, 0.5], None)]:
        for labels in (group, np.sort(group)):
            with warnings.catch_warnings(record=True) as record:
                warnings.simplefilter("always", UtilityWarning)
                model(**PRIVATE, group_prior=prior).fit(X, y, sensitive_features=labels)
            found = [str(w.message) for w in record if w.category is UtilityWarning]
            assert len(found) == (named is not None)
            assert named is None or named in found[0]
    with pytest.warns(UtilityWarning, match=r"'north' \(300\), 'south' \(300\)"):
        model(**PRIVATE, epsilon=0.1).fit(X, y, sensitive_features=group)


# ------------------------------------------------------------------------------ overlapping groups


def one_hot(group):
    return np.column_stack([group == name for name in NAMES])


@pytest.mark.parametrize("extra", [{}, PRIVATE])
def test_ways_to_give_a_matrix(extra):
    X, y, group = data()
    matrix = one_hot(group) | (np.arange(600) % 7 == 0)[:, None]
    frame = pd.DataFrame(matrix, columns=NAMES)
    plain = model(**{"groups": NAMES, **extra}).fit(X, y, sensitive_features=matrix)
    for given in (frame, frame.astype("boolean"), frame.assign(south=frame.south.astype("boolean")),
                  pl.DataFrame(matrix, schema=NAMES), np.asfortranarray(matrix)):  # fmt: skip
        other = model(**{"groups": NAMES, **extra}).fit(X, y, sensitive_features=given)
        assert np.array_equal(other.coef_, plain.coef_)
        assert other.groups_.tolist() == NAMES
    if not extra:
        assert model().fit(X, y, sensitive_features=frame).groups_.tolist() == NAMES
        assert model().fit(X, y, sensitive_features=matrix).groups_.tolist() == [0, 1]
    # Columns of X that are named are a product, as are lists of booleans.
    whole = pd.DataFrame(X).add_prefix("x").assign(**frame)
    product = model().fit(whole, y, sensitive_features=NAMES)
    assert product.groups_.tolist() == [(False, True), (True, False), (True, True)]
    assert product.n_features_in_ == 4
    assert len(model().fit(X, y, sensitive_features=matrix.tolist()).groups_) == 3


def test_a_matrix_without_overlaps_is_labels():
    """In public mode the same bits; where membership is private a matrix has more noise."""
    X, y, group = data()
    labels = model(groups=NAMES).fit(X, y, sensitive_features=group)
    matrix = model(groups=NAMES).fit(X, y, sensitive_features=one_hot(group))
    assert np.array_equal(matrix.coef_, labels.coef_)
    assert "a replaced record stays in its groups" in str(matrix.privacy_)
    noise = []
    nobody = np.zeros((len(group), 1), dtype=bool)
    for given in (group, np.hstack([one_hot(group), nobody])):
        solver, params = Recorder(), {**PRIVATE, "groups": [*NAMES, "west"], "n_iter": 8}
        fitted = model(**params, solver=solver).fit(X, y, sensitive_features=given)
        assert fitted.n_iter_ == 8
        noise.append(solver.made.losses.grid)
    assert noise[1] == pytest.approx(np.sqrt(3 / 2) * noise[0], rel=1e-3)  # of losses that change


@LOSSES
@pytest.mark.parametrize("mode", ["public", "prior", "counts"])
def test_without_noise_overlaps_are_solved(loss, mode):
    """Against cvxpy: worst and average of the three groups, a fifth of the records in none."""
    import cvxpy as cp

    rng = np.random.default_rng(0)
    n = 600
    X, member = rng.uniform(-1, 1, (n, 3)), rng.random((n, 3)) < [0.2, 0.4, 0.6]
    member[::5] = False
    z = X[:, 0] * np.where(member[:, 0], -2, 2) + X[:, 1] + 0.3 * member[:, 1]
    y = rng.random(n) < 1 / (1 + np.exp(-z)) if loss == "logistic" else np.clip(0.3 * z, -1, 1)
    sizes = member.sum(axis=0)
    extra = {"groups": ["a", "b", "c"], "group_membership": "private"} if mode != "public" else {}
    if mode == "prior":
        extra["group_prior"] = sizes / n
    params = {"loss": loss, "average_weight": 0.3, "epsilon": 5e9}
    fitted = model(**params, **extra).fit(X, y, sensitive_features=member)

    w, b = cp.Variable(3), cp.Variable()
    z = X @ w + b
    each = cp.logistic(-cp.multiply(2.0 * y - 1, z)) if loss == "logistic" else (z - y) ** 2 / 2
    means = [cp.sum(each[member[:, g]]) / sizes[g] for g in range(3)]
    average = sum(size * mean for size, mean in zip(sizes, means, strict=True)) / sizes.sum()
    goal = 0.7 * cp.max(cp.hstack(means)) + 0.3 * average
    best = cp.Problem(cp.Minimize(goal)).solve()
    w.value, b.value = np.ravel(fitted.coef_), float(np.ravel(fitted.intercept_)[0])
    assert best * (1 - 1e-6) <= goal.value <= 1.02 * best
    assert (fitted.group_weights_ >= 0.3 * sizes / sizes.sum() - 1e-6).all()


def test_scores_of_overlapping_groups():
    X, y, group = data()
    fitted = model().fit(X, y, sensitive_features=group)
    matrix = one_hot(group) | (np.arange(600) % 7 == 0)[:, None]
    matrix[::5] = False
    predicted = fitted.predict(X)
    by_hand = [accuracy_score(y[m], predicted[m]) for m in matrix.T]
    frame = pd.DataFrame(matrix, columns=NAMES)
    report = group_report(fitted, X, y, sensitive_features=frame)
    assert report.groups.tolist() == NAMES
    assert report.by_group == pytest.approx(by_hand)
    assert report.n_samples.tolist() == matrix.sum(axis=0).tolist()
    assert report.overall == accuracy_score(y, predicted)
    assert str(report).splitlines()[-1].split()[:2] == ["overall", "600"]
    assert worst_group_score(fitted, X, y, sensitive_features=matrix) == min(by_hand)
    with pytest.raises(ValueError, match="has no member"):
        group_report(fitted, X, y, sensitive_features=matrix & [True, False])
