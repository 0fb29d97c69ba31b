"""What the review page needs to know of a release being built; `tasks.desk` says it of a workspace."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from trigpoint.categories import Taxonomy
from trigpoint.config import ReviewConfig
from trigpoint.language.grounding import Checked
from trigpoint.records.language import LanguageForm
from trigpoint.records.review import Decision
from trigpoint.records.scene import Transform
from trigpoint.review.ledger import Ledger, ReviewItem


class DeskScene(NamedTuple):
    """A scene on the desk.

    Attributes:
        width, height: Pixels.
        crs: Authority code or WKT. transform: Affine order a, b, c, d, e, f.
        series_id: Of scenes that show one footprint on several dates.
    """

    scene_id: str
    source: str
    width: int
    height: int
    crs: str
    transform: Transform
    gsd_m: float
    acquired: str | None
    series_id: str | None
    attribution: str


class Sentence(NamedTuple):
    """What a sentence is about.

    Attributes:
        name: How its target is called. instance_ids: All of it.
        checked: What the grounded check makes of the sentence as it is proposed.
        note: Why it is not as it was written, for people.
    """

    form: LanguageForm
    polarity: Literal["positive", "negative"]
    name: str
    instance_ids: tuple[str, ...]
    checked: Checked
    note: str


class Picture(NamedTuple):
    """A scene for the browser.

    Attributes:
        scale: Pixels of the picture per pixel of the scene, at most 1.
    """

    data: bytes
    media_type: str
    scale: float


class LedgerStore(Protocol):
    """Where decisions are kept (`storage.ledger.LedgerFile`)."""

    @property
    def time_of(self) -> Mapping[str, str]:
        """Decision id → when it was written, ISO 8601 UTC."""
        ...

    def refresh(self) -> Ledger:
        """Return the decisions so far."""
        ...

    def append(self, decision: Decision, seen: Mapping[str, str | None] | None = None) -> bool:
        """Write a decision if nobody decided about its items meanwhile; False: it is there already."""
        ...


class Desk(Protocol):
    """All that is there to decide about.

    Attributes:
        name: Of the release, with its version. title: For people.
        seed: Of the release.
        items: Everything that the builder proposes.
    """

    name: str
    title: str
    taxonomy: Taxonomy
    review: ReviewConfig
    seed: int
    scenes: Sequence[DeskScene]
    items: Sequence[ReviewItem]

    @property
    def ledger(self) -> LedgerStore:
        """The decisions."""
        ...

    def picture(self, scene_id: str) -> Picture:
        """Return the picture of a scene."""
        ...

    def sentence(self, item_id: str) -> Sentence:
        """Return what a proposed sentence is about."""
        ...

    def check(self, item_id: str, text: str) -> Checked:
        """Hold a text for a sentence against the scene as it was last built."""
        ...
