"""Small items and decisions for the tests of review."""

from typing import Any

import numpy as np

from trigpoint.masks.crops import record_of_mask
from trigpoint.records.review import Decision, MaskValue, SentenceValue
from trigpoint.review.ledger import Ledger, ReviewItem, version_of

SCENE = "s-0000000000000001"


def square(col: int, row: int, side: int = 4, category: str = "hut") -> MaskValue:
    return MaskValue(mask=record_of_mask(np.ones((side, side), dtype=bool), (col, row)), category=(category,))


def mask_item(name: str = "i-1", col: int = 0) -> ReviewItem:
    return ReviewItem(name, "mask", SCENE, square(col, 0))


def sentence_item(name: str = "t-1", text: str = "the hut") -> ReviewItem:
    return ReviewItem(name, "referring", SCENE, SentenceValue(text=text))


def decide(ledger: Ledger, item: ReviewItem, action: str, who: str = "ada", role: str = "annotator", **more: Any) -> Decision:
    """Make the decision that someone would who sees the item as it is now, and take it into the ledger."""
    state = ledger.states_of_scene(item.scene_id, [item])[item.item_id]
    if action in ("return", "reject", "comment"):
        more.setdefault("reason", "because")
    newest = ledger.newest(item.item_id)
    known: dict[str, Any] = {"version": version_of(state.value), "previous": newest.decision_id if newest else None}
    about = {"item_id": item.item_id, "kind": item.kind, "scene_id": item.scene_id}
    decision = Decision.model_validate({**about, "action": action, "who": who, "role": role, **known, **more})
    seen = {one: (last.decision_id if (last := ledger.newest(one)) else None) for one in decision.merged}
    ledger.check(decision, seen)
    ledger.add(decision)
    return decision


def accept_of(item: ReviewItem, **more: Any) -> Decision:
    """The decision of someone who never saw another one."""
    about = {"item_id": item.item_id, "kind": item.kind, "scene_id": item.scene_id, "version": version_of(item.value)}
    return Decision.model_validate({**about, "action": "accept", "who": "ada", "role": "annotator", **more})
