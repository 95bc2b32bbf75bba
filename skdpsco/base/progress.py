"""The progress bar of a fit, from public facts."""

import threading
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["check_progress", "progress_bar"]

DELAY = 1.0  # seconds before a bar appears


def check_progress(verbose: int) -> None:
    """Check before the fit begins that the progress bar has what it needs.

    Raises
    ------
    ImportError
        If ``verbose`` asks for a bar and tqdm is not installed.
    """
    if verbose:
        _import_tqdm()


def _import_tqdm():
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("verbose needs tqdm: pip install 'skdpsco[progress]'.") from error
    return tqdm


@contextmanager
def progress_bar(verbose: int, total: int, description: str) -> Any:
    """Yield a counter that kernels may increase; a bar shows it once the fit has lasted a second.

    Parameters
    ----------
    verbose : int
        0 for no bar.
    total : int
        Number of private steps, public.
    description : str

    Yields
    ------
    counter : ndarray of shape (1,), int64
    """
    counter = np.zeros(1, dtype=np.int64)
    if not verbose:
        yield counter
        return
    tqdm: Any = _import_tqdm()

    class Bar(tqdm):
        monitor_interval = 0  # tqdm would start a thread of its own, which would outlive the fit

    done = threading.Event()

    def show() -> None:
        if done.wait(DELAY):
            return
        with Bar(total=total, desc=description, unit="step") as bar:
            while not done.wait(0.1):
                bar.update(min(int(counter[0]), total) - bar.n)
            bar.update(min(int(counter[0]), total) - bar.n)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield counter
    finally:
        done.set()
        thread.join()
