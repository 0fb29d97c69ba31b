from itertools import permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trigpoint.scoring.boxes import hbb_iou, obb_iou
from trigpoint.scoring.matching import count_matches, greedy, has_perfect_matching, hungarian_then_threshold, maximum_cardinality

MATRICES = hnp.arrays(
    float, st.tuples(st.integers(0, 4), st.integers(0, 4)), elements=st.sampled_from([0.0, 0.2, 0.45, 0.5, 0.55, 0.7, 0.9, 1.0])
)


def best_by_brute_force(iou: np.ndarray, threshold: float) -> tuple[int, float]:
    """Most pairs, and the largest IoU sum among the matchings with that many."""
    small = iou if iou.shape[0] <= iou.shape[1] else iou.T
    best = (0, 0.0)
    for columns in permutations(range(small.shape[1]), small.shape[0]):
        hits = [small[row, col] for row, col in enumerate(columns) if small[row, col] >= threshold]
        best = max(best, (len(hits), round(sum(hits), 9)))
    return best


@given(MATRICES)
@settings(deadline=None, max_examples=300)
def test_maximum_cardinality_equals_brute_force(iou: np.ndarray) -> None:
    pairs = maximum_cardinality(iou, 0.5)

    assert best_by_brute_force(iou, 0.5) == (len(pairs), round(sum(iou[pair] for pair in pairs), 9))
    assert len({p.predicted for p in pairs}) == len({p.answer for p in pairs}) == len(pairs)
    assert all(iou[pair] >= 0.5 for pair in pairs)


@given(MATRICES)
@settings(deadline=None, max_examples=300)
def test_a_perfect_matching_is_found_exactly_when_brute_force_finds_one(iou: np.ndarray) -> None:
    n = iou.shape[0]
    exists = iou.shape[0] == iou.shape[1] and any(
        all(iou[row, col] >= 0.5 for row, col in enumerate(columns)) for columns in permutations(range(n))
    )

    assert exists == has_perfect_matching(iou, 0.5)


LARGE = hnp.arrays(float, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(0, 20).map(lambda k: k / 20))


def bipartite(iou: np.ndarray, threshold: float) -> nx.Graph:
    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(("row", k) for k in range(iou.shape[0]))
    graph.add_nodes_from(("col", k) for k in range(iou.shape[1]))
    graph.add_weighted_edges_from((("row", r), ("col", c), iou[r, c]) for r, c in zip(*np.nonzero(iou >= threshold), strict=True))
    return graph


@given(LARGE)
@settings(deadline=None, max_examples=200)
def test_maximum_cardinality_is_that_of_networkx(iou: np.ndarray) -> None:
    graph = bipartite(iou, 0.5)

    pairs = maximum_cardinality(iou, 0.5)

    theirs = nx.max_weight_matching(graph, maxcardinality=True)
    assert len(theirs) == len(pairs)
    assert sum(graph.edges[edge]["weight"] for edge in theirs) == pytest.approx(sum(iou[pair] for pair in pairs))


@given(LARGE)
@settings(deadline=None, max_examples=200)
def test_counting_and_perfect_matching_agree_with_networkx(iou: np.ndarray) -> None:
    rows, cols = np.nonzero(iou >= 0.5)
    matched = nx.bipartite.hopcroft_karp_matching(bipartite(iou, 0.5), [("row", k) for k in range(iou.shape[0])])

    assert len(matched) // 2 == count_matches(rows, cols, *iou.shape)
    assert (iou.shape[0] == iou.shape[1] == len(matched) // 2) == has_perfect_matching(iou, 0.5)


@given(LARGE)
@settings(deadline=None, max_examples=200)
def test_greedy_takes_the_best_pair_that_is_left(iou: np.ndarray) -> None:
    left, expected = iou.copy(), []
    while left.max() >= 0.5:
        row, col = np.unravel_index(left.argmax(), left.shape)
        expected.append((row, col))
        left[row, :] = left[:, col] = -1.0

    assert sorted(expected) == greedy(iou, 0.5)


@given(MATRICES, st.randoms())
@settings(deadline=None)
def test_matching_does_not_depend_on_order(iou: np.ndarray, random: object) -> None:
    rows, cols = list(range(iou.shape[0])), list(range(iou.shape[1]))
    random.shuffle(rows)  # type: ignore[attr-defined]
    random.shuffle(cols)  # type: ignore[attr-defined]
    shuffled = iou[np.ix_(rows, cols)]

    first, second = maximum_cardinality(iou, 0.5), maximum_cardinality(shuffled, 0.5)

    assert len(first) == len(second)
    assert sum(iou[p] for p in first) == pytest.approx(sum(shuffled[p] for p in second))


@given(MATRICES)
@settings(deadline=None)
def test_other_matchers_never_find_more(iou: np.ndarray) -> None:
    most = len(maximum_cardinality(iou, 0.5))

    assert len(greedy(iou, 0.5)) <= most
    assert len(hungarian_then_threshold(iou, 0.5)) <= most


def test_hungarian_then_threshold_misses_a_perfect_matching_that_exists() -> None:
    iou = np.array([[1.0, 0.5], [0.5, 0.45]])

    assert has_perfect_matching(iou, 0.5)
    assert len(hungarian_then_threshold(iou, 0.5)) == 1


@given(hnp.arrays(np.int8, (3, 4), elements=st.integers(0, 3)), hnp.arrays(bool, (3, 3, 4)))
@settings(deadline=None, max_examples=300)
def test_on_answers_that_share_no_pixel_hungarian_finds_every_perfect_matching(labels: np.ndarray, predicted: np.ndarray) -> None:
    answers = [labels == k for k in (1, 2, 3)]
    iou = np.array([[(p & a).sum() / max(1, (p | a).sum()) for a in answers] for p in predicted])

    assert has_perfect_matching(iou, 0.5) == (len(hungarian_then_threshold(iou, 0.5)) == 3)


@given(st.lists(MATRICES, max_size=4))
@settings(deadline=None)
def test_one_joint_graph_counts_as_many_as_its_blocks(blocks: list[np.ndarray]) -> None:
    rows, cols, n_rows, n_cols = [], [], 0, 0
    for block in blocks:
        r, c = np.nonzero(block >= 0.5)
        rows.extend(r + n_rows)
        cols.extend(c + n_cols)
        n_rows, n_cols = n_rows + block.shape[0], n_cols + block.shape[1]

    found = count_matches(np.array(rows, dtype=np.int64), np.array(cols, dtype=np.int64), n_rows, n_cols)

    assert found == sum(len(maximum_cardinality(block, 0.5)) for block in blocks)


def test_rotated_box_iou_is_that_of_the_polygons() -> None:
    # two 4 × 2 rectangles crossing at a right angle share a 2 × 2 square: 4 / (8 + 8 - 4)
    flat = np.array([[0.0, 1, 4, 1, 4, 3, 0, 3]])
    upright = np.array([[1.0, 0, 3, 0, 3, 4, 1, 4], [100, 100, 101, 100, 101, 101, 100, 101]])

    assert obb_iou(flat, upright).tolist() == [[pytest.approx(1 / 3), 0.0]]
    assert hbb_iou(np.array([[0.0, 1, 4, 3]]), np.array([[1.0, 0, 3, 4], [100, 100, 101, 101]])).tolist() == [[pytest.approx(1 / 3), 0.0]]


def test_iou_of_no_boxes_keeps_its_shape() -> None:
    assert hbb_iou(np.zeros((0, 4)), np.ones((2, 4))).shape == (0, 2)
    assert obb_iou(np.zeros((0, 8)), np.ones((2, 8))).shape == (0, 2)
