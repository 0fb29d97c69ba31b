"""What an import means: decisions on what was edited, added, split and removed; nobody is overwritten.

An export says of each item what it held and which decision was the newest. An item that somebody decided about since, and that the
import would change too, is a conflict: it is named and left alone. Not here: reading documents, writing decisions.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from trigpoint.exchange.items import NAME_OF, Document, Incoming, Listed, Problem
from trigpoint.exchange.shapes import box_corners, is_filled, shared_px
from trigpoint.masks.rle import rle_area
from trigpoint.records.mask import MaskCrop
from trigpoint.records.review import Decision, MaskValue, Part, Role
from trigpoint.review.agreement import mask_iou
from trigpoint.review.ledger import ItemState, instance_id_of, new_part, version_of

What = Literal["edited", "recategorised", "added", "split", "removed"]
Removed = Literal["report", "reject"]

SAME_BOX_PX = 0.2
"""Largest distance of a corner of a box that is taken to be where it was: CVAT rounds lengths to 0.01 px and angles to 0.01°."""

REDRAWN_IOU = 0.5
"""IoU from which a new item is a missing one drawn anew; at most one item has more than half of its pixels in common with another so."""


class Planned(NamedTuple):
    """A decision to write, and where it comes from."""

    what: What
    place: str
    decision: Decision
    notes: tuple[str, ...] = ()


class ImportPlan(NamedTuple):
    """What an import would do.

    Attributes:
        planned: Decisions, sorted by item.
        unchanged: Ids of items that came back as they were.
        missing: Ids of exported items that did not come back and are left as they are.
        problems: What cannot be taken in; a part of a file is taken in only when asked for.
        remarks: What else to know, a line each.
    """

    planned: tuple[Planned, ...]
    unchanged: tuple[str, ...]
    missing: tuple[str, ...]
    problems: tuple[Problem, ...]
    remarks: tuple[str, ...]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What to write."""
        return tuple(entry.decision for entry in self.planned)


def plan_import(
    release: str,
    states: Mapping[str, ItemState],
    document: Document,
    who: str,
    role: Role,
    removed: Removed = "report",
    newest: Callable[[str], str | None] = lambda _item_id: None,
    round_number: int = 1,
) -> ImportPlan:
    """Compare a document with the items as they are now.

    Args:
        release: Name of the release.
        states: All masks of the release's scenes, by id.
        document: What the file holds.
        who: Who signs.
        role: As what.
        removed: What becomes of items that were exported and did not come back: `report` leaves them, `reject` rejects them.
        newest: Item id → id of the newest decision on it, also of an item that is no longer there.
        round_number: Round of the policy unanimous.
    """
    return _Import(release, states, document, who, role, removed, newest, round_number).plan()


class _Import:
    def __init__(
        self,
        release: str,
        states: Mapping[str, ItemState],
        document: Document,
        who: str,
        role: Role,
        removed: Removed,
        newest: Callable[[str], str | None],
        round_number: int,
    ) -> None:
        self._states, self._document = states, document
        self._who, self._removed, self._newest = who, removed, newest
        self._role: Role = role
        self._round = round_number
        self._by_content = {(s.item.scene_id, s.version): s for s in states.values() if s.fate == "here"}
        self._program = NAME_OF[document.format]
        self._release = release
        self._listed = {item.item_id: item for item in document.export.items} if document.export else None
        self._problems = list(document.problems)
        self._planned: list[Planned] = []
        self._unchanged: set[str] = set()
        self._remarks: list[str] = []

    def plan(self) -> ImportPlan:
        export = self._document.export
        if export is not None and export.release != self._release:
            cause = f"it was exported from the release {export.release!r}, and this is {self._release!r}; import it there"
            return ImportPlan((), (), (), (Problem("the file", None, cause),), ())
        named: dict[str, list[Incoming]] = {}
        new: list[Incoming] = []
        for incoming in self._document.incoming:
            if incoming.item_id is None:
                new.append(incoming)
            else:
                named.setdefault(incoming.item_id, []).append(incoming)
        for item_id, group in sorted(named.items()):
            new += self._take_named(item_id, group)
        missing = self._missing(set(named))
        for incoming in self._match_redrawn(new, missing):
            self._take_new(incoming)
        self._take_missing(missing)
        self._say_what_is_unknown()
        planned = sorted(self._planned, key=lambda entry: (entry.decision.scene_id, entry.decision.item_id))
        problems = sorted(dict.fromkeys(self._problems), key=lambda problem: (problem.place, problem.item_id or "", problem.cause))
        left = sorted(missing) if self._removed == "report" else []
        return ImportPlan(tuple(planned), tuple(sorted(self._unchanged)), tuple(left), tuple(problems), tuple(self._remarks))

    def _take_named(self, item_id: str, group: list[Incoming]) -> list[Incoming]:
        """Take in what says it is one item; returns what turns out to be new."""
        state = self._states.get(item_id)
        if state is None or state.item.kind != "mask":
            self._refuse(group, "this release has no such mask; was it exported from another one, or has its source changed since?")
            return []
        strays = [one for one in group if one.scene_id != state.item.scene_id]
        if strays:
            self._refuse(strays, f"it is of scene {state.item.scene_id}, and drawn on {strays[0].scene_id}; a new item has no item_id")
            return []
        if self._listed is not None and item_id not in self._listed:
            self._refuse(group, "it was not in this export; a new item has no item_id")
            return []
        group = [self._as_exported(one, state) for one in group]
        if len(group) == 1:
            self._take_one(group[0], state)
            return []
        value = state.value
        same = [one for one in group if one.value == value]
        others = [one for one in group if one.value != value]
        if same:  # copies of it were drawn elsewhere
            self._unchanged.add(item_id)
            return [one._replace(item_id=None, seen=None) for one in others]
        self._take_split(item_id, group, state)
        return []

    def _as_exported(self, incoming: Incoming, state: ItemState) -> Incoming:
        """Give back what the format or the form could not hold, where nothing else has changed."""
        value = state.value
        if isinstance(value, MaskValue) and not incoming.says_separable:
            incoming = incoming._replace(value=incoming.value.model_copy(update={"separable": value.separable}))
        if not isinstance(value, MaskValue) or incoming.form == "mask" or self._document.format == "gpkg":
            return incoming
        if incoming.form == "box" and incoming.corners is not None:
            before = self._listed[state.item.item_id].corners if self._listed is not None else None
            corners = np.array(before) if before is not None else box_corners(value.mask)
            if corners.shape == (4, 2) and _box_distance(incoming.corners, corners) <= SAME_BOX_PX:
                return incoming._replace(value=incoming.value.model_copy(update={"mask": value.mask}), notes=())
        if incoming.form == "polygon" and is_filled(incoming.value.mask, value.mask):
            note = f"a polygon of {self._program} holds no holes; those of the item are kept"
            same = incoming.value.model_copy(update={"mask": value.mask})
            self._remarks.append(f"{incoming.place} ({state.item.item_id}): {note}")
            return incoming._replace(value=same, notes=(*incoming.notes, note))
        return incoming

    def _take_one(self, incoming: Incoming, state: ItemState) -> None:
        item_id, after = state.item.item_id, incoming.value
        if after == state.value:
            self._unchanged.add(item_id)
            return
        seen = self._seen(incoming, state)
        if seen is not None and version_of(after) == seen[0]:  # nobody touched it there
            self._unchanged.add(item_id)
            return
        if not self._may_change(incoming.place, state, seen):
            return
        is_same_mask = isinstance(state.value, MaskValue) and after.mask == state.value.mask
        what: What = "recategorised" if is_same_mask else "edited"
        reason = f"named anew in {self._program}" if is_same_mask else f"edited in {self._program}"
        self._plan_decision(what, incoming, state, {"action": "edit", "after": after, "before": state.value, "reason": reason})

    def _take_split(self, item_id: str, group: list[Incoming], state: ItemState) -> None:
        """Several parts of one item are a split when they lie apart, and mostly on it."""
        masks = [one.value.mask for one in group]
        value = state.value
        lie_on_it = isinstance(value, MaskValue) and all(2 * shared_px(m, value.mask) >= rle_area(m.counts, m.size_px) for m in masks)
        if not lie_on_it or any(shared_px(first, second) for first, second in combinations(masks, 2)):
            self._refuse(group, f"it is {len(group)} times in the file, and they are no parts that lie apart; a new item has no item_id")
            return
        parts = tuple(new_part(state.item.scene_id, *_parts_of(one.value)) for one in group)
        if any(set(parts) == set(one.parts) and one.decision_id not in state.undone for one in state.decisions if one.action == "split"):
            self._unchanged.add(item_id)  # imported before
            return
        if not self._may_change(group[0].place, state, self._seen(group[0], state)):
            return
        more = {"action": "split", "parts": parts, "before": state.value, "reason": f"split in {self._program}"}
        self._plan_decision("split", group[0], state, more)

    def _take_new(self, incoming: Incoming) -> None:
        part = new_part(incoming.scene_id, *_parts_of(incoming.value))
        item_id = instance_id_of(incoming.scene_id, part)
        there = self._by_content.get((incoming.scene_id, version_of(part.value)))
        if there is not None:
            self._unchanged.add(there.item.item_id)  # imported before, or its id was lost on the way
            return
        if item_id in self._states:
            self._refuse([incoming], f"it was drawn before as {item_id}, and that was changed or undone since; change it in the review")
            return
        if any(entry.decision.item_id == item_id for entry in self._planned):
            self._refuse([incoming], "the same item is in the file twice; delete one")
            return
        decision = Decision(
            item_id=item_id,
            kind="mask",
            scene_id=incoming.scene_id,
            action="add",
            who=self._who,
            role=self._role,
            round=self._round,
            version=version_of(part.value),
            previous=self._newest(item_id),
            parts=(Part(source_id=part.source_id, value=part.value),),
            reason=f"drawn in {self._program}",
        )
        self._planned.append(Planned("added", incoming.place, decision, incoming.notes))

    def _missing(self, named: set[str]) -> set[str]:
        """Exported items of the document's scenes that did not come back under their name."""
        broken = {problem.item_id for problem in self._problems}
        return {
            item.item_id
            for item in (self._listed or {}).values()
            if item.scene_id in self._document.scene_ids
            and item.item_id not in named
            and item.item_id not in broken
            and item.item_id in self._states
            and self._states[item.item_id].fate == "here"
            and not _is_rejected(self._states[item.item_id])
        }

    def _match_redrawn(self, new: list[Incoming], missing: set[str]) -> list[Incoming]:
        """Take what was deleted and drawn anew, or lost its id, as the item that it was; returns what is really new."""
        pairs: list[tuple[float, str, int]] = []
        for k, incoming in enumerate(new):
            for item_id in missing:
                state = self._states[item_id]
                if state.item.scene_id != incoming.scene_id or not isinstance(state.value, MaskValue):
                    continue
                if shared_px(incoming.value.mask, state.value.mask):
                    pairs.append((-mask_iou(incoming.value.mask, state.value.mask), item_id, k))
        taken: set[int] = set()
        for negative, item_id, k in sorted(pairs):
            if -negative < REDRAWN_IOU or item_id not in missing or k in taken:
                continue
            taken.add(k)
            missing.discard(item_id)
            note = f"it has no item_id, and is taken for {item_id}, which it covers (IoU {-negative:.2f})"
            state = self._states[item_id]
            found = new[k]._replace(item_id=item_id, notes=(*new[k].notes, note))
            self._take_one(self._as_exported(found, state), state)
        return [incoming for k, incoming in enumerate(new) if k not in taken]

    def _take_missing(self, missing: set[str]) -> None:
        if self._removed != "reject" or self._listed is None:
            return
        for item_id in sorted(missing):
            state, listed = self._states[item_id], self._listed[item_id]
            place = f"scene {state.item.scene_id}"
            if not self._may_change(place, state, (listed.version, listed.newest)):
                continue
            decision = self._decision(state, {"action": "reject", "reason": f"removed in {self._program}"})
            self._planned.append(Planned("removed", place, decision))

    def _seen(self, incoming: Incoming, state: ItemState) -> tuple[str, str | None] | None:
        listed: Listed | None = self._listed.get(state.item.item_id) if self._listed is not None else None
        return (listed.version, listed.newest) if listed is not None else incoming.seen

    def _may_change(self, place: str, state: ItemState, seen: tuple[str, str | None] | None) -> bool:
        """Whether nobody has decided since the export; else the item is named as a conflict."""
        cause = None
        if state.fate != "here":
            cause = f"it was {state.fate} into others since; look at it again in the review"
        elif seen is None and state.decisions:
            cause = "the file does not say what was known at the export, and somebody has decided since; give the list of the export"
        elif seen is not None and seen[1] != state.newest:
            last = state.decisions[-1] if state.decisions else None
            said = f"{last.who} ({last.role}) decided to {last.action} it since" if last else "its decisions are not those of this ledger"
            cause = f"{said}; nothing is overwritten: export it again and edit that"
        elif seen is not None and seen[0] != state.version:
            cause = "its source has changed since the export: export it again and edit that"
        if cause is not None:
            self._problems.append(Problem(place, state.item.item_id, cause))
        return cause is None

    def _plan_decision(self, what: What, incoming: Incoming, state: ItemState, more: Mapping[str, object]) -> None:
        self._planned.append(Planned(what, incoming.place, self._decision(state, more), incoming.notes))

    def _decision(self, state: ItemState, more: Mapping[str, object]) -> Decision:
        about = {"item_id": state.item.item_id, "kind": "mask", "scene_id": state.item.scene_id}
        by = {"who": self._who, "role": self._role, "round": self._round, "version": state.version, "previous": state.newest}
        return Decision.model_validate({**about, **by, **more})

    def _refuse(self, group: Iterable[Incoming], cause: str) -> None:
        self._problems += [Problem(one.place, one.item_id, cause) for one in group]

    def _say_what_is_unknown(self) -> None:
        export = self._document.export
        if export is None:
            self._remarks.append("the file has no list of the export: what was removed is not known; give export.json with --list")
            return
        absent = sorted(set(export.scene_ids) - self._document.scene_ids)
        if absent:
            n = sum(item.scene_id in absent for item in export.items)
            shown = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
            self._remarks.append(f"not in the file, and left as they are: {shown} with {n} items")


def _parts_of(value: MaskValue) -> tuple[MaskCrop, tuple[str, ...], bool]:
    return value.mask, value.category, value.separable


def _is_rejected(state: ItemState) -> bool:
    return bool(state.votes) and state.votes[-1].verdict == "reject"


def _box_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Largest distance of two boxes' corners, whichever comes first in each."""
    turned = [np.roll(first, k, axis=0) for k in range(4)]
    return float(min(np.hypot(*(points - second).T).max() for points in turned))
