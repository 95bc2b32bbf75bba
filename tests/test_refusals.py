"""Bad input for every public estimator: refused before the charge, in words that show no value."""

import itertools
import re
from inspect import Parameter, signature

import joblib
import numpy as np
import pytest
from bad_inputs import (
    BAD_GROUPS,
    BAD_UNITS,
    BAD_WEIGHTS,
    BAD_X,
    BAD_Y,
    MISSING_NUMBERS,
    NUMBER,
    ODD_VALUES,
    OTHER_LENGTHS,
    SECRET,
    N,
    X,
    Y,
    frame,
    sources,
)
from cases import each
from scipy.special import expit
from sklearn.linear_model import LinearRegression

import skdpsco
from skdpsco import (
    Budget,
    BudgetExceededError,
    Ledger,
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateGridSearchCV,
    PrivateGroupDRO,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearDiscriminantAnalysis,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMoments,
    PrivateMonotoneGLM,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSynthesizer,
    Schema,
    draw_records,
    make_private_pipeline,
)
from skdpsco._upstream import validate_parameter_constraints
from skdpsco._validation import check_X_y
from skdpsco.base.private_estimator import fitted_names
from skdpsco.group_dro import group_report
from skdpsco.linear_model import Link
from skdpsco.losses import Hinge, Huber, Logistic
from skdpsco.model_selection import private_cross_val_score
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    ColumnClipper,
    PrivateFeatureSelector,
    PrivatePCA,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicBoundsScaler,
    RowClipper,
)
from skdpsco.privacy import GaussianEvent, Poisson, calibrate, epsilon_of
from skdpsco.solvers import AcceleratedRecursive, BoostedMirrorDescent, FrankWolfe, MirrorDescent
from skdpsco.solvers.groups.descent import GroupDescent
from skdpsco.variational import BilinearGame, MatrixGame, MaximalLoss, QuadraticGame

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")

GROUPS = np.array(["f", "m"] * (N // 2))
MODELS = [
    getattr(skdpsco, name)
    for name in skdpsco.__all__
    if name.startswith("Private") and hasattr(getattr(skdpsco, name), "fit")
    if name != "PrivateSynthesizer"  # it takes values of any kind, and has no targets
]
WEIGHTED = [model for model in MODELS if "max_weight" in signature(model).parameters]
TRANSFORMERS = [
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
]
PUBLIC_TRANSFORMERS = [
    CategoricalDomainEncoder,
    ColumnClipper,
    PrivatePCA,
    PublicBoundsScaler,
    RowClipper,
]
TAKES_MISSING = [skdpsco.PrivateAdditiveClassifier, skdpsco.PrivateAdditiveRegressor]
WITHOUT_TARGETS = (PrivateQuantileClipper, PrivateSplineTransformer, PrivateStandardScaler)
# They inherit the code that reads records from another model: some cases show that they use it.
INHERITING = [
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateMinimaxRegressor,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
]


def each_of(estimators):
    return pytest.mark.parametrize("Estimator", estimators, ids=lambda kind: kind.__name__)


def estimator_of(Estimator, **params):
    """An instance that would fit X and Y."""
    if Estimator is PrivateGridSearchCV:
        return Estimator(PrivateLasso(), {"radius": [1.0]}, strategy="composition", **params)
    return Estimator(**params)


def targets_of(Estimator):
    """Targets that it takes."""
    return Y + (Estimator is PrivateGammaRegressor)


def refuses(call, names):
    """The call raises an error that names what is wrong, and shows no value of it."""
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    error = caught.value
    assert re.search(rf"\b({names})\b", str(error)), str(error)
    while error is not None:
        assert SECRET not in str(error) + str(error.args)
        assert str(NUMBER) not in str(error)
        error = error.__cause__ or error.__context__


class OwnLink(Link):
    """Its tricks would see data."""


UNTOUCHED = Ledger(epsilon=100.0, delta=0.1)  # by all that is refused


def fit_refuses(Estimator, records, targets, names="X|y|column", **fit_params):
    params = {"max_weight": 1.0} if "sample_weight" in fit_params else {}
    model = estimator_of(Estimator, ledger=UNTOUCHED, **params)
    if Estimator is PrivateGroupDRO:
        fit_params = {"sensitive_features": GROUPS, **fit_params}
    refuses(lambda: model.fit(records, targets, **fit_params), names)
    assert UNTOUCHED.charges() == []
    assert fitted_names(model) == []


def test_there_are_as_many_kinds_as_are_said():
    n_sources = len(sources(None))
    kinds = len(BAD_X) + len(BAD_Y) + len(BAD_WEIGHTS) + len(BAD_GROUPS) + len(BAD_UNITS)
    assert kinds + n_sources >= 160


@each_of([*MODELS, *TRANSFORMERS])
def test_records(Estimator):
    for case in list(BAD_X)[:: 8 if Estimator in INHERITING else 1]:
        if case in OTHER_LENGTHS and Estimator in WITHOUT_TARGETS:
            continue  # there are no targets that could be fewer
        if case in MISSING_NUMBERS and Estimator in TAKES_MISSING:
            continue
        print(case)
        fit_refuses(Estimator, BAD_X[case], Y)


@each_of([*MODELS, PrivateFeatureSelector])
@each("case", BAD_Y)
def test_targets(Estimator, case):
    if Estimator is PrivateMoments and BAD_Y[case] is None:
        return  # moments need no targets
    fit_refuses(Estimator, X, BAD_Y[case])


@each_of(WEIGHTED)
@each("case", BAD_WEIGHTS)
def test_weights(Estimator, case):
    targets = targets_of(Estimator)
    fit_refuses(Estimator, X, targets, "sample_weight", sample_weight=BAD_WEIGHTS[case])


@each_of(WEIGHTED)
def test_weights_need_a_bound(Estimator):
    model, weights = estimator_of(Estimator, ledger=UNTOUCHED), np.ones(N)
    with pytest.raises(ValueError, match="declare max_weight"):
        model.fit(X, targets_of(Estimator), sample_weight=weights)
    for bound in (0.0, 1e200):
        with pytest.raises(ValueError, match="max_weight"):
            model.set_params(max_weight=bound).fit(X, targets_of(Estimator), sample_weight=weights)
    with pytest.raises(ValueError, match="one finite number >= 0 for each of 12"):
        model.set_params(max_weight=1.0).fit(X, targets_of(Estimator), sample_weight=weights[1:])
    assert UNTOUCHED.charges() == []


@each_of([model for model in MODELS if "class_weight" in signature(model).parameters])
@each(
    ("weights", "match"),
    [
        ("balanced", "would count the labels of the data. Declare a dict"),
        ({7: 1.0}, "label 7 that is not among the classes"),
        *(({0: v}, rf"numbers in \[1e-6, 1e6\], got {v!r}") for v in (0.0, "1", np.nan)),
        (3.0, "class_weight"),
    ],
)
def test_weights_of_classes(Estimator, weights, match):
    groups = {"sensitive_features": GROUPS} if Estimator is PrivateGroupDRO else {}
    with pytest.raises(ValueError, match=match):
        estimator_of(Estimator, ledger=UNTOUCHED, class_weight=weights).fit(X, Y, **groups)
    assert UNTOUCHED.charges() == []


@each("case", BAD_GROUPS)
def test_groups(case):
    groups = BAD_GROUPS[case]
    fit_refuses(PrivateGroupDRO, X, Y, "sensitive_features", sensitive_features=groups)


@each("case", BAD_UNITS)
def test_units(case):
    refuses(lambda: draw_records(BAD_UNITS[case], 2), "units")


@each_of([PrivateLasso, PrivateMoments, PrivateStandardScaler])
def test_blocks(Estimator, tmp_path):
    for case, make in sources(tmp_path).items():
        if "targets" in case and Estimator in WITHOUT_TARGETS:
            continue
        ledger = Ledger(epsilon=100.0, delta=0.1)
        model = estimator_of(Estimator, ledger=ledger)
        with pytest.raises((ValueError, TypeError)) as caught:
            model.fit(make())
        assert len(ledger.charges()) == 0, case
        assert fitted_names(model) == [], case
        own = case == "an iterator that fails half-way"  # the error is that of the iterator
        assert own or re.search("X|y|block", str(caught.value), re.I), str(caught.value)
        assert own or SECRET not in str(caught.value)


# Parameters that are what is fitted, and values that are legal for the parameters of others.
NEEDED = {"estimator", "param_grid"}
LEGAL = {
    "a truth": {"n_jobs", "fit_intercept", "standard_errors", "whiten"}
    | {"shuffle", "refit", "return_scores", "with_mean", "with_std", "sparse_output"},
    "minus one": {"n_jobs", "lower", "upper"},
    "a huge int": {"n_features_to_select", "order"},
    "an empty list": {"pairs", "record_wise", "constraints"},
    "an array of no number": {"categories"},
}


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
@each_of([*MODELS, PrivateSynthesizer, *TRANSFORMERS, *PUBLIC_TRANSFORMERS])
def test_every_parameter_is_refused_by_its_name(Estimator):
    """If it is legal, the fit reaches its charge, which exceeds the budget of the ledger."""
    own = signature(Estimator).parameters
    ledger = Ledger(epsilon=1e-3, delta=1e-9)
    for name, (case, value) in itertools.product(set(own) - NEEDED, ODD_VALUES.items()):
        params = {"ledger": ledger} if "ledger" in own else {}
        if Estimator is PrivateSynthesizer:
            params["domain"] = [2, 2]
        if Estimator is CategoricalDomainEncoder:
            params["categories"] = [[0, 1]] * 2
        records = np.column_stack([Y, Y]) if "domain" in own or "categories" in own else X
        groups = {"sensitive_features": GROUPS} if Estimator is PrivateGroupDRO else {}
        targets, said = targets_of(Estimator), None
        try:
            with joblib.parallel_config("threading"):  # processes would take seconds to start
                estimator_of(Estimator, **{**params, name: value}).fit(records, targets, **groups)
        except BudgetExceededError:
            pass
        except (ValueError, TypeError) as error:
            said = str(error)
        legal = name in LEGAL.get(case, ())
        assert legal if said is None else re.search(rf"\b{name}\b", said), (name, case, said)


PRIVATE = {"group_membership": "private", "groups": ["f", "m"]}
IDENTITY = {"link": "identity"}
OUT_OF_RANGE = {
    PrivateQuantileRegressor: [({"quantile": 1.0}, "quantile"), ({"solver": "moments"}, "solver")],
    PrivateHuberRegressor: [
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": 1e-200}, "threshold"),
        ({"solver": "coordinate-descent"}, "solver"),
    ],
    PrivateLinearSVC: [
        ({"solver": "moments"}, "solver"),
        ({"penalty": None}, "penalty"),
        ({"C": 0.0}, "C"),
    ],
    PrivatePoissonRegressor: [
        ({"solver": "moments"}, "solver"),
        ({"target_bound": 0.0}, "target_bound"),
        ({"target_bound": 1e200}, "target_bound"),
        ({"alpha": 1e200}, "alpha"),
        ({"feature_bound": 1e-200}, "feature_bound"),
    ],
    PrivateRidge: [({"alpha": 1e200}, "alpha")],
    PrivateElasticNet: [({"alpha": 1e-200}, "alpha"), ({"l1_ratio": 1e-200}, "l1_ratio")],
    PrivateLasso: [
        ({"radius": 1e200}, "radius"),
        ({"radius": 1.0, "feature_bound": None}, "feature_bound"),
    ],
    PrivateLinearDiscriminantAnalysis: [
        ({"priors": [0.5, 0.2, 0.3]}, "priors"),
        ({"priors": [0.5, -1.0]}, "priors"),
        ({"priors": ["a", "b"]}, "priors"),
        ({"covariance": "tied"}, "covariance"),
        ({"classes": [0, 2]}, "labels that are not among"),
    ],
    PrivateMoments: [
        ({"feature_bound": [1.0, 2.0]}, "feature_bound"),
        ({"target_bound": 0.0}, "target_bound"),
        ({"conditioning": "yes"}, "conditioning"),
        ({"row_norm": 0.0}, "row_norm"),
        ({"row_norm": 1e-60, "feature_bound": 1e-60}, "row_norm"),
    ],
    PrivateMonotoneGLM: [
        ({"link": OwnLink(expit, 0, 1)}, "link must be a Link itself, got its subclass Own"),
        ({"link": "cloglog"}, "link must be one of .*'identity'.* or a Link"),
        ({"link": expit}, "'link' parameter"),
        ({"link": Link}, "'link' parameter"),
        ({"target_bound": 1.0}, "target_bound=1.0 is for link='identity' only"),
        ({**IDENTITY, "target_bound": 1e101}, "target_bound must be in"),
        ({**IDENTITY, "target_bound": np.inf}, "'target_bound' parameter"),
        ({"solver": "newton"}, r"solver must be one of \('auto', 'gradient-desc"),
        ({"radius": 1e101}, "radius must be in"),
        ({"feature_bound": [1.0, 1.0]}, r"shape \(3,\)"),
        ({"epsilon": 1e-30}, "epsilon=1e-30 is too small"),
        ({"ledger": Ledger}, "ledger must be an instance"),
    ],
    PrivateGroupDRO: [
        ({"loss": "huber"}, "'loss' .* must be a str among"),
        ({"group_membership": "secret"}, "'group_membership' .* a str among"),
        ({"group_membership": "private"}, "groups must be declared"),
        ({"group_prior": [0.5, 0.5]}, "group_prior must be None"),
        ({"group_prior": 0.5, **PRIVATE}, "'group_prior' parameter"),
        ({"group_prior": [1.0], **PRIVATE}, r"group_prior must have shape \(2,\)"),
        ({"group_prior": [[0.5, 0.5]], **PRIVATE}, r"group_prior must have shape \(2,\)"),
        ({"group_prior": [0.5, 0.50001], **PRIVATE}, "group_prior must sum to 1"),
        ({"group_prior": [0.0, 1.0], **PRIVATE}, r"shares in \[1e-09, 1\]"),
        ({"group_prior": [np.nan, 1.0], **PRIVATE}, r"shares in \[1e-09, 1\]"),
        ({"group_prior": [True, True], **PRIVATE}, "one number per group"),
        ({"group_prior": [[0.5], [0.2, 0.3]], **PRIVATE}, "one number per group"),
        ({"solver": GroupDescent}, r"an instance, GroupDescent\(\), not a class"),
        ({"solver": FrankWolfe()}, "FrankWolfe needs the kernel"),
        ({"average_weight": 1.1}, r"average_weight' .* in the range \[0.0, 1.0\]"),
        ({"cvar_level": 1.1}, r"cvar_level' .* in the range \[0.0, 1.0\]"),
        ({"classes": [0, 1, 2]}, "classes"),
    ],
    PrivateMinimaxClassifier: [
        ({"losses": "squared"}, "losses must be among"),
        ({"losses": []}, "losses must"),
        ({"losses": [Logistic]}, "must be an instance"),
        ({"losses": [3]}, "losses=3 cannot be used"),
        ({"tasks": "groups"}, "tasks"),
        ({"tasks": "columns"}, "y must have shape"),
        ({"class_prior": [0.5, 0.6]}, "class_prior must sum to 1"),
        ({"class_prior": [1.0]}, "class_prior must have shape"),
        ({"class_prior": [0.0, 1.0]}, "class_prior must hold shares"),
        ({"class_prior": [0.5, 0.5], "tasks": None}, "class_prior must be None"),
        ({"solver": "accelerated-recursive"}, "solver"),
        ({"solver": MirrorDescent}, "solver"),
        ({"solver": "moments"}, "solver"),
        ({"solver": AcceleratedRecursive()}, "must not be AcceleratedRecursive"),
        ({"n_iter": 9000, "solver": "mirror-descent"}, "n_iter"),
    ],
    PrivateMinimaxRegressor: [
        ({"losses": "logistic"}, "losses must be among"),
        ({"losses": [Huber(0.1), Hinge()]}, "is not for PrivateMinimaxRegressor"),
        ({"tasks": "classes"}, "tasks"),
        ({"target_bound": 1e-100, "radius": 10.0}, r"radius \* max\(feature_bound\)"),
        ({"solver": "moments"}, "solver"),
        ({"solver": "bias-reduced-mirror-descent"}, "second_smoothness"),
    ],
}


@each(
    ("Estimator", "params", "match"),
    [(Estimator, *case) for Estimator, cases in OUT_OF_RANGE.items() for case in cases],
)
def test_parameters_beyond_their_ranges_cost_nothing(Estimator, params, match):
    groups = {"sensitive_features": GROUPS} if Estimator is PrivateGroupDRO else {}
    with pytest.raises((ValueError, TypeError), match=match):
        Estimator(**{"ledger": UNTOUCHED, **params}).fit(X, targets_of(Estimator), **groups)
    assert UNTOUCHED.charges() == []


@each("Estimator", MODELS)
def test_parameters_are_checked(Estimator):
    """Every parameter has a constraint, which is checked before the charge."""
    free = {"scoring"} if Estimator is PrivateGridSearchCV else set()  # which has rules of its own
    assert set(signature(Estimator).parameters) - free <= set(Estimator._parameter_constraints)


@each("Estimator", MODELS)
def test_defaults_are_legal(Estimator):
    """Fits check parameters that have other values only."""
    defaults = {name: p.default for name, p in signature(Estimator).parameters.items()}
    given = {name: value for name, value in defaults.items() if value is not Parameter.empty}
    validate_parameter_constraints(Estimator._parameter_constraints, given, Estimator.__name__)


GAMES = [MatrixGame, BilinearGame, QuadraticGame]
CALLS = {  # a call of other public functions by one argument, and its name
    "a position as target": (lambda: synthetic(target=0, workload=[(0, 1)]), "target=0"),
    "axes": (lambda: Ledger(1.0, 1e-6).plot("x"), "ax"),
    "an order to workers": (lambda: search(pre_dispatch="oops"), "pre_dispatch"),
    "no order to workers": (lambda: search(pre_dispatch="0*n_jobs"), "pre_dispatch"),
    "code for workers": (lambda: search(pre_dispatch="n_jobs**99"), "pre_dispatch"),
    "so many workers": (lambda: search(n_jobs=10**400), "n_jobs"),
    "no workers": (lambda: search(n_jobs=0), "n_jobs"),
    "workers of a score": (lambda: scored(n_jobs="2"), "n_jobs"),
    "ledger of a score": (lambda: scored(ledger="study.db"), "ledger"),
    "arguments of a score": (lambda: scored(fit_params="oops"), "fit_params"),
    "seed of a score": (lambda: scored(random_state=10**400), "random_state"),
    "a schema's target": (lambda: Schema(COLUMNS, target=["a"]), "target"),
    "a schema's groups": (lambda: Schema(COLUMNS, groups=np.ones(2)), "groups"),
    "a model's class": (lambda: made(PrivateLasso), r"PrivateLasso\(\), not the class"),
    "a public model": (lambda: made(LinearRegression()), "steps must end with a private estimator"),
    "a classifier of numbers": (lambda: made(PrivateLogisticL1()), "model must be a regressor"),
    "a regressor of words": (lambda: made(PrivateLasso(), "b"), "model must be a classifier"),
    "two budgets": (lambda: made(PrivateLasso(epsilon=3.0), epsilon=2.0), "epsilon is 3.0 in"),
    "a frame alone": (
        lambda: made(PrivateLasso()).fit(frame(0.0)),
        r"y must be frame\[schema.target\]",
    ),
    "a step's parameter": (lambda: searched(made(PrivateLasso())), "privatelasso__radius"),
    "a missing label": (lambda: labelled([None, "x"]), "y must hold labels, none of them missing"),
    "a label NaN": (lambda: labelled([np.nan, "x"]), "y must hold labels, none of them missing"),
    "a schema's source": (lambda: Schema(COLUMNS, source=None), "source"),
    "a report without a model": (lambda: reported(PrivateLasso, None), "estimator"),
    "a report by a word": (lambda: reported(PrivateLasso(), "accuracy"), "metric"),
    "a budget": (lambda: calibrate(1.0, Poisson(3.0)), "budget"),
    "other events": (lambda: calibrate(Budget(1.0, 1e-6), Poisson(3.0), 3), "others"),
    "an accountant": (lambda: epsilon_of(GaussianEvent(1.0), 1e-6, "oops"), "accountant"),
    "a mechanism": (lambda: FrankWolfe(["laplace"]), "mechanism"),
    "a failure": (lambda: BoostedMirrorDescent(10**400), "failure"),
    "so many features": (lambda: MaximalLoss(Logistic(), 10**400), "n_features"),
    "rows": (lambda: [game(0, 2) for game in GAMES], "n_rows"),
    "columns": (lambda: [game(2, "3") for game in GAMES], "n_columns"),
}
COLUMNS = {"a": {"bounds": [0, 1]}}


def made(model, target="a", **params):
    schema = Schema({**COLUMNS, "b": ["x", "y"]}, target=target)
    return make_private_pipeline(schema, model, **params)


def labelled(labels):
    return PrivateLogisticL1(classes=["x", "y"]).fit(X, np.array(labels * 6, dtype=object))


def synthetic(**params):
    return PrivateSynthesizer(domain=[2, 2], **params).fit(np.column_stack([Y, Y]))


def search(**params):
    ledger = Ledger(epsilon=100.0, delta=0.1)
    try:
        return estimator_of(PrivateGridSearchCV, ledger=ledger, **params).fit(X, Y)
    finally:
        assert len(ledger.charges()) == 0


def searched(model):
    return PrivateGridSearchCV(model, {"radius": [1.0]}).fit(X, Y)


def scored(**params):
    return private_cross_val_score(PrivateLasso(), X, Y, **params)


def reported(model, metric):
    return group_report(model, X, Y, sensitive_features=GROUPS, metric=metric)


@each("case", CALLS)
def test_calls(case):
    call, name = CALLS[case]
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert re.search(rf"(?<!\w){name}(?!\w)", str(caught.value)), str(caught.value)


@each("legal", ["all", "n_jobs", "2*n_jobs", "1.5 * n_jobs", "n_jobs * 3", "4", 7])
def test_orders_to_workers(legal):
    with pytest.raises(BudgetExceededError):
        search(pre_dispatch=legal, epsilon=1e3)


def test_messages_of_the_first_hour(tmp_path):
    """Messages about mistakes that many make when they begin."""
    with pytest.raises(ValueError, match=r"'ledger' .* must be None or a Ledger. Got 'study.db'"):
        PrivateLasso(ledger="study.db").fit(X, Y)
    with pytest.raises(OSError, match="/none' is no such folder"):
        Ledger(1.0, 1e-6, path=tmp_path / "none" / "study.db")
    with pytest.raises(OSError, match="is a folder"):
        Ledger(1.0, 1e-6, path=tmp_path)
    with pytest.raises(TypeError, match="declares each column by its name, got DataFrame"):
        Schema(frame(0.0))
    with pytest.raises(TypeError, match=r"has no parameter 'cv'. .* `validation_fraction`"):
        PrivateGridSearchCV(PrivateLasso(), {"radius": [1.0]}, cv=5)
    with pytest.raises(ValueError, match=r"no others; it lacks \['c'\]\.$"):
        Schema({name: {"bounds": [0, 1]} for name in "abc"}).validate(frame(0.0))


def test_numbers_whose_sum_is_infinite_are_finite():
    large = np.full((4, 3), 1e308)
    model = PrivateLasso()
    checked, _ = check_X_y(model, large, np.zeros(4), y_numeric=True)
    assert checked is large
    assert model.n_features_in_ == 3
    for odd in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="Input X contains"):
            check_X_y(model, np.append(large, [[0, odd, 0]], axis=0), np.zeros(5), y_numeric=True)
