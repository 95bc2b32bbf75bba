"""Fresh machine code: Numba's cache does not see edits in the files that a kernel calls into."""

import hashlib
import os
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_DIGEST = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(_ROOT.glob("skdpsco/**/*.py"))))
# One directory per xdist worker: concurrent writers can mix up the files of one cache index.
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
# Read when Numba is imported, hence here and not in a fixture.
os.environ["NUMBA_CACHE_DIR"] = str(
    _ROOT / ".pytest_cache" / f"numba-{_DIGEST.hexdigest()[:16]}" / _WORKER
)
