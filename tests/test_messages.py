"""Messages about an X that is no matrix of numbers: they do not show its values."""

import traceback
from functools import partial

import numpy as np
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
