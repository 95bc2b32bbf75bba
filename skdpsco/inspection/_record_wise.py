"""Which transformers treat every record by itself, and learn nothing from the others.

Looked up by exact type: a subclass may do anything. Each rule was read off the source of
scikit-learn 1.6 to 1.9: where its conditions hold, `fit` uses parameters, shapes, dtypes and its
random_state only, row i of `transform` depends on record i only, and there is no warning about
values but NumPy's about floating point. (Errors about the input are those of any fit, see
docs/threat-model.md.)
"""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from scipy import special
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils import get_tags

from skdpsco.preprocessing import CategoricalDomainEncoder, PublicBoundsScaler, RowClipper

Conditions = dict[str, bool]
Vouched = Callable[[Any], bool]


def _free(step: Any, vouched: Vouched) -> Conditions:
    return {}


def _function(step: Any, vouched: Vouched) -> Conditions:
    def known(function: Any, kw_args: Any) -> bool:
        return function is None or vouched(function) or (_is_elementwise(function) and not kw_args)

    # The check compares values of the data, and warns.
    silent = step.check_inverse is False or step.func is None or step.inverse_func is None
    return {
        "func is a ufunc of NumPy, without kw_args, or is declared in record_wise": known(
            step.func, step.kw_args
        ),
        "inverse_func is a ufunc of NumPy, without kw_args, or is declared in record_wise": known(
            step.inverse_func, step.inv_kw_args
        ),
        "check_inverse=False": silent,
    }


def _is_elementwise(function: Any) -> bool:
    # One of theirs: numpy.frompyfunc makes a ufunc of anything. No signature: that of
    # numpy.linalg's solvers says that they look at whole arrays.
    return (
        type(function) is np.ufunc
        and function.nin == function.nout == 1
        and function.signature is None
        and any(getattr(module, function.__name__, None) is function for module in (np, special))
    )


def _is_declared(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray))


def _encoder(step: Any) -> Conditions:
    return {
        "categories are declared": _is_declared(step.categories),
        # Both count.
        "min_frequency=None": step.min_frequency is None,
        "max_categories=None": step.max_categories is None,
    }


def _one_hot(step: Any, vouched: Vouched) -> Conditions:
    # "warn", and "ignore" with a drop, warn of values that are not declared.
    legal = ("error", "ignore") if step.drop is None else ("error",)
    return {
        **_encoder(step),
        f"handle_unknown is {' or '.join(map(repr, legal))}": step.handle_unknown in legal,
    }


def _ordinal(step: Any, vouched: Vouched) -> Conditions:
    legal = ("error", "use_encoded_value")
    return {**_encoder(step), "handle_unknown is legal": step.handle_unknown in legal}


def _imputer(step: Any, vouched: Vouched) -> Conditions:
    return {
        "strategy='constant'": _equals(step.strategy, "constant"),
        # Else columns without values are dropped, or there is a warning.
        "keep_empty_features=True": step.keep_empty_features is True,
        # It has columns for the features that have missing values.
        "add_indicator=False": step.add_indicator is False,
    }


def _indicator(step: Any, vouched: Vouched) -> Conditions:
    return {"features='all'": _equals(step.features, "all")}


def _rbf(step: Any, vouched: Vouched) -> Conditions:
    number = isinstance(step.gamma, Real) and not isinstance(step.gamma, bool)
    return {"gamma is a number": number}  # "scale" is the variance


def _spline(step: Any, vouched: Vouched) -> Conditions:
    return {
        "knots are declared": _is_declared(step.knots),
        # Where there is a missing value, sparse output takes a detour over the column's minimum.
        "sparse_output=False": step.sparse_output is False,
    }


def _text(step: Any, vouched: Vouched) -> Conditions:
    functions = (step.analyzer, step.tokenizer, step.preprocessor, step.strip_accents)
    return {
        "input='content'": _equals(step.input, "content"),
        "analyzer, tokenizer, preprocessor and strip_accents are no functions, or are declared in "
        "record_wise": all(not callable(f) or vouched(f) for f in functions),
    }


def _counts(step: Any, vouched: Vouched) -> Conditions:
    # With a vocabulary max_df, min_df and max_features are not looked at.
    return {"vocabulary is declared": step.vocabulary is not None, **_text(step, vouched)}


def _no_idf(step: Any, vouched: Vouched) -> Conditions:
    # A refit does not remove what an earlier fit has learnt.
    return {
        "use_idf=False": step.use_idf is False,
        "no earlier fit has learnt idf_": not hasattr(step, "idf_"),
    }


def _counts_no_idf(step: Any, vouched: Vouched) -> Conditions:
    return {**_counts(step, vouched), **_no_idf(step, vouched)}


def _equals(value: Any, text: str) -> bool:
    return isinstance(value, str) and value == text


RULES: dict[type, Callable[[Any, Vouched], Conditions]] = {
    AdditiveChi2Sampler: _free,
    Binarizer: _free,
    CategoricalDomainEncoder: _free,
    CountVectorizer: _counts,
    FeatureHasher: _free,
    FunctionTransformer: _function,
    # Their matrices come from random_state, which need not be secret, and the shape of X.
    GaussianRandomProjection: _free,
    HashingVectorizer: _text,
    MissingIndicator: _indicator,
    Normalizer: _free,  # of rows
    OneHotEncoder: _one_hot,
    OrdinalEncoder: _ordinal,
    PolynomialCountSketch: _free,
    PolynomialFeatures: _free,
    PublicBoundsScaler: _free,
    RBFSampler: _rbf,
    RowClipper: _free,
    SimpleImputer: _imputer,
    SkewedChi2Sampler: _free,
    SparseRandomProjection: _free,
    SplineTransformer: _spline,
    TfidfTransformer: _no_idf,
    TfidfVectorizer: _counts_no_idf,
}
# Unless asked for sparse output. (The tags of scikit-learn 1.6 do not always tell.)
ALWAYS_DENSE = (
    GaussianRandomProjection,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
    SplineTransformer,
)
ALWAYS_SPARSE = (
    CountVectorizer,
    FeatureHasher,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)


def unmet(step: Any, vouched: Vouched) -> list[str] | None:
    """Conditions that a transformer would have to fulfil; None if there is no rule for its type."""
    rule = RULES.get(type(step))
    if rule is None:
        return None
    return [condition for condition, holds in rule(step, vouched).items() if not holds]


def may_be_sparse(step: Any, sparse_input: bool) -> bool:
    """Whether the output of a transformer can be sparse.

    Parameters
    ----------
    step : transformer, "passthrough" or "drop"
    sparse_input : bool
        Whether its input can be.
    """
    if isinstance(step, str) or step is None:
        return sparse_input and step != "drop"
    if isinstance(step, Pipeline):
        for _, child in step.steps:
            sparse_input = may_be_sparse(child, sparse_input)
        return sparse_input
    if isinstance(step, FeatureUnion):
        return any(may_be_sparse(child, sparse_input) for _, child in step.transformer_list)
    if isinstance(step, FrozenEstimator):
        return may_be_sparse(step.estimator, sparse_input)
    if type(step) in ALWAYS_SPARSE:
        return True
    if getattr(step, "sparse_output", False) or getattr(step, "sparse", False) is True:
        return True
    if type(step) in (CategoricalDomainEncoder, PublicBoundsScaler):
        return sparse_input and get_tags(step).input_tags.sparse
    return sparse_input and type(step) not in ALWAYS_DENSE
