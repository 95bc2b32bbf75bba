"""The clippers keep every number within its bound, whatever it is, and change nothing within."""

import itertools

import numpy as np
import pytest
from cases import each

from skdpsco import _clipping as clipping

ODD = [0.0, 1e-320, 0.3, -2.0, 1e160, -1e300, np.inf, -np.inf, np.nan]
ROWS = np.array(list(itertools.product(ODD, repeat=2)))
ROOM = 1.0 + 2.0**-40


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # kernels do not warn, and Python does
@each("bound", [1e-300, 0.5, 3.0])
@each("norm", [1e-3, 1.0, 4.0])
def test_rows_times_the_norms_of_their_records_are_within_the_bound(norm, bound):
    R = ROWS.copy()
    clipping.clip_records(R, np.full(len(R), norm), bound)
    assert np.all(np.hypot(*(R / bound).T) * norm <= ROOM)
    small = np.hypot(*(ROWS / bound).T) * norm <= 1.0
    np.testing.assert_array_equal(R[small], ROWS[small])
    finite = np.abs(ROWS / bound).max(axis=1) < 1e100
    assert np.all(R[finite & ~small] * ROWS[finite & ~small] >= 0.0)  # in their direction


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@each(("entry", "norm"), [(0.5, np.inf), (np.inf, 0.5), (0.4, 0.5), (2.0, 0.5)])
def test_entries_and_norms_are_within_both_bounds(entry, norm):
    for R in (ROWS.copy(), ROWS[:, :1].copy()):
        clipping.clip_both(R, entry, norm)
        assert np.all(np.abs(R) <= entry)
        assert np.all(np.linalg.norm(R, axis=1) <= norm * ROOM)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@each("order", [1.0, 1.5, 2.0, np.inf])
def test_norms_of_any_order_are_within_the_limit(order):
    for row in ROWS:
        short = row.copy()
        clipping.shorten(short, order, 0.7)
        assert np.linalg.norm(short, order) <= 0.7 * ROOM
        assert not np.isnan(short).any()


def test_numbers_are_within_their_bounds():
    assert np.all(np.abs([clipping.clip(x, 0.7) for x in ODD]) <= 0.7)
    found = clipping.within(np.array(ODD), -0.2, 0.7)
    assert found.tolist() == [0.0, 1e-320, 0.3, -0.2, 0.7, -0.2, 0.7, -0.2, -0.2]
