"""The comparison of methods in `examples/benchmarks`: public bounds, runs that resume, a report."""

import importlib
import json
from itertools import permutations, product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import laplace

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


def test_failures_are_rows(field, monkeypatch):
    def fail(problem, budget, rng):
        assert problem.y_test is None
        raise ZeroDivisionError

    method = field.methods.Method(("regression",), fail)
    monkeypatch.setattr(field.runs, "all_methods", lambda: {"m": method})
    cell = field.runs.Cell("raw", "regression", "diabetes", "m", 0, (1.0,))
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


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        ("Hessian mixing", 1e3),
        ("Gaussian mixing", 1e3),
        ("DP Newton", 10.0),  # with more, its ridge shrinks faster than the noise of its steps
        ("TukeyEM", 1e3),
    ],
)
def test_published_methods_find_a_line(field, name, epsilon):
    rng, w = np.random.default_rng(0), [3.0, -2.0, 1.0]
    X, X_test = rng.random((2000, 3)), rng.random((500, 3))
    method = field.methods.all_methods()[name]
    y, target = (x @ w + 5.0 for x in (X, X_test))
    if "binary" in method.tasks:
        y, target = (np.where(x > 6.0, 1, 0) for x in (y, target))
    problem = SimpleNamespace(X=X, X_test=X_test, y=y)
    errors = []
    for _ in range(7):  # at most one in a hundred errors of DP Newton is too large
        (found,) = method.run(problem, Budget(epsilon, 1e-6), rng).values()
        errors.append(np.mean(np.abs(found - target)))
    assert np.median(errors) < 0.05


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


@pytest.fixture
def tukey(field):
    return importlib.import_module("field.methods.tukey")


def depth_of(models, points):
    """The least number of models on either side of a point, over all columns."""
    below = (models[None] <= points[:, None]).sum(axis=1)
    above = (models[None] >= points[:, None]).sum(axis=1)
    return np.minimum(below, above).min(axis=1)


def replaced(models, rng):
    """Some models instead of one: within the others, far away, or equal to one of them."""
    for value in (*rng.normal(size=(6, models.shape[1])), 3e6, -3e6, models[1]):
        neighbour = models.copy()
        neighbour[0] = value
        yield neighbour


def density_of(models, a, points, lengths):
    """The density, in one dimension, of a draw without the test of a distance, on cells."""
    depth = depth_of(models, points)
    weight = np.where(depth >= len(models) // 4, np.exp(a * depth), 0.0)
    return weight / (weight @ lengths)


def test_tukey_em_counts_models_around_a_point(tukey):
    rng = np.random.default_rng(0)
    models, points = rng.normal(size=(13, 2)), 0.7 * rng.normal(size=(400, 2))
    boxes, depth = tukey.Boxes(models, 0.3), depth_of(models, points)
    within = (boxes.low[None] <= points[:, None]) & (points[:, None] <= boxes.high[None])
    np.testing.assert_array_equal(within.all(axis=2).sum(axis=1), np.minimum(depth, 6))
    for neighbour in replaced(models, rng):
        assert np.abs(depth_of(neighbour, points) - depth).max() <= 1


@pytest.mark.parametrize("far", range(9))  # models on either side: a quarter of them is 8
def test_tukey_em_tests_a_distance_that_a_replaced_model_moves_by_one(tukey, far):
    rng, delta, found = np.random.default_rng(far), 0.05, set()
    for a, power in product((0.5, 1.0, 2.0, 4.0), (1, 9)):
        models = rng.normal(size=(32, 1)) ** power
        models[1 : 1 + far] += 1e6
        models[32 - far :] -= 1e6
        distance = tukey.Boxes(models, a).distance(delta)
        found.add(distance)
        for neighbour in replaced(models, rng):
            moved = tukey.Boxes(neighbour, a).distance(delta)
            assert abs(moved - distance) <= 1
            ends = np.unique(np.vstack([models, neighbour]))
            cells = 0.5 * (ends[1:] + ends[:-1])[:, None], np.diff(ends)
            p, q = (density_of(x, a, *cells) for x in (models, neighbour))
            for one, other, safe in ((p, q, distance), (q, p, moved)):
                if safe:  # at most delta lies above exp(2 a) times the other density
                    assert np.maximum(one - np.exp(2 * a) * other, 0.0) @ cells[1] <= delta
    assert found > {0}
    assert tukey.Boxes(np.ones((32, 1)), 1.0).distance(delta) == 0  # no volume


def test_tukey_em_draws_deep_points(tukey):
    rng, n = np.random.default_rng(2), 20_000
    models = rng.normal(size=(16, 1))
    boxes = tukey.Boxes(models, 0.4)
    drawn = depth_of(models, np.array([boxes.draw(rng) for _ in range(n)]))
    ends = np.sort(models[:, 0])
    cells, lengths = 0.5 * (ends[1:] + ends[:-1])[:, None], np.diff(ends)
    mass = density_of(models, 0.4, cells, lengths) * lengths
    for depth in range(1, 9):
        share = mass[depth_of(models, cells) == depth].sum()
        error = np.sqrt(share * (1.0 - share) / n)
        assert abs(np.mean(drawn == depth) - share) <= 4.5 * error


@pytest.mark.parametrize("distance", [0, 2, 9])
def test_tukey_em_releases_with_the_probability_of_laplace_noise(tukey, monkeypatch, distance):
    rng, n, epsilon, delta = np.random.default_rng(distance), 4000, 1.0, 0.1
    A, y, released = rng.random((16, 2)), rng.random(16), 0
    monkeypatch.setattr(tukey.Boxes, "distance", lambda self, delta: distance)
    for _ in range(n):
        try:
            tukey.tukey_em(A, y, epsilon, delta, rng)
            released += 1
        except tukey.Refused:
            pass
    noise = laplace(scale=2.0 / epsilon)  # epsilon / 2 for a number that moves by 1
    share = noise.sf(noise.isf(delta) - distance)
    assert abs(released / n - share) <= 4.5 * np.sqrt(share * (1.0 - share) / n)


def test_kendall_counts_pairs_of_which_a_record_moves_few(tukey):
    rng = np.random.default_rng(4)
    x, y = rng.integers(0, 6, 30), rng.integers(0, 9, 30)  # with ties

    def pairs(x, y):
        signs = [np.sign(z[:, None] - z[None]) for z in (x, y)]
        return 0.5 * (signs[0] * signs[1]).sum() / (len(x) - 1)

    for one, other in ((x, y), (y, x), (x, x), (x, 0 * y)):
        assert tukey.correlation(one, other) == pytest.approx(pairs(one, other))
    ordered = np.arange(30)
    largest = 0.0
    for one, other in ((x, y), (ordered, ordered)):
        for k, (a, b) in enumerate(rng.integers(-40, 40, (30, 2))):
            moved, with_it = one.copy(), other.copy()
            moved[k], with_it[k] = a, b
            change = tukey.correlation(moved, with_it) - tukey.correlation(one, other)
            largest = max(largest, abs(change))
    assert 1.0 < largest <= 2.0


def test_kendall_leaves_out_copies_of_a_column(tukey):
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=(2, 3000))
    X = np.column_stack([x, x, rng.normal(size=3000), z])
    chosen = tukey.dp_kendall(X, 2.0 * x + z, 2, 1e6, rng)
    assert set(chosen) in ({0, 3}, {1, 3})


def test_kendall_selects_columns_by_exponential_mechanisms(tukey, monkeypatch):
    rng, n, epsilon = np.random.default_rng(6), 20_000, 4.0
    table = np.abs(rng.normal(scale=5.0, size=(3, 4)))  # of a column and another, or the target
    monkeypatch.setattr(tukey, "correlation", lambda x, y: table[x[0], y[0]])
    X, y = np.arange(3)[None], np.array([3])
    drawn = [tuple(tukey.dp_kendall(X, y, 2, epsilon, rng)) for _ in range(n)]
    # A replaced record moves scores by 2, then by 4, and each of the two choices has epsilon / 2.
    first = np.exp(table[:, 3] * epsilon / 8.0)
    for one, other in permutations(range(3), 2):
        rest = np.exp((table[:, 3] - table[:, one]) * epsilon / 16.0)
        rest[one] = 0.0
        share = first[one] / first.sum() * rest[other] / rest.sum()
        error = np.sqrt(share * (1.0 - share) / n)
        assert abs(drawn.count((one, other)) / n - share) <= 4.5 * error
