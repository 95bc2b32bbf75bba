"""Any legal fit, whatever the data: it pays for what it releases, or fails before it pays.

`make properties` tries many more examples.
"""

import os
import pickle
import warnings
from math import isclose

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import skdpsco.base.private_estimator as private_estimator
from skdpsco import (
    Ledger,
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearDiscriminantAnalysis,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMoments,
    PrivateMonotoneGLM,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
)
from skdpsco._random import generator
from skdpsco.base.private_estimator import fitted_names
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivatePCA,
    PrivateQuantileClipper,
    PrivateStandardScaler,
)
from skdpsco.privacy import rho_of

EXAMPLES = int(os.environ.get("SKDPSCO_EXAMPLES", "100"))
# Examples are the same in every run but the nightly one, which looks for new ones.
PROFILE = settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES <= 100,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
OWN = 1.0000000837465928  # of long numbers of the data, so that no parameter is equal to one
N = 23  # no number of features, steps or candidates here, so that an array per record would show
BUDGETS = {
    "epsilon": st.floats(1e-3, 1e3),
    "delta": st.floats(1e-12, 0.5),
}
BOUND = {"feature_bound": st.sampled_from([1e-6, 1.0, 7.5, 1e9])}
LINEAR = {
    **BUDGETS,
    **BOUND,
    "fit_intercept": st.booleans(),
    "conditioning": st.sampled_from(["auto", None]),
    "clip_features": st.booleans(),
}
TARGETS = {"target_bound": st.none() | st.floats(1e-6, 1e6)}
PENALISED = {**LINEAR, "feature_bound": st.none() | BOUND["feature_bound"]}
ALPHA = {"alpha": st.floats(0.0, 1e3)}
TABLE = {**PENALISED, "row_norm": st.none() | st.floats(1e-3, 10.0)}
for name in ("fit_intercept", "clip_features"):
    del TABLE[name]
BALL = {**LINEAR, "calibration": st.sampled_from(["auto", None])}
L_P = {**BALL, "p": st.sampled_from([1.0, 1.5, 2.0]), "row_norm": st.none() | st.floats(0.1, 10.0)}
ESTIMATORS = {
    PrivateRidge: {**PENALISED, **ALPHA, **TARGETS},
    PrivateElasticNet: {**PENALISED, **ALPHA, **TARGETS, "l1_ratio": st.floats(0.0, 1.0)},
    PrivateHuberRegressor: {**PENALISED, **ALPHA, **TARGETS, "threshold": st.floats(0.01, 10.0)},
    PrivateQuantileRegressor: {**PENALISED, **ALPHA, **TARGETS, "quantile": st.floats(0.01, 0.99)},
    PrivatePoissonRegressor: {**PENALISED, **ALPHA, **TARGETS},
    PrivateGammaRegressor: {**PENALISED, **ALPHA, **TARGETS},
    PrivateLogisticRegression: {**PENALISED, "C": st.floats(1e-3, 1e3)},
    PrivateLinearSVC: {**PENALISED, "C": st.floats(1e-3, 1e3)},
    PrivateLinearDiscriminantAnalysis: {
        **{name: values for name, values in PENALISED.items() if name != "fit_intercept"},
        "covariance": st.sampled_from(["full", "diagonal"]),
    },
    PrivateLinearRegressor: {**L_P, **TARGETS},
    PrivateLinearClassifier: L_P,
    PrivateMinimaxRegressor: {**BALL, **TARGETS},
    PrivateMinimaxClassifier: BALL,
    PrivateMonotoneGLM: BALL,
    PrivateMoments: {**TABLE, **TARGETS},
    PrivatePCA: {**TABLE, "whiten": st.booleans()},
    PrivateLasso: {**LINEAR, "radius": st.floats(1e-3, 1e3), "n_iter": st.integers(1, 5)},
    PrivateStandardScaler: {**BUDGETS, "with_std": st.booleans()},
    PrivateQuantileClipper: {**BUDGETS, "upper": st.sampled_from([1.0, 1e6])},
    PrivateFeatureSelector: {**BUDGETS, **BOUND, "n_features_to_select": st.integers(1, 3)},
}
LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "a view": lambda X: np.repeat(X, 2, axis=0)[::2],
    "float32": lambda X: np.clip(X, -1e30, 1e30).astype(np.float32),
    "integers": lambda X: np.clip(X, -1e9, 1e9).astype(np.int64),
    "list": np.ndarray.tolist,
    "sparse": sparse.csr_array,
}


@st.composite
def fits(draw):
    """An estimator with legal parameters, and finite data, some of them extreme."""
    Estimator = draw(st.sampled_from(list(ESTIMATORS)))
    parameters = draw(st.fixed_dictionaries(ESTIMATORS[Estimator]))
    shape = (N, draw(st.integers(1, 3)))
    numbers = st.floats(-1e150, 1e150) | st.floats(-2.0, 2.0) | st.sampled_from([0.0, 5e-324])
    X = draw(hnp.arrays(np.float64, shape, elements=numbers, fill=st.floats(-1.0, 1.0)))
    X = np.where(is_long(X), X * OWN, X)
    labels = draw(hnp.arrays(np.int64, N, elements=st.integers(0, 1)))
    labels[:2] = 0, 1  # both occur
    return Estimator, parameters, X, labels, draw(st.sampled_from(sorted(LAYOUTS)))


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


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning", "ignore::skdpsco.UtilityWarning")
def test_a_fit_pays_for_what_it_releases():
    # Not a decorator: Hypothesis would read all sources wherever this test is collected.
    given(fits())(PROFILE(pay_for_what_is_released))()


def pay_for_what_is_released(case):
    Estimator, parameters, X, y, layout = case
    ledger, drawn = Ledger(1e4, 0.9), []

    def counted(*arguments, **options):
        drawn.append(ledger.spent())
        return generator(*arguments, **options)

    model = Estimator(**parameters, ledger=ledger)
    records = LAYOUTS[layout](X)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        patch.setattr(private_estimator, "generator", counted)
        try:
            model.fit(records, y)
        except (ValueError, TypeError):
            assert len(ledger.charges()) == 0
            assert drawn == fitted_names(model) == []
            return
    (charge,) = ledger.charges()
    report = model.privacy_
    assert len(drawn) == 1
    assert isclose(rho_of(report.event), charge.rho, rel_tol=1e-12, abs_tol=0.0)
    assert charge.rho <= model._budget().rho * (1 + 1e-9)
    assert (report.epsilon, report.delta) == (model.epsilon, model.delta)
    assert not report.seeded
    arrays = [a for name in fitted_names(model) for a in arrays_of(getattr(model, name))]
    for array in arrays:
        assert N not in array.shape
        assert array.dtype.kind not in "fc" or np.isfinite(array).all()
    pickled = pickle.dumps({name: getattr(model, name) for name in fitted_names(model)})
    assert not any(value.tobytes() in pickled for value in X[is_long(X)])
    if hasattr(model, "predict"):
        predictions = model.predict(records)
        assert predictions.shape == (N,)
        assert np.isfinite(predictions).all()
