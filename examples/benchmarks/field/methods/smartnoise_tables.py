"""AIM and MST of smartnoise-synth (with Private-PGM), at their defaults, with a known domain.

They count added and removed records. Replacing a record moves counts by sqrt(2) instead of 1, so
Gaussian noise costs twice the rho, and scores by twice as much, so a selection costs four times the
rho. At most a tenth of AIM's rho pays for selections, and a third of MST's. So AIM gets rho / 2.2
and MST 3 rho / 8. Each is given an epsilon that it converts into that rho.
"""

from functools import partial

from field import elsewhere, graphical
from field.methods import Method

SELECTION = {"aim": 0.1, "mst": 1.0 / 3.0}  # share of rho


def synthetic(name, X, sizes, rho, delta):
    """Synthetic records, in the environment of smartnoise-synth."""
    import numpy as np
    import pandas as pd
    from scipy.optimize import brentq
    from snsynth import Synthesizer
    from snsynth.transform import LabelTransformer, TableTransformer
    from snsynth.utils import cdp_rho

    graphical.mend()
    rho /= 2.0 + 2.0 * SELECTION[name]
    epsilon = brentq(lambda epsilon: cdp_rho(epsilon, delta) / rho - 1.0, 1e-4, 50.0, rtol=1e-4)
    names = [f"c{j}" for j in range(len(sizes))]
    domain = pd.DataFrame({c: np.arange(max(sizes)) % k for c, k in zip(names, sizes, strict=True)})
    transformer = TableTransformer([LabelTransformer(nullable=False) for _ in sizes])
    transformer.fit(domain)
    model = Synthesizer.create(name, epsilon=epsilon, delta=delta)
    model.fit(pd.DataFrame(X, columns=names), transformer=transformer)
    return {"table": np.asarray(model.sample(len(X)), dtype=int)}


def run(name, problem, budget, rng):
    arguments = name, problem.X, problem.sizes, budget.rho, budget.delta
    return elsewhere.call("smartnoise", "smartnoise_tables", "synthetic", *arguments)


METHODS = {
    f"smartnoise {name.upper()}": Method(("table",), partial(run, name), True, "smartnoise")
    for name in SELECTION
}
