"""What all solvers share: the problem, the plan, the result, and sensitivities of sums."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from skdpsco._kernels import compiled, implements, njit, of_this_package
from skdpsco.constraints.sets import conjugate, in_double_precision, minimiser
from skdpsco.losses.check import TRIALS
from skdpsco.penalties import prox, subdifferential
from skdpsco.privacy import (
    Budget,
    Event,
    GaussianEvent,
    ZCDPEvent,
    allows,
    compose,
    gdp_of,
    is_gaussian,
    mu_of,
    rho_of,
)

# Of products of bounds: far from where float64 numbers have fewer digits, and from overflow.
LEAST_PRODUCT, LARGEST_PRODUCT = 1e-250, 1e250


@dataclass(frozen=True)
class Problem:
    """What a planner may know: loss, constraint and public sizes, never data.

    Features are in [-1, 1] and targets in ``[-target_bound, target_bound]``; `skdpsco.data.design`
    and the estimators see to it.

    Parameters
    ----------
    loss : NamedTuple of `skdpsco.losses`
    constraint : NamedTuple of `skdpsco.constraints`, or None for a radius yet to be chosen
    n_samples : int
    n_features : int
        Including the column of ones of an intercept.
    intercept : bool
        Whether the last column is that column of ones.
    target_bound : float, default=1.0
    row_norm : float, default=inf
        Bound on the l2 norm of a record's features, without the one of an intercept, for solvers
        that read records through `skdpsco.data.record_stream`: they shrink longer ones to it. (The
        largest that features in [-1, 1] can have is sqrt(n_features).)
    sparse : bool, default=False
        Whether records are sparse.
    centred : bool, default=False
        Whether features are known to have a mean near 0.
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

    def __post_init__(self) -> None:
        # The squares of less would underflow, and longer rows would not be shrunk.
        if not self.row_norm >= 1e-150:
            raise ValueError(f"row_norm must be at least 1e-150, got {self.row_norm!r}.")
        object.__setattr__(self, "constraint", in_double_precision(self.constraint))

    @property
    def n_coefficients(self) -> int:
        """Length of the flat vector of coefficients."""
        return self.n_features * self.loss.n_outputs

    def feature_norm(self, order: float) -> float:
        """Bound on the norm of ``order`` >= 1 of a record's features, the one of an intercept too.

        For x in [-1, 1]^d with l2 norm at most B: the sum of |x_j|^q is at most max |x_j|^(q - 2)
        times B^2 for q >= 2; below, Hoelder's inequality. It covers the rounding of the features.
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
    """What an earlier release has left of a `Budget`, in zCDP, and what Gaussian noise gets of it.

    ``mu**2 / 2`` zCDP is what Gaussian noise of total sensitivity / scale mu costs.
    """

    rho: float

    @property
    def mu(self) -> float:
        """Total sensitivity over standard deviation that Gaussian noise may have."""
        return (2.0 * self.rho) ** 0.5

    def minus(self, event: Event) -> "Allowance":
        """What is left after ``event``."""
        return Allowance(self.rho - rho_of(event))


class Remainder(NamedTuple):
    """What earlier releases have left of a `Budget` that is spent on one fit alone.

    Parameters
    ----------
    budget : Budget
    spent : Event
        Gaussian noise, and draws of the exponential mechanism.
    """

    budget: Budget
    spent: Event

    @property
    def epsilon(self) -> float:
        """Of the budget; `allows` counts what is spent."""
        return self.budget.epsilon

    @property
    def delta(self) -> float:
        """Of the budget; `allows` counts what is spent."""
        return self.budget.delta

    @property
    def rho(self) -> float:
        """What is left in zCDP."""
        return self.budget.rho - rho_of(self.spent)

    @property
    def mu(self) -> float:
        """What is left for Gaussian noise alone: the curve is that of all mu together, or zCDP."""
        squares = self.budget.mu**2 - gdp_of(self.spent) ** 2
        return math.sqrt(max(squares, 2.0 * self.rho, 0.0)) * (1.0 - 2.0**-40)


@dataclass
class Result:
    """What a solver releases.

    Parameters
    ----------
    coef : ndarray, flat
    n_iter : int
        Private steps, a public number.
    radius : float or None
        Radius of the constraint, if the solver chose it.
    path : tuple of ndarray of shape (n_points,) and an object with ``toarray()``, or None
        Radii and coefficients of shape (n_points, D): post-processing of what was released.
    n_gradients : int or None
        Gradients of single records that were taken, by the solvers that count them; where records
        are sampled, the expected number.
    n_rounds : int or None
        As in the `Plan`.
    """

    coef: np.ndarray
    n_iter: int
    radius: float | None = None
    path: tuple[np.ndarray, Any] | None = None
    n_gradients: int | None = None
    n_rounds: int | None = None


@dataclass(frozen=True)
class Plan:
    """Made of a budget and public sizes; feeds the kernel, the ledger and the report.

    Parameters
    ----------
    event : Event
        What the run costs, charged before any noise is drawn.
    n_iter : int
        Number of private steps.
    summary : tuple of str
        What was decided, one line each, for reports.
    assumptions : tuple of str
        What privacy rests on and nothing enforces, one sentence each. A solver that uses another
        one passes on what that one assumes.
    warnings : tuple of str
        Where public sizes say that the solver cannot do what its name promises, one sentence each.
    n_rounds : int or None
        Rounds on disjoint parts of the records, by the solvers that recurse.
    """

    event: Event
    n_iter: int
    summary: tuple[str, ...] = field(default=(), compare=False)
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)
    warnings: tuple[str, ...] = field(default=(), kw_only=True, compare=False)
    n_rounds: int | None = field(default=None, kw_only=True)

    def passed_on(self) -> dict[str, Any]:
        """What a solver that uses this plan takes over in its own."""
        return {
            "assumptions": self.assumptions,
            "warnings": self.warnings,
            "n_rounds": self.n_rounds,
        }


class Solver(Protocol):
    """A method to fit a linear model under privacy.

    One with ``fixed_cost = True`` promises that the event of its plans follows from the sizes, the
    loss and the budget, not from the set, the penalty or the units of features and targets. Where
    these follow from earlier releases, its noise may then be as small as if they were declared. One
    with ``samples = True`` adds noise to samples, so that its cost in zCDP is not that of a budget.
    """

    def plan(self, problem: Problem, budget: Any, n_iter: int | None) -> Plan:
        """Spend ``budget`` (``rho`` and ``mu``) on ``problem``; ``n_iter=None`` is automatic."""
        ...

    def run(self, plan: Any, problem: Problem, X, y, rng, progress) -> Result:
        """Follow ``plan`` on the data."""
        ...


def check_supported(solver, problem: Problem) -> None:
    """Name a kernel that is missing, before Numba does; and ask the solver's own ``check``.

    ``solver.requires`` holds, for loss, constraint and penalty, all kernels that its plan and run
    may call: tuples of which one kernel must be there. Where a problem may go without a constraint
    or penalty, ``solver.optional`` names it. Kernels of a user's class are compiled, and called
    with public numbers.

    Raises
    ------
    TypeError
        And what ``solver.check(problem)`` raises, if there is one.
    """
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


# Of a user's class these are compiled and called before the charge. (Polytopes are asked for their
# vertices by plans.) The kernels of many records call those of one.
PROBES: dict[Any, Any] = {
    minimiser: _probe_minimiser,
    prox: _probe_prox,
    subdifferential: _probe_subdifferential,
    **TRIALS,
}


def check_smooth(solver, loss: Any) -> None:
    """Refuse a loss whose curvature has no bound, for a solver whose steps are made for one.

    Raises
    ------
    ValueError
    """
    declared = {"smoothness": (), "curvature_constant": (1.0,)}
    bounds = [getattr(loss, name)(*args) for name, args in declared.items() if hasattr(loss, name)]
    if not all(bound < math.inf for bound in bounds):
        raise ValueError(
            f"{type(solver).__name__} needs a smooth loss, which {type(loss).__name__} is not: use "
            "the solver PhasedERM ('phased-erm'), or a smooth loss such as SmoothHinge or Huber."
        )


def check_bound_on(what: str, loss: Any, bound: float) -> None:
    """Refuse a bound of 0, an infinite one, and one whose square may vanish or overflow.

    Raises
    ------
    ValueError
    """
    if not 1e-100 <= bound <= 1e100:
        raise ValueError(
            f"The {what} of {loss!r} must have a bound in [1e-100, 1e+100], got {bound!r}."
        )


def check_scales(
    loss: Any, slope: float, features: float, lengths: tuple[float, ...], bend: float
) -> None:
    """Refuse products of bounds whose rounding is not relative to them: noise would not cover it.

    Parameters
    ----------
    loss : NamedTuple of `skdpsco.losses`
    slope : float
        Bound on a derivative.
    features : float
        Bound on the features.
    lengths : tuple of float
        Of the set, of which scores of points are made.
    bend : float
        Bound on how much derivatives change over the set.

    Raises
    ------
    ValueError
    """
    if not 0.0 < slope < math.inf:
        raise ValueError(
            f"The Lipschitz constant of {type(loss).__name__} must be positive and finite, "
            f"got {slope!r}."
        )
    scales = (slope, slope * features, *(slope * features * length for length in lengths))
    if not (LEAST_PRODUCT <= min(scales) and max(*scales, bend) <= LARGEST_PRODUCT):
        raise ValueError(
            f"Slopes of {slope:.3g}, features of {features:.3g} and a set of diameter "
            f"{lengths[0]:.3g} are not scaled."
        )


def curvature_of(loss: Any, distance: float) -> float:
    """Frank-Wolfe curvature for predictions at most ``distance`` apart.

    A loss of the user's own need not declare it as ``curvature_constant``.
    """
    if hasattr(loss, "curvature_constant"):
        return loss.curvature_constant(distance)
    return loss.smoothness() * distance * distance


def prediction_spread(problem: Problem) -> float:
    """Bound on how far two predictions of a record are apart, for all points of the set."""
    constraint = problem.constraint
    if hasattr(constraint, "p"):  # a ball
        reach = constraint.radius * problem.feature_norm(conjugate(constraint.p))
        bound = 2.0 ** (1.0 - 1.0 / constraint.p) * reach
    else:
        bound = constraint.norm_bound()
    return bound * (1.0 + 2.0**-40)


def check_cost(event: Event, budget: Any) -> None:
    """Refuse a plan that costs more than its budget, whoever made it.

    Raises
    ------
    ValueError
    """
    gaussian = is_gaussian(event)
    cost, limit = (mu_of(event), budget.mu) if gaussian else (rho_of(event), budget.rho)
    # Noise on samples costs less by its own curve, which a budget of (epsilon, delta) may use.
    if cost > limit * (1.0 + 1e-9) and not allows(budget, event):
        raise ValueError(
            f"The solver's plan costs {'mu' if gaussian else 'rho'}={cost:.6g}, and its budget is "
            f"{limit:.6g}."
        )


def assumed_of(solver: Any, plan: Plan) -> tuple[str, ...]:
    """What privacy takes on trust of ``solver`` and of its ``plan``, for the report."""
    while of_this_package(type(solver)) and hasattr(solver, "solver"):
        solver = solver.solver
    cls = type(solver)
    own = () if of_this_package(cls) else (f"what {cls.__name__} releases costs what it plans",)
    return (*own, *plan.assumptions)


def worst_of(events: Sequence[Event]) -> Event:
    """What releases of disjoint parts of the records cost, each of which may depend on the others.

    A record is in one part only. If the costs differ and not all noise is Gaussian, the result is
    zCDP. Proof: docs/proofs/boosted_mirror_descent.md, section 1.
    """
    if len(set(events)) == 1:
        return events[0]
    if all(map(is_gaussian, events)):
        return max(events, key=mu_of)
    return ZCDPEvent(max(map(rho_of, events)))


def share_mu(mu: float, parts: dict[str, tuple[float, int]]) -> tuple[dict[str, float], Event]:
    """Noise multipliers of Gaussian releases that share ``mu**2``, and what they cost together.

    Parameters
    ----------
    mu : float
    parts : dict
        By name, the share of one release of a kind, and how many there are.
    """
    multipliers = {name: 1.0 / (mu * math.sqrt(share)) for name, (share, _) in parts.items()}
    releases = [multipliers[name] for name, (_, count) in parts.items() for _ in range(count)]
    return multipliers, compose(*map(GaussianEvent, releases))
