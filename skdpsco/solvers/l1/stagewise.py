"""Stagewise private selection, then gradient descent. Proof: docs/proofs/stagewise.md."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from skdpsco._problem import Problem
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bound
from skdpsco.constraints.sets import L1Ball, project
from skdpsco.data.record_sums import in_columns
from skdpsco.losses.library import lipschitz_l2, value, values
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import gaussian_grid
from skdpsco.privacy import GaussianEvent, NoOpEvent, compose
from skdpsco.privacy.spending import Allowance, check_cost
from skdpsco.scaling.column_scales import COLUMN_SCALES
from skdpsco.solvers.base import (
    DERIVATIVES,
    Plan,
    Result,
    check_derivatives,
    check_smooth,
    curvature_of,
    decided,
)
from skdpsco.solvers.l1.screening import ScreenPlan, plan_screen, select_coordinates
from skdpsco.solvers.l1.vertex_path import VertexPlan, plan_vertices, run_vertices
from skdpsco.solvers.penalized.gradient_descent import (
    GRADIENT_DESCENT,
    Coordinates,
    GradientDescent,
    GradientDescentPlan,
)
from skdpsco.solvers.penalized.problem import CompositeProblem, unpenalised
from skdpsco.solvers.steps import MOST_PLANNED, move_into

__all__ = ["Stagewise", "centring_pays"]


class StagewiseTuning(NamedTuple):
    """Constants of the plan, fitted on data as in examples/benchmarks/l1_accuracy.py.

    Parameters
    ----------
    descent_share : float
        Share of rho for the descent, if coordinates are selected first.
    stop_share : float
        Share of rho to choose the point of the path, if the radius is not given.
    nominal_radius : float
        Radius of the path in that case, in units of Lipschitz constant over curvature.
    room : float
        Radius of the final ball over that of the chosen point, since the path lags behind the
        solution that it leads to.
    safety : float
        Radius of the final ball over the nominal one, if there is no path: the data decide.
    steps : float
        Factor of the number of steps at which the bound on the excess risk is smallest.
    steepest : float
        Bound on the derivatives along a path, in Lipschitz constants: about a typical residual,
        since a selection needs little noise more than it needs the large ones. It is for paths that
        the plan decides on; ``n_iter`` asks for those of the loss.
    least_mean : float
        n mu above which an intercept alone is kept if it was fitted to residuals: below, the centre
        of the targets is known better.
    guess : float
        The n mu over the logarithm of the number of vertices below which a selection would be a
        guess.
    label_guess : float
        ``guess`` for labels of sparse records.
    label_records : float
        The n mu above which two classes are fitted although features are not conditioned. Below it
        scores are not calibrated, and a rare class would be drowned.
    residual_records : float
        The n mu per feature above which targets of a regression are worth a few passes over all.
    columns : float
        Number of columns above which a selection may be better than gradient descent in all.
    all_records, sparse_records : float
        The n mu per feature, and root of the number of classes, above which it is not, for dense
        and for sparse records. The first is for truths with few coefficients; if all matter, fewer
        records would do. The second was fitted on bags of words and tf-idf, of which all matter or
        30, and on indicators.
    path_points : int
        Number of points of the path drawn from a final solution; chosen by hand.
    """

    descent_share: float = 0.3
    stop_share: float = 0.1
    nominal_radius: float = 3.0
    room: float = 2.0
    safety: float = 10.0
    steps: float = 0.173
    steepest: float = 0.35
    least_mean: float = 10.0
    guess: float = 15.0
    label_guess: float = 25.0
    label_records: float = 27.0
    residual_records: float = 1.2
    columns: float = 150.0
    all_records: float = 6.0
    sparse_records: float = 3.5
    path_points: int = 20


STAGEWISE = StagewiseTuning()
BISECTIONS = 60  # until the number is exact


@dataclass(frozen=True)
class StagewisePlan(Plan):
    """Which stages run.

    Parameters
    ----------
    path : VertexPlan or None
        The selection; without it, all coordinates are fitted (or the intercept alone).
    mu : float
        Budget of the descent in columns that are selected first, or in the intercept alone.
    radius : float
        Length of the path, and radius of the final ball unless ``choose_radius``.
    choose_radius : bool
    screen : ScreenPlan or None
        Selection by a noisy gradient, instead of a path.
    descent : GradientDescentPlan or None
        Plan of gradient descent in all coordinates.
    """

    path: VertexPlan | None = None
    mu: float = 0.0
    radius: float = 1.0
    choose_radius: bool = False
    screen: ScreenPlan | None = None
    descent: GradientDescentPlan | None = None

    @property
    def only_gradients(self) -> bool:
        """Whether gradient descent is all that the plan asks for; see `Plan`."""
        return self.descent is not None and self.descent.only_gradients

    @property
    def clips_gradients(self) -> bool:
        """Whether gradient descent in all coordinates is planned; see `Plan`."""
        return self.descent is not None

    def descent_in(self, problem: CompositeProblem) -> GradientDescentPlan:
        """The plan of the descent in selected columns; whatever their number, it costs ``mu``."""
        return BallDescent().plan(problem, Allowance(0.5 * self.mu**2))


def centring_pays(n_mu: float, n_features: int, labels: bool) -> bool:
    """Whether sparse records should be centred, for steps in all coordinates; public.

    That is where gradients tell something about every coordinate, or labels only allow a guess.
    """
    guess = labels and n_mu < STAGEWISE.label_guess * math.log(2.0 * max(n_features, 1))
    return guess or n_mu >= STAGEWISE.sparse_records * n_features


def radius_of(problem: Problem) -> tuple[float, float]:
    """The radius of a path, and the loss's own scale of predictions."""
    slope = problem.loss.lipschitz(math.inf, problem.target_bound)
    scale = slope / curvature_of(problem.loss, 1.0)
    if problem.constraint is None:
        return STAGEWISE.nominal_radius * scale, scale
    return problem.constraint.radius, scale


def shares_of(problem: Problem) -> tuple[float, float]:
    """Shares of rho for a path and for the choice of its point."""
    stop_share = STAGEWISE.stop_share if problem.constraint is None else 0.0
    return 1.0 - STAGEWISE.descent_share - stop_share, stop_share


def useful_steps(problem: Problem, rho: float) -> float:
    """Number of steps of a path that are worth their noise.

    The optimisation error of T steps balances the noise of each, as the bound of
    docs/proofs/frank_wolfe.md does in n and rho. T grows more slowly with the radius than there,
    since the descent corrects the lengths of the steps.
    """
    radius, scale = radius_of(problem)
    noise = math.log(2.0 * problem.n_coefficients) / math.sqrt(8.0 * shares_of(problem)[0] * rho)
    useful = (problem.n_mu(1.0) / noise) ** (2.0 / 3.0) * (radius / scale) ** (1.0 / 3.0)
    return min(STAGEWISE.steps * useful, MOST_PLANNED)


def whole(steps: float) -> int:
    """Number of steps of a path, at least 3."""
    return max(3, round(steps))


class Stagewise:
    """Select coordinates along a stagewise path, then descend in them.

    Each step moves one coordinate by radius / T: the vertex of the l1 ball that the exponential
    mechanism picks by its slope. Nothing is shrunk, so the path passes through the solutions of all
    smaller radii. The rest of the budget fits the selected coordinates by gradient descent.

    If there are few coordinates, or so many records that nothing need be selected, or too few for a
    useful path, all coordinates are fitted by gradient descent instead, or the intercept alone.
    This follows from public sizes and the budget. If ``n_iter`` asks for a path, a path and a
    descent are all that there is.

    References
    ----------
    Talwar, Thakurta, Zhang. Nearly Optimal Private LASSO. NeurIPS 2015 (Algorithm 2; here a step
    adds to one coefficient, and does not shrink the others).
    """

    requires: ClassVar[dict[str, Any]] = {"loss": ((value, values), *DERIVATIVES)}
    by_blocks = clips_gradients = for_added = reads_centred = conditioned = True

    def check(self, problem: Problem) -> None:
        """Refuse a set other than an l1 ball, and a loss that is not smooth or not bounded.

        The curvature of the loss decides the lengths of steps, and bounds on derivatives must be
        neither infinite nor 0.

        Raises
        ------
        TypeError
            If the constraint is neither None nor an `L1Ball`.
        ValueError
            If the loss is not smooth, a bound is 0 or infinite, or the radius is outside
            [1e-100, 1e100].
        """
        if problem.constraint is not None and type(problem.constraint) is not L1Ball:
            raise TypeError(
                "Stagewise needs an L1Ball as constraint, or None for a radius yet to be chosen; "
                f"got {type(problem.constraint).__name__}."
            )
        if problem.constraint is not None:
            check_bound("radius", problem.constraint.radius)
        check_smooth(self, problem.loss)
        check_derivatives(problem.loss, lipschitz_l2(problem.loss))

    def plan(self, problem: Problem, budget: Any, n_iter: int | None = None) -> StagewisePlan:
        """Decide which stages run and what each may spend.

        Parameters
        ----------
        problem : Problem
            With ``constraint=None`` the radius is chosen privately.
        budget : Budget or Allowance
        n_iter : int or None
            Number of path steps; None leaves all choices to the plan.

        Raises
        ------
        ValueError
            If `check` refuses the problem, or the noise is too large for the grid.
        """
        self.check(problem)
        rho, choose = budget.rho, problem.constraint is None
        if n_iter is not None:
            return self._along_path(problem, rho, n_iter)
        D, K, d = problem.n_coefficients, problem.loss.n_outputs, problem.n_features
        n_mu, radius = problem.n_mu(math.sqrt(2.0 * rho)), radius_of(problem)[0]
        enough = STAGEWISE.sparse_records if problem.sparse else STAGEWISE.all_records
        known = n_mu >= enough * d * math.sqrt(K)
        if d < STAGEWISE.columns or known or (problem.sparse and problem.centred):
            return self._without_selection(problem, budget, radius, choose)
        T = whole(useful_steps(problem, rho))
        fits = noise_fits(math.sqrt(2.0 * STAGEWISE.descent_share * rho), min(T + 1, d) * K)
        if n_mu < STAGEWISE.guess * math.log(2.0 * D) or not fits:
            return self._without_selection(problem, budget, radius, choose)
        if problem.sparse and noise_fits(budget.mu, D):
            screen, rest = plan_screen(problem, budget.mu)
            return StagewisePlan(
                event=GaussianEvent(1.0 / budget.mu),
                n_iter=0,
                mu=rest,
                radius=STAGEWISE.safety * K * radius if choose else radius,
                choose_radius=choose,
                screen=screen,
            )
        return self._along_path(problem, rho)

    def _along_path(self, problem, rho, n_iter=None):
        choose, (radius, _) = problem.constraint is None, radius_of(problem)
        T = whole(useful_steps(problem, rho)) if n_iter is None else n_iter
        K = problem.loss.n_outputs
        mu = math.sqrt(2.0 * STAGEWISE.descent_share * rho)
        if not noise_fits(mu, min(T + 1, problem.n_features) * K):
            raise ValueError("The noise of the descent would be too large for the grid.")
        path_share, stop_share = shares_of(problem)
        slope = problem.loss.lipschitz(math.inf, problem.target_bound)
        path = plan_vertices(
            problem,
            L1Ball(radius),
            np.full(T, 1.0 / T),
            np.ones(T + 1),
            path_share * rho,
            stop_rho=stop_share * rho,
            steepest=math.inf if n_iter is not None else STAGEWISE.steepest * slope,
        )
        return StagewisePlan(
            event=compose(path.event, GaussianEvent(1.0 / mu)),
            n_iter=T,
            path=path,
            mu=mu,
            radius=radius,
            choose_radius=choose,
        )

    def _without_selection(self, problem, budget, radius, choose):
        K, mu = problem.loss.n_outputs, budget.mu
        known = problem.mean_square is not None
        unscaled = STAGEWISE.sparse_records * problem.n_features * math.sqrt(K)
        if traits_of(problem.loss).residuals:
            needed = STAGEWISE.residual_records * problem.n_features if known else unscaled
        else:  # an offset keeps the scores of two classes near a constant
            needed = 0.0 if known else STAGEWISE.label_records if K == 1 else unscaled
        if problem.n_mu(mu) < needed:
            if not (problem.intercept and noise_fits(mu, K)):
                return StagewisePlan(event=NoOpEvent(), n_iter=0, radius=radius)
            return StagewisePlan(
                event=GaussianEvent(1.0 / mu),
                n_iter=0,
                mu=mu,
                radius=radius,
                summary=("the intercept alone",),
            )
        return self._in_all_coordinates(problem, budget, radius, choose)

    def _in_all_coordinates(self, problem, budget, radius, choose):
        solver = GradientDescent(shrunk="each") if choose else BallDescent()
        descent = solver.plan(unpenalised(problem), budget)
        check_cost(descent.event, budget)
        return StagewisePlan(
            event=descent.event,
            n_iter=0,
            radius=radius * STAGEWISE.safety * problem.loss.n_outputs if choose else radius,
            choose_radius=choose,
            descent=descent,
            summary=(decided(descent),),
            **descent.passed_on(),
        )

    def run(
        self,
        plan: StagewisePlan,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        D, K = problem.n_coefficients, problem.loss.n_outputs
        intercepts = np.arange(K) * problem.n_features + problem.n_features - 1
        if not problem.intercept:
            intercepts = intercepts[:0]
        support, radius, path = intercepts, plan.radius, None
        if plan.path is not None:
            ball = L1Ball(plan.radius)
            _, chosen, stop = run_vertices(plan.path, problem, ball, X, y, rng, progress)
            path = stagewise_path(chosen, plan.radius, D)
            if plan.choose_radius:
                radius = STAGEWISE.room * float(path[0][max(stop, 1)])
            # Include coordinates that the path left again: its steps may be too long for them.
            support = np.union1d(chosen[:stop] % D, intercepts)
        elif plan.screen is not None:
            support = np.union1d(select_coordinates(plan.screen, problem, X, y, rng), intercepts)
        coef, whole = np.zeros((K, problem.n_features)), unpenalised(problem)
        columns = np.unique(support % problem.n_features)
        free = plan.descent is not None and plan.choose_radius
        if plan.descent is not None:
            solver = BallDescent(math.inf if free else radius)
            coef[:] = solver.run(plan.descent, whole, X, y, rng, progress).coef.reshape(K, -1)
        elif plan.mu > 0.0 and len(columns) > 0:
            alone = np.array_equal(columns, intercepts[:1])  # then it is a feature of `part`
            part, records = problem_in(whole, columns), in_columns(X, y, columns)
            solver = BallDescent(math.inf if alone else radius)
            found = solver.run(plan.descent_in(part), part, records, y, rng, progress).coef
            coef[:, columns] = found.reshape(K, -1)
            if alone and plan.path is None and traits_of(problem.loss).residuals:
                coef[:, -1] = modest(coef[:, -1], problem.n_mu(plan.mu))
        inside = coef[:, : problem.n_features - problem.intercept]
        if free:  # coefficients are long where features are far below their units
            radius = max(radius, STAGEWISE.room * float(np.abs(inside).sum()))
        else:
            flat = inside.ravel()
            move_into(L1Ball(radius), flat)
            inside[:] = flat.reshape(inside.shape)
        coef = coef.ravel()
        if path is None:
            path = projected_path(coef, intercepts)
        n_iter = plan.n_iter if plan.path is not None else int(progress[0])
        return Result(coef, n_iter, radius, path)


class BallDescent(GradientDescent):
    """Gradient descent whose steps end in an l1 ball, which the intercept is free of.

    Parameters
    ----------
    radius : float
    """

    in_metric: ClassVar[bool] = False  # in which the projection would be another one

    def __init__(self, radius: float = math.inf) -> None:
        super().__init__(shrunk="each")
        self.radius = radius

    def restrained(
        self, problem: CompositeProblem, coordinates: Coordinates, u: np.ndarray
    ) -> np.ndarray:
        """Project ``u`` onto the ball, in the coordinates of the descent."""
        inside = u.reshape(problem.loss.n_outputs, -1).copy()
        d = problem.n_features - problem.intercept
        part, lengths = inside[:, :d], 1.0 / coordinates.scale[:d]
        sizes = np.abs(part)
        if (sizes * lengths).sum() > self.radius:
            # Every size falls by its length times a number, up to 0. It is found by halving.
            low, high = 0.0, float((sizes / lengths).max())
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                if (np.maximum(sizes - middle * lengths, 0.0) * lengths).sum() > self.radius:
                    low = middle
                else:
                    high = middle
            inside[:, :d] = np.sign(part) * np.maximum(sizes - high * lengths, 0.0)
        return inside.ravel()


def problem_in(problem: CompositeProblem, columns: np.ndarray) -> CompositeProblem:
    """The problem of some columns, in increasing order."""
    d = problem.n_features - problem.intercept
    features, known = columns[columns < d], problem.mean_square
    if len(features) == 0:  # the ones of the intercept are the only feature
        return replace(problem, n_features=1, intercept=False, mean_square=(1.0,), unit=(0.0,))
    return replace(
        problem,
        n_features=len(columns),
        intercept=d in columns,
        sparse=problem.sparse and not problem.centred,
        mean_square=None if known is None else tuple(known[j] for j in features),
        unit=(0.0,) * len(columns),
    )


def noise_fits(mu: float, n_coordinates: int) -> bool:
    """Whether the grid is fine enough for descent in at most so many coordinates."""
    # Every release has a larger share of mu**2.
    least = 0.25 / GRADIENT_DESCENT.max_passes
    try:
        gaussian_grid(1.0, 1.0 / (mu * math.sqrt(least)), n_coordinates, 1.0)
    except ValueError:
        return False
    return True


def modest(means: np.ndarray, n_mu: float) -> np.ndarray:
    """Noisy means of targets in [-1, 1], shrunk by as much as they are likely to be noise."""
    if n_mu < STAGEWISE.least_mean:
        return np.zeros_like(means)
    noise = (2.0 / n_mu) ** 2
    usual, _ = COLUMN_SCALES.usual_target
    return np.clip(means, -1.0, 1.0) * (usual / (usual + noise))


@dataclass(frozen=True)
class StepSums:
    """Points of a path by its steps, which are summed on demand, since they may be far fewer.

    Parameters
    ----------
    steps : CSR array of shape (n_points, D)
        Whole numbers: steps there and back cancel exactly.
    length : float
        Length of one step.
    """

    steps: Any
    length: float

    def point(self, t: int) -> np.ndarray:
        """The coefficients after t steps, flat."""
        return np.asarray(self.steps[: t + 1].sum(axis=0)).ravel() * self.length

    def toarray(self) -> np.ndarray:
        """All points, of shape (n_points, D)."""
        return np.cumsum(self.steps.toarray(), axis=0) * self.length


def stagewise_path(chosen: np.ndarray, radius: float, D: int) -> tuple[np.ndarray, StepSums]:
    """Radii and coefficients after every step: post-processing of the chosen vertices."""
    T = len(chosen)
    signs = np.where(chosen < D, 1.0, -1.0)
    rows = np.concatenate([[0], np.arange(T + 1)])  # no step in the first row
    steps = sparse.csr_array((signs, chosen % D, rows), shape=(T + 1, D))
    return radius / T * np.arange(T + 1), StepSums(steps, radius / T)


def projected_path(coef: np.ndarray, intercepts: np.ndarray) -> tuple[np.ndarray, Any]:
    """Projections of ``coef`` onto smaller l1 balls, which the intercepts are free of.

    They are post-processing, and sparse at small radii.
    """
    support = np.flatnonzero(coef)  # zeros stay zeros
    inside = ~np.isin(support, intercepts)
    total = float(np.abs(coef[support[inside]]).sum())
    radii = np.linspace(0.0, total, STAGEWISE.path_points + 1 if total > 0.0 else 1)
    points = np.tile(coef[support], (len(radii), 1))
    points[0] = 0.0
    for radius, point in zip(radii[1:-1], points[1:-1], strict=True):
        part = point[inside]
        project(L1Ball(float(radius)), part)
        point[inside] = part
    rows, columns = np.nonzero(points)
    shape = (len(radii), len(coef))
    return radii, sparse.csr_array((points[rows, columns], (rows, support[columns])), shape=shape)
