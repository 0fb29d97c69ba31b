"""The pixels of a scene, or of a part of it, with masks, boxes, arrows and tags drawn on them.

Not here: what is drawn of which item (`trigpoint.release.show`), the page around it (`trigpoint.release.show_page`), the picture of
native pixels itself (`trigpoint.imagery.view`).
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from trigpoint.errors import ReleaseError
from trigpoint.masks.rle import bbox, decode
from trigpoint.release.reader import InstanceRow, Release, SceneRow
from trigpoint.release.show_cards import Section
from trigpoint.release.show_page import INK, MIN_SIDE_PX, Colour, Picture, Scale, get_font, make_page, printable

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

MAX_SIDE_PX = 1024
"""Longest side of a scene in its picture; larger scenes are reduced."""

MAX_ARROWS = 24
"""Arrows from one anchor; of more subjects, every k-th by direction is pointed at."""

ANSWER: Colour = (255, 225, 0)
OTHER: Colour = (255, 255, 255)
ANCHOR: Colour = (0, 225, 235)
UNSURE: Colour = (255, 120, 200)
ARROW: Colour = (225, 50, 0)
OTHER_IN_LEGEND: Colour = (200, 200, 200)
_CROWD = 100
_THUMBNAIL_PX = 130
_SMOOTH = Image.Resampling.LANCZOS
_BOX = Image.Resampling.BOX
_FINE = 3
"""Lines and boxes are drawn this much larger and reduced, which smooths them."""


class Style(NamedTuple):
    """How a set of masks is drawn: colour, fill and line opacity in [0, 1], line width and dark halo in pixels of the picture."""

    colour: Colour
    fill: float
    line: float
    width: int
    halo: int = 0


class View(NamedTuple):
    """A part of a scene, in native pixels: the first row and column, and how many."""

    row_off: int
    col_off: int
    height: int
    width: int


class Canvas:
    """A scene, or a part of it, at the picture's scale, and what is drawn on it.

    Args:
        release: The release.
        scene: Its scene.
        max_side_px: Longest side of the picture; what is larger is reduced.
        view: The part to draw; the whole scene when None.
        min_side_px: What is smaller is enlarged by a whole factor until its longer side has this.
    """

    def __init__(
        self, release: Release, scene: SceneRow, max_side_px: int = MAX_SIDE_PX, view: View | None = None, min_side_px: int = MIN_SIDE_PX
    ) -> None:
        self.release = release
        self.scene = scene
        self.view = view or View(0, 0, scene.height, scene.width)
        self._whole = release.picture(scene.scene_id)
        side = max(self.view.height, self.view.width)
        if side > max_side_px:
            self.scale = max_side_px / side
        else:
            self.scale = float(max(1, min(math.ceil(min_side_px / side), max_side_px // side)))
        self.size = (max(1, round(self.view.width * self.scale)), max(1, round(self.view.height * self.scale)))
        top, left, height, width = self.view
        native = Image.fromarray(np.ascontiguousarray(self._whole[top : top + height, left : left + width]))
        shown = native.resize(self.size, _SMOOTH if self.scale < 1 else Image.Resampling.NEAREST)
        self.pixels = np.asarray(shown, dtype=np.float32).copy()
        # the native row and column under the centre of each picture pixel
        self._rows = top + np.minimum(((np.arange(self.size[1]) + 0.5) * height / self.size[1]).astype(np.intp), height - 1)
        self._cols = left + np.minimum(((np.arange(self.size[0]) + 0.5) * width / self.size[0]).astype(np.intp), width - 1)
        self._labels: NDArray[np.int64] | None = None
        self._places: dict[str, FloatArray] | None = None
        self._plates: list[tuple[int, int, int, int]] = []

    def _label_map(self) -> NDArray[np.int64]:
        if self._labels is None:
            self._labels = self.release.index_map(self.scene.scene_id)[np.ix_(self._rows, self._cols)].astype(np.int64)
        return self._labels

    def _mask_of(self, row: InstanceRow) -> NDArray[np.int64] | None:
        rle = self.release.masks_of_scene(self.scene.scene_id).get(row.instance_id)
        return None if rle is None else decode(rle)[np.ix_(self._rows, self._cols)].astype(np.int64)

    def paint(self, rows: Iterable[InstanceRow], style: Style) -> None:
        """Fill and outline masks: discrete ones from the index map, regions from their RLE."""
        chosen = list(rows)
        labels = [row.label for row in chosen if row.label is not None]
        if labels:
            shown = self._label_map()
            self._blend(np.where(np.isin(shown, labels), shown, 0), style)
        for row in chosen:
            mask = self._mask_of(row) if row.label is None else None
            if mask is not None:
                self._blend(mask, style)

    def _blend(self, values: NDArray[np.int64], style: Style) -> None:
        inside = values > 0
        edge = _edge(values)
        line = edge
        for _ in range(style.width - 1):
            line = line | (_grow(line) & (inside | _grow(edge)))
        halo = line
        for _ in range(style.halo):
            halo = _grow(halo)
        for where, colour, share in (
            (inside, style.colour, style.fill),
            (halo & ~line & ~inside, (0, 0, 0), 0.6),
            (line, style.colour, style.line),
        ):
            if share:
                self.pixels[where] = (1 - share) * self.pixels[where] + share * np.array(colour, dtype=np.float32)

    def draw_boxes(self, rows: Iterable[tuple[InstanceRow, Colour]]) -> None:
        """Draw HBBs thin and OBBs thicker, smoothed."""
        boxed = list(rows)
        thin, thick = (_FINE, 2 * _FINE) if len(boxed) <= _CROWD else (_FINE - 1, _FINE + 1)
        layer, draw = self._layer()
        for row, colour in boxed:
            if row.hbb_px is not None:
                self._ring(draw, corners_of_hbb(row.hbb_px), (*colour, 150), thin)
            if row.obb_px is not None:
                self._ring(draw, row.obb_px, (*colour, 255), thick)
        self._overlay(layer)

    def draw_ring(self, corners_px: Sequence[float], colour: Colour, width: int) -> None:
        """Draw a closed line through native image points x1, y1, x2, y2, …, smoothed, with a dark edge."""
        layer, draw = self._layer()
        self._ring(draw, corners_px, (0, 0, 0, 140), (width + 2) * _FINE)
        self._ring(draw, corners_px, (*colour, 255), width * _FINE)
        self._overlay(layer)

    def _ring(self, draw: ImageDraw.ImageDraw, corners_px: Sequence[float], colour: tuple[int, ...], width: int) -> None:
        points = [tuple(self._place(corners_px[k], corners_px[k + 1]) * _FINE) for k in range(0, len(corners_px), 2)]
        draw.line([*points, points[0], points[1]], fill=colour, width=width, joint="curve")

    def draw_arrows(self, anchor: InstanceRow, subjects: Sequence[InstanceRow], colour: Colour = ARROW) -> int:
        """Draw arrows from an anchor to the representative points of subjects, smoothed; returns how many (`MAX_ARROWS` at most).

        They start at the representative point of a discrete anchor, and at the point of a region that is nearest to the subject's.

        Raises:
            ReleaseError: instances.parquet has no representative points.
        """
        starts = self._place_of(anchor)[None]
        mask = self._mask_of(anchor) if anchor.label is None else None
        if mask is not None and (edge := _edge(mask)).any():
            starts = np.argwhere(edge)[:, ::-1] + 0.5
        ends = np.array([self._place_of(subject) for subject in subjects]).reshape(-1, 2)
        chosen = spread_rays(ends - self._place_of(anchor), MAX_ARROWS)
        layer, draw = self._layer()
        for end in ends[chosen]:
            start = starts[np.argmin(np.hypot(*(starts - end).T))]
            _arrow(draw, start * _FINE, end * _FINE, colour)
        self._overlay(layer)
        return len(chosen)

    def draw_tag(self, row: InstanceRow, text: str, colour: Colour) -> None:
        """Write a short text on a plate: in a large instance, else beside it where no other tag is."""
        font = get_font(14)
        width, height = math.ceil(font.getlength(printable(text))) + 10, 19
        left, top = self._plate(row, width, height)
        self._plates.append((left, top, left + width, top + height))
        image = self._image()
        draw = ImageDraw.Draw(image)
        draw.rounded_rectangle((left, top, left + width - 1, top + height - 1), radius=4, fill=colour, outline=INK)
        draw.text((left + width / 2, top + height / 2), printable(text), font=font, fill=INK, anchor="mm")
        self.pixels = np.asarray(image, dtype=np.float32).copy()

    def _plate(self, row: InstanceRow, width: int, height: int) -> tuple[int, int]:
        """Where a plate of a size goes: its left and top, inside the picture."""
        middle = self._place_of(row)
        bounds = bounds_of(self.release, row)
        x0, y0, x1, y1 = (*middle, *middle) if bounds is None else (*self._place(*bounds[:2]), *self._place(*bounds[2:]))
        centred = middle - (width / 2, height / 2)
        beside = [(centred[0], y0 - height - 4), (centred[0], y1 + 4), (x0 - width - 4, centred[1]), (x1 + 4, centred[1])]
        fits = x1 - x0 > 1.4 * width and y1 - y0 > 1.4 * height
        for x, y in ([tuple(centred)] if fits else []) + beside:
            left, top = round(float(x)), round(float(y))
            is_inside = 0 <= left <= self.size[0] - width and 0 <= top <= self.size[1] - height
            if is_inside and not any(left < r and top < b and left + width > x and top + height > y for x, y, r, b in self._plates):
                return left, top
        return (
            int(np.clip(round(float(centred[0])), 0, max(0, self.size[0] - width))),
            int(np.clip(round(float(centred[1])), 0, max(0, self.size[1] - height))),
        )

    def _place(self, x_px: float, y_px: float) -> FloatArray:
        """Native image point → picture point."""
        return np.array([x_px - self.view.col_off, y_px - self.view.row_off]) * self.scale

    def _place_of(self, row: InstanceRow) -> FloatArray:
        """The representative point of an instance, in the picture."""
        if self._places is None:
            columns = ("instance_id", "point_x_px", "point_y_px")
            table = self.release.instances
            if not set(columns) <= set(table.column_names):
                lacks = f"release {self.release.folder}: instances.parquet lacks point_x_px or point_y_px"
                raise ReleaseError(f"{lacks}; run trigpoint audit on it")
            here = table.filter(pc.field("scene_id") == self.scene.scene_id).select(list(columns)).to_pylist()
            self._places = {one["instance_id"]: self._place(one["point_x_px"], one["point_y_px"]) for one in here}
        return self._places[row.instance_id]

    def _layer(self) -> tuple[Picture, ImageDraw.ImageDraw]:
        layer = Image.new("RGBA", (self.size[0] * _FINE, self.size[1] * _FINE), (0, 0, 0, 0))
        return layer, ImageDraw.Draw(layer)

    def _overlay(self, layer: Picture) -> None:
        drawn = Image.alpha_composite(self._image().convert("RGBA"), layer.resize(self.size, _BOX)).convert("RGB")
        self.pixels = np.asarray(drawn, dtype=np.float32).copy()

    def _image(self) -> Picture:
        return Image.fromarray(np.clip(np.rint(self.pixels), 0, 255).astype(np.uint8))

    def finish(self, title: str, facts: Sequence[str], legend: Sequence[tuple[str, Colour]], sections: Sequence[Section] = ()) -> Picture:
        """Set the picture on a page with title, facts, scale bar, north arrow, legend, and sections to its right."""
        is_part = self.view.width < self.scene.width or self.view.height < self.scene.height
        scale = Scale(self.scene.gsd_m / self.scale, self.scene.image_up_deg)
        return make_page(self._image(), title, facts, scale, legend, sections, self._thumbnail() if is_part else None)

    def _thumbnail(self) -> Picture:
        """The whole scene, small, with the part that is drawn framed."""
        scale = _THUMBNAIL_PX / max(self.scene.height, self.scene.width)
        size = (max(1, round(self.scene.width * scale)), max(1, round(self.scene.height * scale)))
        small = Image.fromarray(self._whole).resize(size, _SMOOTH)
        draw = ImageDraw.Draw(small)
        top, left, height, width = (v * scale for v in self.view)
        for grow, colour in ((1, INK), (0, ANSWER)):
            draw.rectangle((left - grow, top - grow, left + width + grow, top + height + grow), outline=colour)
        return small


def bounds_of(release: Release, row: InstanceRow) -> tuple[float, float, float, float] | None:
    """Return the pixel-edge envelope x_min, y_min, x_max, y_max of an instance; None when the release has neither its mask nor its box."""
    rle = release.masks_of_scene(row.scene_id).get(row.instance_id)
    box = None if rle is None else bbox(rle)
    if box is not None:
        return box
    return None if row.hbb_px is None else (row.hbb_px[0], row.hbb_px[1], row.hbb_px[2], row.hbb_px[3])


def corners_of_hbb(hbb_px: Sequence[float]) -> list[float]:
    """Return the corners x1, y1, … of a box x_min, y_min, x_max, y_max, clockwise.

    >>> corners_of_hbb([1, 2, 5, 4])
    [1, 2, 5, 2, 5, 4, 1, 4]
    """
    x0, y0, x1, y1 = hbb_px
    return [x0, y0, x1, y0, x1, y1, x0, y1]


def lighter(colour: Colour, share: float = 0.55) -> Colour:
    """Mix a colour with white.

    >>> lighter((0, 100, 200), 0.5)
    (128, 178, 228)
    """
    red, green, blue = (round(v + share * (255 - v)) for v in colour)
    return red, green, blue


def _edge(values: NDArray[np.int64]) -> BoolArray:
    """Return the pixels of a mask that touch another value; the picture's border is no edge."""
    padded = np.pad(values, 1, mode="edge")
    differs = np.zeros(values.shape, dtype=bool)
    for rows, cols in (
        (slice(0, -2), slice(1, -1)),
        (slice(2, None), slice(1, -1)),
        (slice(1, -1), slice(0, -2)),
        (slice(1, -1), slice(2, None)),
    ):
        differs |= padded[rows, cols] != values
    return differs & (values > 0)


def _grow(mask: BoolArray) -> BoolArray:
    """Return a mask grown by one pixel up, down, left and right."""
    grown = mask.copy()
    grown[1:] |= mask[:-1]
    grown[:-1] |= mask[1:]
    grown[:, 1:] |= mask[:, :-1]
    grown[:, :-1] |= mask[:, 1:]
    return grown


def _arrow(draw: ImageDraw.ImageDraw, start: FloatArray, end: FloatArray, colour: Colour) -> None:
    """Draw an arrow with a filled head and a dark edge; nothing where it has no length."""
    length = float(np.hypot(*(end - start)))
    if length == 0:
        return
    along = (end - start) / length
    across = np.array([-along[1], along[0]])
    for width, fill in ((2 * _FINE + 4, (0, 0, 0, 120)), (2 * _FINE, (*colour, 235))):
        edge = (width - 2 * _FINE) / 2
        tip = end + along * edge
        neck = end - along * min(12.0 * _FINE, length)
        half = 5.0 * _FINE + edge
        draw.line([tuple(start), tuple(neck)], fill=fill, width=width)
        draw.polygon([tuple(tip), tuple(neck + half * across), tuple(neck - half * across)], fill=fill)


def spread_rays(rays: FloatArray, most: int) -> NDArray[np.intp]:
    """Choose at most `most` of the rays (n, 2): sorted by their angle, every k-th; returns their positions, ascending.

    >>> spread_rays(np.array([[1.0, 0.1], [-1.0, 0.1], [1.0, 0.2], [-1.0, 0.2], [0.0, 1.0]]), 3).tolist()
    [0, 2, 3]
    """
    if len(rays) <= most:
        return np.arange(len(rays))
    by_angle = np.argsort(np.arctan2(rays[:, 1], rays[:, 0]), kind="stable")
    return np.sort(by_angle[(np.arange(most) * len(rays)) // most])
