"""Random legal fits: each pays once for what it releases, or is refused and pays nothing.

`make properties` tries many more. Strings and booleans are drawn from what estimators declare, so
that a new solver or option is drawn, too.
"""

import itertools
import os
import pickle
import random
from inspect import signature
from math import isclose

import numpy as np
import pytest
from cases import each
from scipy import sparse
from sklearn.utils import get_tags

import skdpsco
from skdpsco import Ledger, PrivateGroupDRO
from skdpsco._random import generator
from skdpsco.base import private_estimator
from skdpsco.base.private_estimator import fitted_names
from skdpsco.linear_model._penalized import CompositeModel
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivatePCA,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
)
from skdpsco.privacy import rho_of
from skdpsco.solvers import SGD, CoordinateDescent, GradientDescent, GreedyCoordinateDescent

USUAL = 200
N_FITS = int(os.environ.get("SKDPSCO_EXAMPLES", USUAL))
# Fits are the same in every run but the nightly one, which looks for new ones.
FIRST = 0 if N_FITS <= USUAL else random.SystemRandom().randrange(2**40)
ESTIMATORS = [
    *(
        getattr(skdpsco, name)
        for name in skdpsco.__all__
        if name.startswith("Private") and hasattr(getattr(skdpsco, name), "fit")
        if name not in ("PrivateGridSearchCV", "PrivateSynthesizer")  # other parameters, other data
    ),
    PrivateFeatureSelector,
    PrivatePCA,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
]


def among(*values):
    return lambda rng: values[rng.integers(len(values))]


def between(low, high):
    """Numbers of all magnitudes, the ends included."""
    return lambda rng: float(np.clip(10.0 ** rng.uniform(*np.log10([low, high * 2])), low, high))


# What parameters may be that are neither strings nor booleans.
NUMBERS = {
    "C": between(1e-3, 1e3),
    "alpha": among(0.0, 1e-3, 1.0, 1e3),
    "average_weight": among(0.0, 0.3, 1.0),
    "clip": between(1e-3, 1e3),
    "cvar_level": between(0.01, 1.0),
    "degree": among(0, 1, 3),
    "delta": between(1e-12, 0.5),
    "epsilon": between(1e-3, 1e5),
    "feature_bound": among(1e-6, 1.0, 7.5, 1e9),
    "knots": among("quantile", "uniform"),
    "l1_ratio": among(0.0, 0.3, 1.0),
    "link": among("logistic", "probit", "ramp", "identity"),
    "lower": among(0.5, -1.0, -1e6),
    "max_weight": among(2.0),
    "n_features_to_select": among(1, 2, 3),
    "n_iter": among(1, 2, 5),
    "n_knots": among(2, 5, 40),
    "p": among(1.0, 1.5, 2.0),
    "quantile": among(0.01, 0.5, 0.9),
    "radius": between(1e-3, 1e3),
    "row_norm": between(1e-1, 10.0),
    "target_bound": between(1e-6, 1e6),
    "threshold": between(1e-2, 10.0),
    "upper": among(1.0, 1e6),
}
CLIPPING = {
    "coordinate-descent": CoordinateDescent,
    "greedy-coordinate-descent": GreedyCoordinateDescent,
    "gradient-descent": GradientDescent,
    "sgd": SGD,
}
LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "a view": lambda X: np.repeat(X, 2, axis=0)[::2],
    "float32": lambda X: np.clip(X, -1e30, 1e30).astype(np.float32),
    "integers": lambda X: np.clip(X, -1e9, 1e9).astype(np.int64),
    "list": np.ndarray.tolist,
    "sparse": sparse.csr_array,
    "sparse float32": lambda X: sparse.csr_array(LAYOUTS["float32"](X)),
}
COLUMNS = [
    lambda rng, n: rng.uniform(-1.0, 1.0, n),
    lambda rng, n: rng.normal(size=n) * 10.0 ** rng.uniform(-150.0, 150.0),
    lambda rng, n: rng.standard_cauchy(n) * (rng.random(n) < 0.2),
    lambda rng, n: rng.integers(0, 3, n).astype(float),
    lambda rng, n: np.full(n, rng.choice([0.0, 5e-324, 0.7300000000000123])),
]


def options_of(Estimator, name):
    """Strings and booleans that a parameter may be."""
    constraints = Estimator._parameter_constraints.get(name, ())
    found = [value for one in constraints for value in sorted(getattr(one, "options", ()))]
    return found + ([False, True] if "boolean" in constraints else [])


def designs():
    """Estimators, each of their solvers, whether a radius is given, and whether X is sparse."""
    for Estimator in ESTIMATORS:
        solvers = options_of(Estimator, "solver") or [None]
        given = [False, True] if "radius" in signature(Estimator).parameters else [False]
        yield from itertools.product([Estimator], solvers, given, [False, True])


DESIGNS = list(designs())


def parameters_of(Estimator, solver, in_ball, rng):
    """Keyword arguments, each of them legal; about a third differ from the default."""
    drawn = {}
    for name in signature(Estimator).parameters:
        values = options_of(Estimator, name) + ([NUMBERS[name](rng)] if name in NUMBERS else [])
        if values and rng.random() < 0.35:
            drawn[name] = among(*values)(rng)
    drawn["epsilon"] = NUMBERS["epsilon"](rng)
    if solver is not None:
        drawn["solver"] = solver
    if issubclass(Estimator, CompositeModel) and solver in CLIPPING and rng.random() < 0.35:
        drawn["solver"] = CLIPPING[solver](clip=NUMBERS["clip"](rng))
    if in_ball:
        drawn["radius"] = NUMBERS["radius"](rng)
    else:
        drawn.pop("radius", None)
    if "classes" in signature(Estimator).parameters:
        drawn["classes"] = [0, 1, 2][: among(2, 2, 3)(rng)]
    if "relation" not in drawn and rng.random() < 0.2:
        drawn["max_records_per_unit"] = 2
    return drawn


def case_of(seed):
    """An estimator with legal parameters, and finite data, some of them extreme."""
    rng = np.random.default_rng(seed)
    Estimator, solver, in_ball, is_sparse = DESIGNS[seed * 101 % len(DESIGNS)]
    parameters = parameters_of(Estimator, solver, in_ball, rng)
    n = among(3, 23, 1150, 1150)(rng)
    X = np.column_stack([among(*COLUMNS)(rng)(rng, n) for _ in range(rng.integers(1, 4))])
    y = rng.permutation(np.arange(n) % len(parameters.get("classes", [0, 1])))
    y += get_tags(Estimator()).target_tags.positive_only
    layouts = [name for name in LAYOUTS if name.startswith("sparse") == is_sparse]
    return Estimator, parameters, X, y, among(*layouts)(rng)


def with_records(Estimator, parameters, n):
    """What else is passed to `fit`: groups, weights and units of records."""
    passed = {}
    if Estimator is PrivateGroupDRO:
        passed["sensitive_features"] = np.arange(n) % 2
    if "max_weight" in parameters:
        passed["sample_weight"] = np.arange(n) % 3
    if "max_records_per_unit" in parameters:
        passed["units"] = np.arange(n) // 3
    return passed


def is_long(X):
    """Which values have many digits, unlike zeros and ones, which occur everywhere."""
    return np.abs(np.modf(X)[0]) > 1e-3


def arrays_of(value):
    """The arrays in a fitted attribute."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from arrays_of(part)
    elif hasattr(value, "__dict__"):
        yield from arrays_of(list(vars(value).values()))


@pytest.mark.filterwarnings("ignore::UserWarning")
@each("seed", range(FIRST, FIRST + N_FITS))
def test_a_fit_pays_for_what_it_releases(seed):
    Estimator, parameters, X, y, layout = case_of(seed)
    k = parameters.get("max_records_per_unit", 1)
    relation = parameters.get("relation", "replace-one")
    ledger = Ledger(1e15, 0.9, relation=relation, max_records_per_unit=k)
    drawn, n = [], len(y)

    def counted(*arguments, **options):
        drawn.append(ledger.spent())
        return generator(*arguments, **options)

    model = Estimator(**parameters, ledger=ledger)
    print(seed, model, layout, X.shape)
    records = LAYOUTS[layout](X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_estimator, "generator", counted)
        try:
            model.fit(records, y, **with_records(Estimator, parameters, n))
        except (ValueError, TypeError):
            assert len(ledger.charges()) == 0
            assert drawn == fitted_names(model) == []
            return
    (charge,) = ledger.charges()
    report = model.privacy_
    assert len(drawn) == 1
    assert isclose(rho_of(report.event), charge.rho, rel_tol=1e-12, abs_tol=0.0)
    assert charge.rho <= k**2 * model._budget().rho * (1 + 1e-9)
    assert (report.epsilon, report.delta) == (model.epsilon, model.delta)
    assert not report.seeded
    arrays = [(name, a) for name in fitted_names(model) for a in arrays_of(getattr(model, name))]
    for name, array in arrays:  # a path may have as many points as there are records
        assert n == 3 or name == "path_" or n not in array.shape
        assert array.dtype.kind not in "fc" or np.isfinite(array).all()
    pickled = pickle.dumps({name: getattr(model, name) for name in fitted_names(model)})
    assert not any(value.tobytes() in pickled for value in X[is_long(X)])
    if hasattr(model, "predict"):
        predictions = model.predict(records)
        assert len(predictions) == n
        assert np.isfinite(predictions).all()
