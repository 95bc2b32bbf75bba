"""Compilation: one ``njit`` with a safe on-disk cache, and functions that dispatch inside Numba."""

import hashlib
from collections.abc import Callable
from functools import singledispatch
from pathlib import Path
from typing import Any, Final

import numba
import numpy as np
from numba import types
from numba.extending import overload

# "numpy": a division by zero gives inf or nan. The default would raise an exception, and whether a
# kernel raises on private data is a release that nobody has paid for. It also lets LLVM vectorise.
_ERROR_MODEL: Final = "numpy"

# No kernel is handed to C as a callback; the wrapper for that would take time to compile.
_OPTIONS: Final[Any] = {"error_model": _ERROR_MODEL, "no_cfunc_wrapper": True}

# A call passes every field of every array, which takes as long as to read a few dense rows.
_INLINED: Final[Any] = {**_OPTIONS, "forceinline": True}


def _package_digest() -> str:
    """Digest of all sources of this package."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


_DIGEST = _package_digest()


def njit(function: Callable[..., Any]) -> Any:
    """``numba.njit``, cached on disk where possible, without the GIL, with NumPy's division.

    Numba stamps a cached function with its own file only. A solver's machine code contains the
    samplers that it calls, so it would survive a correction of the samplers: after an edit, and,
    as the stamp is a hash of the file's content, after an upgrade too. Here the stamp also covers
    every source file of this package. It cannot cover files outside, so what was compiled for a
    loss or constraint from elsewhere is not cached: an edit of its kernels takes effect, and the
    cache can be read where its module cannot be imported.

    Without a writable cache directory (Numba raises ``RuntimeError``), or where the stamp cannot
    be set (another Numba, or ``NUMBA_DISABLE_JIT``), the function is compiled without a cache.
    """
    try:
        dispatcher: Any = numba.njit(cache=True, nogil=True, **_OPTIONS)(function)
        cache_file, kind = dispatcher._cache._cache_file, dispatcher._cache._impl
        cache_file._source_stamp = (cache_file._source_stamp, _DIGEST)
        checked = kind.check_cachable
        kind.check_cachable = lambda code: _of_this_package(code.signature.args) and checked(code)
    except (AttributeError, RuntimeError):
        return numba.njit(nogil=True, **_OPTIONS)(function)
    return dispatcher


def _of_this_package(arguments: Any) -> bool:
    """Whether no argument is a ``NamedTuple`` of a module outside of this package."""
    package = __name__.split(".")[0]
    classes = [getattr(argument, "instance_class", None) for argument in arguments]
    return all(c is None or c.__module__.split(".")[0] == package for c in classes)


def inner(function: Callable[..., Any], options: Any = _OPTIONS) -> Callable[..., Any]:
    """Let kernels call ``function``, which stays a Python function.

    It is compiled as part of each kernel, without the wrapper that makes an `njit` function
    callable from Python, which takes half of the compile time of a short function.
    """

    @overload(function, strict=False, jit_options=options)
    def _typer(*args):
        return function

    return function


def reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    """`inner` for sums, whose terms may be added in any order: LLVM then vectorises them."""
    return inner(function, {**_INLINED, "fastmath": {"reassoc", "contract"}})


def inlined_kernel(generic: Callable[..., Any]) -> Any:
    """`kernel` for what is called for every few rows: its code stands in the place of the call."""
    return kernel(generic, _INLINED)


def kernel(generic: Callable[..., Any], options: Any = _OPTIONS) -> Any:
    """``functools.singledispatch`` that also works inside Numba functions.

    Implementations are plain Python functions, registered by the class of the first argument: the
    class of a ``NamedTuple``, or ``np.ndarray``. They may call kernels and ``njit`` functions.

    Parameters
    ----------
    generic : callable
        The default implementation, with positional arguments only. A generic that raises
        ``NotImplementedError`` is abstract: Numba then refuses a class without implementation at
        compile time.
    options : dict
        Of Numba.

    Returns
    -------
    callable
        With ``register(cls)`` and ``dispatch(cls)`` as in ``functools.singledispatch``.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Square(NamedTuple):
    ...     weight: float
    >>> @kernel
    ... def value(loss, z):
    ...     raise NotImplementedError(type(loss).__name__)
    >>> @value.register(Square)
    ... def _(loss, z):
    ...     return loss.weight * z * z
    >>> value(Square(0.5), 2.0)
    2.0
    """
    dispatcher: Any = singledispatch(generic)
    register = dispatcher.register

    def register_distinct(cls, implementation=None):
        distinguish(cls)
        return register(cls, implementation)

    dispatcher.register = register_distinct
    abstract = "NotImplementedError" in generic.__code__.co_names

    @overload(dispatcher, strict=False, jit_options=options)
    def _typer(spec, *args):
        is_array = isinstance(spec, types.Array)
        cls = np.ndarray if is_array else getattr(spec, "instance_class", object)
        implementation = dispatcher.dispatch(cls)
        return None if abstract and implementation is generic else implementation

    return dispatcher


_CLASSES: dict[tuple[str, tuple[str, ...]], type] = {}  # by name and fields


def distinguish(cls: type) -> None:
    """Rename a ``NamedTuple`` if another one that has kernels has the same name and fields.

    When it is called, Numba tells the classes of arguments apart by name and fields alone: it would
    run the other's machine code, for a class of a user with a name of this package, or for one that
    is defined anew in a notebook.
    """
    name, fields, count = cls.__name__, getattr(cls, "_fields", None), 1
    while fields is not None and _CLASSES.setdefault((cls.__name__, fields), cls) is not cls:
        count += 1
        cls.__name__ = f"{name}_{count}"


def implements(kernel: Any, cls: type) -> bool:
    """Whether ``kernel`` has an implementation for ``cls`` other than its generic one."""
    return kernel.dispatch(cls) is not kernel.dispatch(object)
