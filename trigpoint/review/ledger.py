"""What a history of decisions means: which items there are, what they hold now, who said what about that.

Decisions are absolute: an edit holds the whole new content, so that a rebuild repeats it exactly whatever became of the source. A vote
counts for the content that was seen; when content changes, earlier votes no longer count. Not here: files and times
(`storage.ledger`), what is enough (`trigpoint.review.policy`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from trigpoint.errors import InputError
from trigpoint.identity import ID_DIGITS, digest_json, make_id
from trigpoint.records.mask import MaskCrop
from trigpoint.records.review import Action, Decision, ItemKind, MaskValue, Part, Role, SentenceValue

Value = MaskValue | SentenceValue

_MAKES_CONTENT: tuple[Action, ...] = ("edit", "add", "split", "merge")
"""Actions whose author stands for what they made."""


class ConflictError(InputError):
    """Somebody else decided about an item since it was looked at; nothing was written."""


class ReviewItem(NamedTuple):
    """Something to decide about, as the builder or a person made it.

    Attributes:
        value: Its content as first proposed.
        made_by: Id of the decision that made it; None for what the builder proposes.
    """

    item_id: str
    kind: ItemKind
    scene_id: str
    value: Value
    made_by: str | None = None


class Vote(NamedTuple):
    """What one person says of an item's present content."""

    who: str
    role: Role
    round: int
    verdict: Literal["accept", "reject", "return"]
    reason: str


class ItemState(NamedTuple):
    """An item after its history.

    Attributes:
        value: Its content now.
        fate: `here`, or `split` or `merged` into others and no longer there.
        decisions: Every decision that touches it, in order, undone ones too.
        undone: Ids of those that no longer count.
        votes: On its present content, in order; several of one person are all there.
    """

    item: ReviewItem
    value: Value
    fate: Literal["here", "split", "merged"]
    decisions: tuple[Decision, ...]
    undone: frozenset[str]
    votes: tuple[Vote, ...]

    @property
    def version(self) -> str:
        """Digest of its content now."""
        return version_of(self.value)

    @property
    def newest(self) -> str | None:
        """Id of the newest decision that touches it: what the next one names as `previous`."""
        return self.decisions[-1].decision_id if self.decisions else None

    @property
    def is_changed(self) -> bool:
        """Whether a person changed or made what it holds."""
        return self.item.made_by is not None or self.value != self.item.value


def version_of(value: Value) -> str:
    """Return the digest of an item's content; 64 hex digits."""
    return digest_json(value.to_json())


def item_to_json(item: ReviewItem) -> dict[str, Any]:
    """Return an item as plain JSON values."""
    return {**item._asdict(), "value": item.value.to_json()}


def item_from_json(found: dict[str, Any]) -> ReviewItem:
    """Return the item that `item_to_json` wrote."""
    form = MaskValue if found["kind"] == "mask" else SentenceValue
    return ReviewItem(found["item_id"], found["kind"], found["scene_id"], form.model_validate(found["value"]), found["made_by"])


def new_part(scene_id: str, mask: MaskCrop, category: Sequence[str], separable: bool = True) -> Part:
    """Return an instance that a person makes, named by what it is."""
    value = MaskValue(mask=mask, category=tuple(category), separable=separable)
    return Part(source_id=f"review/{digest_json([scene_id, value.to_json()])[:ID_DIGITS]}", value=value)


def instance_id_of(scene_id: str, part: Part) -> str:
    """Return the id that a part has as an instance."""
    return make_id("i", scene_id, part.source_id)


def touched(decision: Decision) -> tuple[str, ...]:
    """Return the ids of all items that a decision is about or makes."""
    return (decision.item_id, *decision.merged, *(instance_id_of(decision.scene_id, part) for part in decision.parts))


class Ledger:
    """Decisions in the order in which they were written, and the items they are about.

    Args:
        decisions: In order of writing.
    """

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._of_item: dict[str, list[Decision]] = {}
        self._by_id: dict[str, Decision] = {}
        self._undone: set[str] = set()
        for decision in decisions:
            self.add(decision)

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, decision: Decision) -> None:
        """Take in one more decision; the same one twice is one."""
        if decision.decision_id in self._by_id:
            return
        self._by_id[decision.decision_id] = decision
        for item_id in dict.fromkeys(touched(decision)):
            self._of_item.setdefault(item_id, []).append(decision)
        if decision.undoes is not None:
            self._undone.add(decision.undoes)
            # everything that the undone decision touched knows of it
            for item_id in touched(self._by_id[decision.undoes]) if decision.undoes in self._by_id else ():
                if item_id != decision.item_id:
                    self._of_item.setdefault(item_id, []).append(decision)

    def newest(self, item_id: str) -> Decision | None:
        """Return the newest decision that touches an item."""
        found = self._of_item.get(item_id)
        return found[-1] if found else None

    def item_ids(self, kinds: Sequence[ItemKind]) -> list[str]:
        """Return the ids of all items of some kinds that decisions touch, sorted."""
        return sorted(item_id for item_id, decisions in self._of_item.items() if decisions[0].kind in kinds)

    def of_scene(self, scene_id: str, kinds: Sequence[ItemKind]) -> list[Decision]:
        """Return the decisions on a scene's items of some kinds, in order of writing."""
        return [decision for decision in self._by_id.values() if decision.scene_id == scene_id and decision.kind in kinds]

    def check(self, decision: Decision, seen: Mapping[str, str | None]) -> None:
        """Say whether a decision may be written now.

        Args:
            decision: The decision.
            seen: Item id → id of the newest decision that its author knew, for each further item that it touches.

        Raises:
            ConflictError: somebody decided about one of its items meanwhile; says who did what.
            InputError: it undoes what is not there, not its author's, or not the newest.
        """
        known = {decision.item_id: decision.previous, **{item_id: seen.get(item_id) for item_id in decision.merged}}
        for item_id, previous in known.items():
            newest = self.newest(item_id)
            if (newest.decision_id if newest else None) != previous:
                what = f"{newest.who} ({newest.role}) decided to {newest.action} it" if newest else "nobody has decided about it"
                raise ConflictError(f"item {item_id}: {what} since you opened it; look at it again and decide anew")
        if decision.undoes is None:
            return
        undone = self._by_id.get(decision.undoes)
        if undone is None or undone.action == "undo" or decision.undoes in self._undone or undone.item_id != decision.item_id:
            raise InputError(f"item {decision.item_id}: it has no decision {decision.undoes} that counts; reload the item")
        if undone.who != decision.who:
            raise InputError(f"item {decision.item_id}: {decision.undoes} was decided by {undone.who}; decide anew instead of undoing it")
        for item_id in touched(undone):
            last = self._counted(item_id)[-1]
            if last != undone:
                raise InputError(f"item {item_id}: {last.who} decided to {last.action} it later; that must be undone first")

    def _counted(self, item_id: str) -> list[Decision]:
        return [one for one in self._of_item.get(item_id, []) if one.decision_id not in self._undone and one.action != "undo"]

    def states(self, items: Iterable[ReviewItem]) -> dict[str, ItemState]:
        """Return what became of the proposed items, and of those that people made in any scene; by id, sorted.

        An item that people decided about and that is proposed no more is not among them; see `orphans`.
        """
        return self._states(items, self._by_id.values())

    def states_of_scene(self, scene_id: str, items: Iterable[ReviewItem]) -> dict[str, ItemState]:
        """Return the same for one scene."""
        return self._states(items, (decision for decision in self._by_id.values() if decision.scene_id == scene_id))

    def _states(self, items: Iterable[ReviewItem], decisions: Iterable[Decision]) -> dict[str, ItemState]:
        found = {item.item_id: item for item in items}
        for decision in decisions:
            if decision.decision_id in self._undone:
                continue
            for part in decision.parts:
                item_id = instance_id_of(decision.scene_id, part)
                found.setdefault(item_id, ReviewItem(item_id, "mask", decision.scene_id, part.value, decision.decision_id))
            if decision.action == "merge" and decision.after is not None:
                # what others went into stays, even when its own source is gone
                made = ReviewItem(decision.item_id, "mask", decision.scene_id, decision.after, decision.decision_id)
                found.setdefault(decision.item_id, made)
        return {item_id: self._state(found[item_id]) for item_id in sorted(found)}

    def orphans(self, items: Iterable[ReviewItem], scene_ids: Collection[str]) -> list[Decision]:
        """Return decisions that a build cannot apply, in order of writing: their scene or the item that they are about is not there.

        A split whose mask is gone is none of them, since its parts stay; neither are comments and what was undone.

        Args:
            items: Everything that is proposed.
            scene_ids: Every scene that is there.
        """
        states = self.states(items)

        def is_applied(decision: Decision) -> bool:
            return decision.scene_id in scene_ids and (decision.item_id in states or bool(decision.parts))

        counted = (one for one in self._by_id.values() if one.action not in ("undo", "comment") and one.decision_id not in self._undone)
        return [decision for decision in counted if not is_applied(decision)]

    def _state(self, item: ReviewItem) -> ItemState:
        value: Value = item.value
        fate: Literal["here", "split", "merged"] = "here"
        votes: list[Vote] = []
        version = version_of(value)
        decisions = self._of_item.get(item.item_id, [])
        for decision in decisions:
            if decision.decision_id in self._undone or decision.action in ("undo", "comment"):
                continue
            made = _content_for(item.item_id, decision)
            if made is not None:
                value, version, votes = made, version_of(made), []
            elif item.item_id in decision.merged:
                fate = "merged"
            elif decision.action == "split" and decision.item_id == item.item_id:
                fate = "split"
            verdict = "accept" if decision.action in _MAKES_CONTENT else decision.action
            if verdict in ("accept", "reject", "return") and (made is not None or decision.version == version):
                votes.append(Vote(decision.who, decision.role, decision.round, verdict, decision.reason))
        undone = frozenset(one.decision_id for one in decisions if one.decision_id in self._undone)
        return ItemState(item, value, fate, tuple(decisions), undone, tuple(votes))


def _content_for(item_id: str, decision: Decision) -> Value | None:
    """What a decision makes an item hold; None when it leaves it."""
    if decision.after is not None and decision.item_id == item_id:
        return decision.after
    for part in decision.parts:
        if instance_id_of(decision.scene_id, part) == item_id:
            return part.value
    return None
