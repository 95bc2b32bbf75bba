"""The comparison of methods: public bounds, runs that resume, a report."""

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
BENCHMARKS = Path(__file__).parents[1] / "examples" / "benchmarks"
SMALL = ["breast cancer", "diabetes"]
METHODS = ["DP gradient descent", "AdaSSP", "constant", "Ridge", "PrivateLasso"]


@pytest.fixture
def field(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    names = ("data", "__main__", "measures", "methods", "results", "report", "runs")
    return SimpleNamespace(**{name: importlib.import_module(f"field.{name}") for name in names})


def options(folder, **more):
    defaults = {"data": None, "splits": 1, "epsilons": [1.0], "tasks": None, "only": SMALL}
    rest = {"methods": METHODS, "jobs": 1, "until": None, "results": folder, "tuned": False}
    return SimpleNamespace(**(defaults | rest | more))


def test_run_resume_and_report(field, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(field.data, "CODEBOOK", {n: field.data.CODEBOOK[n] for n in SMALL})
    main = field.__main__
    main.run(options(tmp_path, methods=METHODS[:3]))
    first = field.results.Store(tmp_path).read()
    main.run(options(tmp_path))
    rows = field.results.Store(tmp_path).read()
    assert len(first) == 4  # the constant on both, and two methods
    assert len(rows) == 6  # and the ridge and the lasso
    assert "6 of" not in capsys.readouterr().out
    kept = rows.merge(first, on=["task", "data", "method", "epsilon", "split"])
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
    assert "| regression (1) |" in summary
    assert "| diabetes (regression) |" in tables
    tuned = tables.split("## Loss to the best of the others, tuned")[1].split("##")[0]
    assert "| diabetes (regression) | AdaSSP" in tuned
    assert (tmp_path / "_static" / "field_shares.png").exists()


def test_categories_clipping_and_codes(field):
    entry = {
        "columns": {"a": [0, 10], "b": ["x", "y"], "c": ["p", "q", "r"]},
        "target": {"column": "t", "classes": ["no", "yes"]},
    }
    table = pd.DataFrame({"a": [5, 99], "b": ["y", "x"], "c": ["q", "?"], "t": ["no", "yes"]})
    X, norm = field.data.encoded(entry, table)
    np.testing.assert_array_equal(X, [[0.5, 1, 0, 1, 0], [1, 0, 0, 0, 0]])
    assert norm == pytest.approx(3**0.5)
    y = field.data.target_of(entry, table)
    codes, sizes = field.data.coded(entry, table.assign(c=["q", "p"]), y)
    assert sizes == (8, 2, 3, 2)
    np.testing.assert_array_equal(codes, [[4, 1, 1, 0], [7, 0, 0, 1]])


def test_what_is_not_there_is_named(field):
    missing = field.data.unavailable(None)
    assert "Adult" in missing
    assert "breast cancer" not in missing


def test_failures_are_rows(field, monkeypatch):
    def fail(problem, budget, rng):
        assert problem.y_test is None
        raise ZeroDivisionError

    method = field.methods.Method(("regression",), fail)
    monkeypatch.setattr(field.runs, "all_methods", lambda: {"m": method})
    cell = field.runs.Cell("regression", "diabetes", "m", 0, (1.0,))
    (row,) = field.runs.measure(cell)
    assert row["failure"].startswith("ZeroDivisionError")
    assert np.isnan(row["score"])


def test_projected_marginals_are_those_of_the_records(field):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.integers(0, 2, (200, 1)), 4, axis=1) ^ (rng.random((200, 4)) < 0.2)
    problem = SimpleNamespace(X=X, sizes=(2,) * 4)
    run = field.methods.all_methods()["Gaussian marginals, projected"].run
    table = run(problem, SimpleNamespace(mu=1e4), rng)["table"]
    errors = field.measures.marginal_errors(X, table, problem.sizes, 3)
    assert max(error.max() for error in errors) < 0.02


def test_settings_are_methods_of_their_own(field):
    settings = field.methods.all_settings()
    assert set(settings).isdisjoint(field.methods.all_methods())
    found = field.__main__.chosen(["AdaSSP", "Ridge"], field.methods.all_methods())
    assert set(found) == {"AdaSSP", "Ridge"}  # and not what has these in its name
    assert len(field.__main__.chosen(["boosted"], settings)) > 1
    setting = settings["AdaSSP [share=0.1]"].run
    assert setting.keywords == {"share": 0.1}


def test_the_readme_says_what_was_measured(field):
    _, rows = field.report.known_rows(field.results.FOLDER)
    readme = (BENCHMARKS.parents[1] / "README.md").read_text(encoding="utf-8")
    assert field.report.expectations(rows) in readme
