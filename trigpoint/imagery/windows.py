"""Windows of a raster: from ground to pixels and back.

Image coordinates are pixel edges: the pixel in column 3, row 5 covers x from 3 to 4 and y from 5 to 6; y goes down.
Not here: affine arithmetic and metric frames (`trigpoint.geometry.frames`), reading a window (`storage.rasters`).
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trigpoint.errors import RasterError
from trigpoint.geometry.frames import apply_affine, invert_affine
from trigpoint.records.scene import Transform, Window

SNAP_PX = 0.01
"""An edge this close to the pixel grid is on it, pixels: coordinates rounded to 6 decimals still hit their pixel."""

Bounds = tuple[float, float, float, float]
"""(left, bottom, right, top) in a CRS."""


def transform_of_window(transform: Transform, window: Window) -> Transform:
    """Return the transform of a window of a raster; the window may begin outside of it.

    >>> transform_of_window((0.5, 0.0, 500000.0, 0.0, -0.5, 5500000.0), Window(col_off=152, row_off=22, width=256, height=256))
    (0.5, 0.0, 500076.0, 0.0, -0.5, 5499989.0)
    """
    a, b, _, d, e, _ = transform
    x, y = apply_affine(transform, np.array([[window.col_off, window.row_off]], dtype=float))[0].tolist()
    return (a, b, x, d, e, y)


def bounds_of_grid(transform: Transform, width: int, height: int) -> Bounds:
    """Return the CRS bounds of a grid from all four of its corners, so that rotated grids are covered whole.

    >>> bounds_of_grid((0.0, 2.0, 100.0, 1.0, 0.0, 200.0), 10, 20)
    (100.0, 200.0, 140.0, 210.0)
    """
    corners = apply_affine(transform, np.array([(col, row) for col in (0, width) for row in (0, height)], dtype=float))
    (left, bottom), (right, top) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
    return (left, bottom, right, top)


def window_of_bounds(transform: Transform, bounds: Bounds, snap_px: float = SNAP_PX) -> Window:
    """Return the smallest window that covers CRS bounds.

    Edges within `snap_px` of the grid are taken to be on it, others go outwards. The window may reach over the raster.

    Raises:
        RasterError: the bounds are not left < right, bottom < top, finite.
        InputError: the transform is singular.
    """
    left, bottom, right, top = bounds
    if not (all(math.isfinite(v) for v in bounds) and left < right and bottom < top):
        raise RasterError(f"bounds {bounds} cover nothing, expected (left, bottom, right, top) with left < right and bottom < top")
    corners = apply_affine(invert_affine(transform), np.array([(x, y) for x in (left, right) for y in (bottom, top)]))
    return window_of_points(corners, snap_px)


def window_around_pixel(col: int, row: int, width: int, height: int) -> Window:
    """Return the window of a size in which the pixel lies at (width // 2, height // 2); it may reach over the raster.

    >>> window_around_pixel(280, 150, 256, 256).as_tuple()
    (152, 22, 256, 256)
    """
    return Window(col_off=col - width // 2, row_off=row - height // 2, width=width, height=height)


def window_of_points(points: NDArray[np.float64], snap_px: float = SNAP_PX) -> Window:
    """Return the smallest window that covers image points (n, 2); edges within `snap_px` of the grid are on it.

    >>> window_of_points(np.array([[1.999, 3.2], [8.003, 9.0]])).as_tuple()
    (2, 3, 6, 6)
    """
    col_off, row_off = (_snap(edge, snap_px, math.floor) for edge in points.min(axis=0).tolist())
    col_end, row_end = (_snap(edge, snap_px, math.ceil) for edge in points.max(axis=0).tolist())
    return Window(col_off=col_off, row_off=row_off, width=max(col_end - col_off, 1), height=max(row_end - row_off, 1))


def clip_window(window: Window, width: int, height: int) -> Window | None:
    """Return the part of a window inside a raster of a size, or None when it lies outside."""
    left, top = max(window.col_off, 0), max(window.row_off, 0)
    right, bottom = min(window.col_off + window.width, width), min(window.row_off + window.height, height)
    if left >= right or top >= bottom:
        return None
    return Window(col_off=left, row_off=top, width=right - left, height=bottom - top)


def _snap(value: float, snap_px: float, outwards: Callable[[float], int]) -> int:
    nearest = round(value)
    return nearest if abs(value - nearest) <= snap_px else outwards(value)
