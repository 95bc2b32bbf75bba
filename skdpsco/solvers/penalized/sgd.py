"""Private stochastic gradient descent on Poisson samples. Proof: docs/proofs/sgd.md."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco._random import next_uint64
from skdpsco._typing import MatrixLike, TargetLike
from skdpsco._validation import check_bound, check_choice
from skdpsco.data.design import CSR, Dense, as_matrix, read_only
from skdpsco.data.record_sums import in_pieces
from skdpsco.privacy import (
    AddedPoissonSampledGaussianEvent,
    Event,
    PoissonSampledGaussianEvent,
    RepeatedEvent,
    allows,
    compose,
)
from skdpsco.privacy._cache import cached
from skdpsco.privacy._pld import ACCOUNTANTS, MOST_STEPS, pld_applies
from skdpsco.solvers.base import Result
from skdpsco.solvers.penalized.gradient_descent import (
    GradientDescent,
    GradientDescentPlan,
    gradient_grid,
    noisy_gradient,
    passes,
    plenty,
    release_coordinates,
    share_scales,
    unscaled,
)
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.penalized.quadratic_model import Model

__all__ = ["SGD", "poisson_sample", "with_least_noise"]

LEAST_PROBABILITY = 1e-9  # probability that a record is in a sample


class SGDTuning(NamedTuple):
    """Constants of DP-SGD, beside `GradientDescentTuning`.

    All but ``precision`` were fitted on data like those of
    examples/benchmarks/coordinate_descent.py.

    Parameters
    ----------
    sampled : float
        Share of the records in a sample, if noise matters.
    precision : float
        Relative precision of the noise multiplier; chosen by hand, for time.
    passes : int
        Number of passes over the records where their number is private, and may not decide it.
    """

    sampled: float = 0.05
    precision: float = 1e-3
    passes: int = 10


STOCHASTIC = SGDTuning()


@dataclass(frozen=True, kw_only=True)
class SGDPlan(GradientDescentPlan):
    """The plan of full batches, with the event of every step, which its sampler follows."""

    sampling: PoissonSampledGaussianEvent

    @property
    def only_gradients(self) -> bool:
        """False, since samples are drawn record by record; see `Plan`."""
        return False


class SGD:
    """Proximal stochastic gradient descent on Poisson samples, with clipping and Gaussian noise.

    This is DP-SGD: in every step, each record takes part with the same probability. Nobody learns
    which records do, so a step costs less than its noise alone would. The accountant charges for
    replaced records, which costs more than the usual accounting for added or removed ones, unless
    neighbours add or remove records. Sums are divided by the expected size of a sample. The result
    is a mean over the last quarter of the steps.

    `GradientDescent` is about as accurate with as many passes over the data. Sampling has no
    benefit if the budget is in zCDP, as with a ledger.

    Parameters
    ----------
    clip : "auto" or float, default="auto"
        As in `GradientDescent`.
    batch_size : "auto" or float, default="auto"
        Expected number of records in a sample, at least 1e-9 of all. "auto" is a twentieth of the
        records, or all of them if the noise is small or sampling has no benefit. With all records,
        or any number from ``n_samples`` on, the fit is that of `GradientDescent`. It must be "auto"
        where the number of records is private.
    preconditioned : bool, default=True
        As in `GradientDescent`.
    accountant : {"auto", "rdp", "pld"}, default="auto"
        "rdp" accounts with Renyi divergences. "pld" accounts with privacy loss distributions, which
        needs less noise, but also dp-accounting (``pip install 'skdpsco[pld]'``). "auto" is "pld"
        if that is installed, otherwise "rdp". The guarantee is the same. With more than a million
        steps "pld" is "rdp", and warns if it was asked for.

    References
    ----------
    R. Bassily, A. Smith, A. Thakurta. Private Empirical Risk Minimization: Efficient Algorithms
    and Tight Error Bounds. FOCS 2014.
    M. Abadi et al. Deep Learning with Differential Privacy. CCS 2016.
    """

    full_batch: Any
    clip: Any
    preconditioned: bool

    requires: ClassVar[dict[str, Any]] = GradientDescent.requires
    fixed_cost = samples = for_added = True

    def __init__(
        self,
        clip: float | str = "auto",
        batch_size: float | str = "auto",
        preconditioned: bool = True,
        accountant: str = "auto",
    ) -> None:
        self.full_batch = GradientDescent(clip, preconditioned, shrunk=False)  # it checks both
        self.clip, self.preconditioned = self.full_batch.clip, preconditioned
        automatic = batch_size == "auto"
        self.batch_size: Any = batch_size if automatic else check_bound("batch_size", batch_size)
        self.accountant: str = check_choice("accountant", accountant, ACCOUNTANTS)

    def plan(
        self, problem: CompositeProblem, budget: Any, n_iter: int | None = None
    ) -> GradientDescentPlan:
        """Share ``budget`` among the scales and ``n_iter`` steps, each on a sample.

        Raises
        ------
        ValueError
            If the noise of a step would be too large for the grid, or ``batch_size`` is a number
            and that of the records is private.
        ImportError
            If ``accountant="pld"`` and dp-accounting is not installed.
        """
        ratio = plenty(problem, budget)
        probability = self._probability(problem, ratio, hasattr(budget, "delta"))
        if probability >= 1.0:
            return self.full_batch.plan(problem, budget, n_iter)
        # Curves of different plans do not mix: a private number of records has no part in this one.
        n_passes = STOCHASTIC.passes if problem.added else passes(ratio)
        n_steps = n_iter or max(1, round(n_passes / probability))
        scales, mu_steps = share_scales(self, problem, budget.mu * (1.0 - 2.0**-40))
        of_relation = (
            AddedPoissonSampledGaussianEvent if problem.added else PoissonSampledGaussianEvent
        )
        # This multiplier is large enough without sampling.
        sampling = of_relation(2.0 * math.sqrt(n_steps) / mu_steps, probability)
        sampling = with_least_noise(budget, scales.event, sampling, n_steps, self.accountant)
        event = compose(scales.event, RepeatedEvent(sampling, n_steps))
        wanted = self.accountant == "pld" and hasattr(budget, "delta")
        too_long = (
            f"accountant='pld' is for at most {MOST_STEPS} steps: the {n_steps} of this plan are "
            "accounted for with 'rdp', which draws a little more noise."
        )
        return SGDPlan(
            event=event,
            n_iter=n_steps,
            scales=scales,
            preconditioned=self.preconditioned,
            grid=gradient_grid(problem, sampling.noise_multiplier, 1.0),
            slack=max(1.0, ratio**0.25),
            sampling=sampling,
            warnings=(too_long,) if wanted and not pld_applies(event, "pld") else (),
        )

    def _probability(self, problem: CompositeProblem, ratio: float, pays: bool) -> float:
        """The probability with which a record is in a sample.

        ``ratio`` is `plenty`, and ``pays`` says whether it costs less to sample.
        """
        if self.batch_size == "auto":
            few = STOCHASTIC.sampled * (1.0 if problem.added else max(1.0, ratio))
            return few if pays else 1.0
        if problem.added:
            raise ValueError(
                "batch_size must be 'auto' where the number of records is private: what a sample "
                "costs must not follow from it."
            )
        return max(self.batch_size / problem.n_samples, LEAST_PROBABILITY)

    def run(
        self,
        plan: GradientDescentPlan,
        problem: CompositeProblem,
        X: MatrixLike,
        y: TargetLike,
        rng: np.random.Generator,
        progress: Any,
    ) -> Result:
        """Follow ``plan`` on the data."""
        if not isinstance(plan, SGDPlan):
            return self.full_batch.run(plan, problem, X, y, rng, progress)
        coordinates = release_coordinates(self.clip, plan, problem, X, y, rng)
        grid = plan.grid * coordinates.clip
        expected = plan.sampling.sampling_probability * problem.n_samples
        step = 1.0 / (problem.loss.smoothness() * coordinates.mean_square_norm)
        model = Model(np.ones(problem.n_features), problem, 1.0 / coordinates.scale)
        point = np.zeros(problem.n_coefficients)
        sums = np.zeros((2, len(point)))
        n_averaged = plan.averaged_passes
        members = np.empty(len(y), dtype=np.int64)
        rows = Rows(X)
        for t in range(plan.n_iter):
            batch = members[: poisson_sample(rng, plan.sampling.threshold, members)]
            targets = y[batch]
            some = in_pieces(rows[batch], targets)
            total = noisy_gradient(problem, coordinates, some, targets, point, grid, rng)
            gradient = total / expected
            if t >= plan.n_iter - n_averaged:
                sums += point, gradient
            point = model.proximal_step(point, gradient, step)
            progress[0] += 1
        mean_point, mean_gradient = sums / n_averaged
        u = model.proximal_step(mean_point, mean_gradient, step)
        return Result(unscaled(problem, coordinates, u), plan.n_iter)


class Rows:
    """Some records of a design, as a design."""

    matrix: Any

    def __init__(self, X: Dense | CSR) -> None:
        self.X = X
        if isinstance(X, CSR):
            self.matrix = as_matrix(X)

    def __getitem__(self, rows: np.ndarray) -> Dense | CSR:
        if isinstance(self.X, Dense):
            return self.X._replace(values=read_only(self.X.values[rows]))
        some = self.matrix[rows]
        data, indices, indptr = map(read_only, (some.data, some.indices, some.indptr))
        return self.X._replace(data=data, indices=indices, indptr=indptr)


@cached(64)
def with_least_noise(
    budget: Any,
    others: Event,
    sampling: PoissonSampledGaussianEvent,
    n_steps: int,
    accountant: str,
) -> PoissonSampledGaussianEvent:
    """``sampling`` with about the least noise for which all steps and ``others`` fit ``budget``.

    The search starts from its own noise, which is about enough without sampling.
    """

    def enough(multiplier: float) -> bool:
        step = replace(sampling, noise_multiplier=multiplier)
        return allows(budget, compose(others, RepeatedEvent(step, n_steps)), accountant)

    high = sampling.noise_multiplier
    while not enough(high):
        high *= 1.01
    low = high / 2.0
    while enough(low):
        low, high = low / 2.0, low
    while high > low * (1.0 + STOCHASTIC.precision):
        middle = math.sqrt(low * high)
        if enough(middle):
            high = middle
        else:
            low = middle
    return replace(sampling, noise_multiplier=high)


@njit
def poisson_sample(rng, threshold, out):
    """Write the members of a sample and return their number; probability ``threshold / 2**53``.

    A record is a member if 53 random bits are below the threshold. The bits of 64 records are drawn
    together, the most significant first, until every record has a bit that differs.
    """
    n, size = out.shape[0], 0
    one, top = np.uint64(1), np.uint64(2**64 - 1)
    for start in range(0, n, 64):
        open_ = top >> np.uint64(max(0, 64 - (n - start)))
        chosen = np.uint64(0)
        place = 52
        while open_ != np.uint64(0) and place >= 0:
            word = np.uint64(next_uint64(rng))
            if (threshold >> place) & 1:
                chosen |= open_ & ~word
                open_ &= word
            else:
                open_ &= ~word
            place -= 1
        i = start
        while chosen != np.uint64(0):
            if chosen & one:
                out[size] = i
                size += 1
            chosen >>= one
            i += 1
    return size
