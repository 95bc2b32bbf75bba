"""A stand-in for the Gaussian mechanism, which shows what neighbours change before noise."""

import numpy as np

from skdpsco.mechanisms.samplers import deviation_on, to_grid


class RecordedReleases:
    """Stand-in for the noise: keeps grid units, makes up outputs or replays them.

    Subclasses have a method ``run`` that begins with `begin`.
    """

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
            values += rng.uniform(-0.1, 0.1, len(values)) * (np.abs(values).max() + 0.1)
        else:
            values[:] = self.outputs[len(self.units) - 1]
        self.seen.append(values.copy())
        return deviation_on(grid)
