"""Who is matched with whom: three matchers, named and apart, because they do not always agree.

All take an IoU matrix (n_predicted, n_answer) in [0, 1] and a threshold. `maximum_cardinality` is the one that EQS and the box scores
use: it finds as many pairs as can be found, whatever the order of rows and columns. The other two are what other benchmarks use,
and can miss a pair. Not here: IoU itself.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

Matrix = NDArray[np.float64]


class Pair(NamedTuple):
    """A matched pair: row (predicted) and column (answer) of the IoU matrix."""

    predicted: int
    answer: int


def maximum_cardinality(iou: Matrix, threshold: float) -> list[Pair]:
    """Match one to one on pairs with IoU ≥ threshold: most pairs first, then the largest sum of IoU.

    Source: as an assignment problem in which every admissible pair earns more than all IoUs together can.

    >>> iou = np.array([[0.54, 0.54], [0.43, 0.0]])
    >>> maximum_cardinality(iou, 0.4)
    [Pair(predicted=0, answer=1), Pair(predicted=1, answer=0)]
    """
    allowed = iou >= threshold
    if not allowed.any():
        return []
    worth = np.where(allowed, min(iou.shape) + 1.0 + iou, 0.0)
    rows, cols = linear_sum_assignment(worth, maximize=True)
    return [Pair(int(r), int(c)) for r, c in zip(rows, cols, strict=True) if allowed[r, c]]


def has_perfect_matching(iou: Matrix, threshold: float) -> bool:
    """Say whether all predicted can be matched one to one with all answers at IoU ≥ threshold; True of none with none.

    Source: Hopcroft–Karp, scipy's `maximum_bipartite_matching`.

    >>> has_perfect_matching(np.array([[0.54, 0.54], [0.43, 0.0]]), 0.4)
    True
    """
    if iou.shape[0] != iou.shape[1]:
        return False
    allowed = iou >= threshold
    if not (allowed.any(axis=0).all() and allowed.any(axis=1).all()):
        return False
    if (allowed.sum(axis=0) == 1).all():
        return True
    return bool((maximum_bipartite_matching(csr_matrix(allowed), perm_type="column") >= 0).all())


def hungarian_then_threshold(iou: Matrix, threshold: float) -> list[Pair]:
    """Match for the largest sum of IoU, then drop the pairs below the threshold. Differs: can end with fewer pairs than exist.

    >>> hungarian_then_threshold(np.array([[0.9, 0.5], [0.5, 0.0]]), 0.5)
    [Pair(predicted=0, answer=1), Pair(predicted=1, answer=0)]
    >>> hungarian_then_threshold(np.array([[1.0, 0.5, 0.0], [0.5, 0.45, 0.0], [0.0, 0.0, 1.0]]), 0.5)
    [Pair(predicted=0, answer=0), Pair(predicted=2, answer=2)]
    """
    if not iou.size:
        return []
    rows, cols = linear_sum_assignment(iou, maximize=True)
    return [Pair(int(r), int(c)) for r, c in zip(rows, cols, strict=True) if iou[r, c] >= threshold]


def greedy(iou: Matrix, threshold: float) -> list[Pair]:
    """Take the pair with the highest IoU ≥ threshold, then the next among what is left; of equals the first in row order.

    Differs: a pair taken early can cost two later ones.

    >>> greedy(np.array([[0.54, 0.54], [0.43, 0.0]]), 0.4)
    [Pair(predicted=0, answer=0)]
    """
    rows, cols = np.nonzero(iou >= threshold)
    pairs: list[Pair] = []
    taken_rows: set[int] = set()
    taken_cols: set[int] = set()
    for k in np.argsort(-iou[rows, cols], kind="stable"):
        row, col = int(rows[k]), int(cols[k])
        if row not in taken_rows and col not in taken_cols:
            taken_rows.add(row)
            taken_cols.add(col)
            pairs.append(Pair(row, col))
    return sorted(pairs)


def count_matches(rows: NDArray[np.int64], cols: NDArray[np.int64], n_rows: int, n_cols: int) -> int:
    """Return the size of a maximum-cardinality matching of a bipartite graph given by its edges.

    Many scenes may be joined in one graph (block by block): edges never lead from one to another.

    Source: Hopcroft–Karp, scipy's `maximum_bipartite_matching`.
    """
    if not rows.size:
        return 0
    graph = csr_matrix((np.ones(len(rows), dtype=np.int8), (rows, cols)), shape=(n_rows, n_cols))
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())
