"""PrivateMinimaxClassifier and PrivateMinimaxRegressor as scikit-learn and their users see them."""

import numpy as np
import pytest
from cases import each
from sklearn.base import is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score

from skdpsco import PrivateMinimaxClassifier, PrivateMinimaxRegressor
from skdpsco.group_dro import worst_group_score
from skdpsco.losses import Hinge, Huber, Logistic, Multinomial, Quantile, Squared
from skdpsco.minimax._descent import TaskGradients
from skdpsco.minimax._solver import minimax_solver
from skdpsco.minimax._tasks import Tasks
from skdpsco.solvers import MirrorProx
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")


def classification(n=2000, d=4, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    scores = X[:, :k] + 0.1 * rng.normal(size=(n, k)) if k > 2 else X[:, [0]] > 0.4
    return X, scores.argmax(axis=1) if k > 2 else scores[:, 0].astype(int)


def classifier(**params):
    return PrivateMinimaxClassifier(**{"epsilon": 20.0, "random_state": 0, **params})


def regressor(**params):
    return PrivateMinimaxRegressor(**{"epsilon": 20.0, "random_state": 0, **params})


# ------------------------------------------------------------------------------ fits


@pytest.mark.parametrize("solver", ["auto", "mirror-descent", "mirror-prox"])
@pytest.mark.parametrize("k", [2, 3])
def test_classes_as_tasks(solver, k):
    X, y = classification(k=k)
    model = classifier(solver=solver, radius=5.0).fit(X, y)
    assert model.task_weights_.shape == (1, k)
    assert model.task_weights_.sum() == pytest.approx(1.0)
    assert worst_group_score(model, X, y, sensitive_features=y) > 0.65
    assert model.class_prior_ == pytest.approx(np.bincount(y) / len(y), abs=0.05)
    bound = 5.0 * (1 + 1e-9)
    size = np.abs(model.coef_).sum() + np.abs(model.intercept_).sum()
    assert size <= bound or solver == "auto"


def test_columns_as_tasks():
    """The best common answer to annotators who disagree is neither's."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (10_000, 3))
    y = np.stack([X[:, 0] > 0, X[:, 0] > 0, X[:, 1] > 0], axis=1)
    model = classifier(tasks="columns").fit(X, y)
    assert model.coef_.shape == (1, 3)
    assert model.task_weights_.shape == (1, 3)
    assert model.predict(X).shape == (10_000,)
    columns = [accuracy_score(column, model.predict(X)) for column in y.T]
    assert model.score(X, y) == min(columns)
    assert min(columns) > 0.68  # 3 / 4 is possible; for the majority it is 1 / 2


def test_columns_of_a_regression():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (10_000, 3))
    y = 0.5 * X[:, [0]] + [0.0, 0.0, 0.4] + 0.05 * rng.normal(size=(10_000, 3))
    model = regressor(tasks="columns", target_bound=1.5).fit(X, y)
    assert is_regressor(model)
    assert model.coef_.shape == (3,)
    assert model.intercept_ == pytest.approx(0.2, abs=0.06)
    assert model.task_weights_.shape == (1, 3)
    assert model.score(X, y) == min(r2_score(column, model.predict(X)) for column in y.T)


def test_several_losses():
    """Two pinball losses: the best prediction makes them equal."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (20_000, 3))
    y = 0.5 * X[:, 0] + 0.2 * rng.standard_exponential(20_000)
    model = regressor(losses=[Quantile(0.2), Quantile(0.8)]).fit(X, y)
    r = np.clip(y, -1, 1) - model.predict(X)
    low, high = (np.maximum(q * r, (q - 1) * r).mean() for q in (0.2, 0.8))
    assert low == pytest.approx(high, abs=0.02)
    assert max(low, high) < 0.12
    assert model.task_weights_.shape == (2, 1)
    both = classifier(losses=["logistic", Hinge()], tasks="classes").fit(*classification())
    assert both.task_weights_.shape == (2, 2)


# ------------------------------------------------------------------------------ solvers


@each(
    ("tasks", "descends"),
    [
        (Tasks((Squared(1.0),)), True),
        (Tasks((Logistic(),)), True),
        (Tasks((Squared(0.5),)), True),
        (Tasks((Hinge(),)), True),
        (Tasks((Hinge(),), 1, 2), True),
        (Tasks((Multinomial(3),), 1, 3), True),
        (Tasks((Squared(1.0),), 3), True),
        (Tasks((Squared(1.0), Huber(0.1))), True),
        (Tasks((Hinge(), Logistic()), 1, 2), False),
        (Tasks((Logistic(),), 2, class_weights=(1.0, 0.5)), False),
        (Tasks((type("Own", (Squared,), {})(1.0),)), False),
    ],
)
def test_tasks_that_are_no_game(tasks, descends):
    found = minimax_solver("auto", tasks)
    assert isinstance(found, TaskGradients) == descends
    if not descends:
        with pytest.raises(ValueError, match="solver='gradient-descent' needs losses"):
            minimax_solver("gradient-descent", tasks)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("prior", [False, True])
def test_without_noise_gradients_minimise_the_mean_loss_of_classes(k, prior):
    """scikit-learn's optimum for balanced classes, of which the first has most records."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (6000, 4))
    scores = X @ rng.normal(size=(4, k)) * 3.0 + rng.gumbel(size=(6000, k))
    scores[:, 0] += 2.0
    y = scores.argmax(axis=1)
    shares = np.bincount(y) / 6000
    model = PrivateMinimaxClassifier(
        solver="gradient-descent",
        epsilon=1e6,
        classes=np.arange(k),
        class_prior=shares if prior else None,
        feature_bound=1.0,
        random_state=0,
    ).fit(X, y)
    assert model.task_weights_.tolist() == [[1.0 / k] * k]
    if not prior:
        assert model.class_prior_ == pytest.approx(shares, abs=1e-3)
    plain = LogisticRegression(C=1e6, class_weight="balanced", max_iter=1000).fit(X, y)
    W, V = model.coef_, plain.coef_
    assert W - W.mean(axis=0) * (k > 2) == pytest.approx(V - V.mean(axis=0) * (k > 2), abs=0.05)


@pytest.mark.parametrize("prior", [None, [0.7, 0.3]])
def test_steps_are_those_that_were_asked_for(prior):
    """Also of every round, where the plan is made again for the released shares."""

    class Counting(MirrorProx):
        steps = 0

        def run(self, plan, *data):
            self.steps += plan.n_iter
            return super().run(plan, *data)

    inner = Counting()
    solver = RecursiveRegularisation(inner, n_rounds=3)
    model = classifier(solver=solver, class_prior=prior, n_iter=5).fit(*classification(600))
    assert model.n_iter_ == inner.steps == 15


# ------------------------------------------------------------------------------ bad input


def test_more_than_two_classes_have_the_softmax_only():
    X, y = classification(k=3)
    # All losses without parameters are equal as tuples.
    for losses in ("hinge", ["logistic", "hinge"], Hinge()):
        with pytest.raises(ValueError, match="'logistic' with 3 classes"):
            classifier(losses=losses).fit(X, y)
