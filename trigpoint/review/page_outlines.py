"""Masks as the review page draws them, and what people draw as masks: all by the one pixel rule.

Rings go to the page as whole numbers: its pixel-edge outline is `[x, y, d, d, …]`, the first vertex and then steps that are by turns
horizontal and vertical, horizontal first; the last step back is left out. Not here: what a decision is (`trigpoint.review.page_intents`).
"""

import math
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Annotated, Any

import numpy as np
import shapely
from pydantic import Field
from shapely.geometry.base import BaseGeometry
from shapely.ops import split as split_by_line

from trigpoint.errors import InputError
from trigpoint.geometry.outlines import measuring_outline
from trigpoint.geometry.repair import polygonal_part, repair_polygon
from trigpoint.masks.crops import crop_of_record, polygon_of_record, record_of_mask, record_of_polygon
from trigpoint.masks.rasterise import BoolArray, CropMask, crop_mask
from trigpoint.masks.rle import check_rle
from trigpoint.proposals.masks import PieceMasks, union_crop
from trigpoint.records.base import Record
from trigpoint.records.mask import MaskCrop, Pixels, Side

Coordinate = Annotated[float, Field(ge=-1e6, le=1e7)]
Point = tuple[Coordinate, Coordinate]
Ring = Annotated[tuple[Point, ...], Field(min_length=3, max_length=50_000)]
Rings = Annotated[tuple[Ring, ...], Field(max_length=5_000)]


class Runs(Record):
    """A mask as a brush leaves it.

    Attributes:
        origin_px: Column and row of the window's top left pixel in the scene.
        size_px: Height and width of the window.
        runs: Pixels down the columns, zeros first.
    """

    origin_px: tuple[Pixels, Pixels]
    size_px: tuple[Side, Side]
    runs: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=2_000_000)]


class Drawn(Record):
    """What a person drew: pixels, then vertices moved.

    Attributes:
        mask: The pixels below; None for those of the version that was seen, or none for a new mask.
        before: The outline that the page offered for moving, image coordinates. after: The outline now. A pixel on which the two
            disagree is as `after` has it; every other stays as it is, so that a vertex that is moved changes nothing elsewhere. A point is
            inside when an odd number of rings is around it.
    """

    mask: Runs | None = None
    before: Rings = ()
    after: Rings = ()


def rings_of(record: MaskCrop) -> tuple[tuple[int, ...], ...]:
    """Return the pixel-edge outline for the page, see the module; remembered."""
    return _rings(record.origin_px, record.size_px, record.counts)


@lru_cache(maxsize=20_000)
def _rings(origin_px: tuple[int, int], size_px: tuple[int, int], counts: str) -> tuple[tuple[int, ...], ...]:
    found: list[tuple[int, ...]] = []
    polygon = polygon_of_record(MaskCrop(origin_px=origin_px, size_px=size_px, counts=counts))
    for ring in shapely.get_rings(shapely.get_parts(polygon)):
        points = shapely.get_coordinates(ring)[:-1].astype(np.int64)
        if points[0, 1] != points[1, 1]:  # begin with a horizontal step
            points = np.roll(points, -1, axis=0)
        steps = np.diff(points, axis=0).sum(axis=1)
        found.append((int(points[0, 0]), int(points[0, 1]), *steps.tolist()))
    return tuple(found)


def vertices_of(record: MaskCrop) -> list[list[list[int]]]:
    """Return the measuring outline, within 1 px of the pixels, as rings of [x, y]: what people move."""
    outline = measuring_outline(polygon_of_record(record))
    return [shapely.get_coordinates(ring)[:-1].astype(int).tolist() for ring in shapely.get_rings(shapely.get_parts(outline))]


def area_px_of(record: MaskCrop) -> int:
    """Return the number of pixels of a mask; remembered."""
    return _area_px(record.counts, record.size_px)


@lru_cache(maxsize=50_000)
def _area_px(counts: str, size_px: tuple[int, int]) -> int:
    return check_rle(counts, size_px).area_px


def polygon_of_rings(rings: Sequence[Sequence[tuple[float, float]]]) -> BaseGeometry:
    """Return what an odd number of rings is around; a ring that crosses itself keeps both its halves.

    >>> polygon_of_rings([[(0, 0), (9, 0), (9, 9), (0, 9)], [(3, 3), (6, 3), (6, 6), (3, 6)]]).area
    72.0
    """
    if not rings:
        return shapely.Polygon()
    polygons = [repair_polygon(shapely.Polygon(ring)).geometry for ring in rings]
    return polygonal_part(reduce(shapely.symmetric_difference, polygons))


def mask_of_drawn(drawn: Drawn, seen: MaskCrop | None, size: tuple[int, int]) -> MaskCrop:
    """Return the pixels that a drawing stands for, as they would be stored.

    Args:
        drawn: The drawing.
        seen: The mask that the person began with; None for a new one.
        size: Height and width of the scene.

    Raises:
        InputError: nothing of it lies in the scene, or its runs are not those of its window.
    """
    height, width = size
    if drawn.mask is not None:
        below = _crop_of_runs(drawn.mask, size)
    elif seen is not None:
        below = crop_of_record(seen, height, width)
    elif not drawn.before:
        return record_of_polygon(_within_reach(polygon_of_rings(drawn.after)), height, width)
    else:
        below = None
    before, after = (crop_mask(_within_reach(polygon_of_rings(rings)), height, width) for rings in (drawn.before, drawn.after))
    crops = [crop for crop in (below, before, after) if crop is not None and crop.mask.size]
    if not crops:
        raise InputError("the drawing lies outside the scene; draw on the picture")
    row0, col0 = min(crop.row_off for crop in crops), min(crop.col_off for crop in crops)
    row1 = max(crop.row_off + crop.mask.shape[0] for crop in crops)
    col1 = max(crop.col_off + crop.mask.shape[1] for crop in crops)

    def placed(crop: CropMask | None) -> BoolArray:
        canvas = np.zeros((row1 - row0, col1 - col0), dtype=bool)
        if crop is not None and crop.mask.size:
            rows, cols = crop.slices
            canvas[rows.start - row0 : rows.stop - row0, cols.start - col0 : cols.stop - col0] = crop.mask
        return canvas

    was, now = placed(before), placed(after)
    return record_of_mask(np.where(was == now, placed(below), now), (col0, row0))


def _within_reach(polygon: BaseGeometry) -> BaseGeometry:
    """Refuse what no rasteriser should be asked for."""
    if not polygon.is_empty and not all(math.isfinite(value) for value in polygon.bounds):
        raise InputError(f"the drawing reaches to {polygon.bounds}; expected image coordinates")
    return polygon


def _crop_of_runs(runs: Runs, size: tuple[int, int]) -> CropMask:
    (col, row), (rows, cols) = runs.origin_px, runs.size_px
    if row + rows > size[0] or col + cols > size[1]:
        raise InputError(f"the brushed mask has the window {cols} × {rows} px from column {col}, row {row}, outside the scene")
    check_rle(list(runs.runs), (rows, cols), "brushed mask")
    counts = np.asarray(runs.runs, dtype=np.int64)
    flat = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return CropMask(row, col, flat.reshape((cols, rows)).T)


def split_mask(record: MaskCrop, line: Sequence[tuple[float, float]], size: tuple[int, int]) -> list[MaskCrop]:
    """Cut a mask along a line; every pixel goes to one piece.

    Args:
        record: The mask.
        line: Two vertices or more, image coordinates; from outside the mask to outside. Empty: into the parts that do not touch.
        size: Height and width of the scene.

    Returns:
        The pieces, the largest first; a part that the line does not cut stays with the largest.

    Raises:
        InputError: the line does not cut it, or it is of one part and there is no line.
    """
    height, width = size
    parts: list[Any] = list(shapely.get_parts(polygon_of_record(record)))
    pieces = _cut(parts, line) if line else parts
    if len(pieces) < 2:
        what = "the line does not cut the mask in two; begin and end it outside" if line else "the mask is of one part"
        raise InputError(f"{what}: nothing to split")
    whole = crop_of_record(record, height, width)
    left = whole.mask.copy()
    cut: list[BoolArray] = []
    for piece in pieces[1:]:
        crop = crop_mask(piece, height, width)
        own = np.zeros_like(left)
        row, col = crop.row_off - whole.row_off, crop.col_off - whole.col_off
        rows, cols = slice(max(row, 0), row + crop.mask.shape[0]), slice(max(col, 0), col + crop.mask.shape[1])
        own[rows, cols] = crop.mask[max(-row, 0) :, max(-col, 0) :][: own[rows, cols].shape[0], : own[rows, cols].shape[1]]
        own &= left
        left &= ~own
        cut.append(own)
    masks = [mask for mask in (left, *cut) if mask.any()]
    if len(masks) < 2:
        raise InputError("the line cuts off less than a pixel: nothing to split")
    masks.sort(key=lambda mask: -int(np.count_nonzero(mask)))
    return [record_of_mask(mask, record.origin_px) for mask in masks]


def _cut(parts: list[Any], line: Sequence[tuple[float, float]]) -> list[BaseGeometry]:
    """Pieces of parts: the largest piece with what is not cut first, then the others by size."""
    knife = shapely.LineString(line)
    uncut: list[Any] = []
    pieces: list[Any] = []
    for part in parts:
        found = [piece for piece in split_by_line(part, knife).geoms if piece.area > 0]
        (pieces if len(found) > 1 else uncut).extend(found)
    if not pieces:
        return []
    pieces.sort(key=lambda piece: -float(piece.area))
    return [polygonal_part(shapely.MultiPolygon([pieces[0], *uncut])), *pieces[1:]]


def union_of_masks(records: Sequence[MaskCrop]) -> MaskCrop:
    """Return all pixels of several masks of one scene."""
    masks = PieceMasks(records)
    whole = union_crop([masks.crop(k) for k in range(len(records))])
    return record_of_mask(whole.mask, (whole.col_off, whole.row_off))
