"""Rates and agreement, against published examples."""

import math

import numpy as np
import pytest

from tests.unit.review._decisions import decide, mask_item, sentence_item, square
from trigpoint.review.agreement import agreement, change_rates, cohen_kappa, fleiss_kappa, mask_iou, report
from trigpoint.review.ledger import Ledger


def test_cohen_of_a_table_worked_by_hand() -> None:
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, expected 0.5
    labels = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(labels) == pytest.approx(0.4)
    assert math.isnan(cohen_kappa([("y", "y")] * 3))
    assert math.isnan(cohen_kappa([]))


def test_fleiss_of_the_published_table() -> None:
    # Fleiss 1971 as repeated in textbooks: 10 items, 14 judges, 5 labels, kappa 0.210
    table = np.array(
        [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
         [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]
    )  # fmt: skip
    assert fleiss_kappa(table) == pytest.approx(0.210, abs=5e-4)
    assert math.isnan(fleiss_kappa(np.zeros((0, 0), dtype=np.int64)))


def test_iou_of_two_outlines() -> None:
    assert mask_iou(square(0, 0).mask, square(2, 0).mask) == 8 / 24
    assert mask_iou(square(0, 0).mask, square(100, 100).mask) == 0
    assert mask_iou(square(3, 3).mask, square(3, 3).mask) == 1


def test_rates_count_what_people_saw() -> None:
    ledger = Ledger()
    items = [mask_item(f"i-{k}", col=10 * k) for k in range(4)]
    decide(ledger, items[0], "accept")
    decide(ledger, items[1], "edit", after=square(11, 0))
    decide(ledger, items[2], "reject")
    undone = decide(ledger, items[3], "accept")
    decide(ledger, items[3], "undo", undoes=undone.decision_id)
    (rate,) = change_rates(ledger.states(items).values())
    assert (rate.seen, rate.changed, rate.rejected) == (3, 1, 1)
    assert rate.changed_share == pytest.approx(1 / 3)


def test_people_who_judge_the_same_content_are_compared() -> None:
    ledger = Ledger()
    items = [sentence_item(f"t-{k}") for k in range(4)]
    for k, (ada, bo) in enumerate([("accept", "accept"), ("reject", "reject"), ("accept", "reject"), ("reject", "reject")]):
        decide(ledger, items[k], ada)
        decide(ledger, items[k], bo, who="bo")
    found = agreement(ledger.states(items).values())
    assert found.cohen == {("ada", "bo"): (0.5, 4)}
    assert report(ledger.states(items).values())["agreement"]["items"] == 4


def test_outlines_of_two_people_are_compared() -> None:
    ledger, item = Ledger(), mask_item()
    decide(ledger, item, "edit", after=square(0, 0, 4))
    decide(ledger, item, "edit", who="bo", after=square(2, 0, 4))
    assert agreement(ledger.states([item]).values()).mask_ious == [8 / 24]
