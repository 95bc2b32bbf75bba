"""The progress bar of a fit, from public facts."""

import threading
from contextlib import contextmanager
from typing import Any

import numpy as np

from skdpsco._config import get_config

__all__ = ["progress_bar"]

DELAY = 1.0  # seconds before a bar appears


@contextmanager
def progress_bar(total: int, description: str) -> Any:
    """Yield a counter that kernels may increase.

    With ``progress=True`` in the settings a bar shows it once the fit has lasted a second.

    Parameters
    ----------
    total : int
        Number of private steps, public.
    description : str

    Yields
    ------
    counter : ndarray of shape (1,), int64
    """
    counter = np.zeros(1, dtype=np.int64)
    if not get_config()["progress"]:
        yield counter
        return
    from tqdm.auto import tqdm  # an extra, which `set_config` has looked for

    base: Any = tqdm

    class Bar(base):
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
