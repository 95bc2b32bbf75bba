"""Who calls a fit: what fits many times, and pipelines. It is read off the call stack.

scikit-learn's searches, ensembles and other wrappers leave no other mark on the fits that they
make. They clone what they fit, and do so where their own call can be seen, also if joblib then fits
the clones in other threads or processes.
"""

import inspect
from numbers import Integral
from types import FrameType
from typing import Any, NamedTuple

from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    ParameterGrid,
    RandomizedSearchCV,
    check_cv,
)
from sklearn.pipeline import FeatureUnion, Pipeline

__all__ = ["Callers", "callers", "n_splits_of"]

# These fit each of their parts once.
ONCE = (
    *(ColumnTransformer, FeatureUnion, Pipeline, SelectFromModel),
    *(FixedThresholdClassifier, FrozenEstimator, TransformedTargetRegressor),
)
FITS = ("fit", "fit_predict", "fit_transform", "partial_fit")
# Parts of scikit-learn whose functions call fits only on behalf of others, or in tests.
HELPERS = ("base", "compose", "pipeline", "utils")
_SAID = "__said_by_skdpsco__"


class Callers(NamedTuple):
    """What calls a fit, or makes a clone to fit it.

    Parameters
    ----------
    pipeline : estimator or None
        The outermost pipeline or other composite that fits each part once.
    X : records or None
        What this pipeline is fitted to. Only their layout may be used.
    wrapper : str
        Name of the outermost estimator or function that may fit many times; empty if there is none.
    n_fits : int or None
        How many fits it makes, where this follows from its parameters.
    splits : bool
        Whether the wrapper divides the records.
    innermost : estimator or None
        The wrapper that calls the fit itself, if it is an estimator.
    hides_errors : bool
        Whether an error becomes a score of NaN.
    frame : FrameType or None
        The call of the wrapper, or else of the pipeline. Never store it: it holds records.
    """

    pipeline: Any = None
    X: Any = None
    wrapper: str = ""
    n_fits: int | None = None
    splits: bool = False
    innermost: Any = None
    hides_errors: bool = False
    frame: FrameType | None = None

    def first_time(self, text: str) -> bool:
        """Whether this call has not said this yet."""
        if self.frame is None:
            return True
        said = self.frame.f_locals.setdefault(_SAID, set())  # forgotten when the call ends
        if text in said:
            return False
        said.add(text)
        return True

    def line(self) -> tuple[str, int] | None:
        """File and number of the line that made the call; None if nothing is known."""
        frame = self.frame
        while frame is not None and _module(frame).startswith(("sklearn.", "skdpsco.")):
            frame = frame.f_back
        return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def callers(cloning: bool = False) -> Callers:
    """What calls the fit that is running, up to another fit of ours that makes it.

    Parameters
    ----------
    cloning : bool, default=False
        Whether to look for what makes the clone that is being made.
    """
    found, worker = Callers(), None
    frame, outside = inspect.currentframe(), False
    while (frame := frame.f_back if frame else None) is not None:
        module = _module(frame)
        if module.startswith("skdpsco."):
            ours = outside and frame.f_locals.get("self") is not found.pipeline
            if ours or (cloning and outside):  # it answers for the fits that it makes
                break
            continue
        owner = _owner(frame)
        outside = outside or cloning or owner is not None
        if isinstance(owner, ONCE):
            found = found._replace(pipeline=owner, X=frame.f_locals.get("X"))
            found = found if found.wrapper else found._replace(frame=frame)
        elif owner is not None:
            innermost = owner if found.innermost is None else found.innermost
            about = _about(owner, type(owner).__name__)
            found = found._replace(**about, innermost=innermost, frame=frame)
        elif module.startswith("sklearn.") and "self" not in frame.f_code.co_varnames:
            name = frame.f_code.co_name
            hides = frame.f_locals.get("error_score", "raise") != "raise"
            found = found._replace(hides_errors=found.hides_errors or hides)
            if module.startswith("sklearn.model_selection.") and not name.startswith("_"):
                name = getattr(frame.f_code, "co_qualname", name)  # from Python 3.11 on
                found = found._replace(**_about(frame.f_locals, name), frame=frame)
            elif module.split(".")[1] not in HELPERS and name.startswith("_"):
                worker = frame
    if not found.wrapper and worker is not None:  # the wrapper is in another thread or process
        name = ".".join(_module(worker).split(".")[:2])
        splits = name == "sklearn.model_selection"
        return found._replace(wrapper=name, splits=splits, frame=worker)
    return found


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _owner(frame: FrameType) -> Any:
    """The estimator whose fit runs in a frame; None for our own estimators."""
    code = frame.f_code
    if code.co_name not in FITS or "self" not in code.co_varnames:
        return None
    owner = frame.f_locals.get("self")
    if isinstance(owner, ONCE):
        return owner
    ours = any(kind.__module__.startswith("skdpsco.") for kind in type(owner).__mro__)
    return owner if hasattr(owner, "get_params") and not ours else None


def _about(wrapper: Any, name: str) -> dict[str, Any]:
    """Fields about a wrapper: an estimator, or the arguments of a function of model selection."""
    if isinstance(wrapper, dict):
        # Others make so many fits for each of several sizes, values or permutations.
        counted = name in ("cross_val_predict", "cross_val_score", "cross_validate")
        n_fits = n_splits_of(wrapper.get("cv", ())) if counted else None
        return {"wrapper": name, "n_fits": n_fits, "splits": True}
    params = wrapper.get_params(deep=True)
    splits = "cv" in params or "bootstrap" in params
    n_fits = _n_fits(wrapper, params)
    return {"wrapper": name, "n_fits": n_fits, "splits": splits}


def _n_fits(wrapper: Any, params: dict[str, Any]) -> int | None:
    """How many fits a wrapper makes, from its parameters alone; None if that is not known."""
    if isinstance(wrapper, (VotingClassifier, VotingRegressor)):
        return sum(not isinstance(part, str) for _, part in wrapper.estimators)
    if isinstance(wrapper, (GridSearchCV, RandomizedSearchCV)):
        splits = n_splits_of(wrapper.cv)
        grid = getattr(wrapper, "param_grid", None)
        n = params["n_iter"] if grid is None else len(ParameterGrid(grid))
        return None if splits is None else n * splits + (wrapper.refit is not False)
    if isinstance(wrapper, CalibratedClassifierCV):
        splits = n_splits_of(wrapper.cv)
        return None if splits is None else splits + (wrapper.ensemble is False)
    n = params.get("n_estimators")
    return int(n) if isinstance(n, Integral) else None


def n_splits_of(cv: Any) -> int | None:
    """How many splits a ``cv`` of scikit-learn makes; None if that depends on the data."""
    if isinstance(cv, (list, tuple)):
        return len(cv) or None
    try:
        if hasattr(cv, "get_n_splits"):
            return cv.get_n_splits()
        known = cv is None or isinstance(cv, Integral)  # not a generator, which could be used up
        return check_cv(cv).get_n_splits() if known else None
    except (TypeError, ValueError):  # it needs the data
        return None
