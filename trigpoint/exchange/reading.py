"""From what other programs draw to masks of a scene: one door for polygons, masks and boxes of every format.

Every shape either becomes a mask, with notes on what had to be done to it, or a problem with its place and cause. Not here: how a
format writes shapes down.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from trigpoint.boxes.conventions import AngledBox, corners_from_angled_box
from trigpoint.categories import Taxonomy
from trigpoint.errors import InputError
from trigpoint.exchange.items import Document, ExchangeScene, ExportList, Form, Format, Incoming, Problem
from trigpoint.geometry.repair import repair_polygon
from trigpoint.imagery.orientation import frame_of_size, raw_from_shown, shown_size
from trigpoint.masks.crops import crop_of_record, polygon_of_record, record_of_mask, record_of_polygon
from trigpoint.masks.rasterise import BoolArray
from trigpoint.records.mask import MaskCrop
from trigpoint.records.review import MaskValue

NEAR_PX = 1e-6
"""How far outside the scene a drawing may reach without a note: rounding."""


class Sheet(NamedTuple):
    """A picture that people drew on.

    Attributes:
        scene: The scene that it shows.
        is_turned: It was shown turned by its Exif tag; drawings are brought back to the pixels as they are stored.
    """

    scene: ExchangeScene
    is_turned: bool

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in the frame of the drawings."""
        raw = (self.scene.width, self.scene.height)
        return shown_size(raw, self.scene.orientation) if self.is_turned else raw


class Label(NamedTuple):
    """What a document says of a shape beside its geometry.

    Attributes:
        place: Where it stands, for people.
        categories: Category ids as given; empty when nothing is said.
        separable: Whether instances can be told apart there; None when nothing is said.
    """

    place: str
    item_id: str | None
    categories: Sequence[str]
    seen: tuple[str, str | None] | None = None
    separable: bool | None = None


class Reader:
    """Collects what a document holds.

    Args:
        format_: Its format.
        scenes: Scene id → scene, all of the release.
        taxonomy: Which categories there are.
    """

    def __init__(self, format_: Format, scenes: Mapping[str, ExchangeScene], taxonomy: Taxonomy) -> None:
        self.export: ExportList | None = None
        self.scene_ids: set[str] = set()
        self._format: Format = format_
        self._scenes, self._taxonomy = scenes, taxonomy
        self._incoming: list[Incoming] = []
        self._problems: list[Problem] = []

    def document(self) -> Document:
        """Return what was collected."""
        return Document(self._format, tuple(self._incoming), tuple(self._problems), self.export, frozenset(self.scene_ids))

    def problem(self, place: str, cause: str, item_id: str | None = None) -> None:
        """Note what cannot be used."""
        self._problems.append(Problem(place, item_id, cause))

    def scene(self, scene_id: str, place: str) -> ExchangeScene | None:
        """Return a scene of the release; None, and a problem, when there is no such scene."""
        scene = self._scenes.get(scene_id)
        if scene is None:
            self.problem(place, f"scene {scene_id[:80]!r} is not of this release; was it exported from another one?")
        return scene

    def sheet(self, name: str, said_size: Any, place: str, scene_id: str | None = None) -> Sheet | None:
        """Find the scene of a picture by its id, else by its file name, which is looked up and never opened.

        Args:
            name: Name of the picture; folders before it do not count.
            said_size: Width and height as the document says.
            place: Where it stands.
            scene_id: Its scene, where the document says so.
        """
        scene = self.scene(scene_id or PurePosixPath(name.replace("\\", "/")).stem, place)
        if scene is None:
            return None
        if not _is_size(said_size):
            self.problem(place, f"the size of its picture is {said_size!r}, expected width and height in pixels")
            return None
        try:
            frame = frame_of_size(tuple(said_size), (scene.width, scene.height), scene.orientation)
        except InputError as error:
            self.problem(place, str(error))
            return None
        self.scene_ids.add(scene.scene_id)
        return Sheet(scene, frame == "shown" and scene.orientation != 1)

    def add_mask(self, label: Label, sheet: Sheet, mask: BoolArray, origin_px: tuple[int, int] = (0, 0)) -> None:
        """Take in a mask (height, width) with its top left pixel at a column and row of the picture."""
        if not mask.any():
            self.problem(label.place, "its mask has no pixel; delete the item instead of emptying it", label.item_id)
            return
        record = record_of_mask(mask, origin_px)
        width, height = sheet.size
        try:
            crop_of_record(record, height, width)
        except InputError as error:
            self.problem(label.place, str(error), label.item_id)
            return
        if sheet.is_turned:
            record = self._drawn(sheet, polygon_of_record(record))
        self._add(label, sheet, record, "mask")

    def add_polygon(self, label: Label, sheet: Sheet, geometry: BaseGeometry | None, notes: Sequence[str] = ()) -> None:
        """Take in a polygon in image coordinates of the picture (pixel edges, x right, y down), repaired and clipped where needed."""
        good = self._good_polygon(label, sheet, geometry)
        if good is None:
            return
        polygon, more = good
        self._add(label, sheet, self._drawn(sheet, polygon), "polygon", (*notes, *more))

    def add_box(self, label: Label, sheet: Sheet, box: AngledBox) -> None:
        """Take in a rectangle, turned about its middle."""
        if not np.isfinite(box).all() or box.width <= 0 or box.height <= 0:
            self.problem(label.place, f"its box is {box.width:g} × {box.height:g} px, expected two lengths above 0", label.item_id)
            return
        corners = corners_from_angled_box(box)
        good = self._good_polygon(label, sheet, shapely.Polygon(corners))
        if good is None:
            return
        raw = _raw_points(sheet, corners)
        note = "a box holds no outline: the item would be this rectangle"
        self._add(label, sheet, self._drawn(sheet, good[0]), "box", (note, *good[1]), raw)

    def _good_polygon(self, label: Label, sheet: Sheet, geometry: BaseGeometry | None) -> tuple[BaseGeometry, tuple[str, ...]] | None:
        cause = _unusable(geometry, sheet.size)
        if cause is not None or geometry is None:
            self.problem(label.place, cause or "it has no geometry", label.item_id)
            return None
        repaired = repair_polygon(geometry)
        if repaired.geometry.is_empty or repaired.geometry.area <= 0:
            self.problem(label.place, "it encloses no area; draw at least three corners that are not on one line", label.item_id)
            return None
        try:
            record_of_polygon(repaired.geometry, sheet.size[1], sheet.size[0])
        except InputError:
            area = f"{repaired.geometry.area:.3g} px"
            self.problem(label.place, f"it covers no pixel centre (its area is {area}); draw it larger or delete it", label.item_id)
            return None
        notes = [f"{repaired.note} (area {repaired.geometry.area:g} px)"] if repaired.is_changed else []
        x0, y0, x1, y1 = repaired.geometry.bounds
        width, height = sheet.size
        if min(x0, y0) < -NEAR_PX or x1 > width + NEAR_PX or y1 > height + NEAR_PX:
            notes.append("reaches over the edge of the scene; what is outside is cut off")
        return repaired.geometry, tuple(notes)

    def _drawn(self, sheet: Sheet, polygon: BaseGeometry) -> MaskCrop:
        if sheet.is_turned:
            polygon = shapely.transform(polygon, lambda points: _raw_points(sheet, points))
        return record_of_polygon(polygon, sheet.scene.height, sheet.scene.width)

    def _add(
        self,
        label: Label,
        sheet: Sheet,
        mask: MaskCrop,
        form: Form,
        notes: Sequence[str] = (),
        corners: NDArray[np.float64] | None = None,
    ) -> None:
        if not label.categories or not all(label.categories):
            self.problem(label.place, "it has no category; give it one of the taxonomy", label.item_id)
            return
        try:
            category = self._taxonomy.one_per_axis(list(label.categories))
        except InputError as error:
            self.problem(label.place, str(error), label.item_id)
            return
        value = MaskValue(mask=mask, category=category, separable=label.separable is not False)
        self._incoming.append(
            Incoming(
                label.place,
                sheet.scene.scene_id,
                label.item_id,
                value,
                form,
                label.seen,
                corners,
                tuple(notes),
                label.separable is not None,
            )
        )


def _raw_points(sheet: Sheet, points: NDArray[np.float64]) -> NDArray[np.float64]:
    return raw_from_shown(points, sheet.scene.orientation, (sheet.scene.width, sheet.scene.height)) if sheet.is_turned else points


def _is_size(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(type(side) is int and side > 0 for side in value)


def _unusable(geometry: BaseGeometry | None, size: tuple[int, int]) -> str | None:
    """Say why a geometry cannot become a mask at all; nothing of its size is allocated before this."""
    if geometry is None or geometry.is_empty:
        return "it has no geometry"
    if geometry.geom_type not in ("Polygon", "MultiPolygon"):
        hint = "split it into its parts, and keep the polygons" if geometry.geom_type == "GeometryCollection" else "draw it as a polygon"
        return f"it is a {geometry.geom_type}, expected a Polygon or MultiPolygon; {hint}"
    if not np.isfinite(shapely.get_coordinates(geometry)).all():
        return "a coordinate is not a finite number"
    x0, y0, x1, y1 = geometry.bounds
    width, height = size
    if x1 <= 0 or y1 <= 0 or x0 >= width or y0 >= height:
        return (
            f"it lies outside the scene of {width} × {height} px (x {x0:g} to {x1:g}, y {y0:g} to {y1:g}); was it drawn on another scene?"
        )
    if min(x0 + width, y0 + height) < 0 or x1 > 2 * width or y1 > 2 * height:
        return f"it reaches far outside the scene of {width} × {height} px (x {x0:g} to {x1:g}, y {y0:g} to {y1:g}); draw it inside"
    return None
