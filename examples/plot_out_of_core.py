"""
A fit to more data than memory
==============================

`RowBlocks` reads records block by block: from a memmap, as here, from Parquet files, or from a Dask
cluster. The fit is the one that arrays in memory would give, with the same noise from the same
budget, which is drawn once, for the sum over all blocks. The data are generated: on private data a
plot like this would itself be a release.
"""

import tempfile
import tracemalloc
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpsco import PrivacyWarning, PrivateLasso, RowBlocks

N, D = 60_000, 30
rng = np.random.default_rng(0)
warnings.simplefilter("ignore", PrivacyWarning)  # seeds, so that the fits can be compared

# %%
# Two files of numbers, written some rows at a time.
folder = tempfile.TemporaryDirectory()
path = Path(folder.name)
X = np.lib.format.open_memmap(path / "X.npy", "w+", float, (N, D))
y = np.lib.format.open_memmap(path / "y.npy", "w+", float, (N,))
for start in range(0, N, 20_000):
    rows = slice(start, start + 20_000)
    X[rows] = rng.uniform(-1.0, 1.0, (20_000, D))
    y[rows] = 2.0 * X[rows, 0] - X[rows, 3] + 0.5 * rng.normal(size=20_000)
X.flush()
y.flush()
model = PrivateLasso(epsilon=1.0, radius=3.0, random_state=0)


# %%
# Fits in blocks of several sizes, and one to arrays in memory. What is allocated is the block at
# work, less where its numbers can be used as they stand in the file.
def fitted(*data):
    """Coefficients, and the megabytes that the fit has allocated."""
    tracemalloc.start()
    coef = model.fit(*data).coef_
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return coef, peak


fitted(RowBlocks.from_arrays(X[:5000], y[:5000]))  # compiles
single = X.astype(np.float32)  # as files often are: a block of it is converted
sizes, coefs, peaks = [1000, 3000, 10_000, 30_000], [], []
for size in sizes:
    coef, peak = fitted(RowBlocks.from_arrays(single, y, block_size=size))
    coefs.append(coef)
    peaks.append(peak)
in_memory, most = fitted(single, np.array(y))

# %%
# However the records are cut, the coefficients are the same: sums differ in their last bits only,
# which the grid of the noise hides.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(sizes, peaks, "o-", label="blocks")
left.axhline(most, color="grey", linestyle="--", label="all in memory")
left.set(xscale="log", yscale="log", xlabel="rows of a block", ylabel="allocated [MB]")
left.legend()
right.plot(in_memory, "k_", markersize=12, label="all in memory")
for size, coef in zip(sizes, coefs, strict=True):
    right.plot(coef, ".", alpha=0.6, label=f"{size} rows")
right.set(xlabel="feature", ylabel="private coefficient")
right.legend(fontsize="small")
print(model.privacy_)
del X, y
folder.cleanup()
plt.show()
