"""Decisions of people on the masks of one scene: what they changed, made and rejected, before ownership is decided."""

from collections import Counter
from typing import NamedTuple

from trigpoint.config import ReviewRule
from trigpoint.errors import InputError
from trigpoint.masks.annotate import Placed, Proposal
from trigpoint.masks.crops import crop_of_record, polygon_of_record, record_of_polygon
from trigpoint.records.review import MaskValue, Verdict
from trigpoint.records.stage import Drop
from trigpoint.review.ledger import ItemState, Ledger, ReviewItem, new_part
from trigpoint.review.policy import judge

WAITS = "waits_for_review"
"""Reason of the drop that keeps a scene back until its masks are decided about."""


class SceneReview:
    """What people decided about the masks of a scene.

    Args:
        scene_id: The scene.
        size: Its height and width, pixels.
        pixel_area_m2: Ground area of its pixel.
        ledger: Decisions; those on other scenes do not matter.
        rule: The policy.
        seed: Of the release.

    Attributes:
        items: Every proposed mask, for people to see; filled by `apply`.
        verdicts: What the policy makes of every item; filled by `apply`.
    """

    def __init__(self, scene_id: str, size: tuple[int, int], pixel_area_m2: float, ledger: Ledger, rule: ReviewRule, seed: int) -> None:
        self._scene_id, self._size, self._pixel_area_m2 = scene_id, size, pixel_area_m2
        self._ledger, self._rule, self._seed = ledger, rule, seed
        self.items: list[ReviewItem] = []
        self.verdicts: list[Verdict] = []

    def apply(self, placed: list[Placed], drops: list[Drop]) -> list[Placed]:
        """Return the proposals as people left them, sorted by id; what is rejected goes to `drops`.

        Raises:
            InputError: a stored mask does not lie in the scene.
        """
        by_id = {item.instance_id: item for item in placed}
        unseen: list[Placed] = []
        for item in placed:
            try:
                mask = record_of_polygon(item.polygon, *self._size)
            except InputError:  # covers no pixel centre: nothing to look at
                unseen.append(item)
                continue
            value = MaskValue(mask=mask, category=item.categories, separable=item.separable)
            self.items.append(ReviewItem(item.instance_id, "mask", self._scene_id, value))
        states = self._ledger.states_of_scene(self._scene_id, self.items)
        sources = _Sources(states, by_id)
        kept = unseen
        for item_id, state in states.items():
            verdict = judge(state, self._rule, self._seed)
            self.verdicts.append(verdict)
            if verdict.status == "rejected":
                drops.append(self._drop(sources.of(item_id)[0], "rejected_in_review", verdict.basis))
            else:
                kept.append(self._placed(state, by_id.get(item_id), sources.of(item_id)))
        waiting = Counter(verdict.status for verdict in self.verdicts if verdict.status in ("waiting", "returned"))
        if waiting:
            said = ", ".join(f"{n} {status}" for status, n in sorted(waiting.items()))
            drops.append(self._drop(self._scene_id, WAITS, f"the policy {self._rule.policy} keeps it back: {said} of {len(states)} masks"))
        return sorted(kept, key=lambda item: item.instance_id)

    def _placed(self, state: ItemState, before: Placed | None, source_ids: tuple[str, ...]) -> Placed:
        value = state.value
        assert isinstance(value, MaskValue)
        is_decided = any(vote.verdict == "accept" for vote in state.votes)
        if before is not None and not state.is_changed:
            return before._replace(review_state="accepted" if is_decided else before.review_state)
        crop_of_record(value.mask, *self._size, item=state.item.item_id)
        polygon = polygon_of_record(value.mask)
        proposal = before.proposal if before else Proposal(source_ids[0], polygon, "", value.category, "annotator")
        is_redrawn = before is None or not isinstance(state.item.value, MaskValue) or value.mask != state.item.value.mask
        outline, area_m2 = (
            (polygon, float(polygon.area) * self._pixel_area_m2) if is_redrawn else (before.polygon, before.whole_area_m2)  # type: ignore[union-attr]
        )
        return Placed(state.item.item_id, proposal, outline, area_m2, value.category, source_ids, "edited", is_redrawn, value.separable)

    def _drop(self, item_id: str, reason_code: str, detail: str) -> Drop:
        return Drop(
            stage="annotate",
            scope_id=self._scene_id,
            item_id=item_id,
            reason_code=reason_code,
            detail=detail,
            remedy="open it in `trigpoint review`",
        )


class _Sources(NamedTuple):
    """Where items come from: those that went into one count too."""

    states: dict[str, ItemState]
    placed: dict[str, Placed]

    def of(self, item_id: str) -> tuple[str, ...]:
        """Return the source ids of an item, its own first."""
        state = self.states[item_id]
        found: dict[str, None] = dict.fromkeys(self._own(item_id))
        for decision in state.decisions:
            if decision.item_id == item_id and decision.decision_id not in state.undone:
                for other in decision.merged:
                    found.update(dict.fromkeys(self._own(other)))
        return tuple(found)

    def _own(self, item_id: str) -> tuple[str, ...]:
        if item_id in self.placed:
            return self.placed[item_id].source_ids
        state = self.states.get(item_id)
        if state is None:
            return ()
        made = next(decision for decision in state.decisions if decision.decision_id == state.item.made_by)
        own = tuple(part.source_id for part in made.parts if part.value == state.item.value)[:1]
        # a merge whose own source is gone is its own source
        value = state.item.value
        assert isinstance(value, MaskValue)
        return own or (new_part(state.item.scene_id, value.mask, value.category, value.separable).source_id,)
