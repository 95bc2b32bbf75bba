"""Bad input for every public estimator: refused before the charge, in words that show no value."""

import inspect
import io

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import each
from scipy import sparse

import skdpsco
from skdpsco import Ledger, PrivateGridSearchCV, PrivateLasso, PrivateMoments, Schema
from skdpsco.base.private_estimator import fitted_names
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateStandardScaler,
)

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")

N = 12
SECRET, NUMBER = "secret7321", 7321.625
X = np.random.default_rng(0).uniform(-1.0, 1.0, (N, 3))
Y = np.arange(N) % 2
GROUPS = np.array(["f", "m"] * (N // 2))
MODELS = [
    getattr(skdpsco, name)
    for name in skdpsco.__all__
    if name.startswith("Private") and hasattr(getattr(skdpsco, name), "fit")
    if name != "PrivateSynthesizer"  # it takes values of any kind, and has no targets
]
TRANSFORMERS = [PrivateFeatureSelector, PrivateQuantileClipper, PrivateStandardScaler]
WITHOUT_TARGETS = (PrivateQuantileClipper, PrivateStandardScaler)


def with_entry(value, dtype=None):
    """X with one other entry, and the number that no message may show."""
    changed = np.array(X, dtype=dtype)
    changed[2, 1] = NUMBER if dtype is None else value
    changed[3, 2] = value
    return changed


def frame(value, library=pd):
    return library.DataFrame({"a": X[:, 0], "b": [*X[:-1, 1].tolist(), value]})


class Broken:
    """An array-like that fails when it is read."""

    shape = (N, 3)

    def __len__(self):
        return N

    def __array__(self, dtype=None, copy=None):
        raise ValueError(f"{SECRET} is in the message")


BAD_X = {
    "NaN": with_entry(np.nan),
    "infinity": with_entry(np.inf),
    "minus infinity": with_entry(-np.inf),
    "float32 NaN": with_entry(np.nan).astype(np.float32),
    "float16 infinity": with_entry(np.inf).astype(np.float16),
    "text": with_entry(SECRET, object),
    "bytes": with_entry(SECRET.encode(), object),
    "None": with_entry(None, object),
    "a list as an entry": with_entry([NUMBER], object),
    "a dict as an entry": with_entry({SECRET: NUMBER}, object),
    "an object as an entry": with_entry(object(), object),
    "complex": X * 1j,
    "complex entries": with_entry(1j * NUMBER, object),
    "huge integers": with_entry(10**400, object),
    "dates": np.full((N, 3), np.datetime64("2020-01-01")),
    "durations": np.full((N, 3), np.timedelta64(5, "D")),
    "strings": np.full((N, 3), SECRET),
    "byte strings": np.full((N, 3), SECRET.encode()),
    "fields": np.array([(1.0, NUMBER)] * N, "f8, f8"),
    "a number": NUMBER,
    "a word": SECRET,
    "nothing": None,
    "a set": {1.0, NUMBER},
    "a dict": {"a": [NUMBER] * N},
    "a class": np.ndarray,
    "a function": len,
    "a file": io.StringIO(SECRET),
    "one dimension": X[:, 0],
    "three dimensions": X[:, :, None],
    "zero dimensions": np.array(NUMBER),
    "no records": X[:0],
    "no features": X[:, :0],
    "ragged": [[1.0, 2.0], [NUMBER]] * (N // 2),
    "fewer records": X[:-1],
    "more records": np.vstack([X, X[:1]]),
    "a frame with text": frame(SECRET),
    "a frame with a date": frame(pd.Timestamp("2020-01-01")),
    "a frame with None": frame(None),
    "a frame with NaN": frame(np.nan),
    "a frame with infinity": frame(np.inf),
    "a frame with pandas.NA": frame(pd.NA),
    "a frame of categories": pd.DataFrame({"a": pd.Categorical([SECRET, "b"] * (N // 2))}),
    "a polars frame with text": pl.DataFrame({"a": [SECRET] * N}),
    "a polars frame with null": frame(None, pl),
    "a polars frame of dates": pl.DataFrame({"a": pl.Series([0] * N).cast(pl.Date)}),
    "a series": pd.Series(X[:, 0]),
    "a sparse NaN": sparse.csr_array(with_entry(np.nan)),
    "a sparse infinity": sparse.coo_array(with_entry(np.inf)),
    "sparse complex": sparse.csc_array(X * 1j),
    "sparse objects": sparse.coo_array(X).tocsr().astype(complex),
    "an array that fails": Broken(),
}
BAD_Y = {
    "NaN": np.where(Y == 1, np.nan, 0.0),
    "infinity": np.where(Y == 1, np.inf, 0.0),
    "None": None,
    "an entry None": np.array([None, *[1.0] * (N - 1)], dtype=object),
    "complex": Y * 1j,
    "two columns": np.column_stack([Y, Y, Y])[:, :, None],
    "fewer": Y[:-1],
    "a number": NUMBER,
    "a word": SECRET,
    "a dict": {SECRET: NUMBER},
    "a list as an entry": [[NUMBER], *Y[1:]],
    "nothing": Y[:0],
}


def estimator_of(Estimator, ledger):
    """An instance that would fit X and Y."""
    if Estimator is PrivateGridSearchCV:
        return Estimator(PrivateLasso(), {"radius": [1.0]}, strategy="composition", ledger=ledger)
    return Estimator(ledger=ledger)


def refuses(Estimator, records, targets):
    ledger = Ledger(epsilon=100.0, delta=0.1)
    model = estimator_of(Estimator, ledger)
    extra = {"sensitive_features": GROUPS} if "GroupDRO" in Estimator.__name__ else {}
    with pytest.raises((ValueError, TypeError)) as caught:
        model.fit(records, targets, **extra)
    assert len(ledger.charges()) == 0
    assert fitted_names(model) == []
    error = caught.value
    assert len(str(error)) > 10
    while error is not None:
        assert SECRET not in str(error) + str(error.args)
        assert str(NUMBER) not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("Estimator", [*MODELS, *TRANSFORMERS], ids=lambda kind: kind.__name__)
@each("case", BAD_X)
def test_records(Estimator, case):
    if case in ("fewer records", "more records") and Estimator in WITHOUT_TARGETS:
        return  # there are no targets that could be fewer
    refuses(Estimator, BAD_X[case], Y)


@pytest.mark.parametrize("Estimator", [*MODELS, PrivateFeatureSelector], ids=lambda k: k.__name__)
@each("case", BAD_Y)
def test_targets(Estimator, case):
    if Estimator is PrivateMoments and BAD_Y[case] is None:
        return  # moments need no targets
    refuses(Estimator, X, BAD_Y[case])


@each("Estimator", MODELS)
def test_parameters_are_checked(Estimator):
    """Before the charge, and for every value: none is without a constraint."""
    free = {"scoring"} if Estimator is PrivateGridSearchCV else set()  # which has rules of its own
    assert set(inspect.signature(Estimator).parameters) - free <= set(
        Estimator._parameter_constraints
    )


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
