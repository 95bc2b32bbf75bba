"""Random bits: where they come from and how kernels read them; and all warnings."""

import ctypes
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from os import urandom
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, overload
from randomgen import AESCounter
from sklearn.utils import check_random_state

from skdpsco._callers import Callers, callers
from skdpsco._config import get_config
from skdpsco._kernels import inner
from skdpsco._threads import Joint
from skdpsco._upstream import next_word

__all__ = [
    "PrivacyWarning",
    "UtilityWarning",
    "below",
    "collected_advice",
    "generator",
    "next_uint64",
    "public_generator",
    "refuse_if_strict",
    "seed_of",
    "warn_of_version",
    "warn_privacy",
    "warn_utility",
    "without_warnings",
    "words_of",
]

# The list that collects texts of utility warnings, or None to show them.
_advice: ContextVar[list[str] | None] = ContextVar("advice", default=None)


class PrivacyWarning(UserWarning):
    """What was asked for is allowed, but weakens or voids the privacy guarantee."""


class UtilityWarning(UserWarning):
    """What was asked for is private, but from public sizes noise is known to drown some of it."""


def warn_utility(message: str, stacklevel: int = 3, calls: Callers | None = None) -> None:
    """Warn of what follows from parameters and public sizes; never call it because of data.

    Parameters
    ----------
    message : str
    stacklevel : int, default=3
        Which line the warning names: 3 for the line that called our caller.
    calls : Callers or None, default=None
        Who calls the fit, to warn once in every call of a wrapper or pipeline, and to name the
        line of this call.

    Warns
    -----
    UtilityWarning
        Unless it is called within `collected_advice`.
    """
    advice = _advice.get()
    if advice is None:
        _warn(message, UtilityWarning, stacklevel, calls)
    elif message not in advice:
        advice.append(message)


def warn_privacy(message: str, stacklevel: int = 3, calls: Callers | None = None) -> None:
    """Warn of what weakens a guarantee; it follows from parameters, never from data.

    Parameters
    ----------
    message : str
    stacklevel : int, default=3
        Which line the warning names: 3 for the line that called our caller.
    calls : Callers or None, default=None
        As for `warn_utility`; None looks who calls.

    Warns
    -----
    PrivacyWarning

    Raises
    ------
    ValueError
        In place of the warning in strict mode.
    """
    refuse_if_strict(message)
    _warn(message, PrivacyWarning, stacklevel, callers() if calls is None else calls)


def _warn(message: str, category: Any, stacklevel: int, calls: Callers | None) -> None:
    line = None if calls is None else calls.line()
    if line is None:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    elif calls is not None and calls.first_time(message):
        warnings.warn_explicit(message, category, *line)  # Python keeps no list of such warnings


def refuse_if_strict(message: str) -> None:
    """Raise what would otherwise be a warning about privacy, or nothing, in strict mode.

    Raises
    ------
    ValueError
        In strict mode.
    """
    if get_config()["strict"]:
        raise ValueError(f"{message} (This is an error because of set_config(strict=True).)")


def warn_of_version(name: str, stored: str, current: str) -> None:
    """Warn that a pickled estimator comes from another version of this package.

    Parameters
    ----------
    name : str
        Its class.
    stored, current : str

    Warns
    -----
    UserWarning
        Always.
    """
    warnings.warn(
        f"This {name} was pickled by skdpsco {stored}, and is loaded by {current}: its parameters "
        "and attributes may have another meaning. What it has released keeps its guarantee.",
        UserWarning,
        stacklevel=3,
    )


@contextmanager
def _ignored():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


_without_warnings = Joint(_ignored)


def without_warnings() -> Any:
    """Show no warnings within: their number would reveal how many fits there are.

    Threads share the filters of warnings, unless Python was configured otherwise. The first thread
    that enters silences all of them, and only the last that leaves restores the filters.
    """
    alone = getattr(sys.flags, "context_aware_warnings", False)
    return _ignored() if alone else _without_warnings


@contextmanager
def collected_advice() -> Iterator[list[str]]:
    """Collect the texts of `warn_utility` in a list, for one warning later; this thread only."""
    advice: list[str] = []
    token = _advice.set(advice)
    try:
        yield advice
    finally:
        _advice.reset(token)


class _SecretAESCounter(AESCounter):
    """AES in counter mode that cannot be copied: a copy would replay the same noise."""

    def __reduce__(self):
        raise TypeError("A generator of private noise cannot be copied or pickled.")


def seed_of(random_state: Any) -> int | None:
    """The seed that a ``random_state`` stands for; None for secret noise.

    Parameters
    ----------
    random_state : None, int or numpy.random.RandomState
        128 bits are drawn from an instance.

    Raises
    ------
    ValueError, TypeError
        If ``random_state`` has another type, or is a negative integer.
    """
    if random_state is None:
        return None
    if isinstance(random_state, np.random.RandomState):
        words = random_state.randint(2**32, size=4, dtype=np.uint32)
        return int.from_bytes(words.astype("<u4").tobytes(), "little")
    if not isinstance(random_state, Integral) or isinstance(random_state, bool):
        raise TypeError(
            "random_state must be None, a non-negative integer or a numpy.random.RandomState "
            f"instance, got {random_state!r}."
        )
    if random_state < 0:
        raise ValueError(f"random_state must be a non-negative integer, got {random_state!r}.")
    return int(random_state)


def public_generator(random_state: Any) -> np.random.RandomState:
    """Source of public randomness, such as a split: a new generator if ``random_state`` is None.

    NumPy's global generator is not used: its state would reveal how often a fit was tried.

    Raises
    ------
    ValueError
        If it is an integer that is no seed of NumPy's.
    """
    if isinstance(random_state, Integral) and not 0 <= int(random_state) < 2**32:
        raise ValueError(f"random_state must be in [0, 2**32 - 1], got {random_state!r}.")
    return np.random.RandomState() if random_state is None else check_random_state(random_state)


def generator(random_state: Any = None, stacklevel: int = 2) -> tuple[np.random.Generator, bool]:
    """Make the generator of one fit. Never store, copy or reuse it.

    Parameters
    ----------
    random_state : None, int or numpy.random.RandomState, default=None
        ``None`` keys AES in counter mode with 128 bits from the operating system, anew in every
        call, so that forked processes and unpickled estimators never share noise. An integer, or
        an instance from which a seed is drawn as in scikit-learn, gives a reproducible PCG64.

    stacklevel : int, default=2
        Which line a warning names: 2 for the line of the caller.

    Returns
    -------
    rng : numpy.random.Generator
    seeded : bool
        True if the noise is reproducible, hence not secret.

    Warns
    -----
    PrivacyWarning
        If the noise is reproducible.
    """
    seed = seed_of(random_state)
    if seed is None:
        key = int.from_bytes(urandom(16), "little")
        return np.random.Generator(_SecretAESCounter(key=key)), False
    source, remedy = "A fixed random_state", "Use random_state=None outside of tests."
    calls = callers()
    wrapper = calls.innermost
    params = {} if wrapper is None else wrapper.get_params(deep=True)
    given = [value for name, value in params.items() if name.endswith("__random_state")]
    if params and isinstance(random_state, Integral) and random_state not in given:
        source = f"The random_state that {type(wrapper).__name__} sets"
        remedy = "Its fits cannot be private."
    warn_privacy(
        f"{source} makes the noise reproducible: anyone who knows the seed can subtract the noise, "
        f"and the release is not private. {remedy}",
        stacklevel + 1,
        calls,
    )
    return np.random.Generator(np.random.PCG64(seed)), True


def next_uint64(rng):
    """Next 64 random bits of ``rng``, a ``numpy.random.Generator``, as an unsigned integer."""
    return rng.bit_generator.random_raw()


class Words(NamedTuple):
    """The words of a generator for a kernel: Numba takes a while to read a ``Generator``.

    Parameters
    ----------
    function : int
        Address of a C function of the state, which returns the next 64 bits.
    state : int
        Address of the state, which lives as long as the generator.
    """

    function: int
    state: int


def words_of(rng: np.random.Generator) -> Words:
    """The words of ``rng`` for a kernel, during whose run the caller must hold ``rng``."""
    if getattr(config, "DISABLE_JIT", False):  # kernels are Python functions
        return rng  # type: ignore[return-value]
    source = rng.bit_generator.ctypes
    function = ctypes.cast(source.next_uint64, ctypes.c_void_p).value
    return Words(function, source.state_address)  # type: ignore[arg-type]


@overload(words_of)
def _words_in_kernels(rng):
    return lambda rng: rng


@intrinsic
def _call(_context, function, state):
    def code(_context, builder, _signature, arguments):
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [arguments[1]])

    return types.uint64(function, state), code


@overload(next_uint64)
def _next_uint64_in_kernels(rng):
    if getattr(rng, "instance_class", None) is Words:
        return lambda rng: _call(rng.function, rng.state)
    return lambda rng: next_word(rng.bit_generator)


@inner
def below(rng, m):
    """Exactly uniform integer in ``[0, m)``, for ``1 <= m <= 2**62``, by masked rejection."""
    mask = m - 1
    mask |= mask >> 1
    mask |= mask >> 2
    mask |= mask >> 4
    mask |= mask >> 8
    mask |= mask >> 16
    mask |= mask >> 32
    while True:
        k = np.int64(np.uint64(next_uint64(rng)) >> np.uint64(1)) & mask
        if k < m:
            return k
