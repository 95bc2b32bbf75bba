"""From raw frames to private models: the encoder of a schema, and pipelines with it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skdpsco import (
    Ledger,
    PrivacyWarning,
    PrivateGridSearchCV,
    PrivateGroupDRO,
    PrivateLinearRegressor,
    PrivateLogisticRegression,
    PrivateMonotoneGLM,
    PrivateRidge,
    RowBlocks,
    Schema,
    TableEncoder,
    make_private_pipeline,
)
from skdpsco.inspection import privacy_report
from skdpsco.preprocessing import CategoricalDomainEncoder, PrivateQuantileClipper

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SCHEMA = Schema(
    {
        "age": {"bounds": [18, 90], "missing": True},
        "city": {"categories": ["Bern", "Oslo", "Rome"], "missing": True},
        "member": "boolean",
        "ill": ["no", "yes"],
        "cost": {"bounds": [0, 2000]},
        "ward": ["a", "b"],
    },
    target="ill",
    groups="ward",
    person="id",
)
FEATURES = ["age", "city", "member"]
NAMES = ["age", "age_missing", "city_Bern", "city_Oslo", "city_Rome", "city_missing", "member"]


def table(n=400):
    """Records with strings, missing values and booleans."""
    rng = np.random.default_rng(0)
    age, member = rng.uniform(18, 90, n), rng.random(n) < 0.5
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "city": rng.choice(["Bern", "Oslo", "Rome", None], n),
            "member": member,
            "ill": np.where(age + 30 * member > 70, "yes", "no"),
            "cost": 10 * age + 500 * member,
            "ward": rng.choice(["a", "b"], n),
        }
    )
    frame["id"] = np.arange(n)
    return frame


def about(target):
    """A schema of the features and one target, and its records."""
    columns = {name: SCHEMA.columns[name] for name in [*FEATURES, target]}
    return Schema(columns, target=target), table()[list(columns)]


FEATURES_ONLY = Schema({name: SCHEMA.columns[name] for name in FEATURES})


def test_it_encodes_what_the_schema_says():
    frame = table()
    encoder = TableEncoder(FEATURES_ONLY)
    expected = FEATURES_ONLY.encode(frame[FEATURES])
    assert encoder.get_feature_names_out().tolist() == NAMES
    assert_array_equal(encoder.transform(frame[FEATURES]), expected)  # it needs no fit
    for library in ("pandas", "polars"):
        out = clone(encoder).set_output(transform=library).fit_transform(frame[FEATURES])
        assert list(out.columns) == NAMES
        assert_array_equal(out.to_numpy(), expected)
    other = pl.from_pandas(frame[FEATURES])
    out = encoder.set_params(sparse_output=True).fit(other).transform(other.to_arrow())
    assert sparse.issparse(out)
    assert_array_equal(out.toarray(), expected)
    assert encoder.feature_names_in_.tolist() == FEATURES
    assert encoder.n_features_in_ == 3


def test_integers_are_read_as_if_a_value_might_be_missing():
    """Otherwise one that is missing would change the categories of other records of pandas."""
    plain = [pd.DataFrame({"id": [first, 2**53 + 1]}) for first in (7, None, pd.NA)]
    for frame in (*plain, *(frame.astype("category") for frame in plain)):
        known = Schema({"id": {"categories": [2**53 + 1], "missing": True}})
        assert TableEncoder(known).fit_transform(frame)[1].tolist() == [1.0, 0.0]
        both = Schema({"id": {"categories": [2**53, 2**53 + 1], "missing": True}})
        with pytest.raises(TypeError, match=r"'id' has dtype .* takes two categories for one"):
            TableEncoder(both).fit(frame)
        with pytest.raises(ValueError, match="takes two categories for one"):
            CategoricalDomainEncoder([[2**53, 2**53 + 1]]).fit_transform(frame.to_numpy())
        exact = pd.DataFrame({"id": pd.array([None, 2**53 + 1], dtype="Int64")})
        assert TableEncoder(both).fit_transform(exact).tolist() == [[0, 0, 1], [0, 1, 0]]


def test_target_groups_and_persons_become_no_features():
    frame = table()
    schema = Schema(
        {k: v for k, v in SCHEMA.columns.items() if k != "cost"},
        target="ill",
        groups="ward",
        person="id",
    )
    out = TableEncoder(schema).fit_transform(frame.drop(columns="cost"))
    assert_array_equal(out, FEATURES_ONLY.encode(frame[FEATURES]))


@pytest.mark.parametrize("sparse_output", [False, True])
def test_reports_call_it_data_independent(sparse_output):
    encoder = TableEncoder(FEATURES_ONLY, sparse_output=sparse_output)
    steps = Pipeline([("encode", encoder), ("clip", PrivateQuantileClipper())])
    report = privacy_report(steps)
    assert [step.status for step in report.steps] == ["data-independent", "private"]
    after = Pipeline([("clip", PrivateQuantileClipper()), ("encode", encoder)])
    assert "may fail" not in str(privacy_report(after))  # it cannot


def test_a_raw_frame_becomes_a_private_model():
    ledger = Ledger(epsilon=3.0, delta=1e-5)
    schema, frame = about("ill")
    model = PrivateLogisticRegression(delta=1e-4)
    pipeline = make_private_pipeline(schema, model, epsilon=2.0, ledger=ledger)
    assert isinstance(pipeline, Pipeline)
    assert pipeline[-1].get_params()["classes"] == ["no", "yes"]
    assert (pipeline[-1].epsilon, pipeline[-1].delta, model.epsilon) == (2.0, 1e-4, 1.0)
    pipeline.set_params(privatelogisticregression__delta=1e-6)
    pipeline.fit(frame[schema.features], frame[schema.target])
    assert len(ledger.history()) == 1
    assert set(pipeline.predict(frame[FEATURES])) <= {"no", "yes"}
    assert_array_equal(pipeline.predict(frame), pipeline.predict(frame[FEATURES[::-1]]))
    report = privacy_report(pipeline)
    assert [step.status for step in report.steps] == ["data-independent", "private"]
    for other in (pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        features, target = other.select(FEATURES), other["ill"]
        fitted = clone(pipeline).set_params(privatelogisticregression__ledger=None)
        fitted.fit(features, target)
        assert fitted.predict(features).shape == (len(frame),)


def test_models_of_dates_are_those_of_days():
    rng = np.random.default_rng(0)
    days = pd.DataFrame({"seen": 738_000.0 + rng.integers(0, 1000, 400), "x": rng.random(400)})
    y = np.where(days["seen"] > 738_500, "yes", "no")
    dates = days.assign(seen=pd.Timestamp(0) + pd.to_timedelta(days["seen"] - 719_163, unit="D"))
    ends = ["2021-07-29", "2024-04-23"]
    others = {"x": {"bounds": [0, 1]}, "y": ["no", "yes"]}
    schema = Schema({"seen": {"bounds": ends}, **others}, target="y")
    known = {"bounds": schema.columns["seen"].bounds}
    model = PrivateLogisticRegression(random_state=0)
    fits = []
    for one, X in ((schema, dates), (Schema({"seen": known, **others}, target="y"), days)):
        pipeline = make_private_pipeline(one, model, epsilon=1.0)
        with pytest.warns(PrivacyWarning):
            fits.append(pipeline.fit(X, y))
        assert_array_equal(pipeline.decision_function(X), fits[0].decision_function(dates))
    blocks = RowBlocks.from_arrow(pa.Table.from_pandas(dates.assign(y=y)), "y")
    with pytest.warns(PrivacyWarning):
        again = make_private_pipeline(schema, model, epsilon=1.0).fit(blocks)
    assert again.score(dates, y) > 0.9
    assert fits[1].to_sklearn().score(days, y) > 0.9
    with pytest.raises(TypeError, match=r"columns \['seen'\] hold dates"):
        fits[0].to_sklearn()


def test_what_the_schema_tells_a_model():
    schema, _ = about("cost")

    def told(model, of=schema, **more):
        return make_private_pipeline(of, model, **more)[-1].get_params()

    assert told(PrivateRidge())["target_bound"] == 2000.0
    assert told(PrivateLinearRegressor())["target_bound"] == 2000.0
    assert told(PrivateMonotoneGLM(link="identity"))["target_bound"] == 2000.0
    assert told(PrivateMonotoneGLM())["target_bound"] is None  # the range of the link bounds it
    groups = told(PrivateGroupDRO(), SCHEMA, max_records_per_unit=1)
    assert (groups["groups"], groups["classes"]) == (["a", "b"], ["no", "yes"])
    search = PrivateGridSearchCV(PrivateRidge(), {"alpha": [0.0, 1.0]})
    params = told(search, epsilon=0.5)
    assert (params["estimator__target_bound"], params["epsilon"]) == (2000.0, 0.5)
    boolean = Schema({"age": {"bounds": [0, 1]}, "ill": "boolean"}, target="ill")
    assert told(PrivateLogisticRegression(), boolean)["classes"] == [False, True]


def test_a_regression_and_a_search():
    schema, frame = about("cost")
    X, y = frame[schema.features], frame[schema.target]
    pipeline = make_private_pipeline(schema, PrivateRidge(), epsilon=8.0).fit(X, y)
    assert pipeline.score(X, y) > 0.5
    search = PrivateGridSearchCV(
        pipeline, {"privateridge__alpha": [0.0, 1.0]}, strategy="composition", epsilon=8.0
    )
    assert search.fit(X, y).predict(X).shape == y.shape


def test_mistakes():
    schema, frame = about("ill")
    with pytest.raises(TypeError, match="schema must be a Schema, got dict"):
        TableEncoder(schema.to_dict()).fit(frame)
    with pytest.raises(TypeError, match="sparse_output must be True or False"):
        TableEncoder(schema, sparse_output="yes").fit(frame)
    with pytest.raises(TypeError, match=r"steps must be estimators .* Schema, got dict"):
        make_private_pipeline({}, PrivateRidge())
    with pytest.raises(TypeError, match=r"steps must be estimators or 'passthrough' .* got 'drop'"):
        make_private_pipeline("drop", PrivateRidge())
    kept = make_private_pipeline("passthrough", PrivateRidge(epsilon=8.0))
    assert kept.fit(np.eye(9), np.ones(9)).predict(np.eye(9)).shape == (9,)
    with pytest.raises(ValueError, match="schema must declare a target"):
        make_private_pipeline(FEATURES_ONLY, PrivateRidge())
    with pytest.raises(ValueError, match=r"lacks \['city'\]"):
        make_private_pipeline(schema, PrivateLogisticRegression()).fit(
            frame.drop(columns="city"), frame["ill"]
        )


def test_files_of_raw_tables(tmp_path):
    """Blocks of Parquet files are encoded as they are read, with the names of the schema."""
    schema, frame = about("ill")
    path, other = tmp_path / "raw.parquet", tmp_path / "other.parquet"
    raw = pa.Table.from_pandas(frame.assign(id=range(len(frame))))  # a column that is not read
    parquet.write_table(raw, path, row_group_size=50)
    columns = {"target": "ill", "columns": schema.features}
    encoder = TableEncoder(schema).set_output(transform="pandas")
    blocks = RowBlocks.from_parquet(path, block_size=120, **columns).map(encoder)
    assert (blocks.n_samples, blocks.n_blocks, list(blocks.feature_names)) == (400, 4, NAMES)
    X, y = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    assert_array_equal(X, schema.encode(frame))
    assert y.tolist() == frame["ill"].tolist()
    model = PrivateLogisticRegression(classes=schema).fit(blocks)
    assert model.feature_names_in_.tolist() == NAMES
    parquet.write_table(raw.drop_columns(["city"]), other)
    with pytest.raises(ValueError, match=r"columns must be .*'city'"):
        RowBlocks.from_parquet([path, other], **columns)
    parquet.write_table(raw.set_column(0, "age", raw["city"]), other)
    with pytest.raises(ValueError, match="other columns"):
        RowBlocks.from_parquet([path, other], **columns)
    with pytest.raises(TypeError, match="'age' has dtype"):
        RowBlocks.from_parquet(other, **columns).map(encoder)
