"""The live state of everything on the desk, as the page shows it, and the one place where the page's decisions are written.

Not here: HTTP (`trigpoint.review.page`), from a request to a decision (`trigpoint.review.page_intents`).
"""

import secrets
from collections.abc import Iterable
from threading import RLock
from typing import Any, NamedTuple, get_args

from trigpoint.errors import InputError, TaxonomyError
from trigpoint.identity import digest_json
from trigpoint.language.grounding import Checked
from trigpoint.records.review import Decision, ItemKind, MaskValue, SentenceValue, Verdict
from trigpoint.review.ledger import ConflictError, ItemState, Ledger, ReviewItem, Value, touched
from trigpoint.review.page_desk import Desk, DeskScene
from trigpoint.review.page_intents import Intent, decision_of, preview_of
from trigpoint.review.page_outlines import area_px_of, rings_of, vertices_of
from trigpoint.review.policy import judge

KINDS: tuple[ItemKind, ...] = get_args(ItemKind)


class ContradictedError(InputError):
    """A sentence that the ground contradicts cannot be accepted.

    Attributes:
        checked: What the check found.
    """

    def __init__(self, message: str, checked: Checked) -> None:
        super().__init__(message)
        self.checked = checked


class Written(NamedTuple):
    """What became of a request to decide.

    Attributes:
        is_new: False when the very same decision was there already.
        touched: Ids of all items whose state may be another now.
    """

    decision: Decision
    is_new: bool
    touched: tuple[str, ...]


class Board:
    """Live states; several threads may use it.

    Args:
        desk: What there is to decide about.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.scenes: dict[str, DeskScene] = {scene.scene_id: scene for scene in desk.scenes}
        self.stamp = 0
        self._boot = secrets.token_hex(4)
        self._lock = RLock()
        self._proposed: dict[str, list[ReviewItem]] = {scene_id: [] for scene_id in self.scenes}
        for item in desk.items:
            self._proposed[item.scene_id].append(item)
        self._checked: dict[tuple[str, str], Checked] = {}
        self._states: dict[str, dict[str, ItemState]] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self._n_seen = -1
        self._n_of_scene: dict[str, int] = {}
        self.refresh()

    # what there is

    def refresh(self) -> None:
        """Take in what others decided."""
        with self._lock:
            ledger = self.desk.ledger.refresh()
            if len(ledger) == self._n_seen:
                return
            self._n_seen = len(ledger)
            for scene_id in self.scenes:
                n = len(ledger.of_scene(scene_id, KINDS))
                if n != self._n_of_scene.get(scene_id, -1):
                    self._n_of_scene[scene_id] = n
                    self._take_scene(scene_id, ledger)

    def _take_scene(self, scene_id: str, ledger: Ledger) -> None:
        states = ledger.states_of_scene(scene_id, self._proposed[scene_id])
        gone = set(self._states.get(scene_id, {})) - set(states)
        self._states[scene_id] = states
        changed: list[dict[str, Any]] = [{"id": item_id, "scene": scene_id, "gone": True} for item_id in sorted(gone)]
        for item_id, state in states.items():
            row = self._row(state)
            if {**self._rows.get(item_id, {}), "stamp": 0} != {**row, "stamp": 0}:
                changed.append(row)
        if changed:
            self.stamp += 1
        for row in changed:
            self._rows[row["id"]] = {**row, "stamp": self.stamp}

    def states_of(self, scene_id: str) -> dict[str, ItemState]:
        """Return the items of a scene after their history.

        Raises:
            KeyError: there is no such scene.
        """
        return self._states[scene_id]

    def state(self, item_id: str) -> ItemState:
        """Return one item.

        Raises:
            KeyError: there is none of that id.
        """
        return self._states[self._rows[item_id]["scene"]][item_id]

    def judged(self) -> list[tuple[ItemState, Verdict]]:
        """Return every item after its history with what is made of it, sorted by scene and id."""
        with self._lock:
            return [
                (state, self._verdicts[item_id]) for scene_id in sorted(self._states) for item_id, state in self._states[scene_id].items()
            ]

    # as the page shows it

    @property
    def mark(self) -> str:
        """Says which state of the board this is; another after a restart."""
        return f"{self._boot}:{self.stamp}"

    def rows(self, since: str = "") -> dict[str, Any]:
        """Return the rows of the queue that changed after a mark; all when it is not of this board."""
        boot, _, number = since.partition(":")
        is_ours = boot == self._boot and number.isdecimal()
        with self._lock:
            after = int(number) if is_ours else -1
            rows = [row for row in self._rows.values() if row["stamp"] > after and (is_ours or not row.get("gone"))]
            return {"mark": self.mark, "whole": not is_ours, "rows": rows}

    def rows_of(self, item_ids: Iterable[str]) -> list[dict[str, Any]]:
        """Return the rows of some items; those that are not there are left out."""
        with self._lock:
            return [self._rows[item_id] for item_id in item_ids if item_id in self._rows]

    def _row(self, state: ItemState) -> dict[str, Any]:
        item = state.item
        verdict = self._verdict(state)
        self._verdicts[item.item_id] = verdict
        counted = [one for one in state.decisions if one.decision_id not in state.undone and one.action not in ("undo", "comment")]
        row: dict[str, Any] = {
            "id": item.item_id,
            "kind": item.kind,
            "scene": item.scene_id,
            "status": "gone" if state.fate != "here" else verdict.status,
            "basis": verdict.basis,
            "waits": list(verdict.waits_for),
            "changed": state.is_changed,
            "people": list(dict.fromkeys(one.who for one in counted)),
            "version": state.version,
            "newest": state.newest,
        }
        if isinstance(state.value, MaskValue):
            value = state.value
            return {**row, "label": self._label(value.category), "category": list(value.category), "separable": value.separable}
        sentence = self.desk.sentence(item.item_id)
        return {
            **row,
            "label": state.value.text,
            "target": sentence.name,
            "doubt": self.checked_of(state.item, state.value).verdict,
        }

    def _label(self, category: tuple[str, ...]) -> str:
        try:
            return self.desk.taxonomy.singular_noun(category)
        except TaxonomyError:
            return " + ".join(category)

    def _verdict(self, state: ItemState) -> Verdict:
        is_mask = state.item.kind == "mask"
        review = self.desk.review
        verdict = judge(state, review if is_mask else review.rule_for_sentences, self.desk.seed)
        if is_mask or verdict.status != "approved":
            return verdict
        checked = self.checked_of(state.item, state.value)
        if checked.verdict == "contradicted":
            return verdict.model_copy(update={"status": "rejected", "basis": "the ground contradicts it"})
        if checked.verdict == "undecidable" and not any(vote.verdict == "accept" for vote in state.votes):
            update = {"status": "waiting", "basis": "the ground cannot decide it", "waits_for": ("anyone",)}
            return verdict.model_copy(update=update)
        return verdict

    def checked_of(self, item: ReviewItem, value: Value) -> Checked:
        """Return what the grounded check makes of a sentence when it holds `value`."""
        assert isinstance(value, SentenceValue)
        return self.desk.sentence(item.item_id).checked if value == item.value else self.check(item.item_id, value.text)

    def check(self, item_id: str, text: str) -> Checked:
        """Hold a text against the scene; remembered."""
        text = " ".join(text.split())
        if (item_id, text) not in self._checked:
            if len(self._checked) > 20_000:
                self._checked.clear()
            self._checked[item_id, text] = self.desk.check(item_id, text)
        return self._checked[item_id, text]

    def warm(self) -> None:
        """Trace the outlines of the scene that a reviewer sees first, so that the page opens at once."""
        waiting = {row["scene"] for row in self._rows.values() if row["status"] in ("waiting", "returned")}
        first = next((scene_id for scene_id in self.scenes if scene_id in waiting), next(iter(self.scenes), None))
        if first is not None:
            self.outlines(first)

    def outlines(self, scene_id: str) -> dict[str, Any]:
        """Return the outlines of everything in a scene, with the digest of it all.

        Raises:
            KeyError: there is no such scene.
        """
        with self._lock:
            shown = [state for state in self._states[scene_id].values() if state.item.kind == "mask" and state.fate == "here"]
        return {"outlines": [outline_of(state) for state in shown], "etag": digest_json([state.version for state in shown])[:32]}

    def detail(self, item_id: str) -> dict[str, Any]:
        """Return one item with its history.

        Raises:
            KeyError: there is none of that id.
        """
        with self._lock:
            state = self.state(item_id)
            row = self._rows[item_id]
            said: dict[str, Any] = {
                "row": row,
                "fate": state.fate,
                "proposed": self._told(state.item.value),
                "value": self._told(state.value),
                "votes": [vote._asdict() for vote in state.votes],
                "history": [self._event(one, state) for one in state.decisions],
            }
            if isinstance(state.value, MaskValue):
                return {**said, "outline": outline_of(state) if state.fate == "here" else None}
            sentence = self.desk.sentence(item_id)
            about = {"form": sentence.form, "polarity": sentence.polarity, "name": sentence.name, "instances": list(sentence.instance_ids)}
            return {**said, "about": about, "note": sentence.note, "check": checked_json(self.checked_of(state.item, state.value))}

    def vertices(self, item_id: str) -> dict[str, Any]:
        """Return the outline of a mask that people move, and the version that it is of.

        Raises:
            KeyError: there is no such mask.
        """
        state = self.state(item_id)
        if not isinstance(state.value, MaskValue):
            raise KeyError(item_id)
        return {"version": state.version, "newest": state.newest, "rings": vertices_of(state.value.mask)}

    def _told(self, value: MaskValue | SentenceValue) -> dict[str, Any]:
        if isinstance(value, SentenceValue):
            return {"text": value.text}
        return {"category": list(value.category), "label": self._label(value.category), "area_px": area_px_of(value.mask)}

    def _event(self, decision: Decision, state: ItemState) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        before, after = decision.before, decision.after
        if decision.item_id == state.item.item_id:
            if isinstance(before, MaskValue) and isinstance(after, MaskValue):
                if before.category != after.category:
                    changes["category"] = [self._label(before.category), self._label(after.category)]
                if before.separable != after.separable:
                    changes["separable"] = [before.separable, after.separable]
                if before.mask != after.mask:
                    changes["area_px"] = [area_px_of(before.mask), area_px_of(after.mask)]
            if isinstance(before, SentenceValue) and isinstance(after, SentenceValue):
                changes["text"] = [before.text, after.text]
        return {
            "id": decision.decision_id,
            "at": self.desk.ledger.time_of.get(decision.decision_id, ""),
            "who": decision.who,
            "role": decision.role,
            "round": decision.round,
            "action": decision.action,
            "reason": decision.reason,
            "undone": decision.decision_id in state.undone,
            "undoes": decision.undoes,
            "item": decision.item_id,
            "parts": len(decision.parts),
            "merged": len(decision.merged),
            "changes": changes,
        }

    # deciding

    def preview(self, intent: Intent) -> list[dict[str, Any]]:
        """Return the pixels that a drawing would store, as rings, with the outline for moving on.

        Raises:
            ConflictError: what was seen is not there any more.
            InputError: it cannot be used.
            KeyError: there is no such scene.
        """
        scene = self.scenes[intent.scene_id]
        masks = preview_of(intent, self.states_of(intent.scene_id), (scene.height, scene.width))
        return [{"rings": rings_of(mask), "area_px": area_px_of(mask), "vertices": vertices_of(mask)} for mask in masks]

    def decide(self, intent: Intent) -> Written:
        """Write what a person decided.

        Raises:
            ConflictError: somebody decided meanwhile; nothing is written.
            ContradictedError: it would let a sentence through that the ground contradicts.
            InputError: it cannot be used.
            KeyError: there is no such scene.
        """
        scene = self.scenes[intent.scene_id]
        with self._lock:
            self.refresh()
            states = self.states_of(intent.scene_id)
            decision, seen = decision_of(intent, states, (scene.height, scene.width), self.desk.taxonomy)
            newest = self.desk.ledger.refresh().newest(decision.item_id)
            if decision.action == "add" and newest is not None and newest.action == "undo":
                # the very same was drawn and undone before: this is another decision
                decision = decision.model_copy(update={"previous": newest.decision_id})
            is_new = decision.decision_id not in self.desk.ledger.time_of
            if is_new:
                self._refuse(decision, states, seen)
                is_new = self.desk.ledger.append(decision, seen)
            undone = self._undone(decision, states)
            self.refresh()
            return Written(decision, is_new, tuple(dict.fromkeys([*touched(decision), *undone])))

    def _refuse(self, decision: Decision, states: dict[str, ItemState], seen: dict[str, str | None]) -> None:
        """Raise for what the ledger would take and should not."""
        self.desk.ledger.refresh().check(decision, seen)  # a conflict is said before anything else
        state = states.get(decision.item_id)
        if state is None:
            return
        if decision.action not in ("undo", "comment"):
            for one in (state, *(states[item_id] for item_id in decision.merged)):
                if one.fate != "here":
                    raise InputError(f"item {one.item.item_id}: it was {one.fate} into others; undo that first")
        if decision.action not in ("undo", "comment") and decision.version != state.version:
            raise ConflictError(f"item {decision.item_id}: it changed since you opened it; look at it again and decide anew")
        value = decision.after or (state.value if decision.action == "accept" else None)
        if isinstance(value, SentenceValue):
            checked = self.checked_of(state.item, value)
            if checked.verdict == "contradicted":
                wrong = "; ".join(f"{claim.text!r}: {claim.measured}" for claim in checked.claims if claim.verdict == "contradicted")
                raise ContradictedError(f"the ground contradicts it: {wrong}", checked)

    def _undone(self, decision: Decision, states: dict[str, ItemState]) -> list[str]:
        """Ids of all items that an undone decision touches."""
        state = states.get(decision.item_id)
        found = [one for one in (state.decisions if state else ()) if one.decision_id == decision.undoes]
        return [item_id for one in found for item_id in touched(one)]


def outline_of(state: ItemState) -> dict[str, Any]:
    """Return one mask as the page draws it."""
    assert isinstance(state.value, MaskValue)
    mask = state.value.mask
    return {"id": state.item.item_id, "version": state.version, "rings": rings_of(mask), "area_px": area_px_of(mask)}


def checked_json(checked: Checked) -> dict[str, Any]:
    """Return what the check found as plain JSON."""
    claims = [claim.to_json() for claim in checked.claims]
    return {"verdict": checked.verdict, "claims": claims, "correction": checked.correction}
