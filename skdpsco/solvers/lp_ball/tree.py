"""The trees of `TreeFrankWolfe`: which batch a step reads, and which steps follow it.

Step t = 0, 1, ... is leaf t + 2 - 2**r of the tree of phase r = floor(log2(t + 2)). The path to
every leaf but the first enters exactly one new right child. The walk through the nodes is therefore
a loop over steps, each with one batch. See docs/proofs/tree_frank_wolfe.md.
"""

from typing import NamedTuple

import numpy as np

from skdpsco.privacy._cache import cached

__all__ = ["Node", "along_paths", "nodes", "share_records", "step_size", "travel", "uses"]


class Node(NamedTuple):
    """The node whose batch a step reads.

    Parameters
    ----------
    phase : int
        Depth of its tree.
    depth : int
        Depth of the node, 0 for a root.
    span : int
        Number of leaves below it in a full tree, which is the number of steps between its point and
        its parent's.
    parent : int
        Step of its parent, or its own step for a root.
    """

    phase: int
    depth: int
    span: int
    parent: int


@cached(32)
def nodes(n_steps: int) -> tuple[Node, ...]:
    """The nodes with which ``n_steps`` steps begin; the last tree may be incomplete."""
    found = []
    for t in range(n_steps):
        phase = (t + 2).bit_length() - 1
        leaf = t + 2 - 2**phase
        span = leaf & -leaf if leaf else 2**phase
        parent = t - leaf + (leaf & (leaf - 1))
        found.append(Node(phase, phase + 1 - span.bit_length(), span, parent))
    return tuple(found)


def uses(tree: tuple[Node, ...], fresh: list[bool]) -> list[int]:
    """For every batch, the number of steps that use a gradient to which it contributes.

    Parameters
    ----------
    tree : tuple of Node
    fresh : list of bool
        Whether a batch contributes gradients, as roots do, rather than differences from those of
        its parent.
    """
    count = [1] * len(tree)
    for t in range(len(tree) - 1, -1, -1):
        if not fresh[t]:
            count[tree[t].parent] += count[t]
    return count


def along_paths(terms: list[float], tree: tuple[Node, ...], fresh: list[bool]) -> list[float]:
    """For every step, the sum of ``terms`` over the batches that form its gradient."""
    sums = list(terms)
    for t, node in enumerate(tree):
        if not fresh[t]:
            sums[t] += sums[node.parent]
    return sums


def step_size(t: int) -> float:
    """Length of step t: its starting point keeps the weight 1 - 2 / (t + 3)."""
    return 2.0 / (t + 3.0)


def travel(t: int, span: int) -> float:
    """How far the ``span`` steps before step t may move a point, in diameters of the set.

    The point keeps the weight prod (1 - step_size); the rest goes to another point of the set.
    """
    start = t - span
    return 1.0 - (start + 1.0) * (start + 2.0) / ((t + 1.0) * (t + 2.0))


def share_records(tree: tuple[Node, ...], weight: list[float], n_samples: int) -> list[int]:
    """Divide all records: trees get shares of 4**phase, and nodes shares by their weight.

    Every node has at least one record. Records left over by rounding go to the last root.
    """
    phase = np.array([node.phase for node in tree])
    share = np.array(weight) / np.bincount(phase, weight)[phase] * 4.0 ** (phase - phase[-1])
    spare = n_samples - len(tree)
    sizes = 1 + np.floor(spare * share / share.sum() * (1.0 - 2.0**-40)).astype(np.int64)
    root = max(t for t, node in enumerate(tree) if node.depth == 0)
    sizes[root] += n_samples - int(sizes.sum())
    return [int(m) for m in sizes]
