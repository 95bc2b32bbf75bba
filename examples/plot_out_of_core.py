"""
A fit to more data than memory
==============================

`RowBlocks` reads records block by block: from a memmap, as here, from Parquet files, or from a Dask
cluster. The features of a model may be much larger than the file: scikit-learn's handwritten
digits are 115 kB of pixels, and the products of all pairs of pixels take 250 times as much. They
are computed when a block is read, and the fit equals that to arrays in memory, with the same noise
from the same budget.
"""

import tempfile
import tracemalloc
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skdpsco import PrivacyWarning, PrivateLogisticRegression, RowBlocks
from skdpsco.preprocessing import PublicBoundsScaler

warnings.simplefilter("ignore", PrivacyWarning)  # seeds, so that the fits can be compared

# %%
# A file of pixels. The model learns which digits are greater than 4.
X, digit = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X.astype(np.uint8), digit > 4, random_state=0)
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "pixels.npy"
np.save(path, X)
pixels = np.load(path, mmap_mode="r")

# %%
# Neither step learns anything from the data: pixels are counts from 0 to 16, which is public, and
# products of pixels need no parameters. All features are in [-1, 1].
pairs = PolynomialFeatures(interaction_only=True, include_bias=False)
products = make_pipeline(PublicBoundsScaler(lower=0, upper=16), pairs).fit(pixels[:1])
model = PrivateLogisticRegression(
    epsilon=2.0, feature_bound=1.0, classes=[False, True], random_state=0
)


# %%
# Fits in blocks of several sizes, and one to arrays in memory. Only the block being processed takes
# memory.
def fitted(*data):
    """Coefficients, and the megabytes that the fit has allocated."""
    tracemalloc.start()
    coef = model.fit(*data).coef_[0]
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return coef, peak


fitted(RowBlocks.from_arrays(pixels, y).map(products))  # compiles
sizes, coefs, peaks = [50, 100, 200, 400, 800], [], []
for size in sizes:
    coef, peak = fitted(RowBlocks.from_arrays(pixels, y, block_size=size).map(products))
    coefs.append(coef)
    peaks.append(peak)
expanded = products.transform(pixels)
in_memory, most = fitted(expanded, y)
most += expanded.nbytes / 1e6

# %%
# However the records are cut, the coefficients are the same: sums differ only in their last bits,
# which the grid of the noise hides.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(sizes, peaks, "o-", label="blocks")
left.axhline(most, color="grey", linestyle="--", label="all in memory")
left.set(xscale="log", yscale="log", xlabel="rows of a block", ylabel="allocated [MB]")
left.set_xticks(sizes, sizes)
left.set_yticks([3, 10, 30], [3, 10, 30])
left.minorticks_off()
left.legend()
largest = np.argsort(-np.abs(in_memory))[:30]
right.plot(in_memory[largest], "k_", markersize=12, label="all in memory")
for size, coef in zip(sizes, coefs, strict=True):
    right.plot(coef[largest], ".", alpha=0.6, label=f"{size} rows")
right.set(xlabel="the largest coefficients", ylabel="private coefficient")
right.legend(fontsize="small")
print(f"accuracy on other digits: {model.score(products.transform(X_test), y_test):.3f}")
print(model.privacy_)
del pixels
folder.cleanup()
plt.show()
