"""Private numbers of events, leavers and entries by interval. Proof: docs/proofs/survival.md."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco.losses.hazards import EXPOSED, growth_of
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event, GaussianEvent

__all__ = [
    "SURVIVAL",
    "Baseline",
    "LifeTable",
    "LifeTablePlan",
    "SurvivalCounts",
    "life_table",
    "plan_life_table",
]


class SurvivalTuning(NamedTuple):
    """Constants, chosen by hand.

    Parameters
    ----------
    share : float
        Share of rho for the counts, if a regression follows.
    least, most : float
        Range of the cumulative baseline hazard at the horizon.
    least_step : float
        Least part of it that an interval gets, over its width.
    n_simulated : int
        Number of simulated releases, for bands.
    """

    share: float = 0.1
    least: float = 1e-3
    most: float = 8.0
    least_step: float = 0.01
    n_simulated: int = 1000


SURVIVAL = SurvivalTuning()
ROUNDS = 20  # of a fixed point; each adds less than log(2 n) to a rate, whose exponential is finite


class LifeTable(NamedTuple):
    """What a release tells of each interval; nothing in it is negative.

    Parameters
    ----------
    events, censored, entered : ndarray of shape (n_times,)
        Numbers of events, of people who were seen last without one, and of those seen first after
        time 0.
    at_risk : ndarray of shape (n_times,)
        Number of people at the start of the interval.
    survival, cumulative_hazard : ndarray of shape (n_times,)
        Kaplan-Meier and Nelson-Aalen at the end of the interval.
    """

    events: np.ndarray
    censored: np.ndarray
    entered: np.ndarray
    at_risk: np.ndarray
    survival: np.ndarray
    cumulative_hazard: np.ndarray


def increasing(cells: np.ndarray, most: float) -> np.ndarray:
    """Cells at least 0, whose running sums are half way between two that increase to ``most``."""
    sums = np.clip(np.cumsum(cells, axis=-1), 0.0, most)
    above = np.maximum.accumulate(sums, axis=-1)
    below = np.minimum.accumulate(sums[..., ::-1], axis=-1)[..., ::-1]
    return np.diff(0.5 * (above + below), prepend=0.0, axis=-1)


def of_all(cells: np.ndarray, n: float) -> np.ndarray:
    """Noisy cells, shifted so that they add up to ``n``."""
    return cells - (cells.sum(axis=-1, keepdims=True) - n) / cells.shape[-1]


def slopes_of(entered: np.ndarray, times: np.ndarray) -> np.ndarray:
    """By how much more people enter at the end of an interval than at its start, by its width.

    They are slopes of parabolas through the mean densities of neighbouring intervals, which leave
    no density below 0. People enter earlier rather than later if many leave before they enter.
    """
    if len(times) == 1:
        return np.zeros_like(entered)
    widths = np.diff(times, prepend=0.0)
    middles, order = times - 0.5 * widths, 2 if len(times) > 2 else 1
    slopes: Any = np.gradient(entered / widths, middles, axis=-1, edge_order=order)  # type: ignore[call-overload]
    with np.errstate(over="ignore"):  # of intervals far wider than their neighbours
        return np.clip(slopes * widths**2, -2.0 * entered, 2.0 * entered)


def life_table(
    cells: np.ndarray, n_samples: float, times: np.ndarray, entries: np.ndarray | None = None
) -> LifeTable:
    """What noisy cells say: events, then censored people, then those who reach the horizon.

    ``entries`` are those at 0, in the intervals, and later; None if all people enter at 0.
    """
    n, K = float(n_samples), len(times)
    cells = of_all(cells, n)
    events, censored = increasing(cells[..., :K], n), increasing(cells[..., K : 2 * K], n)
    entered = np.where(np.arange(K + 1) == 0, n, np.zeros_like(cells[..., : K + 1]))
    if entries is not None:
        entered = increasing(of_all(entries, n)[..., : K + 1], n)
    leaving = events + censored
    came = np.cumsum(entered, axis=-1)[..., :K]
    at_risk, entered = (
        np.maximum(came - np.cumsum(leaving, axis=-1) + leaving, 0.0),
        entered[..., 1:],
    )
    # Those who leave do so by events and by censoring at constant rates, and those who enter do so
    # at rates that change linearly. If all leave, half a person is taken to stay.
    staying = np.maximum(at_risk + entered - leaving, 0.5)
    rates = np.log((staying + leaving) / staying)
    if entries is not None:
        slopes = slopes_of(entered, times)
        for _ in range(ROUNDS):
            small = np.maximum(rates, 1e-3)  # below, the first terms of both series are enough
            grown = np.where(rates < small, 1.0 + 0.5 * rates, np.expm1(small) / small)
            tilted = np.where(
                rates < small, rates / 12.0, 0.5 * grown - (np.expm1(small) - small) / small**2
            )
            more = np.maximum(entered * (grown - 1.0) + slopes * tilted, 0.0)
            rates = np.log((staying + leaving + more) / staying)
    steps = events / np.maximum(leaving, 1e-9) * rates
    if entries is not None:  # those who enter are at risk at the end, where the hazard may differ
        late = np.minimum(entered / (at_risk + staying), 1.0)
        steps -= slopes_of(steps, times) * late / 6.0
    hazards = np.cumsum(steps, axis=-1)
    return LifeTable(events, censored, entered, at_risk, np.exp(-hazards), hazards)


@dataclass(frozen=True)
class SurvivalCounts:
    """A released table of events and censored people in intervals, and what follows from it.

    Parameters
    ----------
    times : ndarray of shape (n_times,)
        Ends of the intervals, which include their ends.
    n_samples : int
    cells : ndarray of shape (2 * n_times + 1,)
        Noisy numbers of events by interval, of censored people, and of those who reach the horizon
        without an event.
    noise : float
        Standard deviation of the noise of a cell.
    entries : ndarray of shape (n_times + 2,) or None, default=None
        Noisy numbers of people who enter at time 0, in each interval, and after the horizon; None
        if times of entry were not given.
    """

    times: np.ndarray
    n_samples: int
    cells: np.ndarray
    noise: float
    entries: np.ndarray | None = None

    @cached_property
    def table(self) -> LifeTable:
        """The life table of these counts."""
        return life_table(self.cells, self.n_samples, self.times, self.entries)

    @cached_property
    def simulated(self) -> LifeTable:
        """Life tables of simulated releases for people like those of this one."""
        rng = np.random.default_rng(0)  # public numbers: they hide nothing
        n, rounds = self.n_samples, SURVIVAL.n_simulated
        events, censored, entered, at_risk, *_ = self.table
        leaving = events + censored
        chances = np.minimum(leaving / np.maximum(at_risk + entered, leaving + 1e-9), 1.0)
        shares = events / np.maximum(leaving, 1e-9)
        first = np.concatenate([at_risk[:1], entered, [0.0]])
        first[-1] = max(n - first.sum(), 0.0)
        came = rng.multinomial(n, first / first.sum(), rounds)
        cells, present = np.empty((rounds, len(self.cells))), came[:, 0]
        K = len(events)
        for k in range(K):
            present = present + came[:, k + 1]
            left = rng.binomial(present, chances[k])
            cells[:, k] = rng.binomial(left, shares[k])
            cells[:, K + k] = left - cells[:, k]
            present = present - left
        cells[:, -1] = n - cells[:, :-1].sum(axis=1)
        cells += rng.normal(0.0, self.noise, cells.shape)
        if self.entries is None:
            return life_table(cells, n, self.times)
        return life_table(cells, n, self.times, came + rng.normal(0.0, self.noise, came.shape))

    def band(self, name: str, level: float) -> np.ndarray:
        """Lower and upper ends that hold the whole curve with probability ``level``.

        Parameters
        ----------
        name : {"survival", "cumulative_hazard"}
        level : float

        Returns
        -------
        band : ndarray of shape (2, n_times)
        """
        curve, others = getattr(self.table, name), getattr(self.simulated, name)
        errors = others - curve
        width = np.maximum(np.sqrt(np.mean(errors**2, axis=0)), 1e-12)
        # The table behind the simulation is noisy itself: half of what may be missed is for that.
        factor = np.quantile(np.abs(errors / width).max(axis=1), 0.5 * (1.0 + level))
        low, high = curve - factor * width, curve + factor * width
        if name == "survival":  # it falls, from 1 to no less than 0
            low = np.maximum.accumulate(low[::-1])[::-1]
            return np.clip([low, np.minimum.accumulate(high)], 0.0, 1.0)
        high = np.minimum.accumulate(high[::-1])[::-1]
        return np.maximum([np.maximum.accumulate(low), high], 0.0)


class Baseline(NamedTuple):
    """The cumulative baseline hazard, in the place of the units of a regression's target.

    Parameters
    ----------
    times, cumulative : ndarray of shape (n_times,)
        It is linear between 0 and these times.
    rate : float
        About the share of people with an event.
    counts : SurvivalCounts or None
        The release that it follows from.
    """

    times: np.ndarray
    cumulative: np.ndarray
    rate: float
    counts: SurvivalCounts | None = None

    @property
    def centre(self) -> float:
        """The centre of predictions: they are logarithms of ratios of hazards."""
        return 0.0

    @property
    def scale(self) -> float:
        """The scale of predictions."""
        return 1.0

    @property
    def usual(self) -> float:
        """The mean cumulative hazard at which people leave, each weighted by their own."""
        if self.counts is None:
            return float(self.cumulative[-1])
        table = self.counts.table
        left = self.counts.n_samples - (table.events + table.censored).sum()
        leaving = np.append(table.events + table.censored, max(left, 1.0))
        ends = np.append(0.0, self.cumulative)
        passed = np.append(0.5 * (ends[1:] + ends[:-1]), ends[-1])
        return float(leaving @ passed**2 / (leaving @ passed))

    def for_risks(self, spread: float) -> np.ndarray:
        """The cumulative hazard of people with the same risk, if the logarithms have this variance.

        It is in the unit of `ProportionalHazards`: both are the same at `usual`.
        """
        if spread == 0.0:
            return self.cumulative
        growth = growth_of(spread, float(self.cumulative[-1]))
        return self.usual * np.expm1(growth * self.cumulative) / np.expm1(growth * self.usual)

    def at(self, times: np.ndarray) -> np.ndarray:
        """The cumulative baseline hazard at times within the horizon."""
        return np.interp(times, np.append(0.0, self.times), np.append(0.0, self.cumulative))

    def apply(self, records: np.ndarray) -> np.ndarray:
        """Targets of `ProportionalHazards` for records of `signed_times`."""
        signed, entry = records.T
        exposed = self.at(np.abs(signed)) - self.at(entry)
        return (signed > 0.0) - EXPOSED * exposed / self.cumulative[-1]


@dataclass(frozen=True)
class LifeTablePlan:
    """How the table is released; it is a stage of a fit, too.

    Parameters
    ----------
    times : tuple of float
    n_samples : int
    event : Event
    grid : float
    delayed : bool
        Whether entries are released.
    """

    times: tuple[float, ...]
    n_samples: int
    event: Event
    grid: float
    delayed: bool

    part: ClassVar[str] = "target"
    name: ClassVar[str] = "events and censored people by interval"

    @property
    def extremes(self) -> tuple[Baseline, ...]:
        """Baselines of the smallest and the largest hazard."""
        times = np.array(self.times)
        return tuple(
            Baseline(times, total * times / times[-1], min(total, 1.0))
            for total in (SURVIVAL.least, SURVIVAL.most)
        )

    def counts(self, records: np.ndarray, rng: np.random.Generator) -> SurvivalCounts:
        """Release the table."""
        (cells,), noise = self.cells((records,), rng)
        cells, entries = np.split(cells, [2 * len(self.times) + 1])
        given = entries if self.delayed else None
        return SurvivalCounts(np.array(self.times), self.n_samples, cells, noise, given)

    def cells(
        self, groups: Sequence[np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        """Noisy cells of disjoint groups of records, and the deviation of their noise.

        Returns
        -------
        cells : ndarray of shape (n_groups, n_cells)
            For each group those of events, of censored people, and of entries if there are any.
        noise : float
        """
        times, K, tables = np.array(self.times), len(self.times), []
        for signed, entry in (records.T for records in groups):
            happened = np.searchsorted(times, signed[signed > 0.0], side="left")
            seen = np.searchsorted(times, -signed[signed < 0.0], side="right")
            tables += [np.bincount(happened, minlength=K), np.bincount(seen, minlength=K + 1)]
            if self.delayed:
                first = np.where(entry > 0.0, np.searchsorted(times, entry, side="right") + 1, 0)
                tables.append(np.bincount(first, minlength=K + 2))
        cells = np.concatenate(tables).astype(np.float64)
        noise = gaussian_mechanism(rng, cells, self.grid)
        return cells.reshape(len(groups), -1), noise

    def release(self, X: Any, y: np.ndarray, rng: np.random.Generator) -> Baseline:
        """The baseline hazard of all people together."""
        counts = self.counts(y, rng)
        table, widths = counts.table, np.diff(counts.times, prepend=0.0)
        total = min(max(float(table.cumulative_hazard[-1]), SURVIVAL.least), SURVIVAL.most)
        steps = np.diff(table.cumulative_hazard, prepend=0.0)
        steps = np.maximum(steps, SURVIVAL.least_step * total * widths / widths.sum())
        cumulative = np.cumsum(steps) * total / steps.sum()
        rate = float(table.events.sum()) / self.n_samples
        return Baseline(counts.times, cumulative, rate, counts)

    def apply(self, value: Baseline, X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
        """The records, and targets as the loss reads them."""
        return X, value.apply(y)

    def note(self, value: Baseline) -> str:
        """A line for the report."""
        return f"cumulative hazard {value.cumulative[-1]:.3g} at {value.times[-1]:g}"


def plan_life_table(
    times: np.ndarray, n_samples: int, rho: float, delayed: bool = False, n_groups: int = 1
) -> LifeTablePlan:
    """Spend ``rho`` on the table of each group, which holds entries if they are ``delayed``.

    Raises
    ------
    ValueError
        If the noise is too large for the grid.
    """
    multiplier = 1.0 / math.sqrt(2.0 * rho)
    sensitivity = 2.0 if delayed else math.sqrt(2.0)  # a person is in two cells, or in one
    n_cells = (3 if delayed else 2) * len(times) + (3 if delayed else 1)
    grid = gaussian_grid(sensitivity, multiplier, n_groups * n_cells, float(n_samples))
    return LifeTablePlan(tuple(times.tolist()), n_samples, GaussianEvent(multiplier), grid, delayed)
