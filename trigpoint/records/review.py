"""What people decide about the parts of a release, and what follows from it.

An item is a mask with its category, or a sentence; a decision is one line of its history and is never changed. Not here: what a
history means (`trigpoint.review.ledger`), which decisions are enough (`trigpoint.review.policy`), times (the ledger's file).
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from trigpoint.identity import make_id
from trigpoint.records.base import Record, Sha256
from trigpoint.records.mask import MaskCrop

ItemKind = Literal["mask", "vocabulary", "referring", "reasoning", "negative"]
Action = Literal["accept", "reject", "return", "edit", "add", "split", "merge", "undo", "comment"]
Role = Literal["annotator", "manager", "expert"]
Who = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]{0,62}[^\s\x00-\x1f\x7f])?$")]
"""How a person signs: 1 to 64 characters, no control characters, no space at either end."""


class MaskValue(Record):
    """A mask item: what is drawn, and what it is called.

    Attributes:
        mask: The pixels as drawn, before ownership is decided.
        category: Category ids, one per axis.
        separable: Instances can be told apart here at this resolution; else the annotation gets no boxes.
    """

    mask: MaskCrop
    category: tuple[str, ...] = Field(min_length=1, max_length=16)
    separable: bool = True


class SentenceValue(Record):
    """A sentence item."""

    text: str = Field(min_length=1, max_length=1000)


class Part(Record):
    """One instance that a person made: drawn, or cut off another.

    Attributes:
        source_id: `review/` and 16 hex digits of scene and value; its instance id follows from it as everywhere.
    """

    source_id: str = Field(pattern=r"^review/[0-9a-f]{16}$")
    value: MaskValue


class Decision(Record):
    """What one person decided about one item, at one version of it.

    Attributes:
        item_id, kind, scene_id: What it is about. For `add`, the new instance; for `merge`, the instance that goes on.
        action: `edit` and `merge` carry `after`, `merge` also `merged`; `split` and `add` carry `parts`; `undo` carries `undoes`; `return`,
            `reject` and `comment` have a reason.
        who, role: Who decided, as what.
        round: Round of the policy `unanimous`, from 1; 1 otherwise.
        version: Digest of the item's content that the person saw (`trigpoint.review.ledger.version_of`).
        previous: Id of the newest decision on the item that the person knew, None for the first. No ledger holds two with one predecessor.
        before, after: Its content before and after; None where it does not change.
        parts: Instances that are new. merged: Ids of the instances that go into this one.
        undoes: The decision that no longer counts.
        reason: Why, for people.
    """

    item_id: str = Field(min_length=1, max_length=64)
    kind: ItemKind
    scene_id: str = Field(min_length=1, max_length=64)
    action: Action
    who: Who
    role: Role
    round: int = Field(default=1, ge=1, le=100)
    version: Sha256
    previous: str | None = None
    before: MaskValue | SentenceValue | None = None
    after: MaskValue | SentenceValue | None = None
    parts: tuple[Part, ...] = Field(default=(), max_length=100)
    merged: tuple[str, ...] = Field(default=(), max_length=100)
    undoes: str | None = None
    reason: str = Field(default="", max_length=1000)

    @model_validator(mode="after")
    def _fits_its_action(self) -> "Decision":
        has = {"after": self.after is not None, "parts": bool(self.parts), "merged": bool(self.merged), "undoes": self.undoes is not None}
        wants = _CARRIES.get(self.action, frozenset[str]())
        wrong = sorted(name for name, given in has.items() if given != (name in wants))
        if wrong:
            raise ValueError(f"a decision to {self.action} carries {sorted(wants) or 'nothing more'}, wrong here: {', '.join(wrong)}")
        if self.action in ("return", "reject", "comment") and not self.reason.strip():
            raise ValueError(f"a decision to {self.action} needs its reason")
        if self.action in ("add", "split", "merge") and self.kind != "mask":
            raise ValueError(f"{self.action} is for masks, this is of kind {self.kind}")
        if self.after is not None and isinstance(self.after, MaskValue) != (self.kind == "mask"):
            raise ValueError(f"after is no value of an item of kind {self.kind}")
        return self

    @property
    def decision_id(self) -> str:
        """`d-` and 16 hex digits of all it says."""
        return make_id("d", self.to_json())


_CARRIES: dict[Action, frozenset[str]] = {
    "edit": frozenset({"after"}),
    "add": frozenset({"parts"}),
    "split": frozenset({"parts"}),
    "merge": frozenset({"after", "merged"}),
    "undo": frozenset({"undoes"}),
}


class Verdict(Record):
    """What the policy makes of an item's history.

    Attributes:
        status: `approved` may be released; `rejected` is dropped; `returned` and `waiting` keep it (and for masks its scene) back.
        basis: Why, for people: `policy none`, `not sampled`, or who decided.
        waits_for: Roles or people that must still decide.
        is_changed: A person changed it since it was proposed.
    """

    item_id: str
    kind: ItemKind
    scene_id: str
    status: Literal["approved", "rejected", "returned", "waiting"]
    basis: str
    waits_for: tuple[str, ...] = ()
    is_changed: bool = False
