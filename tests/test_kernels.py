import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core import caching

from skdpsco import _kernels
from skdpsco._kernels import implements, kernel, njit


class Square(NamedTuple):
    weight: float


class Absolute(NamedTuple):
    pass


class Unknown(NamedTuple):
    weight: float


@kernel
def value(spec, z):
    raise NotImplementedError(type(spec).__name__)


@value.register(Square)
def _(spec, z):
    return spec.weight * z * z


@value.register(Absolute)
def _(spec, z):
    return abs(z)


@value.register(np.ndarray)
def _(spec, z):
    return spec[0] * z


@kernel
def twice(spec, z):
    return 2 * value(spec, z)


@twice.register(Absolute)
def _(spec, z):
    return -1.0


@njit
def total(spec, z):
    result = 0.0
    for x in z:
        result += twice(spec, x) + value(spec, x)
    return result


@njit
def quotient(a, b):
    return a / b


@pytest.mark.parametrize(
    ("spec", "expected"),
    [(Square(0.5), 3 * 0.5 * 14), (Absolute(), 6 - 3), (np.array([2.0]), 3 * 2 * 6)],
    ids=["fields", "empty", "array"],
)
def test_dispatch_agrees_in_python_and_numba(spec, expected):
    z = np.array([1.0, 2.0, 3.0])
    assert total(spec, z) == total.py_func(spec, z) == expected


def test_missing_implementation():
    assert implements(value, Square)
    assert implements(value, np.ndarray)
    assert not implements(value, Unknown)
    assert implements(twice, Absolute)
    assert not implements(twice, Square)  # the default serves it
    with pytest.raises(NotImplementedError, match="Unknown"):
        value(Unknown(1.0), 1.0)
    with pytest.raises(numba.TypingError):
        total(Unknown(1.0), np.ones(1))


def test_division_by_zero_does_not_raise():
    assert quotient(1.0, 0.0) == np.inf


def test_functions_are_cached_and_stamped():
    assert _kernels._DIGEST in total._cache._cache_file._source_stamp
    assert Path(total._cache.cache_path).is_relative_to(os.environ["NUMBA_CACHE_DIR"])


def test_no_writable_cache_directory(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "", raising=False)
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(quotient.py_func)
    assert njit(quotient.py_func)(1.0, 2.0) == 0.5


def test_without_compilation(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    assert njit(quotient.py_func) is quotient.py_func


def test_edit_of_a_callee_in_another_file_is_seen(tmp_path):
    # A cached caller must not keep the old code of a function that was corrected elsewhere.
    package = tmp_path / "room"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(_kernels.__file__, package / "_kernels.py")
    (package / "caller.py").write_text(
        "from room._kernels import njit\nfrom room.callee import inner\n\n\n"
        "@njit\ndef outer():\n    return inner()\n"
    )
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    script = "from room.caller import outer; print(outer(), sum(outer.stats.cache_hits.values()))"
    outputs = []
    for number in (1, 1, 2):
        (package / "callee.py").write_text(
            f"from room._kernels import njit\n\n\n@njit\ndef inner():\n    return {number}\n"
        )
        outputs.append(
            subprocess.run(
                [sys.executable, "-c", script],
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            ).stdout.split()
        )
    assert outputs == [["1", "0"], ["1", "1"], ["2", "0"]]
