"""Audits of whole fits: what many fits to two neighbouring data sets prove about their privacy."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, special, stats
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.parallel import Parallel, delayed

from skdpsco._random import seed_of, without_warnings
from skdpsco._typing import MatrixLike, Seed, TargetLike
from skdpsco._validation import check_choice, check_feature_bound, check_int, is_undeclared
from skdpsco.privacy import gaussian_epsilon, gdp_of
from skdpsco.privacy._checks import abridged, check_real
from skdpsco.privacy.relations import ADD_OR_REMOVE, RELATIONS, REPLACE_ONE
from skdpsco.privacy.report import html_table

from ._cost import params_named
from ._trade_off import (
    ApproximateGuarantee,
    GaussianGuarantee,
    Guarantee,
    least_found,
    lower_bound,
)
from .pipeline_report import check_private_steps, privacy_report

__all__ = ["AuditResult", "audit"]

_GIVEN = "statistic"
# Largest number of released numbers in a statistic; those that differ most are kept.
_N_COORDINATES = 300


@dataclass(frozen=True)
class AuditResult:
    """What an audit has proved; it prints as a short table, also as HTML.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee that is claimed.
    mu : float or None
        The claim in Gaussian differential privacy, if the charge of a fit has one: that is, if all
        its noise is Gaussian or of the exponential mechanism.
    epsilon_lower : float
        Lower confidence bound on the true epsilon at ``delta``, for any kind of noise.
    mu_lower : float
        Lower confidence bound on the true mu.
    detectable : float
        The least true epsilon that this many fits would notice with probability 0.8, if a single
        number showed all that they release. Infinity if there are too few fits for that.
    hits : tuple of int
        How many of the fits to each data set hit the event that tells the data sets apart.
    n_counted : int
        Number of fits to each data set that these numbers refer to; the other fits chose the event.
    confidence : float
        Probability, at least, that all lower bounds hold.

    Notes
    -----
    ``convicted`` is True if the claim is refuted. A claim that is not refuted is not thereby
    proved: the data sets, or the event, may not be the worst.
    """

    epsilon: float
    delta: float
    mu: float | None
    epsilon_lower: float
    mu_lower: float
    detectable: float
    hits: tuple[int, int]
    n_counted: int
    confidence: float

    @property
    def convicted(self) -> bool:
        """Whether the claim is refuted: if it holds, with probability at most 1 - confidence."""
        too_clear = self.mu is not None and self.mu_lower > self.mu
        return self.epsilon_lower > self.epsilon or too_clear

    def rows(self) -> list[tuple[str, str]]:
        """Names and values of the table."""
        rows = [
            ("verdict", "CONVICTED" if self.convicted else "not convicted"),
            ("epsilon", f"at least {self.epsilon_lower:.3g}, claimed {self.epsilon:g}"),
            ("delta", f"{self.delta:g}"),
        ]
        if self.mu is not None:
            claimed = f"at least {self.mu_lower:.3g}, claimed {self.mu:.3g}"
            rows.append(("mu", f"{claimed} (sensitivity over noise, of one Gaussian number)"))
        first, second = self.hits
        return [
            *rows,
            ("confidence", f"{self.confidence:g} in all bounds together"),
            ("hits", f"{first} and {second} of {self.n_counted} fits each"),
            ("power", f"at best epsilon = {self.detectable:.3g} is found with probability 0.8"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<11} {value}" for name, value in self.rows())

    def _repr_html_(self) -> str:
        return html_table("Privacy audit", self.rows())


def audit(
    estimator: Any,
    X: MatrixLike,
    y: TargetLike = None,
    *,
    neighbour: Mapping[str, Any] | None = None,
    relation: str = "auto",
    n_fits: int = 500,
    statistic: Callable[[Any], Any] | None = None,
    confidence: float = 0.99,
    epsilon: float | None = None,
    delta: float | None = None,
    fit_params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: Seed = None,
) -> AuditResult:
    """Fit an estimator many times to two neighbouring data sets, and test its claim.

    Whoever sees fits of a private estimator can tell such data sets apart only as well as (epsilon,
    delta) allows. A lower bound above the claim convicts the estimator of a mistake. A bound below
    it proves nothing.

    **For public or made-up data.** On private data the fits would cost ``2 * n_fits + 1`` budgets,
    so an estimator with a ledger is refused.

    Parameters
    ----------
    estimator : estimator
        A private estimator or pipeline or, with ``epsilon`` and ``delta``, any estimator. It is
        cloned; its ``random_state`` is replaced.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Few records are best, and zeros, among which the replaced record stands out.
    y : array-like of shape (n_samples,) or None, default=None
        Their targets.
    neighbour : mapping or None, default=None
        The arguments of ``fit`` that are different on the second data set, such as ``{"X":
        other}``. None replaces the first record by extreme ones, or leaves it out if ``relation``
        says so.
    relation : {"auto", "replace-one", "add-or-remove-one"}, default="auto"
        How the two data sets differ. "auto" takes what the estimator claims.
    n_fits : int, default=500
        Number of fits on each data set, at least 2.
    statistic : callable or None, default=None
        ``statistic(fitted)`` is what an observer looks at: a number, an array of constant length,
        or a bool. None looks at all numbers in fitted attributes.
    confidence : float, default=0.99
        Probability of no false alarm, in (0, 1).
    epsilon, delta : float or None, default=None
        The claim. None takes the one in the ``privacy_report`` of a fit.
    fit_params : mapping or None, default=None
        Further arguments of ``fit``.
    n_jobs : int or None, default=None
        Number of parallel fits, as in joblib.
    random_state : int, RandomState instance or None, default=None
        None for secret noise; otherwise every fit gets its own seed.

    Returns
    -------
    result : AuditResult
        ``convicted``, the lower bounds and the power.

    Raises
    ------
    ValueError
        If a parameter is out of range, the estimator has a ledger or no claim, or the data sets do
        not differ in exactly one record.
    TypeError
        If a parameter has another type, or X is not numeric and ``neighbour`` is None.

    Notes
    -----
    Half of the fits choose a direction and a threshold, the other half count. The bounds are exact
    for any number of fits: see :doc:`/auditing`. Wrong noise is found with the fewest fits if
    epsilon is large, about 4.

    References
    ----------
    Jagielski, Ullman, Oprea. Auditing Differentially Private Machine Learning: How Private is
    Private SGD? NeurIPS 2020.

    Nasr et al. Tight Auditing of Differentially Private Machine Learning. USENIX Security 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.inspection import audit
    >>> from skdpsco.preprocessing import PrivateStandardScaler
    >>> X, scaler = np.zeros((20, 1)), PrivateStandardScaler(epsilon=4.0, lower=-1.0, upper=1.0)
    >>> audit(scaler, X, n_fits=200, random_state=0).convicted
    False
    >>> scaler.set_params(epsilon=40.0)  # more than what is claimed
    PrivateStandardScaler(epsilon=40.0, lower=-1.0, upper=1.0)
    >>> audit(scaler, X, n_fits=200, epsilon=1.0, delta=1e-6, random_state=0).convicted
    True
    """
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(
            f"estimator must be an estimator of scikit-learn, got {abridged(estimator)}."
        )
    _refuse_ledgers(estimator)
    check_int("n_fits", n_fits, low=2)
    confidence = check_real("confidence", confidence, 0.0, 1.0)
    if statistic is not None and not callable(statistic):
        raise TypeError(f"statistic must be callable or None, got {abridged(statistic)}.")
    claim = _declared_claim(estimator, epsilon, delta)
    seed = seed_of(random_state)
    given = {"X": X, "y": y, **(fit_params or {})}
    added = _checked_relation(estimator, relation, claim) == ADD_OR_REMOVE
    if neighbour is None:
        data = _canaries(estimator, given)
        data = [data[0], _without_first(data[0])] if added else data
    else:
        data = _neighbours(given, neighbour, added)
    with without_warnings():
        if claim is None:
            claim = _claim_of(_fit(estimator, data[0], _seeds(estimator, seed, 2 * n_fits)), added)
        calls = (
            delayed(_observe)(estimator, data[i % 2], _seeds(estimator, seed, i), statistic)
            for i in range(2 * n_fits)
        )
        seen = list(Parallel(n_jobs=n_jobs)(calls))
    first, second = seen[::2], seen[1::2]
    if statistic and all(one[_GIVEN].dtype == bool and one[_GIVEN].size == 1 for one in seen):
        hits = sum(int(one[_GIVEN][0]) for one in first), sum(int(one[_GIVEN][0]) for one in second)
        return _result(claim, hits, n_fits, confidence)
    half = n_fits // 2
    event = _clearest_event(claim, first[:half], second[:half], 1.0 - confidence)
    hits = event.hits(first[half:]), event.hits(second[half:])
    return _result(claim, hits[::-1] if event.swapped else hits, n_fits - half, confidence)


class _Claim(NamedTuple):
    epsilon: float
    delta: float
    mu: float | None

    def guarantees(self) -> list[Guarantee]:
        """The claimed trade-offs."""
        found: list[Guarantee] = [ApproximateGuarantee(self.epsilon, self.delta)]
        return found if self.mu is None else [*found, GaussianGuarantee(self.mu)]


def _declared_claim(estimator: Any, epsilon: Any, delta: Any) -> _Claim | None:
    """The claim that is given; None if the estimator makes it, which must be private then."""
    if (epsilon is None) != (delta is None):
        raise ValueError("epsilon and delta must both be numbers, or both be None.")
    if epsilon is None:
        check_private_steps(estimator)
        return None
    epsilon = check_real("epsilon", epsilon, 0.0, math.inf)
    return _Claim(epsilon, check_real("delta", delta, 0.0, 1.0, closed=True), None)


def _checked_relation(estimator: Any, relation: Any, claim: _Claim | None) -> str:
    """How the two data sets differ."""
    check_choice("relation", relation, ("auto", *RELATIONS))
    own = getattr(estimator, "_relation", REPLACE_ONE)
    if relation == ADD_OR_REMOVE != own and claim is None:
        raise ValueError(
            f"relation={ADD_OR_REMOVE!r} needs epsilon and delta, or an estimator whose guarantee "
            "is for it and that is no pipeline."
        )
    return own if relation == "auto" else relation


def _claim_of(fitted: Any, added: bool) -> _Claim:
    """What a fitted estimator reports."""
    if added:
        own = fitted.privacy_
        mu = gdp_of(own.event)
        return _Claim(own.epsilon, own.delta, mu if mu < math.inf else None)
    report = privacy_report(fitted)
    if report.epsilon is None or report.delta is None:
        raise ValueError("The report of a fit must be private, or epsilon and delta be given.")
    mu = math.inf if report.rho is None else gdp_of(report._known())
    return _Claim(report.epsilon, report.delta, mu if mu < math.inf else None)


def _refuse_ledgers(estimator: Any) -> None:
    for name, value in params_named(estimator, "ledger").items():
        if value is not None:
            raise ValueError(
                f"{name} must be None: an audit fits public or made-up data many times, for which "
                "no ledger has to pay. Do not audit on private data."
            )


def _seeds(estimator: Any, seed: int | None, fit: int) -> dict[str, int | None]:
    """A different seed for every ``random_state`` of a fit."""
    names = list(params_named(estimator, "random_state"))
    if seed is None:
        return dict.fromkeys(names)
    start = int(np.random.SeedSequence(seed).generate_state(1)[0])
    return {name: (start + fit * len(names) + k) % 2**32 for k, name in enumerate(names)}


def _fit(estimator: Any, data: Mapping[str, Any], seeds: Mapping[str, int | None]) -> Any:
    arguments = {name: value for name, value in data.items() if value is not None}
    return clone(estimator).set_params(**seeds).fit(arguments.pop("X"), **arguments)


def _observe(estimator: Any, data: Any, seeds: Any, statistic: Any) -> dict[str, np.ndarray]:
    """The numbers that an observer sees of one fit, by name."""
    fitted = _fit(estimator, data, seeds)
    return _released(fitted) if statistic is None else {_GIVEN: np.ravel(statistic(fitted))}


def _released(fitted: Any) -> dict[str, np.ndarray]:
    """All numbers in fitted attributes, including those of fitted estimators among them."""
    found: dict[str, np.ndarray] = {}
    parts = {**fitted.get_params(deep=False), **vars(fitted)}
    for step in getattr(fitted, "steps", ()):
        parts[step[0]] = step[1]
    for name, value in parts.items():
        if name.endswith("_") or isinstance(value, BaseEstimator):
            found |= _numbers_in(name, value)
    return found


def _numbers_in(name: str, value: Any) -> dict[str, np.ndarray]:
    """The numbers in a value and in its parts, if it has any, by name."""
    value = _dense(value)
    if isinstance(value, (np.ndarray, np.generic, int, float)):
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "biuf":
            return {}
        return {name: np.nan_to_num(numbers.ravel().astype(float))}
    parts: Mapping[Any, Any] = {}
    if isinstance(value, BaseEstimator):
        parts = _released(value)
    elif is_dataclass(value):
        parts = vars(value)
    elif isinstance(value, Mapping):
        parts = value
    elif isinstance(value, (list, tuple)):
        parts = dict(enumerate(value))
    inside = (_numbers_in(f"{name}.{part}", one) for part, one in parts.items())
    return {key: numbers for found in inside for key, numbers in found.items()}


# ------------------------------------------------------------------------------ neighbours


def _canaries(estimator: Any, given: dict[str, Any]) -> list[dict[str, Any]]:
    """Two data sets whose first records are at opposite ends of the declared ranges."""
    params, X, y = estimator.get_params(deep=False), given["X"], given["y"]
    layout = type(X) if sparse.issparse(X) else np.asarray
    rows = np.asarray(_dense(X))
    if hasattr(X, "columns") or rows.ndim != 2 or rows.dtype.kind not in "biuf" or not len(rows):
        raise TypeError("X must be an array or a sparse matrix of numbers; give neighbour.")
    bound = params.get("feature_bound")
    if is_undeclared(bound):
        ends = np.abs(rows).max(axis=0)
    else:
        ends = check_feature_bound(bound, rows.shape[1], None)
    ends = np.where(ends > 0.0, ends, 1.0)
    others = rows[1:].astype(float)
    if y is None:
        return [{**given, "X": layout(np.vstack([end, others]))} for end in (ends, -ends)]
    y = np.asarray(y)
    targets = [
        np.concatenate([np.broadcast_to(end, y[:1].shape), y[1:]])
        for end in _extreme_targets(estimator, params, y)
    ]
    return [{**given, "X": layout(np.vstack([ends, others])), "y": target} for target in targets]


def _extreme_targets(estimator: Any, params: dict[str, Any], y: np.ndarray) -> list[np.ndarray]:
    classes = params.get("classes")
    if is_classifier(estimator) or classes is not None:
        labels = np.unique(y) if classes is None else np.asarray(classes)
        if len(labels) < 2:
            raise ValueError("y must hold two classes, if the estimator does not declare them.")
        return [labels[-1], labels[0]]
    bound = params.get("target_bound")
    largest = np.abs(y).max(axis=0) if bound is None else np.asarray(bound)
    largest = np.where(largest > 0.0, largest, 1.0)
    # No target is negative where all have to be positive.
    low = 1e-9 if get_tags(estimator).target_tags.positive_only else -1.0
    return [largest, low * largest]


def _neighbours(
    given: dict[str, Any], other: Mapping[str, Any], added: bool
) -> list[dict[str, Any]]:
    """Both data sets, after a check that they differ in one record, where this can be seen."""
    if not isinstance(other, Mapping):
        raise TypeError(f"neighbour must be a mapping or None, got a {type(other).__name__}.")
    if unknown := sorted(set(other) - set(given)):
        raise ValueError(f"neighbour must name arguments of fit that are given; not {unknown}.")
    if added:
        _check_one_more(given, other)
        return [given, {**given, **other}]
    pairs = [
        (name, np.asarray(_dense(given[name])), np.asarray(_dense(value)))
        for name, value in other.items()
    ]
    if all(old.ndim and new.ndim for _, old, new in pairs):  # others are trusted
        changed: set[int] = set()
        for name, old, new in pairs:
            if old.shape != new.shape:
                raise ValueError(f"neighbour must keep the shape of {name}.")
            changed |= set(np.flatnonzero(_differ(old, new)).tolist())
        if len(changed) != 1:
            raise ValueError(f"neighbour must replace one record, got {len(changed)}.")
    return [given, {**given, **other}]


def _without_first(data: dict[str, Any]) -> dict[str, Any]:
    """The same data without the first record."""
    n = np.shape(data["X"])[0]
    return {name: value[1:] if _is_by_record(value, n) else value for name, value in data.items()}


def _is_by_record(value: Any, n: int) -> bool:
    """Whether an argument of `fit` has one entry for each of n records."""
    return np.ndim(value) > 0 and np.shape(value)[0] == n


def _check_one_more(given: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Check that one data set has one record more than the other, where this can be seen."""
    n, pairs = np.shape(given["X"])[0], []
    for name, old in given.items():
        if not _is_by_record(old, n):
            continue
        both = [np.asarray(_dense(one)) for one in (old, other.get(name, old))]
        short, long = sorted(both, key=np.size)
        if not short.ndim or long.shape != (len(short) + 1, *short.shape[1:]):
            raise ValueError(f"neighbour must have {name} with one record more, or one less.")
        pairs.append((long, short))
    sizes = {len(long) for long, _ in pairs}
    for i in range(sizes.pop() if len(sizes) == 1 else 0):
        rest = [np.delete(long, i, 0) for long, _ in pairs]
        if not any(_differ(one, short).any() for one, (_, short) in zip(rest, pairs, strict=True)):
            return
    raise ValueError("neighbour must add or remove one record, and keep all others.")


def _dense(value: Any) -> Any:
    return value.toarray() if sparse.issparse(value) else value


def _differ(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Where records differ; a NaN is equal to another one."""
    differs = (old != new) & ~((old != old) & (new != new))
    return differs.any(axis=tuple(range(1, differs.ndim)))


# ------------------------------------------------------------------------------ the event


class _Event(NamedTuple):
    """The event that a weighted sum of the released numbers, in this layout, exceeds a threshold.

    Released numbers are first clipped to limits, since quotients of noisy sums have heavy tails,
    and the centre is subtracted. ``swapped`` says that fits to the second data set hit the event
    more often.
    """

    layout: dict[str, int]
    limits: np.ndarray
    centre: np.ndarray
    weights: np.ndarray
    threshold: float
    swapped: bool

    def hits(self, seen: list[Any]) -> int:
        """The number of fits that hit the event."""
        released = np.clip(_matrix(seen, self.layout), *self.limits)
        sums = (released - self.centre) @ self.weights
        return int((sums > self.threshold).sum())


def _matrix(seen: list[Any], layout: dict[str, int]) -> np.ndarray:
    """One row per fit with what it released; zeros where it lacks a part of the layout."""
    rows = np.zeros((len(seen), sum(layout.values())))
    for row, one in zip(rows, seen, strict=True):
        start = 0
        for name, size in layout.items():
            if len(one.get(name, ())) == size:
                row[start : start + size] = one[name]
            start += size
    return rows


def _clearest_event(claim: _Claim, first: list[Any], second: list[Any], alpha: float) -> _Event:
    """The event of some fits with the largest lower bound."""
    sizes = [{name: len(value) for name, value in one.items()} for one in (*first, *second)]
    layout = {name: k for name, k in sizes[0].items() if all(o.get(name) == k for o in sizes)}
    a, b = _matrix(first, layout), _matrix(second, layout)
    limits = np.quantile(np.vstack([a, b]), [0.05, 0.95], axis=0)
    limits[:, limits[0] == limits[1]] = [[-math.inf], [math.inf]]  # rare values may tell, too
    a, b = np.clip(a, *limits), np.clip(b, *limits)
    # Beside the large weights of nearly constant numbers, others would be rounded away.
    centre = a[0]
    a, b = a - centre, b - centre
    weights = _discriminant(a, b)
    best: tuple[float, _Event] = (
        -math.inf,
        _Event(layout, limits, centre, weights, math.inf, False),
    )
    for sign in (1.0, -1.0):
        high, low = (a, b) if sign > 0.0 else (b, a)
        value, threshold = _threshold(claim, high @ weights * sign, low @ weights * sign, alpha)
        if value > best[0]:
            best = value, _Event(layout, limits, centre, sign * weights, threshold, sign < 0.0)
    return best[1]


def _discriminant(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Weights of the sum that separates two samples best, if they are nearly Gaussian."""
    spread = np.vstack([first, second]).std(axis=0)
    scale = np.where(spread > 0.0, spread, math.inf)
    apart = (first - second).mean(axis=0) / scale
    used = np.argsort(-np.abs(apart), kind="stable")[: min(_N_COORDINATES, (spread > 0.0).sum())]
    within = [((one - one.mean(axis=0)) / scale)[:, used] for one in (first, second)]
    n = len(first) + len(second)
    covariance = sum(one.T @ one for one in within) / n
    weights = np.zeros(len(spread))
    weights[used] = np.linalg.solve(
        covariance + (1e-3 + len(used) / n) * np.eye(len(used)), apart[used]
    )
    return weights / scale


def _threshold(
    claim: _Claim, high: np.ndarray, low: np.ndarray, alpha: float
) -> tuple[float, float]:
    """The largest rough lower bound for sums above a threshold, and this threshold."""
    values = np.unique(np.concatenate([high, low]))
    if len(values) < 2:
        return -math.inf, math.inf
    at, n = (values[1:] + values[:-1]) / 2.0, len(high)
    a = n - np.searchsorted(np.sort(high), at, side="right")
    b = n - np.searchsorted(np.sort(low), at, side="right")
    p = np.where(a > 0, stats.beta.ppf(alpha / 2.0, np.maximum(a, 1), n - a + 1), 0.0)
    q = np.where(b < n, stats.beta.ppf(1.0 - alpha / 2.0, b + 1, np.maximum(n - b, 1)), 1.0)
    if claim.mu is None:
        bounds = np.maximum(p - claim.delta, 0.0) / q
    else:
        bounds = np.where(p > 0.0, special.ndtri(p), -40.0) - special.ndtri(q)
    best = int(np.argmax(bounds))
    return float(bounds[best]), float(at[best])


def _result(claim: _Claim, hits: tuple[int, int], n: int, confidence: float) -> AuditResult:
    alpha, delta = 1.0 - confidence, claim.delta
    approximate = partial(ApproximateGuarantee, delta=delta)
    if claim.mu is None or delta == 0:  # no mu has an epsilon at delta=0
        detectable = least_found(claim.guarantees(), approximate, n, alpha)
    else:
        mu = least_found(claim.guarantees(), GaussianGuarantee, n, alpha)
        detectable = gaussian_epsilon(mu, delta) if mu < math.inf else math.inf
    return AuditResult(
        epsilon=claim.epsilon,
        delta=delta,
        mu=claim.mu,
        epsilon_lower=lower_bound(approximate, *hits, n, alpha),
        mu_lower=lower_bound(GaussianGuarantee, *hits, n, alpha),
        detectable=detectable,
        hits=hits,
        n_counted=n,
        confidence=confidence,
    )
