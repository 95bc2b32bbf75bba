"""Additive models: their releases, what is learnt, and what is refused."""

import itertools
import json
import math
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import costs_nothing, each
from recorded_releases import RecordedReleases
from scikit_learn_checks import scikit_learn_checks
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import d2_tweedie_score

from skdpsco import (
    Ledger,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateGridSearchCV,
    PrivateRidge,
    RowBlocks,
    Schema,
)
from skdpsco.additive import densities, pairs, shapes
from skdpsco.additive.densities import plan_densities
from skdpsco.additive.table import TableColumn
from skdpsco.data.design import Dense
from skdpsco.inspection import plan
from skdpsco.scaling import feature_bounds

pytestmark = pytest.mark.filterwarnings("ignore:A fixed random_state")

SCHEMA = Schema(
    {
        "age": {"bounds": [18, 90], "missing": True},
        "city": ["Bern", "Oslo", "Rome"],
        "member": "boolean",
    }
)


def people(n=6000, seed=0):
    """A frame of all kinds of columns, and a target that each of them has a part in."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "city": rng.choice(["Bern", "Oslo", "Rome"], n),
            "income": np.where(rng.random(n) < 0.5, 0.0, rng.exponential(2000.0, n)),
            "member": rng.random(n) < 0.3,
        }
    )
    y = np.abs(frame["age"] - 50.0) / 20.0 + (frame["income"] > 0) + 0.8 * (frame["city"] == "Rome")
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    return frame, (y + 0.3 * rng.normal(size=n)).to_numpy().clip(min=0.0)


def planned(plan):
    """The mu of all releases of a plan."""
    return [1.0 / multiplier for multiplier in plan.multipliers.values()]


@each("added", [False, True])
@each("width", [1.0, 0.01])
def test_counts_change_by_their_sensitivity(monkeypatch, added, width):
    """A record that moves in every column attains it at every level, up to rounding.

    Columns that lie in few cells are counted once more.
    """
    columns = (
        TableColumn("a", (-1.0, 1.0)),
        TableColumn("b", (-1.0, 1.0)),
        TableColumn("c", None, ("x", "y")),
    )
    rng = np.random.default_rng(0)
    n = 50_000
    numbers, codes = rng.uniform(-width, width, (n, 2)), rng.integers(0, 2, (n, 1))
    plan = plan_densities(n, columns, 0.5, added)
    recorded = RecordedReleases(monkeypatch, densities)
    ranges, far = np.array([[-1.0, 1.0]] * 2) + 3.0, np.array([3.0, 3.0, 0.0])
    exact = SimpleNamespace(uniform=lambda low, high, size: np.zeros(size))  # in place of noise

    def run(records):
        table = Dense(records + far, np.ones(3), 0)
        return plan.release(table, None, ranges, np.full(2, math.inf), exact)

    records = np.hstack([numbers, codes])
    moved = np.append(-numbers[0], 1 - codes[0])
    other = records[1:] if added else np.vstack([moved, records[1:]])
    releases = planned(plan)[: 5 if width == 1.0 else None]
    changes = recorded.ratios(run, [records, other], releases)
    assert len(changes) == (5 if width == 1.0 else 10)
    assert ((changes**2 >= 0.99) & (changes <= 1.0)).all()


@each("found", [math.inf, 2.0])
def test_without_counts_densities_are_those_that_are_expected(found):
    cells = densities.Cells.of(-3.0, 5.0, found)
    expected = cells.expected(found)
    counts = np.zeros((1, expected.size))
    weights = densities.divided(np.ones((1, 1)), counts, 1e9, expected[None])
    assert np.allclose(weights[0], expected / expected.sum(), rtol=1e-6)
    if found == math.inf:
        assert np.allclose(weights[0], np.diff(cells.edges) / 8.0)
    else:  # half of the numbers are closer to 0 than 0.6 times their size
        near = np.abs(cells.edges[1:]) < 2.0 / 2.0**feature_bounds.FEATURE_BOUNDS.room * 0.577
        assert weights[0][near].sum() == pytest.approx(0.5, abs=0.03)


@each("n, d, epsilon", [(4000, 5, 0.3), (4000, 30, 1.0)])
def test_linear_effects_are_learnt_as_by_a_linear_model(n, d, epsilon):
    scores = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2 * n, d))
        y = X @ rng.normal(size=d) + 0.5 * np.sqrt(d) * rng.normal(size=2 * n)
        for model in (PrivateAdditiveRegressor, PrivateRidge):
            fit = model(epsilon=epsilon, random_state=seed).fit(X[:n], y[:n])
            scores.append(fit.score(X[n:], y[n:]))
    additive, linear = np.reshape(scores, (4, 2)).T
    assert additive.mean() > linear.mean() - 0.07


@each("low, high", [(2015, 2024), (-122.5, -122.2), (737_000, 738_000)])
def test_columns_far_from_0_are_seen_without_declared_bounds(low, high):
    x = np.random.default_rng(0).uniform(low, high, 8000)
    y = np.sin(2 * np.pi * (x - low) / (high - low))
    model = PrivateAdditiveRegressor(random_state=0).fit(x[:, None], y)
    assert model.score(x[:, None], y) > 0.95


def test_curved_effects_are_learnt():
    frame, y = people(12_000)
    model = PrivateAdditiveRegressor(schema=SCHEMA, random_state=0).fit(frame[:6000], y[:6000])
    linear = PrivateRidge(random_state=0)
    linear.fit(frame[["age", "income"]].fillna(50.0)[:6000], y[:6000])
    assert model.score(frame[6000:], y[6000:]) > 0.6
    assert model.score(frame[6000:], y[6000:]) > 0.2 + linear.score(
        frame[["age", "income"]].fillna(50.0)[6000:], y[6000:]
    )
    age = model.shape_functions_["age"]
    ends, middle = age.of(np.array([20.0, 88.0])), age.of(np.array([50.0]))
    assert (ends > middle + 0.5).all()
    income = model.shape_functions_["income"]
    assert (income.of(np.array([500.0, 3000.0])) > income.of(np.zeros(1)) + 0.5).all()


@each("loss, link", [("huber", None), ("quantile", None), ("poisson", np.exp), ("gamma", np.exp)])
def test_losses(loss, link):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (8000, 2))
    f = np.cos(2.0 * X[:, 0])
    y = f + 0.2 * rng.normal(size=8000)
    if loss == "poisson":
        y = rng.poisson(np.exp(f)).astype(float)
    elif loss == "gamma":
        y = np.exp(f) * rng.gamma(4.0, 0.25, 8000)
    model = PrivateAdditiveRegressor(loss=loss, epsilon=3.0, random_state=0).fit(X, y)
    wanted = f if link is None else link(f)
    if loss in ("poisson", "gamma"):
        power = {"poisson": 1, "gamma": 2}[loss]
        assert model.score(X, y) == pytest.approx(
            d2_tweedie_score(y, model.predict(X), power=power)
        )
    assert np.corrcoef(model.predict(X), wanted)[0, 1] > 0.9


def test_without_noise_it_is_the_least_squares_fit_of_its_functions():
    """At a huge epsilon it has nearly the error of a regression on the same knots."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (4000, 2))
    y = np.abs(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=4000)
    model = PrivateAdditiveRegressor(epsilon=1e5, random_state=0).fit(X, y)
    hats = []
    for shape, x in zip(model.shape_functions_.values(), X.T, strict=True):
        hats += [np.interp(x, shape.knots, row) for row in np.eye(len(shape.knots))]
    best = np.linalg.lstsq(np.column_stack(hats), y, rcond=None)[0]
    residual = y - np.column_stack(hats) @ best
    assert np.mean((y - model.predict(X)) ** 2) < 1.15 * np.mean(residual**2)


def test_explanations_add_up_and_the_table_has_all_values():
    frame, y = people(2000)
    model = PrivateAdditiveRegressor(schema=SCHEMA, random_state=0).fit(frame, y)
    parts = model.explain(frame)
    assert parts.shape == (2000, 4)
    total = np.clip(parts.sum(axis=1) + model.intercept_, *model.model_.target_range_)
    assert np.allclose(total, model.predict(frame))
    table = model.to_frame()
    assert list(table.columns) == ["column", "at", "value"]
    assert set(table.column) == set(frame)
    assert set(table[table.column == "city"]["at"]) == {"Bern", "Oslo", "Rome", None}
    labels = np.digitize(y, [1.0, 2.0])
    several = PrivateAdditiveClassifier(classes=[0, 1, 2], schema=SCHEMA, random_state=0)
    several.fit(frame, labels)
    assert several.explain(frame).shape == (2000, 4, 3)
    assert list(several.to_frame().columns[2:]) == ["value_0", "value_1", "value_2"]
    assert np.allclose(several.predict_proba(frame).sum(axis=1), 1.0)


@each("n_classes, epsilon", [(0, 2.0), (2, 3.0), (3, 5.0)])
def test_pairs_that_matter_are_chosen(n_classes, epsilon):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 5))
    y = 2.0 * X[:, 0] * X[:, 3] + X[:, 2] ** 2 + 0.2 * rng.normal(size=20_000)
    options = {"epsilon": epsilon, "random_state": 1}
    if n_classes:
        y = np.digitize(y, [0.3, 1.0][: n_classes - 1])
        make = PrivateAdditiveClassifier(classes=list(range(n_classes)), **options)
    else:
        make = PrivateAdditiveRegressor(**options)
    model = make.fit(X, y)
    assert next(iter(model.pair_functions_)) == ("x0", "x3")  # the strongest comes first
    assert len(model.pair_functions_) < 6  # of 10
    alone = clone(make).set_params(pairs=None).fit(X, y)
    named = clone(make).set_params(pairs=[("x3", "x0")]).fit(X, y)
    assert alone.pair_functions_ == {}
    assert list(named.pair_functions_) == [("x0", "x3")]
    assert min(model.score(X, y), named.score(X, y)) > alone.score(X, y) + 0.1
    parts = named.explain(X[:100])
    assert parts.shape[:2] == (100, 6)
    total = parts.sum(axis=1) + named.intercept_
    wanted = named.decision_function if n_classes else named.predict
    assert np.allclose(total, wanted(X[:100]))
    pair = named.pair_functions_["x0", "x3"]
    at = np.array([[x, z] for x in pair.first.knots[:2] for z in pair.second.knots[:3]])
    assert np.allclose(pair.of(*at.T)[:, 0], pair.values[:2, :3, 0].ravel())


@each("n_outputs, weighted", [(1, False), (3, False), (3, True)])
def test_the_choice_of_pairs_changes_by_its_sensitivity(monkeypatch, n_outputs, weighted):
    """The target and all products of a record are at their largest, and targets as far apart."""
    rng = np.random.default_rng(0)
    columns = tuple(TableColumn(name, (-1.0, 1.0)) for name in "abc")
    plan = pairs.plan_pairs(500, columns, 5000.0, 1.0, None, weighted, n_outputs)
    known = [densities.Density(np.linspace(-1, 1, 257), np.full(256, 1 / 256), 0.0, 0.0)] * 3
    basis = shapes.bases_of(columns, known, 5000.0)
    recorded = RecordedReleases(monkeypatch, pairs)
    x, y = rng.uniform(-1, 1, (3, 500)), rng.choice([-1.0, 1.0], 500)
    if n_outputs > 1:
        y = rng.integers(0, n_outputs, 500) + 0.25 * weighted
    x[:, 0] = 1.0
    other = y.copy()
    other[0] = -y[0] if n_outputs == 1 else (y[0] + 1.0) % n_outputs

    def run(targets):
        return plan.release(basis.parts, Dense(x.T, np.ones(3), 0), targets, rng)

    changes = recorded.ratios(run, [y, other], planned(plan))
    # Residuals are smaller than targets by the mean; two classes are no opposites.
    least = (0.99, 0.5) if n_outputs == 1 else (0.49, 0.24)
    assert ((changes**2 > least) & (changes <= 1.0)).all()


@each("n_outputs", [1, 3])
def test_no_mean_makes_the_products_of_a_record_long(n_outputs):
    """A released mean may be as far from a target as targets are from one another."""
    columns = tuple(TableColumn(name, (-1.0, 1.0)) for name in "abc")
    plan = pairs.plan_pairs(500, columns, 5000.0, 1.0, None, False, n_outputs)
    known = [densities.Density(np.linspace(-1, 1, 257), np.full(256, 1 / 256), 0.0, 0.0)] * 3
    basis = shapes.bases_of(columns, known, 5000.0).parts
    parts = tuple(pairs.leading(part, k) for part, k in zip(basis, plan.counts, strict=True))
    record = Dense(np.ones((1, 3)), np.ones(3), 0)
    lengths = []
    for mean in itertools.product([-1.0, 0.0, 1.0], repeat=n_outputs):
        told = np.ones(1), False, n_outputs, np.array(mean), parts, plan.candidates
        lengths.append(float(np.linalg.norm(pairs.sums_of_products(record, *told))))
    assert 0.99 < max(lengths) < 1.0 + 1e-12


def missing_keys(content, path=()):
    """Paths to keys that `from_json` cannot do without."""
    optional = {"format", "model", "privacy", "schema", "bounds", "categories", "zero"}
    items = content.items() if isinstance(content, dict) else enumerate(content[:1])
    for key, part in items:
        if isinstance(content, dict) and key not in optional:
            yield (*path, key)
        if isinstance(part, dict | list) and key not in optional:
            yield from missing_keys(part, (*path, key))


def without_key(content, path):
    content = json.loads(json.dumps(content))
    part = content
    for key in path[:-1]:
        part = part[key]
    del part[path[-1]]
    return content


@each(
    "model",
    [
        PrivateAdditiveRegressor(schema=SCHEMA, pairs=[("age", "city")]),
        PrivateAdditiveRegressor(schema=SCHEMA, loss="poisson"),
        PrivateAdditiveClassifier(schema=SCHEMA, classes=["a", "b", "c"]),
        PrivateAdditiveClassifier(schema=SCHEMA, classes=["a", "b"]),
        PrivateAdditiveRegressor(),
    ],
)
def test_json_is_read_back_and_may_be_edited(model):
    frame, y = people(800)
    if hasattr(model, "classes"):
        y = np.array(["a", "b", "c"])[np.digitize(y, [1.0, 2.0]).clip(max=len(model.classes) - 1)]
    records = frame if model.schema is not None else frame[["age", "income"]].to_numpy()
    text = model.fit(records, y).to_json()
    again = type(model).from_json(text)
    assert (again.predict(records) == model.predict(records)).all()
    assert not hasattr(again, "privacy_")
    content = json.loads(text)
    assert str(model.privacy_) in content["privacy"]
    content["columns"][0]["values"] = [[0.0] * len(v) for v in content["columns"][0]["values"]]
    edited = type(model).from_json(json.dumps(content))
    there = ~np.isnan(frame["age"].to_numpy())
    assert (edited.explain(records)[there, 0] == 0.0).all()
    for path in missing_keys(content):
        with pytest.raises(ValueError, match=f"^text must have the key {path[-1]!r}"):
            type(model).from_json(json.dumps(without_key(content, path)))
    content["columns"][0]["values"].append([0.0])
    for wrong in ("{", "[]", json.dumps({"model": "PrivateRidge"}), json.dumps(content)):
        with pytest.raises(ValueError, match=r"^text|^column '(age|x0)'"):
            type(model).from_json(wrong)


def test_dates_are_fitted_as_days():
    frame, y = people(2000)
    frame["seen"] = 720_000.0 + 40 * frame["age"]
    dated = pd.Timestamp(0) + pd.to_timedelta(frame["seen"] - 719_163, unit="D")
    dates, bounds = frame.assign(seen=dated), ["1974-03-05", "1982-02-16"]
    schema = Schema({"seen": {"bounds": bounds, "missing": True}})
    days = Schema({"seen": {"bounds": schema.columns["seen"].bounds, "missing": True}})
    names = ["seen", "income"]
    known = PrivateAdditiveRegressor(schema=days, random_state=0).fit(frame[names], y)
    model = PrivateAdditiveRegressor(schema=schema, random_state=0).fit(dates[names], y)
    expected = known.predict(frame[names])
    assert (model.predict(dates[names]) == expected).all()
    again = PrivateAdditiveRegressor.from_json(model.to_json())
    assert (again.predict(pl.from_pandas(dates[names])) == expected).all()
    assert again.shape_functions_["seen"].column.dates
    assert not known.shape_functions_["seen"].column.dates
    blocks = RowBlocks.from_arrays(dates[names], y, block_size=500)
    assert PrivateAdditiveRegressor(schema=schema).fit(blocks).score(dates[names], y) > 0.3
    known.to_sklearn()
    for estimator in (model, again):
        with pytest.raises(TypeError, match=r"columns \['seen'\] hold dates"):
            estimator.to_sklearn()
    assert plan(model, 2000, 2).rho == pytest.approx(model.privacy_.rho)


@each("sign", [1, -1])
def test_monotone(sign):
    frame, y = people(3000)
    model = PrivateAdditiveRegressor(
        schema=SCHEMA, monotone={"age": sign, "income": sign}, random_state=0
    ).fit(frame, y)
    ages = model.shape_functions_["age"].of(np.linspace(0.0, 100.0, 300))
    incomes = model.shape_functions_["income"].of(np.linspace(0.0, 9e3, 300))
    for values in (ages, incomes):
        assert (sign * np.diff(values[:, 0]) >= -1e-12).all()


def test_columns_of_monotone_are_in_no_pair():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (20_000, 3))
    y = X[:, 0] * X[:, 1] + X[:, 1] * X[:, 2] + 0.3 * X[:, 0]
    model = PrivateAdditiveRegressor(epsilon=5.0, monotone={"x0": 1}, random_state=0).fit(X, y)
    assert list(model.pair_functions_) == [("x1", "x2")]
    low, high = X[:200].copy(), X[:200].copy()
    low[:, 0], high[:, 0] = -0.5, 0.5
    assert (model.predict(high) >= model.predict(low)).all()


def test_what_is_stored_is_released():
    frame, y = people(500)
    ledger = Ledger(2.0, 1e-6)
    model = PrivateAdditiveRegressor(schema=SCHEMA, ledger=ledger).fit(frame, y)
    history = ledger.history()
    assert len(history) == 1
    assert history.iloc[0]["estimator"] == "PrivateAdditiveRegressor"
    assert model.model_.ledger is None
    stored = pickle.dumps(model.set_params(ledger=None))
    assert len(stored) < 40_000  # 500 records take more
    assert np.array_equal(pickle.loads(stored).predict(frame), model.predict(frame))
    names = [step.name for step in model.privacy_.steps]
    assert names[:2] == ["range of the target", "densities of the columns"]
    assert model.privacy_.epsilon == 1.0
    assert model.privacy_.assumptions == (
        "numbers beyond the range of a column count as its nearer end",
    )


def test_weights_and_searches():
    frame, y = people(3000)
    options = {"schema": SCHEMA, "epsilon": 4.0, "random_state": 0}
    weighted = PrivateAdditiveRegressor(max_weight=2.0, **options)
    there = (frame["city"] == "Rome").to_numpy()
    rome = weighted.fit(frame, y, sample_weight=np.where(there, 2.0, 1e-3)).predict(frame)
    plain = PrivateAdditiveRegressor(**options).fit(frame, y).predict(frame)
    assert np.mean((y - rome)[there] ** 2) < 1.2 * np.mean((y - plain)[there] ** 2)
    model, grid = PrivateAdditiveRegressor(schema=SCHEMA), {"loss": ["squared", "huber"]}
    search = PrivateGridSearchCV(model, grid, epsilon=3.0, random_state=0).fit(frame, y)
    assert search.privacy_.epsilon == 3.0
    assert search.score(frame, y) > 0.3


BLOCKED = Schema(
    {"age": {"bounds": [18, 90], "missing": True}, "city": ["Bern", "Oslo"], "member": "boolean"}
)
PAIR = [("age", "city")]
OF_NUMBERS = PrivateAdditiveRegressor(schema=BLOCKED)


def of_classes(n_classes, **options):
    classes = list(range(n_classes))
    return PrivateAdditiveClassifier(schema=BLOCKED, classes=classes, **options)


@pytest.mark.parametrize(
    ("model", "n_classes"),
    [
        (OF_NUMBERS, 0),
        (clone(OF_NUMBERS).set_params(loss="poisson", relation="add-or-remove-one"), 0),
        (clone(OF_NUMBERS).set_params(epsilon=20.0, monotone={"age": 1}), 0),  # chooses pairs
        (of_classes(2, class_weight={1: 0.5}, epsilon=20.0), 2),
        (of_classes(3, pairs=PAIR), 3),
    ],
)
def test_blocks_are_fitted_as_arrays(model, n_classes):
    """Grids hide in which order terms were added."""
    frame, y = people(1200)
    y = np.digitize(y, [1.0, 2.0][: n_classes - 1]) if n_classes else y
    blocks = [RowBlocks.from_arrays(frame, y, block_size=500)]
    pa = pytest.importorskip("pyarrow", reason="needs the extra arrow")
    table = pa.Table.from_pandas(frame.assign(y=y))
    blocks.append(RowBlocks.from_arrow(table, "y", block_size=700))
    expected = clone(model).set_params(random_state=0).fit(frame, y)
    for X in blocks:
        found = clone(model).set_params(random_state=0).fit(X)
        assert_same(found, expected, frame)
    with pytest.raises(TypeError, match="block by block"):
        found.predict(X)


def assert_same(found, expected, X):
    assert found.privacy_.event == expected.privacy_.event
    assert list(found.pair_functions_) == list(expected.pair_functions_)
    assert np.allclose(found.intercept_, expected.intercept_, rtol=1e-6)
    assert np.allclose(found.explain(X), expected.explain(X), rtol=1e-6, atol=1e-6)


def wrong_in_block_1(f, y):
    pairs = [(f[:9], y[:9]), (f[9:].assign(income=np.inf), y[9:])]
    return RowBlocks.from_blocks(pairs)


def sparse_blocks(f, y):
    return RowBlocks.from_arrays(sparse.csr_array(np.eye(300)), y)


OF_ARRAYS, UNDECLARED = RowBlocks.from_arrays, PrivateAdditiveClassifier(schema=BLOCKED)


@each(
    "model, blocks, error, words",
    [
        (OF_NUMBERS, lambda f, y: OF_ARRAYS(f), ValueError, "y must be given"),
        (OF_NUMBERS, lambda f, y: OF_ARRAYS(f.assign(age="a"), y), TypeError, "age"),
        (OF_NUMBERS, lambda f, y: OF_ARRAYS(f.drop(columns="age"), y), ValueError, "a"),
        (OF_NUMBERS, lambda f, y: OF_ARRAYS(f, np.full(300, np.nan)), ValueError, "y"),
        (OF_NUMBERS, wrong_in_block_1, ValueError, "Block 1 of X: X: column 'income'"),
        (PrivateAdditiveRegressor(), OF_ARRAYS, ValueError, "numeric"),
        (PrivateAdditiveRegressor(), sparse_blocks, TypeError, "dense"),
        (UNDECLARED, lambda f, y: OF_ARRAYS(f, y > 1), ValueError, "classes must be declared"),
    ],
)
def test_mistakes_in_blocks_are_found_before_the_charge(model, blocks, error, words):
    frame, y = people(300)
    costs_nothing(model, words, blocks(frame, y), error=error)
    weighted, given = clone(OF_NUMBERS).set_params(max_weight=1.0), OF_ARRAYS(frame, y)
    costs_nothing(weighted, "sample_weight", given, sample_weight=np.ones(300))


@each(
    "params, change, error, words",
    [
        ({"monotone": {"city": 1}}, None, ValueError, "monotone"),
        ({"pairs": [("age", "height")]}, None, ValueError, "pairs"),
        ({"pairs": [("age", "age")]}, None, ValueError, "pairs"),
        ({"pairs": [("age", "city")], "monotone": {"age": 1}}, None, ValueError, "of monotone"),
        ({"pairs": "all"}, None, ValueError, "pairs"),
        ({"pairs": [(["age"], "income")]}, None, ValueError, "pairs"),
        ({"monotone": {"age": np.array([1, 1])}}, None, ValueError, "monotone"),
        ({"loss": "poisson"}, lambda f: (f, -np.ones(300)), ValueError, "PrivateAdditiveRegressor"),
        ({}, lambda f: (f[:0], np.zeros(0)), ValueError, "at least one record"),
        ({}, lambda f: (f, None), ValueError, "requires y"),
        ({"monotone": {"height": 1}}, None, ValueError, "monotone"),
        ({"monotone": {"age": 2}}, None, ValueError, "monotone"),
        ({"schema": None}, None, (TypeError, ValueError), "X"),
        ({"schema": "age"}, None, ValueError, "schema"),
        ({"loss": "absolute"}, None, ValueError, "loss"),
        ({"quantile": 1.0}, None, ValueError, "quantile"),
        ({}, lambda f: f.drop(columns="age"), ValueError, "age"),
        ({}, lambda f: f.assign(word="a"), TypeError, "word"),
        ({}, lambda f: f.assign(income=np.inf), ValueError, "income"),
        ({}, lambda f: f.assign(city=1.5), TypeError, "city"),
        ({}, lambda f: f.assign(seen=pd.Timestamp(0)), TypeError, "'seen' holds no numbers"),
        (
            {"schema": Schema({"age": {"bounds": ["2000-01-01", "2024-12-31"]}})},
            lambda f: f[["age", "income"]],
            TypeError,
            "'age' has dtype Float64, which holds no dates",
        ),
        ({}, lambda f: f[:-1], ValueError, "records"),
        ({}, lambda f: f.to_numpy(), TypeError, "X"),
        (
            {"schema": Schema({"income": {"bounds": [1e15, 1e15 + 1]}})},
            lambda f: f[["income"]],
            ValueError,
            "too close",
        ),
    ],
)
def test_mistakes_are_found_before_the_charge(params, change, error, words):
    frame, y = people(300)
    given = frame if change is None else change(frame)
    X, y = given if isinstance(given, tuple) else (given, y)
    costs_nothing(
        PrivateAdditiveRegressor(**{"schema": SCHEMA, **params}), words, X, y, error=error
    )


def test_a_table_of_categories_alone():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], 4000), "b": rng.random(4000) < 0.5})
    y = (frame["a"] == "x") + frame["b"] + 0.1 * rng.normal(size=4000)
    schema = Schema({"a": ["x", "y"], "b": "boolean"})
    model = PrivateAdditiveRegressor(schema=schema, random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.9


@each("ratio", [1.0, 30.0, 1e3, 1e6])
def test_functions_are_uncorrelated_and_their_number_is_public(ratio):
    """Under the density, whatever it is, they have mean 0 and about the variances of the prior.

    Smooth ones are uncorrelated under the density with a small mass at every knot.
    """
    rng = np.random.default_rng(0)
    edges = np.linspace(-1.0, 1.0, 257)
    spread = densities.Density(edges, rng.dirichlet(np.ones(256)) * 0.7, 0.2, 0.1)
    one_cell = densities.Density(edges, np.eye(256)[200], 0.0, 0.0)
    for known in (spread, one_cell):
        basis = shapes.bases_of((TableColumn("a"),), (known,), ratio)
        (part,) = basis.parts
        assert part.values.shape[1] == shapes.n_functions_of(ratio) + 2 == len(basis.variances)
        points, weights = shapes.points_of(known)
        points = np.concatenate([points, [0.0, np.nan]])
        weights = np.concatenate([weights, [known.zero, known.missing]])
        values = part.of(points)
        assert np.allclose(weights @ values, 0.0, atol=1e-9)
        found = (values.T * weights) @ values
        assert np.allclose(np.diag(found), basis.variances, atol=0.05)
        unseen = shapes.SHAPES.unseen * min(shapes.roughness_of(ratio), 1.0)
        law = weights[:-2] / weights[:-2].sum(), np.full(len(part.knots), unseen)
        smooth = np.vstack([values[:-2], part.values])[:, :-2]
        covariance = np.cov(smooth.T, aweights=np.concatenate(law), ddof=0)
        covariance = np.atleast_2d(covariance)
        assert np.allclose(covariance, np.diag(np.diag(covariance)), atol=1e-8)


@each("ratio", [700.0, 1e4, 1e6])
def test_straight_lines_are_among_the_functions_however_rare_large_numbers_are(ratio):
    edges = np.linspace(-1.0, 1.0, 257)
    weights = np.exp(-300.0 * np.abs(edges[1:] + edges[:-1])) + 1e-7
    known = densities.Density(edges, weights / weights.sum(), 0.0, 0.0)
    (part,) = shapes.bases_of((TableColumn("a"),), (known,), ratio).parts
    assert part.values.shape[1] > 3
    columns = np.column_stack([part.values, np.ones(len(part.knots))])
    found = columns @ np.linalg.lstsq(columns, part.knots)[0]
    assert np.allclose(found, part.knots, atol=1e-6 * np.ptp(part.knots))


@scikit_learn_checks(
    PrivateAdditiveClassifier(epsilon=100.0), others=(PrivateAdditiveRegressor(epsilon=100.0),)
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
