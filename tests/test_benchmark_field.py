"""The comparison of methods in `examples/benchmarks`: public bounds, runs that resume, a report."""

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import skdpsco
from skdpsco.privacy import Budget

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
BENCHMARKS = Path(__file__).parents[1] / "examples" / "benchmarks"
SMALL = ["breast cancer", "diabetes"]
METHODS = ["DP gradient descent", "AdaSSP", "constant", "Ridge", "PrivateLasso"]
KEYS = ["track", "task", "data", "method", "epsilon", "split"]


@pytest.fixture
def field(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    names = ("data", "__main__", "measures", "methods", "results", "report", "runs")
    return SimpleNamespace(**{name: importlib.import_module(f"field.{name}") for name in names})


def options(folder, **more):
    defaults = {"data": None, "splits": 1, "epsilons": [1.0], "tasks": None, "only": SMALL}
    defaults["tracks"] = None
    rest = {"methods": METHODS, "jobs": 1, "until": None, "results": folder, "tuned": False}
    return SimpleNamespace(**(defaults | rest | more))


def test_run_resume_and_report(field, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(field.data, "CODEBOOK", {n: field.data.CODEBOOK[n] for n in SMALL})
    main = field.__main__
    main.run(options(tmp_path, methods=METHODS[:3]))
    first = field.results.Store(tmp_path).read()
    main.run(options(tmp_path))
    rows = field.results.Store(tmp_path).read()
    assert len(first) == 8  # on two tracks: the constant on both, and two methods
    assert len(rows) == 12  # and the ridge and the lasso
    assert "12 of" not in capsys.readouterr().out
    kept = rows.merge(first, on=KEYS)
    np.testing.assert_allclose(kept["score_x"], kept["score_y"])  # not measured again
    assert (rows["failure"] == "").all()
    assert rows["score"].le(1.0).all()
    main.run(options(tmp_path, methods=["AdaSSP [share=0.1]"], tuned=True))
    assert json.loads((tmp_path / "machine.json").read_text())["packages"]["numpy"]
    (tmp_path / "_static").mkdir()
    (tmp_path / "field").mkdir()
    pages = [tmp_path / "field.md", tmp_path / "field" / "tables.md"]
    for page in pages:
        old = f"Before\n{field.report.BEGIN}old{field.report.END}\nAfter\n"
        page.write_text(old, encoding="utf-8")
    field.report.write(tmp_path, tmp_path)
    summary, tables = (page.read_text(encoding="utf-8") for page in pages)
    for text in (summary, tables):
        assert text.startswith("Before")
        assert text.endswith("After\n")
        assert "old" not in text
    assert "| raw, known | regression (1) |" in summary
    assert "| regression | known (1 data set" in tables
    more = field.report.more_tables(tmp_path)
    assert "| code book, known | diabetes (regression) |" in more
    tuned = more.split("## Loss to the best of the others, tuned")[1].split("##")[0]
    assert "| diabetes (regression) | AdaSSP" in tuned
    assert (tmp_path / "_static" / "field_shares.png").exists()


def test_categories_clipping_and_codes(field):
    entry = {
        "columns": {"a": [0, 10], "b": ["x", "y"], "c": ["p", "q", "r"]},
        "target": {"column": "t", "classes": ["no", "yes"]},
    }
    table = pd.DataFrame({"a": [5, 99], "b": ["y", "x"], "c": ["q", "?"], "t": ["no", "yes"]})
    domains = entry["columns"]
    X = field.data.encoded(domains, table)
    np.testing.assert_array_equal(X, [[0.5, 1, 0, 1, 0], [1, 0, 0, 0, 0]])
    X = field.data.encoded(domains, table, scaled=False)
    np.testing.assert_array_equal(X, [[5, 1, 0, 1, 0], [99, 0, 0, 0, 0]])
    assert field.data.training_ranges(domains, table)["a"] == [5, 99]
    raw, declared = (field.data.declarations(domains, raw) for raw in (True, False))
    assert set(raw) == {"b", "c"}
    assert declared["a"] == {"bounds": [0, 10]}
    y = field.data.target_of(entry, table)
    codes, sizes = field.data.coded(entry, table.assign(c=["q", "p"]), y)
    assert sizes == (8, 2, 3, 2)
    np.testing.assert_array_equal(codes, [[4, 1, 1, 0], [7, 0, 0, 1]])


def test_the_readme_says_what_was_measured(field):
    _, rows = field.report.known_rows(field.results.FOLDER)
    readme = (BENCHMARKS.parents[1] / "README.md").read_text(encoding="utf-8")
    assert field.report.expectations(rows) in readme


def test_the_raw_track_has_no_ranges(field):
    raw, book = (
        field.data.problem("regression", "diabetes", 0, track=track) for track in field.data.TRACKS
    )
    assert raw.schema == {}
    assert book.schema["bmi"] == {"bounds": [10.0, 50.0]}
    np.testing.assert_array_equal(raw.records, raw.frame.to_numpy(float))
    assert raw.records.max() > 1.0
    for problem in (raw, book):  # what others are told
        assert problem.X.min() >= 0.0
        assert problem.X.max() <= 1.0
    assert raw.y_range == [raw.y.min(), raw.y.max()]


def test_what_was_measured_is_of_one_state_of_this_version(field):
    _, rows = field.report.known_rows(field.results.FOLDER)
    assert field.report.state_of(rows).startswith(f"{skdpsco.__version__}, ")
    rows.loc[rows["method"].eq("PrivateRidge").idxmax(), "state"] = "another"
    with pytest.raises(ValueError, match="in several states"):
        field.report.state_of(rows)


@pytest.mark.parametrize("name", ["Hessian mixing", "Gaussian mixing", "DP Newton", "TukeyEM"])
def test_published_methods_find_a_line(field, name):
    rng, w = np.random.default_rng(0), [3.0, -2.0, 1.0]
    X, X_test = rng.random((2000, 3)), rng.random((500, 3))
    method = field.methods.all_methods()[name]
    y, target = (x @ w + 5.0 for x in (X, X_test))
    if "binary" in method.tasks:
        y, target = (np.where(x > 6.0, 1, 0) for x in (y, target))
    problem = SimpleNamespace(X=X, X_test=X_test, y=y)
    (found,) = method.run(problem, Budget(1e3, 1e-6), rng).values()
    assert np.mean(np.abs(found - target)) < 0.05


def test_needed_records_and_what_counts_as_ahead(field):
    keys = pd.MultiIndex.from_product(
        [["regression"], ["a", "b"], [0.1, 1.0]], names=["task", "data", "epsilon"]
    )
    table = pd.DataFrame({"PrivateRidge": [0.5, 0.95, 0.95, 1.0], "m": [0.6, 0.6, 0.2, 0.2]}, keys)
    public = pd.DataFrame(
        {"constant": [0.0, 0.0], "Ridge": [1.0, 1.0]}, keys.droplevel("epsilon").unique()
    ).reindex(columns=["constant", *field.report.LINEAR])
    rows = pd.DataFrame({"task": "regression", "data": ["a", "b"], "records": [1000, 500]})
    needed = field.report.records_needed(rows, table, public)
    assert needed["PrivateRidge"] == np.median([1000.0, 50.0])
    assert needed["m"] == np.inf
    (line,) = field.report.duel_lines(table)
    assert line == ["m", "1 of 2", "", "2 of 2", ""]


def test_methods_with_few_splits_are_compared_on_these(field):
    rows = pd.DataFrame(
        [("constant", np.inf, 0, 0.5), ("constant", np.inf, 1, 0.7), ("m", 1.0, 1, 0.8)],
        columns=["method", "epsilon", "split", "score"],
    ).assign(task="binary", data="a")
    failed = rows[2:].assign(method="failed", score=np.nan)
    table, public = field.report.means(pd.concat([rows, failed]))
    assert public.loc[("binary", "a"), "constant"] == pytest.approx(0.6)
    assert table.loc[("binary", "a", 1.0), "m"] == pytest.approx(0.7)
    assert table.loc[("binary", "a", 1.0), "failed"] == pytest.approx(0.6)
