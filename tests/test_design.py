"""Laws of the design: dense and sparse data are the same numbers, and never leave their bounds."""

import numpy as np
import pytest
from cases import each
from scipy import sparse

from skdpsco._kernels import njit
from skdpsco._validation import check_feature_bound
from skdpsco.data.design import as_design, clipped, columns_of
from skdpsco.data.products import correlate, predict_all
from skdpsco.data.record_sums import BlockDesign, in_columns
from skdpsco.scaling.conditioning import Conditioning

FORMATS = ["dense", "int32", "int64"]
SHAPES = [(1, 1), (1, 4), (7, 1), (12, 6)]

formats = pytest.mark.parametrize("form", FORMATS)
intercepts = pytest.mark.parametrize("intercept", [False, True])


def csr(X, index=np.int32):
    """CSR matrix with indices of the given type, which SciPy would choose itself."""
    X = sparse.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def design(form, X, bounds, intercept):
    return as_design(X if form == "dense" else csr(X, np.dtype(form)), bounds, intercept)


def data(n, d, seed=0):
    """Entries beyond their bounds, huge ones, zeros, an empty row and an empty column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(scale=2.0, size=(n, d)) * (rng.random((n, d)) < 0.6)
    if n * d > 20:
        X[0, 1], X[1, 0], X[3], X[:, 2] = 1e300, -1e300, 0.0, 0.0
    return X


def features(X, bounds, intercept):
    """What kernels should see."""
    F = np.clip(X, -bounds, bounds) / bounds
    return np.hstack([F, np.ones((len(X), 1))]) if intercept else F


@njit
def compiled(X, R, out):
    correlate(X, R, out)


@each("run", [compiled, correlate])
@each("K", [1, 3])
@each("bound", [0.5, "array"])
@each("shape", SHAPES)
@intercepts
@formats
def test_kernels_agree_with_numpy(form, intercept, shape, bound, K, run):
    n, d = shape
    rng = np.random.default_rng(1)
    X = data(n, d)
    if bound == "array":
        bound = rng.uniform(0.1, 5.0, d)
    bounds = check_feature_bound(bound, d, None)
    F = features(X, bounds, intercept)
    D = F.shape[1]
    R, W = rng.normal(size=(n, K)), rng.normal(size=(K, D))
    wrapped = design(form, X, bounds, intercept)
    close = {"rtol": 1e-13, "atol": 1e-13}
    for _ in range(D):
        start = int(rng.integers(n))
        columns = np.sort(rng.permutation(D)[: rng.integers(1, D + 1)])
        stop = int(rng.integers(start + 1, n + 5))
        G, Z = np.full(K * D, np.nan), np.full((n, K), np.nan)
        run(wrapped, R, G)
        predict_all(wrapped, W.ravel(), Z)
        np.testing.assert_allclose(G.reshape(K, D), R.T @ F, **close)
        np.testing.assert_allclose(Z, F @ W.T, **close)
        A = columns_of(wrapped, start, stop, columns)
        np.testing.assert_allclose(A, F[start:stop, columns], rtol=1e-15)


def test_entries_are_clipped():
    largest = np.finfo(float).max
    for bound in (1e-100, 0.1, 1.0, 1 / 3, 1e100):
        for x in (0.0, bound, np.nextafter(bound, np.inf), 2 * bound, 1e300, largest, 5e-324):
            assert clipped(x, bound) == min(x / bound if x < bound else 1.0, 1.0)
            assert clipped(-x, bound) == -clipped(x, bound)
            assert abs(clipped(x, bound)) <= 1.0


@intercepts
@formats
def test_features_never_exceed_one(form, intercept):
    # Every primitive alone, as each of them clips by itself. The sums of one record are exact.
    largest = np.finfo(float).max
    values = np.array([1e300, -1e300, largest, -largest, 3.0, -1.0000001, 1.0, 0.25])
    bounds = np.array([1e-100, 1e-3, 0.1, 1 / 3, 1.0, 1.0, 1.0, 1e100])
    d = len(values)
    D = d + intercept
    X = design(form, values[None], bounds, intercept)
    expected = features(values[None], bounds, intercept)[0]
    assert (np.abs(expected) <= 1.0).all()
    assert np.abs(expected[:6]).tolist() == [1.0] * 6
    np.testing.assert_array_equal(columns_of(X, 0, 1, np.arange(D))[0], expected)
    for j in range(D):
        G, Z = np.empty(D), np.empty((1, 1))
        compiled(X, np.ones((1, 1)), G)
        predict_all(X, np.eye(D)[j], Z)
        np.testing.assert_array_equal(G, expected)
        assert Z[0, 0] == expected[j]


@intercepts
@formats
def test_one_record_changes_correlations_by_two_at_most(form, intercept):
    rng = np.random.default_rng(2)
    n, d, K = 30, 5, 2
    bounds = rng.uniform(0.1, 3.0, d)
    D = d + intercept
    largest = 0.0
    for trial in range(200):
        X, R = data(n, d, seed=trial), rng.uniform(-1.0, 1.0, (n, K))
        other, other_R = X.copy(), R.copy()
        i = trial % n
        other[i] = rng.choice([-1e300, 1e300, 0.0, 1.0], d)
        other_R[i] = rng.choice([-1.0, 1.0, 0.5], K)
        if trial == 0:  # the worst case is attained
            X[i], other[i], R[i], other_R[i] = 1e300, 1e300, 1.0, -1.0
        G, other_G = np.empty(K * D), np.empty(K * D)
        for data_set, residuals, out in ((X, R, G), (other, other_R, other_G)):
            compiled(design(form, data_set, bounds, intercept), residuals, out)
        largest = max(largest, np.abs(G - other_G).max())
    assert largest == pytest.approx(2.0, rel=1e-13)


@formats
def test_a_nan_stays_in_its_record(form):
    # Validation refuses NaN; if it did not, a sum must still not become NaN for one record.
    X = data(12, 4)
    X[3, 1] = np.nan
    wrapped = design(form, X, np.ones(4), False)
    G = np.empty(4)
    compiled(wrapped, np.ones((12, 1)), G)
    others = features(np.delete(X, 3, axis=0), np.ones(4), False)
    assert (np.abs(G - others.sum(axis=0)) <= 1.0 + 1e-12).all()
    assert (np.abs(columns_of(wrapped, 0, 12, np.arange(4))) <= 1.0).all()


@pytest.mark.parametrize("checked", [False, True])
def test_every_design_is_read_only(checked):
    """So that a kernel is compiled once for a layout; the user's own arrays stay as they are."""
    X, bounds = data(12, 6), np.ones(6)
    conditioning = Conditioning(np.zeros(6), bounds)
    for records, fields in ((X, ["values"]), (csr(X), ["data", "indices", "indptr"])):
        wrapped = as_design(records, bounds, True, checked)
        for seen in (wrapped, conditioning.apply(wrapped)):
            assert not any(getattr(seen, field).flags.writeable for field in fields)
    assert X.flags.writeable


def test_what_arrays_hold_beyond_the_last_row_is_not_seen():
    X = sparse.csr_matrix(np.eye(3))
    X.indptr = np.array([0, 1, 2, 2], dtype=X.indptr.dtype)
    X.indices[2] = 99  # a column that does not exist
    design = as_design(X, np.ones(3), False)
    assert design.data.tolist() == [1.0, 1.0]
    assert design.indices.tolist() == [0, 1]


@intercepts
@formats
def test_some_columns_are_those_that_kernels_see(form, intercept):
    """For arrays, blocks, and rows minus a centre."""
    n, d = 12, 6
    X, bounds, y = data(n, d), np.linspace(0.5, 3.0, d), np.zeros(n)
    centring = Conditioning(np.linspace(-0.2, 0.3, d), np.linspace(0.5, 1.0, d))
    columns = np.array([1, 3, d]) if intercept else np.array([0, 5])
    wrapped = design(form, X, bounds, intercept)
    layouts = [wrapped] if form != "dense" and not intercept else [wrapped, centring.apply(wrapped)]
    for given in layouts:
        some = in_columns(given, y, columns)
        seen = columns_of(some, 0, n, np.arange(len(columns)))
        np.testing.assert_array_equal(seen, columns_of(given, 0, n, columns))
        assert np.abs(seen).max() <= 1.0
        if intercept:
            ones = in_columns(given, y, np.array([d]))
            assert columns_of(ones, 0, n, np.arange(1)).tolist() == [[1.0]] * n
    table = X if form == "dense" else csr(X)
    blocks = BlockDesign([(table[:5], y[:5]), (table[5:], y[5:])], bounds, intercept, None, False)
    rows = [columns_of(some, 0, len(t), np.arange(len(columns)))
            for some, t in in_columns(blocks, None, columns).each()]  # fmt: skip
    np.testing.assert_array_equal(np.vstack(rows), columns_of(wrapped, 0, n, columns))
