"""Plans without data: fits are charged for the same, and nothing is spent on plans."""

import warnings

import numpy as np
import pandas as pd
import pytest

from skdpsco import (
    Ledger,
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateGridSearchCV,
    PrivateGroupDRO,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearDiscriminantAnalysis,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMonotoneGLM,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSynthesizer,
    UtilityWarning,
)
from skdpsco.inspection import PrivacyUtilityDisplay, epsilon_for, n_for, plan
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
)
from skdpsco.privacy import NoOpEvent, Risk, epsilon_of, rho_of
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.solvers import SGD

N, D = 600, 4
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (N, D))
Y = X[:, 0] - 0.5 * X[:, 2] + 0.1 * rng.normal(size=N)
C = (Y > 0).astype(int)
GROUPS = {"sensitive_features": np.arange(N) % 2}

CASES = [
    (PrivateRidge(), Y, {}),
    (PrivateElasticNet(feature_bound=None, epsilon=3.0), Y, {}),
    (PrivateElasticNet(feature_bound=None, relation=ADD_OR_REMOVE), Y, {}),
    (PrivateElasticNet(solver="sgd", target_bound=2.0), Y, {}),
    (PrivateLasso(), Y, {}),
    (PrivateRidge(), np.column_stack([Y, Y]), {}),
    (PrivateLasso(feature_bound=1.0, epsilon=10.0), np.column_stack([Y, Y]), {}),
    (PrivateLasso(radius=2.0, solver="frank-wolfe-laplace"), Y, {}),
    (PrivateLogisticRegression(classes=[0, 1, 2]), C, {}),
    (PrivateLogisticL1(), C, {}),
    (PrivateLinearClassifier(p=1.0, loss="hinge"), C, {}),
    (PrivateLinearSVC(), C, {}),
    (PrivateLinearDiscriminantAnalysis(classes=[0, 1, 2]), C, {}),
    (PrivateHuberRegressor(threshold=0.5, epsilon=0.5), Y, {}),
    (PrivateQuantileRegressor(quantile=0.9), Y, {}),
    (PrivatePoissonRegressor(target_bound=2.0), np.abs(Y), {}),
    (PrivateGammaRegressor(feature_bound=None), np.abs(Y), {}),
    (PrivateLinearRegressor(), Y, {}),
    (PrivateMonotoneGLM(), C, {}),
    (PrivateGroupDRO(), C, GROUPS),
    (PrivateGroupDRO(group_membership="private", groups=[0, 1]), C, GROUPS),
    (PrivateMinimaxClassifier(), C, {}),
    (PrivateMinimaxRegressor(tasks="columns"), np.column_stack([Y, X[:, 1]]), {}),
    (PrivateStandardScaler(), None, {}),
    (PrivateQuantileClipper(), None, {}),
    (PrivateSplineTransformer(), None, {}),
    (PrivateSplineTransformer(knots="uniform", lower=-1, upper=1), None, {}),
    (PrivateSplineTransformer(lower=-1, upper=1, relation=ADD_OR_REMOVE), None, {}),
    (PrivateFeatureSelector(n_features_to_select=2), C, {}),
]


def sizes(y):
    return {"n_targets": 1 if y is None or y.ndim == 1 else y.shape[1]}


@pytest.mark.parametrize("ledger", [False, True])
@pytest.mark.parametrize(("model", "y", "others"), CASES)
def test_a_plan_is_what_a_fit_is_charged_for(model, y, others, ledger):
    """Whatever the data are; a plan charges nothing, and leaves the estimator as it was."""
    relation = ADD_OR_REMOVE if model._relation == ADD_OR_REMOVE else "replace-one"
    book = Ledger(20.0, 1e-5, relation=relation) if ledger else None
    model = type(model)(**{**model.get_params(deep=False), "ledger": book})
    planned = plan(model, N, D, **sizes(y))
    assert not hasattr(model, "privacy_")
    assert book is None or book.charges() == []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = model.fit(X, y, **others).privacy_
    told = tuple(str(w.message) for w in caught if w.category is UtilityWarning)
    assert planned.event == report.event
    assert (planned.epsilon, planned.delta, planned.rho) == (1.0 * model.epsilon, 1e-6, report.rho)
    assert planned.relation == report.relation
    assert planned.warnings == told
    assert report.rho == rho_of(report.event)
    if isinstance(report.event, NoOpEvent):  # knots are declared
        return
    if book is None:  # otherwise charges add up in zCDP
        assert 0.8 * model.epsilon < epsilon_of(report.event, 1e-6) <= model.epsilon * (1 + 1e-12)
    else:
        assert [one.rho for one in book.charges()] == [planned.rho]


@pytest.mark.parametrize(("model", "y", "others"), CASES)
def test_the_releases_cost_what_the_plan_says(model, y, others):
    planned = plan(model, N, D, **sizes(y))
    total = sum(one.rho for one in planned.releases)
    if planned.mu is not None:
        assert total == pytest.approx(planned.rho)
        assert planned.mu == pytest.approx((2.0 * planned.rho) ** 0.5)
    assert 0.5 * planned.rho <= planned.n_fits * total
    assert total <= planned.rho * (1.0 + 1e-9)
    for one in planned.releases:
        assert one.share == pytest.approx(one.rho / planned.rho)
        if one.mechanism == "Gaussian":
            assert one.rho == pytest.approx(one.count / (2.0 * one.noise**2))
            assert one.mean_noise == (2.0 - (model._relation == ADD_OR_REMOVE)) * one.noise / N
        if one.mechanism == "exponential draw":
            assert one.rho == pytest.approx(one.count * (np.pi**2 / 6.0) / (8.0 * one.noise**2))


def test_numbers_follow_from_the_shape():
    assert (
        plan(PrivateLogisticRegression(), N, D).event
        != plan(PrivateLogisticRegression(), N, D, n_classes=5).event
    )
    # The layout of records that are conditioned decides nothing.
    for model, alike in (
        (PrivateRidge(), True),
        (PrivateRidge(solver="coordinate-descent"), False),
    ):
        assert (plan(model, N, D, sparse=True).event == plan(model, N, D).event) == alike
    small = plan(PrivateGroupDRO(), 400, D, n_groups=8).warnings
    assert any("group" in line for line in small)
    bounds = {"a": 1.0, "b": 3.0}
    planned = plan(PrivateRidge(feature_bound=bounds), N, ["b", "a"])
    frame = pd.DataFrame(X[:, :2], columns=["b", "a"])
    assert planned.event == PrivateRidge(feature_bound=bounds).fit(frame, Y).privacy_.event


def test_how_a_plan_is_shown():
    planned = plan(PrivateRidge(epsilon=0.05, target_bound=1.0), N, D)
    frame = planned.to_frame()
    assert list(frame.columns)[:3] == ["stage", "mechanism", "count"]
    assert len(frame) == len(planned.releases) == len(planned.rows())
    text, html = str(planned), planned._repr_html_()
    first, *others = planned.lines()
    assert first.startswith("PrivateRidge on 600 records")
    assert others[: len(planned.risk.lines())] == planned.risk.lines()
    assert planned.risk == Risk(planned.epsilon, planned.delta, planned.event, planned.relation)
    shares = dict.fromkeys(one.stage for one in planned.releases)
    for stage in shares:
        shares[stage] = sum(one.share for one in planned.releases if one.stage == stage)
        assert f"{100 * shares[stage]:.1f} % on {stage}" in text
    assert set(shares) == {"range of the target", "GradientDescent"}
    words, numbers = html.split("<details>")
    for part in ("PrivateRidge on 600 records", "GradientDescent", "The noise will be larger"):
        assert part in text
        assert part in words
    assert "rho" not in words
    assert "rho=" in numbers
    assert html.count("<tr>") == len(frame) + 1


def test_inverses_are_where_warnings_end():
    epsilon = epsilon_for(PrivateRidge(), 300, 10)
    assert plan(PrivateRidge(epsilon=epsilon), 300, 10).warnings == ()
    (line,) = plan(PrivateRidge(epsilon=0.9 * epsilon), 300, 10).warnings
    assert f"or epsilon={epsilon:g}." in line  # the advice of a fit is the same
    n = n_for(PrivateRidge(epsilon=0.5), 10)
    (line,) = plan(PrivateRidge(epsilon=0.5), n - 1, 10).warnings
    assert f"{n} records would do" in line
    assert plan(PrivateRidge(epsilon=0.5), n, 10).warnings == ()
    assert (
        epsilon_for(PrivateRidge(solver=SGD(accountant="rdp")), 300, 10) < 10.0
    )  # its bounds are 1 at any epsilon


def test_inverses_of_noise():
    for model in (PrivateRidge(), PrivateElasticNet(target_bound=1.0)):
        n = n_for(model, 5, coefficient_noise=0.02)
        assert plan(model, n, 5).coefficient_noise <= 0.02 * (1 + 1e-12)
        assert plan(model, n // 2, 5).coefficient_noise > 0.02
        epsilon = epsilon_for(model, 4000, 5, coefficient_noise=0.02)
        spent = model.set_params(epsilon=epsilon)
        assert plan(spent, 4000, 5).coefficient_noise <= 0.02
        assert plan(spent.set_params(epsilon=0.5 * epsilon), 4000, 5).coefficient_noise > 0.02


def test_coefficients_have_the_noise_that_is_told():
    n, d = 4000, 6
    records = rng.uniform(-1, 1, (n, d))
    y = records @ np.ones(d) / 2.0 + 0.7 * rng.normal(size=n)  # half of it is explained
    model = PrivateRidge(target_bound=2.0)
    fits = np.array([model.fit(records, y).coef_ for _ in range(25)])
    measured = fits.std(axis=0).mean() * records.std() / y.std()
    assert 0.6 < measured / plan(model, n, d).coefficient_noise < 1.6


def test_what_cannot_be_planned():
    with pytest.raises(TypeError, match="private_steps"):
        plan("ridge", N, D)
    with pytest.raises(TypeError, match="private_steps"):
        plan(PrivateRidge, N, D)
    for search in (
        PrivateGridSearchCV(PrivateRidge(), {"alpha": [1.0]}),
        PrivateSynthesizer(domain={}),
    ):
        with pytest.raises(TypeError, match="cannot be planned"):
            plan(search, N, D)
    for wrong in ((0, D), (N, 0), (2**40, 1), (2**20, 2**20)):
        with pytest.raises(ValueError, match="must be"):
            plan(PrivateRidge(), *wrong)
    for wrong in ((1.5, D), (N, "ab"), (N, ["a", "a"])):
        with pytest.raises(TypeError, match="must be"):
            plan(PrivateRidge(), *wrong)
    with pytest.raises(ValueError, match="n_classes must be an int >= 2"):
        plan(PrivateLogisticRegression(), N, D, n_classes=1)
    with pytest.raises(ValueError, match="feature_bound"):
        plan(PrivateRidge(feature_bound=[1.0, 2.0]), N, D)
    with pytest.raises(ValueError, match="epsilon=1e-07 is too small"):
        plan(PrivateRidge(epsilon=1e-7), N, D)
    with pytest.raises(ValueError, match="noise of its coefficients is not known"):
        epsilon_for(PrivateLogisticRegression(), N, D, coefficient_noise=0.1)
    with pytest.raises(ValueError, match="coefficient_noise must be in"):
        n_for(PrivateRidge(), D, coefficient_noise=0.0)
    with pytest.raises(ValueError, match=r"No epsilon up to 10000 will do.*delta=0.1 is large"):
        epsilon_for(PrivateRidge(delta=0.1), N, D)
    with pytest.raises(ValueError, match="No n_samples up to"):
        n_for(PrivateRidge(delta=0.1), 4000)


simulate = PrivacyUtilityDisplay.simulate


@pytest.fixture
def ax():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    yield plt.subplots()[1]
    plt.close("all")


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (PrivateRidge(target_bound=30.0, feature_bound=5.0), {}),
        (PrivateLogisticRegression(), {"n_classes": 3}),
        (PrivateLinearClassifier(classes=["no", "yes"]), {}),
        (PrivateMonotoneGLM(), {}),
    ],
)
def test_simulations_come_near_to_what_was_planted(model, options, ax):
    book = Ledger(1.0, 1e-5)
    display = simulate(
        model.set_params(ledger=book), 2000, 3, [0.002, 100.0], n_repeats=17, ax=ax, **options
    )
    assert book.charges() == []
    assert display.scores.shape == (2, 17)
    assert np.median(display.scores[1]) == pytest.approx(display.baseline, abs=0.05)
    assert np.median(display.scores[0]) < np.median(display.scores[1])


def test_the_signal_is_the_share_that_can_be_explained(ax):
    display = simulate(PrivateRidge(), 100, 3, [1.0], signal=0.6, n_repeats=1, ax=ax)
    assert display.baseline == pytest.approx(0.6, abs=0.05)
    seeded = {"random_state": 0, "n_repeats": 2, "ax": ax}
    with pytest.warns(UserWarning, match="reproducible"):
        first, second = (simulate(PrivateRidge(), 100, 3, [1.0], **seeded) for _ in range(2))
    np.testing.assert_array_equal(first.scores, second.scores)


def test_what_is_not_simulated(ax):
    for model in (PrivateGroupDRO(), PrivateMinimaxRegressor(tasks="columns"), "ridge"):
        with pytest.raises(TypeError):
            simulate(model, 100, 3, [1.0], ax=ax)
    with pytest.raises(ValueError, match=r"signal must be .*in \[0, 1\]"):
        simulate(PrivateRidge(), 100, 3, [1.0], signal=1.5, ax=ax)
    with pytest.raises(TypeError, match=r"signal must be a .*number"):
        simulate(PrivateRidge(), 100, 3, [1.0], signal="much", ax=ax)
    with pytest.raises(ValueError, match="epsilons must be"):
        simulate(PrivateRidge(), 100, 3, [], ax=ax)
