"""Bins of about equal shares that PrivateSynthesizer finds between bounds of a schema."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from cases import each
from numpy.testing import assert_array_equal
from recorded_releases import RecordedReleases

from skdpsco import PrivateSynthesizer, Schema
from skdpsco.data.row_blocks import RowBlocks
from skdpsco.privacy import Budget, mu_of
from skdpsco.synthesis import learned_bins
from skdpsco.synthesis.columns import ColumnTable, columns_in
from skdpsco.synthesis.domain import declare
from skdpsco.synthesis.learned_bins import plan_bins

# Seeds make the tests deterministic; tests/test_random.py tests the warning.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

N = 4000
RNG = np.random.default_rng(0)
GAIN = np.where(RNG.random(N) < 0.9, 0, RNG.integers(1, 100_000, N))
FRAME = pd.DataFrame(
    {
        "gain": GAIN,
        "hours": np.where(RNG.random(N) < 0.4, 40, RNG.integers(1, 100, N)),
        "weight": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(70, 5, N)),
        "code": RNG.choice([-9.0, 3.0, 7.5], N),
        "rich": GAIN > 0,
    }
)
SCHEMA = Schema(
    {
        "gain": {"bounds": [0, 99_999], "integer": True},
        "hours": {"bounds": [1, 99], "integer": True},
        "weight": {"bounds": [20, 500], "missing": True},
        "code": {"bounds": [-10, 10], "missing": [-9]},
        "rich": "boolean",
    }
)
SURE = {"epsilon": 1e6, "delta": 0.5}  # as good as no noise


def fitted(X=FRAME, schema=SCHEMA, **params):
    return PrivateSynthesizer(domain=schema, order=2, random_state=0, **params).fit(X)


def declared():
    return declare(SCHEMA, ColumnTable("pandas", list(FRAME), list(FRAME.dtypes)))


def test_numbers_come_back_as_numbers():
    """Shares of points and of heaps, missing numbers, means, dtypes and bounds."""
    table = fitted(**SURE).sample(N, random_state=0)
    assert list(table.dtypes) == list(FRAME.dtypes)
    for name, value in (("gain", 0), ("hours", 40), ("code", -9.0), ("code", 0.0)):
        share = (FRAME[name] == value).mean()
        assert (table[name] == value).mean() == pytest.approx(share, abs=0.02), name
    assert table["weight"].isna().mean() == pytest.approx(FRAME["weight"].isna().mean(), abs=0.02)
    for name in ("gain", "hours", "weight"):
        deviation = 4.5 * FRAME[name].std() / math.sqrt(N)
        assert abs(table[name].mean() - FRAME[name].mean()) < 2 * deviation, name
        assert table[name].min() >= SCHEMA.columns[name].bounds[0]
        assert table[name].max() <= SCHEMA.columns[name].bounds[1]
    assert (table["rich"] == (table["gain"] > 0)).mean() > 0.98


def test_bins_have_about_equal_shares():
    """Without noise: no bin of several cells has more than twice its share."""
    model = fitted(**SURE)
    for name, others in (("gain", 1), ("hours", 0), ("weight", 1)):
        bins, shares = model.domain_.entries[list(FRAME).index(name)], model.query(name)
        assert len(shares) == bins.size == 16 + others
        several = np.diff(bins.starts) > 1
        assert shares[:16][several].max() < 2 * shares[:16].sum() / 16
    starts = model.domain_.entries[1].starts
    assert np.diff(starts)[np.searchsorted(starts, 39, "right") - 1] == 1  # 40 hours alone


@each("solver", ["auto", "select-measure", "multiplicative-weights"])
def test_cost(solver):
    schema = Schema({name: SCHEMA.columns[name] for name in ("gain", "rich")})
    model = fitted(FRAME[["gain", "rich"]], schema, solver=solver)
    assert model.privacy_.steps[0].share == pytest.approx(learned_bins.LEARNING.share, rel=0.2)
    assert [step.name for step in model.privacy_.steps] == ["bins of numbers", "answers"]
    if solver == "auto":  # which is all Gaussian noise
        assert mu_of(model.privacy_.event) == pytest.approx(Budget(1.0, 1e-6).mu, rel=1e-4)


@each("params", [{}, {"solver": "select-measure", "n_iter": 1}])
def test_blocks(params):
    """The same bins and answers from blocks of records."""
    blocks = RowBlocks.from_blocks([(FRAME[a : a + 1500], None) for a in range(0, N, 1500)])
    one, two = fitted(**params), fitted(blocks, **params)
    assert_array_equal(one.answers_, two.answers_)
    assert_array_equal(one.domain_.entries[0].starts, two.domain_.entries[0].starts)


def test_no_record_changes_more_than_is_charged(monkeypatch):
    """All pairs of some records; bins follow from what is released alone."""
    domain, rng = declared(), np.random.default_rng(0)
    plan, recorded = plan_bins(5, domain, 0.7), RecordedReleases(monkeypatch, learned_bins)
    values = [0, 1, 99_999], [1, 99], [21.0, np.nan, 499.0], [-9.0, -8.0, 0.0, 9.0], [True]
    tables = [
        pd.concat([FRAME[:4], pd.DataFrame([row], columns=list(FRAME))])
        for row in itertools.product(*values)
    ]

    def run(X):
        entries = plan.release(domain.fine.encode(columns_in(X)), domain, rng).entries
        return [(entries[j].starts, entries[j].weights) for j in plan.columns]

    (change,) = recorded.ratios(run, tables, [mu_of(plan.event)])
    assert 0.999 < change <= 1.0
