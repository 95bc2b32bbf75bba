"""PrivateSynthesizer: as scikit-learn sees it, its answers, and what it must not reveal."""

import datetime
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from query_answers import true_answers
from scikit_learn_checks import scikit_learn_checks
from sklearn import config_context
from sklearn.base import clone

from skdpsco import Ledger, PrivateSynthesizer, RowBlocks, Schema
from skdpsco.mechanisms.samplers import deviation_on
from skdpsco.solvers.synthesis import measure_project
from skdpsco.solvers.synthesis.distributions import Histogram, ProductMixture
from skdpsco.solvers.synthesis.workload import Marginals, QueryProblem
from skdpsco.synthesis import Bins
from skdpsco.synthesis.columns import read_table
from skdpsco.synthesis.domain import declare
from skdpsco.synthesis.synthesizer import SYNTHESIS_SOLVERS

# Seeds make the tests deterministic; tests/test_random.py tests the warning.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

N = 2000
RNG = np.random.default_rng(0)
AGE = RNG.integers(0, 100, N)
FRAME = pd.DataFrame(
    {
        "age": AGE,
        "sex": pd.Categorical(RNG.choice(["f", "m"], N)),
        "ill": RNG.uniform(0, 100, N) < AGE,
        "stage": RNG.choice([1.0, 2.0, np.nan], N),
        "town": RNG.choice(["Bern", "Oslo"], N),
    }
)
POLARS = pl.DataFrame({name: FRAME[name].tolist() for name in FRAME})
DOMAIN = {
    "age": Bins([0, 18, 65, 100]),
    "sex": ["m", "f"],
    "ill": 2,
    "stage": [1, 2, None],
    "town": ["Bern", "Oslo", "Rome"],
}
MODEL = PrivateSynthesizer(domain=DOMAIN, random_state=0)
SURE = {"epsilon": 1e6, "delta": 0.5}  # as good as no noise


def fitted(X=FRAME, **params):
    return clone(MODEL).set_params(**params).fit(X)


def codes_of(X=FRAME, domain=DOMAIN):
    table = read_table(clone(MODEL), X)
    return declare(domain, table).encode(table.columns)


def truth(workload, shape=(3, 2, 2, 3, 3), codes=None):
    return true_answers(QueryProblem(shape, workload, N), codes_of() if codes is None else codes)


# --- scikit-learn


@scikit_learn_checks(PrivateSynthesizer(domain=Bins([-10, -1, 0, 1, 2, 100]), order=2))
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API:UserWarning")
def test_scikit_learn_checks(estimator, check):
    if "check_positive_only" in repr(check) and sklearn.__version__.startswith("1.6."):
        return  # for categorical input it subtracts a mean from integers that it has made itself
    check(estimator)


def test_attributes():
    model = fitted()
    section = re.search(r"Attributes\n    -+\n(.*?)\n\n", model.__doc__, re.DOTALL).group(1)
    documented = set(re.findall(r"^    (\w+_) :", section, re.MULTILINE))
    assert {name for name in vars(model) if name not in model.get_params()} == {
        *documented,
        "_n_fits",
    }
    assert model.n_features_in_ == 5
    assert model.feature_names_in_.tolist() == list(FRAME.columns)
    assert model.n_iter_ == 1
    assert_array_equal(model.answers_, model.distribution_.answers(Marginals(3)))
    assert_array_equal(model.distribution_.p.reshape(3, 2, 2, 3, 3), model.query(list(DOMAIN)))
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.answers_, model.answers_)
    assert again.sample(30, 0).equals(model.sample(30, 0))
    assert clone(model).get_params().keys() == model.get_params().keys()
    assert not hasattr(clone(model), "privacy_")
    assert "outer bins" in str(model.privacy_)


# --- answers


def functions():
    return [lambda X: X["age"] > 50, lambda X: X["ill"] & (X["sex"] == "f"), lambda X: X["age"]]


@pytest.mark.parametrize(
    ("params", "workload"),
    [
        ({}, Marginals(3)),
        ({"order": 1}, Marginals(1)),
        ({"order": 9}, Marginals(5)),
        (
            {"target": "ill"},
            Marginals([(2, 0), (2, 1), (2, 3), (2, 4)]),
        ),
        ({"target": 4, "order": 9}, Marginals([(4, 0, 1, 2, 3)])),
        ({"workload": [("ill", "age"), ("sex", 4), [2]]}, Marginals([(2, 0), (1, 4), (2,)])),
    ],
)
def test_answers_without_noise(params, workload):
    model = fitted(**SURE, **params)
    assert_allclose(model.answers_, truth(workload), atol=2e-4)
    assert model.tables_ == workload.columns(5)


@pytest.mark.parametrize("frame", [FRAME, POLARS], ids=["pandas", "polars"])
def test_functions_without_noise(frame):
    seen = []

    def spy(X):
        seen.append(X)
        return X["ill"] * 1.0

    model = fitted(frame, **SURE, workload=[*functions(), spy])
    (cells,) = seen  # once
    assert type(cells) is type(frame)
    assert cells.shape == (3 * 2 * 2 * 3 * 3, 5)
    ages = (AGE >= 18).astype(int) + (AGE >= 65)
    middle = np.array([8, 41, 82])
    ill = FRAME["ill"].to_numpy()
    exact = [(ages == 2).mean(), (ill & (FRAME["sex"] == "f")).mean(), middle[ages].mean()]
    assert np.abs(model.answers_ - [*exact, ill.mean()]).max() < 0.02  # numbers up to 82
    assert model.tables_ is None
    matrix = np.array([f(cells) for f in functions()], dtype=float)
    assert_array_equal(fitted(frame, workload=matrix).answers_,
                       fitted(frame, workload=functions()).answers_)  # fmt: skip
    assert_allclose(model.query(matrix[:2]), [model.query(f) for f in functions()[:2]])
    assert isinstance(model.query(matrix[0]), float)


def test_queries():
    model = fitted(**SURE)
    codes = codes_of()
    table = np.histogramdd(codes[:, [4, 0]], bins=[np.arange(4), np.arange(4)])[0] / N
    assert_allclose(model.query(("town", "age")), table, atol=2e-4)
    assert_array_equal(model.query((4, 0)), model.query(["town", "age"]))
    assert_allclose(model.query("age"), table.sum(axis=0), atol=2e-4)
    permuted = model.query(("town", "sex", "age"))
    assert_array_equal(permuted.transpose(2, 1, 0), model.query(("age", "sex", "town")))
    permuted[:] = 9  # a copy
    assert model.answers_.max() < 1


def test_larger_domains():
    X = RNG.integers(0, 2, (N, 22))
    X[:, 5] = X[:, 3] ^ X[:, 4]
    model = PrivateSynthesizer(domain=2, order=2, random_state=0, **SURE).fit(X)
    assert isinstance(model.distribution_, ProductMixture)
    assert isinstance(fitted().distribution_, Histogram)
    exact = truth(Marginals(2), (2,) * 22, X)
    assert_allclose(model.answers_, exact, atol=1e-3)
    # Closer than what the mixture says of them.
    one = model.query((4, 3))
    assert_array_equal(one, model.answers_[model.tables_.index((3, 4)) * 4 :][:4].reshape(2, 2).T)
    assert_array_equal(model.query((4, 3, 5)), model.distribution_.marginal((4, 3, 5)))
    assert model.sample(100).shape == (100, 22)
    for q in (lambda X: X[:, 0], np.zeros(2**22)):
        with pytest.raises(
            ValueError, match=r"^q .* domain of (more than 2\*\*20|at most 1048576)"
        ):
            model.query(q)


# --- samples


def test_samples_are_like_the_records():
    model = fitted(**SURE)
    frame = model.sample(20_000, random_state=0)
    assert list(frame.dtypes.drop("sex")) == list(FRAME.dtypes.drop("sex"))
    assert list(frame["sex"].cat.categories) == ["m", "f"]  # as declared, not as in the data
    # Sampling errors of shares are below .0036; false alarms of 6 of them: below 1e-6.
    drawn = truth(Marginals(2), codes=codes_of(frame))
    assert_allclose(drawn, truth(Marginals(2)), atol=6 * 0.0036)
    assert frame["age"].between(0, 100).all()
    assert frame["age"].nunique() == 101
    assert np.abs(frame["age"].mean() - AGE.mean()) < 6 * 29 / np.sqrt(20_000) + 1


def dated_tables():
    """Dates of birth as days, and the same dates in frames of all kinds and in blocks."""
    born = np.datetime64("1950-01-01") + np.random.default_rng(0).integers(0, 20_000, N)
    days = pd.DataFrame({"born": born.astype(int) + 719_163.0, "town": FRAME["town"]})
    dates = pd.DataFrame({"born": born.astype("datetime64[ns]"), "town": FRAME["town"]})
    days.loc[::7, "born"], dates.loc[::7, "born"] = np.nan, pd.NaT
    words = dates.assign(born=dates["born"].dt.strftime("%Y-%m-%d"))
    polars = pl.from_pandas(dates)
    frames = [dates, dates[::-1].set_index(dates.index)[::-1], words, polars]
    frames += [polars.with_columns(pl.col("born").cast(pl.Date)), polars.to_arrow()]
    return days, [*frames, RowBlocks.from_arrays(dates, block_size=300)]


def test_dates_are_fitted_as_days_and_come_back_as_dates():
    days, tables = dated_tables()
    bounds = ["1950-01-01", "2000-12-31"]  # a few dates are later
    towns = {"town": ["Bern", "Oslo"]}
    schema = Schema({"born": {"bounds": bounds, "missing": True}, **towns})
    ends = schema.columns["born"].bounds
    known = {"bounds": ends, "integer": True, "missing": True}
    expected = fitted(days, domain=Schema({"born": known, **towns}))
    numbers = expected.sample(500, random_state=0)["born"]
    dates = np.datetime64("0001-01-01", "D") + (numbers.fillna(1).astype(int).to_numpy() - 1)
    dates = pd.Series(np.where(numbers.isna(), np.datetime64("NaT"), dates))
    assert 0.05 < dates.isna().mean() < 0.25
    assert dates.dropna().between(*bounds).all()
    for X in tables:
        model = fitted(X, domain=schema)
        assert_array_equal(model.answers_, expected.answers_)
        for library, dtype in (("pandas", "datetime64[s]"), ("polars", "Date")):
            sample = model.set_output(transform=library).sample(500, random_state=0)
            assert str(sample["born"].dtype) == dtype
            assert_array_equal(sample["born"].to_numpy(), dates.to_numpy())
    assert isinstance(fitted(tables[3], domain=schema).sample(2), pl.DataFrame)


def test_persons_are_left_out():
    dates = dated_tables()[1][0]
    columns = {"born": {"bounds": ["1950-01-01", "2004-12-31"], "missing": True}}
    schema = Schema({**columns, "town": ["Bern", "Oslo"]}, person="name")
    params = {"domain": schema, "max_records_per_unit": 2}
    names = [f"n{i}" for i in range(N)]
    expected = clone(MODEL).set_params(**params).fit(dates, units=names)
    named = dates.assign(name=names)[["born", "name", "town"]]
    polars = pl.from_pandas(named)
    for X in (named, polars):
        model = clone(MODEL).set_params(**params).fit(X, units=names)
        assert_array_equal(model.answers_, expected.answers_)
        assert list(model.sample(3).columns) == list(model.feature_names_in_) == ["born", "town"]
    ledger = Ledger(100.0, 1e-3, max_records_per_unit=2)
    expected = fitted(dates, domain=Schema(schema.columns), ledger=ledger)
    for X in (RowBlocks.from_arrays(named, block_size=300), polars.to_arrow()):
        model = fitted(X, domain=schema, ledger=ledger)
        assert_array_equal(model.answers_, expected.answers_)


def test_constraints_on_dates():
    _, (dates, *_) = dated_tables()
    columns = {"born": {"bounds": ["1950-01-01", "2004-12-31"], "missing": True}}
    schema = Schema({**columns, "town": ["Bern", "Oslo"]})
    parts = [("2000-01-01", pd.Timestamp("2010-01-01")), datetime.date(1960, 5, 5), None]
    constraints = [({"born": parts[:1]}, {"town": "Bern"}), ({"born": parts[1:]}, {"town": "Oslo"})]
    sample = fitted(dates, domain=schema, constraints=constraints).sample(5000, random_state=0)
    late, lost = sample["born"] >= "2000-01-01", sample["born"].isna()
    assert late.any()
    assert set(sample["town"][late]) == {"Bern"}
    assert set(sample["town"][lost]) == {"Oslo"}
    for wrong in ("1.1.2000", ("2000-01-01", 5), ("2001-01-01", "2000-01-01"), 738_886):
        with pytest.raises(ValueError, match=r"^constraints\[0\] must"):
            fitted(dates, domain=schema, constraints=[({"born": wrong}, {"town": "Bern"})])


def test_seeds_of_samples(recwarn):
    model = fitted(random_state=None)
    samples = [model.sample(50, random_state=seed) for seed in (3, 3, 4, None, None)]
    assert samples[0].equals(samples[1])
    assert not samples[0].equals(samples[2])
    assert not samples[3].equals(samples[4])
    state = np.random.RandomState(0)
    assert not model.sample(50, state).equals(model.sample(50, state))
    assert len(model.sample()) == 1
    assert len(recwarn) == 0  # no seed of a sample undoes noise


def test_output():
    X = np.random.default_rng(0).integers(0, 3, (N, 2))
    model = PrivateSynthesizer(domain=3).fit(X)
    assert isinstance(model.sample(3), np.ndarray)
    frame = model.set_output(transform="pandas").sample(3, random_state=0)
    assert list(frame.columns) == ["x0", "x1"]
    assert_array_equal(frame, model.set_output(transform="default").sample(3, random_state=0))
    assert list(frame.dtypes) == [X.dtype] * 2
    with config_context(transform_output="polars"):
        assert isinstance(model.set_output(transform=None).sample(3), np.ndarray)  # "default"
        assert isinstance(PrivateSynthesizer(domain=3).fit(X).sample(3), pl.DataFrame)
    other = fitted().set_output(transform="polars")
    drawn = other.sample(9, random_state=0)
    assert drawn.columns == list(DOMAIN)
    assert drawn["age"].dtype == pl.Int64
    assert isinstance(clone(other).fit(FRAME).sample(3), pl.DataFrame)
    assert isinstance(other.set_output(transform="pandas").sample(3), pd.DataFrame)
    with pytest.raises(ValueError, match="transform must be None or one of"):
        model.set_output(transform="numpy")


# --- privacy


def test_what_is_released_decides_everything(monkeypatch):
    """If two data sets have the same release, nothing on the estimators differs."""

    def fixed(rng, values, grid):
        values[:] = np.linspace(-1, 1, values.size) * N / 5
        return deviation_on(grid)

    monkeypatch.setattr(measure_project, "gaussian_mechanism", fixed)
    sex = pd.Categorical(np.resize(["f", "m"], N), categories=["x", "f", "m"])
    other = FRAME.assign(sex=sex, ill=False, age=3)
    one, two = (pickle.dumps(vars(fitted(X, workload=[(0, 1), (2, 3, 4)]))) for X in (FRAME, other))
    assert one == two


@pytest.mark.parametrize("solver", SYNTHESIS_SOLVERS)
def test_solvers(solver):
    """All are better than the uniform distribution, whose largest error is .25."""
    model = fitted(solver=solver, epsilon=4.0)
    assert np.abs(model.answers_ - truth(Marginals(3))).max() < 0.1
    assert model.sample(10).shape == (10, 5)
    assert model.n_iter_ >= 1
