"""How far a review is, on a made-up desk."""

from pathlib import Path

import numpy as np

from tests.review_desk import MadeUpDesk
from tests.unit.review._decisions import decide
from trigpoint.masks.crops import record_of_mask
from trigpoint.records.review import MaskValue
from trigpoint.review.ledger import Ledger, new_part
from trigpoint.review.policy import judge
from trigpoint.review.report import Progress, desk_report, progress_of


def test_items_are_counted_by_scene_kind_and_whom_they_wait_for(tmp_path: Path) -> None:
    desk = MadeUpDesk(tmp_path, review={"policy": "annotator+manager"})
    masks = [item for item in desk.items if item.kind == "mask"]
    first, second = (scene.scene_id for scene in desk.scenes)
    here = [item for item in masks if item.scene_id == first]
    ledger = Ledger()
    cut, returned, accepted, approved, rejected = here[:5]
    assert isinstance(cut.value, MaskValue)
    halves = [record_of_mask(np.ones((3, 3), dtype=bool), (col, 0)) for col in (0, 3)]
    decide(ledger, cut, "split", parts=tuple(new_part(first, half, cut.value.category) for half in halves))
    decide(ledger, returned, "return", who="bo", role="manager")
    decide(ledger, accepted, "accept")
    decide(ledger, approved, "accept")
    decide(ledger, approved, "accept", who="bo", role="manager")
    decide(ledger, rejected, "reject", who="bo", role="manager")

    found = progress_of((state, judge(state, desk.review, desk.seed)) for state in ledger.states(masks).values())

    n = len(here)
    untouched = n - 5
    assert sorted(found) == sorted(
        [
            # the split one is gone, its halves wait for a manager as the accepted one does
            Progress(first, "mask", n + 1, 1, 1, 1, 3 + untouched, {"annotator": 1 + untouched, "manager": 3 + untouched}),
            Progress(second, "mask", n, 0, 0, 0, n, {"annotator": n, "manager": n}),
        ]
    )


def test_what_the_ground_cannot_decide_waits_for_people_without_any_policy(tmp_path: Path) -> None:
    desk = MadeUpDesk(tmp_path, n_scenes=1, review={"policy": "none"})
    doubtful = [item for item in desk.items if item.kind != "mask" and desk.sentence(item.item_id).checked.verdict == "undecidable"]
    assert doubtful

    before = desk_report(desk)
    ledger = desk.ledger
    accepted = doubtful[0]
    assert ledger.append(decide(Ledger(), accepted, "accept"))
    after = desk_report(desk)

    waiting = [sum(row["waiting"] for row in found["progress"]) for found in (before, after)]
    assert waiting == [len(doubtful), len(doubtful) - 1]
    assert {who for row in before["progress"] for who in row["waits_for"]} == {"anyone"}
    assert sum(row["approved"] for row in before["progress"] if row["kind"] == "mask") == desk.n_side**2
    assert list(after["changed"]) == [accepted.kind]
    assert after["spot_check"] == {}
