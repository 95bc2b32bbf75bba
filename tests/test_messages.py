"""Messages about an X that is not a matrix of numbers: they do not show its values."""

import datetime
import traceback
from functools import partial

import numpy as np
import pandas as pd
import pytest

from skdpsco import PrivateLasso, PrivateLogisticL1
from skdpsco.preprocessing import CategoricalDomainEncoder

BOTH = pytest.mark.parametrize("Estimator", [PrivateLasso, PrivateLogisticL1])
N, D = 40, 4
X = np.random.default_rng(0).uniform(-1, 1, (N, D))
Y = (X[:, 0] > 0).astype(int)


def predictions(model):
    names = ["predict", "decision_function", "predict_proba"]
    return [getattr(model, name) for name in names if hasattr(model, name)]


@BOTH
@pytest.mark.parametrize("case", ["fields", "dict", "list of dicts", "one dimension", "word"])
def test_messages_do_not_show_values(Estimator, case):
    value = 0.125 * 0.98304
    bad = {
        "fields": np.full(N, value, dtype="f8, f8, f8, f8"),
        "dict": {"a": [value] * N},
        "list of dicts": [{"a": value}] * N,
        "one dimension": [value] * N,
        "word": [[str(value) + "x"] * D] * N,
    }[case]
    assert "0.12288" in str(bad)
    model = Estimator().fit(X, Y)
    calls = [
        lambda: Estimator().fit(bad, Y),
        *(partial(f, bad) for f in predictions(model)),
    ]
    if case != "word":
        calls.append(lambda: CategoricalDomainEncoder(categories=[["u"]] * D).fit(bad))
    for call in calls:
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        told = "".join(traceback.format_exception(caught.value))  # with its causes
        assert "12288" not in told


@BOTH
def test_dictionaries_of_arrow(Estimator):
    pa = pytest.importorskip("pyarrow")

    def frame(kind, value):
        values = pa.array([value, None] * (N // 2), kind).dictionary_encode()
        column = pd.array(values, dtype=pd.ArrowDtype(values.type))
        return pd.DataFrame({"a": X[:, 0], "b": column})

    model = Estimator().fit(pd.DataFrame(X[:, :2], columns=["a", "b"]), Y)
    for bad, match in (
        (frame(pa.string(), "u"), "X must be numeric, but contains text"),
        (frame(pa.timestamp("ns"), datetime.datetime(2020, 1, 1)), "Turn dates into numbers first"),
        (frame(pa.date32(), datetime.date(2020, 1, 1)), "Turn dates into numbers first"),
        (frame(pa.float64(), 0.5), "X must be an array, .*, of numbers: .*'NAType'"),
    ):
        for call in (lambda X: Estimator().fit(X, Y), *predictions(model)):
            with pytest.raises((ValueError, TypeError), match=match):
                call(bad)
