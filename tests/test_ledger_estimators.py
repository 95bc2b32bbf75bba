"""Estimators and a ledger: charged before noise, counted whatever scikit-learn copies."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import skdpsco.base.private_estimator
from skdpsco import PrivateLasso, PrivateLogisticL1
from skdpsco._random import generator
from skdpsco.base.private_estimator import public_only
from skdpsco.model_selection import PrivateGridSearchCV, private_cross_val_score
from skdpsco.privacy import Budget, BudgetExceededError, Ledger, rho_of

BOTH = pytest.mark.parametrize("Estimator", [PrivateLasso, PrivateLogisticL1])
SOLVERS = [
    "stagewise",
    "frank-wolfe",
    "frank-wolfe-laplace",
    "noisy-frank-wolfe",
    "anytime-mirror-descent",
]
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (120, 3))
Y = (X[:, 0] > 0).astype(float)
PUBLIC = {PrivateLasso: {"target_bound": 1.0}, PrivateLogisticL1: {"classes": [0.0, 1.0]}}


def model_of(Estimator, ledger, **params):
    return Estimator(**{"ledger": ledger, "epsilon": 0.5, **PUBLIC[Estimator], **params})


@BOTH
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize(
    "params",
    [*({"radius": 2.0, "solver": solver} for solver in SOLVERS), {}, {"n_iter": 5}],
    ids=[*SOLVERS, "auto", "selection"],
)
def test_a_fit_costs_what_it_reports_and_no_more_than_its_budget(Estimator, epsilon, params):
    ledger = Ledger(100.0, 1e-6)
    bound = {"feature_bound": 1.0}  # the ledger abridges events with more parts
    model = model_of(Estimator, ledger, epsilon=epsilon, **bound, **params).fit(X, Y)
    (charge,) = ledger.charges()
    budget = Budget(epsilon, model.delta)
    assert charge.rho == model.privacy_.rho == rho_of(model.privacy_.event)
    assert 0.99 * budget.rho < charge.rho <= budget.rho * (1 + 1e-10)
    assert (model.privacy_.epsilon, model.privacy_.delta) == (epsilon, model.delta)
    assert charge.event == repr(model.privacy_.event)
    assert charge.estimator == Estimator.__name__
    assert charge.parameters.keys() >= model.get_params().keys() - {"ledger", "random_state"}
    assert "ledger" not in charge.parameters
    assert charge.parameters["epsilon"] == epsilon


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")  # the seed is the point
def test_no_seed_is_in_a_history(tmp_path):
    """Readers of the history could subtract the noise; seeds of candidates count, too."""
    ledger, seed = Ledger(100.0, 1e-6, tmp_path / "ledger"), 8_675_309
    model_of(PrivateLasso, ledger, random_state=seed, radius=1.0).fit(X, X[:, 0])
    inner = PrivateLasso(random_state=seed)
    assert "random_state" not in ledger.charges()[0].parameters
    frozen = FrozenEstimator(inner)
    for shown in (inner, frozen, make_pipeline(frozen, frozen)):
        assert str(seed) not in str(public_only({"estimator": shown, "random_state": seed}))
    assert frozen.estimator is inner
    assert inner.random_state == seed
    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert any(b"PrivateLasso" in content for content in files)
    assert not any(str(seed).encode() in content for content in files)


@BOTH
@pytest.mark.parametrize("params", [{}, {"radius": 2.0}, {"radius": 2.0, "solver": SOLVERS[1]}])
def test_charged_before_noise(Estimator, params, monkeypatch):
    """Any use of the generator finds the charge on record."""
    ledger = Ledger(1.0, 1e-6)
    used = []

    class Watched(np.random.Generator):
        def __getattribute__(self, name):
            used.append((name, len(ledger.charges())))
            return super().__getattribute__(name)

    def watched(random_state, stacklevel):
        made, seeded = generator(random_state, stacklevel)
        assert ledger.charges() == []
        return Watched(made.bit_generator), seeded

    monkeypatch.setattr(skdpsco.base.private_estimator, "generator", watched)
    model_of(Estimator, ledger, **params).fit(X, Y)
    assert used
    assert all(charged == 1 for _, charged in used)


@BOTH
def test_an_exceeded_budget_draws_nothing_and_keeps_the_earlier_fit(Estimator):
    ledger = Ledger(0.6, 1e-6)
    model = model_of(Estimator, ledger).fit(X, Y)
    before = dict(vars(model))

    class Exhausted:
        """A ledger that refuses; any fit that went on would return."""

        def charge(self, *args):
            raise BudgetExceededError("no")

    for refusing in (ledger, Exhausted()):
        model.set_params(ledger=refusing)
        with pytest.raises(BudgetExceededError):
            model.fit(-X, Y)
        after = dict(vars(model), ledger=ledger)
        assert after.keys() == before.keys()
        assert all(after[name] is before[name] for name in before)
    assert len(ledger.charges()) == 1
    new = model_of(Estimator, ledger)
    with pytest.raises(BudgetExceededError):
        new.fit(X, Y)
    assert vars(new).keys() == new.get_params().keys()


@BOTH
def test_cross_validation_cannot_pass_a_ceiling(Estimator):
    """Ten fits of epsilon 0.1 under a ceiling of 0.3: each is counted, none fits beyond it."""
    ledger = Ledger(0.3, 1e-6)
    model = model_of(Estimator, ledger, epsilon=0.1)
    allowed = int(ledger.rho // Budget(0.1, 1e-6).rho)
    assert 3 <= allowed < 10
    with pytest.raises(BudgetExceededError, match="Nothing was charged or released"):
        cross_val_score(model, X, Y, cv=10, error_score="raise")
    assert len(ledger.charges()) == allowed
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = cross_val_score(model.set_params(ledger=Ledger(0.3, 1e-6)), X, Y, cv=10)
    assert np.isnan(scores).tolist() == [False] * allowed + [True] * (10 - allowed)
    (warning,) = (w for w in caught if w.category is FitFailedWarning)
    assert "BudgetExceededError" in str(warning.message)


def test_a_validation_without_a_ledger_warns_in_every_call():
    model, grid = PrivateLogisticL1(classes=[0, 1], n_iter=1), {"radius": [1.0, 2.0]}
    y = (X[:, 0] > 0).astype(int)
    private = PrivateGridSearchCV(model, grid, strategy="composition")

    def warned(fit):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit()
        return sum("Nothing counts the" in str(one.message) for one in caught)

    with_ledger = clone(model).set_params(ledger=Ledger(50.0, 1e-5))
    assert warned(lambda: cross_val_score(model, X, y, cv=2)) == 1
    assert warned(lambda: GridSearchCV(make_pipeline(model), {}, cv=2).fit(X, y)) == 1
    assert warned(lambda: cross_val_score(private, X, y, cv=2)) == 1
    assert warned(lambda: cross_val_score(with_ledger, X, y, cv=2)) == 0
    assert warned(lambda: private.fit(X, y)) == 0
    assert warned(lambda: private_cross_val_score(model, X, y, cv=2)) == 0
    assert warned(lambda: model.fit(X, y)) == 0
