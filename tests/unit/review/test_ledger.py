"""What a history of decisions means."""

import pytest
from pydantic import ValidationError

from tests.unit.review._decisions import SCENE, accept_of, decide, mask_item, sentence_item, square
from trigpoint.errors import InputError
from trigpoint.records.review import SentenceValue
from trigpoint.review.ledger import ConflictError, Ledger, instance_id_of, new_part


def test_an_edit_holds_its_content_and_its_author_stands_for_it() -> None:
    ledger, item = Ledger(), mask_item()
    decide(ledger, item, "accept", who="bo")
    decide(ledger, item, "edit", after=square(1, 1))
    state = ledger.states([item])[item.item_id]
    assert state.value == square(1, 1)
    assert state.is_changed
    assert [(vote.who, vote.verdict) for vote in state.votes] == [("ada", "accept")]  # bo saw something else


def test_a_vote_on_content_that_is_no_more_does_not_count() -> None:
    ledger, item = Ledger(), mask_item()
    decide(ledger, item, "accept")
    moved = item._replace(value=square(5, 5))  # the source changed
    assert ledger.states([item])[item.item_id].votes
    assert not ledger.states([moved])[item.item_id].votes


def test_an_edit_survives_a_change_of_its_source() -> None:
    ledger, item = Ledger(), mask_item()
    decide(ledger, item, "edit", after=square(1, 1))
    assert ledger.states([item._replace(value=square(5, 5))])[item.item_id].value == square(1, 1)


def test_undo_brings_back_what_was_and_only_its_author_may() -> None:
    ledger, item = Ledger(), sentence_item()
    edit = decide(ledger, item, "edit", after=SentenceValue(text="the small hut"))
    with pytest.raises(InputError, match="decided by ada"):
        decide(ledger, item, "undo", who="bo", undoes=edit.decision_id)
    decide(ledger, item, "undo", undoes=edit.decision_id)
    state = ledger.states([item])[item.item_id]
    assert state.value == item.value
    assert not state.votes
    assert len(state.decisions) == 2  # nothing is lost
    with pytest.raises(InputError, match="counts"):
        decide(ledger, item, "undo", undoes=edit.decision_id)


def test_only_the_newest_decision_can_be_undone() -> None:
    ledger, item = Ledger(), mask_item()
    first = decide(ledger, item, "accept")
    decide(ledger, item, "reject", who="bo")
    with pytest.raises(InputError, match="bo decided to reject"):
        decide(ledger, item, "undo", undoes=first.decision_id)


def test_two_who_saw_the_same_never_both_decide() -> None:
    ledger, item = Ledger(), mask_item()
    decide(ledger, item, "accept", who="bo")
    late = accept_of(item, action="reject", reason="no hut")
    with pytest.raises(ConflictError, match=r"bo \(annotator\) decided to accept it since you opened it"):
        ledger.check(late, {})


def test_a_split_ends_an_item_and_makes_others_and_can_be_undone() -> None:
    ledger, item = Ledger(), mask_item()
    parts = (new_part(SCENE, square(0, 0, 2).mask, ["hut"]), new_part(SCENE, square(2, 2, 2).mask, ["hut"]))
    split = decide(ledger, item, "split", parts=parts)
    states = ledger.states([item])
    ids = [instance_id_of(SCENE, part) for part in parts]
    assert states[item.item_id].fate == "split"
    assert [states[one].value for one in ids] == [part.value for part in parts]
    assert all(states[one].votes[0].verdict == "accept" for one in ids)
    decide(ledger, item, "undo", undoes=split.decision_id)
    assert list(ledger.states([item])) == [item.item_id]


def test_a_split_whose_parts_were_decided_about_is_undone_last() -> None:
    ledger, item = Ledger(), mask_item()
    part = new_part(SCENE, square(0, 0, 2).mask, ["hut"])
    split = decide(ledger, item, "split", parts=(part, new_part(SCENE, square(2, 2, 2).mask, ["hut"])))
    made = ledger.states([item])[instance_id_of(SCENE, part)].item
    decide(ledger, made, "accept", who="bo")
    with pytest.raises(InputError, match="bo decided to accept it later"):
        decide(ledger, item, "undo", undoes=split.decision_id)


def test_a_merge_takes_others_in_unless_someone_decided_about_them() -> None:
    ledger, one, two = Ledger(), mask_item("i-1"), mask_item("i-2", col=4)
    decide(ledger, one, "merge", after=square(0, 0, 8), merged=("i-2",))
    states = ledger.states([one, two])
    assert (states["i-1"].value, states["i-2"].fate) == (square(0, 0, 8), "merged")
    known = {"version": states["i-1"].version, "previous": states["i-1"].newest}
    other = accept_of(one, action="merge", who="bo", after=square(0, 0, 9), merged=("i-3",), **known)
    decide(ledger, mask_item("i-3"), "accept")
    with pytest.raises(ConflictError, match="i-3"):
        ledger.check(other, {"i-3": None})


def test_an_added_instance_is_there_though_nothing_was_proposed() -> None:
    ledger = Ledger()
    part = new_part(SCENE, square(3, 3).mask, ["hut"])
    item_id = instance_id_of(SCENE, part)
    ledger.add(accept_of(mask_item(item_id), action="add", parts=(part,)))
    assert ledger.states_of_scene(SCENE, [])[item_id].value == part.value


def test_decisions_about_what_is_no_longer_proposed_are_kept_and_named() -> None:
    ledger, gone = Ledger(), mask_item("i-gone")
    decision = decide(ledger, gone, "reject")
    decide(ledger, gone, "comment")
    undone = decide(ledger, mask_item("i-gone-too"), "accept")
    decide(ledger, mask_item("i-gone-too"), "undo", undoes=undone.decision_id)
    decide(ledger, mask_item("i-1"), "accept")
    assert ledger.states([mask_item("i-1")]).keys() == {"i-1"}
    assert ledger.orphans([mask_item("i-1")], {SCENE}) == [decision]


def test_what_people_made_is_applied_where_its_scene_is_there() -> None:
    ledger = Ledger()
    part = new_part(SCENE, square(3, 3).mask, ["hut"])
    added = accept_of(mask_item(instance_id_of(SCENE, part)), action="add", parts=(part,))
    ledger.add(added)
    split = decide(ledger, mask_item("i-gone"), "split", parts=(new_part(SCENE, square(9, 9).mask, ["hut"]),))
    assert len(ledger.states([])) == 2  # though nothing is proposed in the scene any more
    assert ledger.orphans([], {SCENE}) == []
    assert ledger.orphans([], {"s-0000000000000002"}) == [added, split]


@pytest.mark.parametrize(
    ("action", "more", "message"),
    [
        ("reject", {}, "needs its reason"),
        ("return", {"reason": "  "}, "needs its reason"),
        ("edit", {}, "after"),
        ("accept", {"undoes": "d-1"}, "undoes"),
        ("split", {"kind": "referring", "parts": (new_part(SCENE, square(0, 0).mask, ["hut"]),)}, "for masks"),
        ("edit", {"after": SentenceValue(text="x")}, "kind mask"),
        ("accept", {"who": "a\nb"}, "who"),
        ("accept", {"who": " ada"}, "who"),
    ],
)
def test_a_decision_that_does_not_fit_is_refused(action: str, more: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        accept_of(mask_item(), **{"action": action, **more})


def test_a_merge_stays_though_what_it_went_into_is_no_longer_proposed() -> None:
    ledger, one, two = Ledger(), mask_item("i-1"), mask_item("i-2", col=4)
    decide(ledger, one, "merge", after=square(0, 0, 8), merged=("i-2",))
    states = ledger.states([two])
    assert (states["i-1"].value, states["i-1"].fate, states["i-2"].fate) == (square(0, 0, 8), "here", "merged")
    assert ledger.orphans([two], {SCENE}) == []
