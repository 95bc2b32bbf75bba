"""Moments from the result of one query: its sums are exact, and the release is that of records."""

import sqlite3
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from skdpsco import Ledger, PrivacyWarning, PrivateMoments, PrivateRidge
from skdpsco.moments import MomentsQuery

N = 4000
RNG = np.random.default_rng(0)
BOUNDS = {"age": 90.0, "the dose": 3.0, 'of "it"': 0.3, "y": 2.0}
X = RNG.uniform(-1.2, 1.2, (N, 4)) * list(BOUNDS.values())  # some values are beyond the bounds
X[:6, 0] = [90.0, -90.0, 90.1, -1e300, 1e-300, -0.0]
QUERY = MomentsQuery("records", BOUNDS, N, target="y")


def sums_of(X, query=QUERY):
    """What the query returns, with NumPy's integers."""
    bounds = np.array(list(query.bounds.values()))
    q = np.floor(np.clip(X, -bounds, bounds) * (query.steps / bounds) + 0.5).astype(np.int64)
    upper = np.triu_indices(len(bounds))
    return [len(X), len(X), *q.sum(axis=0).tolist(), *(q.T @ q)[upper].tolist()]


def released(query, sums, **parameters):
    with pytest.warns(PrivacyWarning, match="random_state"):
        return PrivateMoments.from_sums(query, sums, random_state=0, **parameters)


def on_sqlite(X, columns="double"):
    base = sqlite3.connect(":memory:")
    names = ", ".join('"{}" {}'.format(n.replace('"', '""'), columns) for n in BOUNDS)
    base.execute(f"create table records ({names})")
    base.executemany("insert into records values (?, ?, ?, ?)", X.tolist())
    return base


def on_duckdb(X, columns="double"):
    duckdb = pytest.importorskip("duckdb", reason="answers the query")
    base = duckdb.connect()
    base.register("numbers", pd.DataFrame(X, columns=[*"abcd"]))
    names = ", ".join(
        '{}::{} as "{}"'.format(c, columns, n.replace('"', '""'))
        for c, n in zip("abcd", BOUNDS, strict=True)
    )
    base.execute(f"create table records as select {names} from numbers order by random()")
    return base


@pytest.mark.parametrize("database", [on_sqlite, on_duckdb])
def test_the_sums_of_a_database_are_exact(database):
    assert list(database(X).execute(QUERY.sql).fetchone()) == sums_of(X)
    # The largest sums: every value is at a bound, and n * steps**2 = 2**62.
    extreme = np.repeat([[1e9, -1e9, 1e9, -1e9]], 4096, axis=0)
    query = MomentsQuery("records", BOUNDS, 4096, target="y")
    found = database(extreme).execute(query.sql).fetchone()
    assert list(found) == sums_of(extreme, query)
    assert max(map(abs, found)) == 2**62


def test_other_types_and_dialects():
    pytest.importorskip("sqlglot", reason="writes other dialects")
    texts = {name: QUERY.to_sql(name) for name in ("snowflake", "bigquery", "postgres", "spark")}
    assert len(set(texts.values())) == 4
    assert "`the dose`" in texts["bigquery"]
    assert "DOUBLE PRECISION" in texts["postgres"]
    found = on_sqlite(X).execute(QUERY.to_sql("sqlite")).fetchone()
    assert list(found) == sums_of(X)
    with pytest.raises(ValueError, match="dialect must be one that sqlglot knows"):
        QUERY.to_sql("cobol")
    rounded = np.round(X[6:], 2)
    query = MomentsQuery("(select * from records) as r", BOUNDS, N - 6, target="y")
    found = on_duckdb(rounded, "decimal(9, 2)").execute(query.sql).fetchone()
    assert list(found) == sums_of(rounded, query)


def test_the_release_is_that_of_the_same_records():
    names = list(BOUNDS)
    found = released(QUERY, sums_of(X), epsilon=2.0, delta=1e-7)
    model = PrivateMoments(
        feature_bound=[90.0, 3.0, 0.3],
        target_bound=2.0,
        conditioning=None,
        random_state=0,
        epsilon=2.0,
        delta=1e-7,
    )
    with pytest.warns(PrivacyWarning, match="random_state"):
        wanted = model.fit(X[:, :3], X[:, 3])
    bounds = np.array(list(BOUNDS.values()))
    assert found.moments_.names == tuple(names)
    assert found.feature_names_in_.tolist() == names[:3]
    assert found.moments_.measured[0][1].deviation == wanted.moments_.measured[0][1].deviation
    assert found.mean_ / bounds == pytest.approx(wanted.mean_ / bounds, abs=1e-6)
    scale = np.outer(bounds, bounds)
    assert found.covariance_ / scale == pytest.approx(wanted.covariance_ / scale, abs=1e-6)
    for name in ("epsilon", "delta", "rho"):
        assert getattr(found.privacy_, name, None) == getattr(wanted.privacy_, name, None)
    assert any("a database clipped" in line for line in found.privacy_.assumptions)
    assert PrivateRidge().fit(found).coef_.shape == (3,)
    assert found.get_params()["feature_bound"] == [90.0, 3.0, 0.3]


def test_several_targets_none_and_rows_by_name():
    two = MomentsQuery("records", BOUNDS, N, target=["age", "y"])
    order = list(two.bounds)
    assert order == ["the dose", 'of "it"', "age", "y"]
    some = X[:, [list(BOUNDS).index(name) for name in order]]
    row = dict(zip(two.columns, map(Decimal, sums_of(some, two)), strict=True))
    found = released(two, row)
    assert found.moments_.n_targets == 2
    assert PrivateRidge().fit(found.select(target="age")).coef_.shape == (2,)
    none = MomentsQuery("records", BOUNDS, N)
    assert released(none, sums_of(X, none)).moments_.n_targets == 0


@pytest.mark.parametrize("n", [1, 100, 4096, 4097, 10**6, 2**30])
def test_every_sum_fits_into_64_bits(n):
    steps = MomentsQuery("t", {"x": 1.0}, n).steps
    assert 2**16 <= steps <= 2**26
    assert n * steps**2 <= 2**62 < max(4 * n * steps**2, 2**62 + (steps == 2**26))


# ------------------------------------------------------------------------------ refusals


def changed(place, value):
    row = sums_of(X)
    row[place] = value
    return row


LARGEST = N * QUERY.steps
REFUSED = {
    "another number of records": (changed(0, N + 1), "n_samples=4000 records were declared"),
    "missing values": (changed(1, N - 1), "sums must be of records without NULL"),
    "a NULL": (changed(3, None), "must be the row that the query returns, of 16 whole numbers"),
    "a fraction": (changed(4, 0.5), "must be the row that the query returns"),
    "a decimal fraction": (changed(4, Decimal("0.5")), "must be the row that the query returns"),
    "a float": (changed(0, float(N)), "must be the row that the query returns"),
    "a short row": (sums_of(X)[:-1], "must be the row that the query returns"),
    "no row": (None, "must be the row that the query returns"),
    "names": ({"n": N}, "must be the row that the query returns"),
    "a sum without clipping": (changed(2, LARGEST + 1), "must be those of this query"),
    "a negative one": (changed(5, -LARGEST - 1), "must be those of this query"),
    "a product without clipping": (changed(-1, LARGEST * QUERY.steps + 1), "must be those of this"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_the_result_is_refused_before_the_charge(kind):
    sums, message = REFUSED[kind]
    ledger = Ledger(5.0, 1e-5)
    with pytest.raises((TypeError, ValueError), match=message):
        PrivateMoments.from_sums(QUERY, sums, ledger=ledger)
    assert ledger.charges() == []


@pytest.mark.parametrize("database", [on_sqlite, on_duckdb])
@pytest.mark.parametrize("value", [None, np.nan, np.inf, -np.inf])
def test_missing_values_are_counted(database, value):
    missing = X.astype(object)
    missing[7, 2] = value
    if database is on_duckdb:
        missing = missing.astype(float)
    found = database(missing).execute(QUERY.sql).fetchone()
    assert found[:2] == (N, N - 1)


def test_wrong_declarations_are_named():
    for arguments, message in (
        (("", BOUNDS, N), "table must"),
        (("t", {}, N), "bounds must"),
        (("t", {"x": 0.0}, N), "the bound of 'x' must be"),
        (("t", {1: 1.0}, N), "bounds must have the names"),
        (("t", BOUNDS, 2**30 + 1), "n_samples must be"),
        (("t", BOUNDS, N, "z"), "target must be among"),
        (("t", {"y": 1.0}, N, "y"), "bounds must have a column that is not a target"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            MomentsQuery(*arguments)
    with pytest.raises(TypeError, match="query must be a MomentsQuery"):
        PrivateMoments.from_sums("select 1", sums_of(X))
