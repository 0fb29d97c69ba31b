"""Known traps of box matching. Inputs and expectations are rebuilt here from the case descriptions."""

from itertools import permutations

import numpy as np
import pytest

from trigpoint.scoring.boxes import hbb_iou
from trigpoint.scoring.matching import greedy, maximum_cardinality

ANSWERS_XYWH = [[0, 0, 10, 10], [6, 0, 10, 10]]
PREDICTED_XYWH = [[3, 0, 10, 10], [-4, 0, 10, 10]]


def corners(boxes: list[list[int]]) -> np.ndarray:
    return np.array([[x, y, x + width, y + height] for x, y, width, height in boxes], dtype=float)


@pytest.mark.parametrize("order", list(permutations(range(2))))
@pytest.mark.parametrize("answer_order", list(permutations(range(2))))
def test_x03_greedy_matching_loses_a_hit(order: tuple[int, ...], answer_order: tuple[int, ...]) -> None:
    """laclouis5/globox#18, hosang/detection-proposals#3: the first prediction takes the box that the second needs."""
    predicted = corners([PREDICTED_XYWH[k] for k in order])
    answers = corners([ANSWERS_XYWH[k] for k in answer_order])

    n_matched = len(maximum_cardinality(hbb_iou(predicted, answers), 0.4))

    assert n_matched == 2
    assert 2 * n_matched / (len(predicted) + len(answers)) == 1.0


def test_x03_overlaps_are_those_of_the_case() -> None:
    overlaps = hbb_iou(corners(PREDICTED_XYWH), corners(ANSWERS_XYWH))

    # 7 of 13 columns, 7 of 13; 6 of 14, none
    assert overlaps == pytest.approx(np.array([[7 / 13, 7 / 13], [6 / 14, 0.0]]))
    assert len(greedy(overlaps, 0.4)) in (1, 2)
