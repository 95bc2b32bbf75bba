"""Pipelines of scikit-learn's estimators and reports as JSON, which is read without pickle."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from skdpsco.base.column_functions import pandas_na
from skdpsco.base.json_text import Content, content_of
from skdpsco.base.plain import plain_step
from skdpsco.privacy.report import PrivacyReport

from ._steps import NOT_PRIVATE
from .pipeline_report import privacy_report

__all__ = ["pipeline_from_json", "pipeline_to_json"]

PIPELINE_FORMAT = 1
# Reading makes nothing but these, so that a text of unknown origin can run no code.
ESTIMATORS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        ColumnTransformer,
        FeatureUnion,
        FunctionTransformer,
        LinearRegression,
        LogisticRegression,
        MLPRegressor,
        MinMaxScaler,
        Normalizer,
        OneHotEncoder,
        PCA,
        Pipeline,
        PolynomialFeatures,
        SGDClassifier,
        SimpleImputer,
        SplineTransformer,
        StandardScaler,
        TruncatedSVD,
        VarianceThreshold,
    )
}


def written(value: Any) -> Any:
    """A value of types that JSON knows: others become objects with one key, which names the type.

    Raises
    ------
    TypeError
        If it holds something else than numbers, texts, containers and known estimators.
    """
    kind = type(value)
    if kind.__name__ in ESTIMATORS and ESTIMATORS[kind.__name__] is kind:
        state = {name: written(part) for name, part in value.__getstate__().items()}
        return {"estimator": kind.__name__, "state": state}
    if isinstance(value, np.generic):
        return written(value.item())
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": str(value)}
    if isinstance(value, list):
        return [written(part) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [written(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[written(key), written(part)] for key, part in value.items()]}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufUO":
        flat = [written(part) for part in value.ravel().tolist()]
        return {"array": flat, "shape": list(value.shape), "dtype": value.dtype.str}
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return {"dtype": np.dtype(value).str}
    if type(value).__name__ == "NAType":
        return {"missing": "pandas.NA"}
    if isinstance(value, BSpline):
        return {"spline": [written(part) for part in (value.t, value.c, value.k)]}
    raise TypeError(f"model holds {kind.__name__}, which cannot be written as JSON.")


def read(value: Any) -> Any:
    """What `written` was given.

    Raises
    ------
    ValueError, TypeError
        If it returned something else.
    """
    if isinstance(value, list):
        return [read(part) for part in value]
    if not isinstance(value, Content):
        return value
    if "estimator" in value:
        kind = ESTIMATORS.get(value["estimator"])
        if kind is None:
            raise ValueError(f"text must name one of the estimators {sorted(ESTIMATORS)}.")
        estimator = kind.__new__(kind)
        estimator.__setstate__({name: read(part) for name, part in value["state"].items()})
        return estimator
    if "array" in value:
        dtype, flat = np.dtype(value["dtype"]), read(value["array"])
        out = np.empty(len(flat), dtype=dtype)
        out[:] = flat
        return out.reshape(value["shape"])
    (name, content), *_ = value.items()
    if name == "spline":
        t, c, degree = read(content)
        return BSpline.construct_fast(t, c, degree)
    if name == "missing":
        return pandas_na()
    makers = {"float": float, "dtype": np.dtype, "dict": dict, "tuple": tuple}
    if name == "slice":
        return slice(*content)
    if name not in makers:
        raise ValueError(f"text must name one of the types {sorted(makers)}.")
    return makers[name](read(content))


def pipeline_to_json(model: Any, *, record_wise: Iterable[Any] = ()) -> str:
    """A fitted model or pipeline, without this package, and its reports as JSON.

    Parameters
    ----------
    model : estimator
        A fitted estimator that has ``to_sklearn``, or a pipeline of such estimators and of
        scikit-learn's.
    record_wise : list of str or object, default=()
        As for `privacy_report`.

    Returns
    -------
    text : str
        For `pipeline_from_json`. It holds releases and public values only, provided that steps in
        ``record_wise`` have learnt nothing.

    Raises
    ------
    NotFittedError
        If a step is not fitted.
    ValueError
        If a step is not private.
    TypeError
        If a step has no counterpart in scikit-learn, or one that `pipeline_from_json` does not
        know.

    See Also
    --------
    pipeline_from_json : Reads it.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateRidge
    >>> from skdpsco.inspection import pipeline_from_json, pipeline_to_json
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 2))
    >>> model = PrivateRidge(epsilon=1.0, feature_bound=1.0).fit(X, X[:, 0])
    >>> pipeline, reports = pipeline_from_json(pipeline_to_json(model))
    >>> bool(np.allclose(pipeline.predict(X), model.predict(X)))
    True
    >>> reports[""] == model.privacy_
    True
    """
    plain = plain_step(model)
    steps = privacy_report(model, record_wise=record_wise).steps
    exposed = [step.name for step in steps if step.status == NOT_PRIVATE]
    if exposed:
        raise ValueError(
            f"model must be private, but what {', '.join(map(repr, exposed))} learnt from the "
            "records has no noise: see privacy_report(model)."
        )
    reports = {step.name: step.report.to_dict() for step in steps if step.report is not None}
    return json.dumps(
        {"format": PIPELINE_FORMAT, "pipeline": written(plain), "reports": reports}, indent=1
    )


def pipeline_from_json(text: str) -> tuple[Any, dict[str, PrivacyReport]]:
    """The pipeline of scikit-learn's estimators, and the reports, that `pipeline_to_json` wrote.

    Parameters
    ----------
    text : str
        What `pipeline_to_json` returned. Reading it runs no code from the text.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        What ``to_sklearn`` returned. It warns if another version of scikit-learn wrote it.
    reports : dict of str to PrivacyReport
        The guarantee of every private step, by its name; that of a single model is at "".

    Raises
    ------
    ValueError
        If it is not such a text.
    """
    content = content_of(text, "pipeline_to_json")
    if content["format"] != PIPELINE_FORMAT:
        raise ValueError(f"text must have the format {PIPELINE_FORMAT}.")
    try:
        pipeline = read(content["pipeline"])
        found = {name: PrivacyReport.from_dict(part) for name, part in content["reports"].items()}
    except (TypeError, AttributeError, KeyError, SyntaxError) as error:
        raise ValueError("text must be what pipeline_to_json returned.") from error
    return pipeline, found
