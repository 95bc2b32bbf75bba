"""Mistakes of users of PrivateSynthesizer, which draw no noise; extreme input."""

import math

import numpy as np
import pandas as pd
import pytest
import test_bad_input as bad_input
from cases import each
from scipy import sparse
from sklearn.base import clone

from skdpsco import Ledger, PrivateSynthesizer, RowBlocks, Schema
from skdpsco.synthesis import Bins

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

NAN, INF = math.nan, math.inf
N = 60
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.integers(0, 2, N), "b": RNG.choice(["u", "v"], N)})
MODEL = PrivateSynthesizer(domain=[2, ["u", "v"]])


@pytest.fixture(scope="module")
def fitted():
    return clone(MODEL).fit(FRAME)


def refuses(match, X=FRAME, **params):
    model = clone(MODEL).set_params(random_state=0)
    fit = clone(model).fit(FRAME)
    bad_input.refuses(model.set_params(**params), match, X, None, fit=fit)


WHAT = "workload must be 'marginals', a list of tuples of columns, an array"
TABLES = "workload is not legal. tables must"
MATRIX = "workload is not legal. matrix must"
NUMBERS = "workload must have functions that return one number for each of 4 cells"


@pytest.mark.parametrize(
    ("workload", "match"),
    [
        *((w, WHAT) for w in ("all", None, 3, [], (), {"a": 1}, {1}, [1, 2], ["a", "b"])),
        ([("a", "b"), len], WHAT),
        (FRAME, "got an object of type DataFrame"),
        ([("a", "z")], "workload is not legal. X must have one column of the name 'z'"),
        ([("a", 2)], rf"{TABLES} name columns 0, ..., 1, got 2"),
        ([(0, 0)], rf"{TABLES} have different columns"),
        ([(0, -1)], rf"{TABLES} have different columns"),
        ([()], rf"{TABLES} be a list of tuples"),
        ([(0, 1.0)], rf"{TABLES} have columns that are numbers"),
        ([(0, 1), (0, 1)], rf"{TABLES} not name the same columns twice"),
        (np.zeros((2, 3)), rf"{MATRIX} have one column for each of the 4 cells of the domain, got"),
        (np.zeros(4), rf"{MATRIX} have shape \(n_queries, n_cells\), got shape \(4,\)"),
        (np.full((1, 4), NAN), rf"{MATRIX} have finite numbers"),
        (np.full((1, 4), 1j), rf"{MATRIX} have real numbers"),
        ([lambda X: 1.0], NUMBERS),
        ([lambda X: X], NUMBERS),
        ([lambda X: X["a"][:3]], NUMBERS),
        ([lambda X: X["b"]], NUMBERS),
        ([lambda X: X["a"] * NAN], rf"{MATRIX} have finite numbers"),
    ],
)
def test_workloads(workload, match):
    refuses(match, workload=workload)


@pytest.mark.parametrize("target", ["z", -1, 99, True])
def test_targets(target):
    match = "target is not legal. (It must be the name of a column|X must have one column)"
    refuses(match, target=target)


@pytest.mark.parametrize("solver", ["auto", "measure-project"])
def test_solvers_that_measure_once(solver):
    match = rf"^n_iter must be 'auto' or 1 for solver='{solver}', which measures once; got 5"
    refuses(match, solver=solver, n_iter=5)


def test_workloads_of_large_domains():
    X = np.zeros((3, 21), dtype=int)
    model = PrivateSynthesizer(domain=2)
    for workload, match in (
        ([lambda X: X[:, 0]], r"workload must be tables of columns for a domain of more than 2"),
        (np.zeros((1, 4)), "workload is not legal. Linear queries need a domain of at most 1048"),
    ):
        with pytest.raises(ValueError, match=match):
            model.set_params(workload=workload).fit(X)
    model.set_params(workload="marginals", order=20)
    with pytest.raises(ValueError, match=r"workload is not legal\. tables must be at most 2"):
        model.fit(np.zeros((3, 200), dtype=int))


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (FRAME.assign(a=2), r"value in column 'a' that domain\['a'\] does not list"),
        (FRAME.assign(b=None), "domain|X contains NaN or another missing value in column 'b'"),
        (FRAME.assign(a=NAN), "X contains NaN or another missing value in column 'a'"),
        (sparse.csr_array(np.eye(2)), "[Ss]parse"),
        ([[0, "u"], [0]], "inhomogeneous|setting an array element|Expected 2D"),
    ],
)
def test_records(X, match):
    refuses(match, X=X)


DATES = pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2020-05-01"]), "b": ["u", "v"]})
OTHER = "X must hold dates, or strings such as '2024-01-31', in column 'a', "


@each(
    ("change", "error", "match"),
    [
        ({"a": 7}, TypeError, OTHER + "got dtype Int64"),
        ({"a": True}, TypeError, OTHER + "got dtype Boolean"),
        ({"a": ["2020-01-01", "secret"]}, ValueError, OTHER + "but it holds other values"),
        ({"a": ["2020-01-01", 737_425]}, ValueError, OTHER + "but it holds other values"),
        ({"a": [pd.NaT, pd.Timestamp(0)]}, ValueError, "another missing value in column 'a'"),
        ({"b": pd.Timestamp(0)}, ValueError, "in column 'b'. Turn dates into numbers first"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda X: X, RowBlocks.from_arrays])
def test_what_is_no_date_is_found_before_the_charge(wrap, change, error, match):
    ledger = Ledger(1.0, 1e-6)
    schema = Schema({"a": {"bounds": ["2020-01-01", "2020-12-31"]}, "b": ["u", "v"]})
    model = PrivateSynthesizer(domain=schema, ledger=ledger)
    with pytest.raises(error, match=match) as caught:
        model.fit(wrap(DATES.assign(**change)))
    assert "secret" not in str(caught.value)
    assert len(ledger.history()) == 0


@each(
    ("q", "match"),
    [
        *((q, "q must be a name of a column, a tuple") for q in (None, 3, {"a"}, 1.5)),
        ("z", "q is not legal. X must have one column of the name 'z'"),
        ((0, 2), "q is not legal. tables must name columns 0, ..., 1, got 2"),
        (np.zeros(3), "q is not legal. matrix must have one column for each of the 4 cells"),
        (np.full(4, NAN), "q is not legal. matrix must have finite numbers"),
        (lambda X: 0, "q must have functions that return one number for each of 4 cells"),
    ],
)
def test_queries(fitted, q, match):
    with pytest.raises((TypeError, ValueError), match=match):
        fitted.query(q)


def test_extremes():
    """One record, one cell, huge numbers; no warnings."""
    with np.errstate(all="raise"):
        one = PrivateSynthesizer(domain=1, random_state=0).fit([[0]])
        assert one.answers_ == pytest.approx([1.0])
        assert one.sample(3).tolist() == [[0]] * 3
        X = np.array([[1e308, -1e308], [0.0, 5e-324]])
        model = PrivateSynthesizer(domain=Bins([-1e100, 0, 1e100]), random_state=0).fit(X)
        assert np.isfinite(model.sample(100)).all()
        tiny = PrivateSynthesizer(domain=3, epsilon=0.001, random_state=0).fit([[0, 1], [2, 2]])
        assert tiny.query((0, 1)).sum() == pytest.approx(1.0)
        assert tiny.answers_.min() >= 0
