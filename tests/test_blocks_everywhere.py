"""Blocks of rows beyond linear models: what they fit is what arrays fit, in any partition."""

import tracemalloc
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from cases import costs_nothing
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skdpsco import (
    Ledger,
    PrivateGridSearchCV,
    PrivateGroupDRO,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMonotoneGLM,
    PrivateSynthesizer,
    RowBlocks,
    Schema,
)
from skdpsco.base.private_estimator import fitted_names
from skdpsco.data.design import as_design
from skdpsco.model_selection import make_private_scorer, private_cross_val_score
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    PrivateFeatureSelector,
    PrivatePCA,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicBoundsScaler,
    RowClipper,
    TableEncoder,
)
from skdpsco.preprocessing.clipper import column_ranks
from skdpsco.preprocessing.scaler import column_sums
from skdpsco.preprocessing.selector import memberships, products_and_sums
from skdpsco.synthesis import Bins

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdpsco.PrivacyWarning", "ignore::skdpsco.UtilityWarning"
)
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N = 900
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (N, 3))
Y = 2.0 * X[:, 0] - X[:, 2]
LABELS = np.where(Y > 0.2, "yes", "no")
GROUPS = RNG.choice(["north", "south"], N, p=[0.4, 0.6])
SETS = np.column_stack([X[:, 0] > 0.0, X[:, 1] > 0.3])  # groups that overlap, and some in none
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, N),
        "city": RNG.choice(["Bonn", "Oslo", "Rome"], N),
        "dose": RNG.normal(size=N),
    }
)
ILL = np.where((FRAME["city"] == "Rome") | (FRAME["age"] > 75), "yes", "no")
DOMAIN = {"age": Bins([18, 40, 65, 90]), "city": ["Bonn", "Oslo", "Rome"], "dose": Bins([-4, 0, 4])}
CLASSES = ["no", "yes"]


def released(model):
    """What a fit has released, as arrays."""
    found = {n: getattr(model, n) for n in fitted_names(model) if n != "feature_names_in_"}
    return {name: a for name, a in found.items() if isinstance(a, (np.ndarray, float, int))}


def same(model, arrays, blocks, **params):
    """Check that noise of one seed gives the same releases, and return the fit to blocks."""
    model.set_params(random_state=0)
    expected, found = clone(model).fit(*arrays, **params), clone(model).fit(blocks, **params)
    assert released(found).keys() == released(expected).keys()
    for name, value in released(expected).items():
        if np.asarray(value).dtype.kind == "f":
            np.testing.assert_allclose(released(found)[name], value, rtol=1e-9, atol=1e-9)
        else:
            np.testing.assert_array_equal(released(found)[name], value)
    assert found.privacy_.event == expected.privacy_.event
    return found


def partitions(X, y=None):
    """Blocks of many and of few records, one of them empty."""
    cuts = [0, 1, 1, 400, 401, len(X)]
    pairs = [(X[a:b], None if y is None else y[a:b]) for a, b in pairwise(cuts)]
    return RowBlocks.from_arrays(X, y, block_size=250), RowBlocks.from_blocks(pairs)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A Parquet file of row groups, with text in a dictionary, as pandas categories are stored."""
    table = pa.Table.from_pandas(FRAME.assign(ill=ILL))
    table = table.set_column(1, "city", table.column("city").dictionary_encode())
    path = tmp_path_factory.mktemp("parquet") / "table.parquet"
    parquet.write_table(table, path, row_group_size=200)
    return path


# --------------------------------------------------------------- models and transformers


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (PrivateStandardScaler(), None),
        (PrivateStandardScaler(with_std=False), LABELS),
        (PrivateQuantileClipper(lower=-9.0, upper=9.0, epsilon=5.0), None),
        (PrivateQuantileClipper(lower=-9.0, upper=9.0, epsilon=0.5), None),  # no centre
        (PrivateSplineTransformer(lower=-9.0, upper=9.0), None),
        (PrivateSplineTransformer(columns=[1], epsilon=20.0), None),
        (PrivatePCA(epsilon=20.0), None),
        (PrivateFeatureSelector(n_features_to_select=1, classes=CLASSES), LABELS),
        (PrivateFeatureSelector(n_features_to_select=1, task="regression"), Y),
        (PrivateMonotoneGLM(link="identity", target_bound=3.0, epsilon=5.0), Y),
        (PrivateMonotoneGLM(link="identity", epsilon=5.0), 1e3 + Y),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_same_as_arrays(model, y):
    for blocks in partitions(X, y):
        same(model, (X, y), blocks)


@pytest.mark.parametrize(
    ("params", "groups", "y"),
    [
        ({"classes": CLASSES}, SETS, LABELS),
        ({"loss": "squared", "target_bound": 3.0, "cvar_level": 0.2}, GROUPS, Y),
        ({"loss": "squared"}, SETS, 1e3 + Y),
    ],
    ids=["sets", "regression", "far"],
)
def test_groups(params, groups, y):
    for blocks in partitions(X, y):
        same(PrivateGroupDRO(epsilon=5.0, **params), (X, y), blocks, sensitive_features=groups)


def test_groups_in_a_column_of_text(file):
    blocks = RowBlocks.from_parquet(file, "ill", block_size=300)
    model = PrivateGroupDRO(classes=CLASSES, feature_bound=[90.0, 4.0])
    found = same(model, (FRAME, ILL), blocks, sensitive_features="city")
    assert found.feature_names_in_.tolist() == ["age", "dose"]
    assert found.predict(FRAME).shape == (N,)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"solver": "select-measure", "order": 2, "n_iter": 1},
        {"solver": "mirror-descent", "order": 2, "n_iter": 2},
        {"workload": [lambda X: X["age"] > 50]},
        {"workload": [lambda X: X["age"] > 50], "solver": "select-measure", "n_iter": 1},
    ],
)
def test_synthetic_tables_from_text(params, file):
    blocks = RowBlocks.from_parquet(file, block_size=300, columns=["age", "city", "dose"])
    found = same(PrivateSynthesizer(domain=DOMAIN, **params), (FRAME,), blocks)
    assert found.feature_names_in_.tolist() == list(FRAME.columns)
    assert set(found.sample(50)["city"]) <= {"Bonn", "Oslo", "Rome"}


# --- the functions of one record, without noise, for neighbours


def test_a_record_changes_its_own_term_only():
    """Sums of a block less those without a record are the record's term, clipped."""
    ones, wide = np.ones(3), 100.0 * X
    columns = tuple(np.linspace(-1, 1, 5) for _ in range(3))
    index = (LABELS == "yes").astype(float)
    functions = {
        lambda D, t: (column_sums(D, t, -ones, ones, True),): 3 * 2,
        lambda D, t: column_ranks(D, t, -ones, ones, columns, columns): 2 * 3 * 5,
        lambda D, t: products_and_sums(D, t, lambda y: memberships(y, 2)): 3 * 2 + 2,
    }
    for function, largest in functions.items():
        for i in (0, 7, 500):
            rest = np.delete(np.arange(N), i)
            whole, less = (
                np.concatenate(function(as_design(wide[rows], ones, False), index[rows]))
                for rows in (np.arange(N), rest)
            )
            own = np.concatenate(function(as_design(wide[[i]], ones, False), index[[i]]))
            np.testing.assert_allclose(whole - less, own, atol=1e-9)
            assert 0.0 < np.abs(own).sum() <= largest


# ----------------------------------------------------------------------------------- map


def encoder():
    """A data-independent transformer, fitted to a public record."""
    made = make_column_transformer(
        (PublicBoundsScaler([18, -4], [90, 4]), ["age", "dose"]),
        (CategoricalDomainEncoder([["Bonn", "Oslo", "Rome"]]), ["city"]),
        sparse_threshold=0,
    )
    return made.fit(pd.DataFrame({"age": [50], "city": ["Rome"], "dose": [0.0]}))


def test_text_is_encoded_as_it_is_read(file):
    blocks = RowBlocks.from_parquet(file, "ill", block_size=300)
    transformer, model = encoder(), PrivateLogisticRegression(classes=CLASSES)
    expected = transformer.transform(FRAME), ILL
    same(model, expected, blocks.map(transformer))
    named = blocks.map(transformer.set_output(transform="pandas"))
    found = same(model, expected, named)
    names = transformer.get_feature_names_out().tolist()
    assert found.feature_names_in_.tolist() == list(named.feature_names) == names
    pairs = list(named)
    assert np.concatenate([y for _, y in pairs]).tolist() == ILL.tolist()
    np.testing.assert_array_equal(pd.concat([part for part, _ in pairs]), expected[0])


def test_pipelines_of_data_independent_steps(file):
    columns = ["age", "dose"]
    blocks = RowBlocks.from_parquet(file, "ill", columns=columns, block_size=300)
    arrays = FRAME[columns], ILL
    pipeline = make_pipeline(
        PublicBoundsScaler([18, -4], [90, 4]),
        PrivateStandardScaler(random_state=0),
        RowClipper(bound=2.0),
        PrivateLogisticRegression(classes=CLASSES, random_state=0),
    )
    expected, found = clone(pipeline).fit(*arrays), clone(pipeline).fit(blocks)
    np.testing.assert_allclose(found[-1].coef_, expected[-1].coef_, rtol=1e-9)
    assert found.feature_names_in_.tolist() == columns
    assert np.array_equal(found.predict(FRAME[columns]), expected.predict(FRAME[columns]))
    one_hot = make_pipeline(CategoricalDomainEncoder({"city": ["Rome"]}), pipeline[-1])
    one_hot.fit(RowBlocks.from_parquet(file, "ill", columns=["city"]))
    assert one_hot[:-1].get_feature_names_out().tolist() == ["city_Rome"]


def test_blocks_reach_transformers_as_they_were_fitted(file):
    """With names where they have names; a warning of scikit-learn would fail this test."""
    numeric = RowBlocks.from_parquet(file, columns=["age", "dose"])
    values = FRAME[["age", "dose"]]
    for public in (values, values.to_numpy()):
        mapped = numeric.map(StandardScaler().fit(public))
        assert mapped.feature_names is None
        assert mapped.n_features == 2


@pytest.mark.parametrize("name", ["from_arrow", "from_parquet"])
def test_a_missing_value_changes_its_own_record_only(name, tmp_path):
    """Neither numbers beyond 2**53 nor texts of numbers of the same block."""
    identifier = {"categories": [2**53, 2**53 + 1]}
    columns = {"id": identifier, "text": ["1", "2"], "flag": ["False", "True"]}
    texts = FunctionTransformer(lambda X: X.astype({"text": str, "flag": str}))
    encoded = []
    for first in ((2**53, 1, True), (None, None, None)):
        pairs = zip(first, (2**53 + 1, 2, False), strict=True)
        table = pa.table(dict(zip(columns, map(list, pairs), strict=True)))
        if name == "from_parquet":
            parquet.write_table(table, tmp_path / "table.parquet")
            table = tmp_path / "table.parquet"
        blocks = getattr(RowBlocks, name)(table).map(texts).map(TableEncoder(Schema(columns)))
        encoded += [X.tolist() for X, _ in blocks]
    other = [0, 1, 0, 1, 1, 0]
    assert encoded == [[[1, 0, 1, 0, 0, 1], other], [[0] * 6, other]]


def test_the_first_record_decides_nothing_about_synthetic_records():
    model = PrivateSynthesizer(domain={"a": [0, 1, None], "b": [False, True]}, order=1)
    sampled = []
    for first in (1, None):
        table = pa.table({"a": [first, 0, 1] * 50, "b": [True, False, first == 1] * 50})
        sampled.append(clone(model).fit(RowBlocks.from_arrow(table)).sample(5))
    assert sampled[0].dtypes.tolist() == sampled[1].dtypes.tolist()


def test_mistakes_cost_nothing_and_show_no_value(file):
    model = PrivateLogisticRegression(classes=CLASSES)
    blocks = RowBlocks.from_parquet(file, "ill", block_size=300)
    costs_nothing(model, r"'city' is dictionary.*RowBlocks.map\(transformer\)", blocks)
    strict = OneHotEncoder(categories=[["Bonn", FRAME["city"][0]]])
    strict.fit(pd.DataFrame({"city": ["Bonn"]}))  # "unknown" values raise, and are printed
    cities = RowBlocks.from_parquet(file, "ill", columns=["city"], block_size=300)
    match = "^Block 0 of X: OneHotEncoder.transform fails for it"
    costs_nothing(model, match, cities.map(strict))
    domain = {**DOMAIN, "city": ["Bonn", FRAME["city"][0]]}
    features = RowBlocks.from_parquet(file, columns=list(FRAME), block_size=300)
    match = "Block 0 of X: X has a value in column 'city' that"
    costs_nothing(PrivateSynthesizer(domain=domain), match, features)
    for wrong, match in ((StandardScaler, "got <class"), (object(), "a method transform")):
        with pytest.raises(TypeError, match=match):
            blocks.map(wrong)

    class Total:
        def transform(self, X):
            return X.sum(axis=0)

    with pytest.raises(ValueError, match="must return one row for every record"):
        RowBlocks.from_arrays(X).map(Total())


def test_what_is_not_summed_says_so():
    blocks = RowBlocks.from_arrays(X, LABELS)
    with pytest.raises(TypeError, match="this model does not take RowBlocks"):
        PrivateMinimaxClassifier().fit(blocks, LABELS)
    game = PrivateGroupDRO(loss="hinge", solver="mirror-prox", classes=CLASSES)
    with pytest.raises(ValueError, match="cannot read blocks"):
        game.fit(blocks, sensitive_features=GROUPS)
    for model in (PrivateGroupDRO(), PrivateFeatureSelector(n_features_to_select=1)):
        params = {"sensitive_features": GROUPS} if isinstance(model, PrivateGroupDRO) else {}
        with pytest.raises(ValueError, match="classes must be declared"):
            model.fit(blocks, **params)
    with pytest.raises(ValueError, match="X is sparse"):
        PrivateStandardScaler().fit(RowBlocks.from_arrays(sparse.csr_matrix(X)))


# -------------------------------------------------------------------------------- search


def test_searches_by_composition(file):
    columns = ["age", "dose"]
    blocks = RowBlocks.from_parquet(file, "ill", columns=columns, block_size=300)
    pipeline = make_pipeline(
        PublicBoundsScaler([18, -4], [90, 4]),
        PrivateStandardScaler(),
        PrivateFeatureSelector(n_features_to_select=1, classes=CLASSES),
        PrivateLogisticRegression(classes=CLASSES),
    )
    grid = {"privatelogisticregression__C": [0.1, 1.0]}
    search = PrivateGridSearchCV(
        pipeline, grid, strategy="composition", return_scores=True, random_state=0
    )
    expected = clone(search).fit(FRAME[columns], ILL)
    found = clone(search).set_params(strategy="auto").fit(blocks)
    for name in ("mean_test_score", "std_noise"):
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name])
    np.testing.assert_allclose(found.best_estimator_[-1].coef_, expected.best_estimator_[-1].coef_)
    with pytest.raises(ValueError, match="strategy must be 'composition' for RowBlocks"):
        search.set_params(strategy="random-stopping", return_scores=False).fit(blocks)


@pytest.mark.parametrize("searches", [True, False])
def test_features_that_change_between_two_fits_end_a_search(searches, tmp_path):
    """A record could be in the training part of one fit, and in the validation part of another."""
    path, calls = tmp_path / "permuted.parquet", []

    def write(rows):
        features = pd.DataFrame(X[rows], columns=["a", "b", "c"])
        features.assign(ill=LABELS).to_parquet(path, row_group_size=300)

    def score(y, predicted):
        calls.append(len(y))
        if len(calls) == 2:  # the first was made before the charge, by itself
            write(slice(None, None, -1))
        return y == predicted

    write(slice(None))
    blocks, ledger = RowBlocks.from_parquet(path, "ill", block_size=300), Ledger(9.0, 1e-5)
    scorer = make_private_scorer(score, 0.0, 1.0)
    model = PrivateLogisticRegression(classes=CLASSES)
    search = PrivateGridSearchCV(model, {"C": [0.1, 1.0]}, scoring=scorer, ledger=ledger)
    score_folds = partial(private_cross_val_score, model, cv=2, scoring=scorer, ledger=ledger)
    fit = search.fit if searches else score_folds
    with pytest.raises(ValueError, match="it is not what it was when it was read before"):
        fit(blocks)
    assert len(calls) >= 2
    assert len(ledger.charges()) == 1
    assert not hasattr(search, "best_estimator_")


def test_a_file_that_shrinks_to_the_rows_that_are_taken_is_refused(tmp_path):
    """Its records would be those of the training part, and of the validation part too."""
    path, half = tmp_path / "halved.parquet", N // 2
    FRAME.to_parquet(path)
    blocks, _, _ = RowBlocks.from_parquet(path).with_target(LABELS).labelled()
    FRAME[:half].to_parquet(path)
    for rows in (np.arange(half), np.arange(half, N)):
        with pytest.raises(ValueError, match=f"it must have {N} rows, got {half}"):
            list(blocks.take(rows))


@pytest.mark.parametrize("change", ["city", "ill"])
def test_labels_that_change_between_two_readings_end_a_fit(change, tmp_path):
    """The groups were read before the check of all blocks."""
    frame, path = FRAME.assign(ill=ILL), tmp_path / "changed.parquet"
    frame.to_parquet(path, row_group_size=300)
    blocks, _, _ = RowBlocks.from_parquet(path, "ill", block_size=300).labelled(("city",))
    assert [X.shape for X, _ in blocks] == [(300, 2)] * 3
    other = frame[change].to_numpy(copy=True)
    other[350] = "Oslo" if other[350] == "Rome" else "Rome" if change == "city" else "maybe"
    frame.assign(**{change: other}).to_parquet(path, row_group_size=300)
    with pytest.raises(ValueError, match="it is not what it was when it was read before"):
        list(blocks)


# -------------------------------------------------------------------------------- memory


@pytest.mark.usefixtures("as_they_are")
def test_one_block_in_memory():
    """With 12 blocks of 2 MB each, a few copies of one are in memory at a time, even if mapped."""
    n, d, size = 12 * 2500, 100, 2500

    class Part:
        n_rows = size

        def read(self):
            return np.full((size, d), 0.5), np.arange(size) % 2

    blocks = RowBlocks([Part()] * (n // size), n, d)
    rounds = {"epsilon": 5.0, "n_iter": 1}
    groups = np.arange(n) % 3
    models = [
        (PrivateStandardScaler(), {}),
        (PrivateMonotoneGLM(**rounds), {}),
        (PrivateGroupDRO(classes=[0, 1], **rounds), {"sensitive_features": groups}),
    ]
    for model, params in models:
        some = {name: value[: 2 * size] for name, value in params.items()}
        model.fit(RowBlocks([Part()] * 2, 2 * size, d), **some)  # what is compiled and cached stays
    for model, params in models:
        tracemalloc.start()
        model.fit(blocks.map(RowClipper("max")), **params)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * size * d * 8 + 48 * len(params) * n, (model, peak)
