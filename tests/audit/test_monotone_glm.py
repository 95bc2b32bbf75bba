"""Monotone models: what a release may change by, over neighbours and hostile links; its noise.

Statistics are recorded in grid units just before noise is drawn, for all pairs of data
sets that differ in one record. Releases are replayed, so that later releases are made at
the same points.
"""

import itertools
import math

import numpy as np
import pytest
from recorded_releases import RecordedReleases, charges_of
from scipy import sparse
from scipy.special import expit

from skdpsco import PrivateMonotoneGLM
from skdpsco.linear_model import Link
from skdpsco.losses.kernels import bounded_entries
from skdpsco.mechanisms.samplers import gaussian_grid
from skdpsco.model_selection import PrivateGridSearchCV, make_private_scorer
from skdpsco.scaling import column_scales
from skdpsco.solvers.groups import monotone_glm as _monotone
from skdpsco.solvers.penalized import gradient_descent
from skdpsco.solvers.saddle import mirror_prox

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.usefixtures("as_they_are"),
]
MODULES = (column_scales, gradient_descent, _monotone, mirror_prox)
SOLVERS = pytest.mark.parametrize("solver", ["gradient-descent", "mirror-prox"])
N = 5
BUDGET = {
    "epsilon": 2000.0, "delta": 1e-6, "n_iter": 2, "random_state": 0,
}  # fmt: skip


class Hostile:
    """A link on the grid of `Link`; with other arguments it tries to break privacy."""

    def __init__(self, harm):
        self.harm, self.seen = harm, []
        self.grid = None

    def __call__(self, z):
        if self.grid is None:
            self.grid = z.copy()
        self.seen.append(z.copy())
        if np.array_equal(z, self.grid):
            z[:] = self.grid[::-1]  # its argument is its own
            return np.clip(0.5 + 50.0 * self.grid, 0.0, 1.0)
        return self.harm(z)


def complain(z):
    raise RuntimeError("I have seen a record.")


def charges(model, n_releases):
    """Sensitivity over scale that every release was charged, in their order."""
    mu = charges_of(model.privacy_.event)
    if model.solver == "gradient-descent":
        assert len(mu) == n_releases
        return mu
    calls = n_releases - 1  # the first is the norm
    assert calls == 2 * model.n_iter_ - 1
    return [mu[0], *[mu[1] / math.sqrt(calls)] * calls]


def worst_ratios(monkeypatch, model, link, d, place, base, layout=np.asarray, size=0.1):
    """Largest change over charge of every release, when the record at ``place`` is replaced."""
    releases = RecordedReleases(monkeypatch, *MODULES)
    releases.size, releases.least = size, 1.0
    targets = (link.low - 9.0, 0.5 * (link.low + link.high), link.high + 9.0)
    features = [*itertools.product((-9.0, 9.0), repeat=d), (0.0,) * d, (0.3, -0.2, 1.1)[:d]]
    extreme = list(itertools.product(features, targets))
    rest = [extreme[(5 * i + base) % len(extreme)] for i in range(N - 1)]

    def run(records):
        model.fit(layout(np.array([x for x, _ in records])), np.array([y for _, y in records]))
        return np.append(model.coef_, model.intercept_)

    sets = [[*rest[:place], record, *rest[place:]] for record in [extreme[base], *extreme]]
    releases.begin(None)
    run(sets[0])
    return releases.ratios(run, sets, charges(model, len(releases.seen)), releases.seen)


@SOLVERS
@pytest.mark.parametrize(
    ("harm", "d", "intercept", "layout", "place"),
    [
        (complain, 1, False, np.asarray, 0),
        (lambda z: 1e300 * z, 2, True, sparse.csr_matrix, 3),
        (lambda z: np.full(len(z), np.nan), 2, False, np.asarray, 4),
        (lambda z: z - z.mean(), 1, True, sparse.csr_matrix, 1),
    ],
)
def test_releases_change_by_what_is_charged(monkeypatch, solver, harm, d, intercept, layout, place):
    function = Hostile(harm)
    link = Link(function, 0.0, 1.0)
    model = PrivateMonotoneGLM(
        link=link, solver=solver, fit_intercept=intercept, radius=50.0, **BUDGET
    )
    for base in (0, 4):
        ratios = worst_ratios(monkeypatch, model, link, d, place, base, layout)
        assert len(ratios) == (3 if solver == "gradient-descent" else 4)
        assert max(ratios) <= 1.0
        assert min(ratios) > 0.1  # the record is seen at all
    # Fits never hand the function anything but the grid.
    assert all(np.array_equal(z, function.grid) for z in function.seen)
    with np.errstate(all="raise"):
        loss, out = link.loss()[0], np.array([[np.nan], [-1e308], [1e308]])
        bounded_entries(loss, out, np.zeros(3), loss.lipschitz(), out)
        assert np.abs(out).max() <= 2.0


class Meddler:
    """On the symmetric grid it is logistic; elsewhere it mixes, keeps and refuses records."""

    def __init__(self):
        self.kept = 0.0

    def __call__(self, z):
        self.kept += abs(float(z.mean())) > 1e-9
        if z.max() > 1e7:
            raise RuntimeError("I have seen a record.")
        return expit((1.0 + self.kept) * (z - z.mean()))


def test_no_link_sees_what_a_search_scores():
    """A search charges for scores that depend on one record each."""
    function, rng = Meddler(), np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (200, 2)), rng.random(200)
    model = PrivateMonotoneGLM(link=Link(function, 0.0, 1.0), **BUDGET).fit(X, y)
    scorer = make_private_scorer(lambda y, p: -np.abs(y - p), -1.0, 0.0)
    before = scorer.records(model, X, y)
    X[0] = 1e9 * model.coef_
    after = scorer.records(model, X, y)
    assert after[0] != before[0]
    assert np.array_equal(after[1:], before[1:])
    alone = [float(model.predict(x[None])[0]) for x in X]
    assert model.predict(X) == pytest.approx(alone, abs=1e-12)
    assert function.kept == 0.0
    search = PrivateGridSearchCV(model, {"fit_intercept": [True, False]}, epsilon=10.0)
    assert search.fit(1e9 * X, y).best_estimator_.link.function.kept == 0.0


def tight(monkeypatch, solver):
    """Largest ratios over what brings out every release."""
    largest = np.zeros(1)
    # Always at its top where predictions are: then the operator may point anywhere.
    top = Link(lambda z: np.clip(1.0 + (z + 1000.0) / 100.0, 0.0, 1.0), 0.0, 1.0)
    for d, link, base in itertools.product((1, 2), (top, Link(expit, 0.0, 1.0)), range(3)):
        model = PrivateMonotoneGLM(
            link=link, solver=solver, fit_intercept=False, radius=50.0, **BUDGET
        )
        ratios = worst_ratios(monkeypatch, model, link, d, 0, base, size=10.0)
        largest = np.maximum(largest, ratios)
    return largest


@SOLVERS
def test_charges_are_tight_and_half_the_noise_is_caught(monkeypatch, solver):
    full = tight(monkeypatch, solver)
    assert full.max() <= 1.0
    assert full.min() > 2 / 3
    for module in MODULES:
        monkeypatch.setattr(module, "gaussian_grid", lambda *args: 0.5 * gaussian_grid(*args))
    assert tight(monkeypatch, solver).min() > 4 / 3


def test_what_data_do_is_silent(monkeypatch):
    """Neither records nor predictions make a fit warn or raise; warnings are errors here."""
    solvers = "gradient-descent", "mirror-prox"
    for solver, x in itertools.product(solvers, (1e308, -1e308, 5e-324, 0.0)):
        X, y = np.full((20, 2), x), np.full(20, -x)
        model = PrivateMonotoneGLM(link=Link(expit, 0, 1), solver=solver, **BUDGET)
        assert np.isfinite(model.fit(X, y).coef_).all()
