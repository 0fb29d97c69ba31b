"""Pictures of scenes and queries for people: outlines, boxes, answers, a scale bar and true north.

The same release gives the same picture, byte by byte (with one version of Pillow). Not here: the picture of native pixels itself
(`trigpoint.imagery.view`), reading files (`trigpoint.release.reader`).
"""

import io
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from trigpoint.errors import InputError
from trigpoint.masks.rle import decode
from trigpoint.release.reader import InstanceRow, Release, SceneRow

Picture = Image.Image
Colour = tuple[int, int, int]
BoolArray = NDArray[np.bool_]

MAX_SIDE_PX = 1024
"""Longest side of a scene in its picture; larger scenes are reduced."""

MIN_SIDE_PX = 480
"""Smaller scenes are enlarged by a whole factor, pixels kept square, until their longer side has this."""

PALETTE: tuple[Colour, ...] = (
    (86, 180, 233), (230, 159, 0), (0, 200, 140), (240, 228, 66), (213, 94, 0), (204, 121, 167), (0, 114, 178), (220, 220, 220),
)  # fmt: skip
"""Colours of categories in order of frequency, used again when there are more. Source: Okabe and Ito, green and grey lightened."""

ANSWER: Colour = (255, 225, 0)
OTHER: Colour = (255, 255, 255)
ANCHOR: Colour = (0, 150, 255)
UNSURE: Colour = (255, 120, 200)
ARROW: Colour = (225, 50, 0)
_PAPER: Colour = (255, 255, 255)
_INK: Colour = (20, 20, 20)
_SOFT: Colour = (90, 90, 90)
_PAD = 10
_STRIP = 52
_BAR_SHARE = 0.25
_CROWD = 100


class _Style(NamedTuple):
    """How a set of masks is drawn: colour, fill and line opacity in [0, 1], line width and dark halo in pixels of the picture."""

    colour: Colour
    fill: float
    line: float
    width: int
    halo: int = 0


def draw_scene(release: Release, scene_id: str, max_side_px: int = MAX_SIDE_PX, *, with_boxes: bool = True) -> Picture:
    """Draw a scene with everything in it: outlines by category, HBBs thin, OBBs thicker, regions as a tint.

    Args:
        release: The release.
        scene_id: Its scene.
        max_side_px: Longest side of the scene in the picture.
        with_boxes: Draw boxes too.

    Returns:
        RGB picture with a title above, and scale bar, north arrow and legend below.

    Raises:
        InputError: there is no such scene.
        ReleaseError: a raster or a mask cannot be read.
    """
    canvas = _Canvas(release, release.scene(scene_id), max_side_px)
    rows = release.instances_of_scene[scene_id]
    counts = Counter(_name(row) for row in rows)
    names = sorted(counts, key=lambda name: (-counts[name], name))
    colour = {name: PALETTE[k % len(PALETTE)] for k, name in enumerate(names)}
    for name in names:
        of_name = [row for row in rows if _name(row) == name]
        canvas.paint([row for row in of_name if not row.countable], _Style(colour[name], 0.18, 0.9, 2))
        canvas.paint([row for row in of_name if row.countable], _Style(colour[name], 0.08, 1.0, 1))
    if with_boxes:
        canvas.draw_boxes([(row, colour[_name(row)]) for row in rows])
    n_discrete = sum(row.countable for row in rows)
    scene = canvas.scene
    facts = (
        f"{scene.width} × {scene.height} pixels of {scene.gsd_m:.3f} m; discrete instances: {n_discrete}, regions: {len(rows) - n_discrete}"
    )
    return canvas.finish(f"Scene {scene_id}", [facts, *_attribution(release, scene_id)], [(f"{n} ({counts[n]})", colour[n]) for n in names])


def draw_query(release: Release, query_id: str, max_side_px: int = MAX_SIDE_PX) -> Picture:
    """Draw a query: its sentence, and in its scene the answer filled and boxed among thin outlines of everything else.

    Raises:
        InputError: there is no such query.
        ReleaseError: a raster or a mask cannot be read.
    """
    query = release.query(query_id)
    canvas = _Canvas(release, release.scene(query.scene_id), max_side_px)
    rows = release.instances_of_scene[query.scene_id]
    wanted = set(query.answer_ids)
    answers = [row for row in rows if row.instance_id in wanted]
    canvas.paint([row for row in rows if row.countable and row.instance_id not in wanted], _Style(OTHER, 0.0, 0.55, 1))
    canvas.paint(answers, _Style(ANSWER, 0.35, 1.0, 2, halo=2))
    canvas.draw_boxes([(row, ANSWER) for row in answers])
    answer = "nothing" if not answers else f"{len(answers)} instance{'s' if len(answers) > 1 else ''}"
    level = "" if query.level is None else f"level {query.level}, "
    facts = f"{query_id}, {level}{query.difficulty or query.form}, {query.kind.replace('_', ' ')}; answer: {answer}"
    legend = [("answer", ANSWER), ("other instances", (200, 200, 200))]
    title = query.sentences[0] if query.sentences else query.canonical or query_id
    return canvas.finish(title, [facts, *_attribution(release, query.scene_id)], legend)


def draw_relation(release: Release, scene_id: str, relation: str, anchor_id: str, max_side_px: int = MAX_SIDE_PX) -> Picture:
    """Draw what stands in a relation to one anchor: arrows from the anchor to every TRUE subject; UNDECIDED ones in their own colour.

    Arrows start at the representative point of a discrete anchor, and at the point of a region that is nearest to the subject's.

    Raises:
        InputError: there is no such scene, or no such instance in it.
        ReleaseError: a file cannot be read or lacks a column.
    """
    canvas = _Canvas(release, release.scene(scene_id), max_side_px)
    rows = {row.instance_id: row for row in release.instances_of_scene[scene_id]}
    if anchor_id not in rows:
        raise InputError(f"instance {anchor_id!r} is not in scene {scene_id!r}")
    here = (pc.field("scene_id") == scene_id) & (pc.field("anchor_id") == anchor_id) & (pc.field("relation") == relation)
    edges = release.relations.filter(here).select(["subject_id", "verdict"]).to_pylist()
    found = {verdict: [rows[e["subject_id"]] for e in edges if e["verdict"] == verdict] for verdict in ("TRUE", "UNDECIDED")}
    named = {anchor_id, *(e["subject_id"] for e in edges)}
    canvas.paint([row for row in rows.values() if row.countable and row.instance_id not in named], _Style(OTHER, 0.0, 0.55, 1))
    canvas.paint(found["UNDECIDED"], _Style(UNSURE, 0.25, 1.0, 2, halo=1))
    canvas.paint(found["TRUE"], _Style(ANSWER, 0.3, 1.0, 2, halo=2))
    canvas.paint([rows[anchor_id]], _Style(ANCHOR, 0.35, 1.0, 3, halo=2))
    canvas.draw_arrows(rows[anchor_id], found["TRUE"])
    title = f"{relation.replace('_', ' ')}: {_name(rows[anchor_id])} {anchor_id}"
    facts = f"scene {scene_id}; {len(found['TRUE'])} TRUE, {len(found['UNDECIDED'])} UNDECIDED"
    legend = [("anchor", ANCHOR), ("TRUE", ANSWER), ("UNDECIDED", UNSURE), ("other instances", (200, 200, 200))]
    return canvas.finish(title, [facts, *_attribution(release, scene_id)], legend)


def contact_sheet(images: Sequence[Picture], columns: int = 2, cell_width_px: int = 760, gap_px: int = 12) -> Picture:
    """Put pictures side by side, row by row, each `cell_width_px` wide, on white; no picture gives one empty cell.

    >>> contact_sheet([Image.new("RGB", (40, 20))] * 3, columns=2, cell_width_px=20, gap_px=2).size
    (46, 26)
    """
    cells = [
        image.convert("RGB").resize((cell_width_px, max(1, round(image.height * cell_width_px / image.width))), _SMOOTH) for image in images
    ]
    rows = [cells[k : k + columns] for k in range(0, len(cells), columns)]
    heights = [max(cell.height for cell in row) for row in rows]
    n_columns = max(1, min(columns, len(cells)))
    sheet = Image.new("RGB", (n_columns * (cell_width_px + gap_px) + gap_px, sum(heights) + gap_px * (len(rows) + 1)), _PAPER)
    top = gap_px
    for row, height in zip(rows, heights, strict=True):
        for k, cell in enumerate(row):
            sheet.paste(cell, (gap_px + k * (cell_width_px + gap_px), top))
        top += height + gap_px
    return sheet


def png_bytes(image: Picture) -> bytes:
    """Return a picture as PNG without any metadata: the same picture gives the same bytes."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


_SMOOTH = Image.Resampling.LANCZOS
_BOX = Image.Resampling.BOX
_FINE = 3
"""Lines and boxes are drawn this much larger and reduced, which smooths them."""


class _Canvas:
    """The scene's pixels at the picture's scale, and what is drawn on them."""

    def __init__(self, release: Release, scene: SceneRow, max_side_px: int) -> None:
        self.release = release
        self.scene = scene
        native = Image.fromarray(release.picture(scene.scene_id))
        side = max(scene.width, scene.height)
        if side > max_side_px:
            self.scale = max_side_px / side
        else:
            self.scale = float(max(1, min(math.ceil(MIN_SIDE_PX / side), max_side_px // side)))
        self.size = (max(1, round(scene.width * self.scale)), max(1, round(scene.height * self.scale)))
        shown = native.resize(self.size, _SMOOTH if self.scale < 1 else Image.Resampling.NEAREST)
        self.pixels = np.asarray(shown, dtype=np.float32).copy()
        # the native row and column under the centre of each picture pixel
        self._rows = np.minimum(((np.arange(self.size[1]) + 0.5) * scene.height / self.size[1]).astype(np.intp), scene.height - 1)
        self._cols = np.minimum(((np.arange(self.size[0]) + 0.5) * scene.width / self.size[0]).astype(np.intp), scene.width - 1)
        self._labels: NDArray[np.int64] | None = None
        self._image: Picture | None = None

    def _label_map(self) -> NDArray[np.int64]:
        if self._labels is None:
            self._labels = self.release.index_map(self.scene.scene_id)[np.ix_(self._rows, self._cols)].astype(np.int64)
        return self._labels

    def paint(self, rows: Iterable[InstanceRow], style: _Style) -> None:
        """Fill and outline masks: discrete ones from the index map, regions from their RLE."""
        chosen = list(rows)
        labels = [row.label for row in chosen if row.label is not None]
        if labels:
            shown = self._label_map()
            self._blend(np.where(np.isin(shown, labels), shown, 0), style)
        masks = self.release.masks_of_scene(self.scene.scene_id)
        for row in chosen:
            if row.label is None and row.instance_id in masks:
                self._blend(decode(masks[row.instance_id])[np.ix_(self._rows, self._cols)].astype(np.int64), style)

    def _blend(self, values: NDArray[np.int64], style: _Style) -> None:
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
        layer = Image.new("RGBA", (self.size[0] * _FINE, self.size[1] * _FINE), (0, 0, 0, 0))
        draw = ImageDraw.Draw(layer)
        factor = self.scale * _FINE
        boxed = list(rows)
        thin, thick = (_FINE, 2 * _FINE) if len(boxed) <= _CROWD else (_FINE - 1, _FINE + 1)
        for row, colour in boxed:
            if row.hbb_px is not None:
                x0, y0, x1, y1 = (v * factor for v in row.hbb_px)
                _ring(draw, [(x0, y0), (x1, y0), (x1, y1), (x0, y1)], (*colour, 150), thin)
            if row.obb_px is not None:
                corners = [(row.obb_px[k] * factor, row.obb_px[k + 1] * factor) for k in range(0, 8, 2)]
                _ring(draw, corners, (*colour, 255), thick)
        self._image = Image.alpha_composite(self._base().convert("RGBA"), layer.resize(self.size, _BOX)).convert("RGB")

    def draw_arrows(self, anchor: InstanceRow, subjects: Sequence[InstanceRow]) -> None:
        """Draw an arrow from the anchor to the representative point of every subject, smoothed."""
        table = self.release.instances.filter(pc.field("scene_id") == self.scene.scene_id)
        ids, *xy = (table.column(name).to_pylist() for name in ("instance_id", "point_x_px", "point_y_px"))
        place = {name: np.array([x, y]) * self.scale for name, x, y in zip(ids, *xy, strict=True)}
        starts = place[anchor.instance_id][None]
        rle = None if anchor.countable else self.release.masks_of_scene(self.scene.scene_id).get(anchor.instance_id)
        if rle is not None:
            edge = _edge(decode(rle)[np.ix_(self._rows, self._cols)].astype(np.int64))
            starts = np.argwhere(edge)[:, ::-1] + 0.5 if edge.any() else starts
        layer = Image.new("RGBA", (self.size[0] * _FINE, self.size[1] * _FINE), (0, 0, 0, 0))
        draw = ImageDraw.Draw(layer)
        width = _FINE if len(subjects) > _CROWD else 2 * _FINE
        for subject in subjects:
            end = place[subject.instance_id]
            start = starts[np.argmin(np.hypot(*(starts - end).T))]
            _arrow(draw, start * _FINE, end * _FINE, (*ARROW, 210), width)
        self._image = Image.alpha_composite(self._base().convert("RGBA"), layer.resize(self.size, _BOX)).convert("RGB")

    def _base(self) -> Picture:
        return Image.fromarray(np.clip(np.rint(self.pixels), 0, 255).astype(np.uint8))

    def finish(self, title: str, facts: list[str], legend: list[tuple[str, Colour]]) -> Picture:
        """Set the picture between its title and its strip with scale bar, north arrow and legend."""
        image = self._image or self._base()
        width = max(image.width, MIN_SIDE_PX) + 2 * _PAD
        large, small = _font(20), _font(13)
        lines = [(line, large, _INK) for line in _wrap(title, large, width - 2 * _PAD)]
        lines += [(line, small, _SOFT) for fact in facts for line in _wrap(fact, small, width - 2 * _PAD)]
        head = _PAD + sum(_line_height(font) for _, font, _ in lines) + 6
        bar_width = self._bar(image.width)[0]
        legend_left = _PAD + bar_width + 74
        items = _flow(legend, small, legend_left, width - _PAD)
        foot = max(_STRIP, 12 + 20 * (1 + max((row for _, _, row, _ in items), default=0)))
        page = Image.new("RGB", (width, head + image.height + foot + _PAD), _PAPER)
        draw = ImageDraw.Draw(page)
        top = _PAD
        for text, font, colour in lines:
            draw.text((_PAD, top), text, font=font, fill=colour)
            top += _line_height(font)
        page.paste(image, ((width - image.width) // 2, head))
        base = head + image.height
        self._draw_bar(draw, (_PAD, base + 14), image.width, small)
        page.paste(_north_arrow(self.scene.image_up_deg), (_PAD + bar_width + 18, base + 6))
        for text, left, row, colour in items:
            y = base + 12 + 20 * row
            draw.rectangle((left, y, left + 12, y + 12), fill=colour, outline=_INK)
            draw.text((left + 18, y - 1), text, font=small, fill=_INK)
        return page

    def _bar(self, image_width: int) -> tuple[int, float]:
        """Return the length of the scale bar in the picture, px, and on the ground, m: 1, 2 or 5 times a power of ten."""
        metres_per_px = self.scene.gsd_m / self.scale
        longest = _BAR_SHARE * image_width * metres_per_px
        power = 10.0 ** math.floor(math.log10(longest))
        length = max(step * power for step in (1, 2, 5) if step * power <= longest)
        return max(1, round(length / metres_per_px)), length

    def _draw_bar(self, draw: ImageDraw.ImageDraw, at: tuple[int, int], image_width: int, font: Any) -> None:
        length_px, length_m = self._bar(image_width)
        x, y = at
        half = x + length_px // 2
        draw.rectangle((x, y, x + length_px, y + 7), fill=_PAPER, outline=_INK)
        draw.rectangle((x, y, half, y + 7), fill=_INK)
        text = f"{length_m / 1000:g} km" if length_m >= 1000 else f"{length_m:g} m"
        draw.text((x, y + 11), text, font=font, fill=_INK)


def _north_arrow(image_up_deg: float, side_px: int = 42) -> Picture:
    """Draw an arrow to true north; N stands at its tip. Seen from the image's up, north lies `image_up_deg` anticlockwise."""
    angle = math.radians(-image_up_deg)
    fine = side_px * _FINE
    image = Image.new("RGB", (fine, fine), _PAPER)
    draw = ImageDraw.Draw(image)
    centre = fine / 2

    def point(along: float, across: float) -> tuple[float, float]:
        """Along the arrow and to its right, in shares of half the side."""
        u, v = (math.sin(angle), -math.cos(angle)), (math.cos(angle), math.sin(angle))
        return (centre + centre * (along * u[0] + across * v[0]), centre + centre * (along * u[1] + across * v[1]))

    draw.polygon([point(0.42, 0), point(-0.9, 0.36), point(-0.6, 0)], fill=_INK)
    draw.polygon([point(0.42, 0), point(-0.9, -0.36), point(-0.6, 0)], fill=_PAPER, outline=_INK, width=_FINE)
    draw.text(point(0.72, 0), "N", font=_font(12 * _FINE), fill=_INK, anchor="mm")
    return image.resize((side_px, side_px), _BOX)


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


def _ring(draw: ImageDraw.ImageDraw, corners: list[tuple[float, float]], colour: tuple[int, ...], width: int) -> None:
    closed = [*corners, corners[0], corners[1]]
    draw.line(closed, fill=colour, width=width, joint="curve")


def _arrow(draw: ImageDraw.ImageDraw, start: NDArray[np.float64], end: NDArray[np.float64], colour: tuple[int, ...], width: int) -> None:
    """Draw an arrow with a filled head; nothing where it has no length."""
    length = float(np.hypot(*(end - start)))
    if length == 0:
        return
    along = (end - start) / length
    across = np.array([-along[1], along[0]])
    neck = end - along * min(5.0 * width, length)
    draw.line([tuple(start), tuple(neck)], fill=colour, width=width)
    draw.polygon([tuple(end), tuple(neck + 2.0 * width * across), tuple(neck - 2.0 * width * across)], fill=colour)


def _font(size: int) -> Any:
    return ImageFont.load_default(size)


_SUBSTITUTES = {"×": "x", "–": "-", "—": "-", "²": "2", "→": "->", "≥": ">=", "≤": "<="}
_BEYOND_ASCII = "©°±´’“”…"


def _printable(text: str) -> str:
    """Write a text in the characters that Pillow's own font has: accents are dropped, what remains unknown becomes `?`.

    >>> _printable("20 × 30 Département ©")
    '20 x 30 Departement ©'
    """
    shown: list[str] = []
    for character in text:
        if character.isascii() or character in _BEYOND_ASCII:
            shown.append(character)
        elif character in _SUBSTITUTES:
            shown.append(_SUBSTITUTES[character])
        else:
            shown.append(unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?")
    return "".join(shown)


def _line_height(font: Any) -> int:
    ascent, descent = font.getmetrics()
    return int(ascent + descent + 3)


def _wrap(text: str, font: Any, width_px: int) -> list[str]:
    """Break a text between words so that no line is wider; a single longer word keeps its line."""
    lines: list[str] = []
    for word in _printable(text).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width_px:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines or [""]


def _flow(legend: list[tuple[str, Colour]], font: Any, left: int, right: int) -> list[tuple[str, int, int, Colour]]:
    """Place legend entries (text, x, row, colour) from left to right, row by row."""
    placed: list[tuple[str, int, int, Colour]] = []
    x, row = left, 0
    for text, colour in ((_printable(name), colour) for name, colour in legend):
        width = 18 + math.ceil(font.getlength(text)) + 16
        if x > left and x + width > right:
            x, row = left, row + 1
        placed.append((text, x, row, colour))
        x += width
    return placed


def _name(row: InstanceRow) -> str:
    """The instance's value on its first axis, for a legend."""
    return (row.category[0] if row.category else "unknown").replace("_", " ")


def _attribution(release: Release, scene_id: str) -> list[str]:
    """What the picture's pixels must be credited with, when the release says so."""
    table = release.scenes
    if "attribution" not in table.column_names:
        return []
    ids = cast(list[str], table.column("scene_id").to_pylist())
    text = table.column("attribution")[ids.index(scene_id)].as_py()
    return [text] if text else []
