"""Moments of groups of records, and of records with weights."""

import itertools

import numpy as np
import pytest
from cases import costs_nothing, each
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, Ridge

from skdpsco import (
    PrivateElasticNet,
    PrivateLinearDiscriminantAnalysis,
    PrivateMoments,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.data.design import as_design
from skdpsco.moments.release import ONE
from skdpsco.moments.table_sums import TableSums
from skdpsco.preprocessing import PrivatePCA
from skdpsco.solvers.penalized.second_moments import upper_triangle

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdpsco.PrivacyWarning", "ignore::skdpsco.UtilityWarning"
)
N, D = 1200, 3
RNG = np.random.default_rng(0)
SITE = RNG.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
X = RNG.normal(size=(N, D)) + (SITE == "b")[:, None]
Y = X @ [1.0, -1.0, 0.5] + 2.0 * (SITE == "a") + 0.3 * RNG.normal(size=N)
WEIGHTS = RNG.uniform(0.0, 2.0, N)
WIDE = {"feature_bound": 8.0, "target_bound": 12.0, "random_state": 0}
GROUPED = {**WIDE, "groups": ["a", "b", "c"]}
EXACT = {"epsilon": 1e7}


def test_a_replaced_record_moves_all_groups_together_by_what_is_charged():
    """For all replacements, group and weight included; another group is no worse than the same."""
    c, found = np.sqrt(2.0), []
    rest = [[0.2, -0.4], [1.0, 1.0]]
    for x in itertools.product((-1.0, 0.0, 0.5, 1e9), repeat=2):
        for group, weight in itertools.product((0, 1), (0.0, 0.4, 1.0)):
            tags = np.array([group + weight / 2.0, 0.5, 1.25])
            sums = TableSums(as_design(np.array([x, *rest]), np.ones(2), False), tags, np.ones(2))
            matrices = sums.matrix(np.zeros(2), np.ones(2), c, ONE, 2)
            found.append((group, np.concatenate([upper_triangle(M) for M in matrices])))
    changes = {True: 0.0, False: 0.0}
    for (g, one), (h, other) in itertools.combinations(found, 2):
        changes[g == h] = max(changes[g == h], np.linalg.norm(one - other))
    charged = np.sqrt(2.0) * (1.0 + ONE**2)
    assert max(changes.values()) <= charged * (1.0 + 1e-12)
    assert changes[False] == pytest.approx(charged)  # two records of full length
    assert changes[True] > 0.8 * charged


def test_noise_is_that_of_a_release_without_groups():
    alone = PrivateMoments(epsilon=1.0, **WIDE).fit(X, Y)
    grouped = PrivateMoments(epsilon=1.0, **GROUPED).fit(X, Y, sensitive_features=SITE)
    deviation = alone.moments_.measured[0][1].deviation * N
    for one in grouped.moments_.groups.values():
        assert one.measured[0][1].deviation * one.n_samples == pytest.approx(deviation, rel=1e-3)
        assert one.measured[0][1].counted
    whole = grouped.moments_.measured[0][1]
    assert whole.deviation * N == pytest.approx(np.sqrt(3.0) * deviation, rel=1e-3)
    assert (grouped.moments_.n_samples, whole.counted) == (N, False)


def test_without_noise_groups_have_the_moments_of_their_records():
    moments = PrivateMoments(**EXACT, **GROUPED).fit(X, Y, sensitive_features=SITE)
    whole = PrivateMoments(**EXACT, **WIDE).fit(X, Y)
    assert moments.mean_ == pytest.approx(whole.mean_, abs=1e-4)
    assert moments.covariance_ == pytest.approx(whole.covariance_, abs=1e-3)
    for labels in (["a"], ["b"], ["a", "c"], ["a", "b", "c"]):
        some, rows = moments.group(*labels), np.isin(SITE, labels)
        assert some.n_samples == rows.sum()
        assert some.mean_[:D] == pytest.approx(X[rows].mean(axis=0), abs=0.01)
        model = PrivateRidge(alpha=2.0).fit(some)
        assert model.coef_ == pytest.approx(Ridge(2.0).fit(X[rows], Y[rows]).coef_, abs=5e-3)
        assert PrivatePCA(2).fit(some).components_.shape == (2, D)
    parts = moments.group("a") + moments.group("b")
    assert parts.mean_ == pytest.approx(moments.group("a", "b").mean_)
    assert parts.privacy_.rho == moments.privacy_.rho
    chosen = moments.select([0, 2], target=1).group("b")
    assert chosen.names == ("x0", "x2", "x1")
    assert chosen.covariance == pytest.approx(moments.group("b").select([0, 2], 1).covariance)


def test_groups_of_two_releases_are_merged():
    first, second = (
        PrivateMoments(**EXACT, **{**GROUPED, "random_state": seed, "groups": groups}).fit(
            X[rows], Y[rows], sensitive_features=SITE[rows]
        )
        for seed, rows, groups in (
            (0, np.arange(N) < 500, ["a", "b", "c"]),
            (1, (np.arange(N) >= 500) & (SITE != "c"), ["b", "a"]),
        )
    )
    both = first + second
    assert both.group("a").n_samples == (SITE == "a").sum()
    assert both.group("a").mean_[:D] == pytest.approx(X[SITE == "a"].mean(axis=0), abs=0.01)
    assert both.group("c").n_samples == (SITE[:500] == "c").sum()
    model = PrivateRidge(alpha=1.0).fit(both.group("b"))
    expected = Ridge(1.0).fit(X[SITE == "b"], Y[SITE == "b"])
    assert model.coef_ == pytest.approx(expected.coef_, abs=5e-3)


@pytest.mark.parametrize("alpha", [1.0, 300.0])
def test_weights_are_those_of_scikit_learn(alpha):
    moments = PrivateMoments(max_weight=2.0, **EXACT, **WIDE).fit(X, Y, sample_weight=WEIGHTS)
    assert moments.moments_.n_samples == pytest.approx(WEIGHTS.sum() / 2.0, rel=1e-4)
    assert moments.mean_[:D] == pytest.approx(np.average(X, axis=0, weights=WEIGHTS), abs=0.01)
    expected = Ridge(alpha).fit(X, Y, sample_weight=WEIGHTS)
    model = PrivateRidge(alpha=alpha).fit(moments)
    assert model.coef_ == pytest.approx(expected.coef_, abs=5e-3)
    net = ElasticNet(alpha=0.05).fit(X, Y, sample_weight=WEIGHTS)
    assert PrivateElasticNet(alpha=0.05).fit(moments).coef_ == pytest.approx(net.coef_, abs=5e-3)
    clipped = PrivateMoments(max_weight=0.5, **EXACT, **WIDE).fit(X, Y, sample_weight=WEIGHTS)
    expected = Ridge(alpha).fit(X, Y, sample_weight=np.minimum(WEIGHTS, 0.5))
    assert PrivateRidge(alpha=alpha).fit(clipped).coef_ == pytest.approx(expected.coef_, abs=5e-3)
    with pytest.raises(ValueError, match="same max_weight"):
        moments + clipped
    targets = np.column_stack([Y, -Y])
    several = PrivateRidge(alpha=alpha, max_weight=2.0, **EXACT, **WIDE)
    several.fit(X, targets, sample_weight=WEIGHTS)
    expected = Ridge(alpha).fit(X, targets, sample_weight=WEIGHTS)
    assert several.coef_ == pytest.approx(expected.coef_, abs=5e-3)


@pytest.mark.parametrize("kind", ["target", "held", "none", "targets", "classes", "frame"])
def test_dask_collections_are_the_same(kind):
    array = pytest.importorskip("dask.array")
    y = {"none": None, "targets": np.column_stack([Y, -Y]), "classes": SITE}.get(kind, Y)
    params = {**GROUPED, "epsilon": 1e7, "max_weight": 2.0}
    make = PrivateMoments(**params, classes=["a", "b", "c"] if kind == "classes" else None)
    more = {"sensitive_features": SITE, "sample_weight": WEIGHTS}
    dense = clone(make).fit(X, y, **more)
    rows = array.from_array(X, chunks=(500, D))
    if kind == "frame":
        names = [*map(str, range(D)), "y"]
        joined = array.from_array(np.column_stack([X, Y]), chunks=(500, D + 1))
        rows = pytest.importorskip("dask.dataframe").from_dask_array(joined, columns=names)
        with pytest.raises(ValueError, match="sizes of the chunks of X must be known"):
            clone(make).fit(RowBlocks.from_dask(rows, target="y", n_samples=N), **more)
        return
    if kind not in ("held", "none"):
        y = array.from_array(y, chunks=(500, *y.shape[1:]))
    other = clone(make).fit(rows, y, **more)
    for label in "abc":
        one, again = dense.group(label), other.group(label)
        assert again.n_samples == pytest.approx(one.n_samples)
        assert again.covariance == pytest.approx(one.covariance, rel=1e-6, abs=1e-6)
    for name, value in more.items():
        with pytest.raises(TypeError, match=f"{name} must be an array in memory"):
            clone(make).fit(rows, y, **{**more, name: array.from_array(value)})


def test_intervals_of_a_group_cover():
    """With a private number of records; 100 fits of three coefficients, most of them noise."""
    inside, rng = [], np.random.default_rng(1)
    for seed in range(100):
        rows = rng.uniform(-1.0, 1.0, (1500, 3))
        site = rng.choice(["a", "b"], 1500)
        y = rows @ [0.5, -0.5, 0.0] + (site == "a") + 0.2 * rng.normal(size=1500)
        moments = PrivateMoments(epsilon=4.0, target_bound=2.5, groups=["a", "b"])
        moments.set_params(random_state=seed).fit(rows, y, sensitive_features=site)
        low, high = PrivateRidge(alpha=0.0).fit(moments.group("a")).confint().T
        inside.append((low < [0.5, -0.5, 0.0]) & (high > [0.5, -0.5, 0.0]))
    assert np.mean(inside) > 0.9


def test_classes_within_groups():
    label = np.where(X[:, 0] + (SITE == "b") > 0.5, "high", "low")
    moments = PrivateMoments(**EXACT, classes=["high", "low"], **GROUPED)
    moments.fit(X, label, sensitive_features=SITE)
    model = PrivateLinearDiscriminantAnalysis().fit(moments.group("b"))
    rows = SITE == "b"
    assert model.score(X[rows], label[rows]) > 0.9


@each(
    ("params", "more", "match"),
    [
        ({"groups": ["a", "b", "c"]}, {}, "sensitive_features must be given"),
        ({}, {"sensitive_features": SITE}, "sensitive_features must be given"),
        ({"groups": ["a", "b"]}, {"sensitive_features": SITE}, "not among groups"),
        ({"groups": ["a", "a"]}, {"sensitive_features": SITE}, "different labels"),
        ({"groups": []}, {"sensitive_features": SITE}, "groups"),
        ({"groups": ["a", "b", "c"]}, {"sensitive_features": SITE[:-1]}, "one label per record"),
        ({}, {"sample_weight": WEIGHTS}, "declare max_weight"),
        ({"max_weight": 2.0}, {"sample_weight": -WEIGHTS}, "sample_weight"),
        ({"max_weight": 2.0}, {"sample_weight": WEIGHTS[:-1]}, "sample_weight"),
        ({"max_weight": -1.0}, {"sample_weight": WEIGHTS}, "max_weight"),
    ],
)
def test_bad_input_costs_nothing(params, more, match):
    for data in ((X, Y), (RowBlocks.from_arrays(X, Y, block_size=500),)):
        costs_nothing(PrivateMoments(**params), match, *data, **more)
    costs_nothing(PrivateMoments(), "unexpected arguments", X, Y, weights=WEIGHTS)


def test_groups_that_do_not_exist():
    moments = PrivateMoments(**GROUPED).fit(X, Y, sensitive_features=SITE)
    for labels in (("d",), (), ("a", "a"), (["a"],)):
        with pytest.raises(ValueError, match="different ones of the groups"):
            moments.group(*labels)
    with pytest.raises(ValueError, match="different ones of the groups"):
        PrivateMoments(**WIDE).fit(X, Y).group("a")
