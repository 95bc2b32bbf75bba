"""AIM and MST of OpenDP (with Private-PGM), at their defaults, on tables with a known domain.

They count added and removed records. Replacing a record moves counts by sqrt(2) instead of 1, so
Gaussian noise costs twice the rho, and scores by twice as much, so a selection costs four times the
rho. Half of rho pays for single columns, and a tenth of the rest for selections. So they get the
share 1 / 2.1 of rho, which is exact. OpenDP's own way, two contributions of a person, costs 4 times
rho.

OpenDP's released regression, Theil-Sen's, has one column only, so it takes no part. MST of version
0.16.0 fails at most budgets: in floating point the shares of its selections add up to more than the
whole.
"""

from functools import partial

from field import elsewhere, graphical
from field.methods import Method


def synthetic(name, X, sizes, rho):
    """Synthetic records, in the environment of OpenDP."""
    import numpy as np
    import opendp.prelude as dp
    import polars as pl

    graphical.mend()
    dp.enable_features("contrib", "honest-but-curious")
    names = [f"c{j}" for j in range(len(sizes))]
    frame = pl.DataFrame({label: X[:, j].astype(np.int64) for j, label in enumerate(names)})
    context = dp.Context.compositor(
        data=frame.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho / 2.1),
        split_evenly_over=1,
    )
    table = (
        context.query()
        .select(*names)
        .contingency_table(
            keys={label: list(range(size)) for label, size in zip(names, sizes, strict=True)},
            algorithm=getattr(dp.mbi, name)(),
        )
        .release()
    )
    released = table.synthesize(rows=len(X)).select(names).fill_null(0).to_numpy()
    return {"table": released.astype(int)}


def run(name, problem, budget, rng):
    return elsewhere.call(
        "rivals", "opendp_tables", "synthetic", name, problem.X, problem.sizes, budget.rho
    )


METHODS = {
    f"OpenDP {name}": Method(("table",), partial(run, name), True, "rivals")
    for name in ("AIM", "MST")
}
