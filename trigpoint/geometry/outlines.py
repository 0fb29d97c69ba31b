"""Masks to outlines: the exact pixel-edge polygon, and the measuring outline simplified from it.

Image coordinates throughout: x right, y down, pixels, pixel edges at integers. Rasterising a pixel-edge polygon
(`trigpoint.masks.rasterise`) gives its mask back bit for bit.
"""

from typing import Any

import numpy as np
import rasterio.features
import shapely
from numpy.typing import NDArray

from trigpoint.errors import InputError

FloatArray = NDArray[np.float64]

MIN_TOLERANCE_PX = 0.25
"""Below this the simplification is given up and the pixel-edge outline itself measures."""


def polygons_from_labels(labels: NDArray[Any]) -> dict[int, shapely.Geometry]:
    """Trace every value of an index map as one 4-connected pixel-edge polygon.

    Args:
        labels: (height, width) integer array, 0 = nothing.

    Returns:
        Value → Polygon, or MultiPolygon when the value has several 4-connected parts; holes kept; exteriors clockwise on
        screen; sorted by value. Areas are pixel counts.

    >>> {k: v.area for k, v in polygons_from_labels(np.array([[1, 0], [0, 1]], dtype=np.uint16)).items()}
    {1: 2.0}
    """
    parts: dict[int, list[shapely.Geometry]] = {}
    array = np.ascontiguousarray(labels.astype(np.int32, copy=False))
    for shape, value in rasterio.features.shapes(array, mask=array != 0, connectivity=4):
        rings = [np.asarray(ring, dtype=np.float64) for ring in shape["coordinates"]]
        parts.setdefault(int(value), []).append(shapely.Polygon(_drop_collinear(rings[0]), [_drop_collinear(r) for r in rings[1:]]))
    return {
        value: shapely.orient_polygons(pieces[0] if len(pieces) == 1 else shapely.MultiPolygon(_sorted_parts(pieces)))
        for value, pieces in sorted(parts.items())
    }


def polygon_from_mask(mask: NDArray[np.bool_]) -> shapely.Geometry:
    """Trace one mask as a 4-connected pixel-edge polygon.

    Raises:
        InputError: `mask` is not 2-D or has no True pixel.
    """
    if mask.ndim != 2 or not mask.any():
        raise InputError(f"mask of shape {mask.shape} with {int(mask.sum())} true pixels; expected (height, width) with at least one")
    return polygons_from_labels(mask.astype(np.uint8))[1]


def _sorted_parts(parts: list[shapely.Geometry]) -> list[shapely.Geometry]:
    return sorted(parts, key=lambda part: (part.bounds[1], part.bounds[0], part.bounds[3], part.bounds[2]))


def _drop_collinear(ring: FloatArray) -> FloatArray:
    """Remove vertices of a closed rectilinear ring (n, 2) where the direction does not change."""
    points = ring[:-1]
    before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
    turns = before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]
    kept = points[turns]
    return np.vstack([kept, kept[:1]])


def _halves(ring: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split a closed ring at its start vertex (smallest y, then x) and the vertex farthest from it."""
    points = ring[:-1]
    start = int(np.lexsort((points[:, 0], points[:, 1]))[0])
    points = np.roll(points, -start, axis=0)
    far = int(np.argmax(np.sum((points - points[0]) ** 2, axis=1)))
    return points[: far + 1], np.vstack([points[far:], points[:1]])


def _simplified_rings(rings: list[FloatArray], tolerance_px: float) -> list[FloatArray]:
    halves = [half for ring in rings for half in _halves(ring)]
    counts = [len(half) for half in halves]
    lines = shapely.linestrings(np.vstack(halves), indices=np.repeat(np.arange(len(halves)), counts))
    simple = shapely.simplify(lines, tolerance_px, preserve_topology=False)
    points = [shapely.get_coordinates(line) for line in simple]
    return [np.vstack([points[2 * k], points[2 * k + 1][1:]]) for k in range(len(rings))]


def _simplify(polygon: shapely.Geometry, tolerance_px: float) -> shapely.Geometry | None:
    """Simplify every ring; None when a ring collapses or the result is not valid."""
    parts = [[shapely.get_coordinates(ring) for ring in shapely.get_rings(part)] for part in shapely.get_parts(polygon)]
    simple = _simplified_rings([ring for part in parts for ring in part], tolerance_px)
    if any(len(ring) < 4 for ring in simple):
        return None
    pieces: list[shapely.Geometry] = []
    position = 0
    for part in parts:
        rings = simple[position : position + len(part)]
        position += len(part)
        pieces.append(shapely.Polygon(rings[0], rings[1:]))
    made = pieces[0] if len(pieces) == 1 else shapely.MultiPolygon(pieces)
    return made if shapely.is_valid(made) and all(piece.area > 0 for piece in pieces) else None


def measuring_outline(polygon: shapely.Geometry, tolerance_px: float = 1.0) -> shapely.Geometry:
    """Simplify a pixel-edge polygon to within `tolerance_px`, keeping it valid with all holes and parts.

    Perimeters, distances and directions are measured on this: a staircase adds 26 % to a perimeter.

    Source: Douglas and Peucker 1973 by `shapely.simplify` on open half rings. Differs: split points are fixed by geometry, and an
    invalid result halves the tolerance, so that the outline depends on the mask alone.

    >>> outline = measuring_outline(shapely.box(0, 0, 8, 4))
    >>> outline.area, outline.length
    (32.0, 24.0)
    """
    while tolerance_px >= MIN_TOLERANCE_PX:
        made = _simplify(polygon, tolerance_px)
        if made is not None:
            return made
        tolerance_px /= 2
    return polygon
