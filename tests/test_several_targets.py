"""Least squares of several targets: a fit for each, or one release of all moments."""

import itertools

import numpy as np
import pandas as pd
import pytest
from cases import costs_nothing, each
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, Lasso, Ridge
from sklearn.metrics import r2_score

from skdpsco import (
    Ledger,
    PrivacyWarning,
    PrivateElasticNet,
    PrivateGridSearchCV,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegressor,
    PrivateMoments,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.base.grants import Grant
from skdpsco.data.design import as_design
from skdpsco.linear_model import _several_targets
from skdpsco.linear_model._several_targets import fits_each
from skdpsco.preprocessing import PrivatePCA
from skdpsco.privacy import Budget, rho_of
from skdpsco.scaling.feature_bounds import filled_entries

N, D, M = 1500, 4, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
Y = X @ RNG.normal(size=(D, M)) + [1.0, 2.0, 3.0] + 0.3 * RNG.normal(size=(N, M))
WIDE = {"epsilon": 1e6, "feature_bound": 6.0, "target_bound": [12.0, 13.0, 14.0]}
MODELS = {
    PrivateRidge: Ridge(),
    PrivateElasticNet: ElasticNet(alpha=0.001),
    PrivateLasso: Lasso(alpha=0.01),
}
each_model = pytest.mark.parametrize("Model", MODELS)


@each_model
def test_without_noise_models_are_those_of_scikit_learn(Model):
    expected, tolerance = MODELS[Model].fit(X, Y), 0.05 if Model is PrivateLasso else 2e-3
    for rows in (X, sparse.csr_matrix(X), pd.DataFrame(X).astype(np.float32).to_numpy()):
        model = Model(**WIDE).fit(rows, Y)
        assert model.coef_ == pytest.approx(expected.coef_, abs=tolerance)
        assert model.intercept_ == pytest.approx(expected.intercept_, abs=tolerance)
        assert model.n_features_in_ == D
    assert model.predict(X).shape == (N, M)
    assert model.score(X, Y) == pytest.approx(r2_score(Y, model.predict(X)))
    assert model.to_sklearn().predict(X) == pytest.approx(model.predict(X))
    assert model.feature_range_.shape == (2, D)


@each_model
def test_fits_to_moments_are_those_of_each_target(Model):
    moments = PrivateMoments(**WIDE).fit(X, Y)
    assert moments.moments_.names == ("x0", "x1", "x2", "x3", "y0", "y1", "y2")
    assert (moments.moments_.n_features, moments.moments_.n_targets) == (D, M)
    together = Model().fit(moments)
    for k in range(M):
        alone = Model().fit(moments.select(target=f"y{k}"))
        assert together.coef_[k] == pytest.approx(alone.coef_, abs=1e-12)
        assert together.intercept_[k] == pytest.approx(alone.intercept_, abs=1e-12)
    assert together.privacy_.rho == 0.0
    assert moments.select(["y1"]).names == ("y1", "y0", "y2")
    assert moments.select(target=["y0", 1]).names == ("x0", "x2", "x3", "y0", "x1")
    assert (moments + PrivateMoments(**WIDE).fit(X, Y)).n_targets == M
    with pytest.raises(ValueError, match="several targets"):
        moments.path()


def test_fits_to_each_target_share_the_budget_and_what_is_found_of_features(monkeypatch):
    charged = []

    def charge(self, event, *args):
        charged.append((rho_of(event), self.rho))
        Grant.charge(self, event, *args)

    class Watched(Grant):
        pass

    Watched.charge = charge
    monkeypatch.setattr(_several_targets, "Grant", Watched)
    for params in ({}, {"feature_bound": 6.0, "target_bound": 14.0}):
        charged.clear()
        model = PrivateRidge(epsilon=1.0, **params).fit(X, Y)
        costs, shares = np.array(charged).T
        assert len(charged) == M
        assert (costs <= shares * (1.0 + 1e-12)).all()
        assert costs == pytest.approx(shares, rel=1e-6)
        assert costs.sum() <= Budget(1.0, 1e-6).rho == model.privacy_.rho
        assert shares == pytest.approx(shares[1] * np.array([1.25, 1.0, 1.0]))
        assert sum("first target" in line for line in str(model.privacy_).splitlines()) == 1
        assert (model.feature_range_[0] < model.feature_range_[1]).all()
        assert not hasattr(model, "uncertainty_")
    assert fits_each(N, D + M, 1.0) is False
    assert fits_each(N, D + M, 0.2) is True


def test_noise_of_targets_differs_under_one_seed():
    with pytest.warns(PrivacyWarning) as caught:
        model = PrivateRidge(epsilon=0.5, random_state=0).fit(X, np.tile(Y[:, :1], 3))
    assert len(caught) == 1
    assert len(np.unique(model.intercept_)) == 3


def test_other_fits_refuse_blocks_of_several_targets():
    blocks = RowBlocks.from_arrays(X, Y, block_size=400)
    assert (blocks.n_targets, blocks.without_target().has_target) == (M, False)
    classes = PrivateMoments(classes=[0, 1])
    for model in (PrivateHuberRegressor(), PrivateLinearRegressor(), classes):
        costs_nothing(model, "y must have one column", blocks)
    assert PrivatePCA(feature_bound=6.0).fit(blocks).components_.shape == (D, D)
    with pytest.raises(ValueError, match="as many columns of y"):
        RowBlocks.from_blocks([(X[:9], Y[:9]), (X[9:], Y[9:, 0])])
    with pytest.raises(TypeError, match="dense"):
        RowBlocks.from_arrays(X, sparse.csr_matrix(Y))
    with pytest.raises(ValueError, match="one-dimensional"):
        PrivateRidge().fit(RowBlocks.from_blocks([(X[:9], Y[:9])])._with(n_targets=1))


def test_intervals_of_several_targets():
    moments = PrivateMoments(**WIDE).fit(X, Y)
    model = PrivateRidge().fit(moments)
    assert model.coef_covariance_.shape == (M, D, D)
    intervals, frame = model.predict_interval(X[:7]), model.summary()
    assert intervals.shape == (7, M, 2)
    for k in range(M):
        alone = PrivateRidge().fit(moments.select(target=D + k))
        assert model.coef_standard_error_[k] == pytest.approx(alone.coef_standard_error_)
        assert model.confint()[k] == pytest.approx(alone.confint())
        assert intervals[:, k] == pytest.approx(alone.predict_interval(X[:7]))
        part = frame[frame["target"] == k].drop(columns="target").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, alone.summary())


def test_without_noise_targets_have_the_classical_covariance():
    rng = np.random.default_rng(1)
    noise = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.6], [0.6, 0.5]], N)
    targets = X[:, :2] @ [[1.0, -1.0], [0.5, 0.0]] + 2.0 + noise
    model = PrivateRidge(alpha=0.0, epsilon=1e6, feature_bound=6.0, target_bound=15.0)
    known, Z = model.fit(X, targets).uncertainty_, np.column_stack([X, np.ones(N)])
    left = targets - Z @ np.linalg.lstsq(Z, targets, rcond=None)[0]
    classical = np.einsum("kl,ij->kilj", left.T @ left / N, np.linalg.inv(Z.T @ Z))
    assert known.joint == pytest.approx(classical, rel=0.02, abs=2e-6)
    for k in range(2):
        assert known.covariance[k] == pytest.approx(known.joint[k, :, k])
    wide = PrivateMoments(epsilon=1e6).fit(rng.uniform(-1.0, 1.0, (N, 40)), np.tile(targets, 13))
    assert PrivateRidge().fit(wide.select(target="y0")).uncertainty_.joint is None
    known = PrivateRidge().fit(wide).uncertainty_
    assert (known.joint, known.covariance.shape) == (None, (26, 41, 41))


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_errors_of_targets_hang_together_as_is_said(relation):
    """The law of the differences of two targets, which share their noise and their residuals."""
    rng, inside, shapes = np.random.default_rng(2), [], np.array([[0.3, -0.3], [0.5, 0.0]])
    params = {"feature_bound": 1.0, "target_bound": 3.0, "relation": relation}
    for _ in range(400):
        A = rng.uniform(-1.0, 1.0, (3000, 2))
        B = (
            A @ shapes
            + 0.5
            + 0.3 * rng.standard_normal((3000, 1))
            + 0.1 * rng.normal(size=(3000, 2))
        )
        model = PrivateRidge(alpha=0.0).fit(PrivateMoments(epsilon=2.0, **params).fit(A, B))
        joint = model.uncertainty_.joint
        spread = joint[0, :, 0] + joint[1, :, 1] - joint[0, :, 1] - joint[1, :, 0]
        errors = (model.coef_[0] - model.coef_[1]) - (shapes[:, 0] - shapes[:, 1])
        errors = np.append(errors, model.intercept_[0] - model.intercept_[1])
        inside.append(abs(errors) < 1.96 * np.sqrt(spread.diagonal()))
    assert 0.9 < np.mean(inside) < 0.985  # 1,200 of 95 %, of which three hang together


def test_columns_with_a_bound_count_for_nothing():
    """For all replacements: a record moves as many counts as there are unknown columns."""
    unknown, rest = np.array([False, True, True, False]), np.ones((1, 3))
    tables = [
        filled_entries(
            as_design(np.vstack([record, rest]), np.full(3, 2.0**63), False), np.zeros(2), unknown
        )
        for record in itertools.product((0.0, 0.01, 1e3), repeat=3)
    ]
    assert tables[0].shape == (2,)
    pairs = itertools.combinations(tables, 2)
    assert max(np.linalg.norm(one - other) for one, other in pairs) == pytest.approx(np.sqrt(2.0))


@each_model
@each(
    ("params", "more", "match"),
    [
        ({"target_bound": [1.0, 2.0]}, {}, "target_bound"),
        ({"target_bound": [1.0, -2.0, 1.0]}, {}, "target_bound"),
        ({"solver": "gradient-descent"}, {}, "solver"),
        ({}, {"sample_weight": np.ones(N)}, "sample_weight"),
        ({}, {"init": Ridge().fit(X, Y[:, 0])}, "init must (be None|have a row)"),
    ],
)
def test_bad_parameters_cost_nothing(Model, params, more, match):
    if Model is PrivateLasso and "solver" in params:
        params = {"solver": "frank-wolfe", "radius": 1.0}
    costs_nothing(Model(**params), match, X, Y, **more)


def test_bad_targets_cost_nothing():
    ledger = Ledger(9.0, 1e-5)
    wrong = Y.copy()
    wrong[3, 1] = np.nan
    model = PrivateRidge(ledger=ledger)
    for y in (wrong, Y[:-1], sparse.csr_matrix(Y), Y.astype(str), Y[:, :, None]):
        with pytest.raises((ValueError, TypeError)):
            model.fit(X, y)
    damaged = sparse.csr_matrix(X)
    damaged.indices[5] = 7345
    with pytest.raises(ValueError, match="not a valid CSR matrix") as error:
        model.fit(damaged, Y)
    assert "7345" not in str(error.value)
    with pytest.raises(TypeError, match="target_bound"):
        clone(model).set_params(target_bound=[1.0, 2.0]).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="finite"):
        model.fit(RowBlocks.from_arrays(X, wrong, block_size=500))
    with pytest.raises(ValueError, match="y"):
        PrivateGridSearchCV(model, {"alpha": [0.1, 1.0]}, ledger=ledger).fit(X, Y)
    with pytest.raises(TypeError, match="needs records, not moments"):
        PrivateHuberRegressor(ledger=ledger).fit(PrivateMoments().fit(X))
    assert [charge for charge in ledger.charges() if charge.rho > 0] == []


def test_targets_keep_the_names_of_their_frame():
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])

    def names(y, X=frame):
        m = PrivateMoments(feature_bound=9, target_bound=9).fit(X, y).moments_
        return m.names[len(frame.columns) :]

    one = Y[:, 0]
    assert names(pd.Series(one, name="height")) == ("height",)
    assert names(pd.DataFrame({"height": one, "weight": one})) == ("height", "weight")
    for unnamed in (pd.Series(one), pd.Series(one, name="c0"), pd.Series(one, name=3), one):
        assert names(unnamed) == ("y",)
    assert names(pd.DataFrame({"height": one, "c0": one})) == ("y0", "y1")
    assert names(pd.Series(one, name="height"), X) == ("height",)
    assert names(pd.Series(one, name="x0"), X) == ("y",)
