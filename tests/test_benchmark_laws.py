"""The benchmark of laws of data: the same tables in every state of the code, runs, comparisons."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
BENCHMARKS = Path(__file__).parents[1] / "examples" / "benchmarks"


QUICK = {"quick": True, "only": ["small_normal"], "models": ["PrivateRidge"], "jobs": 1}


@pytest.fixture(scope="module")
def laws():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        names = ("__main__", "law", "references", "report", "results", "runs")
        yield SimpleNamespace(**{name: importlib.import_module(f"laws.{name}") for name in names})


def options_of(folder):
    return SimpleNamespace(labels=["old"], results=folder, seeds=None, **QUICK)


@pytest.fixture(scope="module")
def measured(laws, tmp_path_factory):
    """Rows of a quick run."""
    folder = tmp_path_factory.mktemp("laws")
    laws.__main__.run(options_of(folder))
    return laws.results.Store("old", folder).read()


def test_tables_follow_from_law_and_seed(laws):
    failed = []
    for (name, task), law in laws.law.LAWS.items():
        n = law.design[0].n
        first, second = law.table(n, 0), law.table(n, 0)
        dense = [part.toarray() if sparse.issparse(part) else part for part in first[0]]
        again = [part.toarray() if sparse.issparse(part) else part for part in second[0]]
        other = law.table(n, 1)[0][1]
        if not (
            all(len(part) == n and np.isfinite(part).all() for part in dense)
            and all(np.array_equal(*pair) for pair in zip(dense, again, strict=True))
            and not np.array_equal(dense[1], other)
            and len(first[1][1]) > 100
            and law.where.endswith(".")
        ):
            failed.append((name, task))
    assert not failed


def test_private_constant(laws):
    rng = np.random.default_rng(0)
    for centre, spread in ((0.0, 1.0), (1e6, 3.0), (-2e-4, 1e-4)):
        y = centre + spread * rng.normal(size=4000)
        for relation in ("replace-one", "add-or-remove-one"):
            found = laws.references.private_mean(y, 1.0, 1e-6, relation, rng)
            assert abs(found - centre) < 0.1 * spread
    assert laws.references.private_mean(y[:100], 0.1, 1e-6, "replace-one", rng) == 0.0
    assert laws.references.gaussian_mu(1.0, 1e-6) == pytest.approx(0.2356, rel=0.01)


def stored(laws, rows, folder):
    store = laws.results.Store("old", folder)
    store.append(rows)
    return store


def test_run_resume_and_compare(laws, measured, tmp_path, capsys):
    rows = measured.copy()
    assert (rows.failure == "").all()
    assert rows.score.le(1.0).all()
    stored(laws, rows, tmp_path)
    laws.__main__.run(options_of(tmp_path))
    assert "tables" not in capsys.readouterr().out  # none is measured again
    ridge = rows.model == "PrivateRidge"
    rows.loc[ridge & (rows.n == 800) & (rows.epsilon == 1.0), "score"] -= 0.5
    rows.loc[ridge & (rows.n == 500) & (rows.epsilon == 1.0), "score"] = -5.0
    new = laws.results.Store("new", tmp_path)
    new.append(rows)
    new.pack()
    laws.report.compare(["old", "new"], tmp_path)
    text = capsys.readouterr().out
    worse, rest = text.split("cells worse")[1].split("cells better")
    assert "-0.500 +- 0.000  small_normal (numbers), PrivateRidge, n 800, eps 1" in worse
    assert "n 1200" not in worse
    assert "the least -5  small_normal (numbers), PrivateRidge, n 500, eps 1" in rest
    laws.report.compare(["old"], tmp_path)
    assert "cells worse" not in capsys.readouterr().out
    laws.report.plot(["old", "new"], tmp_path)
    assert (tmp_path / "old_new.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("fall", "noise", "found"),
    [
        (0.0, 0.0, []),
        (0.01, 0.0, ["all cells", "model PrivateRidge"]),
        (0.06, 0.0, ["all cells", "model PrivateRidge", "law small_normal"]),
        (0.06, 0.5, []),  # which chance explains
    ],
)
def test_a_check_fails_where_means_are_less(
    laws, measured, tmp_path, monkeypatch, fall, noise, found
):
    rng = np.random.default_rng(0)
    scores = np.clip(measured.score, -0.4, None)
    for label in ("old", "older"):
        change = noise * rng.choice([-1.0, 1.0], len(measured)) + fall
        laws.results.Store(label, tmp_path).append(measured.assign(score=scores + change))
    rows = measured.assign(score=scores)
    monkeypatch.setattr(laws.runs, "measure", lambda job, done: laws_rows(rows, job))
    options = options_of(tmp_path)
    options.labels = ["old", "older"]
    if not found:
        return laws.__main__.check(options)
    with pytest.raises(SystemExit, match="Scores are below stored ones") as caught:
        laws.__main__.check(options)
    lines = str(caught.value).split("\n")[1:]
    assert [line.split("  ")[1] for line in lines] == found


def test_a_check_fails_where_fits_fail(laws, measured, tmp_path, monkeypatch):
    stored(laws, measured, tmp_path)
    rows = measured.assign(failure=np.where(measured.seed == 1, "ValueError", ""))
    monkeypatch.setattr(laws.runs, "measure", lambda job, done: laws_rows(rows, job))
    with pytest.raises(SystemExit, match="ValueError  small_normal"):
        laws.__main__.check(options_of(tmp_path))


def laws_rows(measured, job):
    """What was measured on the table of a job."""
    rows = measured[(measured.n == job.cells.n) & (measured.relation == job.cells.relation)]
    rows = rows[rows.model.isin(job.models) & rows.epsilon.isin([*job.cells.epsilons, np.inf])]
    return rows[rows.seed == job.seed].to_dict("records")
