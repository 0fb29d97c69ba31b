"""The auditor's own outlines: pixel-edge rings of masks and the measuring outline made of them.

Everything here is in image coordinates (pixels, x right, y down). Written from docs/release-format.md ("Measuring outline"), not
from the code that builds releases. Not here: any measuring; frames (`georeferencing.py`) turn outlines into metres.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import rasterio.features
import shapely
from numpy.typing import NDArray

Ring = NDArray[np.float64]
"""(n, 2) vertices x, y without the closing repeat."""

Part = list[Ring]
"""One polygon: the exterior, then its holes."""

LARGEST_INT64_SPAN_PX = 1 << 15
"""Up to this span squared distances times squared lengths fit into 64 bits."""

SMALLEST_TOLERANCE_PX = 1 / 64
"""Below this the halved tolerance counts as 0: the pixel-edge ring itself."""


def pixel_edge_parts(labels: NDArray[Any]) -> dict[int, list[Part]]:
    """Trace the 4-connected pixel-edge polygons of every non-zero value of a label image.

    Args:
        labels: (height, width) unsigned integers of at most 16 bits; 0 is nothing.

    Returns:
        Value → its polygons. Rings are free of collinear vertices, exteriors clockwise on screen, holes the other way, each
        starting at its vertex of smallest y, then smallest x.
    """
    parts: dict[int, list[Part]] = defaultdict(list)
    for geometry, value in rasterio.features.shapes(labels, mask=labels > 0, connectivity=4):
        rings = [np.asarray(ring, dtype=np.float64) for ring in geometry["coordinates"]]
        parts[int(value)].append([normalise_ring(ring, clockwise=number == 0) for number, ring in enumerate(rings)])
    return dict(parts)


def normalise_ring(ring: Ring, *, clockwise: bool) -> Ring:
    """Drop the closing and collinear vertices, turn the ring the asked way round, and start it at smallest y, then smallest x.

    >>> normalise_ring(np.array([[2, 2], [2, 1], [1, 1], [1, 1.5], [1, 2], [2, 2.0]]), clockwise=True).tolist()
    [[1.0, 1.0], [2.0, 1.0], [2.0, 2.0], [1.0, 2.0]]
    """
    if len(ring) > 1 and np.array_equal(ring[0], ring[-1]):
        ring = ring[:-1]
    before, after = ring - np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0) - ring
    ring = ring[before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0] != 0]
    if (signed_area(ring) > 0) != clockwise:
        ring = ring[::-1]
    start = int(np.lexsort((ring[:, 0], ring[:, 1]))[0])
    return np.roll(ring, -start, axis=0)


def signed_area(ring: Ring) -> float:
    """Return the shoelace area in square pixels: positive when clockwise on screen (y points down)."""
    x, y = ring[:, 0], ring[:, 1]
    return float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y) / 2)


def simplify_chain(chain: Ring, tolerance_px: float) -> Ring:
    """Simplify an open chain by Douglas–Peucker, keeping a vertex when its distance to the chord segment exceeds the tolerance.

    Staircases along a chord hold many vertices at exactly the same distance, so distances are compared exactly: vertices are
    integers, and squared distance times squared chord length is an integer too.

    Source: Douglas and Peucker (1973). Differs: distance to the segment, not to the line; of equal distances the first counts.

    >>> simplify_chain(np.array([[0, 0], [2, 1], [4, 0], [4, 5.0]]), 1.0).tolist()
    [[0.0, 0.0], [4.0, 0.0], [4.0, 5.0]]
    """
    exact = np.rint(chain).astype(np.int64)
    if int(np.ptp(exact, axis=0).max(initial=0)) >= LARGEST_INT64_SPAN_PX:
        exact = exact.astype(object)  # Python's integers: slow, never wrong
    keep = np.zeros(len(chain), dtype=bool)
    keep[[0, -1]] = True
    open_spans = [(0, len(chain) - 1)]
    while open_spans:
        first, last = open_spans.pop()
        if last - first < 2:
            continue
        scaled, squared = _scaled_distances(exact[first : last + 1])
        worst = int(np.argmax(scaled))
        if float(scaled[worst]) > tolerance_px**2 * squared:
            middle = first + 1 + worst
            keep[middle] = True
            open_spans += [(first, middle), (middle, last)]
    return chain[keep]


def _scaled_distances(chain: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Return the squared distances of the inner vertices to the chord segment times a factor, and the factor (both exact integers).

    The factor is the squared chord length; 1 for a chord of no length.
    """
    chord, offset = chain[-1] - chain[0], chain[1:-1] - chain[0]
    squared = int(chord[0]) ** 2 + int(chord[1]) ** 2
    to_start = offset[:, 0] ** 2 + offset[:, 1] ** 2
    if squared == 0:
        return to_start, 1
    along = offset[:, 0] * chord[0] + offset[:, 1] * chord[1]
    cross = offset[:, 0] * chord[1] - offset[:, 1] * chord[0]
    to_end = to_start - 2 * along + squared
    return np.where(along <= 0, to_start * squared, np.where(along >= squared, to_end * squared, cross**2)), squared


def simplify_ring(ring: Ring, tolerance_px: float) -> Ring:
    """Simplify a normalised ring: split at its start and at the vertex farthest from it (the first of equals), each half alone."""
    away = ring - ring[0]
    far = int(np.argmax(away[:, 0] ** 2 + away[:, 1] ** 2))
    first = simplify_chain(ring[: far + 1], tolerance_px)
    second = simplify_chain(np.vstack([ring[far:], ring[:1]]), tolerance_px)
    return np.vstack([first[:-1], second[:-1]])


def polygon_of(parts: list[Part]) -> Any:
    """Make a shapely Polygon (one part) or MultiPolygon of rings."""
    polygons = [shapely.Polygon(part[0], part[1:]) for part in parts]
    return polygons[0] if len(polygons) == 1 else shapely.MultiPolygon(polygons)


def measuring_outline(parts: list[Part], tolerance_px: float = 1.0) -> Any:
    """Make the measuring outline of a mask: simplified rings, the tolerance halved until the polygon is valid and no ring is lost.

    Args:
        parts: From `pixel_edge_parts`.
        tolerance_px: The tolerance to start with (`rules.outline.tolerance_px`).

    Returns:
        A valid shapely Polygon or MultiPolygon in image coordinates.
    """
    tolerance = tolerance_px
    while tolerance >= SMALLEST_TOLERANCE_PX:
        simplified = [[simplify_ring(ring, tolerance) for ring in part] for part in parts]
        if all(len(ring) >= 3 and signed_area(ring) != 0 for part in simplified for ring in part):
            polygon = polygon_of(simplified)
            if shapely.is_valid(polygon):
                return polygon
        tolerance /= 2
    return polygon_of(parts)
