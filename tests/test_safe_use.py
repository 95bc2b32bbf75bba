"""What a careless person does: it is said, or refused, before anything is charged."""

import pickle
import runpy
import warnings
from threading import Thread

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFE
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score, learning_curve
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import skdpsco
from skdpsco import (
    BudgetExceededError,
    Ledger,
    PrivacyWarning,
    PrivateGridSearchCV,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    PrivateSynthesizer,
    Schema,
    TableEncoder,
    UtilityWarning,
    _config,
    make_private_pipeline,
)
from skdpsco.model_selection import private_cross_val_score
from skdpsco.preprocessing import PrivatePCA, PrivateStandardScaler, PublicBoundsScaler

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (300, 3))
LABELS = (X[:, 0] > 0).astype(int)
MODEL = PrivateLogisticRegression(classes=[0, 1], feature_bound=1.0)
RIDGE = PrivateRidge(target_bound=1.0, feature_bound=1.0)
FRAME = pd.DataFrame({"age": RNG.integers(18, 91, 300), "nr": np.arange(300) // 3})
ILL = np.where(FRAME["age"] > 60, "yes", "no")
SCHEMA = Schema({"age": {"bounds": [18, 90]}, "ill": ["no", "yes"]}, target="ill", person="nr")


def said(function, *, category=PrivacyWarning, match=""):
    """The texts of warnings within ``function``, and whether they name a line of this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    found = [w for w in caught if issubclass(w.category, category) and match in str(w.message)]
    assert all(w.filename == __file__ for w in found)
    return [str(w.message) for w in found]


@pytest.fixture
def default_settings():
    """Restore the settings of the process."""
    before = skdpsco.get_config()
    yield
    skdpsco.set_config(**before)


def in_thread(function):
    """What ``function`` returns in a new thread."""
    found = []
    thread = Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.usefixtures("default_settings")
def test_settings_are_those_of_all_threads_and_contexts_those_of_one():
    pytest.importorskip("tqdm", reason="needs the extra progress")
    usual = {"strict": False, "verbose": 1, "progress": False}
    with skdpsco.config_context(strict=True), skdpsco.config_context(verbose=0):
        assert skdpsco.get_config() == {**usual, "strict": True, "verbose": 0}
        assert in_thread(skdpsco.get_config) == usual
    skdpsco.set_config(strict=True, progress=True)
    changed = {**usual, "strict": True, "progress": True}
    assert in_thread(skdpsco.get_config) == skdpsco.get_config() == changed


def test_the_environment_turns_strict_mode_on(monkeypatch):
    """Processes of joblib inherit it."""
    for value, strict in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv("SKDPSCO_STRICT", value)
        assert runpy.run_path(_config.__file__)["get_config"]()["strict"] is strict


@pytest.mark.parametrize(
    "wrong", [{"strict": 1}, {"progress": 1}, {"verbose": "no"}, {"verbose": True}, {"verbose": -1}]
)
def test_settings_that_are_not_legal_change_nothing(wrong):
    before = skdpsco.get_config()
    (name,) = wrong
    for change in (skdpsco.set_config, lambda **given: skdpsco.config_context(**given).__enter__()):
        with pytest.raises((TypeError, ValueError), match=f"{name} must be"):
            change(**wrong)
    assert skdpsco.get_config() == before


class Twice(BaseEstimator):
    """A wrapper that is not scikit-learn's."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        self.models_ = [clone(self.estimator).fit(X, y) for _ in range(2)]
        return self


WRAPPERS = {
    "the 3 fits of cross_val_score": lambda model: cross_val_score(model, X, LABELS, cv=3),
    "the fits of learning_curve": lambda model: learning_curve(
        model, X, LABELS, cv=2, train_sizes=[0.5, 1.0]
    ),
    "the 5 fits of GridSearchCV": lambda model: GridSearchCV(
        make_pipeline(model), {"privatelogisticregression__epsilon": [1.0, 2.0]}, cv=2
    ).fit(X, LABELS),
    "the 2 fits of CalibratedClassifierCV": lambda model: CalibratedClassifierCV(model, cv=2).fit(
        X, LABELS
    ),
    "the 2 fits of VotingClassifier": lambda model: VotingClassifier(
        [("a", model), ("b", model)]
    ).fit(X, LABELS),
    "the fits of OneVsRestClassifier": lambda model: OneVsRestClassifier(model).fit(X, LABELS),
    "the fits of RFE": lambda model: RFE(model).fit(X, LABELS),
    "the 2 fits of BaggingClassifier": lambda model: BaggingClassifier(model, n_estimators=2).fit(
        X, LABELS
    ),
    "the fits of StackingClassifier": lambda model: StackingClassifier([("a", model)], cv=2).fit(
        X, LABELS
    ),
    "the fits of Twice": lambda model: Twice(model).fit(X, LABELS),
}


@pytest.mark.parametrize("words", WRAPPERS)
def test_every_call_of_a_wrapper_is_said_once_and_by_name(words):
    call = WRAPPERS[words]
    for _ in range(2):
        (text,) = said(lambda: call(MODEL), match="Nothing counts")
        assert words in text
    paying = clone(MODEL).set_params(ledger=Ledger(100.0, 1e-5))
    assert said(lambda: call(paying), match="Nothing counts") == []
    with skdpsco.config_context(strict=True), pytest.raises(ValueError, match=words):
        call(MODEL)


def check_workers(backend):
    with joblib.parallel_backend(backend, n_jobs=2):
        (text,) = said(lambda: cross_val_score(MODEL, X, LABELS, cv=3), match="Nothing counts")
    assert "cross_val_score" in text


def test_workers_fit_what_was_said_before():
    check_workers("threading")


def test_what_fits_once_and_private_searches_say_nothing():
    searches = PrivateGridSearchCV(MODEL, {"C": [0.5, 1.0]}, strategy="composition")
    paying = clone(searches).set_params(ledger=Ledger(9.0, 1e-5))
    assert said(lambda: [MODEL.fit(X, LABELS), searches.fit(X, LABELS)]) == []
    assert said(lambda: clone(GridSearchCV(Twice(MODEL), {}))) == []
    assert said(lambda: pickle.loads(pickle.dumps(make_pipeline(MODEL).fit(X, LABELS)))) == []
    assert said(lambda: cross_val_score(paying, X, LABELS, cv=2)) == []
    assert len(said(lambda: cross_val_score(searches, X, LABELS, cv=2))) == 1
    private = TransformedTargetRegressor(RIDGE, func=np.negative, inverse_func=np.negative)
    assert said(lambda: private.set_params(check_inverse=False).fit(X, X[:, 0])) == []


def test_it_is_said_who_set_a_seed():
    call = WRAPPERS["the 2 fits of BaggingClassifier"]
    seeded = clone(MODEL).set_params(random_state=3)
    seeds = [said(lambda m=model: call(m), match="reproducible") for model in (MODEL, seeded)]
    assert [len(texts) for texts in seeds] == [1, 1]
    assert "The random_state that BaggingClassifier sets" in seeds[0][0]
    (own,) = said(lambda: clone(MODEL).set_params(random_state=3).fit(X, LABELS))
    assert own.startswith("A fixed random_state")


def test_a_budget_that_ends_within_a_validation_is_said():
    for _ in range(2):
        ledger = Ledger(2.0, 1e-5)
        paying = clone(MODEL).set_params(ledger=ledger)
        (text,) = said(
            lambda model=paying: cross_val_score(model, X, LABELS, cv=5),
            category=UtilityWarning,
            match="budget ended within cross_val_score",
        )
        assert f"rho={ledger.remaining().rho:.6g} left" in text
    with pytest.raises(BudgetExceededError):
        paying.fit(X, LABELS)


def strict_errors():
    """What is an error in strict mode: the words of the error, and what makes it with a ledger."""
    steps = PCA(2), clone(RIDGE)

    def piped(ledger):
        steps[1].set_params(ledger=ledger)
        return make_pipeline(*steps).fit(X, X[:, 0])

    changed = clone(MODEL)
    return {
        "has no ledger": lambda ledger: changed.fit(X, LABELS),
        "random_state": lambda ledger: (
            clone(MODEL).set_params(ledger=ledger, random_state=1).fit(X, LABELS)
        ),
        "epsilon=21 is above 20": lambda ledger: (
            clone(MODEL).set_params(ledger=ledger, epsilon=21.0).fit(X, LABELS)
        ),
        "pca .PCA.: learns from the data, without noise; use PrivatePCA": piped,
        "that BaggingClassifier sets": lambda ledger: BaggingClassifier(
            clone(MODEL).set_params(ledger=ledger), n_estimators=2
        ).fit(X, LABELS),
    }


@pytest.mark.parametrize("words", strict_errors())
def test_strict_mode_refuses_before_the_charge(words):
    ledger, call = Ledger(1000.0, 1e-5), strict_errors()[words]
    with skdpsco.config_context(strict=True), pytest.raises(ValueError, match=words):
        call(ledger)
    assert len(ledger.history()) == 0


def test_strict_mode_allows_what_a_ledger_counts():
    paying = clone(MODEL).set_params(ledger=Ledger(9.0, 1e-5))
    with skdpsco.config_context(strict=True):
        PrivateGridSearchCV(paying, {"C": [0.5, 1.0]}).fit(X, LABELS)
        cross_val_score(paying, X, LABELS, cv=2)
        make_private_pipeline(PublicBoundsScaler(-1.0, 1.0), paying).fit(X, LABELS)
        clone(RIDGE).set_params(ledger=Ledger(9.0, 1e-5)).fit(X, X[:, 0], public_data=(X, X[:, 0]))


def test_large_epsilon_is_said():
    (text,) = said(lambda: clone(MODEL).set_params(epsilon=25.0).fit(X, LABELS))
    assert text.startswith("epsilon=25 is above 20")
    assert said(lambda: clone(MODEL).set_params(epsilon=20.0).fit(X, LABELS)) == []


def test_steps_that_are_not_private_are_named():
    model = make_pipeline(SimpleImputer(), StandardScaler(), PCA(2), RIDGE)
    (text,) = said(lambda: model.fit(X, X[:, 0]))
    for step in (
        "simpleimputer",
        "use TableEncoder",
        "use PrivateStandardScaler",
        "use PrivatePCA",
    ):
        assert step in text
    only = "covers this step alone; not private: simpleimputer (SimpleImputer), standardscaler"
    assert any(line.startswith(only) for line in model[-1].privacy_.assumptions)
    assert only in model._repr_html_()
    assert len(said(lambda: cross_val_score(model, X, X[:, 0], cv=3), match="this step alone")) == 1
    bagged = make_pipeline(StandardScaler(), BaggingClassifier(MODEL, n_estimators=2))
    (text,) = said(lambda: bagged.fit(X, LABELS), match="this step alone")
    assert "standardscaler" in text
    scaler = PrivateStandardScaler(lower=-1.0, upper=1.0)
    assert said(lambda: make_pipeline(scaler, RIDGE).fit(X, X[:, 0])) == []


def test_private_pipelines_refuse_them():
    steps = PublicBoundsScaler(-1.0, 1.0), PrivatePCA(n_components=2), RIDGE
    ledger = Ledger(9.0, 1e-5)
    model = make_private_pipeline(*steps, ledger=ledger, epsilon=0.5)
    assert isinstance(model, Pipeline)
    assert said(lambda: model.fit(X, X[:, 0])) == []
    assert len(ledger.history()) == 2
    assert model[-1].privacy_.epsilon == 0.5
    search = PrivateGridSearchCV(model, {"privateridge__alpha": [0.5, 1.0]}, ledger=ledger)
    search.fit(X, X[:, 0])
    spent = ledger.spent()
    for name, wrong in (("publicboundsscaler", StandardScaler()), ("privateridge", PCA())):
        changed = clone(model).set_params(**{name: wrong})
        with pytest.raises(ValueError, match="are not private"):
            changed.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="use PrivateStandardScaler"):
        make_private_pipeline(StandardScaler(), RIDGE)
    with pytest.raises(TypeError, match="must end with a private estimator"):
        make_private_pipeline(RIDGE, StandardScaler())
    with pytest.raises(ValueError, match="declared in record_wise"):
        make_private_pipeline(FunctionTransformer(np.sort), RIDGE)
    assert ledger.spent() == spent
    columns = ColumnTransformer([("scale", PublicBoundsScaler(-1.0, 1.0), [0, 1])])
    assert said(lambda: make_private_pipeline(columns, RIDGE).fit(X, X[:, 0])) == []
    vouched = make_private_pipeline(FunctionTransformer(abs), RIDGE, record_wise=[abs])
    assert said(lambda: clone(vouched).fit(X, X[:, 0])) == []


def test_a_declared_person_is_protected_or_refused():
    features = FRAME[SCHEMA.features]
    needed = r"max_records_per_unit must be given.*person='nr'"
    with pytest.raises(ValueError, match=needed):
        make_private_pipeline(SCHEMA, PrivateLogisticRegression())
    with pytest.raises(ValueError, match=needed):
        PrivateLogisticRegression(feature_bound=SCHEMA, classes=SCHEMA).fit(features, ILL)
    with pytest.warns(PrivacyWarning, match=needed):
        make_pipeline(TableEncoder(SCHEMA), PrivateLogisticRegression()).fit(features, ILL)
    model = make_private_pipeline(SCHEMA, PrivateLogisticRegression(), max_records_per_unit=2)
    with pytest.raises(ValueError, match="units"):
        model.fit(features, ILL)
    for routing in (False, True):
        with sklearn.config_context(enable_metadata_routing=routing):
            fitted = clone(model).fit(features, ILL, units=FRAME["nr"])
        assert "at most 2 records" in fitted[-1].privacy_.relation
    ages = Schema({"age": {"bounds": [18, 90]}}, person="nr")
    for other in (
        PrivateStandardScaler(lower=ages, upper=ages),
        PrivateMoments(feature_bound=ages, target_bound=1.0),
        PrivateSynthesizer(domain=ages),
        PrivateGridSearchCV(PrivateRidge(feature_bound=ages, target_bound=1.0), {}),
    ):
        with pytest.raises(ValueError, match=needed):
            other.fit(features, LABELS)
    with pytest.raises(ValueError, match=needed):
        private_cross_val_score(other.estimator, features, LABELS, cv=2)
    other.set_params(max_records_per_unit=1).fit(features, LABELS, units=FRAME["nr"])
    ledger = Ledger(9.0, 1e-5, max_records_per_unit=3)
    derived = make_private_pipeline(SCHEMA, PrivateLogisticRegression(), ledger=ledger)
    assert derived[-1].max_records_per_unit == 3


def test_fits_of_an_object_without_a_ledger_are_counted():
    model, words = clone(MODEL), "of this object without a ledger"

    def counts(fitted):
        return [line[:5] for line in fitted.privacy_.assumptions if words in line]

    assert counts(model.fit(X, LABELS)) == []
    assert counts(model.fit(X, LABELS)) == ["fit 2"]
    assert "fit 2 of this object" in str(skdpsco.inspection.privacy_report(make_pipeline(model)))
    assert counts(clone(model).fit(X, LABELS)) == []
    assert counts(pickle.loads(pickle.dumps(model)).fit(X, LABELS)) == ["fit 3"]
    with pytest.raises(ValueError, match="X"):
        model.fit(X[:0], LABELS[:0])
    model.set_params(ledger=Ledger(9.0, 1e-5)).fit(X, LABELS)
    assert counts(model) == []
    search = GridSearchCV(MODEL, {"C": [0.5, 1.0]}, cv=2).fit(X, LABELS)
    assert counts(search.best_estimator_) == []


@pytest.mark.parametrize("n", [300, 1000])
def test_bounds_that_releases_contradict_are_said_after_the_fit(n):
    records = np.random.default_rng(1).uniform(-1.0, 1.0, (n, 3))
    targets = 1.0 + 0.5 * records[:, 0]

    def doubts(feature_bound, target_bound, model=RIDGE):
        bounds = {"feature_bound": feature_bound, "target_bound": target_bound, "epsilon": 8.0}
        fitted = clone(model).set_params(**bounds)
        return said(lambda: fitted.fit(records, targets), category=UtilityWarning)

    assert doubts(1.0, 2.0) == doubts("auto", None) == []
    columns, target = doubts(1000.0, 1000.0)
    assert "feature_bound seems to be more than 100 times too wide for 3 columns" in columns
    assert "target_bound=1000 seems to be more than 100 times too wide" in target
    (small,) = doubts(1.0, 0.001)
    assert "nearly all targets are at or beyond it" in small
    labels = (targets > 1.0).astype(int)
    wide = clone(MODEL).set_params(feature_bound=1000.0, epsilon=8.0)
    assert len(said(lambda: wide.fit(records, labels), category=UtilityWarning)) == 1
    search = PrivateGridSearchCV(wide, {"C": [0.5, 1.0]}, epsilon=16.0, strategy="composition")
    assert said(lambda: search.fit(records, labels), category=UtilityWarning) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UtilityWarning):
            wide.fit(records, labels)
    assert wide.coef_.shape == (1, 3)  # the fit is not lost
