"""Plots: what they show, what they cost, and what they refuse."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from cases import each
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from skdpsco import Ledger, PrivateGridSearchCV, PrivateLasso, PrivateLogisticL1
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.inspection import PrivacyUtilityDisplay, RadiusPathDisplay, privacy_report
from skdpsco.preprocessing import PrivateStandardScaler
from skdpsco.privacy import Budget, ZCDPEvent

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (200, 4))
Y = X[:, 0] - 0.5 * X[:, 2] + 0.1 * rng.normal(size=200)
C = (Y > 0).astype(int)
utility = PrivacyUtilityDisplay.from_estimator


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


class Constant(PrivateEstimator):
    """Scores are epsilon, plus the number of its fits over 100."""

    n_fits = 0
    tests: list = []

    def __init__(self, epsilon=1.0, delta=1e-6, ledger=None, random_state=None):
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X, y):
        type(self).n_fits += 1
        self.n_, self.fit_ = len(X), self.n_fits
        return self

    def score(self, X, y):
        self.tests.append((self.n_, len(X)))
        return self.epsilon + self.fit_ / 100


def test_what_the_utility_plot_shows():
    Constant.n_fits = 0
    Constant.tests.clear()
    display = utility(Constant(), X, Y, epsilons=[4.0, 1.0], n_repeats=3, baseline=5.0)
    expected = [[4.01, 4.02, 4.03], [1.04, 1.05, 1.06]]
    np.testing.assert_allclose(display.scores, expected)
    assert display.epsilons.tolist() == [4.0, 1.0]
    np.testing.assert_allclose(display.line_.get_xydata(), [[1.0, 1.05], [4.0, 4.02]])
    corners = display.range_.get_paths()[0].vertices
    assert {tuple(np.round(v, 6)) for v in corners} >= {(1, 1.04), (1, 1.06), (4, 4.01), (4, 4.03)}
    assert display.baseline_.get_ydata()[0] == display.baseline == 5.0
    assert Constant.tests == [(150, 50)] * 6  # a quarter is held out
    ax = display.ax_
    assert display.figure_ is ax.figure
    assert ax.get_xscale() == "log"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("epsilon (delta = 1e-06)", "score")
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["Constant, median of 3", "without privacy"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "4"]


@pytest.mark.parametrize(
    ("model", "baseline", "y", "scoring", "label"),
    [
        (PrivateLogisticL1(), LogisticRegression(), C, None, "accuracy"),
        (PrivateLasso(), Lasso(0.01), Y, None, "R²"),
        (make_pipeline(Normalizer(), PrivateLasso()), None, Y, "neg_mean_squared_error",
         "neg mean squared error"),
        (PrivateLasso(), 0.5, Y, lambda model, X, y: 1.0, "score"),
    ],
)  # fmt: skip
def test_real_models(model, baseline, y, scoring, label):
    _, ax = plt.subplots()
    # Scored on the records of the fit: a random split would make the baseline's score random.
    display = utility(
        model, X, y, epsilons=(0.1, 1e4), X_test=X, y_test=y, n_repeats=2, baseline=baseline,
        scoring=scoring, ax=ax, color="red", name="mine",
    )  # fmt: skip
    assert display.ax_ is ax
    assert ax.get_ylabel() == label
    assert display.line_.get_color() == "red"
    assert display.line_.get_label() == "mine, median of 2"
    assert (display.baseline_ is None) == (baseline is None)
    assert display.scores.shape == (2, 2)
    if baseline is not None and scoring is None:
        assert display.baseline > 0.9
    display.figure_.canvas.draw()
    assert not hasattr(model, "privacy_")  # it was cloned


def test_noise_is_fresh_whatever_the_seed_of_the_estimator():
    # No warning about a seed, which would be an error.
    display = utility(PrivateLasso(random_state=0), X, Y, epsilons=[0.5], n_repeats=3)
    assert len(np.unique(display.scores)) == 3


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
def test_random_state():
    scores = [
        utility(PrivateLasso(), X, Y, epsilons=[0.5, 1.0], n_repeats=2, random_state=seed).scores
        for seed in (0, 0, np.random.RandomState(0), 1)
    ]
    assert (scores[0] == scores[1]).all()
    assert (scores[0] == scores[2]).all()
    assert not np.any(scores[0] == scores[3])
    assert len(np.unique(scores[0])) == 4


def test_several_private_steps_share_epsilon():
    scaler = PrivateStandardScaler(lower=-1.0, upper=1.0, epsilon=0.3, delta=1e-5)
    other = clone(scaler).set_params(epsilon=0.6, delta=1e-7)
    pipeline = make_pipeline(scaler, other, PrivateLasso(epsilon=0.5))
    shares = [Budget(step.epsilon, step.delta).rho for _, step in pipeline.steps]
    models = []

    def keep(model, X, y):
        models.append(model)
        return 0.0

    display = utility(pipeline, X, Y, epsilons=[0.1, 8.0], n_repeats=2, scoring=keep)
    assert display.delta == 1e-5
    for model, epsilon in zip(models, [0.1, 0.1, 8.0, 8.0], strict=True):
        rho = Budget(epsilon, 1e-5).rho
        spent = [step.rho for step in privacy_report(model).steps]
        assert sum(spent) <= rho * (1 + 1e-12)
        np.testing.assert_allclose(spent, rho * np.array(shares) / sum(shares), rtol=1e-6)
        assert model[0].ledger is model[1].ledger is model[2].ledger
        assert len(model[0].ledger.charges()) == 3
    assert len({id(model[0].ledger) for model in models}) == 4


LEDGER = Ledger(1.0, 1e-6)
CHARGED = PrivateLasso(ledger=LEDGER)
LAMBDA = FunctionTransformer(lambda X: X)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"estimator": CHARGED}, ValueError, "ledger=None.*private"),
        ({"estimator": PrivateGridSearchCV(CHARGED, {"radius": [1.0]})}, ValueError, "ledger=None"),
        (
            {"estimator": make_pipeline(StandardScaler(), PrivateLasso())},
            ValueError,
            "standardscaler: .*PublicBoundsScaler",
        ),
        ({"estimator": make_pipeline(LAMBDA, PrivateLasso())}, ValueError, "record_wise"),
        ({"estimator": Normalizer()}, ValueError, "must have a private step"),
        ({"estimator": Lasso()}, ValueError, "Lasso: "),
        ({"estimator": None}, TypeError, "estimator must be an instance"),
        ({"epsilons": []}, ValueError, "epsilons must be"),
        ({"epsilons": 1.0}, ValueError, "epsilons must be"),
        ({"epsilons": [1.0, 0.0]}, ValueError, "epsilons must be"),
        ({"n_repeats": 0}, ValueError, "n_repeats must be"),
        ({"n_repeats": 2.0}, TypeError, "n_repeats must be"),
        ({"X_test": X}, ValueError, "X_test and y_test"),
        ({"baseline": "Lasso"}, TypeError, "baseline must be"),
        ({"scoring": "nonsense"}, ValueError, "scor"),
        ({"random_state": "x"}, ValueError, "seed"),
    ],
)
def test_bad_input(changes, error, match):
    arguments = {"estimator": PrivateLasso(), "X": X, "y": Y, "epsilons": [1.0], **changes}
    with pytest.raises(error, match=match):
        utility(**arguments)
    assert LEDGER.charges() == []


@pytest.mark.parametrize("epsilons", [[1.0], [0.5, 0.51, 0.52], np.geomspace(0.01, 10, 14)])
@pytest.mark.parametrize("name", [None, "_with $ signs $"])
def test_labels_do_not_overlap(epsilons, name):
    scores = np.zeros((len(epsilons), 1))
    display = PrivacyUtilityDisplay(epsilons=epsilons, scores=scores).plot(name=name)
    display.figure_.canvas.draw()
    labels = [t for t in display.ax_.get_xticklabels() if t.get_text()]
    boxes = sorted(label.get_window_extent().extents.tolist() for label in labels)
    assert all(left[2] < right[0] for left, right in pairwise(boxes))
    assert len(display.ax_.get_legend().get_texts()) == 1


@each("scores", [[0.5, 0.6], [[0.5], [0.6], [0.7]], [[0.5, 0.6], [0.7]], [[], []], ["a", "b"]])
def test_scores_of_another_shape(scores):
    match = r"^scores must be numbers of shape \(n_epsilons, n_repeats\), here \(2, \.\.\.\)"
    with pytest.raises(ValueError, match=match):
        PrivacyUtilityDisplay(epsilons=[0.1, 1.0], scores=scores).plot()
    assert plt.get_fignums() == []


# Paths.


def test_path():
    model = PrivateLasso(epsilon=1e4).fit(X, Y)
    display = RadiusPathDisplay.from_estimator(model, n_features=2, linestyle=":")
    assert display.names == ["x0", "x2"]
    for line, feature in zip(display.lines_, [0, 2], strict=True):
        np.testing.assert_array_equal(line.get_xdata(), model.path_.radius)
        np.testing.assert_array_equal(line.get_ydata(), model.path_.coef[:, feature])
        assert line.get_linestyle() == ":"
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_xlabel() == "l1 radius"


def test_path_of_several_classes():
    y = np.array(["a", "b", "c"])[np.digitize(Y, [-0.3, 0.3])]
    model = PrivateLogisticL1(epsilon=1e4).fit(X, y)
    _, ax = plt.subplots()
    display = RadiusPathDisplay.from_estimator(
        model, n_features=100, feature_names=["_age", "cost in $", "$", "d"], ax=ax
    )
    assert display.ax_ is ax
    coef = model.path_.coef
    assert len(display.lines_) == len(display.names) == 12
    for line, name in zip(display.lines_, display.names, strict=True):
        feature, label = name.split(", class ")
        j, k = ["_age", "cost in $", "$", "d"].index(feature), ["a", "b", "c"].index(label)
        np.testing.assert_array_equal(line.get_ydata(), coef[:, k, j])
    display.figure_.canvas.draw()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(labels) == 11
    assert labels[-1] == "2 more"


def test_path_of_a_pipeline():
    model = PrivateLasso(epsilon=1e4)
    named = make_pipeline(StandardScaler(), make_pipeline(model)).fit(X, Y)
    assert RadiusPathDisplay.from_estimator(named).names[:2] == ["x0", "x2"]
    silent = make_pipeline(FunctionTransformer(), model).fit(X, Y)
    display = RadiusPathDisplay.from_estimator(silent, feature_names=list("abcd"))
    assert display.names[:2] == ["a", "c"]
    assert RadiusPathDisplay.from_estimator(silent).names[:2] == ["x0", "x2"]
    with pytest.raises(ValueError, match="path_"):
        RadiusPathDisplay.from_estimator(make_pipeline(StandardScaler(), Lasso()).fit(X, Y))


def test_bad_paths():
    model = PrivateLasso().fit(X, Y)
    with pytest.raises(NotFittedError):
        RadiusPathDisplay.from_estimator(PrivateLasso())
    with pytest.raises(ValueError, match=r"path_.*stagewise"):
        RadiusPathDisplay.from_estimator(PrivateLasso(solver="frank-wolfe", radius=1.0).fit(X, Y))
    with pytest.raises(ValueError, match="path_"):
        RadiusPathDisplay.from_estimator(Lasso().fit(X, Y))
    for n_features in (0, -1, 2.0, True, "all"):
        with pytest.raises((TypeError, ValueError), match="n_features must be an int >= 1"):
            RadiusPathDisplay.from_estimator(model, n_features=n_features)
    for names in (["a"], "abcd", 4):
        with pytest.raises(ValueError, match="feature_names must be a list of 4"):
            RadiusPathDisplay.from_estimator(model, feature_names=names)


def test_without_matplotlib(monkeypatch):
    model = PrivateLasso().fit(X, Y)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    Constant.n_fits = 0
    with pytest.raises(ImportError, match=r"PrivacyUtilityDisplay needs.*pip install matplotlib"):
        utility(Constant(), X, Y, epsilons=[1.0])
    assert Constant.n_fits == 0
    with pytest.raises(ImportError, match=r"RadiusPathDisplay needs.*pip install matplotlib"):
        RadiusPathDisplay.from_estimator(model)


# The ledger.


@pytest.mark.parametrize("n", [1, 15, 16, 40])
def test_names_of_charges_stay_inside_the_figure(n):
    ledger = Ledger(1.0, 1e-6)
    for k in range(n):
        ledger.charge(ZCDPEvent(1e-5), f"Private$Estimator_{k % 9}")
    ax = ledger.plot()
    ax.figure.canvas.draw()
    bottom = min(t.get_window_extent().y0 for t in ax.get_xticklabels() if t.get_text())
    assert bottom >= 0.0
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    if n <= 15:
        assert len(ax.get_xticklabels()) == n
        assert legend == ["budget, epsilon=1"]
    else:  # colours take the place of names
        assert len(legend) == 9
        assert legend[-1] == "others"
