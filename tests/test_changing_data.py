"""What a fit reads twice must be the same both times, and no file is read for two blocks."""

import hashlib
import os
import pickle

import numpy as np
import pandas as pd
import pytest
from cases import each
from scipy import sparse

from skdpsco import Ledger, PrivateLasso, PrivateLinearRegressor, RowBlocks
from skdpsco._validation import check_target
from skdpsco.data import record_sums
from skdpsco.data.block_records import BlockRecords
from skdpsco.data.digests import WORDS, digest, new_key

N, D = 1200, 5
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (N, D))
Y = 2.0 * X[:, 0] - X[:, 3] + 0.1 * RNG.normal(size=N)
SWAPPED = np.r_[600:N, :600]  # another order: every record enters two blocks of a mixed pass


def change_in_the_middle(monkeypatch, change):
    """Call ``change`` after the first pass that follows the charge."""
    original, calls = record_sums.Task.__call__, []

    def spy(self, *block):
        calls.append(self)
        if len(calls) == 6:
            change()
        return original(self, *block)

    monkeypatch.setattr(record_sums.Task, "__call__", spy)


def refused_without_a_release(blocks):
    ledger = Ledger(epsilon=5.0, delta=1e-5)
    model = PrivateLasso(n_iter=4, ledger=ledger, delta=1e-6)
    with pytest.raises(ValueError, match=r"Block \d of X: it is not what it was") as caught:
        model.fit(blocks)
    assert len(ledger.history()) == 1
    assert not hasattr(model, "coef_")
    text = str(caught.value)
    assert not any(f"{value:.4f}"[1:] in text for value in X[:, 0])
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_file_that_changes_ends_the_fit(tmp_path, monkeypatch, n_jobs):
    for name, values in (("X", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", values)
    mapped, y = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy")

    def change():
        for name, values in (("X", X), ("y", Y)):
            np.load(tmp_path / f"{name}.npy", mmap_mode="r+")[:] = values[SWAPPED]

    change_in_the_middle(monkeypatch, change)
    refused_without_a_release(RowBlocks.from_arrays(mapped, y, block_size=300, n_jobs=n_jobs))


@pytest.mark.parametrize("kind", [np.array, sparse.csr_matrix, np.asfortranarray, "targets"])
def test_arrays_that_change_end_the_fit(monkeypatch, kind):
    y = Y.copy()
    blocks = RowBlocks.from_arrays(X if kind == "targets" else kind(X), y, block_size=300)
    held = y if kind == "targets" else blocks.parts[2].X.values

    def change():
        (held.data if sparse.issparse(held) else held)[7] = 0.25

    change_in_the_middle(monkeypatch, change)
    refused_without_a_release(blocks)


def test_a_parquet_file_that_is_written_anew_ends_the_fit(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow", reason="needs the extra arrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra arrow")
    table = pa.table({**{f"x{j}": X[:, j] for j in range(D)}, "y": Y})
    path = tmp_path / "data.parquet"

    def write(table):
        parquet.write_table(table, tmp_path / "new", row_group_size=300)
        os.replace(tmp_path / "new", path)

    write(table)
    change_in_the_middle(monkeypatch, lambda: write(table.take(SWAPPED)))
    refused_without_a_release(RowBlocks.from_parquet(path, "y", block_size=300))


def test_blocks_of_the_same_values_are_data():
    """Refusing them would reveal that records are alike."""
    blocks = RowBlocks.from_blocks([(X[:300], Y[:300]), (X[:300].copy(), Y[:300].copy())])
    PrivateLasso(n_iter=3).fit(blocks)
    PrivateLinearRegressor().fit(blocks)


def test_a_parquet_file_is_refused_twice(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow", reason="needs the extra arrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra arrow")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken.parquet").write_bytes(b"not read before the list has been looked at")
    for name in ("a", "b"):
        parquet.write_table(pa.table({"x": X[:, 0], "y": Y}), tmp_path / f"{name}.parquet")
    os.symlink(tmp_path / "a.parquet", tmp_path / "folder" / "soft.parquet")
    os.link(tmp_path / "a.parquet", tmp_path / "hard.parquet")
    for again in (
        "a.parquet",
        "./a.parquet",
        "folder/../a.parquet",
        tmp_path / "a.parquet",
        "folder/soft.parquet",
        "hard.parquet",
    ):
        with pytest.raises(ValueError, match=r"path must name every file once.*a\.parquet"):
            RowBlocks.from_parquet(["broken.parquet", "a.parquet", "b.parquet", again], "y")
    assert RowBlocks.from_parquet(["a.parquet", "b.parquet"], "y").n_samples == 2 * N
    with pytest.raises(OSError, match="nowhere"):
        RowBlocks.from_parquet(["a.parquet", "nowhere.parquet"], "y")


def test_rows_of_a_memmap_are_refused_twice(tmp_path):
    np.save(tmp_path / "X.npy", X)
    os.link(tmp_path / "X.npy", tmp_path / "other.npy")

    def rows(name, start, stop):
        mapped = np.load(tmp_path / name, mmap_mode="r")
        offset = mapped.offset + start * D * 8
        return np.memmap(tmp_path / name, float, "r", offset, (stop - start, D)), Y[start:stop]

    apart = [rows("X.npy", 600, N), rows("other.npy", 0, 600)]
    assert RowBlocks.from_blocks(apart).n_samples == N
    for again in (rows("X.npy", 0, 600), rows("other.npy", 599, 601)):
        with pytest.raises(ValueError, match=r"blocks \d and 2 hold the same rows"):
            RowBlocks.from_blocks([*apart, again])


def test_rows_of_an_array_are_refused_twice():
    halves = [(X[::2], Y[::2]), (X[1::2], Y[1::2])]
    assert RowBlocks.from_blocks(halves).n_samples == N
    matrix, frame = sparse.csr_matrix(X), pd.DataFrame(X)
    for one, two in (
        (X, X),
        (X[:700], X[600:]),
        (X[:, :3], X[:, :3]),
        (matrix, matrix),
        (frame, frame),
        (frame[:700], frame[600:]),
    ):
        with pytest.raises(ValueError, match="blocks 0 and 1 hold the same rows"):
            RowBlocks.from_blocks([(one, Y[: one.shape[0]]), (two, Y[: two.shape[0]])])
    for part in (X, frame):  # the rows of a third block are those of the first, less one
        thirds = [(part[k::2], Y[k::2]) for k in range(3)]
        with pytest.raises(ValueError, match="blocks 0 and 2 hold the same rows"):
            RowBlocks.from_blocks(thirds)
        assert RowBlocks.from_blocks(thirds[:2]).n_samples == N
    pair = X[:600], Y[:600]
    with pytest.raises(ValueError, match="blocks 0 and 1 hold the same rows"):
        RowBlocks.from_blocks([pair, pair])
    empty = X[:0], Y[:0]
    assert RowBlocks.from_blocks([(X, Y), empty, empty]).n_samples == N


def test_keys_and_digests_are_not_shown():
    blocks = RowBlocks.from_arrays(X, Y, block_size=300)
    designs = [BlockRecords(blocks, check_target).open(np.ones(D), False) for _ in range(2)]
    (first, *_), (second, *_) = (design.blocks._readers for design in designs)
    assert first.key.value != second.key.value  # each fit has its own
    assert first.expected.value != second.expected.value
    for secret in (first.key, first.expected):
        assert len(secret.value) >= 16
        assert repr(secret.value) not in repr(first)
        assert secret.value in pickle.dumps(first)  # workers are sent it


def by_the_definition(key, X, y):
    """Section 3 of docs/proofs/blocks.md with Python's integers, for a dense block."""
    halves = np.frombuffer(hashlib.shake_256(key).digest(16 * WORDS), "<u4").reshape(2, WORDS, 2)
    total = hashlib.blake2b(key=key, digest_size=16)
    for array in (X, y):
        total.update(f"{array.dtype.str}{array.shape}".encode())
        content = array.tobytes()
        whole = len(content) // 8 * 8
        words = np.frombuffer(content[:whole], "<u4").reshape(-1, 2).tolist()
        for start in range(0, len(words), WORDS):
            for some in halves.tolist():
                pairs = zip(words[start : start + WORDS], some, strict=False)
                products = ((a + k) % 2**32 * ((b + m) % 2**32) for (a, b), (k, m) in pairs)
                total.update((sum(products) % 2**64).to_bytes(8, "little"))
        total.update(content[whole:])
    return total.digest()


@each("n", [0, 1, 3, 102, 103, 205])
@each("dtype", [np.float64, np.float32])
def test_a_digest_is_what_the_proof_says(n, dtype):
    key, block = new_key(), X[:n].astype(dtype)
    assert digest(key, block, Y[:n]) == by_the_definition(key, block, Y[:n])


def test_a_digest_tells_any_change():
    key, matrix = new_key(), sparse.csr_matrix(X * (X > 0.3))
    longer = matrix.copy()
    longer.indptr[5:9] += 1  # the same entries, of other rows
    single = X.astype(np.float32)
    unaligned = np.empty(single.nbytes + 4, np.uint8)[4:].view(np.float32).reshape(X.shape)
    unaligned[...] = single
    read_only = single.copy()
    read_only.flags.writeable = False
    changed = X.copy()
    changed[-1, -1] = np.nextafter(changed[-1, -1], 2.0)
    swapped = X[np.r_[1, 0, 2:N]]
    blocks = [X, swapped, changed, X[:-1], X.reshape(-1, 1), single, matrix, longer, X[:, ::-1]]
    digests = [digest(key, block, Y) for block in blocks] + [digest(key, X, Y[::-1])]
    assert len(set(digests)) == len(digests)
    for same in (unaligned, read_only, np.asfortranarray(single)):
        assert digest(key, same, Y) == digest(key, single, Y)
    assert digest(key, X.copy(), Y.copy()) == digests[0] != digest(new_key(), X, Y)
