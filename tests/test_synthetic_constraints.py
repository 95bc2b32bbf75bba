"""Constraints that hold in all synthetic records."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from cases import costs_nothing
from query_answers import true_answers

from skdpsco import PrivateSynthesizer, Schema
from skdpsco.solvers.synthesis.possible_records import MAX_BOXES, legal_cells, linked_columns
from skdpsco.solvers.synthesis.workload import Marginals, QueryProblem
from skdpsco.synthesis import Bins
from skdpsco.synthesis.columns import columns_in

# Seeds make the tests deterministic; tests/test_random.py tests the warning.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

N = 3000
RNG = np.random.default_rng(0)
CITIES = {f"{state}{i}": state for state in "ABC" for i in range(4)}
INCOME = RNG.gamma(2.0, 10_000.0, N).astype("float32")
AGE, CITY = RNG.integers(0, 91, N), RNG.choice(list(CITIES), N)
MARRIED = (AGE >= 16) & (RNG.random(N) < 0.5)
FRAME = pd.DataFrame(
    {
        "age": AGE,
        "married": MARRIED,
        "partner_income": np.where(MARRIED, np.minimum(INCOME, 600 * AGE), 0).astype("float32"),
        "city": CITY,
        "state": [CITIES[city] for city in CITY],
        "visit": np.where(MARRIED, RNG.integers(0, 3, N), np.nan),
        "height": RNG.normal(170.0, 10.0, N),
    }
)
SCHEMA = Schema(
    {
        "age": {"bounds": [0, 90], "integer": True},
        "married": "boolean",
        "partner_income": {"bounds": [0, 200_000]},
        "city": list(CITIES),
        "state": list("ABC"),
        "visit": {"bounds": [0, 2], "integer": True, "missing": True},
        "height": {"bounds": [100, 220]},
    }
)
CONSTRAINTS = [
    ({"age": (-math.inf, 16)}, {"married": False}),
    ({"married": False}, {"partner_income": 0, "visit": None}),
    *(({"city": city}, {"state": state}) for city, state in CITIES.items()),
    ({"age": [16, 17, (18, 21)]}, {"partner_income": [0, (0, 54_321.5)]}),
]


def fitted(X=FRAME, domain=SCHEMA, constraints=CONSTRAINTS, **params):
    return PrivateSynthesizer(
        domain=domain, constraints=constraints, order=2, random_state=0, **params
    ).fit(X)


def broken(table):
    """Number of records that break each of the constraints above."""
    age, single = table["age"], ~table["married"].astype(bool)
    young = (age >= 16) & (age < 21)
    return [
        ((age < 16) & ~single).sum(),
        (single & ((table["partner_income"] != 0.0) | table["visit"].notna())).sum(),
        (table["state"] != table["city"].map(CITIES)).sum(),
        (young & (table["partner_income"] >= 54_321.5)).sum(),
    ]


def test_possible_cells_are_those_that_no_constraint_forbids():
    """For random boxes, all cells of all tables; boxes are disjoint."""
    rng, shape = np.random.default_rng(1), (3, 2, 4, 3)
    cells = np.indices(shape).reshape(4, -1).T
    for _ in range(50):
        boxes = []
        for _ in range(rng.integers(1, 5)):
            columns = rng.choice(4, rng.integers(1, 4), replace=False)
            boxes.append({int(j): rng.random(shape[j]) < 0.5 for j in columns})
        hit = [np.all([m[cells[:, j]] for j, m in box.items()], axis=0) for box in boxes]
        expected = ~np.any(hit, axis=0).reshape(shape)
        if not expected.any():
            with pytest.raises(ValueError, match=r"^constraints\[\d\] and those before it leave"):
                linked_columns([[box] for box in boxes], shape)
            continue
        possible = linked_columns([[box] for box in boxes], shape)
        for columns in itertools.chain(
            *(itertools.combinations(range(4), k) for k in (1, 2, 3, 4))
        ):
            others = tuple(set(range(4)) - set(columns))
            assert (legal_cells(possible, columns, shape) == expected.any(axis=others)).all()
        for linked in possible:
            found = [
                legal_cells([linked._replace(boxes=[b])], linked.columns, shape)
                for b in linked.boxes
            ]
            assert np.sum(found, axis=0).max() == 1


def error(model, X):
    """Mean total variation of the answers from those of records."""
    domain = model.domain_
    problem = QueryProblem(domain.shape, Marginals(2), N)
    away = np.abs(model.answers_ - true_answers(problem, domain.encode(columns_in(X)))).sum()
    return away / len(model.tables_) / 2


@pytest.mark.parametrize("dense", [False, True])
def test_constraints_hold_in_every_record_and_make_answers_better(dense):
    X = FRAME.drop(columns="height") if dense else FRAME
    assert broken(X) == [0] * 4
    for epsilon in (0.1, 3.0):
        free, model = (fitted(X, constraints=c, epsilon=epsilon) for c in (None, CONSTRAINTS))
        assert model.domain_.dense == dense
        assert error(model, X) < error(free, X)
        table = model.sample(20_000, random_state=0)
        assert broken(table) == [0] * 4
        assert list(table.dtypes) == list(X.dtypes)
        assert sum(broken(free.sample(20_000, random_state=0))) > 100
    drawn, real = (pd.crosstab(t["city"], t["state"], normalize=True) for t in (table, X))
    assert np.abs(drawn - real).sum().sum() < 0.2


def test_constraints_name_numbers_that_a_column_rounds():
    X = FRAME[["height"]].assign(rate=np.float32(0.1), code=np.float32(99.9))
    declared = {"bounds": [0, 10], "missing": [99.9]}
    schema = Schema({**SCHEMA.to_dict()["columns"], "rate": [0.1, 0.2, 0.3], "code": declared})
    fit = fitted(X, schema, [({"rate": 0.1}, {"code": 99.9})])
    found = fit.query(("rate", "code"))[0]
    assert found.max() > 0.9
    assert found.max() == pytest.approx(found.sum())


def test_constraints_on_an_array_by_position():
    X = np.stack([RNG.integers(0, 3, N), RNG.normal(0.0, 5.0, N)], axis=1)
    bins = [Bins([0, 1, 2, 3], integer=True), Bins([-9, -1, 0, 1, 9])]
    table = fitted(X, bins, [({0: 0}, {1: (-1, 1)}), ({0: (1, 9)}, {1: [(-9, -1), (1, 99)]})])
    drawn = table.sample(5000, random_state=0)
    assert ((np.abs(drawn[:, 1]) < 1.0) == (drawn[:, 0] == 0)).all()


@pytest.mark.parametrize(
    "constraints",
    [
        {"city": "A1"},
        [{"city": "A1"}],
        [({"city": "A1"}, {})],
        [({"town": "A1"}, {"state": "A"})],
        [({"city": "A1"}, {99: "A"})],
        [({"age": (91, 200)}, {"married": False})],
        [({"city": "A1"}, {"height": [(120, 200), (300, 400)]})],
        [({"city": "Z"}, {"state": "A"})],
        [({"city": "A1"}, {"visit": (3, 1)})],
        [({"city": "A1"}, {"height": 170})],
        [({"age": list(range(1, 60, 2))}, {"city": "A1"})],
        [({"state": "A"}, {"city": []})],
        [
            ({"married": [False, True]}, {"state": "A"}),
            ({"state": "A"}, {"city": "B1"}),
            ({"city": "B1"}, {"state": "B"}),
        ],
    ],
)
def test_bad_constraints_are_refused_before_the_charge(constraints):
    model = PrivateSynthesizer(domain=SCHEMA, constraints=constraints)
    costs_nothing(model, r"constraints", FRAME)


def test_a_column_that_is_not_there_is_named_with_its_constraint():
    wrong = [({"city": "A1"}, {"state": "A"}), ({"state": "A"}, {"town": "A1"})]
    model = PrivateSynthesizer(domain=SCHEMA, constraints=wrong)
    costs_nothing(model, r"^constraints\[1\] must name columns that X has once, got 'town'", FRAME)


def test_dates_that_are_not_declared_are_shown_as_dates():
    days = np.datetime64("2024-01-01") + np.arange(N) % 300
    schema = Schema({"seen": {"bounds": ["2024-01-01", "2024-12-31"]}, "city": list(CITIES)})
    X = FRAME[["city"]].assign(seen=days)
    for dates, shown in (
        ("2025-02-01", "'2025-02-01'"),
        (("2025-02-01", "2025-03-01"), r"\['2025-02-01', '2025-03-01'\]"),
    ):
        model = PrivateSynthesizer(domain=schema, constraints=[({"seen": dates}, {"city": "A1"})])
        costs_nothing(model, rf"^domain\['seen'\] does not declare {shown}, which", X)


def test_too_many_boxes_and_other_solvers_are_refused():
    shape = (MAX_BOXES + 1,) * 2
    unequal = [
        [{0: np.arange(shape[0]) == k, 1: np.arange(shape[0]) != k}] for k in range(shape[0])
    ]
    with pytest.raises(ValueError, match="into more than 256 boxes"):
        linked_columns(unequal, shape)
    with pytest.raises(ValueError, match="constraints need solver='measure-project'"):
        fitted(solver="select-measure")
