"""Code that users write, for type checkers: `make lint` and the nightly run find no fault in it."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

import skdpsco
from skdpsco import (
    Bins,
    Budget,
    Ledger,
    PrivateElasticNet,
    PrivateGridSearchCV,
    PrivateGroupDRO,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMonotoneGLM,
    PrivateRidge,
    PrivateSynthesizer,
    RowBlocks,
    solve_variational_inequality,
)
from skdpsco.group_dro import group_report, worst_group_score
from skdpsco.inspection import privacy_report
from skdpsco.linear_model import Link
from skdpsco.losses import Huber, Logistic
from skdpsco.model_selection import make_private_scorer, private_cross_val_score
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    ColumnClipper,
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicBoundsScaler,
    RowClipper,
)
from skdpsco.solvers import SGD, GradientDescent, MirrorProx, Stagewise
from skdpsco.variational import MatrixGame, MaximalLoss, duality_gap

rng = np.random.default_rng(0)
X: NDArray[np.float64] = rng.uniform(-1.0, 1.0, (500, 3))
y = X[:, 0] > 0.0
target = X @ np.array([1.0, 0.0, -1.0])
frame = pd.DataFrame(X, columns=["a", "b", "c"])
budget = Budget(1.0, 1e-6)
ledger = Ledger(epsilon=10.0, delta=1e-5, path=Path("study.db"), dataset="patients")

lasso = PrivateLasso(epsilon=budget.epsilon, radius=3.0, feature_bound=[1.0, 2.0, 1.0])
lasso = PrivateLasso(radius="auto", solver=Stagewise(), n_iter=10, random_state=0)
lasso.fit(X, target)
coefficients: NDArray[np.float64] = lasso.coef_
intercept: float = lasso.intercept_
length: float = lasso.path_.radius[0] + lasso.radius_
epsilon: float = lasso.privacy_.epsilon
r2: float = lasso.fit(frame, target).score(frame, target)
n_columns: int = lasso.n_features_in_ + lasso.n_iter_

binary = PrivateLogisticL1(classes=[False, True], feature_bound=np.ones(3), ledger=ledger)
probabilities: NDArray[np.float64] = binary.fit(sparse.csr_array(X), y).predict_proba(X)
labels: NDArray[np.str_] = binary.classes_
logistic = PrivateLogisticRegression(l1_ratio=1.0, C=0.5, solver=SGD(), feature_bound=None)
logistic = PrivateLogisticRegression(C=np.inf, solver=GradientDescent(clip=0.5))
decision: NDArray[np.float64] = logistic.fit(X, y).decision_function(X)
ridge = PrivateRidge(alpha=1, solver=SGD(), target_bound=2.0)
net = PrivateElasticNet(l1_ratio=0.7, solver=GradientDescent(clip=0.1))
lp = PrivateLinearClassifier(loss=Logistic(), p=1.5, max_weight=2.0)
lp_regressor = PrivateLinearRegressor(loss=Huber(0.5), p=np.inf, row_norm=1.0)
dro = PrivateGroupDRO(groups=["f", "m"], group_membership="private", cvar_level=0.2)
dro.fit(X, y, sensitive_features=np.where(y, "f", "m"))
worst: float = worst_group_score(dro, X, y, sensitive_features=np.where(y, "f", "m"))
shares: NDArray[np.float64] = dro.group_weights_
report = group_report(dro, X, y, sensitive_features=np.where(y, "f", "m"))
minimax = PrivateMinimaxClassifier(losses=["logistic", "hinge"], tasks=None, class_prior=[0.5, 0.5])
columns = PrivateMinimaxRegressor(losses="huber", tasks="columns", solver=MirrorProx())
glm = PrivateMonotoneGLM(link=Link(np.tanh, -1.0, 1.0)).fit(X, target)
link: Link = glm.link_

scaler = PrivateStandardScaler(lower=0, upper=[1.0, 2.0, 3.0], with_std=False)
means: NDArray[np.float64] = scaler.fit(X).mean_
knots: NDArray[np.float64] = PrivateSplineTransformer(n_knots=4, columns=[0, 1]).fit(X).knots_
clipped: NDArray[np.float64] = PrivateQuantileClipper(quantile_range=(0.05, 0.95)).fit(X).lower_
kept: NDArray[np.bool_] = PrivateFeatureSelector(n_features_to_select=2).fit(X, y).support_
ColumnClipper(lower={"a": 0.0, "b": 0.0, "c": 0.0}, upper=1.0).fit(frame)
RowClipper(norm="l1", bound=2.0).fit(X).transform(X)
PublicBoundsScaler(lower=-2, feature_range=(0.0, 1.0)).fit_transform(X)
encoder = CategoricalDomainEncoder(categories=[["f", "m"]], sparse_output=True)
names: list[str] = list(encoder.fit(X[:, :1]).get_feature_names_out())

search = PrivateGridSearchCV(lasso, {"radius": [1.0, 3.0]}, strategy="composition", refit=False)
best: object = search.fit(X, target).best_params_["radius"]
score = private_cross_val_score(lasso, X, target, epsilon=1.0)
scorer = make_private_scorer(lambda y, z: -np.abs(y - z), -1.0, 0.0)
blocks = RowBlocks.from_arrays(X, target, block_size=100)
for block, values in blocks:
    lasso.score(block, values)
synthesizer = PrivateSynthesizer(
    domain={"a": Bins([-1.0, 1.0], points=[0.0], missing=True), "b": 4}, workload=[("a", "b")]
)
table = synthesizer.set_output(transform="pandas").fit(frame).sample(10, random_state=0)
game = MatrixGame(3, 2)
solution = solve_variational_inequality(game, (X,), epsilon=1.0, solver="mirror-prox")
gap: float = duality_gap(game, solution.z, X)
loss = MaximalLoss([Logistic()], 3, radius=2.0)
print(privacy_report(search, X=X), ledger.remaining(), epsilon)
skdpsco.show_versions()
