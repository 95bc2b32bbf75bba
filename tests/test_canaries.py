"""No value of a record is in an error, its cause or context, or in a warning."""

import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bad_inputs import BAD_X, BAD_Y, ENTRIES, FRAMES, MARKS, NUMBER, SECRET, N, first, with_entry
from bad_inputs import X as GOOD
from bad_inputs import Y as BINARY
from sklearn.base import clone

import skdpsco
import skdpsco.base.private_estimator
from skdpsco import (
    PrivateGroupDRO,
    PrivateSynthesizer,
    RowBlocks,
    Schema,
    TableEncoder,
)
from skdpsco.group_dro import group_report
from skdpsco.inspection import GroupLossDisplay, epsilon_for, n_for, plan
from skdpsco.linear_model.links import resolve_link
from skdpsco.linear_model.log_link import LogLinkModel
from skdpsco.model_selection import PrivateGridSearchCV, private_cross_val_score
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    PrivateFeatureSelector,
    PrivatePCA,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicBoundsScaler,
    RowClipper,
)
from skdpsco.survival import PrivateKaplanMeier, PrivateLogRank, PrivateSurvivalRegressor
from skdpsco.variational import QuadraticGame, solve_variational_inequality

D = GOOD.shape[1]


def attempted(function):
    """Inputs of a library, which refuses some values itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()
    except Exception:
        return None


def vectors():
    """Targets, labels, groups: one dimension, one of them a canary."""
    yield from BAD_Y.items()
    for name, value in ENTRIES.items():
        array = first(value)
        yield f"{name}", array
        yield f"{name}, among text", np.array([array[0], *"abcdefghijk"], dtype=object)
        yield f"{name}, list", array.tolist()
        yield f"{name}, series", attempted(lambda a=array: pd.Series(a))
        yield f"{name}, natural", attempted(lambda a=array: np.array(a.tolist()))
    for name, table in FRAMES.items():
        if isinstance(table, pd.DataFrame | pl.DataFrame) and "b" in table.columns:
            yield f"column of {name}", table["b"]
    numbers = np.full(N, NUMBER)
    yield from {
        "numbers": numbers,
        "half numbers": np.arange(N) + NUMBER,
        "column": numbers[:, None],
        "two columns": np.column_stack([numbers, numbers]),
        "two columns of text": [[SECRET, SECRET]] * N,
        "long text": np.array([SECRET, *"abcdefghijk"]),
        "generator": (NUMBER for _ in range(N)),
        "arrow": pa.array([SECRET] * N),
        "arrow chunks": pa.chunked_array([[SECRET] * N]),
    }.items()


def matrices():
    """Features: two dimensions, one of them a canary."""
    yield from BAD_X.items()
    for name, value in ENTRIES.items():
        array = with_entry(value, object)
        yield f"{name}, list", array.tolist()
        yield f"{name}, frame", attempted(lambda a=array: pd.DataFrame(a, columns=list("abc")))
        yield f"{name}, natural", attempted(lambda a=array: np.array(a.tolist()))
    numbers, words = np.full((N, D), NUMBER), {"a": [SECRET] * N, "b": [0.0] * N, "c": [1.0] * N}
    yield from {
        "one row": numbers[:1],
        "wide": np.column_stack([numbers, numbers]),
        "numbers and text": pd.DataFrame({**words, "a": [NUMBER] * (N - 1) + [SECRET]}),
        "mapping": words,
        "arrow": pa.table(words),
        "blocks of records": iter([(numbers, [SECRET] * N)]),
        "blocks of text": iter([(numbers.astype(object), [0] * N), ([[SECRET] * D] * N, [0] * N)]),
        "blocks that are none": iter([SECRET, NUMBER]),
    }.items()


class Reached(BaseException):
    """All checks have passed, and noise would be drawn."""


def reached(*args, **kwargs):
    raise Reached


def told(error):
    """All that a message, a log or a service for errors may show of an exception."""
    found, todo = [], [error]
    while todo:
        one = todo.pop()
        if one is not None and one not in found:
            found.append(one)
            todo += [one.__cause__, one.__context__]
    lines = [*traceback.format_exception(error), *(f"{one} {one.args}" for one in found)]
    return "".join(lines).lower()


def leak(call):
    """What an error or a warning of this call reveals of a canary; None if nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
            texts = []
        except Reached:
            texts = []
        except Exception as error:
            texts = [told(error)]
    texts += [str(warning.message).lower() for warning in caught]
    texts = [text for text in texts if any(mark in text for mark in MARKS)]
    return texts[0][-300:] if texts else None


def leaks(calls):
    """Names of the calls that reveal a canary."""
    found = {name: leak(call) for name, call in calls}
    return {name: text for name, text in found.items() if text}


def named(kinds, others=()):
    """Estimators of the package by their names, without "Private"."""
    found = {kind: getattr(skdpsco, f"Private{kind}") for kind in kinds.split()}
    return found | {kind.__name__.removeprefix("Private"): kind for kind in others}


CLASSIFIERS = named(
    "LogisticL1 LogisticRegression LinearSVC LinearDiscriminantAnalysis LinearClassifier "
    "MinimaxClassifier GroupDRO",
    [PrivateFeatureSelector],
)
REGRESSORS = named(
    "Lasso ElasticNet Ridge HuberRegressor QuantileRegressor PoissonRegressor GammaRegressor "
    "LinearRegressor MinimaxRegressor MonotoneGLM"
)
ESTIMATORS = {
    **{name: lambda c=c: c(classes=[0, 1]) for name, c in CLASSIFIERS.items()},
    "LogisticL1 of any classes": skdpsco.PrivateLogisticL1,
    "GroupDRO of any classes": PrivateGroupDRO,
    **REGRESSORS,
    "GroupDRO of numbers": lambda: PrivateGroupDRO(loss="squared"),
    "FeatureSelector of numbers": lambda: PrivateFeatureSelector(task="regression"),
    "Search": lambda: PrivateGridSearchCV(
        skdpsco.PrivateLogisticL1(classes=[0, 1]), {"radius": [1.0, 2.0]}, strategy="composition"
    ),
    "Synthesizer": lambda: PrivateSynthesizer(domain=[[0, 1]] * D),
    "Synthesizer of numbers": lambda: PrivateSynthesizer(
        domain=skdpsco.Bins([-1, 1], points=[0], missing=True)
    ),
    **named("Moments", [PrivatePCA, PrivateQuantileClipper, PrivateStandardScaler]),
    **named("", [PrivateSplineTransformer, PublicBoundsScaler, RowClipper]),
    "Encoder": lambda: CategoricalDomainEncoder([[0, 1]] * D),
}
GROUPED = [name for name in ESTIMATORS if "GroupDRO" in name]
AT = {"times": [0.5, 1.0, 2.0]}
LIVED = np.column_stack([np.arange(N) % 2, np.linspace(0.1, 3.0, N)])
LIVES = {
    "KaplanMeier": lambda lived, group: PrivateKaplanMeier(**AT).fit(lived),
    "LogRank": lambda lived, group: PrivateLogRank(groups=[0, 1], **AT).fit(lived, group),
    "LogRank of words": lambda lived, group: PrivateLogRank(groups=["a", "b"], **AT).fit(
        lived, group
    ),
    "LogRank of persons": lambda lived, group: PrivateLogRank(
        groups=[0, 1], max_records_per_unit=2, **AT
    ).fit(lived, group, units=np.arange(N) // 2),
    "SurvivalRegressor": lambda lived, group: PrivateSurvivalRegressor(**AT).fit(GOOD, lived),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fits_do_not_tell(name, monkeypatch):
    monkeypatch.setattr(skdpsco.base.private_estimator, "generator", reached)
    make = ESTIMATORS[name]
    more = {"sensitive_features": BINARY} if name in GROUPED else {}
    calls = [(f"X: {case}", lambda X=X: make().fit(X, BINARY, **more)) for case, X in matrices()]
    calls += [(f"y: {case}", lambda y=y: make().fit(GOOD, y, **more)) for case, y in vectors()]
    if name in GROUPED:
        for groups in (None, [0, 1]):
            calls += [
                (
                    f"groups: {case}",
                    lambda g=g, groups=groups: (
                        make().set_params(groups=groups).fit(GOOD, BINARY, sensitive_features=g)
                    ),
                )
                for case, g in vectors()
                if not isinstance(g, str)
            ]
    assert leaks(calls) == {}


@pytest.mark.parametrize("name", LIVES)
def test_fits_to_times_of_events_do_not_tell(name, monkeypatch):
    """Columns of events, times and entries, and groups."""
    monkeypatch.setattr(skdpsco.base.private_estimator, "generator", reached)
    fit = LIVES[name]
    calls = [(f"outcomes: {case}", lambda v=v: fit(v, BINARY)) for case, v in matrices()]
    for case, values in vectors():
        calls += [(f"outcomes: {case}", lambda v=values: fit(v, BINARY))]
        calls += [(f"groups: {case}", lambda v=values: fit(LIVED, v))]
        column = attempted(lambda v=values: np.fromiter(v, dtype=object))
        if column is None or isinstance(values, str) or len(column) != N:
            continue
        for place, kind in enumerate(("event", "time", "entry")):
            rows = np.full((N, 3), [1, 5, 0], dtype=object)
            rows[:, place] = column
            calls += [(f"{kind}: {case}", lambda v=rows: fit(v, BINARY))]
    assert leaks(calls) == {}


def test_labels_that_cannot_be_compared_do_not_tell():
    class Label:
        def __hash__(self):
            return hash(1)

        def __eq__(self, other):
            if isinstance(other, Label):
                return self is other
            raise ArithmeticError(SECRET)

    model = PrivateLogRank(times=[1.0, 2.0], groups=[0, 1])
    assert leak(lambda: model.fit(LIVED, [Label() for _ in range(N)])) is None
    with pytest.raises(TypeError, match="y must not be a masked array"):
        model.fit(LIVED, np.ma.masked_equal(BINARY, 1))


def fitted(make):
    """A model as it is after a fit, of public numbers and without the time that a fit takes."""
    model = make()
    d, classes = (D, np.array([0, 1]))
    several = hasattr(model, "losses") or "classes" in model.get_params()
    model.coef_, model.intercept_ = np.ones((1, d) if several else d), np.ones(1 if several else ())
    if hasattr(model, "link"):
        model.link_ = resolve_link("logistic", None)
    if "classes" in model.get_params():
        model.classes_ = classes
    if isinstance(model, LogLinkModel):
        model.target_range_ = np.array([0.1, 10.0])
    model.feature_range_ = (np.full(d, -1.0), np.full(d, 1.0))
    model.n_features_in_ = d
    return model


@pytest.mark.parametrize("name", [n for n in [*CLASSIFIERS, *REGRESSORS] if "Selector" not in n])
def test_predictions_and_scores_do_not_tell(name):
    model = fitted({**CLASSIFIERS, **REGRESSORS}[name])
    assert len(model.predict(GOOD)) == N
    methods = ("predict", "decision_function", "predict_proba")
    methods = [getattr(model, method) for method in methods if hasattr(model, method)]
    calls = [(f"{f.__name__}: {c}", lambda f=f, X=X: f(X)) for c, X in matrices() for f in methods]
    assert np.isfinite(model.score(GOOD, BINARY + 1))  # gamma laws are of positive numbers
    calls += [(f"score: {case}", lambda y=y: model.score(GOOD, y)) for case, y in vectors()]
    if name in ("LogisticL1", "GroupDRO", "Lasso", "GammaRegressor"):  # the code is that of all
        calls += [
            (f"report: {case}", lambda y=y: group_report(model, GOOD, y, sensitive_features=BINARY))
            for case, y in vectors()
        ]
        calls += [
            (f"groups: {case}", lambda g=g: group_report(model, GOOD, BINARY, sensitive_features=g))
            for case, g in vectors()
            if not isinstance(g, str)  # which would be the name of a column
        ]
    assert leaks(calls) == {}


TRANSFORMERS = [
    *("PCA", "QuantileClipper", "StandardScaler", "PublicBoundsScaler", "RowClipper", "Encoder"),
    *("FeatureSelector", "FeatureSelector of numbers", "SplineTransformer"),
]


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_do_not_tell(name):
    data = np.round(GOOD) if name == "Encoder" else GOOD
    step = ESTIMATORS[name]().fit(np.tile(data, (20, 1)), np.tile(BINARY, 20))
    methods = [getattr(step, m) for m in ("transform", "inverse_transform") if hasattr(step, m)]
    calls = [
        (f"{f.__name__}: {case}", lambda f=f, X=X: f(X)) for case, X in matrices() for f in methods
    ]
    assert leaks(calls) == {}


def tables():
    """Frames whose first column holds a canary."""
    for name, X in matrices():
        yield f"array: {name}", X
    for name, values in vectors():
        for make in (pd.DataFrame, pl.DataFrame):
            if "Decimal" in name and make is pl.DataFrame:
                continue  # it panics
            frame = attempted(lambda make=make, v=values: make({"a": v, "b": BINARY, "y": BINARY}))
            if frame is not None:
                yield f"{make.__module__}: {name}", frame


ZERO_OR_ONE = {"categories": [0, 1]}


@pytest.mark.parametrize("declared", [{"bounds": [0, 1]}, ["u", "v"], ZERO_OR_ONE, "boolean"])
def test_tables_do_not_tell(declared):
    schema = Schema({"a": declared, "b": "boolean", "y": ZERO_OR_ONE}, target="y")
    uses = (schema.validate, TableEncoder(schema).fit_transform, Schema.from_public)
    calls = [(f"{use.__name__}: {c}", lambda u=use, X=X: u(X)) for c, X in tables() for use in uses]
    assert leaks(calls) == {}


def blocks():
    """Records in blocks, of which some hold a canary."""
    for name, X in matrices():
        if name == "an array without entries":
            continue  # its error is its own
        yield f"X: {name}", lambda X=X: RowBlocks.from_arrays(X, BINARY, block_size=5)
        yield f"block: {name}", lambda X=X: RowBlocks.from_blocks([(GOOD, BINARY), (X, BINARY)])
    for name, y in vectors():
        yield f"y: {name}", lambda y=y: RowBlocks.from_arrays(GOOD, y, block_size=5)
        table = attempted(lambda y=y: pa.table({"a": GOOD[:, 0], "y": y}))
        if table is not None:
            yield f"table: {name}", lambda t=table: RowBlocks.from_arrow(t, "y")
            yield f"stream: {name}", lambda t=table: RowBlocks.from_arrow(t.to_reader, "y")


def dask_blocks():
    """Collections whose chunks hold a canary."""
    array = pytest.importorskip("dask.array").from_array
    for name, X in matrices():
        if isinstance(X, np.ndarray) and X.ndim == 2 and len(X) == N:
            yield f"X: {name}", lambda X=X: (array(X, name=False), array(BINARY))
    for name, y in vectors():
        if isinstance(y, np.ndarray) and len(y) == N:
            yield f"y: {name}", lambda y=y: (array(GOOD), array(y, name=False))


@pytest.mark.parametrize("name", ["LogisticL1", "LinearRegressor", "LinearClassifier"])
def test_dask_does_not_tell(name, monkeypatch):
    monkeypatch.setattr(skdpsco.base.private_estimator, "generator", reached)
    calls = [(case, lambda f=f: ESTIMATORS[name]().fit(*f())) for case, f in dask_blocks()]
    assert leaks(calls) == {}


@pytest.mark.parametrize("name", ["LogisticL1", "LinearRegressor"])
def test_blocks_do_not_tell(name, monkeypatch):
    monkeypatch.setattr(skdpsco.base.private_estimator, "generator", reached)
    calls = [(case, lambda f=f: ESTIMATORS[name]().fit(f())) for case, f in blocks()]
    assert leaks(calls) == {}


def test_other_uses_of_data_do_not_tell(monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    model = fitted(skdpsco.PrivateLogisticL1)
    monkeypatch.setattr("skdpsco.model_selection._allotment.rehearse", reached)

    def display(X, y):
        GroupLossDisplay.from_estimator(model, X, y, sensitive_features=BINARY)

    calls = []
    for function in (display, lambda X, y: private_cross_val_score(clone(model), X, y)):
        calls += [(f"X: {case}", lambda X=X, f=function: f(X, BINARY)) for case, X in matrices()]
        calls += [(f"y: {case}", lambda y=y, f=function: f(GOOD, y)) for case, y in vectors()]
    assert leaks(calls) == {}


MISPLACED = {
    "frame": pd.DataFrame({"a": [SECRET] * N, "b": np.full(N, NUMBER)}),
    "column": pd.Series(np.full(N, NUMBER)),
    "array": np.full((N, D), NUMBER),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_data_in_the_place_of_a_parameter_are_not_told(name, monkeypatch):
    monkeypatch.setattr(skdpsco.base.private_estimator, "generator", reached)
    monkeypatch.setattr("skdpsco.model_selection._allotment.rehearse", reached)
    more = {"sensitive_features": BINARY} if name in GROUPED else {}
    calls = [
        (
            f"{parameter}: {case}",
            lambda p=parameter, v=value: (
                ESTIMATORS[name]().set_params(**{p: v}).fit(GOOD, BINARY, **more)
            ),
        )
        for parameter in ESTIMATORS[name]().get_params(deep=False)
        for case, value in MISPLACED.items()
    ]
    assert leaks(calls) == {}


def test_data_in_the_place_of_a_number_are_not_told():
    moments = skdpsco.PrivateMoments().fit(GOOD, BINARY)
    model = skdpsco.PrivateRidge().fit(moments)
    ridge = skdpsco.PrivateRidge()
    functions = {
        "plan": lambda v: plan(ridge, v, n_features=D),
        "plan for columns": lambda v: plan(ridge, N, n_features=v),
        "plan of no estimator": lambda v: plan(v, N, D),
        "epsilon_for": lambda v: epsilon_for(ridge, v, D),
        "n_for": lambda v: n_for(ridge, v),
        "draw_records": lambda v: skdpsco.draw_records(BINARY, v),
        "predict_interval": lambda v: model.predict_interval(GOOD, v),
        "confint": model.confint,
        "summary": model.summary,
        "path": moments.moments_.path,
        "select": lambda v: moments.moments_.select([0], target=v),
        "Budget": lambda v: skdpsco.Budget(v, 1e-6),
        "Ledger": lambda v: skdpsco.Ledger(1.0, v),
        "Schema": lambda v: Schema({"a": "boolean"}, target=v),
        "private_cross_val_score": lambda v: private_cross_val_score(v, GOOD, BINARY),
    }
    calls = [
        (f"{name}: {case}", lambda f=f, v=v: f(v))
        for name, f in functions.items()
        for case, v in MISPLACED.items()
    ]
    assert leaks(calls) == {}


def test_inequalities_do_not_tell(monkeypatch):
    monkeypatch.setattr(skdpsco.base.private_estimator, "generator", reached)
    game = QuadraticGame(D, D)
    data = [(f"X: {case}", (X, GOOD, BINARY, BINARY)) for case, X in matrices()]
    data += [(f"y: {case}", (GOOD, GOOD, y, BINARY)) for case, y in vectors()]
    calls = [(case, lambda d=d: solve_variational_inequality(game, d)) for case, d in data]
    assert leaks(calls) == {}
