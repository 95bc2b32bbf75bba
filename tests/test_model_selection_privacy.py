"""What searches and cross-validation spend, and what they keep to themselves."""

import copy
import pickle
import warnings
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import Pipeline, make_pipeline

import skdpsco.base.progress
from skdpsco import Ledger, PrivacyWarning, PrivateLogisticL1
from skdpsco.inspection import private_steps
from skdpsco.model_selection import (
    PrivateGridSearchCV,
    _allotment,
    _selection,
    private_cross_val_score,
)
from skdpsco.model_selection import search as search_module
from skdpsco.model_selection import validation as validation_module
from skdpsco.model_selection.scorers import resolve_scorer
from skdpsco.preprocessing import PrivateStandardScaler, RowClipper
from skdpsco.privacy import (
    Budget,
    BudgetExceededError,
    Poisson,
    RandomStoppingEvent,
    TruncatedNegativeBinomial,
    ZCDPEvent,
    epsilon_of,
    rho_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
N = 120
X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
Y = (X[:, 0] > 0).astype(int)
GRID = {"radius": [1.0, 2.0, 3.0]}
MODEL = PrivateLogisticL1()
SCALED = Pipeline(
    [
        ("clip", RowClipper(bound=1.5)),
        ("scale", PrivateStandardScaler(lower=-1.0, upper=1.0, epsilon=1.0, delta=1e-9)),
        ("model", PrivateLogisticL1(epsilon=2.0)),
    ]
)
EACH_ESTIMATOR = pytest.mark.parametrize("estimator", [MODEL, SCALED], ids=["model", "pipeline"])
COMPOSITION = {"strategy": "composition"}
STOPPING = {"strategy": "random-stopping"}
RELEASES = ("release_scorer", "choose_winner", "shown_scores", "best_try")


def grid_of(estimator):
    return {("" if estimator is MODEL else "model__") + name: GRID[name] for name in GRID}


def declared(estimator):
    return np.array([Budget(s.epsilon, s.delta).rho for _, s in private_steps(estimator)])


def spend(monkeypatch, fit):
    """Call ``fit`` with a ledger; who was charged how much, and what noise followed, in order."""
    log = []
    charge = _allotment.Grant.charge

    def recorded(self, event, estimator="", *args):
        charge(self, event, estimator, *args)
        if type(self) is _allotment.Grant:
            log.append((estimator, rho_of(event)))

    def logged(name, release):
        def release_and_log(*args):
            log.append((name, 0.0))
            return release(*args)

        return release_and_log

    with monkeypatch.context() as patch:
        patch.setattr(_allotment.Grant, "charge", recorded)
        for module in (search_module, validation_module):
            for name in set(RELEASES) & set(vars(module)):
                patch.setattr(module, name, logged(name, getattr(module, name)))
        fit(SimpleNamespace(charge=lambda event, *args: log.append(("ledger", rho_of(event)))))
    return log


def force_tries(monkeypatch, tried):
    monkeypatch.setattr(_selection.SearchPlan, "draw", lambda plan, n, rng: list(tried))


# --- what is spent


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("options", [COMPOSITION, {"return_scores": True}, STOPPING])
@EACH_ESTIMATOR
def test_budgets_add_up(monkeypatch, estimator, refit, options):
    searches = []

    def fit(ledger):
        params = {"epsilon": 3.0, "refit": refit, "search_share": 0.3, "ledger": ledger}
        search = PrivateGridSearchCV(estimator, grid_of(estimator), **params, **options)
        searches.append(search.fit(X, Y))

    log = spend(monkeypatch, fit)
    (search,) = searches
    total = Budget(3.0, 1e-6).rho

    def is_all_of(spent, granted):
        return granted * (1 - 1e-6) < spent <= granted * (1 + 1e-12)

    assert log[0] == ("ledger", search.privacy_.rho)  # before anything is released
    assert [name for name, _ in log].count("ledger") == 1
    assert search.privacy_.rho == rho_of(search.privacy_.event)
    # The cost of random stopping is a bound of this precision.
    rounding = 1e-3 if options is STOPPING else 1e-6
    assert total * (1 - rounding) < search.privacy_.rho <= total * (1 + 1e-12)
    assert search.privacy_.epsilon == 3.0 >= epsilon_of(search.privacy_.event, 1e-6)

    # The fits: of each try, and then of the winner. In each, every step has its proportion.
    proportions = declared(estimator) / declared(estimator).sum()
    fits = np.reshape([rho for _, rho in log[1:] if rho > 0.0], (-1, len(proportions)))
    np.testing.assert_allclose(fits / fits.sum(axis=1, keepdims=True), [proportions] * len(fits))
    tries, share = (fits[:-1], 0.3) if refit else (fits, 1.0)
    if refit:
        assert is_all_of(fits[-1].sum(), 0.7 * total)
    if options is STOPPING:
        parts = getattr(search.privacy_.event, "events", (search.privacy_.event,))
        (granted,) = (part.rho for part in parts if isinstance(part, RandomStoppingEvent))
        assert len(tries) >= 1
    else:
        granted = share * total / 3
        assert len(tries) == 3
    if not options.get("return_scores"):  # fits and scores share all records
        granted *= 0.9
    assert all(is_all_of(spent, granted) for spent in tries.sum(axis=1))

    # The winner's own report is about its own fit, and a later fit is the user's to pay for.
    for (_, step), rho in zip(private_steps(search.best_estimator_), fits[-1], strict=True):
        assert step.privacy_.rho == pytest.approx(rho)
        assert "the cost of the search" in step.privacy_.assumptions[-1]
        assert step.ledger is search.ledger


@pytest.mark.parametrize("tries", [None, TruncatedNegativeBinomial.for_mean(2.0, 9.0)])
def test_fits_and_scores_of_the_same_records_add_up(tries):
    budget, scorer = Budget(1.0, 1e-6), resolve_scorer("accuracy", MODEL)
    plan = _selection.plan_search(budget, 3, 100, scorer, None, 0.4, tries, held_out=False)
    if tries is None:
        spent, paid = 3 * plan.rho_fit + plan.scores.rho, 0.4 * budget.rho
    else:
        (paid,) = (e.rho for e in plan.event.events if isinstance(e, RandomStoppingEvent))
        spent = plan.rho_fit + plan.rho_score
    assert paid * (1 - 1e-9) < spent <= paid
    assert plan.rho_fit == pytest.approx(0.9 * paid / (3 if tries is None else 1))
    apart = _selection.plan_search(budget, 3, 100, scorer, None, 0.4, tries)
    assert apart.event == plan.event
    assert apart.rho_fit == pytest.approx(plan.rho_fit / 0.9)


@pytest.mark.parametrize(
    ("options", "n_fit", "n_scored"),
    [
        ({"epsilon": 1.0}, len(Y), len(Y)),
        ({"epsilon": 1.0, "validation_fraction": 0.25}, len(Y) - len(Y) // 4, len(Y) // 4),
        ({"epsilon": 8.0}, len(Y), len(Y)),
        ({"epsilon": 9.0}, len(Y) - len(Y) // 5, len(Y) // 5),
        ({"epsilon": 8.0, **COMPOSITION}, len(Y), len(Y)),
        ({"epsilon": 9.0, **COMPOSITION}, len(Y) - len(Y) // 5, len(Y) // 5),
        ({"epsilon": 1.0, "return_scores": True}, len(Y) - len(Y) // 5, len(Y) // 5),
    ],
)
def test_with_a_small_budget_no_record_is_spared(monkeypatch, options, n_fit, n_scored):
    """And the score of a try is as noisy as was planned."""
    fit_and_sum, best_try, seen = search_module.fit_and_sum, search_module.best_try, []

    def looked_at(estimator, train, validation, *args):
        seen.append((len(train.y), len(validation.y)))
        return fit_and_sum(estimator, train, validation, *args)

    def compared(sums, scorer, n_validation, rho, rng):
        (paid,) = (e.rho for e in events if isinstance(e, RandomStoppingEvent))
        assert rho == pytest.approx(paid * (0.1 if n_fit == n_scored else 1.0))
        return best_try(sums, scorer, n_validation, rho, rng)

    def planned(*args, **kwargs):
        plan = _selection.plan_search(*args, **kwargs)
        events[:] = getattr(plan.event, "events", (plan.event,))
        return plan

    events = []
    monkeypatch.setattr(search_module, "fit_and_sum", looked_at)
    monkeypatch.setattr(search_module, "best_try", compared)
    monkeypatch.setattr(search_module, "plan_search", planned)
    PrivateGridSearchCV(MODEL, GRID, **options).fit(X, Y)
    assert set(seen) == {(n_fit, n_scored)}


@EACH_ESTIMATOR
def test_cross_validation_adds_up(monkeypatch, estimator):
    results = []

    def fit(ledger):
        results.append(private_cross_val_score(estimator, X, Y, epsilon=2.0, ledger=ledger, cv=4))

    log = spend(monkeypatch, fit)
    report, rho_fit = results[0].privacy, declared(estimator).sum()
    assert log[0] == ("ledger", report.rho)
    assert report.rho == pytest.approx(3 * rho_fit + Budget(2.0, 1e-6).rho, rel=1e-12)
    assert report.epsilon == epsilon_of(report.event, 1e-6)
    names, charged = zip(*log[1:], strict=True)
    assert "ledger" not in names
    assert (names[0], names[-1]) == ("release_scorer", "shown_scores")
    assert 4 * rho_fit * (1 - 1e-6) < sum(charged) <= 4 * rho_fit * (1 + 1e-12)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_search_without_ledger_keeps_to_epsilon(delta):
    search = PrivateGridSearchCV(MODEL, GRID, epsilon=2.0, delta=delta).fit(X, Y)
    assert 2.0 * (1 - 1e-6) < epsilon_of(search.privacy_.event, delta) <= 2.0
    assert isinstance(search.privacy_.event, RandomStoppingEvent)  # no refit
    assert rho_of(search.privacy_.event) > Budget(2.0, delta).rho


def test_grant():
    grant = _allotment.Grant(1.0)
    assert clone(PrivateLogisticL1(ledger=grant)).ledger is copy.copy(grant) is grant
    pickle.loads(pickle.dumps(grant)).charge(ZCDPEvent(0.25))
    grant.charge(ZCDPEvent(0.75))
    for rho in (0.25, 1e-12):  # once, whatever is left
        with pytest.raises(BudgetExceededError, match="was repeated"):
            grant.charge(ZCDPEvent(rho))
    with pytest.raises(BudgetExceededError, match=r"costs rho=1\.0001 and was granted 1:"):
        _allotment.Grant(1.0).charge(ZCDPEvent(1.0001))


# --- ledgers


def test_whose_ledger():
    mine, other = Ledger(9.0, 1e-6), Ledger(9.0, 1e-6)
    own = PrivateLogisticL1(ledger=mine)
    PrivateGridSearchCV(own, GRID).fit(X, Y)
    assert len(mine.charges()) == 1
    pipeline = make_pipeline(RowClipper(), MODEL)
    search = PrivateGridSearchCV(pipeline, {"privatelogisticl1": [own, MODEL]}).fit(X, Y)
    assert len(mine.charges()) == 2
    assert search.best_estimator_[-1].ledger is mine
    assert search.ledger is None
    private_cross_val_score(own, X, Y, cv=2)
    assert len(mine.charges()) == 3
    for fit in (
        lambda: PrivateGridSearchCV(own, GRID, ledger=other).fit(X, Y),
        lambda: PrivateGridSearchCV(pipeline, search.param_grid, ledger=other).fit(X, Y),
        lambda: private_cross_val_score(own, X, Y, ledger=other),
        lambda: PrivateGridSearchCV(PrivateGridSearchCV(own, GRID), {"refit": [True]}).fit(X, Y),
    ):
        with pytest.raises(ValueError, match="must be the same: one object, or one file"):
            fit()
    assert len(mine.charges()) == 3
    assert not other.charges()


def test_too_small_a_ledger(monkeypatch):
    ledger = Ledger(0.5, 1e-6)

    def fit(_):
        search = PrivateGridSearchCV(MODEL, GRID, ledger=ledger)
        with pytest.raises(BudgetExceededError):
            search.fit(X, Y)
        assert vars(search).keys() == search.get_params(deep=False).keys()
        with pytest.raises(BudgetExceededError):
            private_cross_val_score(MODEL, X, Y, ledger=ledger)

    assert spend(monkeypatch, fit) == []
    assert not ledger.charges()


def test_nested_steps_and_copies_are_handed_over():
    ledger = Ledger(50.0, 1e-6)
    columns = ColumnTransformer(
        [("scale", PrivateStandardScaler(lower=-1, upper=1), [0, 1])], sparse_threshold=0
    )
    pipeline = Pipeline([("columns", columns), ("inner", PrivateGridSearchCV(MODEL, GRID))])
    search = PrivateGridSearchCV(pipeline, {"inner__refit": [True, False]}, ledger=ledger)
    best = search.fit(X, Y).best_estimator_
    assert len(ledger.charges()) == 1
    assert "not included" not in str(search.privacy_)
    for step in (best["columns"].transformers_[0][1], best["inner"].best_estimator_):
        assert step.ledger is ledger
        assert sum("cost of the search" in line for line in step.privacy_.assumptions) == 1
    best.fit(X, Y)  # paid for by the ledger, not by what the search was granted
    assert len(ledger.charges()) == 3


# --- the number of tries


def test_search_that_tries_nothing(monkeypatch):
    force_tries(monkeypatch, [])
    search = PrivateGridSearchCV(MODEL, GRID, tries=Poisson(2.0), refit=True).fit(X, Y)
    assert search.best_index_ == 1
    assert search.best_params_ == {"radius": 2.0}
    assert search.best_estimator_.radius == 2.0


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("refit", [True, False])
def test_nothing_tells_the_number_of_tries(monkeypatch, capfd, refit, n_jobs):
    monkeypatch.setattr(skdpsco.base.progress, "DELAY", 0.0)
    features = RBFSampler(n_components=4)  # draws from NumPy's global generator, if it may
    model = PrivateLogisticL1(classes=[0, 1])
    pipeline = Pipeline([("random", features), ("model", model)], verbose=True)
    options = {"refit": refit, "n_jobs": n_jobs, **STOPPING}
    with_bars = skdpsco.get_config() | {"progress": True}
    monkeypatch.setattr(skdpsco._config, "_of_process", with_bars)  # that of all threads
    search = PrivateGridSearchCV(pipeline, {"model__radius": [1.0, 2.0]}, **options)
    seen = {}
    for n_tries in (1, 4):
        force_tries(monkeypatch, [1] * n_tries)
        np.random.seed(3)  # noqa: NPY002
        capfd.readouterr()
        with joblib.parallel_config(backend="threading", verbose=10):
            fitted = clone(search).fit(X, Y)
        out, err = capfd.readouterr()
        given = np.random.RandomState(5)
        if n_jobs is None:
            clone(search).set_params(random_state=given).fit(X, Y)
        assert ("PrivateLogisticL1:" in err) == refit  # a progress bar
        assert fitted.best_estimator_["random"].random_state is not None
        seen[n_tries] = {
            "messages": out.count("[Pipeline]"),
            "joblib": "[Parallel" in out + err,
            "global generator": str(np.random.get_state()),  # noqa: NPY002
            "given generator": str(given.get_state()),
            "attributes": sorted(vars(fitted)),
            "results": str(fitted.cv_results_),
            "report": str(fitted.privacy_),
            "best": fitted.best_index_,
        }
    assert seen[1] == seen[4]
    assert not seen[1]["joblib"]


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("random_state", [None, 0])
@pytest.mark.parametrize("refit", [True, False])
def test_warnings_do_not_tell_the_number_of_tries(monkeypatch, refit, random_state):
    class Warns(PrivateLogisticL1):
        def fit(self, X, y):
            warnings.warn("public", UserWarning, stacklevel=2)
            return super().fit(X, y)

    options = {"refit": refit, "random_state": random_state, **STOPPING}
    seen = []
    for n_tries in (1, 5):
        force_tries(monkeypatch, [1] * n_tries)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            PrivateGridSearchCV(Warns(), GRID, **options).fit(X, Y)
        seen.append([str(one.message) for one in caught])
    assert seen[0] == seen[1]
    assert "public" in seen[0]  # by the rehearsal


def test_messages_of_a_composition_are_shown(capfd):
    with joblib.parallel_config(verbose=10):
        PrivateGridSearchCV(MODEL, GRID, **COMPOSITION).fit(X, Y)
    out, err = capfd.readouterr()
    assert "[Parallel(n_jobs=1)]: Done" in out + err


# --- seeds


def fitted_models(monkeypatch, search):
    models = []
    original = search_module.fit_and_sum

    def kept(estimator, *args):
        result = original(estimator, *args)
        models.append(estimator)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(search_module, "fit_and_sum", kept)
        search.fit(X, Y)
    return [*models, search.best_estimator_]


def test_every_fit_has_noise_of_its_own(monkeypatch):
    seeded = clone(SCALED).set_params(scale__random_state=0)  # would give all the same noise
    same = {"model__radius": [2.0, 2.0, 2.0]}
    # With more noise means would be clipped, and equal.
    search = PrivateGridSearchCV(seeded, same, epsilon=100.0, **COMPOSITION)
    for random_state in (None, 0):
        search.set_params(random_state=random_state)
        models = fitted_models(monkeypatch, search)
        means = [(*model["scale"].mean_, *model["model"].coef_[0]) for model in models]
        assert len(set(means)) == len(models) == 4
        assert search.privacy_.seeded == (random_state is not None)
        states = {model["scale"].random_state for model in models}
        assert states == {None} if random_state is None else len(states) == 4
        models = fitted_models(monkeypatch, search)
        again = [(*model["scale"].mean_, *model["model"].coef_[0]) for model in models]
        assert (again == means) == (random_state is not None)


@pytest.mark.parametrize("options", [COMPOSITION, STOPPING])
def test_seed(options):
    pipeline = make_pipeline(RBFSampler(n_components=4), MODEL)
    search = PrivateGridSearchCV(pipeline, {"privatelogisticl1__radius": [1.0, 2.0]}, **options)
    search.set_params(random_state=7, epsilon=50.0)
    first, second = clone(search).fit(X, Y), clone(search).fit(X, Y)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert np.ptp(first.predict_proba(X)[:, 0]) > 0.0
    assert first.best_params_ == second.best_params_
    scores = [private_cross_val_score(MODEL, X, Y, cv=3, random_state=3) for _ in range(2)]
    assert scores[0].score == scores[1].score
    assert scores[0].privacy.seeded
    assert not private_cross_val_score(PrivateLogisticL1(random_state=1), X, Y).privacy.seeded


@pytest.mark.filterwarnings("default::skdpsco.PrivacyWarning")
def test_seed_warns_where_fit_was_called():
    for call in (
        lambda: PrivateGridSearchCV(MODEL, GRID, random_state=0).fit(X, Y),
        lambda: private_cross_val_score(MODEL, X, Y, random_state=0),
    ):
        with pytest.warns(PrivacyWarning, match="random_state") as caught:
            call()
        assert caught[0].filename == __file__
