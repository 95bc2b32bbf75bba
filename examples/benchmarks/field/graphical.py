"""Draw records that follow Private-PGM's graphical models; those of version 1.1.0 do not.

OpenDP 0.16.0 and smartnoise-synth 1.0.8 require that version. In its records, columns with the same
parents depend on each other, and columns lack parents that only the junction tree shows: errors of
marginals are several times those of the model. Version 2.0.0 of the package has fixed both.
"""

import numpy as np


def synthetic_data(model, rows=None, method="round"):
    """Records of a model: the shares of every column given its parents are rounded, not drawn.

    Takes the place of ``mbi.MarkovRandomField.synthetic_data``.
    """
    from mbi import Dataset, junction_tree, marginal_oracles

    rows, rng = int(rows or model.total), np.random.default_rng()
    tree, elimination = junction_tree.make_junction_tree(model.domain, map(set, model.cliques))
    cliques = list(tree.nodes)
    marginals = marginal_oracles.message_passing_stable(model.potentials.expand(cliques))
    columns = {}
    for name in reversed(elimination):
        parents = set().union(*(clique for clique in cliques if name in clique)) & set(columns)
        found = marginals.project((*parents, name)).datavector(flatten=False)
        shares = np.array(found, dtype=float).reshape(-1, np.shape(found)[-1])
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        cell = np.zeros(rows, dtype=int)
        for parent in parents:
            cell = cell * model.domain[parent] + columns[parent]
        # A record's place among those of its cell is random, and says which value it has.
        order = np.lexsort((rng.random(rows), cell))
        count = np.bincount(cell, minlength=len(shares))
        place = np.empty(rows)
        place[order] = np.arange(rows) - (np.cumsum(count) - count)[cell[order]]
        place = (place + rng.random(rows)) / count[cell]
        above = np.cumsum(shares, axis=1)[cell] < place[:, None]
        columns[name] = np.minimum(above.sum(axis=1), shares.shape[1] - 1)
    return Dataset({name: columns[name] for name in model.domain.attrs}, model.domain)


def mend():
    """Let the libraries of this process draw records in this way."""
    import mbi

    mbi.MarkovRandomField.synthetic_data = synthetic_data
