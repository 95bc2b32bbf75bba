"""Measured rows of one state of the code: a journal that grows, packed into one file at the end."""

from pathlib import Path

import pandas as pd

from laws.runs import COLUMNS, KEYS

FOLDER = Path(__file__).parent / "results"


class Store:
    """The rows of a label in a folder."""

    def __init__(self, label, folder=FOLDER):
        self.packed = Path(folder) / f"{label}.parquet"
        self.journal = Path(folder) / f"{label}.csv"

    def read(self):
        """All rows, in a frame."""
        frames = [pd.read_parquet(self.packed)] if self.packed.exists() else []
        if self.journal.exists():
            # A digest may consist of digits alone, and failures of nothing.
            frames.append(pd.read_csv(self.journal, dtype={"code": str, "failure": str}))
        if not frames:
            return pd.DataFrame(columns=COLUMNS)
        rows = pd.concat(frames, ignore_index=True).fillna({"failure": ""})
        return rows.drop_duplicates(KEYS, keep="last")

    def keys(self):
        """Keys of the finished cells."""
        return set(self.read()[KEYS].itertuples(index=False, name=None))

    def append(self, rows):
        self.journal.parent.mkdir(parents=True, exist_ok=True)
        frame = pd.DataFrame(rows, columns=COLUMNS)
        frame.to_csv(self.journal, mode="a", header=not self.journal.exists(), index=False)

    def pack(self):
        """One file of all rows, in an order of its own."""
        rows = self.read().sort_values(KEYS)
        rows[["score", "balanced"]] = rows[["score", "balanced"]].astype(float).round(4)
        rows["seconds"] = rows["seconds"].astype(float).round(3)
        rows = rows.astype({"score": "float32", "balanced": "float32", "seconds": "float32"})
        rows.to_parquet(self.packed, index=False, compression="zstd", compression_level=19)
        self.journal.unlink(missing_ok=True)
