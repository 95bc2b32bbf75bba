"""The plot of the functions of an additive model: what it shows, and what it refuses."""

import sys
from itertools import combinations

import numpy as np
import pytest
from cases import each
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skdpsco import PrivateAdditiveClassifier, PrivateAdditiveRegressor, PrivateRidge, Schema
from skdpsco.inspection import PairDisplay, ShapeDisplay

pd = pytest.importorskip("pandas")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

rng, N = np.random.default_rng(0), 6000
CITIES = ["Bonn", "a city whose name is long and has a $", "Graz", "Oslo"]
X = pd.DataFrame(
    {
        "curved": rng.uniform(-10, 10, N),
        "mostly 0": np.where(rng.random(N) < 0.6, 0.0, rng.exponential(3.0, N)),
        "gaps": np.where(rng.random(N) < 0.3, np.nan, rng.normal(50, 5, N)),
        "city": rng.choice([*CITIES[:3], "elsewhere"], N),
        "hour": rng.integers(6, 22, N).astype(float),
    }
)
Z = (X["curved"] / 5) ** 2 + 2.0 * (X["city"] == "Bonn") + 0.3 * X["gaps"].isna()
Z = (Z + rng.normal(0, 0.5, N)).to_numpy()
LEVEL = np.select([Z < 1.0, Z < 2.5], ["low", "middle"], "high")
SCHEMA = Schema({"city": CITIES})
display_of = ShapeDisplay.from_estimator


@pytest.fixture(scope="module")
def regressor():
    return PrivateAdditiveRegressor(epsilon=50.0, schema=SCHEMA).fit(X, Z)


@pytest.fixture(scope="module")
def classifier():
    model = PrivateAdditiveClassifier(epsilon=50.0, schema=SCHEMA, classes=[False, True])
    return model.fit(X, Z > 2.0)


@pytest.fixture(scope="module")
def of_three():
    model = PrivateAdditiveClassifier(epsilon=50.0, schema=SCHEMA, classes=np.unique(LEVEL))
    return model.fit(X, LEVEL)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def titles(display):
    return [ax.get_title(loc="left") for ax in display.axes_]


def tick_labels(ax):
    return [text.get_text() for text in ax.get_xticklabels()]


def test_what_is_shown(regressor):
    display = display_of(regressor)
    assert titles(display)[:2] == ["curved", "city"]  # they matter most
    assert sorted(titles(display)) == sorted(X.columns)
    parts = dict(zip(titles(display), range(len(X.columns)), strict=True))
    frame = X.iloc[[0] * 200]
    for name in ("curved", "gaps", "hour"):  # what the model itself says that they add
        x, y = display.lines_[parts[name]].get_data()
        np.testing.assert_allclose(
            np.interp(np.linspace(x[0], x[-1], 200), x, y),
            regressor.explain(frame.assign(**{name: np.linspace(x[0], x[-1], 200)}))[
                :, list(X.columns).index(name)
            ],
        )
    cities = display.lines_[parts["city"]].get_ydata()
    found = regressor.explain(X.iloc[[0] * 4].assign(city=CITIES))[:, 3]
    np.testing.assert_allclose(cities, [*found, regressor.shape_functions_["city"].missing[0]])
    assert display.figure_ is display.axes_[0].figure
    assert display.figure_.get_supylabel() == "prediction"
    assert len(display.bars_) == len(display.axes_) == 5


def test_panels_have_one_range(regressor):
    display = display_of(regressor, n_cols=2)
    limits = {ax.get_ylim() for ax in display.axes_}
    ((low, high),) = limits
    for ax in display.axes_:
        for line in ax.get_lines():
            assert np.all((line.get_ydata() > low) & (line.get_ydata() < high))


def test_where_records_lie(regressor):
    names = ["gaps", "mostly 0", "hour", "city"]
    display = display_of(regressor, names)
    low, high = display.lines_[0].get_xdata()[[0, -1]]
    assert 30 < low < 42
    assert 58 < high < 70
    assert tick_labels(display.axes_[0])[0] in ("missing\n29%", "missing\n30%", "missing\n31%")
    zero, *_ = tick_labels(display.axes_[1])
    assert zero in ("0\n59%", "0\n60%", "0\n61%")
    (ring,) = [line for line in display.axes_[1].get_lines() if line.get_marker() == "o"]
    assert ring.get_xdata() == [0.0]
    assert ring.get_ydata() == regressor.shape_functions_["mostly 0"].zero
    middles = [bar.get_x() + bar.get_width() / 2 for bar in display.bars_[2]]
    np.testing.assert_allclose(middles, np.round(middles))  # whole numbers have their own bars
    heights = [bar.get_height() for bar in display.bars_[3]]
    assert max(heights) == pytest.approx(0.2)
    assert heights[3] < 0.02  # nobody is from Oslo
    *_, other = tick_labels(display.axes_[3])
    assert other == "undeclared"


def test_classes(classifier, of_three):
    second, first = display_of(classifier, 1), display_of(classifier, 1, class_label=False)
    assert second.figure_.get_supylabel() == "log-odds of True"
    assert first.figure_.get_supylabel() == "log-odds of False"
    np.testing.assert_array_equal(first.lines_[0].get_ydata(), -second.lines_[0].get_ydata())
    display = display_of(of_three, ["curved"])
    assert len(display.lines_) == 3
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["high", "low", "middle"]
    high = display_of(of_three, ["curved"], class_label="high")
    assert high.figure_.get_supylabel() == "score of high"
    np.testing.assert_array_equal(high.lines_[0].get_ydata(), display.lines_[0].get_ydata())


def test_every_class_has_a_colour():
    labels = np.arange(N) % 12
    model = PrivateAdditiveClassifier(epsilon=50.0, schema=SCHEMA, classes=range(12))
    display = display_of(model.fit(X, labels), ["curved", "city"])
    colours = [matplotlib.colors.to_hex(line.get_color()) for line in display.lines_]
    assert len(set(colours)) == 12
    assert colours[:12] == colours[12:]


def test_missing_is_what_is_declared_missing():
    schema = Schema({"city": {"categories": CITIES, "missing": True}})
    frame = X[["city", "hour"]].assign(city=X["city"].where(X["city"] != "elsewhere", None))
    model = PrivateAdditiveRegressor(epsilon=50.0, schema=schema).fit(frame, Z)
    for fitted in (model, PrivateAdditiveRegressor.from_json(model.to_json())):
        *_, other = tick_labels(display_of(fitted, ["city"]).axes_[0])
        assert other == "missing"


def test_given_axes_and_style(classifier, of_three):
    _, panels = plt.subplots(1, 2)
    display = display_of(classifier, ["gaps", "city"], ax=panels, color="red")
    assert display.axes_.tolist() == panels.tolist()
    assert [line.get_color() for line in display.lines_] == ["red", "red"]
    assert panels[0].get_ylabel() == "log-odds of True"
    again = display.plot(n_cols=1)
    assert again is display
    assert display.axes_[0] is not panels[0]
    _, ax = plt.subplots()
    assert display_of(of_three, ["gaps"], ax=ax).axes_.tolist() == [ax]
    assert len(ax.get_legend().get_texts()) == 3


@each("n_columns", [1, 2, 12, 30])
def test_labels_do_not_overlap(n_columns):
    many = np.random.default_rng(0).normal(size=(2000, n_columns))
    many *= 10.0 ** np.linspace(-4, 6, n_columns)
    many[::4] = np.nan
    model = PrivateAdditiveRegressor().fit(many, np.nan_to_num(many[:, 0]) * 1e4)
    display = display_of(model)
    assert len(display.axes_) == n_columns
    assert_apart(display)


def test_labels_of_0_and_of_what_is_missing_do_not_overlap():
    negative = pd.DataFrame({"below": -X["mostly 0"], "above": X["mostly 0"]}).mask(
        X["gaps"].isna()
    )
    display = display_of(PrivateAdditiveRegressor(epsilon=50.0).fit(negative, Z))
    texts = [text for ax in display.axes_ for text in tick_labels(ax)[:2]]
    assert [text.partition("\n")[0] for text in texts] == ["0", "missing"] * 2
    assert_apart(display)


def test_dates_are_labelled_as_dates():
    bounds = np.array(["2020-01-01", "2024-12-31"], dtype="datetime64[D]")
    seen = bounds[0] + np.arange(N) % 1800
    seen = pd.Series(seen).mask(np.arange(N) % 5 == 0)
    frame = pd.DataFrame({"seen": seen, "curved": X["curved"]})
    schema = Schema({"seen": {"bounds": bounds, "missing": True}})
    model = PrivateAdditiveRegressor(epsilon=50.0, schema=schema, pairs=[("seen", "curved")])
    display = display_of(model.fit(frame, Z), ["seen"])
    missing, *labels = tick_labels(display.axes_[0])
    assert missing.startswith("missing")
    assert len(labels) > 2
    days = np.array(labels, dtype="datetime64[D]")
    assert ((bounds[0] <= days) & (days <= bounds[1])).all()
    assert_apart(display)
    assert_apart(display_of(model))  # two panels are narrower than one
    pair = PairDisplay.from_estimator(model)
    days = np.array(tick_labels(pair.axes_[0]), dtype="datetime64[D]")
    assert len(days) > 1
    assert ((bounds[0] <= days) & (days <= bounds[1])).all()
    assert_apart(pair)
    *knots, missing = model.to_frame().query("column == 'seen'")["at"]
    assert missing is None
    assert ((bounds[0] <= np.array(knots)) & (np.array(knots) <= bounds[1])).all()


def assert_apart(display):
    """No label leaves the figure, and no two below a panel overlap."""
    display.figure_.canvas.draw()
    edges = display.figure_.bbox
    for ax in display.axes_:
        boxes = [text.get_window_extent() for text in ax.get_xticklabels()]
        boxes.sort(key=lambda box: box.x0)
        for left, right in combinations(boxes, 2):  # pixels
            assert left.x1 < right.x0 + 1.0 or right.y1 < left.y0 + 1.0 or left.y1 < right.y0 + 1.0
        for box in [*boxes, ax.title.get_window_extent()]:
            assert box.x0 >= -1.0
            assert box.x1 <= edges.x1 + 1.0
            assert box.y0 >= -1.0


@each(
    ("changes", "error", "match"),
    [
        ({"estimator": PrivateAdditiveRegressor()}, NotFittedError, "not fitted"),
        ({"estimator": PrivateAdditiveRegressor}, TypeError, "^estimator must be a fitted Priv"),
        ({"estimator": PrivateRidge()}, TypeError, "^estimator must be a fitted Priv"),
        ({"columns": "curved"}, ValueError, "^columns must be None, a number, or a list of names"),
        ({"columns": ["height"]}, ValueError, "^columns must be.*'curved'.*got \\['height'\\]"),
        ({"columns": []}, ValueError, "^columns must be"),
        ({"columns": 0}, ValueError, "^columns must be at least 1"),
        ({"columns": 1.5}, ValueError, "^columns must be"),
        ({"class_label": "yes"}, ValueError, "^class_label must be None for a regressor"),
        ({"class_label": "late"}, ValueError, r"^class_label must be one of \[False, True\] or N"),
        ({"n_cols": 0}, ValueError, "^n_cols must be an int >= 1"),
        ({"n_cols": "3"}, TypeError, "^n_cols must be an int >= 1"),
        ({"ax": "axes"}, TypeError, "^ax must be None or 5 axes"),
        ({"features": ["city"]}, TypeError, "parameter.*columns.*'features'"),
    ],
)
def test_bad_input(changes, error, match, regressor, classifier):
    labelled = changes.get("class_label") == "late"
    arguments = {"estimator": classifier if labelled else regressor, **changes}
    with pytest.raises(error, match=match):
        display_of(**arguments)
    assert plt.get_fignums() == []


def test_without_matplotlib(monkeypatch, regressor):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"ShapeDisplay needs.*pip install matplotlib"):
        display_of(regressor)


def test_heat_maps_of_pairs(regressor, of_three):
    names = [("curved", "hour"), ("city", "curved"), ("hour", "city")]
    model = clone(regressor).set_params(pairs=names).fit(X, Z)
    known = model.pair_functions_
    display = PairDisplay.from_estimator(model, n_cols=2)
    assert len(display.axes_) == len(display.meshes_) == 3
    assert display.axes_[0].get_xlabel() == next(iter(known))[0]
    mesh = display.meshes_[0]
    low, high = mesh.get_clim()
    assert low == -high  # 0 is in the middle of the colours
    assert high == max(np.abs(one.get_array()).max() for one in display.meshes_)
    (one,) = PairDisplay.from_estimator(model, [("curved", "city")]).axes_
    assert one.get_yticklabels()[0].get_text() == "Bonn"
    several = clone(of_three).set_params(pairs=names[:1]).fit(X, LEVEL)
    with pytest.raises(ValueError, match="class_label"):
        PairDisplay.from_estimator(several)
    assert len(PairDisplay.from_estimator(several, class_label="low").axes_) == 1
    for wrong in ([("curved", "gaps")], 5, [5], "curved", []):
        with pytest.raises(ValueError, match=r"^pairs must be among the model's pair"):
            PairDisplay.from_estimator(model, wrong)
    with pytest.raises(ValueError, match=r"^This PrivateAdditiveRegressor has no pairs"):
        PairDisplay.from_estimator(clone(model).set_params(pairs=None).fit(X, Z))
    with pytest.raises(ValueError, match="n_cols"):
        PairDisplay.from_estimator(model, n_cols=0)
    with pytest.raises(TypeError, match="estimator"):
        PairDisplay.from_estimator(PrivateRidge())
