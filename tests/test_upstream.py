"""Private names of other libraries: each test says what breaks if one of them disappears.

The run against their release candidates starts with this file.
"""

import pickle
import sys
from fractions import Fraction
from numbers import Integral, Real
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest
import sklearn
from numba import njit
from numba.core.event import unregister
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import InvalidParameterError

from skdpsco import PrivateLasso, PrivateSynthesizer, _kernels, _upstream

sklearn_version = tuple(int(part) for part in sklearn.__version__.split(".")[:2])


def test_parameters_of_estimators_are_checked_by_constraints():
    """Otherwise no estimator says which parameter is illegal, and plans meet it instead."""
    positive = _upstream.Interval(Real, 0, None, closed="neither")
    assert [positive.is_satisfied_by(value) for value in (0.5, 0, "1")] == [True, False, False]
    assert not positive.is_satisfied_by(Fraction(1, 3))  # scikit-learn's own raises NumPy's error
    assert not _upstream.Interval(Integral, 1, 3, closed="both").is_satisfied_by(4)
    assert _upstream.StrOptions({"auto"}).is_satisfied_by("auto")
    assert _upstream.HasMethods(["charge"]).is_satisfied_by(object()) is False
    with pytest.raises(InvalidParameterError, match="'radius' parameter of PrivateLasso"):
        PrivateLasso(radius=-1.0)._validate_params()
    with pytest.raises(InvalidParameterError, match="'epsilon' parameter of PrivateLasso"):
        PrivateLasso(epsilon=Fraction(1, 3))._validate_params()


def test_records_are_counted_and_selected():
    """Otherwise searches cannot hand metadata to the fit of a fold."""
    assert _upstream.num_samples([[1], [2], [3]]) == 3
    with pytest.raises(TypeError):
        _upstream.num_samples(3)
    assert list(_upstream.safe_indexing(np.array([4, 5, 6]), np.array([2, 0]))) == [6, 4]
    assert list(_upstream.safe_indexing(["a", "b", "c"], [2, 0])) == ["c", "a"]


def test_names_of_input_features():
    """Otherwise `get_feature_names_out` of transformers fails."""
    assert list(_upstream.feature_names_in(PrivateLasso(), ["a", "b"])) == ["a", "b"]


def test_random_words_inside_of_kernels():
    """Otherwise kernels cannot draw, and no solver runs. A public method draws the same words."""

    @njit
    def word(rng):
        return _upstream.next_word(rng.bit_generator)

    rng, twin = np.random.default_rng(0), np.random.default_rng(0)
    assert [int(word(rng)) for _ in range(5)] == [twin.bit_generator.random_raw() for _ in range(5)]


def test_events_of_compilation():
    """Otherwise kernels cannot be compiled, or nobody hears that they are."""

    class Recorder(_upstream.NumbaListener):
        modules: ClassVar[list[str]] = []

        def on_start(self, event: _upstream.NumbaEvent):
            self.modules.append(event.data["dispatcher"].py_func.__module__)

        def on_end(self, event: _upstream.NumbaEvent):
            pass

    recorder = Recorder()
    _upstream.register_listener("numba:compile", recorder)
    try:
        function = njit(lambda x: x + 1)
        function(1)
        function(2)
    finally:
        unregister("numba:compile", recorder)
    function(1.0)
    assert recorder.modules == [__name__]


def test_stamps_of_cached_kernels():
    """Otherwise kernels are compiled anew in every process: slow, and right."""
    dispatcher = njit(cache=True)(test_stamps_of_cached_kernels)
    before = dispatcher._cache._cache_file._source_stamp
    _upstream.stamp_cache(dispatcher, "stamp", "process", lambda args: False, len)
    assert dispatcher._cache._cache_file._source_stamp == (before, "stamp")
    assert dispatcher._cache._cache_file._data_name(7).endswith(".process-7.nbc")


def test_machine_code_for_a_class_that_has_gone_is_not_read(tmp_path, monkeypatch):
    """Otherwise what was compiled for it, before an upgrade, ends every fit with an error."""
    dispatcher = njit(cache=True)(test_stamps_of_cached_kernels)
    _upstream.stamp_cache(dispatcher, "stamp", "process", lambda args: False, len)
    file = dispatcher._cache._cache_file
    file._index_path = tmp_path / "index"
    module = ModuleType("a_module_that_goes")
    module.Loss = type("Loss", (), {"__module__": module.__name__})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    version = pickle.dumps(file._version)
    file._index_path.write_bytes(version + pickle.dumps((file._source_stamp, {module.Loss: "1"})))
    assert list(file._load_index()) == [module.Loss]
    kept = vars(module).pop("Loss")
    assert file._load_index() == {}
    module.Loss = kept
    del sys.modules[module.__name__]
    assert file._load_index() == {}


@pytest.mark.skipif(not hasattr(Pipeline, "set_callbacks"), reason="a new scikit-learn")
def test_callbacks_are_found():
    """Otherwise searches fit estimators whose callbacks see records and count fits."""
    hooks = dict.fromkeys(("setup", "teardown", "on_fit_task_begin", "on_fit_task_end"), print)
    callback = type("Callback", (), hooks)()
    pipeline = Pipeline([("model", PrivateLasso())]).set_callbacks(callback)
    assert _upstream.callbacks_of(clone(pipeline)) == [callback]
    assert _upstream.callbacks_of(PrivateLasso()) == []


@pytest.mark.skipif(sklearn_version < (1, 7), reason="it had another name, and boxes no caption")
def test_boxes_of_diagrams_have_a_caption():
    """Otherwise diagrams of pipelines do not show which steps are private."""
    block = _upstream.captioned_block(PrivateLasso(), "private")
    assert (block.kind, block.names, block.name_caption) == ("single", "PrivateLasso", "private")


def test_what_is_inherited_from_scikit_learn():
    """Otherwise notebooks lack reports, drafts keep old results, and frames come out as arrays."""
    model = PrivateLasso()
    assert "radius" in model._get_param_names()
    assert "text/html" in model._repr_mimebundle_()
    assert model._repr_html_ == model._repr_html_inner
    synthesizer = PrivateSynthesizer().set_output(transform="pandas")
    assert synthesizer._sklearn_output_config == {"transform": "pandas"}


def test_another_numba_compiles_without_a_cache(monkeypatch):
    def stamp_cache(*arguments):
        raise AttributeError("_cache_file")

    monkeypatch.setattr(_kernels, "stamp_cache", stamp_cache)
    increment = _kernels.njit(lambda x: x + 1)
    assert increment(1) == 2
    assert increment.stats.cache_path is None
