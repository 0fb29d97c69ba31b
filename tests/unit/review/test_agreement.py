"""Rates and agreement, against published examples."""

import math

import numpy as np
import pytest

from tests.unit.review._decisions import SCENE, decide, mask_item, sentence_item, square
from trigpoint.config import ReviewConfig, ReviewRule
from trigpoint.records.review import SentenceValue
from trigpoint.review.agreement import (
    ChangeRate,
    agreement,
    change_rates,
    change_rates_by_role,
    cohen_kappa,
    fleiss_kappa,
    mask_iou,
    report,
    wilson_interval,
)
from trigpoint.review.ledger import Ledger, instance_id_of, new_part
from trigpoint.review.policy import is_sampled


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
    rates = change_rates(ledger.states(items).values())
    assert rates == {"mask": ChangeRate(seen=3, changed=1, rejected=1, removed=1, changed_or_removed=2)}
    assert rates["mask"].share == pytest.approx(1 / 3)
    assert rates["mask"].changed_or_removed_share == pytest.approx(2 / 3)


def test_what_is_changed_and_then_rejected_counts_once_as_changed_or_removed() -> None:
    ledger, item = Ledger(), sentence_item()
    decide(ledger, item, "edit", after=SentenceValue(text="the red hut"))
    decide(ledger, item, "reject", who="bo")
    assert change_rates(ledger.states([item]).values()) == {"referring": ChangeRate(1, 1, 1, 1, 1)}


def test_what_is_split_and_merged_away_is_removed_and_what_comes_of_it_changed() -> None:
    ledger = Ledger()
    cut, kept, gone = (mask_item(f"i-{k}", col=10 * k) for k in range(3))
    decide(ledger, cut, "split", parts=tuple(new_part(SCENE, square(col, 0, 2).mask, ["hut"]) for col in (0, 2)))
    decide(ledger, kept, "merge", after=square(10, 0, 8), merged=(gone.item_id,))
    states = ledger.states([cut, kept, gone]).values()
    expected = ChangeRate(seen=5, changed=3, rejected=0, removed=2, changed_or_removed=5)
    assert change_rates(states) == {"mask": expected}
    assert change_rates_by_role(states) == {"mask": {"annotator": expected}}


def test_roles_answer_for_what_they_did_themselves() -> None:
    ledger = Ledger()
    items = [sentence_item(f"t-{k}") for k in range(3)]
    for item in items:
        decide(ledger, item, "accept")
    decide(ledger, items[0], "edit", who="bo", role="expert", after=SentenceValue(text="the red hut"))
    decide(ledger, items[0], "accept", who="cy", role="manager")
    decide(ledger, items[1], "reject", who="bo", role="expert")
    decide(ledger, items[1], "accept", who="bo", role="expert")  # another mind
    decide(ledger, items[2], "reject", who="bo", role="expert")
    rates = change_rates_by_role(ledger.states(items).values())["referring"]
    assert rates == {
        "annotator": ChangeRate(3, 0, 0, 0, 0),
        "manager": ChangeRate(1, 0, 0, 0, 0),
        "expert": ChangeRate(seen=3, changed=1, rejected=1, removed=1, changed_or_removed=2),
    }
    assert list(rates) == ["annotator", "manager", "expert"]


def test_an_edit_that_changes_nothing_is_no_change() -> None:
    ledger, item = Ledger(), mask_item()
    decide(ledger, item, "edit", after=square(0, 0))
    assert change_rates_by_role(ledger.states([item]).values()) == {"mask": {"annotator": ChangeRate(1, 0, 0, 0, 0)}}


SPOT = ReviewConfig(policy="annotator+manager", sample_share=0.5)


def test_a_spot_check_is_about_the_drawn_alone() -> None:
    ledger = Ledger()
    items = [mask_item(f"i-{k}", col=10 * k) for k in range(40)]
    drawn = [item for item in items if is_sampled(item.item_id, SPOT, 7)]
    assert 10 < len(drawn) < 30
    beside = next(item for item in items if item not in drawn)
    edited, rejected, waiting, *right = drawn[:6]
    decide(ledger, edited, "edit", after=square(1, 50))
    decide(ledger, edited, "accept", who="bo", role="manager")
    decide(ledger, rejected, "reject", who="bo", role="manager")
    decide(ledger, waiting, "edit", after=square(1, 60))
    for item in right:
        decide(ledger, item, "accept")
        decide(ledger, item, "accept", who="bo", role="manager")
    decide(ledger, beside, "reject", who="bo", role="manager")
    part = new_part(SCENE, square(3, 90).mask, ["hut"])
    decide(ledger, mask_item(instance_id_of(SCENE, part)), "add", parts=(part,))
    found = report(ledger.states(items).values(), SPOT, 7)["spot_check"]
    # Wilson's interval of 2 in 5: (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n) with z = 1.96
    assert found == {"mask": {"drawn": len(drawn), "decided": 5, "wrong": 2, "share": 0.4, "interval": [0.1176, 0.7693]}}


def test_without_decisions_a_spot_check_has_no_share() -> None:
    items = [sentence_item(f"t-{k}") for k in range(20)]
    states = Ledger().states(items).values()
    config = ReviewConfig(sentences=ReviewRule(policy="single", sample_share=0.5))
    (found,) = report(states, config, 0)["spot_check"].values()
    assert found["drawn"] == sum(is_sampled(item.item_id, config.rule_for_sentences, 0) for item in items) > 0
    assert found == {"drawn": found["drawn"], "decided": 0, "wrong": 0, "share": None, "interval": None}
    for no_sample in (ReviewConfig(), ReviewConfig(policy="single"), ReviewConfig(sample_share=0.5)):
        assert report(states, no_sample, 0)["spot_check"] == {}


def test_the_ends_of_an_interval() -> None:
    assert wilson_interval(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert wilson_interval(10, 10) == pytest.approx((0.7225, 1), abs=1e-4)


def test_people_who_judge_the_same_content_are_compared() -> None:
    ledger = Ledger()
    items = [sentence_item(f"t-{k}") for k in range(4)]
    for k, (ada, bo) in enumerate([("accept", "accept"), ("reject", "reject"), ("accept", "reject"), ("reject", "reject")]):
        decide(ledger, items[k], ada)
        decide(ledger, items[k], bo, who="bo")
    found = agreement(ledger.states(items).values())
    assert found.cohen == {("ada", "bo"): (0.5, 4)}
    assert report(ledger.states(items).values(), ReviewConfig(), 0)["agreement"]["items"] == 4


def test_outlines_of_two_people_are_compared() -> None:
    ledger, item = Ledger(), mask_item()
    decide(ledger, item, "edit", after=square(0, 0, 4))
    decide(ledger, item, "edit", who="bo", after=square(2, 0, 4))
    assert agreement(ledger.states([item]).values()).mask_ious == [8 / 24]
