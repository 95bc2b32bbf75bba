"""Measured rows: a journal that grows line by line, packed into one file at the end."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pandas as pd

from field.measures import MEASURES
from field.runs import COLUMNS, KEYS

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("skdpsco", "numpy", "scipy", "scikit-learn", "numba", "pandas")


def machine():
    """Versions, including those in the requirements of other environments, and the processor."""
    versions, pins = {}, {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "none"
    for path in sorted(Path(__file__).parent.glob("requirements*.txt")):
        lines = [line.split("==") for line in path.read_text().splitlines() if "==" in line]
        pins[path.name] = dict(lines)
    processor = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    return {
        "python": platform.python_version(),
        "processor": processor,
        "packages": versions,
    } | pins


class Store:
    """The rows in a folder: results.parquet (or .csv, without pyarrow) and journal.csv."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.journal = self.folder / "journal.csv"

    def read(self):
        """All rows, in a frame."""
        frames = [pd.DataFrame(columns=COLUMNS)]
        if (self.folder / "results.parquet").exists():
            frames.append(pd.read_parquet(self.folder / "results.parquet"))
        for path in (self.folder / "results.csv", self.journal):
            if path.exists():
                frames.append(pd.read_csv(path, keep_default_na=True))
        full = [frame for frame in frames if len(frame)] or frames[:1]
        rows = pd.concat(full, ignore_index=True).reindex(columns=COLUMNS)
        return rows.fillna({"failure": ""}).drop_duplicates(list(KEYS), keep="last")

    def keys(self):
        """Keys of the finished cells."""
        rows = self.read()[list(KEYS)]
        return set(rows.itertuples(index=False, name=None))

    def append(self, rows):
        self.folder.mkdir(parents=True, exist_ok=True)
        frame = pd.DataFrame(rows, columns=COLUMNS)
        frame.to_csv(self.journal, mode="a", header=not self.journal.exists(), index=False)

    def pack(self):
        """One file of all rows, in an order of its own, and a description of the machine."""
        rows = self.read().sort_values(list(KEYS))
        measures = [*MEASURES, "records", "seconds"]
        rows[measures] = rows[measures].astype("float32").round(5)
        try:
            rows.to_parquet(self.folder / "results.parquet", index=False, compression="zstd")
        except ImportError:
            rows.to_csv(self.folder / "results.csv", index=False)
        self.journal.unlink(missing_ok=True)
        text = json.dumps(machine(), indent=2)
        (self.folder / "machine.json").write_text(text + "\n", encoding="utf-8")
