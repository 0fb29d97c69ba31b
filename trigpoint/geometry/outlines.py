"""Masks to outlines: the exact pixel-edge polygon, and the measuring outline simplified from it.

Image coordinates throughout: x right, y down, pixels, pixel edges at integers. Rasterising a pixel-edge polygon
(`trigpoint.masks.rasterise`) gives its mask back bit for bit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import rasterio.features
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from trigpoint.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MIN_TOLERANCE_PX = 0.25
"""Below this the simplification is given up and the pixel-edge outline itself measures."""


def polygons_from_labels(labels: NDArray[Any]) -> dict[int, BaseGeometry]:
    """Trace every value of an index map as one 4-connected pixel-edge polygon.

    Args:
        labels: (height, width) integer array, 0 = nothing.

    Returns:
        Value → Polygon, or MultiPolygon when the value has several 4-connected parts; holes kept; exteriors clockwise on
        screen; sorted by value. Areas are pixel counts.

    >>> {k: v.area for k, v in polygons_from_labels(np.array([[1, 0], [0, 1]], dtype=np.uint16)).items()}
    {1: 2.0}
    """
    parts: dict[int, list[Any]] = {}
    array = np.ascontiguousarray(labels.astype(np.int32, copy=False))
    for shape, value in rasterio.features.shapes(array, mask=array != 0, connectivity=4):
        rings = [np.asarray(ring, dtype=np.float64) for ring in shape["coordinates"]]
        parts.setdefault(int(value), []).append(shapely.Polygon(_drop_collinear(rings[0]), [_drop_collinear(r) for r in rings[1:]]))
    return {
        value: shapely.orient_polygons(pieces[0] if len(pieces) == 1 else shapely.MultiPolygon(_sorted_parts(pieces)))
        for value, pieces in sorted(parts.items())
    }


def polygon_from_mask(mask: NDArray[np.bool_]) -> BaseGeometry:
    """Trace one mask as a 4-connected pixel-edge polygon.

    Raises:
        InputError: `mask` is not 2-D or has no True pixel.
    """
    if mask.ndim != 2 or not mask.any():
        raise InputError(f"mask of shape {mask.shape} with {int(mask.sum())} true pixels; expected (height, width) with at least one")
    rows, cols = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    crop = mask[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
    traced = polygons_from_labels(crop.astype(np.uint8))[1]
    return shapely.transform(traced, lambda points: points + (cols[0], rows[0]))


def _sorted_parts(parts: list[Any]) -> list[Any]:
    return sorted(parts, key=lambda part: (part.bounds[1], part.bounds[0], part.bounds[3], part.bounds[2]))


def _drop_collinear(ring: FloatArray) -> FloatArray:
    """Remove vertices of a closed rectilinear ring (n, 2) where the direction does not change."""
    points = ring[:-1]
    before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
    turns = before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]
    kept = points[turns]
    return np.vstack([kept, kept[:1]])


def _halves(ring: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split a closed ring at its start vertex (smallest y, then x) and the first vertex farthest from it."""
    points = ring[:-1]
    start = int(np.lexsort((points[:, 0], points[:, 1]))[0])
    points = np.roll(points, -start, axis=0)
    far = int(np.argmax(np.sum((points - points[0]) ** 2, axis=1)))
    return points[: far + 1], np.vstack([points[far:], points[:1]])


def _kept_vertices(points: IntArray, first: IntArray, last: IntArray, tolerance_px: float) -> NDArray[np.bool_]:
    """Douglas–Peucker on many open chains at once, in whole numbers, so that no verdict hangs on rounding.

    Squared distances to a chord of squared length L are compared after multiplication by L: cross² beside the chord, d²·L beyond its ends.

    Args:
        points: (n, 2) integer vertices of all chains, one after the other.
        first: (c,) position of each chain's first vertex.
        last: (c,) position of its last.
        tolerance_px: A power of two. A vertex farther from the chord than this is kept, the first of equals.

    Returns:
        (n,) bool.
    """
    kept = np.zeros(len(points), dtype=bool)
    kept[first] = kept[last] = True
    while True:
        inner = last - first - 1
        first, last, inner = first[inner > 0], last[inner > 0], inner[inner > 0]
        if not len(first):
            return kept
        span = np.repeat(np.arange(len(first)), inner)
        starts = np.concatenate([[0], np.cumsum(inner)[:-1]])
        vertex = np.arange(len(span)) - starts[span] + first[span] + 1
        chord = (points[last] - points[first])[span]
        to_first, to_last = points[vertex] - points[first[span]], points[vertex] - points[last[span]]
        length2 = np.sum(chord**2, axis=1)
        along = np.sum(to_first * chord, axis=1)
        cross = to_first[:, 0] * chord[:, 1] - to_first[:, 1] * chord[:, 0]
        beyond = np.where(along <= 0, np.sum(to_first**2, axis=1), np.sum(to_last**2, axis=1))
        scale = np.maximum(length2, 1)  # a chord without length: distances to its one point
        measure = np.where((along > 0) & (along < length2), cross**2, beyond * scale)
        worst = np.maximum.reduceat(measure, starts)
        is_far = worst > scale[starts] * tolerance_px**2
        split = np.minimum.reduceat(np.where(measure == worst[span], vertex, len(points)), starts)[is_far]
        kept[split] = True
        first, last = np.concatenate([first[is_far], split]), np.concatenate([split, last[is_far]])


def _simplified_rings(rings: list[FloatArray], tolerance_px: float) -> list[FloatArray]:
    halves = [half for ring in rings for half in _halves(ring)]
    points = np.vstack(halves).astype(np.int64)
    counts = np.array([len(half) for half in halves])
    last = np.cumsum(counts) - 1
    kept = _kept_vertices(points, last - counts + 1, last, tolerance_px)
    simple = [half[part] for half, part in zip(halves, np.split(kept, last[:-1] + 1), strict=True)]
    return [np.vstack([simple[2 * k], simple[2 * k + 1][1:]]) for k in range(len(rings))]


def _rings_of(polygon: BaseGeometry) -> list[list[FloatArray]]:
    """Rings of every part, exterior first, closed, (n, 2)."""
    return [[shapely.get_coordinates(ring) for ring in shapely.get_rings(part)] for part in shapely.get_parts(polygon)]


def _polygon_of(parts: list[list[FloatArray]], rings: list[FloatArray]) -> BaseGeometry | None:
    """Make a polygon of simplified rings, laid out as `parts`; None when a ring collapsed or the result is not valid."""
    if any(len(ring) < 4 for ring in rings):
        return None
    pieces: list[Any] = []
    position = 0
    for part in parts:
        pieces.append(shapely.Polygon(rings[position], rings[position + 1 : position + len(part)]))
        position += len(part)
    made = pieces[0] if len(pieces) == 1 else shapely.MultiPolygon(pieces)
    return made if shapely.is_valid(made) and all(piece.area > 0 for piece in pieces) else None


def measuring_outlines(polygons: Sequence[BaseGeometry] | NDArray[np.object_], tolerance_px: float = 1.0) -> NDArray[np.object_]:
    """Simplify pixel-edge polygons to within `tolerance_px`, keeping each valid with all holes and parts.

    Perimeters, distances and directions are measured on these: a staircase adds 26 % to a perimeter.

    Args:
        polygons: (n,) pixel-edge polygons with whole coordinates.
        tolerance_px: A power of two. An outline that is not valid is made again with half of it, down to a quarter of a pixel; after
            that it is the pixel-edge outline itself.

    Returns:
        (n,) polygons in image coordinates.

    Source: Douglas and Peucker 1973. Differs: rings are split at points fixed by their geometry and distances are compared in whole
    numbers, so that the outline depends on the mask alone and anyone can make the same.
    """
    made = np.empty(len(polygons), dtype=object)
    made[:] = polygons
    left = list(range(len(polygons)))
    while left and tolerance_px >= MIN_TOLERANCE_PX:
        parts = [_rings_of(polygons[k]) for k in left]
        counts = [sum(len(part) for part in one) for one in parts]
        rings = _simplified_rings([ring for one in parts for part in one for ring in part], tolerance_px)
        ends = np.cumsum(counts)
        results = [_polygon_of(one, rings[end - n : end]) for one, n, end in zip(parts, counts, ends, strict=True)]
        for k, result in zip(left, results, strict=True):
            if result is not None:
                made[k] = result
        left = [k for k, result in zip(left, results, strict=True) if result is None]
        tolerance_px /= 2
    return made


def measuring_outline(polygon: BaseGeometry, tolerance_px: float = 1.0) -> BaseGeometry:
    """Simplify one pixel-edge polygon; see `measuring_outlines`.

    >>> outline = measuring_outline(shapely.box(0, 0, 8, 4))
    >>> outline.area, outline.length
    (32.0, 24.0)
    """
    return measuring_outlines([polygon], tolerance_px)[0]
