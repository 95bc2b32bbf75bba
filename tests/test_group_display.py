"""The plot of losses by group: what it shows, and what it refuses."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, recall_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from skdpsco import PrivateGroupDRO
from skdpsco.group_dro import group_report
from skdpsco.inspection import GroupLossDisplay
from skdpsco.preprocessing import PublicBoundsScaler

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (600, 3))
G = np.where(rng.random(600) < 0.3, "north", "south")
Z = X[:, 1] + np.where(G == "north", -1, 1) * X[:, 0]
C = np.where(Z > 0, "yes", "no")
LOGISTIC = LogisticRegression().fit(X, C)
LINEAR = LinearRegression().fit(X, Z)
display_of = GroupLossDisplay.from_estimator


@pytest.fixture(scope="module")
def private():
    return PrivateGroupDRO(epsilon=20.0).fit(X, C, sensitive_features=G)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def by_hand(metric, predicted, y):
    parts = [metric(y[g], predicted[g]) for g in (G == "north", G == "south")]
    return np.array([*parts, metric(y, predicted)])


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_what_is_shown(private):
    display = display_of(private, X, C, sensitive_features=G, baseline=LOGISTIC)
    for j, model in enumerate([private, LOGISTIC]):
        expected = by_hand(lambda y, p: log_loss(y, p), model.predict_proba(X), C)
        np.testing.assert_allclose(display.by_group[j], expected[:2])
        assert display.overall[j] == pytest.approx(expected[2])
        np.testing.assert_array_equal(display.points_[j].get_xdata(), display.by_group[j])
        np.testing.assert_array_equal(display.points_[j].get_ydata(), [0, 1])
        assert set(display.overall_[j].get_xdata()) == {display.overall[j]}
        assert display.overall_[j].get_color() == display.points_[j].get_color()
    assert display.points_[0].get_color() != display.points_[1].get_color()
    assert display.groups.tolist() == ["north", "south"]
    n = (G == "north").sum()
    ax = display.ax_
    ticks = [text.get_text() for text in ax.get_yticklabels()]
    assert ticks == [f"north ({n})", f"south ({600 - n})"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first group is on top
    assert ax.get_xlabel() == "mean log loss"
    assert display.figure_ is ax.figure
    assert labels_of(ax) == ["PrivateGroupDRO", "baseline: LogisticRegression", "all records"]


@pytest.mark.parametrize(
    ("metric", "model", "y", "expected", "label"),
    [
        ("accuracy", None, C, accuracy_score, "accuracy"),
        ("squared_error", LINEAR, Z, mean_squared_error, "mean squared error"),
        (None, LINEAR, Z, mean_squared_error, "mean squared error"),
        (None, LinearSVC().fit(X, C), C, accuracy_score, "accuracy"),
        (lambda y, p: recall_score(y, p, pos_label="yes"), None, C,
         lambda y, p: recall_score(y, p, pos_label="yes"), "lambda"),
    ],
)  # fmt: skip
def test_metrics(metric, model, y, expected, label, private):
    model = private if model is None else model
    display = display_of(model, X, y, sensitive_features=G, metric=metric)
    found = [*display.by_group[0], display.overall[0]]
    np.testing.assert_allclose(found, by_hand(expected, model.predict(X), y))
    assert display.ax_.get_xlabel() == label
    assert display.by_group.shape == (1, 2)
    assert len(labels_of(display.ax_)) == 2


def test_several_baselines_names_and_style(private):
    _, ax = plt.subplots()
    pipeline = make_pipeline(PublicBoundsScaler(lower=-1.0, upper=1.0), LogisticRegression())
    baselines = {"_other $": LOGISTIC, "a pipeline": pipeline.fit(X, C)}
    display = display_of(
        private, X, C, sensitive_features=G, baseline=baselines, ax=ax, name="mine", color="red",
        marker="x",
    )  # fmt: skip
    assert display.ax_ is ax
    assert labels_of(ax) == ["mine", r" _other \$", "a pipeline", "all records"]
    assert display.points_[0].get_color() == display.overall_[0].get_color() == "red"
    assert display.points_[0].get_marker() == "x"
    assert display.by_group.shape == (3, 2)
    np.testing.assert_allclose(display.by_group[1], display.by_group[2], atol=1e-3)
    again = display.plot(name="yours")
    assert again is display
    assert display.ax_ is not ax
    assert labels_of(display.ax_)[0] == "yours"


def test_frames_and_products():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abc")).assign(region=G, part=np.arange(600) % 2)
    columns = ["region", "part"]
    model = PrivateGroupDRO(epsilon=20.0).fit(frame, pd.Series(C), sensitive_features=columns)
    display = display_of(model, frame, pd.Series(C), sensitive_features=columns, metric="accuracy")
    report = group_report(model, frame, C, sensitive_features=columns)
    np.testing.assert_array_equal(display.by_group[0], report.by_group)
    ticks = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert ticks[0] == f"north, 0 ({report.n_samples[0]})"
    # A baseline that does not know the columns.
    plain = frame[list("abc")]
    display = display_of(
        model, plain, C, sensitive_features=frame[columns], metric="accuracy",
        baseline=LogisticRegression().fit(plain, C),
    )  # fmt: skip
    np.testing.assert_array_equal(display.by_group[0], report.by_group)


def test_overlapping_groups(private):
    groups = np.column_stack([G == "north", X[:, 2] > 0])
    display = display_of(private, X, C, sensitive_features=groups, metric="accuracy")
    right = private.predict(X) == C
    np.testing.assert_allclose(display.by_group[0], [right[g].mean() for g in groups.T])
    assert display.overall[0] == pytest.approx(right.mean())
    assert np.asarray(display.n_samples).tolist() == groups.sum(axis=0).tolist()
    ticks = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert ticks[1] == f"1 ({groups[:, 1].sum()})"


@pytest.mark.parametrize("n_groups", [1, 12, 40])
@pytest.mark.parametrize("given", [False, True])
def test_labels_do_not_overlap(n_groups, given):
    ax = plt.subplots(layout="tight")[1] if given else None
    display = GroupLossDisplay(
        groups=["a group of a name that is long indeed, $ and $"] * n_groups,
        n_samples=np.full(n_groups, 10**6),
        by_group=np.linspace(0, 1, 2 * n_groups).reshape(2, n_groups),
        overall=[0.5, 0.6],
        names=["one", "two"],
    ).plot(ax)
    display.figure_.canvas.draw()
    labels = display.ax_.get_yticklabels()
    assert len(labels) == n_groups or given
    boxes = sorted(label.get_window_extent().extents.tolist()[1::2] for label in labels)
    assert all(low[1] < high[0] + 1.0 for low, high in pairwise(boxes))  # pixels
    edges = display.figure_.bbox
    for text in [*labels, *display.ax_.get_legend().get_texts()]:
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= edges.x1
        assert box.y1 <= edges.y1


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"estimator": PrivateGroupDRO()}, NotFittedError, "not fitted"),
        ({"estimator": PrivateGroupDRO}, TypeError, "^estimator must be a fitted model"),
        ({"baseline": LogisticRegression()}, NotFittedError, "not fitted"),
        ({"baseline": {"ERM": "x"}}, TypeError, r"^baseline\['ERM'\] must be a fitted model"),
        ({"sensitive_features": None}, ValueError, "needs sensitive_features"),
        ({"sensitive_features": "region"}, ValueError, "sensitive_features='region' must"),
        ({"metric": "loss"}, ValueError, "metric must be one of .*log_loss.* or a callable"),
        ({"metric": "squared_error"}, ValueError, "'squared_error' is for regressors.*estimator"),
        ({"metric": "accuracy", "baseline": LINEAR}, ValueError, "is for classifiers.*baseline"),
        ({"baseline": LINEAR}, ValueError, "'squared_error' is for regressors"),
        (
            {"metric": "log_loss", "baseline": LinearSVC().fit(X, C)},
            ValueError,
            "needs predict_proba, which baseline",
        ),
        (
            {"metric": "log_loss", "estimator": KMeans(2).fit(X)},
            ValueError,
            "needs predict_proba, which estimator",
        ),
        ({"y": Z}, ValueError, "y contains a label that is not among the classes_ of estimator"),
        ({"X": X[:, :2]}, ValueError, "2 features"),
    ],
)
def test_bad_input(changes, error, match, private):
    arguments = {"estimator": private, "X": X, "y": C, "sensitive_features": G, **changes}
    with pytest.raises(error, match=match):
        display_of(**arguments)
    assert plt.get_fignums() == []


def test_without_matplotlib(monkeypatch, private):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"GroupLossDisplay needs.*pip install matplotlib"):
        display_of(private, X, C, sensitive_features=G)
