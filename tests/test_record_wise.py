"""Transformers that are listed as treating every record by itself: brute force on neighbours."""

import joblib
import numpy as np
import pandas as pd
from cases import each
from scipy import sparse, special
from sklearn.base import clone
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from skdpsco import Schema
from skdpsco.inspection import privacy_report
from skdpsco.inspection._record_wise import KINDS, StepInput, layout_of_records, output_of
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    ColumnClipper,
    PublicBoundsScaler,
    RowClipper,
    TableEncoder,
)

RULES = [kind for kind, known in KINDS.items() if known.rule is not None]
# Record 3 of a data set is replaced. Neighbours differ in what a transformer might look at: extreme
# values, new categories and words, missing values, a column without any other value.
rng = np.random.default_rng(0)
NUMBERS = rng.uniform(0.1, 1.0, (8, 4))
NUMBERS[[0, 1, 2, 4, 5, 6, 7], 3] = 0.0
ZEROS = np.where(rng.uniform(size=(8, 4)) < 0.5, 0.0, NUMBERS)


def replaced(X, record):
    other = X.copy()
    other[3] = record
    return X, other


def missing(values):
    X = NUMBERS.copy()
    X[[0, 1, 2, 4, 5, 6, 7], 3] = np.nan
    return replaced(X, values)


DENSE = [replaced(NUMBERS, np.array([1e3, 0.0, 7.5, 1e-9])), replaced(NUMBERS, np.zeros(4))]
SPARSE = [tuple(map(sparse.csr_array, replaced(ZEROS, row))) for row in (np.zeros(4), 9.0)]
SIGNED = [replaced(NUMBERS, np.array([-1e3, 0.0, 7.5, -2.0]))]
HOLES = [missing(np.array([0.5, np.nan, np.nan, np.nan])), missing(np.full(4, 0.25))]
WORDS = np.array(["red", "blue", "red", "blue", "red", "red", "red", "blue"], object)[:, None]
COLOURS = [replaced(WORDS, "green"), replaced(WORDS, "red")]
KNOWN = [replaced(WORDS, "red")]
CODES = (WORDS == "red").astype(float)
UNKNOWN = [replaced(CODES, 2.0), replaced(CODES, np.nan)]
TEXT = np.array(["a b", "the cat", "cat", "dog dog", "mice", "cat dog", "the the", "b"], object)
DOCUMENTS = [replaced(TEXT, "zebra " * 50), replaced(TEXT, "")]
DICTS = np.array([{"a": float(i), "b": 1.0} for i in range(8)], object)
MAPPINGS = [replaced(DICTS, {"zebra": 1e6})]
NUMERIC = DENSE + SPARSE + SIGNED
TABLES = [
    tuple(pd.DataFrame({"x": X[:, 0], "colour": w[:, 0]}) for X, w in zip(*pairs, strict=True))
    for pairs in ((DENSE[0], COLOURS[0]), (HOLES[0], COLOURS[1]))
]
TABLE = Schema({"x": {"bounds": [0, 1], "missing": True}, "colour": ["red", "blue"]})
KNOTS = np.linspace([0.0] * 4, [1.0] * 4, 4)

WHITELIST = [
    (Binarizer(), NUMERIC),
    (Binarizer(threshold=0.5), NUMERIC),
    (CategoricalDomainEncoder(["red", "blue"]), COLOURS),
    (CategoricalDomainEncoder([0, 1], sparse_output=True), UNKNOWN),
    (CountVectorizer(vocabulary=["cat", "dog", "the"], max_df=2, max_features=1), DOCUMENTS),
    (CountVectorizer(vocabulary={"dog": 0}, analyzer="char", binary=True), DOCUMENTS),
    (FeatureHasher(n_features=16), MAPPINGS),
    (FunctionTransformer(), NUMERIC),
    (FunctionTransformer(np.log1p), DENSE + SPARSE),
    (FunctionTransformer(np.abs, validate=True), NUMERIC[:2]),
    (FunctionTransformer(special.expit), DENSE + SIGNED),
    (FunctionTransformer(np.log1p, np.expm1, check_inverse=False), DENSE),
    (GaussianRandomProjection(n_components=3, random_state=0), NUMERIC),
    (GaussianRandomProjection(eps=0.999, random_state=0), "wide"),
    (HashingVectorizer(n_features=32), DOCUMENTS),
    (HashingVectorizer(n_features=32, analyzer="char_wb", stop_words=None), DOCUMENTS),
    (MissingIndicator(features="all"), HOLES),
    (MissingIndicator(features="all", sparse=True), HOLES),
    *[(Normalizer(norm), NUMERIC) for norm in ("l1", "l2", "max")],
    (OneHotEncoder(categories=[["blue", "red"]]), KNOWN),
    (OneHotEncoder(categories=[["blue", "red"]], handle_unknown="ignore"), COLOURS),
    (OneHotEncoder(categories=[["blue", "red"]], drop="if_binary", sparse_output=False), KNOWN),
    (OneHotEncoder(categories=[[0.0, 1.0]], handle_unknown="ignore"), UNKNOWN),
    (OrdinalEncoder(categories=[["blue", "red"]]), KNOWN),
    (
        OrdinalEncoder(
            categories=[["blue", "red"]], handle_unknown="use_encoded_value", unknown_value=-1
        ),
        COLOURS,
    ),
    (PolynomialCountSketch(n_components=8, random_state=0), NUMERIC),
    (PolynomialCountSketch(gamma=0.5, degree=3, coef0=1, random_state=0), NUMERIC),
    (PolynomialFeatures(3), NUMERIC),
    (PolynomialFeatures((2, 3), interaction_only=True, include_bias=False), NUMERIC),
    (PublicBoundsScaler(), NUMERIC),
    (PublicBoundsScaler(lower=0.0, upper=[1.0, 2.0, 3.0, 4.0]), DENSE),
    (RBFSampler(gamma=0.1, n_components=8, random_state=0), NUMERIC),
    (ColumnClipper(), NUMERIC),
    (RowClipper(), NUMERIC),
    (RowClipper("l1", bound=0.5), NUMERIC),
    (SimpleImputer(strategy="constant", keep_empty_features=True), HOLES),
    (SimpleImputer(strategy="constant", keep_empty_features=True, fill_value=7.0), HOLES),
    (SparseRandomProjection(n_components=3, random_state=0), NUMERIC),
    (SparseRandomProjection(n_components=3, dense_output=True, random_state=0), SPARSE),
    *[
        (SplineTransformer(knots=KNOTS, extrapolation=kind), DENSE + SIGNED)
        for kind in ("constant", "linear", "continue", "periodic")
    ],
    (SplineTransformer(knots=KNOTS, degree=1, include_bias=False), DENSE),
    (TableEncoder(TABLE), TABLES),
    (TableEncoder(TABLE, sparse_output=True), TABLES),
    (TfidfTransformer(use_idf=False), NUMERIC[:4]),
    (TfidfTransformer(use_idf=False, sublinear_tf=True, norm=None), SPARSE),
    (TfidfVectorizer(vocabulary=["cat", "dog", "the"], use_idf=False), DOCUMENTS),
]
WIDE = rng.normal(size=(8, 60))
WIDE_PAIRS = [replaced(WIDE, np.full(60, 1e3))]


def learnt(transformer, X):
    """The attributes of a fit, and its rows except for that of the replaced record."""
    transformer = clone(transformer).fit(X)
    out = transformer.transform(X)
    dense = out.toarray() if sparse.issparse(out) else np.asarray(out)
    again = clone(transformer).fit_transform(X)
    again = again.toarray() if sparse.issparse(again) else np.asarray(again)
    np.testing.assert_array_equal(dense, again)
    return joblib.hash(vars(transformer)), type(out), dense.dtype, np.delete(dense, 3, axis=0)


def depends_on_others(transformer, X, other):
    (state, *kind, rows), (state2, *kind2, rows2) = (
        learnt(transformer, X),
        learnt(transformer, other),
    )
    return (
        state != state2
        or kind != kind2
        or rows.shape != rows2.shape
        or not np.array_equal(rows, rows2, equal_nan=rows.dtype.kind == "f")
    )


@each(("transformer", "pairs"), WHITELIST)
def test_whitelist(transformer, pairs):
    (step,) = privacy_report(transformer).steps
    assert (step.status, step.note) == ("data-independent", "")
    for X, other in WIDE_PAIRS if isinstance(pairs, str) else pairs:
        assert not depends_on_others(transformer, X, other)


def test_every_rule_is_tested():
    assert {type(transformer) for transformer, _ in WHITELIST} == set(RULES)


@each(("transformer", "pairs"), WHITELIST)
def test_whose_output_is_sparse(transformer, pairs):
    for X, _ in WIDE_PAIRS if isinstance(pairs, str) else pairs:
        out = clone(transformer).fit_transform(X)
        said = output_of(transformer, StepInput(layout_of_records(X)))
        assert layout_of_records(out) == said.layout


def centred(X):
    return X - X.mean(axis=0)


# What is refused, and data that show why. Where None stands for data, it is a warning about values,
# an error, which would come after the charge of a private step, or a function that might look at
# anything.
REFUSED = [
    (AdditiveChi2Sampler(), None),  # of negative values
    (CountVectorizer(), DOCUMENTS),
    (CountVectorizer(vocabulary=["cat"], tokenizer=str.split), None),
    (CountVectorizer(vocabulary=["cat"], input="filename"), None),
    (FunctionTransformer(centred), DENSE),
    (FunctionTransformer(np.cumsum), None),
    (FunctionTransformer(np.linalg.pinv), None),
    (FunctionTransformer(np.frompyfunc(lambda x: x, 1, 1)), None),
    (FunctionTransformer(np.log1p, kw_args={"where": NUMBERS > 0}), None),
    (FunctionTransformer(np.log1p, np.sqrt), None),
    (FunctionTransformer(np.log1p, lambda x: x, check_inverse=False), None),
    (FunctionTransformer(np.add), None),
    (HashingVectorizer(analyzer=str.split), None),
    (MaxAbsScaler(), DENSE),
    (MissingIndicator(), HOLES),
    (OneHotEncoder(), COLOURS),
    (OneHotEncoder(categories=[["blue", "red"]], min_frequency=2), None),
    (OneHotEncoder(categories=[["blue", "red"]], handle_unknown="ignore", max_categories=2), None),
    (OneHotEncoder(categories=[["blue", "red"]], handle_unknown="warn"), None),
    (OneHotEncoder(categories=[["blue", "red"]], drop="first", handle_unknown="ignore"), None),
    (OrdinalEncoder(), COLOURS),
    (OrdinalEncoder(categories=[["blue", "red"]], min_frequency=2), None),
    (RBFSampler(gamma="scale", random_state=0), DENSE),
    (SimpleImputer(), HOLES[1:]),
    (SimpleImputer(strategy="constant"), None),  # drops columns without values, and warns
    (SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True), HOLES),
    (SkewedChi2Sampler(n_components=8, random_state=0), None),
    (SplineTransformer(), DENSE),
    (SplineTransformer(knots=KNOTS, extrapolation="error"), None),
    (SplineTransformer(knots=KNOTS, sparse_output=True), None),
    (StandardScaler(with_mean=False, with_std=False), HOLES),  # it counts
    (TfidfTransformer(), SPARSE),
    (TfidfVectorizer(use_idf=False), DOCUMENTS),
    (TfidfVectorizer(vocabulary=["cat", "dog"]), DOCUMENTS),
]


@each(("transformer", "pairs"), REFUSED)
def test_refused(transformer, pairs):
    (step,) = privacy_report(transformer).steps
    assert step.status == "NOT private"
    assert step.note
    if pairs is not None:  # the brute force of test_whitelist would have found it
        assert any(depends_on_others(transformer, X, other) for X, other in pairs)


def test_what_an_earlier_fit_has_learnt():
    transformer = TfidfTransformer().fit(ZEROS).set_params(use_idf=False)
    assert hasattr(transformer.fit(ZEROS), "idf_")  # still applied
    (step,) = privacy_report(transformer).steps
    assert step.status == "NOT private"
    assert "no earlier fit" in step.note


@each("kind", RULES)
def test_exact_types_only(kind):
    transformer = next(one for one, _ in WHITELIST if type(one) is kind)
    derived = type("Derived", (kind,), {})
    other = clone(transformer)
    other.__class__ = derived
    (step,) = privacy_report(other).steps
    assert step.status == "NOT private"
    assert "its type is unknown" in step.note
