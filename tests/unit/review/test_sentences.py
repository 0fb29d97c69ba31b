"""Decisions on sentences: the ground stays the judge."""

from typing import Any

from tests.unit.review._decisions import SCENE, decide
from trigpoint.config import ReviewRule
from trigpoint.language.grounding import Checked
from trigpoint.records.language import Claim, LanguageItem
from trigpoint.records.review import SentenceValue
from trigpoint.review.ledger import Ledger
from trigpoint.review.policy import judge
from trigpoint.review.sentences import is_for_people, review_item_of, reviewed

NONE, SINGLE = ReviewRule(), ReviewRule(policy="single")


def item(name: str = "t-1", text: str = "the hut by the lake", **more: Any) -> LanguageItem:
    about = {
        "annotation_id": "a-1",
        "scene_id": SCENE,
        "form": "referring",
        "polarity": "positive",
        "original": text,
        "provider": "offline",
    }
    return LanguageItem.model_validate({"item_id": name, "text": text, "verdict": "supported", "state": "accepted", **about, **more})


def after(ledger: Ledger, items: list[LanguageItem], rule: ReviewRule, check: str = "supported") -> dict[str, LanguageItem]:
    states = ledger.states(review_item_of(one) for one in items if is_for_people(one))
    verdicts = {item_id: judge(state, rule, 0) for item_id, state in states.items()}

    def ground(_: LanguageItem, text: str) -> Checked:
        return Checked(verdict=check, claims=(Claim(kind="direction", text=text, verdict=check, measured="10 m south"),), correction=None)  # type: ignore[arg-type]

    return {one.item_id: one for one in reviewed(items, states, verdicts, ground)}


def test_without_policy_and_people_everything_stays_as_it_was() -> None:
    items = [item("t-1"), item("t-2", "b", state="review", verdict="undecidable"), item("t-3", "c", state="dropped")]
    assert list(after(Ledger(), items, NONE).values()) == items


def test_what_the_ground_cannot_decide_people_can() -> None:
    ledger, one = Ledger(), item(state="review", verdict="undecidable", reason="'by the lake': no lake is known")
    decide(ledger, review_item_of(one), "accept")
    for rule in (NONE, SINGLE):
        found = after(ledger, [one], rule)["t-1"]
        assert (found.state, found.people) == ("accepted", 1)


def test_a_policy_keeps_back_what_nobody_saw() -> None:
    found = after(Ledger(), [item()], SINGLE)["t-1"]
    assert (found.state, found.people) == ("review", 0)
    assert "waiting" in found.reason


def test_what_people_reject_is_dropped() -> None:
    ledger, one = Ledger(), item()
    decide(ledger, review_item_of(one), "reject")
    assert after(ledger, [one], NONE)["t-1"].state == "dropped"


def test_an_edit_is_checked_and_falls_when_the_ground_contradicts_it() -> None:
    ledger, one = Ledger(), item()
    decide(ledger, review_item_of(one), "edit", after=SentenceValue(text="the hut north of the lake"))
    good = after(ledger, [one], SINGLE)["t-1"]
    assert (good.text, good.original, good.state, good.people) == ("the hut north of the lake", "the hut by the lake", "edited", 1)
    bad = after(ledger, [one], SINGLE, check="contradicted")["t-1"]
    assert bad.state == "dropped"
    assert "10 m south" in bad.reason


def test_an_edit_to_what_another_sentence_says_is_dropped() -> None:
    ledger, one, two = Ledger(), item("t-1"), item("t-2", "the old hut")
    decide(ledger, review_item_of(two), "edit", after=SentenceValue(text="The hut by the lake."))
    found = after(ledger, [one, two], NONE)
    assert (found["t-1"].state, found["t-2"].state) == ("accepted", "dropped")
