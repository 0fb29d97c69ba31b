"""Prompts from what is known of a thing: its outline, its oriented box, a point on it; and prompts as one tile of a scene sees them."""

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from trigpoint.boxes.calipers import min_area_rectangles
from trigpoint.errors import InputError
from trigpoint.masks.crops import crop_of_record, record_of_mask, record_of_polygon
from trigpoint.masks.rasterise import crop_mask
from trigpoint.records.proposal import AutomaticPrompt, BoxPrompt, MaskPrompt, Point, PointsPrompt, Prompt, PromptForm
from trigpoint.records.scene import Window

Shape = BoxPrompt | PointsPrompt | MaskPrompt | AutomaticPrompt

LONG_AXIS_SHARES = (-0.3, 0.0, 0.3)
"""Where the positive points of an oriented box lie on its long axis, as shares of its length from the middle: far enough apart to say that
both ends are one thing, and 0.2 of the length inside, where a box that is a little too long still has the thing under it."""

CORNER_OUT_SHARE = 0.15
"""How far outside each corner its negative point lies, as a share of the short side."""

CORNER_OUT_MIN_PX = 2.0
"""The same in pixels, at least: a point nearer than that may lie on the thing's own edge."""


def prompt_shape(polygon: BaseGeometry, form: PromptForm, height: int, width: int) -> Shape | None:
    """Turn the outline of a thing into a prompt.

    Args:
        polygon: Polygon or MultiPolygon in image coordinates; may reach outside the scene.
        form: `point` takes the representative point.
        height: Rows of the scene.
        width: Columns of the scene.

    Returns:
        The prompt, clipped to the scene; None where the outline has nothing in it that could be shown.
    """
    inside = shapely.intersection(polygon, shapely.box(0, 0, width, height))
    if inside.is_empty or inside.area <= 0:
        return None
    if form == "box":
        left, top, right, bottom = inside.bounds
        return BoxPrompt(box_px=(left, top, right, bottom))
    if form == "point":
        point = shapely.point_on_surface(inside)
        return PointsPrompt(points_px=((point.x, point.y),), labels=(1,))
    if form == "mask":
        return MaskPrompt(mask=record_of_polygon(inside, height, width)) if crop_mask(inside, height, width).mask.any() else None
    box = min_area_rectangles(np.array([inside], dtype=object))
    return points_of_obb(box.corners[0], height, width)


def points_of_obb(corners: NDArray[np.float64], height: int, width: int) -> PointsPrompt:
    """Turn an oriented box into points: positive along its long axis, negative just outside its corners.

    The models take axis-aligned boxes only. The one around an oblique thing holds mostly other things, at 45° three quarters of it for a
    thing four times as long as wide; points say what is meant. Several positive points on the long axis join the two ends of a long thing,
    where one point in the middle often gets a part of it. The negative points are off the corners and not beyond the sides: a corner of the
    box is the place that a rounded or slightly turned thing reaches least, so that just outside it the neighbours begin, while the middle
    of a side is where the box touches the thing itself.

    Args:
        corners: (4, 2) in image coordinates, in order around the box.
        height: Rows of the scene; points outside it are left out.
        width: Columns of the scene.

    Raises:
        InputError: the box has no length, or its middle lies outside the scene.
    """
    middle = corners.mean(axis=0)
    sides = (corners[1] - corners[0], corners[2] - corners[1])
    long_side, short_side = sorted(sides, key=lambda side: float(np.hypot(*side)), reverse=True)
    if not np.hypot(*long_side) > 0 or not (0 <= middle[0] < width and 0 <= middle[1] < height):
        raise InputError(f"oriented box {corners.tolist()}: has no length or its middle is outside the scene of {width} × {height} px")
    out_px = max(CORNER_OUT_MIN_PX, CORNER_OUT_SHARE * float(np.hypot(*short_side)))
    away = corners - middle
    points = np.vstack([middle + np.outer(LONG_AXIS_SHARES, long_side), corners + away / np.hypot(*away.T)[:, None] * out_px])
    labels = [1] * len(LONG_AXIS_SHARES) + [0] * 4
    kept = [k for k, (x, y) in enumerate(points) if 0 <= x < width and 0 <= y < height]
    a, b, c, d = (_point(corner) for corner in corners)
    return PointsPrompt(
        points_px=tuple(_point(points[k]) for k in kept), labels=tuple(1 if labels[k] else 0 for k in kept), obb_px=(a, b, c, d)
    )


def prompt_bounds(shape: Shape) -> tuple[float, float, float, float] | None:
    """Return (x_min, y_min, x_max, y_max) of what a prompt is about, image coordinates; None of an automatic one."""
    if isinstance(shape, BoxPrompt):
        return shape.box_px
    if isinstance(shape, MaskPrompt):
        (col, row), (height, width) = shape.mask.origin_px, shape.mask.size_px
        return (col, row, col + width, row + height)
    if isinstance(shape, PointsPrompt):
        points = np.array(shape.obb_px or [p for p, label in zip(shape.points_px, shape.labels, strict=True) if label])
        around = 0.0 if shape.obb_px is not None else (shape.size_px or 0.0) / 2
        (left, top), (right, bottom) = points.min(axis=0) - around, points.max(axis=0) + around
        return (float(left), float(top), float(right), float(bottom))
    return None


def prompt_in_tile(prompt: Prompt, tile: Window, reduced_by: int = 1) -> Prompt | None:
    """Return a prompt as a tile sees it, in the pixels of the tile's picture.

    Args:
        prompt: In scene coordinates.
        tile: A window of the scene.
        reduced_by: How many scene pixels make a pixel of the tile's picture, along a side.

    Returns:
        None where nothing of the prompt lies in the tile (of points: no positive one).
    """
    shape = _shape_in_tile(prompt.shape, tile, reduced_by)
    return None if shape is None else prompt.model_copy(update={"shape": shape})


def _shape_in_tile(shape: Shape, tile: Window, reduced_by: int) -> Shape | None:
    if isinstance(shape, AutomaticPrompt):
        return shape
    if isinstance(shape, BoxPrompt):
        left, top, right, bottom = shape.box_px
        right, bottom = min(right - tile.col_off, tile.width), min(bottom - tile.row_off, tile.height)
        left, top = max(left - tile.col_off, 0.0), max(top - tile.row_off, 0.0)
        if not (left < right and top < bottom):
            return None
        return BoxPrompt(box_px=(left / reduced_by, top / reduced_by, right / reduced_by, bottom / reduced_by))
    if isinstance(shape, PointsPrompt):
        local = (np.array(shape.points_px) - (tile.col_off, tile.row_off)) / reduced_by
        is_in = np.all((local >= 0) & (local < np.array([tile.width, tile.height]) / reduced_by), axis=1)
        if not any(label and here for label, here in zip(shape.labels, is_in, strict=True)):
            return None
        kept = np.flatnonzero(is_in)
        obb = shape.obb_px
        if obb is not None:
            a, b, c, d = (_point(corner) for corner in (np.array(obb) - (tile.col_off, tile.row_off)) / reduced_by)
            obb = (a, b, c, d)
        return PointsPrompt(
            points_px=tuple(_point(local[k]) for k in kept),
            labels=tuple(shape.labels[k] for k in kept),
            obb_px=obb,
            size_px=None if shape.size_px is None else shape.size_px / reduced_by,
        )
    return _mask_in_tile(shape, tile, reduced_by)


def _mask_in_tile(shape: MaskPrompt, tile: Window, reduced_by: int) -> MaskPrompt | None:
    (col, row), (rows, cols) = shape.mask.origin_px, shape.mask.size_px
    crop = crop_of_record(shape.mask, row + rows, col + cols, "mask prompt").mask
    top, left = max(row, tile.row_off), max(col, tile.col_off)
    part = crop[top - row : tile.row_off + tile.height - row, left - col : tile.col_off + tile.width - col]
    if top >= tile.row_off + tile.height or left >= tile.col_off + tile.width or not part.any():
        return None
    if reduced_by == 1:
        return MaskPrompt(mask=record_of_mask(part, (left - tile.col_off, top - tile.row_off)))
    height, width = -(-tile.height // reduced_by), -(-tile.width // reduced_by)
    small = np.zeros((height, width), dtype=bool)
    ys, xs = np.nonzero(part)
    small[(ys + top - tile.row_off) // reduced_by, (xs + left - tile.col_off) // reduced_by] = True
    return MaskPrompt(mask=record_of_mask(small))


def _point(values: NDArray[np.float64]) -> Point:
    return (float(values[0]), float(values[1]))
