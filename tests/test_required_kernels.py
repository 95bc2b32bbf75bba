"""Solvers call no kernels of losses, sets and penalties except required ones."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from cases import each

from skdpsco import losses, solvers
from skdpsco.constraints import L1Ball
from skdpsco.losses import Logistic

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


class Broken(NamedTuple):
    """A logistic loss of one prediction, or of two, with all kernels, one of them broken."""

    n_outputs: int = 1

    lipschitz, smoothness = Logistic.lipschitz, Logistic.smoothness
    baseline = Logistic.baseline


def uncompiled(loss, *arguments):
    return float(str(object()))


def beyond(loss, *arguments):
    arguments[-1][1] = 0.0  # the record that is next in memory, if there is one


@each(
    ("solver", "kernel", "function", "error", "match"),
    [
        (solvers.Stagewise(), "value", uncompiled, TypeError, "compile or run `value`"),
        (solvers.Stagewise(), "derivative", uncompiled, TypeError, "compile or run `derivative`"),
        (solvers.FrankWolfe(), "derivative", uncompiled, TypeError, "compile or run `derivative`"),
        (solvers.FrankWolfe(), "derivatives", beyond, ValueError, "`derivatives` reaches beyond"),
    ],
)
def test_kernels_of_losses_are_tried_before_the_charge(solver, kernel, function, error, match):
    class Own(Broken):
        pass

    for name in ("value", "derivative"):
        getattr(losses, name).register(Own, lambda loss, z, y: 0.25)
    getattr(losses, kernel).register(Own, function)
    problem = solvers.Problem(Own(), L1Ball(1.0), 1000, 3)
    with pytest.raises(error, match=match):
        solvers.check_supported(solver, problem)
