"""What all solvers share: plan, result, and checks."""

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from skdpsco._kernels import compiled, implements, njit, of_this_package
from skdpsco._problem import Problem, Uncertainty
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import LARGEST, SMALLEST
from skdpsco.constraints.norms import conjugate
from skdpsco.constraints.sets import minimiser
from skdpsco.losses.check import TRIALS
from skdpsco.losses.library import derivative, derivatives
from skdpsco.penalties import prox, subdifferential
from skdpsco.privacy import Event

__all__ = [
    "DERIVATIVES",
    "LARGEST_PRODUCT",
    "LEAST_PRODUCT",
    "Plan",
    "Result",
    "assumed_of",
    "check_bound_on",
    "check_derivatives",
    "check_scales",
    "check_smooth",
    "check_supported",
    "curvature_of",
    "decided",
    "prediction_reach",
    "prediction_spread",
]

# Range of products of bounds, within which float64 numbers keep all digits and do not overflow.
LEAST_PRODUCT, LARGEST_PRODUCT = 1e-250, 1e250

# What solvers that follow derivatives require of a loss: see `check_supported`.
DERIVATIVES = ((derivative, derivatives),)


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
        What was decided, one line each, for the report.
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
    True`` can read sparse rows minus a dense one. One with ``conditioned = True`` gets features
    minus a private centre, over private scales, as the intercept is outside of its ball.
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


def prediction_reach(problem: Problem) -> float:
    """Bound on a prediction over all points of a ball, by Hoelder's inequality."""
    ball = problem.constraint
    return ball.radius * problem.feature_norm(conjugate(ball.p))


def prediction_spread(problem: Problem) -> float:
    """Bound on the difference between two predictions of a record, over all points of the set."""
    constraint = problem.constraint
    if hasattr(constraint, "p"):  # a ball
        bound = 2.0 ** (1.0 - 1.0 / constraint.p) * prediction_reach(problem)
    else:
        bound = constraint.norm_bound()
    return bound * (1.0 + 2.0**-40)


def decided(plan: Plan) -> str:
    """What a plan has decided, in one line for the report; empty if the fit decides the steps."""
    steps = "1 step" if plan.n_iter == 1 else f"{plan.n_iter} steps" if plan.n_iter else ""
    return "; ".join(plan.summary) or steps


def assumed_of(solver: Any, plan: Plan) -> tuple[str, ...]:
    """Assumptions of ``solver`` and of its ``plan`` that privacy rests on, for the report."""
    while of_this_package(type(solver)) and hasattr(solver, "solver"):
        solver = solver.solver
    cls = type(solver)
    own = () if of_this_package(cls) else (f"what {cls.__name__} releases costs what it plans",)
    return (*own, *plan.assumptions)
