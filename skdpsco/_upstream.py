"""All uses of what other libraries do not call public; `tests/test_upstream.py` covers them.

Some private names stand elsewhere because they are inherited from scikit-learn's classes:
``_parameter_constraints``, ``_get_param_names``, ``_repr_html_inner`` and
``_sklearn_output_config``. The test covers these too.
"""

from collections.abc import Callable
from typing import Any

from numba.core.event import Event as NumbaEvent
from numba.core.event import Listener as NumbaListener
from numba.core.event import register as register_listener
from numba.np.random.generator_core import next_uint64 as next_word
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import HasMethods, StrOptions, validate_parameter_constraints
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils.validation import _check_feature_names_in as feature_names_in
from sklearn.utils.validation import _num_samples as num_samples

__all__ = [
    "HasMethods",
    "Interval",
    "NumbaEvent",
    "NumbaListener",
    "StrOptions",
    "arrow_batches",
    "callbacks_of",
    "captioned_block",
    "feature_names_in",
    "next_word",
    "num_samples",
    "of_bytes",
    "register_listener",
    "safe_indexing",
    "stamp_cache",
    "validate_parameter_constraints",
]


class Interval(_Interval):
    """Numbers in an interval; types that NumPy does not know, such as fractions, are outside."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether ``val`` is such a number."""
        try:
            return bool(super().is_satisfied_by(val))
        except TypeError:  # raised by NumPy, which looks for NaN
            return False


def arrow_batches(frame: Any) -> Any:
    """The rows of a Spark frame as an RDD of Arrow batches, as bytes without their schema.

    Each call plans the frame anew. Public methods would write every row as an object first.
    """
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    batches = frame.select("*")._jdf.toArrowBatchRdd().toJavaRDD()
    return RDD(batches, frame.sparkSession.sparkContext, NoOpSerializer())


def of_bytes(rdd: Any) -> Any:
    """An RDD whose items are bytes, which PySpark sends and stores as they are."""
    rdd._bypass_serializer = True
    return rdd


def callbacks_of(estimator: Any) -> list[Any]:
    """What scikit-learn calls during fits of an estimator and of its clones."""
    return list(getattr(estimator, "_skl_callbacks", ()))


def captioned_block(estimator: Any, caption: str) -> Any:
    """The box of an estimator in scikit-learn's diagrams, with a caption below its name.

    If this raises, scikit-learn draws its own box, without a caption. The class has been in this
    module since scikit-learn 1.7.
    """
    from sklearn.utils._repr_html.estimator import _VisualBlock

    name = type(estimator).__name__
    return _VisualBlock(
        "single", estimator, names=name, name_details=str(estimator), name_caption=caption
    )


def stamp_cache(
    dispatcher: Any,
    stamp: str,
    process: str,
    is_cached: Callable[[Any], bool],
    key_of: Callable[[Any], Any],
) -> None:
    """Add to what Numba's on-disk cache of one function depends on.

    Parameters
    ----------
    dispatcher : Dispatcher
        What ``numba.njit(cache=True)`` made.
    stamp : str
        Machine code saved under another stamp is not read.
    process : str
        Part of the name of each new file.
    is_cached : callable
        Says whether to save what is compiled for the given Numba types of arguments.
    key_of : callable
        Returns a further key for the given Numba types of arguments.

    Raises
    ------
    AttributeError
        If Numba has changed its cache, or compiles nothing.
    """
    cache = dispatcher._cache
    file, kind = cache._cache_file, cache._impl
    checked, index_key = kind.check_cachable, cache._index_key
    file._source_stamp = (file._source_stamp, stamp)
    file._data_name_pattern = f"{kind.filename_base}.{process}-{{number:d}}.nbc"
    kind.check_cachable = lambda code: is_cached(code.signature.args) and checked(code)
    cache._index_key = lambda args, codegen: (index_key(args, codegen), key_of(args))
    read = file._load_index

    def read_what_still_exists():
        try:
            return read()
        except (AttributeError, ImportError):  # an argument's class has gone since it was written
            return {}

    file._load_index = read_what_still_exists
