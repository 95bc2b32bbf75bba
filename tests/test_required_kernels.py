"""What solvers require of losses, sets and penalties is all that they call."""

import os
import subprocess
import sys
from pathlib import Path

from skdpsco import solvers

SCRIPT = Path(__file__).with_name("required_kernels.py")


def test_solvers_call_no_kernel_that_they_do_not_require():
    """A kernel that is missing would be noticed after the charge, by Numba."""
    root = str(Path(solvers.__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    classes = [getattr(solvers, name) for name in solvers.__all__]
    expected = {cls.__name__ for cls in classes if hasattr(cls, "requires")}
    assert set(done.stdout.split()) == expected
