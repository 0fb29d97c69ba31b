"""What goes to other programs and what comes back: scenes, the list of what was exported, what a document holds, what is wrong with it.

Not here: the formats (one module each), files (`storage`), and what an import means (`trigpoint.exchange.merge`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from trigpoint.errors import InputError
from trigpoint.exchange.shapes import box_corners
from trigpoint.records.base import Record, Sha256
from trigpoint.records.review import MaskValue
from trigpoint.records.scene import Transform
from trigpoint.review.ledger import ItemState

Format = Literal["gpkg", "coco", "label-studio", "cvat"]
Form = Literal["mask", "polygon", "box"]
"""How a document draws an item. A box is a rectangle around it, turned where that is smaller."""

NAME_OF: dict[Format, str] = {"gpkg": "QGIS", "coco": "COCO", "label-studio": "Label Studio", "cvat": "CVAT"}
"""What people call a format."""

JOINT = "+"
"""Stands between the categories of one item, one per axis."""

ITEM_KEY, SEEN_KEY, MORE_KEY, SEPARABLE_KEY = "item_id", "seen", "more", "separable"
"""Attributes of an item in other programs: its id, what was exported of it, its categories beside the first, whether it is separable."""

_SAFE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
_SEEN = re.compile(r"^([0-9a-f]{64}) (d-[0-9a-f]{16}|-)$")


class ExchangeScene(NamedTuple):
    """A scene as other programs see it.

    Attributes:
        width, height: Columns and rows of its pixels as they are stored.
        crs: Its CRS. transform: Image → CRS, affine order.
        orientation: Turn tag (Exif) of the pictures that people drew on; 1 for those that trigpoint wrote.
    """

    scene_id: str
    width: int
    height: int
    crs: str
    transform: Transform
    orientation: int = 1

    @property
    def stem(self) -> str:
        """Name of its files, without an ending.

        Raises:
            InputError: its id could lead out of the folder.
        """
        if not _SAFE_NAME.fullmatch(self.scene_id):
            raise InputError(f"scene {self.scene_id!r}: its id is no file name, expected letters, digits, '-' and '_'; rename the scene")
        return self.scene_id

    @property
    def picture(self) -> str:
        """Name of its picture."""
        return f"{self.stem}.png"


class Listed(Record):
    """An item of an export, as it was then.

    Attributes:
        version: Digest of its content. newest: Id of the newest decision on it.
        corners: (x, y) of the four corners of its box, image coordinates; None where it was exported whole.
    """

    item_id: str = Field(min_length=1, max_length=64)
    scene_id: str = Field(min_length=1, max_length=64)
    version: Sha256
    newest: str | None = Field(default=None, max_length=64)
    corners: tuple[tuple[float, float], ...] | None = Field(default=None, max_length=4)


class ExportList(Record):
    """All that an export gave away; what does not come back was removed.

    Attributes:
        release: Name of the release it is of.
        scene_ids: Scenes that were exported, those without an item too.
    """

    release: str = Field(min_length=1, max_length=200)
    format: Format
    scene_ids: tuple[str, ...] = Field(max_length=1_000_000)
    items: tuple[Listed, ...] = Field(max_length=10_000_000)


class Incoming(NamedTuple):
    """An item that a document holds.

    Attributes:
        place: Where it stands in the document, for people.
        item_id: The item that it says it is; None for a new one.
        seen: (version, newest decision) as its own attribute says; None without one.
        corners: (4, 2) corners of a box, image coordinates.
        notes: What had to be done to it, and what of it the format could not hold.
        says_separable: Whether the document says if it is separable; else that of the item stays.
    """

    place: str
    scene_id: str
    item_id: str | None
    value: MaskValue
    form: Form
    seen: tuple[str, str | None] | None = None
    corners: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    says_separable: bool = False


class Problem(NamedTuple):
    """Something that keeps a part of a document out."""

    place: str
    item_id: str | None
    cause: str

    def __str__(self) -> str:
        return f"{self.place}{f' ({shown(self.item_id)})' if self.item_id else ''}: {self.cause}"


class Document(NamedTuple):
    """What a file holds.

    Attributes:
        export: The list of the export that it came from, where it still has it.
        scene_ids: Scenes that it is about: what was exported of them and is not in it was removed.
    """

    format: Format
    incoming: tuple[Incoming, ...]
    problems: tuple[Problem, ...]
    export: ExportList | None
    scene_ids: frozenset[str]


def shown(text: object, most: int = 80) -> str:
    r"""Return what a document says as it may be printed: cut short, without control characters.

    >>> shown("a\x1b[2Jb")
    'a?[2Jb'
    """
    return "".join(sign if sign.isprintable() else "?" for sign in str(text)[:most])


def masks_by_scene(states: Mapping[str, ItemState]) -> dict[str, list[tuple[ItemState, MaskValue]]]:
    """Return the masks that are there, by scene, in order of id."""
    found: dict[str, list[tuple[ItemState, MaskValue]]] = {}
    for _, state in sorted(states.items()):
        if state.fate == "here" and isinstance(state.value, MaskValue):
            found.setdefault(state.item.scene_id, []).append((state, state.value))
    return found


def list_of_export(
    release: str,
    format_: Format,
    scenes: Iterable[ExchangeScene],
    states: Mapping[str, ItemState],
    form: Form = "mask",
) -> ExportList:
    """Make the list of an export.

    Args:
        release: Name of the release.
        format_: The format.
        scenes: All scenes that are exported.
        states: Their items.
        form: As what they are drawn.
    """
    scene_ids = sorted(scene.scene_id for scene in scenes)
    by_scene = masks_by_scene(states)
    items = [
        Listed(
            item_id=state.item.item_id,
            scene_id=scene_id,
            version=state.version,
            newest=state.newest,
            corners=tuple((float(x), float(y)) for x, y in box_corners(value.mask)) if form == "box" else None,
        )
        for scene_id in scene_ids
        for state, value in by_scene.get(scene_id, [])
    ]
    return ExportList(release=release, format=format_, scene_ids=tuple(scene_ids), items=tuple(items))


def read_export_list(value: object) -> ExportList:
    """Read a list that came back.

    Raises:
        InputError: it is none.
    """
    try:
        return ExportList.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise InputError(f"list of the export: {where}: {first['msg']}; use the export.json that the export wrote") from error


def seen_text(state: ItemState) -> str:
    """Write down what is exported of an item, in one short text."""
    return f"{state.version} {state.newest or '-'}"


def read_seen(text: object) -> tuple[str, str | None] | None:
    """Read what `seen_text` wrote; None of anything else.

    >>> read_seen("0" * 64 + " -") == ("0" * 64, None)
    True
    """
    found = _SEEN.fullmatch(text.strip()) if isinstance(text, str) else None
    return None if found is None else (found[1], None if found[2] == "-" else found[2])


def separable_text(value: MaskValue) -> str:
    """Write down whether an item is separable at this resolution."""
    return "yes" if value.separable else "no"


def read_separable(text: object) -> bool | None:
    """Read whether an item is separable; None of what says nothing.

    >>> read_separable("no"), read_separable("Yes"), read_separable(None), read_separable(False)
    (False, True, None, False)
    """
    if isinstance(text, bool):
        return text
    word = text.strip().lower() if isinstance(text, str) else ""
    return True if word in ("yes", "true", "1") else False if word in ("no", "false", "0") else None


def split_category(category: Sequence[str]) -> tuple[str, str]:
    """Return the label that a program with one label per item shows, and the further categories as text.

    >>> split_category(("a", "b", "c"))
    ('a', 'b+c')
    """
    return category[0], JOINT.join(category[1:])


def join_category(label: str, more: object = "") -> list[str]:
    """Return the categories of a label and the text of the further ones.

    >>> join_category("a", "b + c"), join_category("a+b")
    (['a', 'b', 'c'], ['a', 'b'])
    """
    text = f"{label}{JOINT}{more}" if isinstance(more, str) and more.strip() else label
    return [name.strip() for name in text.split(JOINT)]
