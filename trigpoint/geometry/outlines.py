"""Masks to outlines: the exact pixel-edge polygon, and the measuring outline simplified from it.

Image coordinates throughout: x right, y down, pixels, pixel edges at integers. Rasterising a pixel-edge polygon
(`trigpoint.masks.rasterise`) gives its mask back bit for bit. All outlines of a scene are made together, in arrays.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from trigpoint.errors import InputError

BoolArray = NDArray[np.bool_]
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
    rings = _simple(_traced(np.pad(labels, 1)))
    if not len(rings.starts):
        return {}
    x, y, starts = rings.points[:, 0], rings.points[:, 1], rings.starts
    after = np.arange(1, len(x) + 1)
    after[np.append(starts[1:], len(x)) - 1] = starts
    area = np.add.reduceat(x * y[after] - x[after] * y, starts)
    part_of_ring = _parts(rings, area > 0)
    # by value, then part from top to bottom, each exterior before its holes
    left, top, right, bottom = (f.reduceat(v, starts) for f, v in ((np.minimum, x), (np.minimum, y), (np.maximum, x), (np.maximum, y)))
    order = np.lexsort((area < 0, *(edge[part_of_ring] for edge in (right, bottom, left, top)), rings.values))
    part = np.cumsum(area[order] > 0) - 1
    polygons: Any = shapely.polygons(_ring_geometries(rings.points, starts, order), indices=part)
    values, value_of_part = np.unique(rings.values[order][area[order] > 0], return_inverse=True)
    return dict(zip(values.tolist(), _multi(polygons, value_of_part), strict=True))


def polygon_from_mask(mask: BoolArray) -> BaseGeometry:
    """Trace one mask as a 4-connected pixel-edge polygon.

    Raises:
        InputError: `mask` is not 2-D or has no True pixel.
    """
    if mask.ndim != 2 or not mask.any():
        raise InputError(f"mask of shape {mask.shape} with {int(mask.sum())} true pixels; expected (height, width) with at least one")
    rows, cols = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    crop = mask[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
    traced = polygons_from_labels(crop.view(np.uint8))[1]
    return shapely.transform(traced, lambda points: points + np.array([cols[0], rows[0]]))


class _Rings(NamedTuple):
    """Closed rectilinear rings, the last vertex not repeated, vertices where the direction changes.

    Attributes:
        points: (n, 2) vertices of all rings, one after the other; the inside is on the right of the way.
        starts: (r,) position of each ring's first vertex.
        values: (r,) value that it encloses.
        inside: (r, 2) row and column of a pixel with that value next to the ring.
    """

    points: IntArray
    starts: IntArray
    values: IntArray
    inside: IntArray


def _traced(padded: NDArray[Any]) -> _Rings:
    """Follow the pixel edges of an index map that has a frame of zeros.

    Edges run clockwise on screen around their pixel: side 0 its top edge to the right, 1 the right edge down, 2 the bottom edge to the
    left, 3 the left edge up. Where an edge ends, the way goes on along the same pixel when the pixel ahead has another value (so that
    pixels that meet at a corner stay apart), else along the pixel ahead, or to the left around the one beside it.
    """
    height, width = padded.shape
    flat = padded.ravel()
    below = np.flatnonzero(flat[:-width] != flat[width:])
    beside = np.flatnonzero(flat[:-1] != flat[1:])
    pixels = [
        below[flat[below + width] != 0] + width,
        beside[flat[beside] != 0],
        below[flat[below] != 0],
        beside[flat[beside + 1] != 0] + 1,
    ]
    ahead_by, out_by = (1, width, -1, -width), (-width, 1, width, -1)

    def place(side: int, pixel: IntArray) -> IntArray:
        """A number that grows by 1 along a straight line of edges of this side."""
        row, column = np.divmod(pixel, width)
        return (pixel, column * height + row, -pixel, -(column * height + row))[side]

    keys: list[IntArray] = []
    runs: list[IntArray] = []
    turns: list[tuple[IntArray, IntArray]] = []
    first: list[IntArray] = []
    n_runs = 0
    for side in range(4):
        key = place(side, pixels[side])
        order = np.argsort(key)
        pixel = pixels[side] = pixels[side][order]
        ahead = pixel + ahead_by[side]
        goes_on = flat[ahead] == flat[pixel]
        goes_left = goes_on & (flat[ahead + out_by[side]] == flat[pixel])
        is_end = goes_left | ~goes_on
        run = np.cumsum(is_end) - is_end + n_runs
        keys.append(key[order])
        runs.append(run)
        first.append(np.flatnonzero(np.diff(run, prepend=-1)))
        turns.append((np.where(goes_left, ahead + out_by[side], pixel)[is_end], np.where(goes_left, 3, 1)[is_end]))
        n_runs += int(np.count_nonzero(is_end))
    following = np.empty(n_runs, dtype=np.int64)
    base = 0
    for side, (target, turn) in enumerate(turns):
        for by in (1, 3):
            chosen, other = np.flatnonzero(turn == by), (side + by) % 4
            following[base + chosen] = runs[other][np.searchsorted(keys[other], place(other, target[chosen]))]
        base += len(target)
    start_pixel = np.concatenate([pixels[side][first[side]] for side in range(4)])
    row, column = np.divmod(start_pixel, width)
    corner = np.repeat(np.arange(4), [len(f) for f in first])
    points = np.column_stack([column - 1 + np.isin(corner, (1, 2)), row - 1 + (corner >= 2)])
    order, starts = _cycles(following)
    values, inside = flat[start_pixel].astype(np.int64), np.column_stack([row, column]) - 1
    return _Rings(points[order], starts, values[order][starts], inside[order][starts])


def _cycles(following: IntArray) -> tuple[IntArray, IntArray]:
    """Order positions by the cycles of a permutation; returns the order and where each cycle starts in it."""
    then = following.tolist()
    seen = bytearray(len(then))
    order: list[int] = []
    starts: list[int] = []
    for k in range(len(then)):
        if not seen[k]:
            starts.append(len(order))
            while not seen[k]:
                seen[k] = 1
                order.append(k)
                k = then[k]
    return np.array(order, dtype=np.int64), np.array(starts, dtype=np.int64)


def _simple(rings: _Rings) -> _Rings:
    """Take rings that come through a vertex twice apart there: a hole that meets the outside, or another hole, at a corner."""
    if not len(rings.starts):
        return rings
    counts = np.diff(np.append(rings.starts, len(rings.points)))
    of_ring = np.repeat(np.arange(len(counts)), counts)
    size = int(rings.points.max()) + 1
    key = (of_ring * size + rings.points[:, 0]) * size + rings.points[:, 1]
    unique, first_at, times = np.unique(key, return_index=True, return_counts=True)
    if len(unique) == len(key):
        return rings
    torn = set(of_ring[first_at[times > 1]].tolist())
    pieces: list[IntArray] = []
    owner: list[int] = []
    for k, ring in enumerate(np.split(rings.points, rings.starts[1:])):
        loops = _loops(ring.tolist()) if k in torn else [ring]
        pieces += [np.array(loop) for loop in loops]
        owner += [k] * len(loops)
    starts = np.cumsum([0, *(len(piece) for piece in pieces[:-1])])
    return _Rings(np.concatenate(pieces), starts, rings.values[owner], rings.inside[owner])


def _loops(ring: list[list[int]]) -> list[list[list[int]]]:
    """Cut a closed way at every vertex that it meets again."""
    loops: list[list[list[int]]] = []
    way: list[list[int]] = []
    at: dict[tuple[int, int], int] = {}
    for x, y in ring:
        if (x, y) in at:
            back = at[x, y]
            loops.append(way[back:])
            for px, py in way[back:]:
                del at[px, py]
            del way[back:]
        at[x, y] = len(way)
        way.append([x, y])
    return [*loops, way]


def _parts(rings: _Rings, is_exterior: BoolArray) -> IntArray:
    """The exterior ring that each ring belongs to, (r,): of a hole the smallest of its value around it."""
    exteriors = np.flatnonzero(is_exterior)
    part = np.arange(len(is_exterior))
    values, n_parts = np.unique(rings.values[exteriors], return_counts=True)
    only = np.empty(int(values.max()) + 1, dtype=np.int64)
    only[rings.values[exteriors]] = exteriors
    part[~is_exterior] = only[rings.values[~is_exterior]]
    several = values[n_parts > 1]
    for hole in np.flatnonzero(~is_exterior & np.isin(rings.values, several)):
        own = exteriors[rings.values[exteriors] == rings.values[hole]]
        filled = shapely.polygons(_ring_geometries(rings.points, rings.starts, own))
        row, column = rings.inside[hole] + 0.5
        area = np.where(shapely.contains_xy(filled, column, row), shapely.area(filled), np.inf)
        part[hole] = own[np.argmin(area)]
    return part


def _ring_geometries(points: IntArray, starts: IntArray, order: IntArray) -> Any:
    """Make shapely rings of the rings in `order`, (len(order),)."""
    counts = np.diff(np.append(starts, len(points)))[order]
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
    vertices = points[np.repeat(starts[order], counts) + within].astype(np.float64)
    return shapely.linearrings(vertices, indices=np.repeat(np.arange(len(order)), counts))


def _multi(polygons: NDArray[np.object_], owner: IntArray) -> NDArray[np.object_]:
    """One geometry per owner (sorted, from 0): its polygon, or a multipolygon of several."""
    made = polygons[np.flatnonzero(np.diff(owner, prepend=-1))]
    several = np.flatnonzero(np.bincount(owner) > 1)
    if len(several):
        chosen = np.isin(owner, several)
        made[several] = shapely.multipolygons(polygons[chosen], indices=np.searchsorted(several, owner[chosen]))
    return made


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
    x, y = points.T.copy()
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
        start, end = first[span], last[span]
        chord_x, chord_y = x[end] - x[start], y[end] - y[start]
        from_x, from_y = x[vertex] - x[start], y[vertex] - y[start]
        length2 = chord_x**2 + chord_y**2
        along = from_x * chord_x + from_y * chord_y
        cross = from_x * chord_y - from_y * chord_x
        beyond = np.where(along <= 0, from_x**2 + from_y**2, (x[vertex] - x[end]) ** 2 + (y[vertex] - y[end]) ** 2)
        scale = np.maximum(length2, 1)  # a chord without length: distances to its one point
        measure = np.where((along > 0) & (along < length2), cross**2, beyond * scale)
        worst = np.maximum.reduceat(measure, starts)
        is_far = worst > scale[starts] * tolerance_px**2
        split = np.minimum.reduceat(np.where(measure == worst[span], vertex, len(points)), starts)[is_far]
        kept[split] = True
        first, last = np.concatenate([first[is_far], split]), np.concatenate([split, last[is_far]])


def _simplified_rings(points: IntArray, counts: IntArray, tolerance_px: float) -> tuple[IntArray, IntArray]:
    """Simplify closed rings, each split at its start vertex (smallest y, then x) and the first vertex farthest from it.

    Args:
        points: (n, 2) vertices of all rings, one after the other, the last not repeated.
        counts: (r,) vertices of each.
        tolerance_px: A power of two.

    Returns:
        Vertices of the simplified rings from their start vertex on, which is repeated at the end, and their counts, (r,).
    """
    offset = np.cumsum(counts) - counts
    of_ring = np.repeat(np.arange(len(counts)), counts)
    position = np.arange(len(points)) - offset[of_ring]
    x, y = points.T

    def first_of(values: IntArray, extreme: np.ufunc) -> IntArray:
        """Position of the first of the extreme values of each ring."""
        best = extreme.reduceat(values, offset)
        return np.minimum.reduceat(np.where(values == best[of_ring], position, len(points)), offset)

    start = first_of(y * (int(x.max()) + 1) + x, np.minimum)
    turned = offset[of_ring] + (start[of_ring] + position) % counts[of_ring]
    origin = (offset + start)[of_ring]
    far = first_of((x[turned] - x[origin]) ** 2 + (y[turned] - y[origin]) ** 2, np.maximum)

    # both halves of every ring, one after the other: the farthest vertex stands twice, and the first again at the end
    of_ring = np.repeat(np.arange(len(counts)), counts + 2)
    begin = np.cumsum(counts + 2) - counts - 2
    position = np.arange(len(of_ring)) - begin[of_ring]
    is_again = position == far[of_ring] + 1
    step = position - (position > far[of_ring])
    chains = points[offset[of_ring] + (start[of_ring] + step) % counts[of_ring]]
    first, last = np.column_stack([begin, begin + far + 1]).ravel(), np.column_stack([begin + far, begin + counts + 1]).ravel()
    kept = _kept_vertices(chains, first, last, tolerance_px) & ~is_again
    return chains[kept], np.add.reduceat(kept.astype(np.int64), begin)


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
    left = np.arange(len(made))
    while len(left) and tolerance_px >= MIN_TOLERANCE_PX:
        simplified = _simplified_polygons(made[left], tolerance_px)
        is_made = simplified != None  # noqa: E711 - elementwise
        made[left[is_made]] = simplified[is_made]
        left = left[~is_made]
        tolerance_px /= 2
    return made


def _simplified_polygons(polygons: NDArray[np.object_], tolerance_px: float) -> NDArray[np.object_]:
    """Simplify polygons (n,); None where a ring collapsed, a part lost its area or the result is not valid."""
    parts, polygon_of_part = shapely.get_parts(polygons, return_index=True)
    rings, part_of_ring = shapely.get_rings(parts, return_index=True)
    points, ring_of_point = shapely.get_coordinates(rings, return_index=True)
    is_repeated = np.diff(ring_of_point, append=len(rings)) > 0
    counts = np.bincount(ring_of_point, minlength=len(rings)) - 1
    points, counts = _simplified_rings(points[~is_repeated].astype(np.int64), counts, tolerance_px)

    made = np.full(len(polygons), None, dtype=object)
    polygon_of_ring = polygon_of_part[part_of_ring]
    whole = np.bincount(polygon_of_ring[counts < 4], minlength=len(polygons)) == 0
    keep = whole[polygon_of_ring]
    if not keep.any():
        return made
    of_point = np.repeat(np.cumsum(keep) - 1, counts)[np.repeat(keep, counts)]
    new_rings: Any = shapely.linearrings(points[np.repeat(keep, counts)].astype(np.float64), indices=of_point)
    kept_parts = np.flatnonzero(whole[polygon_of_part])
    new_parts: Any = shapely.polygons(new_rings, indices=np.searchsorted(kept_parts, part_of_ring[keep]))
    chosen, owner = np.unique(polygon_of_part[kept_parts], return_inverse=True)
    outlines = _multi(new_parts, owner)
    is_good = shapely.is_valid(outlines) & (np.bincount(owner, weights=shapely.area(new_parts) <= 0) == 0)
    made[chosen[is_good]] = outlines[is_good]
    return made


def measuring_outline(polygon: BaseGeometry, tolerance_px: float = 1.0) -> BaseGeometry:
    """Simplify one pixel-edge polygon; see `measuring_outlines`.

    >>> outline = measuring_outline(shapely.box(0, 0, 8, 4))
    >>> outline.area, outline.length
    (32.0, 24.0)
    """
    return measuring_outlines([polygon], tolerance_px)[0]
