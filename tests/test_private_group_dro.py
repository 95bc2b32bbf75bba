"""PrivateGroupDRO: how groups are given, what it finds, its losses and solvers, what it refuses."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import each
from scipy import sparse
from sklearn import config_context
from sklearn.metrics import accuracy_score, recall_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpsco import PrivateGroupDRO, PrivateLogisticL1, UtilityWarning
from skdpsco.group_dro import group_report, worst_group_score, worst_group_scorer

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning"),
]


def data(n=600, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    group = np.where(rng.random(n) < 0.3, "north", "south")
    y = X[:, 0] * np.where(group == "north", -1, 1) + X[:, 1] + 0.2 * rng.normal(size=n)
    return X, (y > 0).astype(int), group


def model(**params):
    return PrivateGroupDRO(**{"epsilon": 10.0, "random_state": 0, **params})


def test_ways_to_give_groups():
    X, y, group = data()
    names = ["one", "two", "three", "four"]
    place = np.arange(len(y)) % 3
    frame = pd.DataFrame(X, columns=names).assign(region=group, place=place)
    features = frame[names]
    plain = model().fit(features, y, sensitive_features=group)
    for given in (list(group), frame["region"], pd.Categorical(group), frame[["region"]],
                  group.astype(object), pl.Series(group), [[g] for g in group]):  # fmt: skip
        other = model(groups=["north", "south"]).fit(features, y, sensitive_features=given)
        assert np.array_equal(other.coef_, plain.coef_)
    # Names of columns: these are no features, here and in predictions.
    for whole in (
        frame.drop(columns="place"),
        pl.DataFrame({**dict(zip(names, X.T, strict=True)), "region": group}),
    ):
        for name in ("region", ["region"]):
            named = model().fit(whole, y, sensitive_features=name)
            assert named.sensitive_columns_ == ("region",)
            assert np.array_equal(named.coef_, plain.coef_)
            assert list(named.feature_names_in_) == names
            assert np.array_equal(named.predict(whole), plain.predict(features))
            assert np.array_equal(named.predict(whole.select(names) if
                hasattr(whole, "select") else features), plain.predict(features))  # fmt: skip
    # Several columns are a product.
    product = model().fit(frame, y, sensitive_features=["region", "place"])
    assert product.groups_.tolist() == [(g, p) for g in ("north", "south") for p in range(3)]
    assert product.n_features_in_ == 4
    for pairs in (frame[["region", "place"]], list(zip(group, place, strict=True)),
                  pl.DataFrame({"region": group, "place": place})):  # fmt: skip
        other = model(groups=product.groups_.tolist()).fit(features, y, sensitive_features=pairs)
        assert np.array_equal(other.coef_, product.coef_)


def test_the_order_of_groups_is_that_of_the_list():
    X, y, group = data()
    one = model(groups=["north", "south"], epsilon=1e9).fit(X, y, sensitive_features=group)
    two = model(groups=["south", "north"], epsilon=1e9).fit(X, y, sensitive_features=group)
    assert two.groups_.tolist() == ["south", "north"]
    assert two.group_weights_[::-1] == pytest.approx(one.group_weights_, abs=1e-3)
    assert two.coef_ == pytest.approx(one.coef_, abs=1e-3)
    mixed = model().fit(
        X, y, sensitive_features=np.where(group == "north", 1, group.astype(object))
    )
    assert mixed.groups_.tolist() == [1, "south"]


@pytest.mark.filterwarnings("error")
def test_small_groups_are_named():
    X, y, _ = data()
    group = np.repeat(["large", "small"], [580, 20])
    secret = {"random_state": None, "epsilon": 4.0, "groups": ["large", "small"]}
    with pytest.warns(UtilityWarning, match=r"'small' \(20\)\. .* needs (\d+) records") as record:
        model(**secret).fit(X, y, sensitive_features=group)
    assert len(record) == 1
    assert record[0].filename == __file__
    assert "'large'" not in str(record[0].message)
    needed = int(re.search(r"needs (\d+)", str(record[0].message))[1])
    # It depends on public sizes: as many members as it asks for are enough, one fewer is not.
    for size in (needed, needed - 1):
        group = np.repeat(["large", "small"], [600 - size, size])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model(**secret).fit(0 * X, y, sensitive_features=group)
        assert [w.category for w in caught] == [UtilityWarning] * (size < needed)
    model(**secret, cvar_level=1.0).fit(X, y, sensitive_features=group)
    model(epsilon=0.01, random_state=None).fit(X, y, sensitive_features=["all"] * 600)
    many = {**secret, "groups": range(200)}
    with pytest.warns(UtilityWarning, match="and 190 more"):
        model(**many).fit(X, y, sensitive_features=np.arange(600) % 200)


def test_labels_that_are_read_off_the_data_are_not_printed():
    X, y, _ = data()
    group = np.repeat(["large", "tiny"], [583, 17])
    with pytest.warns(UtilityWarning, match=r"some groups \(declare groups=") as record:
        model(random_state=None, epsilon=4.0).fit(X, y, sensitive_features=group)
    assert not re.search("tiny|17", str(record[0].message))


@pytest.mark.parametrize("scoring", [None, worst_group_scorer])
def test_routing_needs_no_request(scoring):
    X, y, group = data()
    pipe = make_pipeline(FunctionTransformer(), model(groups=["north", "south"]))
    grid = {"privategroupdro__average_weight": [0.0, 1.0]}
    with config_context(enable_metadata_routing=True):
        pipe.fit(X, y, sensitive_features=group)
        search = GridSearchCV(pipe, grid, cv=3, scoring=scoring, error_score="raise")
        search.fit(X, y, sensitive_features=group)
        results = cross_validate(
            pipe, X, y, cv=3, scoring=scoring, params={"sensitive_features": group},
            error_score="raise",
        )  # fmt: skip
    assert results["test_score"].min() > 0.4
    if scoring is worst_group_scorer:
        assert search.best_params_ == {"privategroupdro__average_weight": 0.0}
    assert search.best_estimator_[-1].groups_.tolist() == ["north", "south"]


def test_group_report():
    X, y, group = data()
    fitted = PrivateLogisticL1(epsilon=10.0, random_state=0).fit(X, y)
    predicted = fitted.predict(X)
    report = group_report(fitted, X, y, sensitive_features=group)
    by_hand = [accuracy_score(y[group == g], predicted[group == g]) for g in ("north", "south")]
    assert report.by_group == pytest.approx(by_hand)
    assert report.overall == accuracy_score(y, predicted)
    assert report.n_samples.tolist() == [(group == g).sum() for g in ("north", "south")]
    assert report.worst_group == "north"
    assert report.group_min() == min(by_hand) == worst_group_score(
        fitted, X, y, sensitive_features=group
    )  # fmt: skip
    assert report.difference() == pytest.approx(report.group_max() - report.group_min())
    frame = report.to_frame()
    assert frame.loc["north", "score"] == by_hand[0]
    assert frame.loc["overall"].tolist() == [len(y), report.overall]
    html, north = report._repr_html_(), group == "north"
    assert html.count("<tr>") == 4
    assert f">north</th><td style='text-align:left'>{north.sum()}</td>" in html
    assert str(report).splitlines()[-1].startswith("overall")
    recall = group_report(fitted, X, y, sensitive_features=group, metric=recall_score)
    assert recall.by_group[0] == recall_score(y[north], predicted[north])
    regression = model(loss="squared").fit(X, y, sensitive_features=group)
    error = np.square(y - regression.predict(X))
    assert worst_group_score(regression, X, y, sensitive_features=group) == pytest.approx(
        -max(error[north].mean(), error[~north].mean())
    )


@pytest.mark.parametrize("score", [group_report, worst_group_score, worst_group_scorer])
def test_scores_need_groups(score):
    X, y, group = data()
    fitted = model().fit(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match="sensitive_features"):
        score(fitted, X, y, sensitive_features=None)
    with pytest.raises(ValueError, match="one label per record"):
        score(fitted, X, y, sensitive_features=group[:5])


NOISELESS = {"epsilon": 5e9, "delta": 1e-6, "random_state": 0}
SIZES = np.array([60, 240, 700])


def disagreeing(loss, seed=0, d=3):
    """Groups that disagree, differ in their features too, and are far from normal."""
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1, 2], SIZES)
    X = rng.uniform(-1, 1, (len(group), d))
    X[group == 0, 2] = X[group == 0, 2] > 0.5
    X[group == 1] *= 0.6
    coef = np.array([[2.0, 1.0, -1.0], [-2.0, 1.0, 0.5], [2.0, 1.5, 0.0]])[group]
    z = (X * coef).sum(axis=1) + 0.3 * (group == 0)
    if loss == "logistic":
        return X, rng.random(len(z)) < 1 / (1 + np.exp(-z)), group
    return X, np.clip(0.2 * z + 0.1 * rng.normal(size=len(z)), -1, 1), group


def optimum(loss, X, y, group, cap, average_weight, radius):
    """The optimum, by cvxpy."""
    import cvxpy as cp

    w, b, t = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    z = X @ w + b
    each = cp.logistic(-cp.multiply(2.0 * y - 1, z)) if loss == "logistic" else (z - y) ** 2 / 2
    means = cp.hstack([cp.sum(each[group == g]) / SIZES[g] for g in range(3)])
    average = cp.sum(each) / len(y)
    worst = (1 - average_weight) * (t + cap @ cp.pos(means - t)) + average_weight * average
    problem = cp.Problem(cp.Minimize(worst), [cp.norm(w) <= radius])
    problem.solve()
    return problem.value


def largest_mean(means, cap):
    """The largest mixture of means whose weights are below a cap."""
    order, left = np.argsort(-means), 1.0
    total = 0.0
    for g in order:
        weight = min(cap[g], left)
        total, left = total + weight * means[g], left - weight
    return total


@pytest.mark.parametrize(
    ("loss", "cvar_level", "average_weight"),
    [
        ("logistic", 0.0, 0.0),
        ("logistic", 0.0, 0.3),
        ("logistic", 0.4, 0.0),
        ("logistic", 1.0, 0.0),
        ("squared", 0.0, 0.3),
        ("squared", 0.4, 0.0),
    ],
)
def test_without_noise_the_worst_mixture_is_minimised(loss, cvar_level, average_weight):
    X, y, group = disagreeing(loss)
    shares = SIZES / SIZES.sum()
    cap = np.minimum(shares / cvar_level, 1) if cvar_level else np.ones(3)
    best = optimum(loss, X, y, group, cap, average_weight, 10.0)
    model = PrivateGroupDRO(
        loss=loss, cvar_level=cvar_level, average_weight=average_weight, **NOISELESS
    ).fit(X, y, sensitive_features=group)
    z = X @ np.ravel(model.coef_) + model.intercept_
    each = np.logaddexp(0, -(2.0 * y - 1) * z) if loss == "logistic" else (z - y) ** 2 / 2
    means = np.array([each[group == g].mean() for g in range(3)])
    value = (1 - average_weight) * largest_mean(means, cap) + average_weight * each.mean()
    assert best * (1 - 1e-6) <= value <= 1.02 * best
    assert model.group_weights_.sum() == pytest.approx(1.0)
    assert (model.group_weights_ >= average_weight * shares - 1e-9).all()


def planted(n, d, rng, share=0.05, minority=-3.4):
    """A minority for which the first feature means the opposite."""
    group = (rng.random(n) < share).astype(int)
    X = rng.uniform(-1, 1, (n, d))
    v = 0.9 ** np.arange(d - 1) * (-1.0) ** np.arange(d - 1)
    z = 2.2 * np.sqrt(3) * X[:, 1:] @ v / np.linalg.norm(v)
    z += np.where(group == 1, minority, -minority) * X[:, 0]
    return X, rng.random(n) < 1 / (1 + np.exp(-z)), group


def test_planted_conflict():
    """Worst-group accuracy exceeds that of private ERM by 15 points (it is 19 to 23)."""
    train = planted(50_000, 20, np.random.default_rng(0))
    X, y, group = planted(40_000, 20, np.random.default_rng(1), share=0.5)
    for seed in range(3):
        common = {"epsilon": 1.0, "classes": [False, True], "random_state": seed}
        robust = PrivateGroupDRO(**common, groups=[0, 1])
        robust.fit(*train[:2], sensitive_features=train[2])
        plain = PrivateLogisticL1(**common).fit(*train[:2])
        worst = [worst_group_score(m, X, y, sensitive_features=group) for m in (robust, plain)]
        assert worst[0] > 0.68
        assert worst[0] - worst[1] > 0.15
        assert robust.group_weights_ == pytest.approx([0.5, 0.5], abs=0.1)


SOLVERS = ["mirror-prox", "recursive-regularisation"]

rng = np.random.default_rng(0)
SIZE = 4000
ROWS = rng.uniform(-1, 1, (SIZE, 3))
MINORITY = np.arange(SIZE) % 4 == 0  # a quarter for which feature 0 means the opposite
SIGNAL = ROWS[:, 1] + np.where(MINORITY, -1.0, 1.0) * 0.8 * ROWS[:, 0]


def fitted_to(loss, epsilon=1e4, **options):
    y = SIGNAL > 0 if loss in ("logistic", "hinge") else 0.5 * SIGNAL
    model = PrivateGroupDRO(loss=loss, epsilon=epsilon, **{"radius": 4.0, **options})
    return model.fit(ROWS, y, sensitive_features=MINORITY), y


def worst(model, y):
    return group_report(model, ROWS, y, sensitive_features=MINORITY).group_min()


def test_only_the_logistic_loss_has_probabilities():
    assert hasattr(fitted_to("logistic")[0], "predict_proba")
    hinge = fitted_to("hinge")[0]
    assert not hasattr(hinge, "predict_proba")
    assert hinge.decision_function(ROWS).shape == (SIZE,)
    assert set(hinge.predict(ROWS)) == {False, True}
    assert not hasattr(fitted_to("absolute")[0], "decision_function")


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_mirror_prox_lacks(solver):
    with pytest.raises(ValueError, match=r"^cvar_level must be 0 or 1 for mirror prox"):
        fitted_to("logistic", solver=solver, cvar_level=0.2)
    with pytest.raises(ValueError, match=r"^group_prior must hold a share"):
        fitted_to("logistic", solver=solver, group_membership="private", groups=[False, True])
    fitted_to("logistic", solver=solver, group_membership="private", groups=[False, True],
        group_prior=[0.75, 0.25])  # fmt: skip


GIVEN = data(40)[2]
PRIVATE = {"group_membership": "private", "groups": ["north", "south"]}
MATRIX = np.eye(2, dtype=bool)[np.arange(40) % 2]
MISSING = pd.DataFrame(MATRIX).astype("boolean").mask(MATRIX[:, ::-1])
BAD_GROUPS = [
    (GIVEN, ["north"], ValueError, "a label that is not among groups"),
    (GIVEN, ["north", "south", "west"], ValueError, "groups: 'west' has no member"),
    (GIVEN, ["north", "north", "south"], ValueError, "groups must hold different labels"),
    (GIVEN, [], ValueError, "groups must hold labels"),
    (GIVEN, [["north", None]], ValueError, "groups must not contain missing labels"),
    (GIVEN, "north", ValueError, "'groups' parameter"),
    ("region", None, ValueError, "'region' must be the name of one column of X"),
    ([None, *GIVEN[1:]], None, ValueError, "sensitive_features must not contain missing"),
    (sparse.csr_array(MATRIX), None, TypeError, "sensitive_features must be dense"),
    (MATRIX[:-1], None, ValueError, "sensitive_features must hold one row per record: 40.*39"),
    (MATRIX, ["north"], ValueError, "one label per column of sensitive_features: 2 .* 1 labels"),
    (MATRIX, ["north", "north"], ValueError, "groups must hold different labels"),
    (MATRIX & [True, False], None, ValueError, "groups: 1 has no member"),
    (MATRIX[:, :0], None, ValueError, "sensitive_features must hold labels"),
    (MISSING, None, ValueError, "sensitive_features must not contain missing values"),
]


@each(("sensitive", "groups", "kind", "message"), BAD_GROUPS)
def test_bad_groups(sensitive, groups, kind, message):
    X, y, _ = data(40)
    with pytest.raises(kind, match=message):
        model(groups=groups).fit(X, y, sensitive_features=sensitive)


def test_private_membership_refuses_labels_that_are_not_declared():
    X, y, group = data(40)
    with pytest.raises(ValueError, match="a label that is not among groups"):
        model(**PRIVATE).fit(X, y, sensitive_features=np.where(group == "north", "west", group))
    overlapping = model(**PRIVATE, group_prior=[0.9, 0.8])  # need not sum to 1
    overlapping.fit(X, y, sensitive_features=MATRIX)
    with pytest.raises(ValueError, match="group_prior must sum to 1"):
        overlapping.fit(X, y, sensitive_features=group)
