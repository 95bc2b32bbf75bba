"""A fit that is interrupted at any line: what is kept, and what is charged."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import skdpsco
from skdpsco import Ledger, PrivateLinearDiscriminantAnalysis, PrivateMoments, PrivateRidge
from skdpsco.preprocessing import PrivateStandardScaler

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (400, 3))
Y = X @ [1.0, -0.5, 0.0]
FITS = {
    "moments": lambda: (PrivateMoments(target_bound=1.0, relation="add-or-remove-one"), Y, {}),
    "classes": lambda: (PrivateLinearDiscriminantAnalysis(classes=[False, True]), Y > 0, {}),
    "several": lambda: (PrivateRidge(), np.column_stack([Y, -Y]), {}),
    "weights": lambda: (
        PrivateRidge(target_bound=1.0, max_weight=2.0, solver="gradient-descent", n_iter=1),
        Y,
        {"sample_weight": np.ones(400), "init": PrivateRidge().fit(X, Y)},
    ),
}


def interrupt():
    raise KeyboardInterrupt


def interrupted(call, place, by=interrupt):
    """Call, interrupt at the line of this number that is reached, and return how many there were.

    Signals would interrupt too, but not at the same lines every time.
    """
    lines = 0

    def count(frame, event, arg):
        nonlocal lines
        lines += event == "line"
        if event == "line" and lines == place:
            by()
        return count

    def ours(frame, event, arg):
        return count if frame.f_globals.get("__name__", "").startswith("skdpsco.") else None

    before = sys.gettrace()
    sys.settrace(ours)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("name", FITS)
def test_an_interrupted_fit_has_no_result_and_its_charge_is_kept(name):
    model, y, more = FITS[name]()
    model.set_params(ledger=Ledger(50.0, 1e-5)).fit(X, y, **more)
    total = interrupted(lambda: model.fit(X, y, **more), 0)
    state = list(warnings.filters), skdpsco._random._advice.get()
    n_kept = 0
    for place in np.linspace(1, total, 25).astype(int):
        ledger = Ledger(50.0, 1e-5)
        model = type(model)(**{**model.get_params(deep=False), "ledger": ledger})
        with np.errstate():  # whose own end may be what is interrupted
            interrupted(lambda fit=model.fit: fit(X, y, **more), place)
        fitted = hasattr(model, "privacy_")
        assert fitted or not [name for name in vars(model) if name.endswith("_")]
        assert len(ledger.charges()) >= fitted
        n_kept += len(ledger.charges())
        assert (list(warnings.filters), skdpsco._random._advice.get()) == state
    assert 0 < n_kept < 25  # before the charge, and after it


def test_results_are_adopted_at_once():
    """An interrupt leaves earlier results, and a fit in another thread does not mix with them."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    earlier, first, second = (
        vars(PrivateStandardScaler(epsilon=5.0).fit(records)) for records in (X, frame, X[:, :2])
    )

    def adopting(place, by):
        """What a scaler holds if this happens while it adopts the first results, and the lines."""
        model, draft = (PrivateStandardScaler(epsilon=5.0) for _ in range(2))
        vars(model).update(earlier)
        vars(draft).update(first)
        lines = interrupted(lambda: model._accept(draft), place, lambda: by(model))
        return vars(model), lines

    def adopt_others(model):
        draft = PrivateStandardScaler(epsilon=5.0)
        vars(draft).update(second)
        model._accept(draft)

    _, total = adopting(0, interrupt)
    for place in range(1, total + 1):
        state, _ = adopting(place, lambda model: interrupt())
        assert any(state.items() == whole.items() for whole in (earlier, first))
        state, _ = adopting(place, adopt_others)
        assert any(state.items() == whole.items() for whole in (first, second))
