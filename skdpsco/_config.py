"""Settings of the whole package, for all threads or for what runs within a context."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

__all__ = ["config_context", "get_config", "set_config"]

_of_process: dict[str, Any] = {
    "strict": os.environ.get("SKDPSCO_STRICT", "") not in ("", "0"),
    "verbose": 1,
    "progress": False,
}
_of_context: ContextVar[dict[str, Any] | None] = ContextVar("config", default=None)


def get_config() -> dict[str, Any]:
    """Return the settings that are in force here.

    Returns
    -------
    config : dict
        The keys are the parameters of `set_config`. It is a copy.

    See Also
    --------
    set_config : Change the settings of the process.
    config_context : Change them for a block of code.

    Examples
    --------
    >>> import skdpsco
    >>> skdpsco.get_config()
    {'strict': False, 'verbose': 1, 'progress': False}
    """
    return {**_of_process, **(_of_context.get() or {})}


def set_config(
    *, strict: bool | None = None, verbose: int | None = None, progress: bool | None = None
) -> None:
    """Change the settings of the process, that is, of all its threads.

    Parameters
    ----------
    strict : bool or None, default=None
        Whether whatever gives a `PrivacyWarning` is an error, as is a fit without a ledger. The
        error is raised before anything is charged. The first setting is False, unless the
        environment variable ``SKDPSCO_STRICT`` is 1.
    verbose : int or None, default=None
        0 turns off messages about what takes long, such as compiling. The first setting is 1.
    progress : bool or None, default=None
        Whether fits that take longer than a second show a progress bar. The first setting is False.

    Raises
    ------
    TypeError, ValueError
        If a value is not legal; nothing has changed then.
    ImportError
        If ``progress`` is True, and tqdm is not installed.

    See Also
    --------
    config_context : Change settings for a block of code.
    get_config : The settings in force.

    Notes
    -----
    None leaves a setting as it is. Within a `config_context` its own settings prevail. Other
    processes, such as the workers of joblib, have settings of their own, but inherit the
    environment variable. In a search whose number of fits is secret only the last fit has a bar.

    Examples
    --------
    >>> import skdpsco
    >>> skdpsco.set_config(strict=True)
    >>> skdpsco.get_config()["strict"]
    True
    >>> skdpsco.set_config(strict=False)
    """
    _of_process.update(_checked(strict, verbose, progress))


@contextmanager
def config_context(
    *, strict: bool | None = None, verbose: int | None = None, progress: bool | None = None
) -> Iterator[None]:
    """Change settings for a block of code, in this thread alone.

    Parameters
    ----------
    strict : bool or None, default=None
        As for `set_config`.
    verbose : int or None, default=None
        As for `set_config`.
    progress : bool or None, default=None
        As for `set_config`.

    Yields
    ------
    None

    Raises
    ------
    TypeError, ValueError
        If a value is not legal.
    ImportError
        If ``progress`` is True, and tqdm is not installed.

    See Also
    --------
    set_config : Change the settings of all threads.
    get_config : The settings in force.

    Notes
    -----
    Threads and processes that are started within begin with the settings of their process.

    Examples
    --------
    >>> import skdpsco
    >>> with skdpsco.config_context(strict=True):
    ...     skdpsco.get_config()["strict"]
    True
    >>> skdpsco.get_config()["strict"]
    False
    """
    checked = _checked(strict, verbose, progress)
    token = _of_context.set({**(_of_context.get() or {}), **checked})
    try:
        yield
    finally:
        _of_context.reset(token)


def _checked(strict: Any, verbose: Any, progress: Any) -> dict[str, Any]:
    """The settings that are given, after a check."""
    for name, value in (("strict", strict), ("progress", progress)):
        if not (value is None or isinstance(value, bool)):
            raise TypeError(f"{name} must be True, False or None, got {value!r}.")
    if not (verbose is None or (isinstance(verbose, int) and not isinstance(verbose, bool))):
        raise TypeError(f"verbose must be an integer >= 0 or None, got {verbose!r}.")
    if verbose is not None and verbose < 0:
        raise ValueError(f"verbose must be an integer >= 0 or None, got {verbose!r}.")
    if progress and find_spec("tqdm") is None:
        raise ImportError("progress=True needs tqdm: pip install 'skdpsco[progress]'.")
    given = {"strict": strict, "verbose": verbose, "progress": progress}
    return {name: value for name, value in given.items() if value is not None}
