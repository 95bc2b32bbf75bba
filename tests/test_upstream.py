"""Private names of other libraries: each test says what breaks if one of them disappears.

The run against their release candidates starts with this file.
"""

import pickle
import sys
from types import ModuleType

from numba import njit

from skdpsco import _kernels, _upstream


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


def test_another_numba_compiles_without_a_cache(monkeypatch):
    def stamp_cache(*arguments):
        raise AttributeError("_cache_file")

    monkeypatch.setattr(_kernels, "stamp_cache", stamp_cache)
    increment = _kernels.njit(lambda x: x + 1)
    assert increment(1) == 2
    assert increment.stats.cache_path is None
