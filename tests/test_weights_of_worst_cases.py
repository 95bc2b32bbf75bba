"""Weights of classes in models for the worst group, class or task."""

from inspect import signature

import numpy as np
import pytest
from cases import each
from numpy.testing import assert_allclose
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression

import skdpsco
from skdpsco import PrivateGroupDRO, PrivateMinimaxClassifier
from skdpsco.losses import Hinge, Logistic, SmoothHinge
from skdpsco.variational.loss_tasks import PreparedBall, PreparedVertices

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdpsco.UtilityWarning", "ignore::skdpsco.PrivacyWarning"
)
N = 6000
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (N, 3))
GROUP = rng.integers(0, 2, N)
SCORES = 2.0 * X @ [1.0, -1.0, 0.5] + rng.logistic(size=N)
RARE = SCORES > 3.0  # one in ten
HEAVY = {True: 10.0}


def of_groups(**params):
    params = {"epsilon": 4.0, "random_state": 0, "classes": [False, True], **params}
    return PrivateGroupDRO(**params).fit(X, RARE, sensitive_features=GROUP)


def of_classes(y=RARE, **params):
    return PrivateMinimaxClassifier(**{"epsilon": 8.0, "random_state": 0, **params}).fit(X, y)


def test_all_classifiers_take_weights_of_classes():
    models = [getattr(skdpsco, name) for name in skdpsco.__all__ if name.startswith("Private")]
    models = [model for model in models if "classes" in signature(model).parameters]
    weighted = {model for model in models if "class_weight" in signature(model).parameters}
    assert {model for model in models if is_classifier(model())} <= weighted
    assert len(weighted) == 8


def test_without_noise_the_average_is_that_of_scikit_learn():
    expected = LogisticRegression(class_weight=HEAVY, C=1e6).fit(X, RARE)
    params = {"class_weight": HEAVY, "epsilon": 1e6}
    for model in (
        of_groups(cvar_level=1.0, **params),
        of_groups(cvar_level=1.0, group_membership="private", groups=[0, 1], **params),
        of_classes(tasks=None, **params),
    ):
        assert_allclose(model.coef_, expected.coef_, atol=0.05)
        assert_allclose(model.intercept_, expected.intercept_, atol=0.05)


@pytest.mark.usefixtures("as_they_are")
def test_without_noise_the_worst_mean_of_weighted_losses_is_least():
    """Groups whose shares of the heavy class differ: one of a third, one of a fortieth."""
    rng = np.random.default_rng(1)
    group = (rng.random(N) < np.where(RARE, 0.8, 0.2)).astype(int)

    def worst(w):
        z = X @ w[:3] + w[3]
        losses = np.logaddexp(z, 0.0) - RARE * z
        losses *= np.where(RARE, 1.0, 0.1)
        return max(losses[group == g].mean() for g in (0, 1))

    params = {"epsilon": 1e6, "radius": 6.0}
    model = PrivateGroupDRO(class_weight=HEAVY, **params)
    model.fit(X, RARE, sensitive_features=group)
    w = np.append(model.coef_, model.intercept_)
    nearby = w + 0.3 * rng.normal(size=(200, 4))
    assert worst(w) <= min(map(worst, nearby)) + 0.01
    plain = PrivateGroupDRO(**params).fit(X, RARE, sensitive_features=group)
    assert worst(w) < worst(np.append(plain.coef_, plain.intercept_)) - 0.05


@each("made", [PreparedVertices, PreparedBall])
@each("shares", [None, (0.3, 0.7)])
def test_a_record_of_weight_three_quarters_is_three_of_four(made, shares):
    """Both give the same gradient of the model and, up to a constant, the same levels of tasks."""
    shares = None if shares is None else np.array(shares)
    losses = (Logistic(), SmoothHinge(), Hinge())
    plain, weighted = (made(losses, 3, 2.0, 1, shares, w) for w in (None, (1.0, 0.75)))
    z = np.concatenate([np.full(block.size, 1.0 / block.size) for block in plain.blocks])
    y = np.array([[1.0], [1.0], [-1.0]])
    groups = () if shares is None else (np.eye(2)[[0, 0, 1]],)
    data = (y, X[:3], *groups)
    ones = [plain.total(z, tuple(part[[i]] for part in data)) for i in range(3)]
    nothing = made(losses, 3, 2.0, 1, shares, (1.0, 0.0))
    nothing = [nothing.total(z, tuple(part[[i]] for part in data)) for i in range(2)]
    expected = 0.75 * (ones[0] + ones[1]) + 0.25 * (nothing[0] + nothing[1]) + ones[2]
    assert_allclose(weighted.total(z, data), expected, atol=1e-12)


def test_weights_are_for_classes():
    with pytest.raises(ValueError, match="class_weight must be None with loss='squared'"):
        of_groups(loss="squared", class_weight=HEAVY)
    with pytest.raises(TypeError, match="max_weight"):
        PrivateGroupDRO(max_weight=2.0)
