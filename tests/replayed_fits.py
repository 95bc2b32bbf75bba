"""Whole fits of every public estimator, run again on neighbours with the releases of the first run.

Statistics are recorded in grid units just before noise is drawn. Releases are replayed for a
neighbour, so that later releases are made at the same points: units of features and targets that
are found first, the solver's steps, with weights of records, from a public model, and for groups of
records, of which one may be the only one in its group. What a fit does after a release is a
function of it, so a replayed fit must draw the same noise on the same grids, and end with the same
fitted attributes. Cebere et al. (2026) check libraries in this way; their classes of bugs are
tests/audit/test_domain_inference.py, test_nan_injection.py, test_miscalibration.py and
test_size_leaks.py there, and tests/test_planned_noise.py, which finds what is spent twice.
"""

import sys

import joblib
import numpy as np
import pandas as pd
from scipy import sparse

from skdpsco import (
    Bins,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
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
    PrivateMoments,
    PrivateMonotoneGLM,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSynthesizer,
    Schema,
)
from skdpsco.mechanisms import samplers
from skdpsco.mechanisms.samplers import SCALE_BITS, to_grid
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivatePCA,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
)
from skdpsco.privacy import rho_of
from skdpsco.privacy.accounting import for_units
from skdpsco.scaling import quantiles
from skdpsco.solvers import vertex_choice
from skdpsco.solvers.l1 import vertex_path
from skdpsco.solvers.vertex_choice import vertex_scores
from skdpsco.survival import PrivateKaplanMeier, PrivateLogRank, PrivateSurvivalRegressor

N, D = 40, 2
SIZES = [0.0, 1e-300, 0.3, 1.0, 7.0, 1e200]
FAR = [0.0, 1e6, 1e6 + 50.0, 1e6 - 2000.0, -1e6, 1.04e6]
BY_STEPS = {"solver": "gradient-descent", "n_iter": 3}
BALL = {"classes": [0, 1], "radius": 3.0, "n_iter": 5}
ADDED = {"relation": "add-or-remove-one"}
TARGETS = {"target_bound": 2.0, "feature_bound": 1.0}
TABLE = Schema(
    {"0": {"bounds": [-1, 1], "missing": True}, "1": {"bounds": [-2, 2]}, "c": ["u", "v"]}
)
RAW_TABLE = Schema({"c": ["u", "v"]})  # bounds of numbers are found
FITS = {
    "moments": lambda: PrivateMoments(feature_bound=None),
    "several": lambda: PrivateRidge(feature_bound=None),
    "added": lambda: PrivateMoments(relation="add-or-remove-one", **TARGETS),
    "added to steps": lambda: PrivateRidge(feature_bound=None, n_iter=3, **ADDED),
    "added with weights": lambda: PrivateHuberRegressor(max_weight=2.0, n_iter=3, **ADDED),
    "added to classes": lambda: PrivateLogisticRegression(classes=[0, 1], **ADDED),
    "added to an init of classes": lambda: PrivateLogisticRegression(classes=[0, 1], **ADDED),
    "added to an init of sizes": lambda: PrivateGammaRegressor(
        feature_bound=1.0, n_iter=3, **ADDED
    ),
    "added beside public classes": lambda: PrivateLogisticRegression(
        classes=[0, 1], n_iter=3, **ADDED
    ),
    "added to a ball": lambda: PrivateLasso(feature_bound=None, **ADDED),
    "added to a path": lambda: PrivateLasso(n_iter=5, target_bound=2.0, **ADDED),
    "added to a path of classes": lambda: PrivateLogisticL1(**BALL, **ADDED),
    "added to vertices of classes": lambda: PrivateLogisticL1(
        solver="frank-wolfe", **BALL, **ADDED
    ),
    "added to gradients of classes": lambda: PrivateLogisticL1(
        solver="noisy-frank-wolfe", **BALL, **ADDED
    ),
    "added to a path of three classes": lambda: PrivateLogisticL1(
        n_iter=5, classes=[0, 1, 2], **ADDED
    ),
    "added to three classes": lambda: PrivateLogisticRegression(classes=[0, 1, 2], **ADDED),
    "added to components": lambda: PrivatePCA(**ADDED),
    "added to a net": lambda: PrivateElasticNet(n_iter=3, **ADDED),
    "added to quantiles": lambda: PrivateQuantileRegressor(n_iter=3, **ADDED),
    "added to counts": lambda: PrivatePoissonRegressor(n_iter=3, **ADDED),
    "added to margins of classes": lambda: PrivateLinearSVC(classes=[0, 1], n_iter=3, **ADDED),
    "added to curves of classes": lambda: PrivateAdditiveClassifier(
        classes=[0, 1], schema=TABLE, **ADDED
    ),
    "added to curves of counts": lambda: PrivateAdditiveRegressor(
        loss="poisson", schema=TABLE, **ADDED
    ),
    "added to curves of outliers": lambda: PrivateAdditiveRegressor(
        loss="huber", schema=TABLE, **ADDED
    ),
    "added to a round ball": lambda: PrivateLinearRegressor(p=2, n_iter=4, **ADDED),
    "added to a sharp ball of classes with weights": lambda: PrivateLinearClassifier(
        p=1, class_weight={0: 0.2}, max_weight=2.0, classes=[0, 1], n_iter=4, **ADDED
    ),
    "added to a ball of three classes": lambda: PrivateLinearClassifier(
        p=np.inf, classes=[0, 1, 2], n_iter=4, **ADDED
    ),
    "short rows": lambda: PrivateMoments(row_norm=0.5, **TARGETS),
    "any group of moments with weights": lambda: PrivateMoments(
        groups=[0, 1], max_weight=2.0, **TARGETS
    ),
    "group of moments": lambda: PrivateMoments(groups=[0, 1, 2], feature_bound=None),
    "classes": lambda: PrivateMoments(classes=[0, 1, 2], conditioning=None),
    "discriminants": lambda: PrivateLinearDiscriminantAnalysis(classes=[0, 1, 2]),
    "components": lambda: PrivatePCA(feature_bound=None),
    "weights": lambda: PrivateRidge(max_weight=2.0, **BY_STEPS),
    "weights of classes": lambda: PrivateLogisticRegression(
        classes=[0, 1], class_weight={0: 0.2}, max_weight=2.0, **BY_STEPS
    ),
    "init": lambda: PrivateQuantileRegressor(feature_bound=1.0, **BY_STEPS),
    "public records": lambda: PrivateRidge(feature_bound=None, **BY_STEPS),
    "public counts": lambda: PrivatePoissonRegressor(**BY_STEPS),
    "public classes with weights": lambda: PrivateLogisticRegression(
        classes=[0, 1, 2], max_weight=2.0, **BY_STEPS
    ),
    "init of counts": lambda: PrivatePoissonRegressor(feature_bound=1.0, **BY_STEPS),
    "init of several": lambda: PrivateRidge(feature_bound=1.0, target_bound=2.0),
    "init of classes": lambda: PrivateLogisticRegression(classes=[0, 1], **BY_STEPS),
    "init of three classes with weights": lambda: PrivateLogisticRegression(
        classes=[0, 1, 2], class_weight={0: 0.2}, max_weight=2.0, **BY_STEPS
    ),
    "errors": lambda: PrivateRidge(standard_errors=True, target_bound=2.0, **BY_STEPS),
    "errors of outliers": lambda: PrivateHuberRegressor(standard_errors=True, **BY_STEPS),
    "errors of counts": lambda: PrivatePoissonRegressor(standard_errors=True, **BY_STEPS),
    "errors of sizes with weights": lambda: PrivateGammaRegressor(
        standard_errors=True, target_bound=2.0, max_weight=2.0, **BY_STEPS
    ),
    "errors of classes": lambda: PrivateLogisticRegression(
        classes=[0, 1], standard_errors=True, **BY_STEPS
    ),
    "errors with weights": lambda: PrivateRidge(
        standard_errors=True, target_bound=2.0, max_weight=2.0, **BY_STEPS
    ),
    "errors of three classes with weights": lambda: PrivateLogisticRegression(
        classes=[0, 1, 2], standard_errors=True, max_weight=2.0, **BY_STEPS
    ),
    "any group": lambda: PrivateGroupDRO(
        loss="squared", groups=[0, 1], group_membership="private", **TARGETS
    ),
    "alone in its group": lambda: PrivateGroupDRO(loss="absolute", groups=[0, 1], **TARGETS),
    "group of weighted classes": lambda: PrivateGroupDRO(
        groups=[0, 1], classes=[0, 1], class_weight={0: 0.2}
    ),
    "any group of weighted classes": lambda: PrivateGroupDRO(
        groups=[0, 1], classes=[0, 1], class_weight={1: 0.2}, group_membership="private"
    ),
    "rare class": lambda: PrivateMinimaxClassifier(classes=[0, 1], class_weight={0: 0.2}),
    "link": lambda: PrivateMonotoneGLM(link="identity"),
    "tasks": lambda: PrivateMinimaxRegressor(target_bound=2.0),
    "selected raw classes": lambda: PrivateFeatureSelector(
        n_features_to_select=1, feature_bound=None, classes=[0, 1]
    ),
    "raw columns and tasks": lambda: PrivateMinimaxRegressor(feature_bound=None),
    "raw columns and a link": lambda: PrivateMonotoneGLM(link="identity", feature_bound=None),
    "raw columns in a ball": lambda: PrivateLinearRegressor(
        feature_bound=None, solver="projected-descent", n_iter=3
    ),
    "columns far from 0": lambda: PrivateRidge(),
    "columns far from 0 of three classes": lambda: PrivateLogisticRegression(classes=[0, 1, 2]),
    "raw columns of any group": lambda: PrivateGroupDRO(
        loss="squared", groups=[0, 1], group_membership="private", feature_bound=None
    ),
    "public net": lambda: PrivateElasticNet(n_iter=3),
    "classes by margins": lambda: PrivateLinearSVC(classes=[0, 1], n_iter=3),
    "classes in a round ball": lambda: PrivateLinearClassifier(classes=[0, 1], n_iter=3),
    "round ball": lambda: PrivateLinearRegressor(solver="projected-descent", n_iter=3),
    "path of classes": lambda: PrivateLogisticL1(**BALL),
    "vertices of classes": lambda: PrivateLogisticL1(solver="frank-wolfe", **BALL),
    "path": lambda: PrivateLasso(n_iter=5, target_bound=2.0),
    "scaled components": lambda: PrivateStandardScaler(lower=-1.0, upper=1.0),
    "scaled raw components": lambda: PrivateStandardScaler(),
    "clipped components": lambda: PrivateQuantileClipper(),
    "bent components": lambda: PrivateSplineTransformer(),
    "bent declared components": lambda: PrivateSplineTransformer(lower=-5, upper=5),
    "added to bent components": lambda: PrivateSplineTransformer(lower=-5, upper=5, **ADDED),
    "selected classes": lambda: PrivateFeatureSelector(
        n_features_to_select=1, feature_bound=1.0, classes=[0, 1]
    ),
    "curves with missing numbers": lambda: PrivateAdditiveRegressor(schema=TABLE),
    "curves of outliers with missing numbers": lambda: PrivateAdditiveRegressor(
        loss="huber", schema=TABLE
    ),
    "curves of raw numbers": lambda: PrivateAdditiveRegressor(schema=RAW_TABLE),
    "curves of years": lambda: PrivateAdditiveRegressor(schema=RAW_TABLE),
    "curves of counts": lambda: PrivateAdditiveRegressor(loss="poisson", schema=TABLE),
    "curves of classes with missing numbers": lambda: PrivateAdditiveClassifier(
        classes=[0, 1, 2], schema=TABLE
    ),
    "added to curves with missing numbers": lambda: PrivateAdditiveRegressor(schema=TABLE, **ADDED),
    "added to curves of raw numbers": lambda: PrivateAdditiveRegressor(schema=RAW_TABLE, **ADDED),
    "synthetic components with missing numbers": lambda: PrivateSynthesizer(
        domain=Bins([-1, 0, 1], points=[0], missing=True),
        random_state=0,  # what follows the release is drawn, too
    ),
    "lives of components": lambda: PrivateKaplanMeier(times=[0.3, 1.0]),
    "lives compared": lambda: PrivateLogRank(times=[0.3, 1.0], groups=[0, 1]),
    "lives": lambda: PrivateSurvivalRegressor(times=[0.3, 1.0]),
    "errors of lives": lambda: PrivateSurvivalRegressor(times=[0.3, 1.0], standard_errors=True),
    "search": lambda: PrivateGridSearchCV(
        PrivateRidge(feature_bound=1.0, target_bound=2.0, **BY_STEPS),
        {"alpha": [0.1, 1.0]},
        return_scores=True,
        random_state=0,  # the parts are drawn before noise
    ),
}


COMMON = "init", "public_data"  # what neighbours have in common
DENSE = "far", "curves", "lives", "synthetic", "bent", "clipped"  # fits to arrays and frames
PUBLIC = np.random.default_rng(1).uniform(-1, 1, (20, D))


class Rho:
    """A ledger that remembers the last charge, for the replacement of a unit."""

    def __init__(self, k=1):
        self.max_records_per_unit = k

    def charge(self, event, *args):
        self.rho = rho_of(for_units(event, self.max_records_per_unit))


class Public:
    """A model of other records."""

    coef_, intercept_ = np.array([3.0, -100.0]), 0.5


class PublicClasses:
    """A model of three classes of them."""

    coef_, intercept_ = np.outer([1.0, -1.0, 0.0], Public.coef_), np.zeros(3)


class PublicTargets:
    """A model of two targets of them."""

    coef_, intercept_ = np.outer([1.0, -2.0], Public.coef_), np.array([0.5, 1.0])


def neighbours(name, rng, k=1, alike=False):
    """Data that differ in the first k records; no other record has a value of its own if ``alike``.

    Then a class, a group or a value in a column occurs in the first records only.
    """
    several = name in ("moments", "several", "init of several")
    classes = FITS[name]().get_params(deep=False).get("classes")
    K = None if classes is None else len(classes)
    X = rng.choice([0.2, 1.0] if "far" in name else [0.0, 0.2, 1.0]) * rng.uniform(-1, 1, (N, D))
    Y = rng.normal(size=(N, 2)) if several else rng.normal(size=N)
    Y = Y if K is None else rng.integers(K, size=N)
    weights = rng.uniform(0, 3, N)
    if alike:
        X[:], Y[:], weights[:] = X[-1], Y[-1], 1.0

    def extreme(shape):
        return rng.choice([-1.0, 1.0], shape) * rng.choice(SIZES, shape)

    for _ in range(4):
        x, y, w = X.copy(), Y.copy(), weights.copy()
        x[:k], w[:k] = extreme((k, D)), rng.choice([0.0, 1e-9, 1.0, 1e200], k)
        if "far" in name:
            x[k:], x[:k] = 1e6 + 100.0 * X[k:], rng.choice(FAR, (k, D))
        if "years" in name:  # which are looked at closer
            x[k:], x[:k] = 2000.0 + 9.0 * X[k:], rng.choice([0.0, 1992.0, 2008.0, 1e200], (k, D))
        if "missing" in name:
            x[:k, 0] = rng.choice([np.nan, *x[0]], k)
        y[:k] = extreme((k, *Y.shape[1:])) if K is None else rng.integers(K, size=k)
        if "counts" in name or "sizes" in name:
            y = np.abs(y) + 1e-300
        more = {"sample_weight": w} if "weights" in name else {}
        if "init" in name:
            more["init"] = PublicClasses() if K == 3 else Public()
            if several:
                more["init"] = PublicTargets()
        if "public" in name:
            more["public_data"] = PUBLIC, np.arange(20) % (K or 7)
        if "group" in name:
            first = rng.integers(2, size=k) if "any" in name else [0] * k
            more["sensitive_features"] = np.append(first, np.ones(N - k, dtype=int))
        if "lives" in name:
            y = np.column_stack([y > 0.0, np.abs(y)])
            x = y if "components" in name else x
        if "compared" in name:  # one of their groups may have no other record
            others = np.zeros(N - k, dtype=int) if alike else np.arange(N - k) % 2
            x, y = y, np.append(rng.integers(2, size=k), others)
        if "curves" in name:
            letters = ["u", "v", "w"]  # of which the table does not know the last
            x = pd.DataFrame(x, columns=["0", "1"]).assign(c="u")
            x.loc[: k - 1, "c"] = rng.choice(letters, k)
            x.loc[k:, "c"] = "u" if alike else np.where(X[k:, 1] > 0, "u", "v")
        yield x, () if "components" in name else (y,), more


class Recorder:
    """A stand-in for draws of noise, which it records or replays."""

    def __init__(self, monkeypatch):
        self.vertex, self.point = vertex_choice.choose_vertex, vertex_path.draw
        self.gaussian, self.choice = samplers.gaussian_mechanism, quantiles.choose_index
        for module in [m for name, m in sys.modules.items() if name.startswith("skdpsco.")]:
            for name, real, mine in (
                ("gaussian_mechanism", self.gaussian, self.add_noise),
                ("choose_index", self.choice, self.choose),
                ("choose_vertex", self.vertex, self.choose_vertex),
                ("draw", self.point, self.draw),
            ):
                if vars(module).get(name) is real:
                    monkeypatch.setattr(module, name, mine)

    def add_noise(self, rng, values, grid):
        units = np.array([to_grid(value, grid) for value in values], dtype=float)
        deviation = self.gaussian(rng, values, grid)
        values[:] = self.replayed("noise", units, grid, values.copy())
        return deviation

    def choose(self, rng, scores, grid):
        units = np.array([to_grid(score, grid) for score in scores], dtype=float)
        return self.replayed("choice", units, grid, self.choice(rng, scores, grid))

    def choose_vertex(self, vertices, G, grid, mechanism, rng):
        scores = np.empty(max(len(vertices.axis), len(vertices.points)))
        vertex_scores(vertices, G, scores)
        units = np.array([to_grid(-score, grid) for score in scores], dtype=float)
        return self.replayed("choice", units, grid, self.vertex(vertices, G, grid, mechanism, rng))

    def draw(self, mechanism, rng, units):
        return self.replayed("choice", units.astype(float), 0.0, self.point(mechanism, rng, units))

    def replayed(self, kind, units, grid, outcome):
        if self.first is not None:
            same, _, on, outcome = self.first[len(self.found)]
            assert (same, on) == (kind, grid)
        self.found.append((kind, units, grid, outcome))
        return outcome

    def fit(self, model, data, first=None, k=1):
        """What a fit released, and what it charged."""
        self.first, self.found, ledger = first, [], Rho(k)
        X, y, more = data
        model.set_params(ledger=ledger).fit(X, *y, **more)
        return self.found, ledger.rho


def fitted(model):
    """A digest of all fitted attributes."""
    return joblib.hash({k: v for k, v in vars(model).items() if k.endswith("_")})


def lost(first, second):
    """The zCDP of all releases together, between two data sets."""
    total = 0.0
    for (kind, units, *_), (_, others, *_) in zip(first, second, strict=True):
        change = (units - others) / 2.0**SCALE_BITS
        total += change @ change / 2 if kind == "noise" else np.ptp(change) ** 2 / 8
    return total


def replays(recorder, name, epsilon, rng, *, sparse_too=True, alike=False, k=1):
    """What a fit loses in each replay on a neighbour, as a share of its charge."""
    model = FITS[name]().set_params(epsilon=epsilon, delta=1e-3)
    if k > 1:
        model.set_params(max_records_per_unit=k)
    one, *others = neighbours(name, rng, k, alike)
    if k > 1:
        one, *others = (
            (X, y, {**more, "units": np.arange(N) // k}) for X, y, more in (one, *others)
        )
    if sparse_too and rng.random() < 0.3 and not any(word in name for word in DENSE):
        one, *others = ((sparse.csr_matrix(X), *more) for X, *more in (one, *others))
    sought = "far" in name and k == 1 and not alike
    for _ in range(3):  # one fit in 200 misses a median of so few records by chance
        first, rho = recorder.fit(model, one, k=k)
        if not sought or (np.diff(model.feature_range_, axis=0) < 1e5).all():
            break
    else:
        raise AssertionError("no interval around a median was found")
    known = fitted(model)
    for other in others:
        if "added" in name:
            X, y, more = one
            fewer = {key: value[1:] for key, value in more.items() if key not in COMMON}
            other = X[1:], tuple(part[1:] for part in y), {**more, **fewer}
        found, charged = recorder.fit(model, other, first, k)
        assert charged == rho
        assert fitted(model) == known
        yield lost(first, found) / rho if found else 0.0
