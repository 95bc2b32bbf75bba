"""One fit path: whatever is fitted under privacy is planned, charged and reported in one place."""

import ast
import gc
import importlib
import pkgutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each

import skdpsco
from skdpsco.base import private_estimator
from skdpsco.base.private_estimator import PrivateEstimator
from skdpsco.model_selection import PrivateGridSearchCV, private_cross_val_score
from skdpsco.survival import PrivateKaplanMeier, PrivateLogRank, PrivateSurvivalRegressor
from skdpsco.synthesis import PrivateSynthesizer
from skdpsco.variational import MatrixGame, solve_variational_inequality

ROOT = Path(skdpsco.__file__).parent
HERE = "base/private_estimator.py"
# What stands in one module, besides the one that defines it.
ONCE = ("charge", "generator", "progress_bar", "PrivacyReport")

for module in pkgutil.walk_packages(skdpsco.__path__, "skdpsco."):
    importlib.import_module(module.name)

X = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 3))
Y = (X[:, 0] > 0.0).astype(int)
MODEL = skdpsco.PrivateLogisticL1(classes=[0, 1])
# Bases of several models.
BASES = "PrivateAdditiveModel", "PrivateLinearModel"
MADE_WITH = {
    PrivateGridSearchCV: {"estimator": MODEL, "param_grid": {"radius": [1.0, 2.0]}},
    PrivateSynthesizer: {"domain": [[0, 1]] * 3},
    PrivateKaplanMeier: {"times": [1.0]},
    PrivateLogRank: {"times": [1.0], "groups": [0, 1]},
    PrivateSurvivalRegressor: {"times": [1.0]},
}
OUTCOMES = np.column_stack([Y, Y + 1])  # events and times
RECORDS = {PrivateSynthesizer: (X > 0.0).astype(int)}
RECORDS |= dict.fromkeys([PrivateKaplanMeier, PrivateLogRank], OUTCOMES)
TARGETS = {skdpsco.PrivateGammaRegressor: Y + 1, PrivateSurvivalRegressor: OUTCOMES}


def subclasses(kind):
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def with_fit():
    """The private estimators of the package that can be made and fitted."""
    found = {
        one
        for one in subclasses(PrivateEstimator)
        if one.__module__.startswith("skdpsco.")
        and hasattr(one, "fit")
        and one.__name__.startswith("Private")
        and one.__name__ not in BASES
    }
    return sorted(found, key=lambda one: one.__name__)


def to_fit(Estimator):
    """An estimator, and the arguments of a fit."""
    more = {"sensitive_features": Y} if "GroupDRO" in Estimator.__name__ else {}
    data = RECORDS.get(Estimator, X), TARGETS.get(Estimator, Y)
    return Estimator(**MADE_WITH.get(Estimator, {})), data, more


class Reached(Exception):
    pass


def reached(*args, **kwargs):
    raise Reached


def calls(tree):
    """Names of what is called, without calls of an overridden method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            owner = getattr(getattr(node.func, "value", None), "func", None)
            if getattr(owner, "id", None) != "super":
                yield getattr(node.func, "attr", getattr(node.func, "id", None))


def test_the_list_of_estimators_is_not_empty():
    public = [name for name in skdpsco.__all__ if isinstance(getattr(skdpsco, name), type)]
    named = {getattr(skdpsco, name) for name in public}
    assert {one for one in named if issubclass(one, PrivateEstimator)} <= set(with_fit())
    assert len(with_fit()) >= 16


@pytest.mark.parametrize("Estimator", with_fit())
def test_every_fit_goes_one_way(Estimator, monkeypatch):
    estimator, data, more = to_fit(Estimator)
    before, planned = dict(vars(estimator)), []
    plan_within = private_estimator.plan_within

    def watched(make_plan, available):
        planned.append(available)
        return plan_within(make_plan, available)

    for name in ("base.private_estimator", "model_selection.search"):
        monkeypatch.setattr(f"skdpsco.{name}.plan_within", watched)
    monkeypatch.setattr(private_estimator, "releasing", reached)
    with pytest.raises(Reached):
        estimator.fit(*data, **more)
    assert planned
    assert vars(estimator) == before  # and nothing is learnt without it


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("variational.solve", lambda: solve_variational_inequality(MatrixGame(2, 2), GAMES)),
        ("model_selection.validation", lambda: private_cross_val_score(MODEL, X, Y, cv=3)),
    ],
)
def test_functions_go_the_same_way(module, call, monkeypatch):
    monkeypatch.setattr(f"skdpsco.{module}.releasing", reached)
    with pytest.raises(Reached):
        call()


GAMES = np.tile([[1.0, 0.0], [0.0, 0.5]], (50, 1, 1))


def test_nothing_else_charges_draws_or_reports():
    sources = {path: path.read_text() for path in ROOT.rglob("*.py")}
    found = {
        (name, path.relative_to(ROOT).as_posix())
        for path, source in sources.items()
        if any(name in source for name in ONCE)
        for name in calls(ast.parse(source))
        if name in ONCE
    }
    # What records a table is made of is drawn, too, and is no release.
    assert found == {(name, HERE) for name in ONCE} | {("generator", "data/units.py")}


def test_no_class_has_a_way_of_its_own():
    gc.collect()  # classes that plans have made, if another test ran before
    own = [one for one in subclasses(PrivateEstimator) if one.__module__.startswith("skdpsco.")]
    assert [one for one in own if {"_releasing", "_planned"} & set(vars(one))] == []


def test_a_release_that_fails_stays_charged_and_has_no_report():
    ledger = skdpsco.Ledger(1.0, 1e-6)
    model = skdpsco.PrivateLogisticL1(ledger=ledger, epsilon=0.5)
    draft = model._draft()
    event = skdpsco.privacy.ZCDPEvent(1e-4)

    def fail():
        with model._releasing(draft, event, model._budget(), assumptions=("public",)) as release:
            assert len(ledger.charges()) == 1
            assert np.geterr() == dict.fromkeys(np.geterr(), "ignore")
            assert release.privacy is None
            raise Reached

    with pytest.raises(Reached):
        fail()
    assert not hasattr(draft, "privacy_")
    assert np.geterr() != dict.fromkeys(np.geterr(), "ignore")
    with model._releasing(draft, event, model._budget(), assumptions=("public",)) as release:
        release.assumptions += ("true",)
    assert draft.privacy_.assumptions == ("public", "true")
    assert (draft.privacy_.event, draft.privacy_.epsilon) == (event, 0.5)
    assert not hasattr(model, "privacy_")


def test_a_plan_that_costs_too_much_is_refused():
    model = skdpsco.PrivateLogisticL1(epsilon=0.5, radius=7.0)
    plan = SimpleNamespace(event=skdpsco.privacy.ZCDPEvent(1.0))
    with pytest.raises(ValueError, match=r"epsilon=0\.5, .*radius=7.0, n=9, .*costs rho=1"):
        model._planned(lambda _: plan, model._available(model._budget()), 9, 1, "radius")


class Refusing(skdpsco.Ledger):
    """Ends a fit at its charge."""

    def charge(self, *args):
        raise Reached


@pytest.mark.filterwarnings("always")
@each("Estimator", with_fit())
def test_warnings_name_the_line_that_called_fit(Estimator):
    estimator, data, more = to_fit(Estimator)
    estimator.set_params(random_state=0, ledger=Refusing(2.0, 1e-6))
    with (
        pytest.warns(skdpsco.PrivacyWarning, match="random_state") as caught,
        pytest.raises(Reached),
    ):
        estimator.fit(*data, **more)
    assert {warning.filename for warning in caught} == {__file__}
