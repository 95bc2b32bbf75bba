"""Whole fits of `PrivateSynthesizer`: what an observer of many can prove about epsilon.

What one release may tell, and how much noise is in it, is audited in
tests/audit/test_measure_project_noise.py.
"""

import itertools

import numpy as np
import pytest

from skdpsco import PrivateSynthesizer
from skdpsco.inspection import audit
from skdpsco.privacy import GaussianEvent
from skdpsco.solvers.synthesis import measure_project
from skdpsco.synthesis import Bins
from skdpsco.synthesis import synthesizer as module

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

EPSILON, DELTA, FITS = 1.0, 1e-3, 60
PARITY = np.array([[1.0, -1.0, -1.0, 1.0]])
# Workload, the record that is replaced and by what. Both queries move as far as they may, and one
# number tells the neighbours apart.
CASES = {
    "marginals": ({"order": 1}, (0, 0), (1, 1)),
    "queries": ({"workload": PARITY}, (0, 0), (0, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_whole_fits(monkeypatch, case):
    """60 fits of each neighbour convict noise that is too small by a factor of 20, or absent.

    False alarms are below 1e-6. So few fits, of so little power, since all noise is in one release,
    whose size tests/audit/test_measure_project_noise.py tells to a fifth.
    """
    params, *records = CASES[case]
    model = PrivateSynthesizer(epsilon=EPSILON, delta=DELTA, domain=2, **params)

    middle = 0.5 if case == "marginals" else -2 / 3

    def audited():
        first, second = (np.array([record, (0, 1), (1, 0)]) for record in records)
        return audit(
            model,
            first,
            neighbour={"X": second},
            statistic=lambda fitted: fitted.answers_[0] > middle,
            n_fits=FITS,
            confidence=1 - 1e-6,
            random_state=0,
        )

    assert not audited().convicted
    original = measure_project.gaussian_grid
    monkeypatch.setattr(measure_project, "gaussian_grid", lambda *args: original(*args) / 20)
    assert audited().epsilon_lower > EPSILON


def test_codes_are_a_map_of_single_records():
    """A replaced record replaces one row of codes, whatever the others hold."""
    rng = np.random.default_rng(0)
    model = PrivateSynthesizer(
        domain=[Bins([0, 1, 2]), ["a", "b", None], 3], random_state=0, epsilon=0.5
    )
    seen = []

    class Spy(module.MeasureProject):
        def run(self, plan, problem, codes, rng, progress):
            seen.append((plan, problem, codes))
            return super().run(plan, problem, codes, rng, progress)

    model.set_params(solver=Spy())
    values = [0.5, 1.5, -9.0, 9], ["a", "b", None, np.nan], [0, 1, 2, 2.0]
    X = np.array([[rng.choice(np.array(v, dtype=object)) for v in values] for _ in range(30)])
    for row in itertools.product(*values):
        changed = X.astype(object)
        changed[7] = row
        model.fit(changed)
    plans, problems, codes = zip(*seen, strict=True)
    assert len(set(map(repr, plans))) == 1  # they know sizes only
    assert len({(p.shape, p.n_samples, p.workload) for p in problems}) == 1
    others = np.delete(codes, 7, axis=1)
    assert (others == others[0]).all()
    assert len({tuple(c[7]) for c in codes}) == 2 * 3 * 3
    assert isinstance(plans[0].event, GaussianEvent)
