"""A record with NaN or infinity in it is refused before the charge.

Where NaN is legal, records of the table have it: tests/audit/test_miscalibration.py replays them.
tests/test_refusals.py has more kinds of bad input, for all estimators.
"""

import numpy as np
import pytest
from replayed_fits import FITS, Rho, neighbours
from scipy import sparse

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of few records, and of a seed
TAKES_NAN = "curves", "synthetic"


def injected(name):
    """Data of the table with one such value, in each of its parts."""
    X, y, more = next(neighbours(name, np.random.default_rng(0)))
    for bad in (np.nan, np.inf, -np.inf):
        if not (np.isnan(bad) and name.removeprefix("added to ").startswith(TAKES_NAN)):
            records = X.copy()
            if hasattr(X, "iloc"):
                records.iloc[3, 1] = bad
            else:
                records[3, 1] = bad
            yield records, y, more
            if not any(word in name for word in (*TAKES_NAN, "lives")):
                yield sparse.csr_matrix(records), y, more
        for part in y:
            targets = part.astype(float)
            targets[3] = bad
            yield X, (targets,), more
        if "sample_weight" in more:
            weights = more["sample_weight"].copy()
            weights[3] = bad
            yield X, y, {**more, "sample_weight": weights}


@pytest.mark.parametrize("name", FITS)
def test_no_charge_and_no_fit(name):
    for X, y, more in injected(name):
        model, ledger = FITS[name](), Rho()
        with pytest.raises((ValueError, TypeError), match=r"\b(X|y|sample_weight)\b"):
            model.set_params(ledger=ledger).fit(X, *y, **more)
        assert not hasattr(ledger, "rho")
        assert not any(attribute.endswith("_") for attribute in vars(model))
