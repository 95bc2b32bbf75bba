"""scikit-learn's checks of all estimators, over a table of families."""

import numpy as np
import pytest
from scikit_learn_checks import cases_of, with_cases

import skdpsco as dp
from skdpsco import preprocessing


class InTwoGroups(dp.PrivateGroupDRO):
    """scikit-learn's checks call ``fit(X, y)``, which here is an error: groups must be given.

    One group for all records would satisfy them, but a forgotten argument would do so silently too.
    """

    def fit(self, X, y, *, sensitive_features=None):
        if sensitive_features is None:
            n = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X, dtype=object))
            sensitive_features = np.arange(n) % 2
        return super().fit(X, y, sensitive_features=sensitive_features)


DEFAULT = dp.PrivateMinimaxClassifier()
BY_DRAWS = dp.PrivateMinimaxClassifier(solver="mirror-descent", n_iter=3)
UTILITY = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
# A few steps take a fraction of the time of the default, and conventions are the same.
CASES = [
    *cases_of([dp.PrivateLasso(), dp.PrivateLogisticL1()]),
    *cases_of(
        [dp.PrivateRidge()],
        [
            dp.PrivateElasticNet(),
            dp.PrivateLogisticRegression(),
            dp.PrivateLinearSVC(),
            dp.PrivateHuberRegressor(),
            dp.PrivateQuantileRegressor(),
            dp.PrivatePoissonRegressor(),
            dp.PrivateGammaRegressor(),
        ],
    ),
    *cases_of([dp.PrivateLinearRegressor()], [dp.PrivateLinearClassifier()]),
    *cases_of([dp.PrivateLinearDiscriminantAnalysis(epsilon=100.0)], marks=[UTILITY]),
    *cases_of(
        [dp.PrivateMoments(epsilon=100.0)],
        [preprocessing.PrivatePCA(epsilon=100.0)],
        marks=[UTILITY],
    ),
    *cases_of(
        [dp.PrivateMonotoneGLM(link="identity", target_bound=9.0, solver="mirror-prox", n_iter=3)],
        [dp.PrivateMonotoneGLM()],
        marks=[UTILITY],  # with as few records noise decides whether targets seem to be clipped
    ),
    *cases_of(
        [InTwoGroups(loss="hinge", n_iter=3)],
        [
            InTwoGroups(),
            InTwoGroups(loss="absolute", n_iter=3),
            InTwoGroups(
                loss="squared",
                cvar_level=0.2,
                groups=[0, 1],
                group_membership="private",
                group_prior=[0.5, 0.5],
            ),
        ],
        marks=[UTILITY],
    ),
    *cases_of(
        [dp.PrivateMinimaxClassifier(tasks=None, solver="mirror-prox", n_iter=2)],
        [
            DEFAULT,
            BY_DRAWS,
            dp.PrivateMinimaxRegressor(n_iter=3),
            dp.PrivateMinimaxRegressor(losses=["absolute", "huber"], n_iter=3),
        ],
        # It asks for 100 steps on 50 records, where every step needs one of its own.
        refused=[(model, "check_class_weight_classifiers") for model in (DEFAULT, BY_DRAWS)],
    ),
    *cases_of(
        [dp.PrivateGridSearchCV(dp.PrivateLogisticL1(), {"radius": [1.0]}, strategy="composition")]
    ),
    *cases_of(
        [
            preprocessing.PrivateStandardScaler(),
            preprocessing.PrivateQuantileClipper(),
            preprocessing.PrivateFeatureSelector(),
            preprocessing.PrivateSplineTransformer(),
        ],
        [
            preprocessing.PrivateSplineTransformer(2, 0, knots="uniform", lower=-1, upper=1),
            preprocessing.PrivateStandardScaler(with_std=False),
            preprocessing.PrivateQuantileClipper(feature_range=(-1, 1)),
            preprocessing.PrivateFeatureSelector(n_features_to_select=1),
            preprocessing.PrivateFeatureSelector(n_features_to_select=1, task="regression"),
        ],
        marks=[
            pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning"),
            pytest.mark.filterwarnings("ignore:Bounds of the columns cannot be found"),
        ],
    ),
    *cases_of(
        [
            preprocessing.RowClipper(),
            preprocessing.ColumnClipper(),
            preprocessing.PublicBoundsScaler(),
            preprocessing.CategoricalDomainEncoder([0.0, 1.0, 2.0]),
        ],
        [preprocessing.PublicBoundsScaler(0, 3)],
    ),
]


@with_cases(CASES)
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API:UserWarning")
@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)
