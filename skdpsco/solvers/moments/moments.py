"""Noisy label moments and second moments, a few rounds, and any penalty by post-processing.

Proof: docs/proofs/moments.md.

The gradient of a loss ``phi(z) - t z``, where z is the prediction, depends on the target t only
through the mean of ``t x``. This mean is released once, and a round needs only that of ``phi'(z)
x``.
"""

import math
from typing import Any, ClassVar

import numpy as np

from skdpsco._kernels import provider
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bound
from skdpsco.data.design import Dense
from skdpsco.data.pieces import replace_one
from skdpsco.data.record_sums import BlockDesign, in_pieces, map_reduce
from skdpsco.losses.library import Multinomial, derivative, derivatives, for_kernels
from skdpsco.losses.traits import traits_of
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.penalties import prox
from skdpsco.privacy.spending import share_mu
from skdpsco.solvers.base import Result, check_derivatives
from skdpsco.solvers.moments.plan import MOMENTS, MomentsPlan, bound_of, has_matrix, shares
from skdpsco.solvers.moments.sums import (
    Ones,
    Responses,
    Targets,
    centred,
    count_longer,
    respond,
    second_moment_sums,
    shortened_sums,
    square_sums,
)
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.penalized.quadratic_model import Model, james_stein, saturation
from skdpsco.solvers.penalized.second_moments import positive_definite, upper_triangle

__all__ = ["Moments"]

LINE = 1.1341  # largest distance of two points (q**2, q / 2), |q| <= 1
_OF_THE_TARGET = (derivative, derivatives)
FAR = 1e200  # coefficients; larger ones are of no use


class Moments:
    """Noisy moments, and the quadratic model that follows from them.

    It releases the mean of target times features, and the second moments of the features if these
    are worth their cost (otherwise the curvature and the mean along the first moment). If the
    signal is strong enough, it also releases the gradient at a few points, for accelerated steps in
    the metric of the second moments. With the squared loss the moments are sufficient statistics.
    The penalty costs no privacy. For a classification with an intercept and little noise, dense
    rows are centred at a noisy mean if this is far from 0, which copies X. Sparse rows are not
    centred; only the model uses their mean.

    Parameters
    ----------
    row_norm : float or None, default=None
        Public bound, in [1e-100, 1e100], on the l2 norm of the rows ``x_j / b_j``, in units of the
        feature bounds. Longer rows are shortened, and rows are not centred. None finds a bound
        privately.

    Raises
    ------
    TypeError
        If ``row_norm`` is neither None nor a number.
    ValueError
        If ``row_norm`` is outside [1e-100, 1e100].

    References
    ----------
    Proof and sources: docs/proofs/moments.md.
    """

    row_norm: float | None

    requires: ClassVar[dict[str, Any]] = {
        "loss": ((respond,), (derivative, derivatives)),
        "penalty": ((prox,),),
    }
    optional: ClassVar[tuple[str]] = ("penalty",)
    by_blocks = fixed_cost = conditioned = True

    def __init__(self, row_norm: float | None = None) -> None:
        self.row_norm = None if row_norm is None else check_bound("row_norm", row_norm)

    def check(self, problem: CompositeProblem) -> None:
        """Check the loss.

        Raises
        ------
        TypeError
            If the class of the loss inherits `respond` from another class than its derivatives.
        ValueError
            If a constant of the loss is 0, or too large or too small, or targets hold weights.
        """
        cls = type(problem.loss)
        if traits_of(problem.loss).weighted:
            raise ValueError("Moments does not take weights.")
        check_derivatives(problem.loss, bound_of(problem))
        if not all(issubclass(provider(respond, cls), provider(k, cls)) for k in _OF_THE_TARGET):
            raise TypeError(
                f"Moments needs the kernel `respond`, which {cls.__name__} inherits from another "
                "class than its derivatives."
            )

    def plan(
        self, problem: CompositeProblem, budget: Any, n_iter: int | None = None
    ) -> MomentsPlan:
        """Spend ``budget``.

        Parameters
        ----------
        problem : CompositeProblem
        budget : Budget or Allowance
        n_iter : int or None
            Number of rounds; None leaves it to the plan. With the squared loss and a matrix there
            are no rounds, since they could not add anything.

        Raises
        ------
        TypeError
            If `check` refuses the loss.
        ValueError
            If the squared loss is linear beyond some residual, the intercept is penalised, or the
            noise is too large for the grids.
        """
        self.check(problem)
        n, F, loss = problem.n_samples, problem.n_features, problem.loss
        K, d = loss.n_outputs, F - problem.intercept
        squared = traits_of(loss).quadratic
        if squared and loss.lipschitz() < math.inf:
            raise ValueError(f"Moments needs Squared(clip=inf), got {loss!r}.")
        if problem.intercept and problem.unit[-1] != 0.0:  # centring moves the intercept
            raise ValueError("Moments needs an intercept without penalty: unit[-1] must be 0.")
        mu = budget.mu * (1.0 - 2.0**-40)  # covers the rounding of the shares
        # Length of the moment of a perfect signal over that of its noise, for rows of norm 1.
        signal = n * mu / math.sqrt(max(d, 1) * max(K - 1, 1))
        matrix = has_matrix(n, F, mu)
        T = n_rounds(signal, matrix) if n_iter is None else n_iter
        if squared and matrix:
            T = 0
        centred = not squared and problem.intercept and self.row_norm is None
        centred = (
            centred and not problem.centred and n * mu >= MOMENTS.centre_ratio * math.sqrt(d) > 0.0
        )
        parts = shares(problem, self.row_norm, matrix, T, centred)
        multiplier, event = share_mu(mu, parts)
        slack = 1.0 + F * K * 2.0**-50  # rounding of norms and of products of one record
        row = math.sqrt(1.0 + MOMENTS.intercept * problem.intercept) * slack
        size = bound_of(problem) * row

        def grid(name, sensitivity, dimension, magnitude):
            return gaussian_grid(sensitivity, multiplier[name], dimension, magnitude)

        moved = replace_one(n, size, record_change(problem) * slack)
        matrix_grid = curvature_grid = response_grid = norm_grid = centre_grid = None
        line = not matrix and K == 1 and problem.intercept
        tolerated = 0.0
        if "norm" in parts:
            norm_grid = grid("norm", 1.0, 1, n)
            tolerated = max(min(0.5, 2.0 / signal) * n, min(3.0 * deviation_on(norm_grid), 0.5 * n))
        if centred:
            centre_grid = grid("centre", replace_one(n, slack), d, n * slack)
        if matrix:
            square = math.sqrt(2.0) * row * row
            changed = replace_one(n, square, square)
            matrix_grid = grid("matrix", changed, F * (F + 1) // 2, n * square)
        else:
            square = (LINE if line else 1.0) * slack * slack
            changed = replace_one(n, slack * slack, square, K, 1 + line)
            curvature_grid = grid("curvature", changed, 1 + line, n * K)
        if T > 0:
            response_grid = grid("responses", moved, F * K, n * size)
        return MomentsPlan(
            event=event,
            n_iter=T,
            moment_grid=grid("moment", moved, F * K, n * size),
            norm_grid=norm_grid,
            centre_grid=centre_grid,
            matrix_grid=matrix_grid,
            curvature_grid=curvature_grid,
            response_grid=response_grid,
            line=line,
            tolerated=tolerated,
            row_norm=self.row_norm,
        )

    def run(
        self,
        plan: MomentsPlan,
        problem: CompositeProblem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        with np.errstate(all="ignore"):  # a warning about underflow would reveal data
            coef = _Run(plan, problem, X, y, rng).fit(progress)
        return Result(coef, plan.n_iter)


def record_change(problem: CompositeProblem) -> float:
    """Bound on the l2 distance of two records' numbers times rows: moments, or responses."""
    bound, ones = bound_of(problem), MOMENTS.intercept * problem.intercept
    # The numbers of a user's loss are only known to be bounded, so two of them may be opposites.
    if type(problem.loss) is not Multinomial:
        return 2.0 * bound * math.sqrt(1.0 + ones)
    # Within a class, features may be opposites but the ones are not; between classes, numbers are
    # not.
    return math.sqrt(max(bound * bound * (4.0 + ones), 2.0 * (1.0 + ones)))


def n_rounds(signal: float, matrix: bool) -> int:
    """Number of rounds, which grows as the noise falls, up to the number that converges."""
    if signal < MOMENTS.rounds_signal:
        return 0
    few = min(math.sqrt(signal / MOMENTS.few_signal), MOMENTS.max_rounds if matrix else 1)
    many = min(signal / MOMENTS.many_signal, MOMENTS.most_rounds)
    return max(1, round(max(few, many)))


class _Run:
    """One fit, with coefficients in units in which rows have norm at most 1."""

    def __init__(
        self, plan: Any, problem: Any, X: MatrixLike, y: TargetLike, rng: np.random.Generator
    ) -> None:
        self.plan, self.problem, self.rng = plan, problem, rng
        self.X, self.y = X, y
        self.centred_at: Any = None  # the point that blocks are centred at in every sum
        self.n, self.F, self.K = problem.n_samples, problem.n_features, problem.loss.n_outputs
        self.d = self.F - problem.intercept
        self.bound = bound_of(problem)
        self.shift = np.zeros(self.d)  # in units of the entry of the ones
        self.shrinkage = MOMENTS.shrinkage if plan.matrix_grid else MOMENTS.diagonal_shrinkage
        self.sufficient = traits_of(problem.loss).quadratic and plan.matrix_grid is not None

    def fit(self, progress: Any) -> np.ndarray:
        """Compute the coefficients, flat."""
        plan, problem = self.plan, self.problem
        by_blocks = isinstance(self.X, BlockDesign)
        is_sparse = self.X.sparse if by_blocks else not isinstance(self.X, Dense)
        arrays, self.X = self.X, in_pieces(self.X, self.y)
        self.c = self.clipping_norm()
        unit = 1.0
        centre = self.centre()
        if is_sparse:
            if plan.matrix_grid is None:  # a matrix would contain the mean
                self.shift = centre / (self.c * math.sqrt(MOMENTS.intercept))
            centre = np.zeros(self.d)
        elif centre.any():
            unit = 0.5
            if by_blocks:
                self.centred_at = centre
            else:
                self.X = in_pieces(centred(arrays, centre), self.y)
            self.c = self.clipping_norm(self.c)
        c = self.c
        # Coefficients for features as kernels see them, over those for shortened rows.
        self.scale = np.full(self.F, 1.0 / c)
        self.scale[self.d :] = math.sqrt(MOMENTS.intercept)
        scale = self.scale * unit  # the problem's units over those of shortened rows
        scale[self.d :] = self.scale[self.d :]
        moment, deviation = self.moment()
        M = self.second_moments() if plan.matrix_grid else self.curvature(self.about(moment))
        moment = self.about(moment)
        model = Model(M, problem, scale)
        start = np.zeros((self.K, self.F))
        curvature = problem.loss.smoothness() if self.K == 1 else 1.0 / self.K
        h = 1.0
        likely = james_stein(moment, MOMENTS.shrinkage * deviation**2)
        W = model.minimise(curvature, likely, start)
        if traits_of(problem.loss).targets == "signs":
            for _ in range(20):
                new = max(saturation(float((W * model.apply(W)).sum())), MOMENTS.least_saturation)
                if new > 0.99 * h:
                    break
                h = new
                W = model.minimise(curvature * h, likely, W)
        W = self.rounds(model, curvature * h, moment, deviation, W, progress)
        W = self.back(W) * scale
        W[:, self.d :] -= (W[:, : self.d] @ centre)[:, None]
        return W.ravel()

    def about(self, means: Any) -> Any:
        """Convert means of rows to means of rows minus `shift`."""
        means = means.copy()
        means[:, : self.d] -= np.outer(means[:, self.d :].sum(axis=1), self.shift)
        return means

    def back(self, W: Any) -> Any:
        """Coefficients for rows, from those for rows minus `shift`."""
        W = np.clip(np.nan_to_num(W), -FAR, FAR)
        W[:, self.d :] -= (W[:, : self.d] @ self.shift)[:, None]
        return W

    def rounds(
        self, model: Any, curvature: Any, moment: Any, deviation: Any, W: Any, progress: Any
    ) -> Any:
        """Take accelerated proximal steps in the metric of the model."""
        plan = self.plan
        if plan.n_iter > MOMENTS.long:
            curvature = self.problem.loss.smoothness()  # an upper bound
        V, momentum = W, 1.0
        V_old = R_old = np.zeros_like(W)
        for t in range(plan.n_iter):
            R, noise = self.responses(self.back(V))
            R = self.about(R)
            # Has the gradient changed by more along the last step than that of the model?
            S = V - V_old
            bend = float((S * model.apply(S)).sum())
            if bend > 0.0:
                doubt = noise * math.sqrt(1.0 + (t > 0)) * float(np.linalg.norm(S))
                measured = (float((S * (R - R_old)).sum()) - doubt) / bend
                curvature = max(curvature, measured)
            V_old, R_old = V, R
            G = james_stein(R - moment, self.shrinkage * (noise**2 + deviation**2))
            new = model.minimise(curvature, curvature * model.apply(V) - G, V)
            if float(((V - new) * model.apply(new - W)).sum()) > 0.0:
                momentum = 1.0  # it has overshot
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            V = new + (momentum - 1.0) / following * (new - W)
            W, momentum = new, following
            progress[0] += 1
        return W

    def centre(self) -> Any:
        """A noisy mean of the shortened features, or 0."""
        nowhere = np.zeros(self.d)
        if self.plan.centre_grid is None:
            return nowhere
        sums = self.total(shortened_sums, Ones(), 1)[: self.d].copy()
        deviation = gaussian_mechanism(self.rng, sums, self.plan.centre_grid)
        mean = james_stein(sums, deviation**2) / self.n
        if float(np.linalg.norm(mean)) < MOMENTS.least_centre:
            return nowhere
        return np.clip(self.c * mean, -1.0, 1.0)

    def clipping_norm(self, largest: Any = None) -> Any:
        """The smallest candidate that few rows exceed; for centred rows, one below `largest`."""
        n_counts = MOMENTS.n_counts if largest is None else MOMENTS.n_centred_counts
        largest = math.sqrt(max(self.d, 1)) if largest is None else largest
        if self.plan.row_norm is not None:
            return min(self.plan.row_norm, largest)
        n_below = 2**n_counts - 1
        top = math.ceil(2.0 * math.log2(largest) - 1e-9)
        candidates = np.append(2.0 ** (np.arange(top - n_below, top) / 2.0), largest)
        # Norms that are equal to a candidate may have been rounded.
        limits = candidates * (1.0 + 1e-9)
        counts = map_reduce(self.X, self.y, count_longer, self.centred_at, limits)
        low, high = 0, n_below
        while low < high:
            middle = (low + high) // 2
            count = counts[[middle]]
            gaussian_mechanism(self.rng, count, self.plan.norm_grid)
            if count[0] <= self.plan.tolerated:
                high = middle
            else:
                low = middle + 1
        return float(candidates[high])

    def means(self, sums: Any, grid: Any) -> Any:
        """Release sums of rows times numbers, one vector per output; return means and noise."""
        W = sums.reshape(self.K, self.F)
        W[:, self.d :] *= math.sqrt(MOMENTS.intercept) * self.c
        deviation = gaussian_mechanism(self.rng, sums, grid) / self.n
        W = W / self.n
        if self.K > 1:  # targets and responses sum to 0 over the classes
            W -= W.mean(axis=0)
            deviation *= math.sqrt(1.0 - 1.0 / self.K)
        return W, deviation

    def total(self, function: Any, *arguments: Any) -> Any:
        """Sum of a function of shortened rows over all records."""
        return map_reduce(self.X, self.y, function, self.centred_at, self.c, *arguments)

    def moment(self) -> Any:
        """Mean of target times row, and its noise."""
        rule = Targets(for_kernels(self.problem.loss), self.bound)
        sums = self.total(shortened_sums, rule, self.K, None, self.sufficient)
        return self.means(sums, self.plan.moment_grid)

    def responses(self, W: Any) -> Any:
        """Mean of response times row at ``W``, and its noise."""
        # Predictions have to be finite, since one NaN would make the whole sum NaN.
        w = np.clip(np.nan_to_num(W * self.scale), -FAR, FAR).ravel()
        rule = Responses(self.problem.loss, self.bound)
        sums = self.total(shortened_sums, rule, self.K, w)
        return self.means(sums, self.plan.response_grid)

    def curvature(self, moment: Any) -> Any:
        """Diagonal second moments: all are those along the moment, about the mean."""
        direction = np.array(moment)
        direction[:, self.d :] = 0.0
        direction /= max(float(np.linalg.norm(direction)), 1e-100)  # tiny squares would vanish
        sums = self.total(square_sums, direction.ravel(), self.K)[: 1 + self.plan.line]
        deviation = gaussian_mechanism(self.rng, sums, self.plan.curvature_grid)
        square = (max(float(sums[0]), 0.0) + deviation) / self.n
        along = direction[:, : self.d]
        means = along @ self.shift * math.sqrt(MOMENTS.intercept)
        if self.plan.line:
            measured = float(james_stein(sums[1:], 2.0 * deviation**2)[0]) * 2.0 / self.n
            limit = math.sqrt(MOMENTS.most_mean * square)
            measured = max(-limit, min(limit, measured))
            self.shift += along[0] * (measured - means[0]) / math.sqrt(MOMENTS.intercept)
            means[0] = measured
        square -= min(float(means @ means), MOMENTS.most_mean * square)
        M = np.full(self.F, square)
        M[self.d :] = MOMENTS.intercept
        return M

    def second_moments(self) -> Any:
        """Noisy mean of row row', positive definite."""
        entries = upper_triangle(
            self.total(second_moment_sums, math.sqrt(MOMENTS.intercept) * self.c)
        )
        deviation = gaussian_mechanism(self.rng, entries, self.plan.matrix_grid)
        ridge = MOMENTS.regression_ridge if self.sufficient else MOMENTS.ridge
        return positive_definite(entries, deviation, ridge) / self.n
