"""What a person asks of the page, and the decision that it stands for.

A request says what was seen (version, newest decision), never what is there now: sent again, it makes the same decision with the same
id, so that nothing is decided twice. Not here: whether it may be written (the ledger), how it is shown (`trigpoint.review.page_board`).
"""

from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from trigpoint.categories import Taxonomy
from trigpoint.errors import InputError
from trigpoint.records.base import Record, Sha256
from trigpoint.records.mask import MaskCrop
from trigpoint.records.review import Decision, MaskValue, Part, Role, SentenceValue, Who
from trigpoint.review.ledger import ConflictError, ItemState, Value, instance_id_of, new_part, version_of
from trigpoint.review.page_outlines import Drawn, Point, mask_of_drawn, split_mask, union_of_masks

Id = Annotated[str, Field(min_length=1, max_length=64)]
Category = Annotated[tuple[Id, ...], Field(min_length=1, max_length=16)]


class Seen(Record):
    """An item as the person saw it."""

    item_id: Id
    version: Sha256
    previous: Id | None = None


class Intent(Record):
    """What one person wants decided.

    Attributes:
        who, role: Who asks; must be who is signed in, so that what waited in a browser is never sent in another's name.
        scene_id, item_id: What it is about; `add` has no item yet.
        version, previous: The content that was seen, and the newest decision then.
        category: New categories of an edit; of `add` its categories.
        separable: Whether instances can be told apart there, of an edit or of `add`; None leaves it as it is, and a new mask separable.
        drawn: New pixels of an edit or of `add`.
        text: New text of a sentence.
        line: Where to split; none: into the parts that do not touch.
        merged: What goes into the item.
        undoes: The decision that is to count no longer.
    """

    who: Who
    role: Role
    action: Literal["accept", "reject", "return", "edit", "add", "split", "merge", "undo", "comment"]
    scene_id: Id
    item_id: Id | None = None
    round: int = Field(default=1, ge=1, le=100)
    version: Sha256 | None = None
    previous: Id | None = None
    category: Category | None = None
    separable: bool | None = None
    drawn: Drawn | None = None
    text: Annotated[str, Field(max_length=1000)] | None = None
    line: Annotated[tuple[Point, ...], Field(max_length=10_000)] = ()
    merged: Annotated[tuple[Seen, ...], Field(max_length=100)] = ()
    undoes: Id | None = None
    reason: Annotated[str, Field(max_length=1000)] = ""

    @model_validator(mode="after")
    def _names_what_was_seen(self) -> "Intent":
        if self.action == "add":
            if self.item_id is not None or self.category is None or self.drawn is None:
                raise ValueError("a new mask has a drawing and its category, and no item yet")
        elif self.item_id is None or self.version is None:
            raise ValueError(f"to {self.action} needs item_id and version")
        return self


class Made(NamedTuple):
    """A decision, and the newest decisions that its author knew on the items of `merged`."""

    decision: Decision
    seen: dict[str, str | None]


def decision_of(intent: Intent, states: dict[str, ItemState], size: tuple[int, int], taxonomy: Taxonomy) -> Made:
    """Return the decision that a request stands for.

    Args:
        intent: The request.
        states: The items of its scene.
        size: Height and width of the scene.
        taxonomy: For categories.

    Raises:
        ConflictError: what was seen is not there any more.
        InputError: the drawing, line or text cannot be used, or nothing changes.
        TaxonomyError: the categories are not one per axis.
    """
    if intent.action == "add":
        return _added(intent, size, taxonomy)
    assert intent.item_id is not None and intent.version is not None  # the record says so
    state = _known(states, intent.item_id)
    said: dict[str, object] = {
        "item_id": intent.item_id,
        "kind": state.item.kind,
        "scene_id": intent.scene_id,
        "action": intent.action,
        "who": intent.who,
        "role": intent.role,
        "round": intent.round,
        "version": intent.version,
        "previous": intent.previous,
        "reason": intent.reason.strip(),
    }
    if intent.action in ("accept", "reject", "return", "comment"):
        return Made(_decision(said), {})
    if intent.action == "undo":
        return Made(_decision({**said, "undoes": intent.undoes}), {})
    value = _value_at(state, intent.version)
    if intent.action == "edit":
        after = _edited(intent, value, size, taxonomy)
        if after == value:
            raise InputError("nothing is changed: accept the item instead")
        return Made(_decision({**said, "before": value, "after": after}), {})
    if not isinstance(value, MaskValue):
        raise InputError(f"to {intent.action} is for masks, this is a sentence")
    if intent.action == "split":
        parts = _parts(intent.scene_id, split_mask(value.mask, intent.line, size), value)
        return Made(_decision({**said, "before": value, "parts": parts}), {})
    others = [(seen, _value_at(_known(states, seen.item_id), seen.version)) for seen in intent.merged]
    values = [other for _, other in others if isinstance(other, MaskValue)]
    if not values or len(values) != len(others) or intent.item_id in [seen.item_id for seen, _ in others]:
        raise InputError("to merge needs one other mask or more; choose the neighbours that belong to it")
    category = taxonomy.one_per_axis(list(intent.category)) if intent.category else value.category
    every = [value, *values]
    separable = all(one.separable for one in every)
    after = MaskValue(mask=union_of_masks([one.mask for one in every]), category=category, separable=separable)
    merged = tuple(seen.item_id for seen, _ in others)
    decision = _decision({**said, "before": value, "after": after, "merged": merged})
    return Made(decision, {seen.item_id: seen.previous for seen, _ in others})


def _decision(said: dict[str, object]) -> Decision:
    plain = {key: value.to_json() if isinstance(value, Record) else value for key, value in said.items()}
    return Decision.model_validate(plain)


def _added(intent: Intent, size: tuple[int, int], taxonomy: Taxonomy) -> Made:
    assert intent.drawn is not None and intent.category is not None  # the record says so
    category = taxonomy.one_per_axis(list(intent.category))
    part = new_part(intent.scene_id, mask_of_drawn(intent.drawn, None, size), category, intent.separable is not False)
    decision = Decision(
        item_id=instance_id_of(intent.scene_id, part),
        kind="mask",
        scene_id=intent.scene_id,
        action="add",
        who=intent.who,
        role=intent.role,
        round=intent.round,
        version=version_of(part.value),
        previous=intent.previous,
        parts=(part,),
        reason=intent.reason.strip(),
    )
    return Made(decision, {})


def _parts(scene_id: str, masks: list[MaskCrop], whole: MaskValue) -> list[dict[str, object]]:
    made: list[Part] = [new_part(scene_id, mask, whole.category, whole.separable) for mask in masks]
    return [part.to_json() for part in made]


def _edited(intent: Intent, value: Value, size: tuple[int, int], taxonomy: Taxonomy) -> Value:
    if isinstance(value, SentenceValue):
        text = " ".join((intent.text or "").split())
        if not text:
            raise InputError("a sentence needs words; reject it instead of emptying it")
        return SentenceValue(text=text)
    category = taxonomy.one_per_axis(list(intent.category)) if intent.category else value.category
    mask = mask_of_drawn(intent.drawn, value.mask, size) if intent.drawn else value.mask
    separable = value.separable if intent.separable is None else intent.separable
    return MaskValue(mask=mask, category=category, separable=separable)


def _known(states: dict[str, ItemState], item_id: str) -> ItemState:
    if item_id not in states:
        raise ConflictError(f"item {item_id}: it is no longer there: what made it was undone, or its source changed")
    return states[item_id]


def _value_at(state: ItemState, version: str) -> Value:
    """What an item held when it had a version."""
    item_id = state.item.item_id
    found = [state.value, state.item.value]
    found += [one.after for one in state.decisions if one.item_id == item_id and one.after is not None]
    for value in found:
        if version_of(value) == version:
            return value
    raise ConflictError(f"item {item_id}: what you saw is no longer there, it was proposed anew since; look at it again and decide anew")


def preview_of(intent: Intent, states: dict[str, ItemState], size: tuple[int, int]) -> list[MaskCrop]:
    """Return the masks that an edit, a new mask, a split or a merge would store.

    Raises:
        ConflictError: what was seen is not there any more.
        InputError: the drawing or line cannot be used.
    """
    seen: MaskCrop | None = None
    if intent.item_id is not None and intent.version is not None:
        value = _value_at(_known(states, intent.item_id), intent.version)
        seen = value.mask if isinstance(value, MaskValue) else None
    if intent.action == "split" and seen is not None:
        return split_mask(seen, intent.line, size)
    if intent.drawn is None:
        raise InputError("there is no drawing to look at")
    return [mask_of_drawn(intent.drawn, seen, size)]
