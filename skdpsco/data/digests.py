"""Digests of blocks, which detect that a block has changed when it is read again.

They are keyed with a secret of the fit, and take about as long as a sum over the same bytes.
docs/proofs/blocks.md has the proof, and says what they are used for.
"""

import hashlib
import os
from typing import Any

import numpy as np
from scipy import sparse

from skdpsco._kernels import njit
from skdpsco.data.design import read_only

__all__ = ["digest", "digest_of_columns", "digest_of_features", "new_key"]

WORDS = 512  # 64-bit words in a chunk; the first cache holds a chunk beside two keys


def new_key() -> bytes:
    """A secret of 256 bits from the operating system."""
    return os.urandom(32)


def digest(key: bytes, X: Any, y: np.ndarray) -> bytes:
    """Digest of the features and targets of a block, 16 bytes.

    Parameters
    ----------
    key : bytes
    X : ndarray or CSR matrix
    y : ndarray
    """
    arrays = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
    halves = np.frombuffer(hashlib.shake_256(key).digest(16 * WORDS), np.uint64)
    total = hashlib.blake2b(key=key, digest_size=16)
    for array in map(np.ascontiguousarray, [*arrays, y]):
        total.update(f"{array.dtype.str}{array.shape}".encode())
        content = array.reshape(-1).view(np.uint8)
        whole = len(content) // 8 * 8
        words = content[:whole].view(np.uint64)
        if not words.flags.aligned:
            words = words.copy()
        sums = np.empty((-(-len(words) // WORDS), 2), dtype=np.uint64)
        _add_up(read_only(words), halves.reshape(2, WORDS), sums)
        total.update(sums.tobytes())
        total.update(content[whole:].tobytes())
    return total.digest()


def digest_of_columns(key: bytes, columns: list[Any]) -> bytes:
    """Digest of a few columns of a block, 16 bytes; the columns may hold labels of any type."""
    total = hashlib.blake2b(key=key[:32], digest_size=16)
    for column in map(np.asarray, columns):
        plain = column.dtype.kind in "biuf"
        total.update(f"{column.dtype.str if plain else ''}{column.shape}".encode())
        content = column.tobytes() if plain else repr(column.tolist()).encode("utf-8", "replace")
        total.update(content)
    return total.digest()


def digest_of_features(key: bytes, X: Any) -> bytes:
    """Digest of features before they are encoded: a sparse matrix, an array or a frame.

    A frame of numbers has the same digest as its array, since a step may ask for either; 16 bytes.
    """
    if hasattr(X, "iloc") and all(dtype.kind in "biuf" for dtype in X.dtypes):
        X = X.to_numpy(np.float64, na_value=np.nan)
    if sparse.issparse(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "biuf"):
        return digest(key, X, np.empty(0))
    return digest_of_columns(key, [X[name] for name in X.columns] if hasattr(X, "columns") else [X])


@njit
def _add_up(words, keys, sums):
    """Add the halves of keys to those of words, multiply the two halves, and sum up by chunk."""
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for c in range(sums.shape[0]):
        chunk = words[c * WORDS : min((c + 1) * WORDS, words.shape[0])]
        first, second = np.uint64(0), np.uint64(0)
        for i in range(chunk.shape[0]):
            left, right = chunk[i] & low, chunk[i] >> shift
            k = keys[0, i]
            first += ((left + (k & low)) & low) * ((right + (k >> shift)) & low)
            k = keys[1, i]
            second += ((left + (k & low)) & low) * ((right + (k >> shift)) & low)
        sums[c, 0] = first
        sums[c, 1] = second
