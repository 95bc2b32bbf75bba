"""Whole fits: what neighbours change in every release, over all of them, against the charge.

Statistics are recorded in grid units just before noise is drawn. Releases are replayed for a
neighbour, so that later releases are made at the same points: units of features and targets that
are found first, the solver's steps, with weights of records, from a public model, and for groups of
records, of which one may be the only one in its group. Fitted attributes are functions of what was
released, so a replayed fit must have the same.
"""

import sys

import joblib
import numpy as np
import pytest
from scipy import sparse

from skdpsco import (
    PrivateElasticNet,
    PrivateGammaRegressor,
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
)
from skdpsco.data import units as draws_of_units
from skdpsco.mechanisms import samplers
from skdpsco.mechanisms.samplers import SCALE_BITS, to_grid
from skdpsco.preprocessing import PrivateFeatureSelector, PrivatePCA, PrivateStandardScaler
from skdpsco.privacy import rho_of
from skdpsco.privacy.accounting import for_units
from skdpsco.scaling import quantiles
from skdpsco.solvers import vertex_choice
from skdpsco.solvers.l1 import vertex_path

N, D = 40, 2
SIZES = [0.0, 1e-300, 0.3, 1.0, 7.0, 1e200]
FAR = [0.0, 1e6, 1e6 + 50.0, 1e6 - 2000.0, -1e6, 1.04e6]
BY_STEPS = {"solver": "gradient-descent", "n_iter": 3}
BALL = {"classes": [0, 1], "radius": 3.0, "n_iter": 5}
ADDED = {"relation": "add-or-remove-one"}
TARGETS = {"target_bound": 2.0, "feature_bound": 1.0}
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
}


COMMON = "init", "public_data"  # what neighbours have in common
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


def neighbours(name, rng, k=1):
    """Data that differ in the first k records; the second lacks one if records are added."""
    several = name in ("moments", "several", "init of several")
    X = rng.choice([0.2, 1.0] if "far" in name else [0.0, 0.2, 1.0]) * rng.uniform(-1, 1, (N, D))
    labels = {
        "added beside public classes": 2,
        "public classes with weights": 3,
        "init of classes": 2,
        "init of three classes with weights": 3,
        "errors of classes": 2,
        "errors of three classes with weights": 3,
        "weights of classes": 2,
        "group of weighted classes": 2,
        "any group of weighted classes": 2,
        "rare class": 2,
        "classes by margins": 2,
        "selected classes": 2,
        "selected raw classes": 2,
        "classes in a round ball": 2,
        "classes": 3,
        "discriminants": 3,
        "added to classes": 2,
        "added to an init of classes": 2,
        "added to a path of classes": 2,
        "added to vertices of classes": 2,
        "added to gradients of classes": 2,
        "added to a path of three classes": 3,
        "added to three classes": 3,
        "added to a sharp ball of classes with weights": 2,
        "added to a ball of three classes": 3,
        "columns far from 0 of three classes": 3,
    }
    K = labels.get(name)
    Y = rng.normal(size=(N, 2)) if several else rng.normal(size=N)
    Y = Y if K is None else rng.integers(K, size=N)
    weights = rng.uniform(0, 3, N)

    def extreme(shape):
        return rng.choice([-1.0, 1.0], shape) * rng.choice(SIZES, shape)

    for _ in range(4):
        x, y, w = X.copy(), Y.copy(), weights.copy()
        x[:k], w[:k] = extreme((k, D)), rng.choice([0.0, 1e-9, 1.0, 1e200], k)
        if "far" in name:
            x[k:], x[:k] = 1e6 + 100.0 * X[k:], rng.choice(FAR, (k, D))
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

    def choose_vertex(self, constraint, G, grid, mechanism, rng, scores, units):
        found = self.vertex(constraint, G, grid, mechanism, rng, scores, units)
        return self.replayed("choice", units.astype(float), grid, found)

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


@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
@pytest.mark.parametrize("name", FITS)
def test_no_release_tells_more_than_is_charged(name, monkeypatch):
    recorder, rng, most = Recorder(monkeypatch), np.random.default_rng(0), 0.0
    for epsilon in (1000.0, 1e3, 3e3, 1e4) if "far" in name else (1.0, 30.0, 30.0, 1000.0):
        model = FITS[name]().set_params(epsilon=epsilon, delta=1e-3)
        one, *others = neighbours(name, rng)
        if rng.random() < 0.3 and "far" not in name:
            one, *others = ((sparse.csr_matrix(X), *more) for X, *more in (one, *others))
        first, rho = recorder.fit(model, one)
        known = fitted(model)
        if "far" in name:  # intervals around medians were found
            assert (np.diff(model.feature_range_, axis=0) < 1e5).all()
        for other in others:
            if "added" in name:
                X, y, more = one
                fewer = {key: value[1:] for key, value in more.items() if key not in COMMON}
                other = X[1:], tuple(part[1:] for part in y), {**more, **fewer}
            found, _ = recorder.fit(model, other, first)
            assert fitted(model) == known
            most = max(most, lost(first, found) / rho)
    assert 0.1 < most <= 1.0 + 1e-9


# More estimators. (Paths that sum integers are audited elsewhere, as their draws are not recorded.)
MORE = {
    "public net": lambda: PrivateElasticNet(n_iter=3),
    "classes by margins": lambda: PrivateLinearSVC(classes=[0, 1], n_iter=3),
    "classes in a round ball": lambda: PrivateLinearClassifier(classes=[0, 1], n_iter=3),
    "round ball": lambda: PrivateLinearRegressor(solver="projected-descent", n_iter=3),
    "scaled components": lambda: PrivateStandardScaler(lower=-1.0, upper=1.0),
    "scaled raw components": lambda: PrivateStandardScaler(),
    "selected classes": lambda: PrivateFeatureSelector(
        n_features_to_select=1, feature_bound=1.0, classes=[0, 1]
    ),
}
NOT_OF_UNITS = "alone", "group of moments", "group of weighted classes"  # groups are public


def of_units(name):
    return "added" not in name and not (name.startswith(NOT_OF_UNITS) and "any" not in name)


@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
@pytest.mark.parametrize("name", [*filter(of_units, FITS), *MORE])
def test_no_unit_loses_more_than_is_charged(name, monkeypatch):
    """All records of a unit are replaced at once; what is drawn of the others is the same."""
    k = 2
    monkeypatch.setattr(draws_of_units, "_rows", lambda number, k, rng: np.arange(N))
    recorder, rng, most = Recorder(monkeypatch), np.random.default_rng(0), 0.0
    for epsilon in (1.0, 30.0, 30.0):
        model = {**FITS, **MORE}[name]()
        model.set_params(epsilon=epsilon, delta=1e-3, max_records_per_unit=k)
        one, *others = (
            (X, y, {**more, "units": np.arange(N) // k}) for X, y, more in neighbours(name, rng, k)
        )
        first, rho = recorder.fit(model, one, k=k)
        known = fitted(model)
        for other in others:
            found, _ = recorder.fit(model, other, first, k)
            assert fitted(model) == known
            most = max(most, lost(first, found) / rho)
    assert 0.03 < most <= 1.0 + 1e-9
