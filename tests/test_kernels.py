import json
import os
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


def test_functions_are_cached_where_the_environment_says():
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


MODULES = {
    "__init__": "",
    "_kernels": Path(_kernels.__file__).read_text(),
    "sampler": "from room._kernels import inner\n\n\n@inner\ndef draw(z):\n    return z + 0\n",
    "generic": "from room import sampler\nfrom room._kernels import kernel\n\n\n"
    "@kernel\ndef value(loss, z):\n    raise NotImplementedError\n",
    "losses": "from typing import NamedTuple\n\nfrom room.generic import value\n\n\n"
    "class Loss(NamedTuple):\n    w: float\n\n\n"
    "@value.register(Loss)\ndef _(loss, z):\n    return z * loss.w + 0\n",
    "solver": "from room._kernels import njit\nfrom .generic import (\n    value,\n)\n"
    "from room.sampler import draw\n\n\n@njit\ndef run(loss, z):\n"
    "    return draw(value(loss[0], z))\n",
    "estimator": "from room.solver import run\nfrom room.losses import Loss\n",
}
# Every line of input says which files to write; a child that has imported nothing of them but
# Numba answers with a kernel's value and how often the disk had it.
SCRIPT = """
import json, os, pathlib, sys
import numba, skdpsco._upstream
numba.njit(lambda z: z + 1)(1.0)  # what Numba prepares for its first compilation
for line in sys.stdin:
    for name, text in json.loads(line).items():
        path = pathlib.Path("room", name + ".py")
        if not path.exists() or path.read_text() != text:  # older Numbas look at the time
            path.write_text(text)
    if os.fork() == 0:
        try:
            from room.estimator import Loss, run
            print(run((Loss(1.0),), 10.0), sum(run.stats.cache_hits.values()), flush=True)
        except Exception as error:
            print(error, flush=True)
        os._exit(0)
    os.wait()
"""


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forks")


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A package that can be edited; a call gives a kernel's value and how often the disk had it."""
    folder = tmp_path_factory.mktemp("rooms")
    (folder / "room").mkdir()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-B", "-c", SCRIPT],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:

        def run(**edited):
            process.stdin.write(json.dumps({**MODULES, **edited}) + "\n")
            return process.stdout.readline().strip()

        yield run
        process.stdin.close()


@forks
def test_edits_that_a_cached_kernel_sees(room):
    # Machine code must not survive the correction of a function that it contains, and need not be
    # made anew for an edit elsewhere.
    assert room() == "10.0 0"
    assert room(estimator=MODULES["estimator"] + "# A comment.\n") == "10.0 1"
    for module in ("sampler", "losses"):  # imported by the kernel's module; the argument's class
        assert room(**{module: MODULES[module].replace("+ 0", "+ 1")}) == "11.0 0"
    assert room() == "10.0 0"


@forks
def test_kernels_stand_with_their_class_or_generic(room):
    # Elsewhere, an edit of them would not be seen.
    alien = (
        "from room.generic import value\n\n\n@value.register(int)\ndef _(loss, z):\n    return z\n"
    )
    error = room(estimator=MODULES["estimator"] + alien)
    assert "must stand in builtins or room.generic" in error


def test_processes_share_a_cache_directory():
    # Numba numbers the files of a function's signatures, and two processes may count alike.
    assert _kernels._PROCESS in total._cache._cache_file._data_name(1)
