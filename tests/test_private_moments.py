"""Moments that are released once, and what follows from them: laws, and scikit-learn's answers."""

import pickle
import warnings

import numpy as np
import pytest
from cases import costs_nothing, each
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import ElasticNet, Lasso, Ridge, enet_path
from sklearn.pipeline import make_pipeline

from skdpsco import (
    Ledger,
    PrivateElasticNet,
    PrivateGridSearchCV,
    PrivateLasso,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    RowBlocks,
    UtilityWarning,
)
from skdpsco.inspection import privacy_report
from skdpsco.moments import release
from skdpsco.moments.release import plan_matrix
from skdpsco.preprocessing import PrivatePCA
from skdpsco.privacy import Budget, compose, rho_of
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.solvers.penalized.second_moments import moved_by_one

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")
RNG = np.random.default_rng(0)
N, D = 3000, 4
X = RNG.normal([5.0, 0.0, -3.0, 1.0], [1.0, 2.0, 3.0, 0.5], (N, D))
X[:, 1] += 0.5 * X[:, 2]
Y = X @ [1.0, 0.0, 0.5, -1.0] + RNG.normal(size=N) + 7.0
HARDLY_ANY = {"epsilon": 1e7, "feature_bound": 30.0, "random_state": 0}
WIDE = {**HARDLY_ANY, "target_bound": 40.0}


@pytest.fixture(scope="module")
def moments():
    """Moments with hardly any noise."""
    return PrivateMoments(**WIDE).fit(X, Y)


@pytest.mark.parametrize("conditioning", ["auto", None])
def test_without_noise_they_are_those_of_the_records(conditioning):
    moments = PrivateMoments(conditioning=conditioning, **WIDE).fit(X, Y)
    table = np.column_stack([X, Y])
    limit = 0.02  # few rows are shortened
    assert np.allclose(moments.mean_, table.mean(axis=0), rtol=0, atol=1e-3)
    covariance = np.cov(table.T, bias=True)
    assert np.allclose(moments.covariance_, covariance, rtol=0, atol=limit)
    assert np.allclose(moments.correlation_, np.corrcoef(table.T), rtol=0, atol=limit)
    sizes = f"n_samples={N}, n_features={D}, n_targets=1"
    assert repr(moments.moments_) == f"ReleasedMoments({sizes})"


@pytest.mark.parametrize("intercept", [True, False])
def test_models_are_those_of_scikit_learn(moments, intercept):
    options = {"fit_intercept": intercept}
    for ours, theirs in [
        (PrivateRidge(alpha=50.0, **options), Ridge(alpha=50.0, **options)),
        (PrivateElasticNet(alpha=0.2, **options), ElasticNet(alpha=0.2, **options)),
        (PrivateElasticNet(alpha=0.1, l1_ratio=1.0, **options), Lasso(alpha=0.1, **options)),
        (PrivateElasticNet(alpha=0.1, l1_ratio=0.0, **options), Ridge(alpha=0.1 * N, **options)),
    ]:
        ours.fit(moments), theirs.fit(X, Y)
        assert ours.coef_ == pytest.approx(theirs.coef_, abs=2e-3)
        assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=2e-2)
        assert np.abs(ours.predict(X) - theirs.predict(X)).max() < 0.02


def test_the_lasso_in_a_ball(moments):
    whole = PrivateElasticNet(alpha=0.0).fit(moments)
    assert PrivateLasso(radius=100.0).fit(moments).coef_ == pytest.approx(whole.coef_)
    inside = PrivateLasso(radius=1.0).fit(moments)
    assert np.abs(inside.coef_).sum() == pytest.approx(1.0, abs=1e-6)
    found = PrivateLasso().fit(moments)
    assert found.radius_ == pytest.approx(np.abs(found.coef_).sum())
    assert (found.coef_ != 0.0).tolist() == [True, False, True, True]
    # The point of the penalised path with this norm.
    path = moments.path(alphas=np.geomspace(1e-3, 2.0, 300))
    nearest = np.abs(np.abs(path.coef).sum(axis=1) - 1.0).argmin()
    assert inside.coef_ == pytest.approx(path.coef[nearest], abs=0.02)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_paths(moments, l1_ratio):
    path = moments.path(l1_ratio=l1_ratio, n_alphas=20)
    assert path.coef.shape == (20, D)
    assert path.intercept.shape == (20,)
    assert not path.coef[0].any()
    centred = X - X.mean(axis=0)
    _, coef, _ = enet_path(centred, Y - Y.mean(), l1_ratio=l1_ratio, alphas=path.alphas)
    assert path.coef == pytest.approx(coef.T, abs=5e-3)
    one = PrivateElasticNet(alpha=float(path.alphas[7]), l1_ratio=l1_ratio).fit(moments)
    assert path.coef[7] == pytest.approx(one.coef_, abs=1e-9)


@each(
    ("columns", "target", "error"),
    [
        ([0, 0], None, ValueError),
        ([0], 0, ValueError),
        ([], None, ValueError),
        ([9], None, ValueError),
        (["no"], None, ValueError),
        ([1.0], None, TypeError),
        ("x0", None, TypeError),
        ([True], None, TypeError),
    ],
)
def test_bad_selections(moments, columns, target, error):
    with pytest.raises(error, match="olumn"):
        moments.select(columns, target)


def test_sums_are_those_of_all_records(moments):
    first, second = (PrivateMoments(**WIDE).fit(X[s], Y[s]) for s in (slice(900), slice(900, None)))
    both = first + second
    assert both.n_samples == N
    assert both.mean_ == pytest.approx(moments.mean_, abs=1e-3)
    assert both.covariance_ == pytest.approx(moments.covariance_, abs=0.05)
    assert both.privacy_.epsilon == 1e7
    assert both.privacy_.rho == first.privacy_.rho
    assert any("no record in common" in line for line in both.privacy_.assumptions)
    other = PrivateMoments(**{**WIDE, "random_state": 1}).fit(X[:900], Y[:900])
    assert len((both + other).measured) == 3
    for copy in (first, pickle.loads(pickle.dumps(first)).moments_):
        with pytest.raises(ValueError, match="added to themselves"):
            first + copy
    wider = PrivateMoments(**{**WIDE, "feature_bound": 50.0}).fit(X, Y)
    assert (wider + first).bounds.tolist() == [50.0] * D + [40.0]
    with pytest.raises(ValueError, match="same columns"):
        moments + moments.select([0])
    with pytest.raises(TypeError):
        moments + 1.0


def test_noise_is_as_large_as_is_said():
    """Variances in units of the noise, for one release and for a sum of two."""
    make = PrivateMoments(epsilon=1.0, conditioning=None, **{"feature_bound": 30.0})
    rows = np.zeros((200, 3))
    found = [make.fit(rows).moments_ for _ in range(120)]
    unit, deviation = found[0].noise
    entries = np.array([one.covariance / np.outer(unit, unit) for one in found])
    # Means are noise, too: their squares are of second order.
    assert entries[:, 0, 0].std() == pytest.approx(deviation, rel=0.25)
    assert entries[:, 0, 1].std() == pytest.approx(deviation / np.sqrt(2.0), rel=0.25)
    _, both = (found[0] + found[1]).noise
    assert both == pytest.approx(deviation / np.sqrt(2.0))


def test_reports_of_pipelines_count_the_moments_beside_other_steps(moments):
    """Otherwise a step that follows from moments would seem to cost nothing beside other fits."""
    pca, model = PrivatePCA(3).fit(moments), PrivateRidge(epsilon=1.0, target_bound=40.0)
    pipeline = make_pipeline(FrozenEstimator(pca), model).fit(X, Y)
    report = privacy_report(pipeline)
    charged = moments.privacy_.event, pipeline[-1].privacy_.event
    assert report.rho == rho_of(compose(*charged))
    assert report.epsilon > max(moments.privacy_.epsilon, 1.0)
    assert "whose release is counted" in report.steps[0].note
    assert privacy_report(pca).rho == moments.privacy_.rho
    assert privacy_report(pca).epsilon == moments.privacy_.epsilon


@pytest.mark.parametrize(
    ("declared", "known"),
    [
        ({}, [np.nan] * (D + 1)),
        ({"feature_bound": 30.0}, [30.0] * D + [np.nan]),
        ({"target_bound": 40.0}, [np.nan] * D + [40.0]),
    ],
)
def test_bounds_that_are_not_declared_are_found(declared, known):
    largest, known = np.abs(np.column_stack([X, Y])).max(axis=0), np.array(known)
    unknown = np.isnan(known)
    make = PrivateMoments(**{"epsilon": 4.0, "feature_bound": None, "random_state": 0, **declared})
    for rows in (X, sparse.csr_matrix(X), RowBlocks.from_arrays(X, block_size=700)):
        ledger = Ledger(4.0, 1e-6)
        moments = clone(make).set_params(ledger=ledger).fit(rows, Y)
        found = moments.moments_.bounds
        assert (found[~unknown] == known[~unknown]).all()
        assert (found > largest)[unknown].all()
        assert (found < 32.0 * largest)[unknown].all()
        (charge,) = ledger.charges()
        assert charge.rho == pytest.approx(Budget(4.0, 1e-6).rho)
    pca = PrivatePCA(epsilon=4.0, feature_bound=None).fit(X)
    assert (pca.feature_bound_ > largest[:D]).all()
    few = PrivateMoments(epsilon=2.0, delta=1e-4, feature_bound=None).fit(X[:60] / 30.0)
    assert few.moments_.bounds.tolist() == [1.0] * D


def test_principal_components(moments):
    theirs = PCA(n_components=3).fit(X)
    for ours in (PrivatePCA(3, **HARDLY_ANY).fit(X), PrivatePCA(3).fit(moments)):
        assert ours.components_ == pytest.approx(theirs.components_, abs=5e-3)
        assert ours.explained_variance_ == pytest.approx(theirs.explained_variance_, rel=5e-3)
        ratio = theirs.explained_variance_ratio_
        assert ours.explained_variance_ratio_ == pytest.approx(ratio, abs=1e-3)
        assert ours.transform(X[:9]) == pytest.approx(theirs.transform(X[:9]), abs=0.05)
        sparse_scores = ours.transform(sparse.csr_matrix(X[:9]))
        assert sparse_scores == pytest.approx(ours.transform(X[:9]))
        assert ours.get_feature_names_out().tolist() == [
            "privatepca0",
            "privatepca1",
            "privatepca2",
        ]
    white = PrivatePCA(whiten=True).fit(moments)
    assert white.transform(X).std(axis=0) == pytest.approx(np.ones(D), abs=0.01)
    assert white.inverse_transform(white.transform(X)) == pytest.approx(X, abs=1e-6)
    blocks = RowBlocks.from_arrays(X, block_size=500)
    assert PrivatePCA(3, **HARDLY_ANY).fit(blocks).components_.shape == (3, D)


def test_bad_input_costs_nothing(moments):
    costs_nothing(PrivatePCA(D + 1), "n_components", X)
    costs_nothing(PrivatePCA(D + 1), "n_components", moments)
    costs_nothing(PrivateMoments(), "NaN", X, np.full(N, np.nan))
    costs_nothing(PrivateLogisticRegression(), "needs records, not moments", moments)
    costs_nothing(PrivateRidge(), "y must be None", moments, Y)
    costs_nothing(PrivateRidge(), "no target", moments.select([0, "y"]))
    for options in ({"l1_ratio": 2.0}, {"n_alphas": 0}, {"eps": 0.0}, {"alphas": [-1.0]}):
        with pytest.raises(ValueError, match=next(iter(options))):
            moments.path(**options)
    with pytest.raises(NotFittedError):
        PrivateRidge().fit(PrivateMoments())


def test_standard_errors_without_noise_are_those_of_least_squares(moments):
    model = PrivateRidge(alpha=0.0).fit(moments)
    table = np.column_stack([X, np.ones(N)])
    _, squares, *_ = np.linalg.lstsq(table, Y, rcond=None)
    covariance = np.linalg.inv(table.T @ table) * float(squares[0]) / (N - D)
    assert model.uncertainty_.covariance == pytest.approx(covariance, rel=0.02, abs=1e-6)
    assert model.coef_covariance_.shape == (D, D)
    assert model.coef_standard_error_ == pytest.approx(
        np.sqrt(covariance.diagonal()[:-1]), rel=0.02
    )
    width = np.diff(model.confint(0.9), axis=1)[:, 0]
    assert width == pytest.approx(2.0 * 1.6449 * model.coef_standard_error_, rel=1e-3)
    assert PrivateElasticNet(alpha=0.0).fit(moments).confint() == pytest.approx(model.confint())
    through_zero = PrivateRidge(alpha=0.0, fit_intercept=False).fit(moments)
    _, squares, *_ = np.linalg.lstsq(X, Y, rcond=None)
    errors = np.sqrt(np.linalg.inv(X.T @ X).diagonal() * float(squares[0]) / (N - D))
    assert through_zero.coef_standard_error_ == pytest.approx(errors, rel=0.02)


@pytest.mark.parametrize(
    ("merged", "relation"),
    [(False, "replace-one"), (True, "replace-one"), (False, ADD_OR_REMOVE), (True, ADD_OR_REMOVE)],
)
def test_noise_of_coefficients_is_as_large_as_is_said(merged, relation):
    """Records without residuals: all of the error is noise."""
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (1000, 2))
    rows[:, 0] += 0.3
    y = rows @ [0.5, -0.4] + 0.1
    parts = [slice(600), slice(600, None)] if merged else [slice(None)]
    ratios: dict[bool, list] = {True: [], False: []}
    exact = {intercept: Ridge(fit_intercept=intercept).fit(rows, y) for intercept in ratios}
    for seed in range(80):
        make = PrivateMoments(epsilon=8.0, feature_bound=1.5, target_bound=1.5, relation=relation)
        first, *rest = (
            clone(make).set_params(random_state=100 * k + seed).fit(rows[part], y[part])
            for k, part in enumerate(parts)
        )
        found = first + rest[0] if merged else first
        for intercept, truth in exact.items():
            model = PrivateRidge(alpha=1.0, fit_intercept=intercept).fit(found)
            errors = np.append(model.coef_ - truth.coef_, model.intercept_ - truth.intercept_)
            said = np.sqrt(model.uncertainty_.covariance.diagonal())
            ratios[intercept].append((errors / np.where(said > 0.0, said, 1.0))[: 2 + intercept])
    for found in ratios.values():
        assert np.std(found, axis=0) == pytest.approx(np.ones(len(found[0])), abs=0.2)


def test_summaries(moments):
    pytest.importorskip("pandas")
    model = PrivateRidge().fit(moments)
    frame = model.summary(0.9)
    assert frame["name"].tolist() == ["x0", "x1", "x2", "x3", "intercept"]
    assert frame[["low", "high"]].to_numpy()[:-1] == pytest.approx(model.confint(0.9))
    assert (frame["p_value"] < 0.01).tolist() == [True, False, True, True, True]
    alone = PrivateRidge(fit_intercept=False).fit(moments).summary()
    assert alone["name"].tolist() == ["x0", "x1", "x2", "x3"]
    assert model.summary(feature_names=list("abcd"))["name"].tolist() == [*"abcd", "intercept"]
    with pytest.raises(ValueError, match=r"^feature_names must be a list of 4 names"):
        model.summary(feature_names=["a"])


def test_models_that_are_not_fitted():
    model = PrivateElasticNet(standard_errors=True)
    for method in (model.confint, model.summary, lambda: model.predict_interval(X)):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            method()


def test_doubtful_coverage_is_said(moments):
    few = PrivateMoments(epsilon=0.5, feature_bound=30.0, target_bound=40.0, delta=1e-4)
    with pytest.warns(UtilityWarning, match="doubtful"):
        PrivateRidge().fit(few.fit(X[:300], Y[:300])).confint()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateRidge().fit(moments).confint()
    for level in (0.0, 1.0, "much", np.nan):
        with pytest.raises(ValueError, match=r"level must be .*\[1e-09, 0.999999999\]"):
            PrivateRidge().fit(moments).confint(level)
    with pytest.raises(AttributeError, match="no standard errors"):
        PrivateElasticNet().fit(X, Y).confint()
    assert not hasattr(PrivateRidge(), "coef_covariance_")


def test_intervals_of_targets(moments):
    """Without noise they are those of least squares; sparse features have the same ones."""
    model = PrivateRidge(alpha=0.0).fit(moments)
    table = np.column_stack([X, np.ones(N)])
    solution, squares, *_ = np.linalg.lstsq(table, Y, rcond=None)
    variance = float(squares[0]) / (N - D)
    new = X[:9] * 3.0
    rows = np.column_stack([np.clip(new, -30.0, 30.0), np.ones(9)])
    spread = ((rows @ np.linalg.inv(table.T @ table)) * rows).sum(axis=1) * variance
    low, high = model.predict_interval(new, 0.9).T
    assert 0.5 * (low + high) == pytest.approx(rows @ solution, abs=0.01)
    assert high - low == pytest.approx(2.0 * 1.6449 * np.sqrt(variance + spread), rel=0.02)
    assert model.predict_interval(sparse.csr_matrix(new), 0.9) == pytest.approx(
        np.column_stack([low, high])
    )
    assert (
        (model.predict_interval(X)[:, 0] < Y) & (model.predict_interval(X)[:, 1] > Y)
    ).mean() > 0.9
    through_zero = PrivateRidge(alpha=0.0, fit_intercept=False).fit(moments)
    damaged = sparse.csr_matrix(X[:50])
    damaged.indices[5] = 7345
    with pytest.raises(ValueError, match="X is not a valid CSR matrix") as error:
        model.predict_interval(damaged)
    assert error.value.__context__ is None
    assert np.ptp(through_zero.predict_interval(0.0 * new), axis=1) == pytest.approx(
        2.0 * 1.96 * np.sqrt(through_zero.uncertainty_.residual_variance) * np.ones(9), rel=1e-3
    )
    with pytest.raises(ValueError, match="level"):
        model.predict_interval(X, 2.0)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict_interval(X[:, :3])
    with pytest.raises(AttributeError, match="no standard errors"):
        PrivateElasticNet(target_bound=20.0).fit(X, Y).predict_interval(X)


@pytest.mark.filterwarnings("ignore::skdpsco._random.UtilityWarning")
def test_targets_are_covered_where_their_variance_is_noisy():
    rng, covered = np.random.default_rng(0), []
    for seed in range(60):
        rows = rng.uniform(-1.0, 1.0, (900, 2))
        y = rows @ [0.5, -0.5] + 0.3 * rng.normal(size=900)
        make = PrivateMoments(epsilon=4.0, target_bound=2.0, random_state=seed)
        model = PrivateRidge(alpha=0.0).fit(make.fit(rows[:800], y[:800]))
        low, high = model.predict_interval(rows[800:]).T
        covered.append(((low < y[800:]) & (y[800:] < high)).mean())
    assert 0.93 < np.mean(covered) < 0.995


def test_noise_as_large_as_variances_is_said():
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (600, 9))
    with pytest.warns(UtilityWarning, match="smaller variances of 9 columns"):
        PrivateMoments(epsilon=0.2).fit(rows)
    with pytest.warns(UtilityWarning, match="larger than what 60 records say"):
        PrivateMoments(epsilon=0.2, delta=1e-4).fit(rows[:60])


@pytest.mark.parametrize("convert", [np.array, sparse.csr_matrix])
def test_a_search_knows_how_many_components_there_are(convert):
    rows = convert(np.random.default_rng(0).uniform(-1.0, 1.0, (400, 3)))
    steps = make_pipeline(PrivatePCA(), PrivateRidge(target_bound=1.0))
    grid = {"privatepca__n_components": [1, None]}
    search = PrivateGridSearchCV(steps, grid, epsilon=20.0, delta=1e-4)
    found = search.fit(rows, Y[:400] / 40.0)
    assert found.best_estimator_[-1].n_features_in_ in (1, 3)
    wrong = PrivateGridSearchCV(steps, {"privatepca__n_components": [1, 4]})
    costs_nothing(wrong, "n_components", rows, Y[:400] / 40.0)


def test_large_tables_with_much_noise_are_summed_up_in_single_precision(monkeypatch):
    """Public sizes decide, and what rounding may do is charged."""
    for n, p, mu, groups, single in (
        (2**17, 16, 1.0, 0, True),
        (2**17, 15, 1.0, 0, False),  # small
        (2**17, 16, 2.1, 0, False),  # little noise
        (2**17, 16, 1.0, 2, False),
        (None, 16, 1.0, 0, False),
    ):
        assert plan_matrix(n, p, mu, True, None, 0, groups).single is single
    grids = [plan_matrix(2**17, 16, 1.0, True, None).matrix_grid]
    monkeypatch.setattr(release, "single_pays", lambda *sizes, added: False)
    grids.append(plan_matrix(2**17, 16, 1.0, True, None).matrix_grid)
    charged = moved_by_one(1.0, False, True)[1] / moved_by_one(1.0, False, False)[1]
    assert grids[0] / grids[1] == pytest.approx(charged, rel=1e-7)
    assert 1.0003 < charged < 1.0004
