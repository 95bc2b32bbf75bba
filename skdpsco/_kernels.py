"""Compilation: one ``njit`` with a safe on-disk cache, and functions that dispatch inside Numba."""

import hashlib
import math
import re
import secrets
import sys
import time
from collections.abc import Callable
from functools import cache, partial, singledispatch
from pathlib import Path
from typing import Any, Final

import numba
import numpy as np
from numba import types
from numba.extending import overload

from skdpsco._config import get_config
from skdpsco._upstream import NumbaEvent, NumbaListener, register_listener, stamp_cache

__all__ = [
    "compiled",
    "distinguish",
    "implements",
    "inlined",
    "inlined_kernel",
    "inner",
    "kernel",
    "njit",
    "of_this_package",
    "provider",
    "reduction",
]

# "numpy": a division by zero gives inf or nan. The default would raise an exception, and whether a
# kernel raises on private data is a release that nobody has paid for. This option also lets LLVM
# vectorise.
_ERROR_MODEL: Final = "numpy"

# No kernel is handed to C as a callback; the wrapper for that would take time to compile.
_OPTIONS: Final[Any] = {"error_model": _ERROR_MODEL, "no_cfunc_wrapper": True}

# A call passes every field of every array, which takes as long as reading a few dense rows.
_INLINED: Final[Any] = {**_OPTIONS, "forceinline": True}


_PACKAGE: Final = __name__.split(".")[0]
_ROOT: Final = Path(__file__).parent
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))", re.M
)
# Two processes that add to one index at once would otherwise give two functions the same file.
_PROCESS: Final = secrets.token_hex(4)


@cache
def _source(module: str) -> tuple[Path, str] | None:
    """File and text of a module of this package, or None if there is no such module."""
    parts = module.split(".")[1:]
    for path in (_ROOT.joinpath(*parts, "__init__.py"), _ROOT.joinpath(*parts).with_suffix(".py")):
        if parts and path.is_file():
            return path, path.read_text(encoding="utf-8")
    return None


@cache
def _imported(module: str) -> frozenset[str]:
    """Modules of this package that the text of ``module`` imports, wherever the import stands."""
    path, text = _source(module) or (_ROOT, "")
    parents = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: set[str] = set()
    for origin, imported, plain in _IMPORT.findall(text):
        if origin.startswith("."):
            level = len(origin) - len(origin.lstrip("."))
            origin = ".".join([*parents[: len(parents) - level + 1], origin.lstrip(".")]).strip(".")
        names.update(f"{origin}.{name}" for name in re.findall(r"\w+", imported))
        names.update(re.findall(r"[.\w]+", plain))
    # The longest prefix that is a module; what follows is a name in it.
    ours = [name.split(".") for name in names if name.split(".")[0] == _PACKAGE]
    prefixes = ([".".join(name[:k]) for k in range(len(name), 1, -1)] for name in ours)
    return frozenset(filter(None, (next(filter(_source, p), None) for p in prefixes)))


@cache
def _digest(modules: frozenset[str]) -> str:
    """Digest of the sources of modules, and of all that they import from this package.

    A module from outside of this package may reach any source here through modules that are not
    read, so it depends on all of them.
    """
    if any(module.split(".")[0] != _PACKAGE for module in modules):
        paths = _ROOT.rglob("*.py")
        texts = {path: path.read_text(encoding="utf-8") for path in paths}
    else:
        found, todo = set(modules), list(modules)
        while todo:
            new = _imported(todo.pop()) - found
            found |= new
            todo += new
        texts = dict(filter(None, map(_source, found)))
    digest = hashlib.sha256()
    for path in sorted(texts):
        name = path.relative_to(_ROOT).as_posix()
        digest.update(name.encode() + b"\0" + texts[path].encode() + b"\0")
    return digest.hexdigest()


class CompilationNote(NumbaListener):
    """Say, once in a process, that Numba compiles kernels, which depends on types and not on data.

    The clock is looked at whenever a function that is compiled, or one that it calls, begins or
    ends, under Numba's lock. Where everything is compiled this never happens.

    Parameters
    ----------
    delay : float
        After how many seconds of compiling.
    """

    def __init__(self, delay: float) -> None:
        self.left: float = delay
        self.depth: int = 0  # of functions within functions
        self.begun: float = math.inf  # for the outermost one, if it is of this package

    def on_start(self, event: NumbaEvent) -> None:
        """Begin to count the time, or look at the clock."""
        if self.depth == 0:
            module = event.data["dispatcher"].py_func.__module__ or ""
            self.begun = time.monotonic() if module.startswith(_PACKAGE + ".") else math.inf
        self.depth += 1
        self._look()

    def on_end(self, event: NumbaEvent) -> None:
        """Look at the clock, and add up the time."""
        self._look()
        self.depth -= 1
        if self.depth == 0 and self.begun < math.inf:
            self.left -= time.monotonic() - self.begun

    def _look(self) -> None:
        if time.monotonic() - self.begun >= self.left and get_config()["verbose"]:
            self.left = math.inf
            sys.stderr.write(
                "Compiling kernels (once per machine and kind of model) ... `python -m "
                "skdpsco.compile` does it beforehand.\n"
            )


COMPILATION = CompilationNote(2.0)
register_listener("numba:compile", COMPILATION)


def njit(function: Callable[..., Any]) -> Any:
    """``numba.njit``, cached on disk where possible, without the GIL, with NumPy's division.

    Numba stamps a cached function with its own file only. A solver's machine code contains the
    samplers that it calls, so it would survive a correction of the samplers: after an edit, and,
    as the stamp is a hash of the file's content, after an upgrade too. Here the stamp also covers
    every source file of this package that the function's module imports, directly or not. The
    kernels that a loss or a constraint brings along stand in the module of its class, or in that
    of the generic (`kernel` sees to it): what is compiled for such an argument is also stamped
    with the module of its class. The stamps cannot cover files outside of this package, so what
    was compiled for a loss or constraint from elsewhere is not cached: an edit of its kernels
    takes effect, and the cache can be read where its module cannot be imported.

    Several processes may write to one cache directory.

    Functions of a file that is run rather than imported (`runpy`) are not cached: no other process
    could find their module.

    Without a writable cache directory (Numba raises ``RuntimeError``), or where the stamp cannot
    be set (another Numba, or ``NUMBA_DISABLE_JIT``), the function is compiled without a cache.
    """
    plain = numba.njit(nogil=True, **_OPTIONS)
    if not all(part.isidentifier() for part in function.__module__.split(".")):
        return plain(function)
    try:
        dispatcher: Any = numba.njit(cache=True, nogil=True, **_OPTIONS)(function)
        stamp = _digest(frozenset([function.__module__]))
        stamp_cache(dispatcher, stamp, _PROCESS, _of_this_package, _digest_of_classes)
    except (AttributeError, RuntimeError):
        return plain(function)
    return dispatcher


def _classes(arguments: Any) -> set[type]:
    """The classes of ``NamedTuple`` among Numba types, including those of fields of others."""
    classes: set[type] = set()
    for argument in arguments:
        classes |= {getattr(argument, "instance_class", None) or object}
        classes |= _classes(getattr(argument, "types", ()))
    return classes - {object, tuple}


def _digest_of_classes(arguments: Any) -> str:
    """Digest of the sources that hold the kernels of arguments, for classes of this package."""
    mro = {base for cls in _classes(arguments) for base in cls.__mro__}
    return _digest(frozenset(m for m in (c.__module__ for c in mro) if m.split(".")[0] == _PACKAGE))


def _of_this_package(arguments: Any) -> bool:
    """Whether no argument is a ``NamedTuple`` of a module outside of this package."""
    return all(map(of_this_package, _classes(arguments)))


def of_this_package(cls: type) -> bool:
    """Whether a class is the library's own."""
    return cls.__module__.split(".")[0] == _PACKAGE


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
    """`inner` for sums whose terms may be added in any order, so that LLVM vectorises them."""
    return inner(function, {**_INLINED, "fastmath": {"reassoc", "contract"}})


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """`inner` for functions called once per record: their code is copied to where it is called."""
    return inner(function, _INLINED)


def inlined_kernel(generic: Callable[..., Any], guard: Any = None) -> Any:
    """`kernel` for functions called every few rows: their code is copied to where it is called."""
    return kernel(generic, _INLINED, guard)


def kernel(generic: Callable[..., Any], options: Any = _OPTIONS, guard: Any = None) -> Any:
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
        Options for Numba.
    guard : callable, optional
        Turns an implementation from outside of this package into what is called in its place.

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
        if implementation is None:
            return partial(register_distinct, cls)
        homes = (cls.__module__, generic.__module__)
        module = implementation.__module__ or ""  # None in what `exec` runs
        if module.startswith(_PACKAGE + ".") and module not in homes:
            raise TypeError(
                f"The kernel `{generic.__name__}` of {cls.__name__} must stand in "
                f"{' or '.join(homes)}, since compiled code is cached under their sources."
            )
        distinguish(cls)
        ours = of_this_package(cls) and module.startswith(_PACKAGE + ".")
        register(cls, implementation if ours or guard is None else guard(implementation))
        return implementation

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

    Numba tells the classes of arguments apart by name and fields alone when a kernel is called. So
    without this it would run the machine code of the other class if a user's class has a name of
    this package, or if a notebook defines a class again.
    """
    name, fields, count = cls.__name__, getattr(cls, "_fields", None), 1
    while fields is not None and _CLASSES.setdefault((cls.__name__, fields), cls) is not cls:
        count += 1
        cls.__name__ = f"{name}_{count}"


def provider(kernel: Any, cls: type) -> type:
    """The class whose implementation ``kernel`` calls: ``cls``, or one that it inherits from."""
    return next(base for base in cls.__mro__ if base in kernel.registry)


def compiled(function: Any, name: str, spec: Any, *arguments: Any) -> Any:
    """Compile ``function(spec, *arguments)``, which calls the kernel ``name`` of ``spec``.

    It is called as a Python function first: compiled code does not notice when a kernel reaches
    beyond the end of an array, and the memory there may hold data. The arguments are public, so the
    message of an error may show them.

    Raises
    ------
    ValueError
        If the kernel reaches beyond the end of an array.
    TypeError
        If Numba cannot compile the kernel, or it raises.
    """
    distinguish(type(spec))
    try:
        with np.errstate(all="ignore"):
            getattr(function, "py_func", function)(spec, *arguments)
    except IndexError as error:
        raise ValueError(
            f"{type(spec).__name__}: `{name}` reaches beyond the end of an array: {error}."
        ) from error
    except Exception:
        pass  # math.sqrt(-1.0), for instance, which compiled code does not raise
    try:
        return function(spec, *arguments)
    except Exception as error:  # Numba's own, or one of the kernel
        reason = str(error).strip().split("\n")[0]
        raise TypeError(
            f"{type(spec).__name__}: Numba cannot compile or run `{name}`: {reason}"
        ) from error


def implements(kernel: Any, cls: type) -> bool:
    """Whether ``kernel`` has an implementation for ``cls`` other than its generic one."""
    return kernel.dispatch(cls) is not kernel.dispatch(object)
