"""What all solvers share: problem, plan, result, and sensitivities of sums."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from skdpsco._kernels import compiled, implements, njit, of_this_package
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import LARGEST, SMALLEST
from skdpsco.constraints.norms import conjugate
from skdpsco.constraints.sets import in_double_precision, minimiser
from skdpsco.losses.check import TRIALS
from skdpsco.penalties import prox, subdifferential
from skdpsco.privacy import (
    Budget,
    Event,
    GaussianEvent,
    RepeatedEvent,
    SamplerErrorEvent,
    ZCDPEvent,
    allows,
    compose,
    gdp_of,
    is_gaussian,
    mu_of,
    rho_of,
)
from skdpsco.privacy.events import without_errors

__all__ = [
    "LARGEST_PRODUCT",
    "LEAST_PRODUCT",
    "PROBES",
    "Allowance",
    "Plan",
    "Problem",
    "Remainder",
    "Result",
    "Uncertainty",
    "assumed_of",
    "check_bound_on",
    "check_cost",
    "check_derivatives",
    "check_scales",
    "check_smooth",
    "check_supported",
    "curvature_of",
    "left_after",
    "prediction_spread",
    "share_mu",
    "worst_of",
]

# Range of products of bounds, within which float64 numbers keep all digits and do not overflow.
LEAST_PRODUCT, LARGEST_PRODUCT = 1e-250, 1e250


@dataclass(frozen=True)
class Problem:
    """What a planner may know: loss, constraint and public sizes, never data.

    Features are in [-1, 1] and targets in ``[-target_bound, target_bound]``, as ensured by
    `skdpsco.data.design` and the estimators.

    Parameters
    ----------
    loss : NamedTuple of `skdpsco.losses`
    constraint : NamedTuple of `skdpsco.constraints`, or None for a radius yet to be chosen
    n_samples : int
    n_features : int
        Number of features, including the column of ones of an intercept.
    intercept : bool
        Whether the last column is this column of ones.
    target_bound : float, default=1.0
    row_norm : float, default=inf
        Bound on the l2 norm of a record's features without the intercept's 1. Solvers that read
        records through `skdpsco.data.record_stream` shorten longer rows to it. (With features in
        [-1, 1] the norm is at most sqrt(n_features).)
    sparse : bool, default=False
        Whether records are sparse.
    centred : bool, default=False
        Whether features are known to have a mean near 0.
    mean_square : tuple of float, or None
        Mean square of every feature except that of the intercept, if a release has measured it.
    added : bool, default=False
        Whether neighbours add a record or remove one, and do not replace one. Then ``n_samples`` is
        a noisy count, which was released.
    """

    loss: Any
    constraint: Any
    n_samples: int
    n_features: int
    intercept: bool = False
    target_bound: float = 1.0
    row_norm: float = math.inf
    sparse: bool = False
    centred: bool = False
    mean_square: tuple[float, ...] | None = None
    added: bool = False

    def __post_init__(self) -> None:
        # Squares of smaller bounds would underflow, and longer rows would not be shortened.
        if not self.row_norm >= 1e-150:
            raise ValueError(f"row_norm must be at least 1e-150, got {self.row_norm!r}.")
        object.__setattr__(self, "constraint", in_double_precision(self.constraint))

    @property
    def n_coefficients(self) -> int:
        """Length of the flat vector of coefficients."""
        return self.n_features * self.loss.n_outputs

    def n_mu(self, mu: float) -> float:
        """Number of records times mu, which tells how large sums of gradients are beside noise.

        It counts twice where records are added, as these move sums by half as much.
        """
        return self.n_samples * mu * (2.0 if self.added else 1.0)

    def penalty_slope(self, w: np.ndarray) -> float:
        """Slope in s of the penalty of the coefficients ``s * w`` at s = 1; 0 without a penalty."""
        return 0.0

    def feature_norm(self, order: float) -> float:
        """Bound on the norm of ``order`` >= 1 of a record's features, with the intercept's 1.

        Let x in [-1, 1]^d have l2 norm at most B. For q >= 2 the sum of ``|x_j|^q`` is at most
        ``max |x_j|^(q - 2)`` times B^2; for smaller q, Hoelder's inequality holds. The bound covers
        the rounding of the features.
        """
        d = self.n_features - self.intercept
        l2 = min(self.row_norm, math.sqrt(d))
        if order >= 2.0:
            given = min(1.0, l2) * max(1.0, l2) ** (2.0 / order)
        else:
            given = d ** (1.0 / order - 0.5) * l2
        norm = max(given, 1.0) if self.intercept else given
        if self.intercept and order < math.inf:
            norm *= ((min(given, 1.0) / max(given, 1.0)) ** order + 1.0) ** (1.0 / order)
        return norm * (1.0 + (self.n_features + 16) * 2.0**-51)


class Allowance(NamedTuple):
    """What earlier releases have left of a `Budget`, in zCDP, and its mu for Gaussian noise.

    Gaussian noise whose total sensitivity over scale is mu costs ``mu**2 / 2`` zCDP.
    """

    rho: float

    @property
    def mu(self) -> float:
        """Largest total sensitivity over standard deviation of Gaussian noise."""
        return (2.0 * self.rho) ** 0.5

    def minus(self, event: Event) -> "Allowance":
        """What is left after ``event``."""
        return Allowance(self.rho - rho_of(event))


@dataclass(frozen=True)
class Remainder:
    """What earlier releases have left of a `Budget` that serves a single fit.

    Parameters
    ----------
    budget : Budget
    spent : Event
        Earlier Gaussian noise, and draws of the exponential mechanism.
    """

    budget: Budget
    spent: Event

    @property
    def epsilon(self) -> float:
        """The budget's epsilon; `allows` counts what is spent."""
        return self.budget.epsilon

    @property
    def delta(self) -> float:
        """The budget's delta; `allows` counts what is spent."""
        return self.budget.delta

    @property
    def max_records_per_unit(self) -> int:
        """Number of records per unit in the budget."""
        return self.budget.max_records_per_unit

    @cached_property
    def rho(self) -> float:
        """What is left in zCDP."""
        return self.budget.rho - rho_of(self.spent)

    @cached_property
    def mu(self) -> float:
        """What is left for Gaussian noise, by the common curve of all mu, or in zCDP."""
        squares = self.budget.mu**2 - gdp_of(self.spent) ** 2
        return math.sqrt(max(squares, 2.0 * self.rho, 0.0)) * (1.0 - 2.0**-40)

    def minus(self, event: Event) -> "Remainder":
        """What is left after ``event``, too."""
        return Remainder(self.budget, compose(self.spent, event))


def left_after(available: Any, event: Event) -> Allowance | Remainder:
    """What is left of a `Budget`, an `Allowance` or a `Remainder` after ``event``."""
    if isinstance(available, Budget):
        return Remainder(available, event)
    return available.minus(event)


class Uncertainty(NamedTuple):
    """Uncertainty of a model's coefficients and intercept.

    With several targets, all numbers but ``joint`` have one more axis, the first. With more than
    two classes the covariance alone has it.

    Parameters
    ----------
    covariance : ndarray of shape (n_features + 1, n_features + 1)
        Covariance of the coefficients, followed by the intercept.
    curvature_noise : float
        Noise in the curvatures (for least squares, in the covariances of the features), relative to
        them. Unless it is far below 1, coefficients are not nearly linear in the noise.
    doubtful : bool
        Whether this noise is so large that the coverage of intervals is doubtful.
    residual_variance : float or None
        Variance of the target around predictions: its mean given what was released, if all
        variances were equally likely before. Noise may make the released variance negative. None
        where targets are labels.
    joint : ndarray of shape (n_classes, n_features + 1, n_classes, n_features + 1), or None
        Covariance of the coefficients of all classes together, if there are more than two, or of
        all targets (with n_targets in place of n_classes), if there are two or more, and at most
        1000 coefficients and intercepts. ``covariance[k]`` is ``joint[k, :, k]``.
    debiasing : ndarray of shape (n_features + 1,), or (n_classes, n_features + 1), or None
        What an l1 penalty has taken off the coefficients and the intercept: intervals are for
        coefficients without any penalty, and around those of the model plus this. None without such
        a penalty.
    """

    covariance: np.ndarray
    curvature_noise: Any
    doubtful: Any
    residual_variance: Any = None
    joint: Any = None
    debiasing: Any = None


@dataclass
class Result:
    """What a solver releases.

    Parameters
    ----------
    coef : ndarray, flat
    n_iter : int
        Number of private steps, which is public.
    radius : float or None
        Radius of the constraint, if the solver chose it.
    path : tuple of ndarray of shape (n_points,) and an object with ``toarray()``, or None
        Radii and coefficients of shape (n_points, D): post-processing of what was released.
    n_gradients : int or None
        Number of gradients of single records, for solvers that count them; for samples of records,
        the expected number.
    n_rounds : int or None
        As in the `Plan`.
    uncertainty : Uncertainty or None
        It is in the solver's units, and has no entry for an intercept that is not fitted.
    """

    coef: np.ndarray
    n_iter: int
    radius: float | None = None
    path: tuple[np.ndarray, Any] | None = None
    n_gradients: int | None = None
    n_rounds: int | None = None
    uncertainty: Uncertainty | None = None


@dataclass(frozen=True)
class Plan:
    """A plan, from a budget and public sizes, for the kernel, the ledger and the report.

    Parameters
    ----------
    event : Event
        Cost of the run, which is charged before any noise is drawn.
    n_iter : int
        Number of private steps.
    summary : tuple of str
        What was decided, one line each, for reports.
    assumptions : tuple of str
        Assumptions that privacy rests on and that nothing enforces, one sentence each. A solver
        that uses another one passes on the assumptions of that one.
    warnings : tuple of str
        Sentences about what the solver cannot achieve at these public sizes.
    n_rounds : int or None
        Number of rounds on disjoint parts of the records, for solvers that recurse.
    """

    event: Event
    n_iter: int
    summary: tuple[str, ...] = field(default=(), compare=False)
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)
    warnings: tuple[str, ...] = field(default=(), kw_only=True, compare=False)
    n_rounds: int | None = field(default=None, kw_only=True)

    @property
    def clips_gradients(self) -> bool:
        """Whether the noise is that of gradients in coordinates in which all columns are alike.

        Such noise does not grow with the scales of features, so few records need to be clipped.
        """
        return False

    @property
    def only_gradients(self) -> bool:
        """Whether records are read many times, for sums of clipped gradients.

        Everything else that is read must be what `Tiles` allow, such as copies of columns. Dense
        features may then come as `Tiles`, if the loss is one of one prediction.
        """
        return False

    def passed_on(self) -> dict[str, Any]:
        """The fields that a solver adopts in its own plan when it uses this plan."""
        return {
            "assumptions": self.assumptions,
            "warnings": self.warnings,
            "n_rounds": self.n_rounds,
        }


class Solver(Protocol):
    """A method to fit a linear model under privacy.

    With ``fixed_cost = True`` a solver promises that the event of its plans follows from the sizes,
    the loss and the budget, but not from the set, the penalty or the units of features and targets.
    If these follow from earlier releases, its noise may then be as small as if they were declared.
    With ``fixed_plan = True`` the same is true of the whole plan, and it is made only once.
    A solver with ``samples = True`` adds noise to samples, so its cost in zCDP exceeds the
    budget's. A solver with ``clips_gradients = True`` may make plans that clip gradients; see
    `Plan`. A solver with ``for_added = True`` follows `Problem.added`; others are refused
    such problems. One with ``fills_range = True`` has noise that follows from the range of the
    features, so that no wider bound is chosen for it than they need. One with ``reads_centred =
    True`` can read sparse rows minus a dense one.
    """

    def plan(self, problem: Problem, budget: Any, n_iter: int | None) -> Plan:
        """Spend ``budget`` (``rho`` and ``mu``) on ``problem``; None chooses ``n_iter``."""
        ...

    def run(
        self,
        plan: Any,
        problem: Problem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        ...


def check_supported(solver: Any, problem: Problem) -> None:
    """Name a missing kernel before Numba fails, and call the solver's own ``check``, if any.

    ``solver.requires`` lists, for loss, constraint and penalty, all kernels that the plan and the
    run may call, as tuples of alternatives of which one must exist. ``solver.optional`` names the
    roles that a problem may omit. The kernels of a user's class are compiled and called with public
    numbers.

    Raises
    ------
    TypeError
        If a kernel is missing or does not compile. Errors of ``solver.check`` pass through.
    ValueError
        If the number of records is private, and the solver cannot do with a noisy one; or if
        records are sparse rows minus a centre, and the solver cannot read them.
    """
    minus_a_centre = getattr(problem, "sparse", False) and getattr(problem, "centred", False)
    if minus_a_centre and not getattr(solver, "reads_centred", False):
        raise ValueError(f"{type(solver).__name__} cannot read sparse rows minus a centre.")
    if getattr(problem, "added", False) and not getattr(solver, "for_added", False):
        raise ValueError(
            f"relation must be 'replace-one' for {type(solver).__name__}, whose noise hides what a "
            "record says, and not the number of records. GradientDescent, SGD, ProjectedDescent, "
            "Stagewise, FrankWolfe and NoisyFrankWolfe can hide that."
        )
    specs = {name: getattr(problem, name, None) for name in ("loss", "constraint", "penalty")}
    for role, kernels in getattr(solver, "requires", {}).items():
        spec = specs[role]
        if spec is None and role in getattr(solver, "optional", ()):
            continue
        for kernel in kernels:
            if not any(implements(k, type(spec)) for k in kernel):
                names = " or ".join(f"`{k.dispatch(object).__name__}`" for k in kernel)
                which = f"which the {role} {type(spec).__name__} does not implement"
                if spec is None:
                    which = f"and there is no {role}"
                raise TypeError(f"{type(solver).__name__} needs the kernel {names}, {which}.")
        if spec is None or of_this_package(type(spec)):
            continue
        K = problem.loss.n_outputs
        public: Any = np.linspace(-1.0, 1.0, problem.n_coefficients)
        public = public, np.zeros_like(public)
        if role == "loss":
            targets = np.arange(K, dtype=np.float64) if K > 1 else np.array([-1.0, 1.0])
            public = np.zeros((len(targets), K)), targets, np.zeros((len(targets), K))
        for kernel in kernels:
            own = next(k for k in reversed(kernel) if implements(k, type(spec)))
            for function in filter(None, map(PROBES.get, kernel)):
                compiled(function, own.dispatch(object).__name__, spec, *public)
    if hasattr(solver, "check"):
        solver.check(problem)


@njit
def _probe_minimiser(constraint, public, out):
    minimiser(constraint, public, out)


@njit
def _probe_prox(penalty, public, out):
    for j in range(out.shape[0]):
        out[j] = prox(penalty, public[j], 1.0)


@njit
def _probe_subdifferential(penalty, public, out):
    for j in range(out.shape[0]):
        low, high = subdifferential(penalty, public[j])
        out[j] = low + high


# These kernels of a user's class are compiled and called before the charge. (Plans ask polytopes
# for their vertices.) Kernels of many records call those of one record.
PROBES: dict[Any, Any] = {
    minimiser: _probe_minimiser,
    prox: _probe_prox,
    subdifferential: _probe_subdifferential,
    **TRIALS,
}


def check_smooth(solver: Any, loss: Any) -> None:
    """Check that a loss has a bound on its curvature, for a solver that needs it.

    Raises
    ------
    ValueError
        If the loss is not smooth, or the bound is not a number >= 0.
    """
    declared = {"smoothness": (), "curvature_constant": (1.0,)}
    bounds = [getattr(loss, name)(*args) for name, args in declared.items() if hasattr(loss, name)]
    if any(bound < 0.0 for bound in bounds):
        raise ValueError(f"The second derivative of {loss!r} must have a bound >= 0, got {bounds}.")
    if not all(bound < math.inf for bound in bounds):
        raise ValueError(
            f"{type(solver).__name__} needs a smooth loss, which {type(loss).__name__} is not: use "
            "the solver PhasedERM ('phased-erm'), or a smooth loss such as SmoothHinge or Huber."
        )


def check_bound_on(what: str, of: Any, bound: float) -> None:
    """Check that a bound is positive and finite, and that its square does not leave float64.

    ``of`` is the loss or the set that declares it.

    Raises
    ------
    ValueError
        If the bound is outside [1e-100, 1e100].
    """
    if not SMALLEST <= bound <= LARGEST:
        raise ValueError(
            f"The {what} of {of!r} must have a bound in [{SMALLEST:g}, {LARGEST:g}], got {bound!r}."
        )


def check_derivatives(loss: Any, slope: float) -> None:
    """Check the bounds on the derivatives of a loss, and the one over the other.

    Their ratio is as long as a step to a minimum may be.

    Parameters
    ----------
    loss : NamedTuple of `skdpsco.losses`
    slope : float
        Bound on the first derivative.

    Raises
    ------
    ValueError
        If one of the three is outside [1e-100, 1e100].
    """
    check_bound_on("derivative", loss, slope)
    check_bound_on("second derivative", loss, loss.smoothness())
    check_bound_on("ratio of the derivatives", loss, slope / loss.smoothness())


def check_scales(
    loss: Any, slope: float, features: float, lengths: tuple[float, ...], bend: float
) -> None:
    """Check that float64 can hold the products of bounds, as noise covers relative rounding only.

    Parameters
    ----------
    loss : NamedTuple of `skdpsco.losses`
    slope : float
        Bound on a derivative.
    features : float
        Bound on the features.
    lengths : tuple of float
        Diameters of the constraint set.
    bend : float
        Bound on how much derivatives change over the set.

    Raises
    ------
    ValueError
        If the Lipschitz constant is not positive and finite, or a product is too large or small.
    """
    if not 0.0 < slope < math.inf:
        raise ValueError(
            f"The Lipschitz constant of {type(loss).__name__} must be positive and finite, "
            f"got {slope!r}."
        )
    scales = (slope, slope * features, *(slope * features * length for length in lengths))
    if not (LEAST_PRODUCT <= min(scales) and max(*scales, bend) <= LARGEST_PRODUCT):
        raise ValueError(
            f"The loss (slope {slope:.3g}), the features (bound {features:.3g}) or the constraint "
            f"(diameter {lengths[0]:.3g}) are too large or too small for float64; rescale them."
        )


def curvature_of(loss: Any, distance: float) -> float:
    """Frank-Wolfe curvature for predictions at most ``distance`` apart.

    A loss may declare its own as ``curvature_constant``; otherwise its smoothness bounds it.
    """
    if hasattr(loss, "curvature_constant"):
        return loss.curvature_constant(distance)
    return loss.smoothness() * distance * distance


def prediction_spread(problem: Problem) -> float:
    """Bound on the difference between two predictions of a record, over all points of the set."""
    constraint = problem.constraint
    if hasattr(constraint, "p"):  # a ball
        reach = constraint.radius * problem.feature_norm(conjugate(constraint.p))
        bound = 2.0 ** (1.0 - 1.0 / constraint.p) * reach
    else:
        bound = constraint.norm_bound()
    return bound * (1.0 + 2.0**-40)


def check_cost(event: Event, budget: Any) -> None:
    """Check that a plan costs at most its budget, whichever solver made it.

    Raises
    ------
    ValueError
        If it costs more.
    """
    gaussian = is_gaussian(event)
    cost, limit = (mu_of(event), budget.mu) if gaussian else (rho_of(event), budget.rho)
    # Noise on samples costs less by its own curve, which a budget of (epsilon, delta) may use.
    if cost > limit * (1.0 + 1e-9) and not allows(budget, event):
        raise ValueError(
            f"The solver's plan costs {'mu' if gaussian else 'rho'}={cost:.6g}, but its budget is "
            f"{limit:.6g}."
        )


def assumed_of(solver: Any, plan: Plan) -> tuple[str, ...]:
    """Assumptions of ``solver`` and of its ``plan`` that privacy rests on, for the report."""
    while of_this_package(type(solver)) and hasattr(solver, "solver"):
        solver = solver.solver
    cls = type(solver)
    own = () if of_this_package(cls) else (f"what {cls.__name__} releases costs what it plans",)
    return (*own, *plan.assumptions)


def worst_of(events: Sequence[Event]) -> Event:
    """Cost of adaptive releases about disjoint parts of the records, or of one of several.

    A record is in one part only, and an earlier release chooses the one. If none of the costs
    covers the others, the result is in zCDP. Proofs: docs/proofs/boosted_mirror_descent.md, section
    1, and docs/proofs/feature_bounds.md.
    """
    if len(set(events)) == 1:
        return events[0]
    exact, etas, betas = zip(*map(without_errors, events), strict=True)
    if max(betas) > 0.0:
        return compose(worst_of(exact), SamplerErrorEvent(max(etas), max(betas)))
    if all(map(is_gaussian, events)):
        return max(events, key=mu_of)
    rho, mu = max(map(rho_of, events)), max(map(gdp_of, events))
    covering = (cost for cost in events if rho_of(cost) >= rho and mu <= gdp_of(cost) < math.inf)
    return next(covering, ZCDPEvent(rho))


def share_mu(mu: float, parts: dict[str, tuple[float, int]]) -> tuple[dict[str, float], Event]:
    """Noise multipliers of Gaussian releases that share ``mu**2``, and their total cost.

    Parameters
    ----------
    mu : float
    parts : dict
        For each kind of release, the share of one release and the number of releases.
    """
    multipliers = {name: 1.0 / (mu * math.sqrt(share)) for name, (share, _) in parts.items()}
    releases = (
        RepeatedEvent(GaussianEvent(multipliers[name]), k) for name, (_, k) in parts.items()
    )
    return multipliers, compose(*releases)
