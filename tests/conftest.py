"""One cache of machine code for all runs and workers: its stamps see edits (`skdpsco._kernels`)."""

import os
import time
from pathlib import Path

# Scripts that tests run in processes of their own; importing them would run them here.
collect_ignore = ["noise_children.py", "required_kernels.py"]

_CACHE = Path(__file__).parents[1] / ".pytest_cache" / "numba"
# Read when Numba is imported, hence here and not in a fixture.
os.environ["NUMBA_CACHE_DIR"] = str(_CACHE)


def pytest_sessionstart(session):
    """Remove what no run has read or written for two weeks: edits leave old machine code behind."""
    if hasattr(session.config, "workerinput"):
        return
    for path in _CACHE.rglob("*.nb[ci]"):
        if max(path.stat().st_atime, path.stat().st_mtime) < time.time() - 14 * 86_400:
            path.unlink(missing_ok=True)
