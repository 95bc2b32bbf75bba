"""PrivateGroupDRO as scikit-learn, its tools and its users see it."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scikit_learn_checks import scikit_learn_checks
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


class InTwoGroups(PrivateGroupDRO):
    """scikit-learn's checks call ``fit(X, y)``, which here is an error: groups must be given.

    One group for all records would satisfy them, but a forgotten argument would do so silently too.
    """

    def fit(self, X, y, *, sensitive_features=None):
        if sensitive_features is None:
            n = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X, dtype=object))
            sensitive_features = np.arange(n) % 2
        return super().fit(X, y, sensitive_features=sensitive_features)


# A few steps take a fraction of the time of the default, and conventions are the same.
@scikit_learn_checks(
    InTwoGroups(loss="hinge", n_iter=3),
    others=[
        InTwoGroups(),
        InTwoGroups(loss="absolute", n_iter=3),
        InTwoGroups(
            loss="squared",
            objective="cvar",
            groups=[0, 1],
            group_membership="private",
            group_prior=[0.5, 0.5],
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data(n=600, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    group = np.where(rng.random(n) < 0.3, "north", "south")
    y = X[:, 0] * np.where(group == "north", -1, 1) + X[:, 1] + 0.2 * rng.normal(size=n)
    return X, (y > 0).astype(int), group


def model(**params):
    return PrivateGroupDRO(**{"epsilon": 10.0, "random_state": 0, **params})


# ------------------------------------------------------------------------------ groups


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


# ------------------------------------------------------------------------------ warnings


@pytest.mark.filterwarnings("error")
def test_small_groups_are_named():
    X, y, _ = data()
    group = np.repeat(["large", "small"], [580, 20])
    secret = {"random_state": None, "epsilon": 4.0}
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
    model(**secret, objective="average").fit(X, y, sensitive_features=group)
    model(epsilon=0.01, random_state=None).fit(X, y, sensitive_features=["all"] * 600)
    with pytest.warns(UtilityWarning, match="and 190 more"):
        model(**secret).fit(X, y, sensitive_features=np.arange(600) % 200)


# ------------------------------------------------------------------------------ tools


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


# ------------------------------------------------------------------------------ metrics


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
