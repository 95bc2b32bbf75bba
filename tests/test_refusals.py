"""Bad input for every public estimator: refused before the charge, in words that show no value."""

import re
from inspect import signature

import numpy as np
import pytest
from bad_inputs import (
    BAD_GROUPS,
    BAD_UNITS,
    BAD_WEIGHTS,
    BAD_X,
    BAD_Y,
    NUMBER,
    OTHER_LENGTHS,
    SECRET,
    N,
    X,
    Y,
    frame,
    sources,
)
from cases import each
from scipy import sparse

import skdpsco
from skdpsco import (
    Ledger,
    PrivateGridSearchCV,
    PrivateGroupDRO,
    PrivateLasso,
    PrivateMoments,
    Schema,
    draw_records,
)
from skdpsco._validation import check_X_y
from skdpsco.base.private_estimator import fitted_names
from skdpsco.data.design import as_design
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateStandardScaler,
)

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")

GROUPS = np.array(["f", "m"] * (N // 2))
MODELS = [
    getattr(skdpsco, name)
    for name in skdpsco.__all__
    if name.startswith("Private") and hasattr(getattr(skdpsco, name), "fit")
    if name != "PrivateSynthesizer"  # it takes values of any kind, and has no targets
]
WEIGHTED = [model for model in MODELS if "max_weight" in signature(model).parameters]
TRANSFORMERS = [PrivateFeatureSelector, PrivateQuantileClipper, PrivateStandardScaler]
WITHOUT_TARGETS = (PrivateQuantileClipper, PrivateStandardScaler)


def each_of(estimators):
    return pytest.mark.parametrize("Estimator", estimators, ids=lambda kind: kind.__name__)


def estimator_of(Estimator, **params):
    """An instance that would fit X and Y."""
    if Estimator is PrivateGridSearchCV:
        return Estimator(PrivateLasso(), {"radius": [1.0]}, strategy="composition", **params)
    return Estimator(**params)


def refuses(call, names):
    """The call raises an error that names what is wrong, and shows no value of it."""
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    error = caught.value
    assert re.search(rf"\b({names})\b", str(error)), str(error)
    while error is not None:
        assert SECRET not in str(error) + str(error.args)
        assert str(NUMBER) not in str(error)
        error = error.__cause__ or error.__context__


def fit_refuses(Estimator, records, targets, names="X|y|column", **fit_params):
    ledger = Ledger(epsilon=100.0, delta=0.1)
    params = {"max_weight": 1.0} if "sample_weight" in fit_params else {}
    model = estimator_of(Estimator, ledger=ledger, **params)
    if Estimator is PrivateGroupDRO:
        fit_params = {"sensitive_features": GROUPS, **fit_params}
    refuses(lambda: model.fit(records, targets, **fit_params), names)
    assert len(ledger.charges()) == 0
    assert fitted_names(model) == []


def test_there_are_as_many_kinds_as_are_said():
    n_sources = len(sources(None))
    kinds = len(BAD_X) + len(BAD_Y) + len(BAD_WEIGHTS) + len(BAD_GROUPS) + len(BAD_UNITS)
    assert kinds + n_sources >= 160


@each_of([*MODELS, *TRANSFORMERS])
@each("case", BAD_X)
def test_records(Estimator, case):
    if case in OTHER_LENGTHS and Estimator in WITHOUT_TARGETS:
        return  # there are no targets that could be fewer
    fit_refuses(Estimator, BAD_X[case], Y)


@each_of([*MODELS, PrivateFeatureSelector])
@each("case", BAD_Y)
def test_targets(Estimator, case):
    if Estimator is PrivateMoments and BAD_Y[case] is None:
        return  # moments need no targets
    fit_refuses(Estimator, X, BAD_Y[case])


@each_of(WEIGHTED)
@each("case", BAD_WEIGHTS)
def test_weights(Estimator, case):
    fit_refuses(Estimator, X, Y, "sample_weight", sample_weight=BAD_WEIGHTS[case])


@each("case", BAD_GROUPS)
def test_groups(case):
    groups = BAD_GROUPS[case]
    fit_refuses(PrivateGroupDRO, X, Y, "sensitive_features", sensitive_features=groups)


@each("case", BAD_UNITS)
def test_units(case):
    refuses(lambda: draw_records(BAD_UNITS[case], 2), "units")


@each_of([PrivateLasso, PrivateMoments, PrivateStandardScaler])
def test_blocks(Estimator, tmp_path):
    for case, make in sources(tmp_path).items():
        if "targets" in case and Estimator in WITHOUT_TARGETS:
            continue
        ledger = Ledger(epsilon=100.0, delta=0.1)
        model = estimator_of(Estimator, ledger=ledger)
        with pytest.raises((ValueError, TypeError)) as caught:
            model.fit(make())
        assert len(ledger.charges()) == 0, case
        assert fitted_names(model) == [], case
        own = case == "an iterator that fails half-way"  # the error is that of the iterator
        assert own or re.search("X|y|block", str(caught.value), re.I), str(caught.value)
        assert own or SECRET not in str(caught.value)


@each("Estimator", MODELS)
def test_parameters_are_checked(Estimator):
    """Before the charge, and for every value: none is without a constraint."""
    free = {"scoring"} if Estimator is PrivateGridSearchCV else set()  # which has rules of its own
    assert set(signature(Estimator).parameters) - free <= set(Estimator._parameter_constraints)


def test_messages_of_the_first_hour(tmp_path):
    """What a mistake is told, that many make when they begin."""
    with pytest.raises(ValueError, match=r"'ledger' .* must be None or a Ledger. Got 'study.db'"):
        PrivateLasso(ledger="study.db").fit(X, Y)
    with pytest.raises(OSError, match="/none' is no such folder"):
        Ledger(1.0, 1e-6, path=tmp_path / "none" / "study.db")
    with pytest.raises(OSError, match="is a folder"):
        Ledger(1.0, 1e-6, path=tmp_path)
    with pytest.raises(TypeError, match="declares each column by its name, got DataFrame"):
        Schema(frame(0.0))
    with pytest.raises(TypeError, match=r"has no parameter 'cv'. .* `validation_fraction`"):
        PrivateGridSearchCV(PrivateLasso(), {"radius": [1.0]}, cv=5)
    with pytest.raises(ValueError, match=r"no others; it lacks \['c'\]\.$"):
        Schema({name: {"bounds": [0, 1]} for name in "abc"}).validate(frame(0.0))


# ------------------------------------------------------------------------------ odd, but legal


def unsorted(matrix):
    matrix = matrix.copy()
    for i in range(N):
        row = slice(matrix.indptr[i], matrix.indptr[i + 1])
        matrix.indices[row] = matrix.indices[row][::-1]
        matrix.data[row] = matrix.data[row][::-1]
    matrix.has_sorted_indices = False
    return matrix


def halved(matrix):
    """Every entry as two halves."""
    twice = [np.repeat(values, 2) for values in (matrix.data / 2, matrix.indices)]
    return sparse.csr_array((*twice, 2 * matrix.indptr), shape=matrix.shape)


def with_wide_indices(matrix):
    wide = [indices.astype(np.int64) for indices in (matrix.indices, matrix.indptr)]
    found = sparse.csr_array(matrix.shape)
    found.data, found.indices, found.indptr = matrix.data, *wide
    return found


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


MEMORY = {
    "by columns": np.asfortranarray,
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed twice": lambda X: X[::-1].copy()[::-1],
    "big-endian": lambda X: X.astype(">f8"),
    "read-only": read_only,
    "not aligned": lambda X: np.frombuffer(b"0" + X.tobytes(), "f8", offset=1).reshape(X.shape),
    "lists": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
}
LAYOUTS = {
    "unsorted": unsorted,
    "halved": halved,
    "wide indices": with_wide_indices,
    "by columns": sparse.csc_matrix,
    "by coordinates": lambda X: X.tocoo(),
    "objects": lambda X: sparse.csr_array((X.data.astype(object), X.indices, X.indptr)),
}


def designs_of(odd):
    """What a solver sees of records: by a check of this memory, and of tidy memory."""
    tidy = sparse.csr_matrix(X) if sparse.issparse(odd) else X
    checked = (check_X_y(PrivateLasso(), one, Y, y_numeric=True)[0] for one in (odd, tidy))
    return [as_design(one, np.ones(3), True) for one in checked]


@each("case", MEMORY)
def test_odd_memory_is_read_as_tidy_memory(case):
    odd, tidy = designs_of(MEMORY[case](X))
    np.testing.assert_array_equal(odd.values, tidy.values)
    assert odd.values.flags.c_contiguous
    assert odd.values.dtype == np.float64


@each("case", LAYOUTS)
def test_odd_matrices_are_read_as_tidy_ones(case):
    odd, tidy = designs_of(LAYOUTS[case](sparse.csr_matrix(X)))
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(odd, part), getattr(tidy, part))
