"""Scores of quantiles, draws by them, and the search of a quantile by counts with noise."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skdpsco.data.design import Dense, as_design, as_matrix
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.scaling.quantiles import (
    count_up_to,
    cover_scores,
    enough_records,
    quantile_scores,
    search,
    some_records,
)


def seeded(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


@pytest.mark.parametrize(("tail", "penalty", "q"), [(0.001, 0.0, 0.5), (0.3, 0.7, 0.6)])
def test_scores_are_counts(tail, penalty, q):
    """Scores are computed record by record, with values on the candidates and beyond them."""
    rng = np.random.default_rng(0)
    candidates = np.linspace(-1, 1, 9)
    for _ in range(50):
        values = rng.choice([*candidates, -3.0, 0.1, 3.0], size=12)
        up_to = [sum(v <= c for v in values) for c in candidates]
        assert (count_up_to(values, candidates) == up_to).all()
        up_to = np.array(up_to)
        expected = [min(c, (1 - tail) * 12) - penalty * k for k, c in enumerate(up_to)]
        assert cover_scores(up_to, 12, tail, penalty) == pytest.approx(expected)
        left = [0, *candidates[:-1]]
        right = [*candidates[1:], np.inf]
        expected = [
            -max(
                (sum(v <= a for v in values) if k else 0) - q * 12,
                sum(v > b for v in values) - (1 - q) * 12,
            )
            for k, (a, b) in enumerate(zip(left, right, strict=True))
        ]
        assert quantile_scores(up_to, 12, q) == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_a_search_ends_near_the_quantile(share):
    """Also where all values are equal, and where earlier counts were wrong."""
    n, candidates = 1000, np.linspace(-4.0, 4.0, 1025)
    deviation = share * n / 2.0  # a count is wrong every few times
    for values in (seeded().normal(size=n), np.full(n, 2.22), np.full(n, -4.0)):
        above = n - count_up_to(values, candidates).astype(float)
        one = SimpleNamespace(grid=deviation / 2.0**SCALE_BITS, tolerated=share * n, n_counts=40)
        at = [candidates[search(above, one, None, seeded(seed))] for seed in range(300)]
        errors = np.abs(np.array(at) - np.quantile(values, 1.0 - share))
        assert np.median(errors) < 0.25
        assert np.mean(errors < 1.2) > 0.98


def test_a_search_without_information_finds_what_its_prior_says():
    one = SimpleNamespace(grid=1.0, tolerated=5.0, n_counts=20)
    prior = -np.abs(np.arange(101) - 30.0)
    assert search(np.full(101, 10.0), one, prior, seeded()) == 30


def test_a_search_follows_from_counts_with_noise_alone(monkeypatch):
    """Whatever the values are: as many counts as planned, on the planned grid, decide."""
    seen, said = [], seeded().uniform(0.0, 10.0, 7)

    def noise(rng, values, grid):
        values[:] = said[len(seen)]
        seen.append((len(values), grid))
        return 3.0

    monkeypatch.setattr("skdpsco.scaling.quantiles.gaussian_mechanism", noise)
    one, found = SimpleNamespace(grid=0.25, tolerated=5.0, n_counts=7), set()
    for above in (np.zeros(64), np.full(64, 10.0), np.linspace(10.0, 0.0, 64)):
        seen.clear()
        found.add(search(above, one, None, seeded()))
        assert seen == [(1, 0.25)] * 7
    assert len(found) == 1


@pytest.mark.parametrize("n_read", [1, 7, 100, 999, 1000])
def test_one_record_of_each_run_is_read(n_read):
    """However records are ordered; a replaced record is read in its place, or not at all."""
    n, y = 1000, np.arange(1000.0)
    rows = np.column_stack([y + 1.0, -y])
    found = []
    for X in (rows, sparse.csr_matrix(rows)):
        design, rng = as_design(X, np.ones(2), True), np.random.default_rng(n_read)
        some, targets = some_records(design, y, n_read, rng)
        entries = some.values if isinstance(some, Dense) else as_matrix(some).toarray()
        assert_array_equal(entries, rows[targets.astype(int)])
        assert some.intercept == 1
        found.append(targets)
    assert_array_equal(*found)
    edges = np.arange(n_read + 1) * n // n_read
    assert (edges[:-1] <= found[0]).all()
    assert (found[0] < edges[1:]).all()


def test_as_many_records_are_read_as_their_noise_needs():
    assert enough_records(10**7, 100, 0.2, False) == 400 * 10 / 0.2
    assert enough_records(10**7, 100, 0.2, True) == 10**7
    assert enough_records(10**7, 1, 1e6, False) == 2**13
    assert enough_records(5000, 1, 1e6, False) == 5000
    assert enough_records(5000, 1, 1e-300, False) == 5000
