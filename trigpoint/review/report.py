"""How far a review is: what is decided, whom the rest waits for, and what people did so far.

Not here: what a release tells of its review (`trigpoint.release.reviews`), tables for people (`flows.review_report`).
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from trigpoint.records.review import ItemKind, Verdict
from trigpoint.review.agreement import report
from trigpoint.review.ledger import ItemState
from trigpoint.review.page_board import Board
from trigpoint.review.page_desk import Desk


class Progress(NamedTuple):
    """How far the items of one kind in one scene are; items that were split or merged into others are none.

    Attributes:
        items: All of them.
        approved, rejected, returned, waiting: Their number in this state; the last two keep an item back.
        waits_for: Role, person or `anyone` → number of items that wait for it; an item may wait for several.
    """

    scene_id: str
    kind: ItemKind
    items: int
    approved: int
    rejected: int
    returned: int
    waiting: int
    waits_for: dict[str, int]


def progress_of(judged: Iterable[tuple[ItemState, Verdict]]) -> list[Progress]:
    """Count items after their history, each with what is made of it, by scene and kind; sorted."""
    found: dict[tuple[str, ItemKind], list[Verdict]] = {}
    for state, verdict in judged:
        if state.fate == "here":
            found.setdefault((state.item.scene_id, state.item.kind), []).append(verdict)
    return [_progress(scene_id, kind, found[scene_id, kind]) for scene_id, kind in sorted(found)]


def _progress(scene_id: str, kind: ItemKind, verdicts: list[Verdict]) -> Progress:
    n = Counter(verdict.status for verdict in verdicts)
    waits_for = Counter(who for verdict in verdicts for who in verdict.waits_for)
    return Progress(
        scene_id, kind, len(verdicts), n["approved"], n["rejected"], n["returned"], n["waiting"], dict(sorted(waits_for.items()))
    )


def desk_report(desk: Desk) -> dict[str, Any]:
    """Return progress, change rates, agreement and spot checks of everything on a desk as plain JSON values.

    Keys are `progress` (rows by scene and kind) and those of `trigpoint.review.agreement.report`.
    """
    judged = Board(desk).judged()
    states = [state for state, _ in judged]
    return {"progress": [row._asdict() for row in progress_of(judged)], **report(states, desk.review, desk.seed)}
