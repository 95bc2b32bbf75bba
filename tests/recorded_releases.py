"""A stand-in for the Gaussian mechanism, which shows what neighbours change before noise."""

import itertools
import math

import joblib
import numpy as np

from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, to_grid
from skdpsco.privacy.events import leaves

# The variance of discrete Gaussian noise counts 16 units less (docs/proofs/noise.md).
ONE = math.sqrt(4.0**SCALE_BITS - 16)


class RecordedReleases:
    """Stand-in for the noise: keeps grid units, makes up outputs or replays them."""

    size = least = 0.1  # of what is made up, beside what is released

    def __init__(self, monkeypatch, *modules):
        for module in modules:
            monkeypatch.setattr(module, "gaussian_mechanism", self.add)

    def begin(self, outputs):
        """Forget what was released; ``outputs`` are replayed, or made up if they are None."""
        self.units, self.seen, self.outputs = [], [], outputs

    def add(self, rng, values, grid):
        units = [int(to_grid(v, grid)) for v in values]
        assert max(map(abs, units)) < 2**49  # nothing is clamped
        self.units.append(np.array(units, dtype=float))
        if self.outputs is None:
            size = self.size * (np.abs(values).max() + self.least)
            values += size * rng.uniform(-1.0, 1.0, len(values))
        else:
            values[:] = self.outputs[len(self.units) - 1]
        self.seen.append(values.copy())
        return deviation_on(grid)

    def ratios(self, run, data_sets, charges, outputs=None):
        """`largest_ratios` of ``run(data)`` for all data sets, which may find nothing else.

        All see the same releases: ``outputs``, or those of the first data set.
        """
        if outputs is None:
            self.begin(None)
            run(data_sets[0])
            outputs = self.seen
        runs, found = [], set()
        for data in data_sets:
            self.begin(outputs)
            found.add(joblib.hash(run(data)))
            runs.append(self.units)
        assert len(found) == 1  # releases decide everything
        return largest_ratios(runs, charges)


def charges_of(event):
    """The mu of every release that an event charges for, in its order."""
    return [1.0 / leaf.noise_multiplier for leaf, count in leaves(event) for _ in range(count)]


def largest_ratios(runs, charges):
    """The largest change of every release between two runs, in units of what its mu allows."""
    return np.array(
        [
            max(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(units, 2))
            / (mu * ONE)
            for mu, *units in zip(charges, *runs, strict=True)
        ]
    )
