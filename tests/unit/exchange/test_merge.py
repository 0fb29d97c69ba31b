"""What an import decides: edited, added, split, removed; nobody is overwritten, nothing is lost in silence."""

from typing import Any

import numpy as np
import pytest

from tests.unit.exchange._made import COUPLE, FIRST, RELEASE, TURNED, WAYS, an_item, decided, filled, states_of, through_gpkg, value_of
from tests.unit.review._decisions import decide
from trigpoint.exchange.items import Document, ExportList, Incoming
from trigpoint.exchange.merge import ImportPlan, plan_import
from trigpoint.masks.crops import record_of_mask
from trigpoint.records.review import MaskValue
from trigpoint.review.ledger import ItemState, Ledger

HUT, POND = an_item(filled(FIRST, 2, 2, 6, 5)), an_item(filled(FIRST, 12, 3, 5, 8), number=2, category=("pond",))


def value(mask: np.ndarray, category: tuple[str, ...] = ("hut",)) -> MaskValue:
    return MaskValue(mask=record_of_mask(mask), category=category)


def document_with(document: Document, *incoming: Incoming) -> Document:
    return document._replace(incoming=incoming)


def plan_of(states: dict[str, ItemState], document: Document, **more: Any) -> ImportPlan:
    return plan_import(RELEASE, states, document, "bo", "annotator", **more)


def ledger_after(plan: ImportPlan, ledger: Ledger | None = None) -> Ledger:
    """The ledger into which the decisions of a plan were written, each found to be allowed."""
    after = ledger or Ledger()
    for decision in plan.decisions:
        after.check(decision, {})
        after.add(decision)
    return after


@pytest.mark.parametrize("way", WAYS)
def test_edited_recategorised_added_and_removed_are_told_apart(way: str) -> None:
    third = an_item(filled(FIRST, 20, 12, 4, 4), number=3)
    fourth = an_item(filled(FIRST, 2, 12, 4, 4), number=4)
    states = states_of(HUT, POND, third, fourth)
    document = WAYS[way](states)
    hut, pond, _, kept = document.incoming
    moved, drawn = value(filled(FIRST, 3, 2, 6, 5)), value(filled(FIRST, 25, 1, 3, 3))
    new = hut._replace(item_id=None, seen=None, value=drawn, place="the new one")
    renamed = pond._replace(value=pond.value.model_copy(update={"category": COUPLE}))

    plan = plan_of(states, document_with(document, hut._replace(value=moved), renamed, kept, new))

    assert {(one.what, one.decision.action) for one in plan.planned} == {("edited", "edit"), ("recategorised", "edit"), ("added", "add")}
    assert (plan.unchanged, plan.missing, plan.problems) == ((fourth.item_id,), (third.item_id,), ())
    after = ledger_after(plan).states([HUT, POND, third, fourth])
    assert after[HUT.item_id].value == moved
    assert value_of(after[POND.item_id]) == value(filled(FIRST, 12, 3, 5, 8), COUPLE)
    assert drawn in [state.value for state in after.values()]
    assert after[third.item_id].votes == ()

    rejecting = plan_of(states, document_with(document, hut, pond, kept), removed="reject")

    assert [(one.what, one.decision.item_id, one.decision.reason.split()[0]) for one in rejecting.planned] == [
        ("removed", third.item_id, "removed")
    ]
    assert ledger_after(rejecting).states([third])[third.item_id].votes[-1].verdict == "reject"


def test_the_same_file_twice_changes_nothing_more() -> None:
    states = states_of(HUT, POND)
    document = through_gpkg(states)
    hut = document.incoming[0]
    halves = [hut._replace(value=value(filled(FIRST, x, 2, 3, 5))) for x in (2, 5)]
    new = hut._replace(item_id=None, seen=None, value=value(filled(FIRST, 25, 1, 3, 3)))
    edited = document_with(document, *halves, new)
    ledger = ledger_after(plan_of(states, edited, removed="reject"))
    assert len(ledger) == 3

    again = plan_of(ledger.states([HUT, POND]), edited, removed="reject")

    assert again.planned == again.problems == again.missing == ()


@pytest.mark.parametrize("way", WAYS)
def test_what_somebody_decided_since_the_export_is_a_conflict_and_not_overwritten(way: str) -> None:
    document = WAYS[way](states_of(HUT, POND))
    hut, pond = document.incoming
    ledger = decided(HUT, ("edit", {"after": value(filled(FIRST, 1, 1, 6, 6)), "who": "cy"}))
    states = ledger.states([HUT, POND])

    plan = plan_of(states, document_with(document, hut._replace(value=value(filled(FIRST, 3, 2, 6, 5))), pond), removed="reject")

    assert plan.planned == ()
    assert [problem.item_id for problem in plan.problems] == [HUT.item_id]
    assert "cy (annotator) decided to edit it since; nothing is overwritten" in plan.problems[0].cause
    assert plan_of(states, document).problems == ()  # who did not touch it is no conflict
    gone = plan_of(states, document_with(document, pond), removed="reject")
    assert (gone.planned, [problem.item_id for problem in gone.problems]) == ((), [HUT.item_id])


def test_a_mask_whose_source_has_changed_since_is_a_conflict() -> None:
    document = through_gpkg(states_of(HUT))
    states = states_of(HUT._replace(value=value(filled(FIRST, 2, 2, 7, 5))))

    plan = plan_of(states, document_with(document, document.incoming[0]._replace(value=value(filled(FIRST, 3, 2, 6, 5)))))

    assert "its source has changed since the export" in plan.problems[0].cause
    assert plan_of(states, document).problems == ()


def test_items_of_other_scenes_releases_and_exports_are_refused_by_name() -> None:
    elsewhere = an_item(filled(TURNED, 1, 1, 3, 3), TURNED, number=9)
    states = states_of(HUT, POND, elsewhere)
    document = through_gpkg(states_of(HUT, elsewhere))
    hut = document.incoming[0]
    moved = value(filled(FIRST, 3, 2, 6, 5))
    strays = {
        "drawn on s-": hut._replace(item_id=elsewhere.item_id, value=moved),
        "no such mask": hut._replace(item_id="i-ffffffffffffffff", value=moved),
        "not in this export": hut._replace(item_id=POND.item_id, value=moved),
    }

    for cause, stray in strays.items():
        plan = plan_of(states, document_with(document, stray))
        assert plan.planned == ()
        assert [problem.item_id for problem in plan.problems] == [stray.item_id]
        assert cause in plan.problems[0].cause

    assert document.export is not None
    other = document._replace(export=ExportList.model_validate({**document.export.to_json(), "release": "another"}))
    plan = plan_of(states, other)
    assert (plan.planned, "from the release 'another'" in plan.problems[0].cause) == ((), True)


def test_a_copy_is_new_two_parts_are_a_split_and_anything_else_is_asked_about() -> None:
    states = states_of(HUT)
    document = through_gpkg(states)
    hut = document.incoming[0]
    far = hut._replace(value=value(filled(FIRST, 20, 10, 6, 5)), place="feature 2")
    near = hut._replace(value=value(filled(FIRST, 3, 2, 4, 5)), place="feature 3")
    left, right = (hut._replace(value=value(filled(FIRST, x, 2, 3, 5))) for x in (2, 5))

    assert [one.what for one in plan_of(states, document_with(document, hut, far)).planned] == ["added"]
    split = plan_of(states, document_with(document, left, right))
    assert [(one.what, len(one.decision.parts)) for one in split.planned] == [("split", 2)]
    assert {state.fate for state in ledger_after(split).states([HUT]).values()} == {"split", "here"}
    for group in ((left, far), (left, near)):
        plan = plan_of(states, document_with(document, *group))
        assert plan.planned == ()
        assert all("2 times in the file" in problem.cause for problem in plan.problems)
        assert len(plan.problems) == 2


def test_what_lost_its_id_is_found_by_what_it_covers() -> None:
    states = states_of(HUT, POND)
    document = WAYS["coco"](states)
    nameless = [one._replace(item_id=None, seen=None) for one in document.incoming]

    same = plan_of(states, document_with(document, *nameless))
    redrawn = plan_of(states, document_with(document, nameless[0]._replace(value=value(filled(FIRST, 3, 2, 6, 5))), nameless[1]))

    assert (same.planned, same.missing, same.problems) == ((), (), ())
    assert [(one.what, one.decision.item_id) for one in redrawn.planned] == [("edited", HUT.item_id)]
    assert "IoU 0.71" in redrawn.planned[0].notes[0]  # 25 shared of 35 pixels


def test_without_the_list_of_the_export_removals_are_unknown_and_later_decisions_safe() -> None:
    states = states_of(HUT, POND)
    document = WAYS["cvat"](states)._replace(export=None)
    hut = document.incoming[0]
    assert hut.seen == (states[HUT.item_id].version, None)
    moved = hut._replace(value=value(filled(FIRST, 3, 2, 6, 5)))

    plan = plan_of(states, document_with(document, moved), removed="reject")
    assert [one.what for one in plan.planned] == ["edited"]
    assert "what was removed is not known" in plan.remarks[0]

    later = decided(HUT, ("accept", {"who": "cy"})).states([HUT, POND])
    assert "cy (annotator)" in plan_of(later, document_with(document, moved)).problems[0].cause
    unsaid = plan_of(later, document_with(document, moved._replace(seen=None)))
    assert "does not say what was known" in unsaid.problems[0].cause
    assert plan_of(states, document_with(document, moved._replace(seen=None))).problems == ()


def test_a_broken_item_does_not_count_as_removed() -> None:
    states = states_of(HUT, POND)
    document = through_gpkg(states)
    broken = document._replace(incoming=document.incoming[1:], problems=(document_problem(HUT.item_id),))

    plan = plan_of(states, broken, removed="reject")

    assert plan.planned == plan.missing == ()


def document_problem(item_id: str) -> Any:
    from trigpoint.exchange.items import Problem

    return Problem("layer 'masks', feature 1", item_id, "it has no geometry")


def test_scenes_that_are_not_in_the_file_are_left_alone() -> None:
    elsewhere = an_item(filled(TURNED, 1, 1, 3, 3), TURNED, number=9)
    states = states_of(HUT, elsewhere)
    document = WAYS["cvat"](states)
    part = document._replace(incoming=document.incoming[:1], scene_ids=frozenset({FIRST.scene_id}))

    plan = plan_of(states, part, removed="reject")

    assert plan.planned == plan.missing == ()
    assert any(TURNED.scene_id in remark and "1 items" in remark for remark in plan.remarks)


def test_an_addition_that_was_undone_can_be_imported_again() -> None:
    states = states_of(HUT)
    document = through_gpkg(states)
    new = document.incoming[0]._replace(item_id=None, seen=None, value=value(filled(FIRST, 25, 1, 3, 3)))
    edited = document_with(document, document.incoming[0], new)
    ledger = ledger_after(plan_of(states, edited))
    added = next(state for state in ledger.states([HUT]).values() if state.item.made_by)
    decide(ledger, added.item, "undo", who="bo", undoes=added.item.made_by)
    assert len(ledger.states([HUT])) == 1

    def newest(item_id: str) -> str | None:
        found = ledger.newest(item_id)
        return found.decision_id if found else None

    plan = plan_of(ledger.states([HUT]), edited, newest=newest)

    assert [one.what for one in plan.planned] == ["added"]
    assert len(ledger_after(plan, ledger).states([HUT])) == 2


@pytest.mark.parametrize("way", WAYS)
def test_an_inseparable_mask_stays_so_and_can_be_marked_elsewhere(way: str) -> None:
    item = an_item(filled(FIRST, 2, 2, 6, 5), separable=False)
    states = states_of(item)
    document = WAYS[way](states)
    same = plan_of(states, document)
    moved = value(filled(FIRST, 3, 2, 6, 5)).model_copy(update={"separable": document.incoming[0].value.separable})
    edited = plan_of(states, document_with(document, document.incoming[0]._replace(value=moved)))

    assert (same.planned, same.problems) == ((), ())
    assert ledger_after(edited).states([item])[item.item_id].value == moved.model_copy(update={"separable": False})
    marked = document.incoming[0]._replace(value=document.incoming[0].value.model_copy(update={"separable": True}), says_separable=True)
    assert [one.what for one in plan_of(states, document_with(document, marked)).planned] == ["recategorised"]
