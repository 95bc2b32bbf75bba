"""What holds for every private model: one test of each law, over a table of models.

Each model appears as users fit it by default, and with solvers whose code is another.
"""

import copy
import dataclasses
import inspect
import itertools
import pickle
import re
import warnings
from functools import cache, partial
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from own_solver import OneGradient
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags

from skdpsco import (
    PrivacyWarning,
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateGroupDRO,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearDiscriminantAnalysis,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMoments,
    PrivateMonotoneGLM,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.solvers import SGD, FrankWolfe
from skdpsco.survival import PrivateSurvivalRegressor

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning"),
    pytest.mark.filterwarnings("ignore:feature_bound seems"),
]

N, D = 500, 4
NAMES = ["one", "two", "three", "four"]


class Case(NamedTuple):
    """A model, and how its targets follow from numbers in about [-1, 1]."""

    model: object
    targets: object = np.asarray

    def __str__(self):
        given = self.model.get_params(deep=False)
        shown = [given[name] for name in SHOWN if given.get(name, "auto") != "auto"]
        words = [w if isinstance(w, str | int | float) else type(w).__name__ for w in shown]
        return " ".join(map(str, [type(self.model).__name__, *words, self.targets.__name__]))


SHOWN = ("solver", "loss", "n_iter", "radius", "tasks", "group_membership")


def labels(y):
    return (y > 0).astype(int)


def three_classes(y):
    return np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))


def positive(y):
    return np.exp(y)


def outcomes(y):
    return np.column_stack([y > 0, np.abs(y)])


def two_columns(y):
    return np.column_stack([y, -y])


SELECTION, VERTICES = {"radius": 2.0, "n_iter": 12}, {"radius": 2.0, "solver": "frank-wolfe"}
PRIVATE = {"groups": [0, 1], "group_membership": "private"}
SAMPLES = SGD(accountant="rdp")  # which plans at once
CASES = [
    *(Case(PrivateLasso(**route)) for route in ({}, {"radius": 2.0}, SELECTION, VERTICES)),
    *(
        Case(PrivateLogisticL1(**route), targets)
        for route in ({}, {"radius": 2.0}, SELECTION, VERTICES)
        for targets in (labels, three_classes)
    ),
    Case(PrivateLasso(), two_columns),
    Case(PrivateRidge()),
    Case(PrivateRidge(), two_columns),
    Case(PrivateElasticNet(alpha=1e-3)),
    Case(PrivateLogisticRegression(), labels),
    Case(PrivateLogisticRegression(), three_classes),
    Case(PrivateLogisticRegression(solver="coordinate-descent"), labels),
    Case(PrivateLogisticRegression(solver="greedy-coordinate-descent"), labels),
    Case(PrivateLogisticRegression(solver=SAMPLES, n_iter=20), labels),
    Case(PrivateLinearSVC(), labels),
    Case(PrivateLinearDiscriminantAnalysis(), labels),
    Case(PrivateHuberRegressor()),
    Case(PrivateQuantileRegressor()),
    Case(PrivatePoissonRegressor(), positive),
    Case(PrivateGammaRegressor(), positive),
    Case(PrivateSurvivalRegressor(times=[0.1, 0.5]), outcomes),
    Case(PrivateLinearClassifier(), labels),
    Case(PrivateLinearClassifier(loss="hinge"), labels),
    Case(PrivateLinearRegressor()),
    Case(PrivateLinearRegressor(solver=OneGradient())),
    Case(PrivateMonotoneGLM(), labels),
    Case(PrivateMonotoneGLM(solver="mirror-prox", n_iter=3), labels),
    Case(PrivateGroupDRO(), labels),
    Case(PrivateGroupDRO(loss="squared")),
    Case(PrivateGroupDRO(**PRIVATE), labels),
    Case(PrivateMinimaxClassifier(), labels),
    Case(PrivateMinimaxClassifier(solver="mirror-descent", n_iter=5), labels),
    Case(PrivateMinimaxClassifier(solver="mirror-prox", n_iter=5), labels),
    Case(PrivateMinimaxRegressor(tasks="columns"), two_columns),
    Case(PrivateMoments()),
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)
MODELS = {type(case.model): case for case in reversed(CASES)}
each_model = pytest.mark.parametrize("case", MODELS.values(), ids=lambda c: type(c.model).__name__)


def data(n=N, seed=0):
    """Whole numbers in [-3, 3], so that every kind of array can hold them, and numbers."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (n, D)).astype(float)
    return X, (X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n)) / 6


def given_to(model, **params):
    """A clone with those of the parameters that the model has."""
    own = model.get_params(deep=False)
    return clone(model).set_params(**{k: v for k, v in params.items() if k in own})


def fitted(case, X, y, **params):
    """A fit with a seed, to targets that follow from y."""
    params = {"random_state": 0, "epsilon": 5.0, "feature_bound": 3.0, **params}
    return fit(given_to(case.model, **params), case, X, y)


def fit(model, case, X, y):
    targets = case.targets(y)
    if isinstance(model, PrivateMoments):
        return model.fit(X, targets)
    groups = {"sensitive_features": np.arange(len(y)) % 2}
    return model.fit(X, targets, **groups if isinstance(model, PrivateGroupDRO) else {})


@cache
def usual(case):
    """A fit that others are compared with, and that no test changes."""
    return fitted(case, *data())


def released(model):
    """The numbers of a fit."""
    names = ("coef_", "intercept_") if hasattr(model, "coef_") else ("covariance_", "mean_")
    return [getattr(model, name) for name in names]


def same(model, other):
    for one, two in zip(released(model), released(other), strict=True):
        assert_array_equal(one, two)
    assert model.privacy_ == other.privacy_


# ------------------------------------------------------------------------------ parameters


@each_model
def test_parameters_are_those_of_scikit_learn(case):
    Estimator = type(case.model)
    model = Estimator()
    # Dask and others take dataclasses for their fields, and so all fits for one.
    assert not dataclasses.is_dataclass(model)
    # A subclass whose `__init__` forgets its ledger must not fit without one.
    assert not any(hasattr(Estimator, name) for name in ("epsilon", "delta", "ledger", "relation"))
    assert not any(isinstance(value, dataclasses.Field) for value in vars(Estimator).values())
    assert list(model.get_params()) == sorted(inspect.signature(Estimator).parameters)
    assert model.set_params(epsilon=0.5) is model
    assert clone(model).epsilon == 0.5
    with pytest.raises(ValueError, match="Invalid parameter 'unknown'"):
        model.set_params(unknown=1.0)
    with pytest.raises(TypeError):
        Estimator(1.0)  # keyword only
    tags = get_tags(model)
    assert tags.input_tags.sparse
    assert not tags.input_tags.allow_nan
    assert not tags.non_deterministic  # with a given random_state, that is
    assert not tags.no_validation
    special = tags.regressor_tags or tags.classifier_tags
    assert special is None or special.poor_score  # of few records at epsilon=1


@each_model
def test_a_fit_never_writes_a_parameter(case):
    X, y = data()
    changes = {
        "random_state": np.random.RandomState(0),
        "fit_intercept": np.False_,
        "epsilon": np.float32(1.0),
        "feature_bound": [3, 3.0, 3, 3],
        "n_iter": 5,
    }
    if isinstance(case.model, PrivateLasso | PrivateLogisticL1):
        changes |= {"solver": FrankWolfe(), "radius": 2}
    model = given_to(case.model, **changes)
    before = model.get_params(deep=False)
    kept = copy.deepcopy({k: v for k, v in before.items() if k not in ("random_state", "solver")})
    assert fit(model, case, X, y) is model
    after = model.get_params(deep=False)
    assert all(after[name] is before[name] for name in before)
    assert {name: after[name] for name in kept} == kept


# ------------------------------------------------------------------------------ what a fit holds

# Attributes of fits that users ask for, of bounds that are found, and of some losses and solvers
CONDITIONAL = {"coef_covariance_", "coef_standard_error_", "uncertainty_", "feature_bound_"}
CONDITIONAL |= {"radius_", "path_", "classes_", "target_range_", "class_prior_", "n_rounds_"}


def documented(Estimator):
    """Names of fitted attributes in the docstring, and those of properties."""
    section = re.search(r"Attributes\n    -+\n(.*?)(\n\n|$)", Estimator.__doc__, re.DOTALL)
    lines = re.findall(r"^    (\w+_(?:, \w+_)*) :", section.group(1), re.MULTILINE)
    names = {name for line in lines for name in line.split(", ")}
    return names, {name for name in names if isinstance(getattr(Estimator, name, None), property)}


@each_case
def test_attributes_are_the_documented_ones(case):
    """So nothing of the data is kept."""
    X, y = data()
    model = fitted(case, pd.DataFrame(X, columns=NAMES), y)
    attributes = set(vars(model)) - set(model.get_params()) - {"_n_fits"}
    names, properties = documented(type(model))
    assert attributes <= names
    assert names - attributes <= CONDITIONAL | properties
    assert list(model.feature_names_in_) == NAMES
    assert model.n_features_in_ == D
    if hasattr(model, "n_iter_"):
        assert type(model.n_iter_) is int
        assert model.n_iter_ >= 1 or isinstance(model, PrivateLinearDiscriminantAnalysis)
    assert not hasattr(clone(model), "privacy_")
    fit(model, case, X[:, :3], y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3


@each_case
def test_copies_are_the_same_model(case, tmp_path):
    X, _ = data()
    model = usual(case)
    joblib.dump(model, tmp_path / "model")
    copies = [copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))]
    for other in (*copies, joblib.load(tmp_path / "model")):
        same(model, other)
        if hasattr(model, "predict"):
            assert_array_equal(model.predict(X), other.predict(X))
        if hasattr(model, "path_"):
            for name in ("radius", "coef", "intercept"):
                assert_array_equal(getattr(model.path_, name), getattr(other.path_, name))


def reachable(thing, depth=8):
    """Every object that attributes and containers lead to."""
    yield thing
    if depth == 0 or isinstance(thing, (str, bytes, int, float)):
        return
    children = []
    if isinstance(thing, dict):
        children = list(thing.values())
    elif isinstance(thing, (list, tuple, set)):
        children = list(thing)
    elif isinstance(thing, partial):
        children = [thing.func.__self__, *thing.args, *thing.keywords.values()]
    elif hasattr(thing, "__dict__") and not isinstance(thing, type):
        children = list(vars(thing).values())
    for child in children:
        yield from reachable(child, depth - 1)


@each_case
def test_no_generator_and_no_data_are_kept(case):
    n = 173  # a size that nothing else has
    X, y = data(n)
    model = fitted(case, X, y)
    for thing in reachable(model):
        kinds = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
        assert not isinstance(thing, kinds)
        if isinstance(thing, np.ndarray):  # nothing per record
            assert n not in thing.shape
            assert thing.base is None or not np.shares_memory(thing, X)
    stored = pickle.dumps(model)
    for word in (b"PCG64", b"AESCounter", b"BitGenerator", b"randomgen", b"Generator", b"lambda"):
        assert word not in stored
    assert X.tobytes()[:64] not in stored
    model.rng_ = np.random.default_rng(0)  # which the search would find
    assert any(isinstance(thing, np.random.Generator) for thing in reachable(model))


@each_case
def test_noise_is_fresh_and_a_seed_repeats_it(case):
    X, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)  # secret noise is nothing to warn of
        secret = fitted(case, X, y, random_state=None, epsilon=1.0)
    assert not secret.privacy_.seeded
    first = released(secret)[0]  # of vertices, which two fits may choose alike
    others = (released(fit(clone(secret), case, X, y))[0] for _ in range(30))
    assert any(not np.array_equal(first, other) for other in others)
    with pytest.warns(PrivacyWarning, match="random_state") as record:
        seeded = [fitted(case, X, y, epsilon=1.0) for _ in "ab"]
    same(*seeded)
    assert seeded[0].privacy_.seeded
    assert {w.filename for w in record if w.category is PrivacyWarning} == {__file__}
    moving = [fitted(case, X, y, random_state=np.random.RandomState(0)) for _ in "ab"]
    same(*moving)
    first = released(moving[0])[0]  # coefficients of two fits may both be 0
    others = (released(fit(moving[0], case, X, y))[0] for _ in range(30))
    assert any(not np.array_equal(first, other) for other in others)


# ------------------------------------------------------------------------------ kinds of input


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def duplicates_and_disorder(X):
    """A CSR matrix with two halves of every entry, columns in descending order."""
    n, d = X.shape
    data = np.repeat(X[:, ::-1] / 2, 2, axis=1).ravel()
    indices = np.tile(np.repeat(np.arange(d)[::-1], 2), n)
    return sparse.csr_matrix((data, indices, np.arange(0, 2 * n * d + 1, 2 * d)), shape=(n, d))


def with_wide_indices(X):
    matrix = sparse.csr_array(X)
    wide = [indices.astype(np.int64) for indices in (matrix.indices, matrix.indptr)]
    found = sparse.csr_array(matrix.shape)
    found.data, found.indices, found.indptr = matrix.data, *wide
    return found


def with_swapped_bytes(X):
    """Numba would take them for native ones, and read far beyond the arrays."""
    matrix = sparse.csr_matrix(X)
    for name in ("data", "indices", "indptr"):
        array = getattr(matrix, name)
        setattr(matrix, name, array.astype(array.dtype.newbyteorder()))
    return matrix


def seemingly_canonical(X):
    matrix = duplicates_and_disorder(X)
    matrix.has_canonical_format = matrix.has_sorted_indices = True
    return matrix


# Kinds that one solver needs no machine code of its own for
FEW_KINDS = {
    "Fortran": np.asfortranarray,
    "csr array": sparse.csr_array,
    "csc matrix": sparse.csc_matrix,
    "halves": duplicates_and_disorder,
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
}
KINDS = {
    **FEW_KINDS,
    "float32": lambda X: X.astype(np.float32),
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "reversed": lambda X: X[:, ::-1].copy()[:, ::-1],
    "float16": lambda X: X.astype(np.float16),
    "big-endian": lambda X: X.astype(">f8"),
    "not aligned": lambda X: np.frombuffer(b"0" + X.tobytes(), "f8", offset=1).reshape(X.shape),
    "int64": lambda X: X.astype(np.int64),
    "int8": lambda X: X.astype(np.int8),
    "object": lambda X: X.astype(object),
    "lists": lambda X: X.tolist(),
    "read-only": read_only,
    "csr matrix": sparse.csr_matrix,
    "csc array": sparse.csc_array,
    "triplets": sparse.coo_array,
    "lil matrix": sparse.lil_matrix,
    "int csr": lambda X: sparse.csr_array(X.astype(np.int32)),
    "float32 csr": lambda X: sparse.csr_array(X.astype(np.float32)),
    "swapped bytes": with_swapped_bytes,
    "halves that seem to be sums": seemingly_canonical,
    "wide indices": with_wide_indices,
    "pandas Int64": lambda X: pd.DataFrame(X, columns=NAMES).astype("Int64"),
    "pandas of several types": lambda X: pd.DataFrame(X, columns=NAMES).astype(
        {"one": np.int32, "two": np.float32}
    ),
}
# Models that read records in ways of their own take all kinds.
ALL_KINDS = (PrivateLasso, PrivateLogisticL1, PrivateRidge, PrivateLinearRegressor)


@pytest.mark.usefixtures("as_they_are")
@each_case
def test_kinds_of_records_are_the_same_records(case):
    X, y = data()
    params = {"feature_bound": 2.0}  # a centre is of dense records
    reference = fitted(case, X, y, **params)
    all_of_them = MODELS[type(case.model)] is case and type(case.model) in ALL_KINDS
    for kind, make in (KINDS if all_of_them else FEW_KINDS).items():
        given = make(X)
        before = copy.deepcopy(given)
        model = fitted(case, given, y, **params)
        for one, two in zip(released(model), released(reference), strict=True):
            assert_allclose(one, two, rtol=1e-7, atol=1e-9, err_msg=kind)
        assert type(given) is type(before)
        if sparse.issparse(given):
            for part in ("data", "indices", "indptr"):
                if hasattr(given, part):
                    assert_array_equal(getattr(given, part), getattr(before, part))
        else:
            assert_array_equal(np.asarray(given), np.asarray(before))
        if hasattr(model, "predict"):
            assert_allclose(model.predict(given), reference.predict(X), rtol=1e-5, atol=1e-5)
        named = kind.startswith(("pandas", "polars"))
        assert list(getattr(model, "feature_names_in_", ())) == (NAMES if named else [])


# Blocks take solvers that read each of them once.
OF_ARRAYS = (PrivateLinearClassifier, PrivateLinearRegressor)
REFUSE_BLOCKS = (PrivateMinimaxClassifier, PrivateMinimaxRegressor, PrivateSurvivalRegressor)
READ_COLUMNS = ("coordinate-descent", "greedy-coordinate-descent", "mirror-prox", SAMPLES)


@pytest.mark.parametrize(
    "case", [one for one in CASES if type(one.model) not in OF_ARRAYS], ids=str
)
def test_blocks_are_the_same_records_or_are_refused(case):
    X, y = data()
    targets = case.targets(y)
    params = {"classes": np.unique(targets)} if targets.dtype.kind == "i" else {}
    blocks = RowBlocks.from_arrays(X, targets, block_size=130)
    model = given_to(case.model, random_state=0, epsilon=5.0, feature_bound=3.0, **params)
    groups = {"sensitive_features": np.arange(N) % 2}
    groups = groups if isinstance(model, PrivateGroupDRO) else {}
    if isinstance(model, REFUSE_BLOCKS) or case.model.get_params().get("solver") in READ_COLUMNS:
        reasons = r"samples or a clipped copy of|records in memory"
        with pytest.raises((TypeError, ValueError), match=reasons):
            model.fit(blocks)
        return
    model.fit(blocks, **groups)
    expected = fitted(case, X, y, **params)
    for one, two in zip(released(model), released(expected), strict=True):
        assert_allclose(one, two, rtol=1e-7, atol=1e-9)
    assert model.privacy_.event == expected.privacy_.event
    assert getattr(model, "n_iter_", 0) == getattr(expected, "n_iter_", 0)


@each_case
def test_features_are_clipped_and_data_are_kept(case):
    X, y = data()
    bounds = np.array([1.0, 2.0, 1.5, 0.5])
    X[::7] *= 1e9
    before, targets = X.copy(), y.copy()
    model = fitted(case, X, y, feature_bound=bounds)
    if hasattr(model, "predict"):
        model.predict(X)
    assert_array_equal(X, before)
    assert_array_equal(y, targets)
    same(model, fitted(case, np.clip(X, -bounds, bounds), y, feature_bound=bounds))
    huge = np.where(X > 0, 1e308, -1e308)  # rows whose norm overflows
    model = fitted(case, huge, y, feature_bound=1.0)
    same(model, fitted(case, np.sign(huge), y, feature_bound=1.0))


@each_case
def test_one_bound_is_the_same_bound_for_every_column(case):
    X, y = data()
    same(fitted(case, X, y, feature_bound=2), fitted(case, X, y, feature_bound=[2, 2, 2, 2]))


def in_other_units(model, s):
    """Parameters of the same model of features that are s times as large."""
    given = model.get_params(deep=False)
    if isinstance(model, PrivateElasticNet):
        l1, l2 = given["alpha"] * np.array(
            [given["l1_ratio"] * s, (1.0 - given["l1_ratio"]) * s**2]
        )
        return {"alpha": l1 + l2, "l1_ratio": l1 / (l1 + l2)}
    of_l1 = isinstance(model, PrivateQuantileRegressor)
    factors = {"alpha": s if of_l1 else s**2, "C": s**-2, "radius": 1.0 / s}
    numbers = {name: value for name, value in given.items() if isinstance(value, float)}
    return {name: numbers[name] * factors[name] for name in factors.keys() & numbers.keys()}


COLUMNS = np.array([4.0, 1.0, 0.125, 2.0])


@pytest.mark.parametrize("s", [4.0, 2.0**-10, COLUMNS], ids=["4", "tiny", "columns"])
@each_case
def test_units_of_features_do_not_matter(case, s):
    """Columns may have units of their own where no penalty and no ball is in those of the user."""
    X, y = data()
    changed = in_other_units(case.model, s)
    if s is COLUMNS and changed:
        return
    model = usual(case)
    other = fitted(case, s * X, y, feature_bound=3.0 * s, **changed)
    if isinstance(model, PrivateMoments):
        units = np.append(np.broadcast_to(s, D), 1.0)
        assert_allclose(other.mean_, units * model.mean_, rtol=1e-6, atol=1e-9)
        expected = np.outer(units, units) * model.covariance_
        assert_allclose(other.covariance_, expected, rtol=1e-6, atol=1e-9)
        return
    assert_allclose(s * other.coef_, model.coef_, rtol=1e-6, atol=1e-9)
    assert_allclose(other.intercept_, model.intercept_, rtol=1e-6, atol=1e-9)
    if hasattr(model, "path_") and s is not COLUMNS:
        assert other.radius_ == pytest.approx(model.radius_ / s)
        assert_allclose(s * other.path_.radius, model.path_.radius)
        assert_allclose(s * other.path_.coef, model.path_.coef, rtol=1e-6)


OF_NUMBERS = [
    case
    for case in CASES
    if not is_classifier(case.model) and case.targets in (np.asarray, two_columns)
]
of_numbers = pytest.mark.parametrize("case", OF_NUMBERS, ids=str)


@pytest.mark.parametrize("s", [8.0, 2.0**-10])
@of_numbers
def test_units_of_targets_do_not_matter(case, s):
    X, y = data()
    given = case.model.get_params(deep=False)
    changed = {"target_bound": s}
    if isinstance(given.get("radius"), float):
        changed["radius"] = given["radius"] * s
    if isinstance(case.model, PrivateElasticNet):
        l1, l2 = given["alpha"] * np.array([given["l1_ratio"] * s, 1.0 - given["l1_ratio"]])
        changed |= {"alpha": l1 + l2, "l1_ratio": l1 / (l1 + l2)}
    model = fitted(case, X, y, target_bound=1.0)
    other = fitted(case, X, s * y, **changed)
    if isinstance(model, PrivateMoments):
        units = np.append(np.ones(D), s)
        assert_allclose(other.mean_, units * model.mean_, rtol=1e-6, atol=1e-9)
        return
    for one, two in zip(released(other), released(model), strict=True):
        assert_allclose(one, s * two, rtol=1e-6, atol=1e-9)


@of_numbers
def test_targets_are_clipped(case):
    X, y = data()
    y[::5] *= 1e300
    model = fitted(case, X, y, target_bound=0.3)
    same(model, fitted(case, X, np.clip(y, -0.3, 0.3), target_bound=0.3))


@each_case
def test_constant_columns_and_few_records_are_no_trouble(case):
    """A fit, or a sentence that says how many records are needed."""
    X, y = data()
    radius = case.model.get_params().get("radius", "auto")
    unknown = {"feature_bound": None} if radius == "auto" else {}
    for value, bounds in itertools.product((0.0, 1e-320, 3.0), ({}, unknown)):
        model = fitted(case, np.full_like(X, value), y, **bounds)
        assert all(np.isfinite(one).all() for one in released(model))
    classes = {"classes": np.unique(case.targets(y))} if case.targets is not np.asarray else {}
    for n in (1, 2, 3, 30):
        try:
            model = fitted(case, X[:n], y[:n], epsilon=1.0, **classes)
        except ValueError as error:
            assert re.search(rf"\b{n} record|\bn={n}\b|has no member", str(error))  # noqa: PT017
        else:
            assert all(np.isfinite(one).all() for one in released(model))


CLASSIFIERS = [case for case in CASES if is_classifier(case.model)]


@pytest.mark.parametrize("case", CLASSIFIERS, ids=str)
def test_predictions_of_classes_follow_from_scores(case):
    X, y = data(1500)
    known = np.unique(case.targets(y))
    named = case._replace(targets=lambda y: np.array(["b", "c", "a"])[case.targets(y)])
    names = np.unique(named.targets(y))
    model = fitted(named, X, y, classes=names[::-1].tolist())
    for one, two in zip(released(model), released(fitted(named, X, y)), strict=True):
        assert_array_equal(one, two)
    K, rows = len(known), len(known) if len(known) > 2 else 1
    assert list(model.classes_) == names.tolist()
    assert (model.coef_.shape, model.intercept_.shape) == ((rows, D), (rows,))
    scores = model.decision_function(X)
    read = np.clip(X, *model.feature_range_)
    assert_allclose(scores.reshape(-1, rows), read @ model.coef_.T + model.intercept_, atol=1e-9)
    of_classes = np.column_stack([-scores, scores]) if K == 2 else scores
    assert_array_equal(model.predict(X), model.classes_[of_classes.argmax(axis=1)])
    assert model.score(X, named.targets(y)) == np.mean(model.predict(X) == named.targets(y))
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(X)
        assert_array_equal(p.argmax(axis=1), of_classes.argmax(axis=1))
        of_logs = getattr(model, "predict_log_proba", lambda X: np.log(model.predict_proba(X)))
        assert_allclose(np.log(p), of_logs(X), atol=1e-9)
        for rows in (X, 1e6 * X):
            with np.errstate(all="raise", under="ignore"):
                p = model.predict_proba(rows)
                assert np.isfinite(of_logs(rows)).all()
            assert_allclose(p.sum(axis=1), 1.0)
            assert (p >= 0.0).all()


@pytest.mark.parametrize("case", [c for c in CASES if hasattr(c.model, "predict")], ids=str)
def test_predictions_are_those_of_clipped_records_in_the_range_of_targets(case):
    model = usual(case)
    scores = getattr(model, "decision_function", model.predict)
    far = 1e3 * np.where(np.random.default_rng(1).random((20, D)) < 0.5, -1.0, 1.0)
    found, (low, high) = scores(far), model.feature_range_
    assert (low >= -3.0).all()
    assert (high <= 3.0).all()
    assert_allclose(found, scores(np.clip(far, low, high)), rtol=1e-9, atol=1e-9)
    if getattr(model, "target_range_", None) is not None:
        low, high = model.target_range_
        assert (found >= np.min(low)).all()
        assert (found <= np.max(high)).all()


IN_BALLS = {  # the order of the norm
    **dict.fromkeys([PrivateLasso, PrivateLogisticL1], 1),
    **dict.fromkeys([PrivateMinimaxClassifier, PrivateMinimaxRegressor], 1),
    **dict.fromkeys([PrivateLinearClassifier, PrivateLinearRegressor], 2),
    **dict.fromkeys([PrivateMonotoneGLM, PrivateGroupDRO], 2),
}


OTHER_SOLVERS = "frank-wolfe-laplace", "noisy-frank-wolfe", "anytime-mirror-descent"
BALLS = [
    *(case for case in CASES if type(case.model) in IN_BALLS),
    *(Case(PrivateLasso(radius=2.0, solver=solver)) for solver in OTHER_SOLVERS),
    *(
        Case(PrivateLogisticL1(radius=2.0, solver=solver), targets)
        for solver in OTHER_SOLVERS
        for targets in (labels, three_classes)
    ),
]


@pytest.mark.parametrize("case", BALLS, ids=str)
def test_coefficients_are_in_a_given_ball(case):
    """Its radius is in units of the largest bound."""
    X, y = data()
    bounds = np.array([3.0, 1.0, 0.5, 6.0])
    model = fitted(case, X, y, feature_bound=bounds, radius=0.05)
    inside = model.coef_ * bounds / 6.0
    if not isinstance(model, PrivateLasso):  # which has a ball for each target
        inside = inside.reshape(1, -1)
    norm = np.linalg.norm(np.atleast_2d(inside), IN_BALLS[type(model)], axis=1).max()
    assert norm <= 0.05 * (1.0 + 1e-9)
    assert norm > 0.0 or case.model.get_params()["solver"] in ("frank-wolfe", *OTHER_SOLVERS)
    assert getattr(model, "radius_", 0.05) == pytest.approx(0.05)


@each_case
def test_without_an_intercept_it_is_zero(case):
    if "fit_intercept" not in case.model.get_params():
        pytest.skip("it has no intercept that could be left out")
    X, y = data()
    model = fitted(case, X, y, fit_intercept=False)
    assert not np.any(model.intercept_)
    if hasattr(model, "path_"):
        assert not np.any(model.path_.intercept)


# ------------------------------------------------------------------------------ what fits are for

# A single step, three steps, and tasks that one prediction cannot serve. Of the outcomes even a
# model without noise has a concordance of .55; tests/test_survival.py has others.
IDLE = "OneGradient", "mirror-prox 3", "columns", "outcomes"
LEARNING = [c for c in CASES if hasattr(c.model, "predict") and not any(w in str(c) for w in IDLE)]
PREDICTING = [case for case in MODELS.values() if case in LEARNING]


def gain(model, X, y):
    """R^2, or how much more accurate predictions are than the most frequent label."""
    frequent = np.unique(y, return_counts=True)[1].max() / len(y)
    return model.score(X, y) - (frequent if hasattr(model, "classes_") else 0.0)


@pytest.mark.parametrize("case", LEARNING, ids=str)
def test_many_records_are_learnt(case):
    """Deviations of gains are .03 at most."""
    X, y = data(4000)
    model = fitted(case, X[:2000], y[:2000], epsilon=8.0)
    found = gain(model, X[2000:], case.targets(y)[2000:])
    assert found > (0.3 if hasattr(model, "classes_") else 0.6)


@pytest.mark.parametrize("case", PREDICTING, ids=lambda c: type(c.model).__name__)
def test_of_noise_little_more_than_a_constant_is_learnt(case):
    gains = []
    for seed in range(5):
        X, _ = data(4000, seed)
        y = np.random.default_rng(seed).normal(size=4000) / 6
        model = fitted(case, X[:500], y[:500], epsilon=0.5, random_state=seed)
        gains.append(gain(model, X[500:], case.targets(y)[500:]))
    assert np.median(gains) > -0.2  # medians are above -.1
