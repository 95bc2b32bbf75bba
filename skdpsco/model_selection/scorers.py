"""Scores whose sensitivity is known: means over records of a bounded score."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from skdpsco._clipping import within
from skdpsco._validation import check_choice, check_interval, select_records
from skdpsco.data.record_functions import numbers_or_nan, real_numbers
from skdpsco.privacy._checks import abridged
from skdpsco.scaling.target import Target

__all__ = [
    "ACCURACY",
    "R2",
    "ClippedSquaredError",
    "PrivateScorer",
    "check_scorer",
    "clipped_squared_error",
    "make_private_scorer",
    "resolve_scorer",
]

METHODS = ("predict", "predict_proba", "decision_function")
R2, SQUARED_ERROR = "r2", "neg_clipped_squared_error"


@dataclass(frozen=True)
class PrivateScorer:
    """Mean over records of a bounded score; see `make_private_scorer`.

    A call returns the mean without noise, like scikit-learn's scorers, which is not private.

    Parameters
    ----------
    record_score : callable
    lower, upper : float
    response_method : str

    Raises
    ------
    TypeError, ValueError
        If ``record_score`` is not callable, ``lower`` is not below ``upper``, or there is no such
        ``response_method``.
    """

    record_score: Callable[[np.ndarray, np.ndarray], Any]
    lower: float
    upper: float
    response_method: str = "predict"

    def __post_init__(self) -> None:
        if not callable(self.record_score):
            raise TypeError(f"record_score must be callable, got {self.record_score!r}.")
        lower, upper = check_interval("lower", self.lower, "upper", self.upper)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        check_choice("response_method", self.response_method, METHODS)

    @property
    def taken_on_trust(self) -> tuple[str, ...]:
        """Lines of the report on a user's function, which is called with many records at a time."""
        if self.record_score is _hit or type(self.record_score) is ClippedSquaredError:
            return ()
        return ("what record_score says of a record depends on that record only",)

    def records(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Score of every record, clipped into the declared bounds.

        A record for which the estimator or ``record_score`` fails, or does not return a real
        number, gets the lower bound, since an exception would reveal something about the record.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        y = np.asarray(y)
        response, failed = _response_to(getattr(estimator, self.response_method), X, len(y))
        if failed.all():
            return np.full(len(y), self.lower)
        return np.where(failed, self.lower, self._clipped(numbers_or_nan, y, response))

    def of_response(self, y: np.ndarray, response: np.ndarray) -> np.ndarray:
        """Scores from a result of ``response_method``; all errors are raised.

        Raises
        ------
        ValueError
            If ``record_score`` does not return one number per record. Its own errors pass through.
        """
        return self._clipped(real_numbers, y, response)

    def _clipped(self, call: Callable[..., np.ndarray], y: Any, response: Any) -> np.ndarray:
        def scored(y: np.ndarray, response: np.ndarray) -> Any:
            return self.record_score(y.copy(), response)  # changes of the copy are ignored

        return within(call("record_score", scored, (y, response)), self.lower, self.upper)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Mean over the records, without noise."""
        with np.errstate(all="ignore"):
            response = getattr(estimator, self.response_method)(X)
        return float(self.of_response(np.asarray(y), response).mean())


def _response_to(respond: Callable[[Any], Any], X: Any, n: int) -> tuple[Any, np.ndarray]:
    """The estimator's response to records, and for which of the ``n`` records it fails.

    A record for which it fails is replaced by another one, so that the responses to the others are
    the same, to the last bit, as without it.
    """
    with np.errstate(all="ignore"):
        try:
            return respond(X), np.zeros(n, dtype=bool)
        except Exception:
            pass  # within the handler, errors would have a context

        def tried(rows: np.ndarray) -> np.ndarray:
            respond(select_records(X, rows, n))
            return np.zeros(len(rows))

        rows = np.arange(n)
        failed = np.isnan(numbers_or_nan("respond", tried, (rows,)))
        if failed.all():
            return None, failed
        rows[failed] = np.flatnonzero(~failed)[0]
        return respond(select_records(X, rows, n)), failed


def make_private_scorer(
    record_score: Callable[[np.ndarray, np.ndarray], Any],
    lower: float,
    upper: float,
    *,
    response_method: str = "predict",
) -> PrivateScorer:
    """Make a scorer that can be released with noise.

    When one of n records is replaced, a mean of numbers in [lower, upper] changes by at most
    (upper - lower) / n. Scores that are not such means (F1, ROC AUC) have no useful bound.

    Parameters
    ----------
    record_score : callable
        ``record_score(y_true, response)`` returns one number per record, where greater is better.
        Each number must depend on its record only. Since the function is called with many records
        at a time, nothing enforces this. With several targets, ``y_true`` and ``response`` have a
        column for each. It must not print anything. It is called once for a test
        before a search charges anything; a record for which it fails later scores ``lower``.
    lower, upper : float
        Public bounds to which scores are clipped.
    response_method : {"predict", "predict_proba", "decision_function"}, default="predict"
        Method of the estimator that returns ``response``.

    Returns
    -------
    scorer : PrivateScorer

    Raises
    ------
    TypeError
        If ``record_score`` is not callable, or a bound is not a number.
    ValueError
        If ``lower`` is not below ``upper``, or ``response_method`` is not one of these.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.model_selection import make_private_scorer
    >>> def absolute_error(y_true, y_pred):
    ...     return -np.abs(y_true - y_pred)
    >>> scorer = make_private_scorer(absolute_error, lower=-10.0, upper=0.0)
    """
    return PrivateScorer(record_score, lower, upper, response_method)


def _hit(y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    return y == predicted


@dataclass(frozen=True)
class ClippedSquaredError:
    """Minus the squared error of a prediction, both clipped and scaled by a released ``target``."""

    target: Target

    def __call__(self, y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return -np.square(self.target.apply(y) - self.target.apply(predicted))

    def moments(self, y: np.ndarray) -> np.ndarray:
        """Sums of u/2 and of u**2 - 1/2, where u are the clipped targets."""
        u = self.target.apply(y)
        return np.array([np.sum(u / 2.0), np.sum(u * u - 0.5)])


ACCURACY = PrivateScorer(_hit, 0.0, 1.0)


def clipped_squared_error(target: Target) -> PrivateScorer:
    """Minus the squared error, in units of the squared scale of ``target``, at most 1 a record."""
    return PrivateScorer(ClippedSquaredError(target), -1.0, 0.0)


def resolve_scorer(scoring: Any, estimator: Any) -> PrivateScorer | str:
    """The scorer for ``scoring``, or its name if it needs a scale that is not released yet.

    Raises
    ------
    TypeError, ValueError
        If ``scoring`` is not a scorer of known sensitivity, or does not fit the estimator.
    """
    if type(scoring) is PrivateScorer:  # a subclass might not clip
        return scoring
    if scoring is None:
        if not (is_classifier(estimator) or is_regressor(estimator)):
            raise ValueError("scoring must be given if estimator is no classifier or regressor.")
        scoring = "accuracy" if is_classifier(estimator) else R2
    if not isinstance(scoring, str):
        raise TypeError(
            f"scoring must be 'accuracy', {R2!r}, {SQUARED_ERROR!r} or a result of "
            f"make_private_scorer, whose sensitivity is known; got {abridged(scoring)}."
        )
    if scoring not in ("accuracy", R2, SQUARED_ERROR):
        raise ValueError(
            f"scoring={scoring!r} has no known sensitivity. Use 'accuracy', {R2!r}, "
            f"{SQUARED_ERROR!r} or make_private_scorer(record_score, lower, upper)."
        )
    if is_regressor(estimator) if scoring == "accuracy" else is_classifier(estimator):
        raise ValueError(f"scoring={scoring!r} does not fit a {type(estimator).__name__}.")
    return ACCURACY if scoring == "accuracy" else scoring


def check_scorer(
    scorer: PrivateScorer | str, candidates: list[Any], y: np.ndarray, n_classes: int
) -> None:
    """Let ``scorer`` score invented responses, so that a mistake in it costs nothing.

    Raises
    ------
    ValueError
        If a candidate lacks the method. Errors of the scorer pass through.
    """
    method = "predict" if isinstance(scorer, str) else scorer.response_method
    for candidate in candidates:
        if not hasattr(candidate, method):
            raise ValueError(f"scoring needs {method}, which {candidate!r} lacks.")
    if isinstance(scorer, str) or len(y) == 0:
        return
    if method == "predict":
        response = y
    elif method == "predict_proba":
        response = np.full((len(y), n_classes), 1.0 / n_classes)
    else:
        response = np.zeros((len(y), n_classes) if n_classes > 2 else len(y))
    scorer.of_response(y, response)
