"""PrivateGroupDRO with each of its losses and solvers."""

import numpy as np
import pytest

from skdpsco import PrivateGroupDRO
from skdpsco.group_dro import group_report

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
SOLVERS = ["mirror-prox", "recursive-regularisation"]

rng = np.random.default_rng(0)
N = 4000
X = rng.uniform(-1, 1, (N, 3))
GROUP = np.arange(N) % 4 == 0  # a quarter for which feature 0 means the opposite
SIGNAL = X[:, 1] + np.where(GROUP, -1.0, 1.0) * 0.8 * X[:, 0]


def fit(loss, epsilon=1e4, **options):
    y = SIGNAL > 0 if loss in ("logistic", "hinge") else 0.5 * SIGNAL
    model = PrivateGroupDRO(loss=loss, epsilon=epsilon, **{"radius": 4.0, **options})
    return model.fit(X, y, sensitive_features=GROUP), y


def worst(model, y):
    return group_report(model, X, y, sensitive_features=GROUP).group_min()


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_mirror_prox_and_descent_agree_without_noise(loss):
    descent, y = fit(loss, epsilon=1e8)
    steps, _ = fit(loss, epsilon=1e8, solver="mirror-prox", n_iter=400)
    assert worst(steps, y) == pytest.approx(worst(descent, y), abs=0.03)


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
@pytest.mark.parametrize("options", [{}, {"radius": 1.0}, {"radius": 1.0, "objective": "cvar"}])
def test_auto_is_gradient_descent(options):
    auto, _ = fit("logistic", random_state=0, **options)
    named, _ = fit("logistic", random_state=0, **options, solver="gradient-descent")
    assert np.array_equal(auto.coef_, named.coef_)


def test_only_the_logistic_loss_has_probabilities():
    assert hasattr(fit("logistic")[0], "predict_proba")
    hinge = fit("hinge")[0]
    assert not hasattr(hinge, "predict_proba")
    assert hinge.decision_function(X).shape == (N,)
    assert set(hinge.predict(X)) == {False, True}
    assert not hasattr(fit("absolute")[0], "decision_function")


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_mirror_prox_lacks(solver):
    with pytest.raises(ValueError, match=r"^objective='cvar' needs solver='gradient-descent'"):
        fit("logistic", solver=solver, objective="cvar")
    with pytest.raises(ValueError, match=r"^group_prior must hold a share"):
        fit("logistic", solver=solver, group_membership="private", groups=[False, True])
    fit("logistic", solver=solver, group_membership="private", groups=[False, True],
        group_prior=[0.75, 0.25])  # fmt: skip


def test_solver_by_another_name():
    with pytest.raises(ValueError, match="solver"):
        fit("logistic", solver="mirror")
