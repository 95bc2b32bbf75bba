"""Pure differential privacy: fits, reports and ledgers with delta=0."""

import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from cases import costs_nothing, each
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdpsco import (
    Ledger,
    PrivateGridSearchCV,
    PrivateGroupDRO,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSynthesizer,
)
from skdpsco.base.private_estimator import Payer, releasing
from skdpsco.inspection import audit, epsilon_for, epsilon_for_risk, plan, privacy_report
from skdpsco.mechanisms.samplers import SCALE_BITS, to_grid
from skdpsco.model_selection import private_cross_val_score
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateStandardScaler,
)
from skdpsco.privacy import (
    Budget,
    BudgetExceededError,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceNoisyMaxEvent,
    PureDPEvent,
    RepeatedEvent,
    Risk,
    ZCDPEvent,
    compose,
    delta_of,
    epsilon_of,
    pure_epsilon_of,
    rho_of,
)
from skdpsco.privacy.accounting import for_units
from skdpsco.privacy.report import PrivacyReport
from skdpsco.privacy.spending import left_after, pure_plan
from skdpsco.solvers import SGD, FrankWolfe
from skdpsco.solvers.l1 import vertex_path
from skdpsco.solvers.vertex_choice import vertex_scores
from skdpsco.survival import PrivateKaplanMeier
from skdpsco.variational import MatrixGame, solve_variational_inequality

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning"),
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
]

N, D, K = 600, 3, 3
BALL = {"radius": 2.0, "feature_bound": 1.0}
VERTICES = {"solver": "frank-wolfe", **BALL}
TABLE = {"solver": "multiplicative-weights", "domain": {"0": [0, 1], "1": [0, 1, 2]}}
FITS = {
    "vertices": PrivateLogisticL1(classes=[0, 1], **VERTICES),
    "vertices of classes": PrivateLogisticL1(classes=[0, 1, 2], **VERTICES),
    "vertices and steps": PrivateLogisticL1(classes=[0, 1], n_iter=5, **VERTICES),
    "vertices of numbers": PrivateLasso(target_bound=1.0, **VERTICES),
    "noisy maxima": PrivateLogisticL1(
        classes=[0, 1], **{**VERTICES, "solver": "frank-wolfe-laplace"}
    ),
    "a solver's own name": PrivateLinearClassifier(
        classes=[0, 1], p=1, **{**VERTICES, "solver": FrankWolfe()}
    ),
    "ranges": PrivateQuantileClipper(lower=-1.0, upper=1.0),
    "features": PrivateFeatureSelector(classes=[0, 1], feature_bound=1.0, n_features_to_select=2),
    "queries": PrivateSynthesizer(**TABLE),
    "nothing": PrivateFeatureSelector(classes=[0, 1], feature_bound=1.0, n_features_to_select=D),
}
PAYERS = {
    "alone": lambda: {},
    "ledger with delta=0": lambda: {"ledger": Ledger(1.0, 0)},
    "ledger with a delta": lambda: {"ledger": Ledger(9.0, 1e-6)},
    "ledger for units": lambda: {"ledger": Ledger(1.0, 0, max_records_per_unit=K)},
    "units": lambda: {"max_records_per_unit": K},
}


def data(name, n=N):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (n, D)), rng.integers(3 if "classes" in name else 2, size=n)
    if name == "ranges":
        return (X,)
    if name == "queries":
        return (pd.DataFrame({"0": y, "1": rng.integers(3, size=n)}),)
    return X, X[:, 0] if "numbers" in name else y


def pure(name, **params):
    return clone(FITS[name]).set_params(delta=0, **params)


@each("name, paid", itertools.product(FITS, PAYERS))
def test_fits_spend_their_epsilon_and_no_more(name, paid):
    payer = PAYERS[paid]()
    more = {"units": np.arange(N) // K} if paid == "units" else {}
    model = pure(name, **payer).fit(*data(name), **more)
    spent = pure_epsilon_of(model.privacy_.event)
    # With another draw the queries would cost more than epsilon, and with these a little less.
    least = 0.95 if name == "queries" else 1.0 - 2e-9
    assert spent == 0.0 if name == "nothing" else least < spent <= 1.0
    assert rho_of(model.privacy_.event) == model.privacy_.rho
    if paid == "ledger with delta=0":
        assert payer["ledger"].spent().epsilon == pytest.approx(spent, rel=1e-12)


@each("name", set(FITS) - {"nothing"})
def test_reports_name_pure_privacy_alone(name):
    report = pure(name).fit(*data(name)).privacy_
    shown, entry = str(report), json.loads(report.to_json())["deployment"]
    assert (report.epsilon, report.delta) == (1.0, 0.0)
    assert "\nepsilon     1  " in shown
    assert "\ndelta       0  (pure differential privacy: this never fails)" in shown
    assert "holds for every result" in shown
    assert "rho" not in shown
    assert "revealed" not in shown
    assert "or epsilon" not in shown
    assert entry["dp_variant"]["variant_name"] == "Pure DP"
    assert entry["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 0.0}
    assert PrivacyReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


@each("name", [name for name in FITS if name not in ("queries", "nothing")])
def test_plans_are_those_of_fits(name):
    planned = plan(pure(name), N, D, n_classes=3 if "classes" in name else 2)
    assert planned.event == pure(name).fit(*data(name)).privacy_.event
    assert planned.delta == 0.0


@each("name, n, d", itertools.product(("vertices", "vertices of classes"), (10, 5000), (3, 2000)))
def test_fits_with_little_budget_spend_all_of_it_on_their_draws(name, n, d):
    for epsilon in (1e-3, 0.3):
        model = pure(name, epsilon=epsilon, max_records_per_unit=4)
        planned = plan(model, n, d, n_classes=3 if "classes" in name else 2)
        assert 1.0 - 2e-9 < pure_epsilon_of(planned.event) / epsilon <= 1.0


class Laws:
    """Exact laws of fits with Frank-Wolfe: the probability of every path of vertices."""

    def __init__(self, monkeypatch, model, n_vertices):
        self.model, self.n_vertices = model, n_vertices
        monkeypatch.setattr(vertex_path, "choose_vertex", self.choose)

    def choose(self, vertices, G, grid, mechanism, rng):
        scores = np.empty(len(vertices.axis))
        vertex_scores(vertices, G, scores)
        units = np.array([to_grid(-score, grid) for score in scores], dtype=float)
        self.log_probability += log_softmax(units / 2.0**SCALE_BITS)[self.path[0]]
        return self.path.pop(0)

    def of(self, X, y):
        found = []
        for path in itertools.product(range(self.n_vertices), repeat=self.model.n_iter):
            self.path, self.log_probability = list(path), 0.0
            self.model.fit(X, y)
            found.append(self.log_probability)
        return np.array(found)


def test_the_laws_of_whole_fits_to_all_neighbours_are_within_epsilon(monkeypatch):
    """All tables of two records, with x in {-1, 0, 1} and two labels; all paths of two steps."""
    epsilon, records = 2.0, list(itertools.product((-1.0, 0.0, 1.0), (0, 1)))
    model = PrivateLogisticL1(
        classes=[0, 1], fit_intercept=False, n_iter=2, epsilon=epsilon, delta=0, **VERTICES
    )
    laws, found = Laws(monkeypatch, model, n_vertices=2), {}
    for table in itertools.product(records, repeat=2):
        X, y = np.array([[x] for x, _ in table]), np.array([label for _, label in table])
        found[table] = laws.of(X, y)
        assert np.exp(found[table]).sum() == pytest.approx(1.0)
    losses = [
        np.abs(found[one] - found[other]).max()
        for one, other in itertools.combinations(found, 2)
        if one[0] == other[0] or one[1] == other[1]
    ]
    assert 0.4 * epsilon < max(losses) <= epsilon
    both = [np.abs(p - q).max() for p, q in itertools.combinations(found.values(), 2)]
    assert 0.8 * epsilon < max(both) <= 2 * epsilon  # a unit of two records


GAME = np.random.default_rng(0).uniform(-1, 1, (50, 2, 2))
X, Y = data("vertices")
Z = X[:, 0]


@each(
    ("model", "given"),
    [
        (PrivateLogisticL1(), (X, Y)),
        (PrivateLogisticL1(radius=2.0, n_iter=5), (X, Y)),
        (PrivateLogisticL1(**{**VERTICES, "solver": "noisy-frank-wolfe"}), (X, Y)),
        (PrivateLogisticL1(**{**VERTICES, "solver": "anytime-mirror-descent"}), (X, Y)),
        (pure("vertices", relation="add-or-remove-one"), (X, Y)),
        (PrivateLogisticRegression(), (X, Y)),
        (PrivateLogisticRegression(solver=SGD(accountant="rdp"), n_iter=9), (X, Y)),
        (PrivateLinearSVC(), (X, Y)),
        (PrivateRidge(), (X, Z)),
        (PrivateRidge(), (X, Z, {"public_data": (X[:50], Z[:50])})),
        (PrivateRidge(), (X, X)),
        (PrivateQuantileRegressor(), (X, Z)),
        (PrivateLinearClassifier(), (X, Y)),
        (PrivateGroupDRO(), (X, Y, {"sensitive_features": Y})),
        (PrivateMoments(), (X, Z)),
        (PrivateStandardScaler(), (X,)),
        (PrivateKaplanMeier(times=[0.5]), (np.column_stack([Y > 0, np.abs(Z)]),)),
        (PrivateFeatureSelector(n_features_to_select=2, classes=[0, 1]), (X, Y)),
        (PrivateSynthesizer(domain=TABLE["domain"]), data("queries")),
        (PrivateGridSearchCV(FITS["vertices"], {"radius": [1.0, 2.0]}), (X, Y)),
    ],
)
def test_other_fits_are_refused_before_their_charge(model, given):
    *given, more = given if isinstance(given[-1], dict) else (*given, {})
    said = costs_nothing(model.set_params(delta=0), "delta=0 covers neither", *given, **more)
    assert "PrivateQuantileClipper with lower and upper" in said
    if not isinstance(model, PrivateGridSearchCV):  # nor is anything charged to a pure ledger
        ledger = Ledger(9.0, 0, relation=getattr(model, "relation", "replace-one"))
        with pytest.raises(BudgetExceededError, match=r"epsilon=inf.*With delta=0"):
            model.set_params(delta=1e-6, ledger=ledger).fit(*given, **more)
        assert ledger.charges() == []


@each(
    "use",
    [
        lambda: solve_variational_inequality(MatrixGame(2, 2), GAME, delta=0),
        lambda: private_cross_val_score(FITS["vertices"], X, Y, epsilon=1.0, delta=0),
        lambda: epsilon_for_risk(0.05, delta=0, noise="gaussian"),
        lambda: Budget(1.0, 0).rho,
        lambda: Budget(1.0, 0).mu,
        lambda: Budget.from_rho(0.1, 0),
    ],
)
def test_what_needs_a_delta_says_so(use):
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\) here.*tiny delta"):
        use()


@each(
    ("event", "said"),
    [
        (GaussianEvent(1e9), "delta=0 covers neither"),
        (ZCDPEvent(1e-30), "delta=0 covers neither"),
        (PureDPEvent(1.0 + 1e-9), r"epsilon=1\.0 must be at least what is released costs: 1\.0"),
    ],
)
def test_no_release_is_charged_beyond_epsilon_whoever_planned_it(event, said):
    ledger = Ledger(9.0, 1e-6)
    with (
        pytest.raises(ValueError, match=said),
        releasing(Payer(ledger, "release", {}), event, Budget(1.0, 0), None),
    ):
        pytest.fail("noise would be drawn")
    assert ledger.charges() == []
    with pytest.raises(ValueError, match="delta=0 covers neither"):
        left_after(Budget(1.0, 0), event)


def draws(epsilon0, count=1):
    return SimpleNamespace(event=RepeatedEvent(ExponentialMechanismEvent(epsilon0), count))


@each("k", [1, 4])
def test_searches_for_a_rho_keep_to_epsilon_whatever_planners_do(k):
    budget = Budget(0.7, 0, k)

    def divided(allowance):
        return draws(math.sqrt(8 * allowance.rho / 9), 9)

    def jumping(allowance):  # the number of draws falls and grows with rho
        count = 1 + int(1e4 * allowance.rho) % 7
        return draws(math.sqrt(8 * allowance.rho / count), count)

    found = k * pure_epsilon_of(pure_plan(divided, budget).event)
    assert 0.7 * (1 - 2e-9) < found < 0.7
    assert 0.1 < k * pure_epsilon_of(pure_plan(jumping, budget).event) < 0.7
    refused = {
        GaussianEvent(1e9): "delta=0 covers neither",
        ZCDPEvent(1e-30): "delta=0 covers neither",
        PureDPEvent(0.71): "epsilon=0.7 is less than the plan costs",
    }
    for event, said in refused.items():
        with pytest.raises(ValueError, match=said):
            pure_plan(lambda _, event=event: SimpleNamespace(event=event), budget)


@each("k", [2, 5])
def test_units_of_k_records_multiply_epsilon0(k):
    event = compose(ExponentialMechanismEvent(0.1), RepeatedEvent(LaplaceNoisyMaxEvent(0.2), 3))
    unit = for_units(event, k)
    assert pure_epsilon_of(unit) == pytest.approx(k * pure_epsilon_of(event), rel=1e-12)
    assert rho_of(unit) == pytest.approx(k**2 * rho_of(event), rel=1e-12)
    assert for_units(compose(event, GaussianEvent(3.0)), k) == ZCDPEvent(
        k**2 * rho_of(compose(event, GaussianEvent(3.0)))
    )


def test_epsilon_at_delta_0_is_the_pure_one():
    event = compose(PureDPEvent(0.5), ExponentialMechanismEvent(0.25))
    assert epsilon_of(event, 0) == pure_epsilon_of(event) == pytest.approx(0.75, rel=1e-14)
    assert epsilon_of(compose(event, GaussianEvent(9.0)), 0.0) == math.inf
    assert delta_of(event, 0.74) > 0.0


@each("epsilon", [0.0, 0.3, 1.0, 5.0])
def test_trade_off_of_pure_privacy(epsilon):
    risk, rates = Risk(epsilon, 0), np.array([1e-4, 0.01, 0.3, 0.5, 0.9])
    best = np.minimum(np.exp(epsilon) * rates, 1 - (1 - rates) / np.exp(epsilon))
    found = [risk.true_positive_rate(rate) for rate in rates]
    np.testing.assert_allclose(found, best, rtol=1e-9)
    assert risk.accuracy == pytest.approx(math.exp(epsilon) / (1 + math.exp(epsilon)))


def test_the_epsilon_of_a_risk():
    epsilon = epsilon_for_risk(0.05, 0.01, delta=0)
    assert epsilon == pytest.approx(math.log(5.0), rel=1e-9)
    assert epsilon_for(pure("vertices"), 2000, D) < 1.0


def test_pipelines_add_epsilons():
    pipeline = make_pipeline(pure("ranges"), pure("vertices", epsilon=0.5))
    report = privacy_report(pipeline)
    assert (report.epsilon, report.delta) == (pytest.approx(1.5), 0.0)
    report = privacy_report(pipeline.fit(*data("vertices")))
    assert 1.4 < report.epsilon <= 1.5
    assert "holds for every result" in str(report)


def test_audits_of_pure_fits():
    result = audit(pure("vertices"), X[:60], Y[:60], n_fits=40, random_state=0)
    assert (result.delta, result.convicted) == (0.0, False)


# Ledgers


def test_a_ledger_adds_pure_epsilons(tmp_path):
    ledger = Ledger(1.0, 0, path=tmp_path / "ledger.db")
    for _ in range(3):
        pure("vertices", epsilon=1 / 3, ledger=ledger).fit(*data("vertices"))
    spent = ledger.spent()
    assert 1.0 - 2e-9 < spent.epsilon <= 1.0
    assert spent.rho == pytest.approx(spent.epsilon**2 / 2)
    assert ledger.remaining() == (pytest.approx(1.0 - spent.epsilon, abs=1e-12), 0.0, 0.0)
    with pytest.raises(BudgetExceededError, match=r"costs epsilon=0\.5, .*has epsilon=1.* left"):
        pure("vertices", epsilon=0.5, ledger=ledger).fit(*data("vertices"))
    again = Ledger.open(ledger.path)
    assert again.spent() == spent
    assert list(again.history()["epsilon"]) == pytest.approx(
        np.cumsum([charge.rho for charge in again.charges()])
    )
    for text in (repr(again), again._repr_html_()):
        assert "rho" not in text
    assert json.loads(again.to_json())["delta"] == 0.0


def test_ledgers_and_fits_with_unusual_numbers(tmp_path):
    ledger = Ledger(1.0, -0.0, path=tmp_path / "ledger.db")
    ledger.charge(PureDPEvent(0.25))
    for again in (Ledger.open(ledger.path), Ledger(1.0, 0, ledger.path)):
        assert (str(again.delta), again.spent().epsilon) == ("0.0", pytest.approx(0.25))
    huge = Ledger(1e200, 0)
    huge.charge(PureDPEvent(1e99))
    assert huge.spent().epsilon == pytest.approx(1e99)
    for delta in (np.array(0.0), np.zeros(2), [0]):
        with pytest.raises(TypeError, match=r"delta must be a finite real number in \[0, 1\)"):
            Budget(1.0, delta)
    for epsilon, size in ((1e200, "large"), (1e-200, "small")):
        costs_nothing(pure("vertices", epsilon=epsilon), f"is too {size}", *data("vertices"))


def test_charges_of_other_tools_fill_a_ledger():
    ledger = Ledger(1.0, 0)
    for _ in range(10):
        ledger.charge(PureDPEvent(0.1))  # ten times this float are more than 1
    assert ledger.spent().epsilon == 1.0
    with pytest.raises(BudgetExceededError):
        ledger.charge(PureDPEvent(1e-9))


@each("event", [GaussianEvent(1e6), ZCDPEvent(1e-12), compose(PureDPEvent(0.1), ZCDPEvent(1e-9))])
def test_a_ledger_with_delta_0_admits_nothing_else(event):
    ledger = Ledger(1e3, 0)
    with pytest.raises(BudgetExceededError, match=r"costs epsilon=inf.*With delta=0"):
        ledger.charge(event)
    assert ledger.charges() == []


@each(
    ("ledger", "relation", "times"),
    [
        ({}, "replace-one", 1),
        ({"max_records_per_unit": 4}, "replace-one", 4),
        ({"max_records_per_unit": 4}, "add-or-remove-one", 8),
        ({"relation": "add-or-remove-one"}, "add-or-remove-one", 1),
    ],
)
def test_charges_count_once_for_every_replacement(ledger, relation, times):
    ledger = Ledger(1.0, 0, **ledger)
    ledger.charge(PureDPEvent(0.1), relation=relation)
    assert ledger.spent().epsilon == pytest.approx(0.1 * times, rel=1e-12)


def test_parts_cost_as_much_as_the_costliest():
    ledger = Ledger(1.0, 0)
    with ledger.parallel(3) as parts:
        for epsilon, part in zip((0.2, 0.5, 0.4), parts, strict=True):
            part.charge(PureDPEvent(epsilon))
        with pytest.raises(BudgetExceededError):
            parts[1].charge(PureDPEvent(0.6))
    assert ledger.spent().epsilon == pytest.approx(0.5)


def test_plots_show_epsilons():
    pytest.importorskip("matplotlib").use("Agg")
    ledger = Ledger(1.0, 0)
    ledger.charge(PureDPEvent(0.25))
    assert ledger.plot().patches[0].get_height() == pytest.approx(0.25)
    with pytest.raises(ValueError, match="unit must be 'epsilon'"):
        ledger.plot(unit="rho")
