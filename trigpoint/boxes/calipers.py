"""Minimum-area rectangles by rotating calipers on convex hulls, exact at map coordinates, many at a time.

One side of a minimum-area enclosing rectangle lies on an edge of the convex hull, so the calipers stop at every hull
edge. Hulls with the same number of vertices are measured together in numpy.
"""

from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from trigpoint.errors import InputError

FloatArray = NDArray[np.float64]

TIE_RELATIVE = 1e-9
"""Areas within this of the smallest are equal; then the long side closest to the x-axis wins, then the smaller angle."""


class Rectangle(NamedTuple):
    """A minimum-area rectangle.

    Attributes:
        corners: (4, 2); in image coordinates clockwise as seen on screen, first the corner of smallest y, then smallest x.
        length: Long side. width: Short side.
        long_angle_deg: Angle of the long side from the x-axis towards the y-axis, [0, 180).
    """

    corners: FloatArray
    length: float
    width: float
    long_angle_deg: float


class Rectangles(NamedTuple):
    """Minimum-area rectangles of n shapes: `corners` (n, 4, 2), `length`, `width`, `long_angle_deg` (n,)."""

    corners: FloatArray
    length: FloatArray
    width: FloatArray
    long_angle_deg: FloatArray


def min_area_rectangles(geometries: NDArray[Any]) -> Rectangles:
    """Fit the minimum-area rectangle to every geometry of an array.

    Args:
        geometries: (n,) shapely geometries, not empty, in any one planar frame (image pixels, metres).

    Returns:
        Rectangles in the same frame; of collinear points a rectangle of width 0.

    Raises:
        InputError: a geometry is empty or has a coordinate that is not finite.

    Source: Toussaint 1983 (rotating calipers); Freeman and Shapira 1975 (one side lies on a hull edge). Differs: every hull edge is
    measured in one array operation instead of advancing four pointers, since hulls are short and arrays fast; ties as in
    docs/release-format.md.

    >>> import shapely
    >>> made = min_area_rectangles(np.array([shapely.box(2, 1, 6, 3)]))
    >>> made.corners[0].tolist(), float(made.length[0]), float(made.long_angle_deg[0])
    ([[2.0, 1.0], [6.0, 1.0], [6.0, 3.0], [2.0, 3.0]], 4.0, 0.0)
    """
    hulls = shapely.convex_hull(geometries)
    points, index = shapely.get_coordinates(hulls, return_index=True)
    counts = np.bincount(index, minlength=len(geometries))
    if len(geometries) and (counts.min() == 0 or not np.all(np.isfinite(points))):
        bad = int(np.argmin(counts)) if counts.min() == 0 else int(index[~np.all(np.isfinite(points), axis=1)][0])
        raise InputError(f"geometry {bad} is empty or not finite; expected at least one finite point")
    starts = np.concatenate([[0], np.cumsum(counts)])
    n = len(geometries)
    out = Rectangles(np.empty((n, 4, 2)), np.empty(n), np.empty(n), np.empty(n))
    for count in np.unique(counts):
        members = np.flatnonzero(counts == count)
        # polygons repeat their first point; points and lines do not
        rings = points[starts[members][:, None] + np.arange(count)]
        if count >= 4:
            rings = rings[:, :-1]
        made = _rectangles_of_rings(rings)
        for target, value in zip(out, made, strict=True):
            target[members] = value
    return out


def _rectangles_of_rings(rings: FloatArray) -> Rectangles:
    """Rectangles of hulls (m, h, 2) that have the same number of vertices."""
    m = len(rings)
    origin = rings[:, :1]
    local = rings - origin
    edges = np.roll(local, -1, axis=1) - local
    norms = np.hypot(edges[..., 0], edges[..., 1])
    degenerate = norms == 0
    axis_u = np.where(degenerate[..., None], (1.0, 0.0), edges / np.where(degenerate, 1.0, norms)[..., None])
    axis_v = np.stack([-axis_u[..., 1], axis_u[..., 0]], axis=-1)
    along_u, along_v = axis_u @ local.transpose(0, 2, 1), axis_v @ local.transpose(0, 2, 1)
    u0, u1, v0, v1 = along_u.min(2), along_u.max(2), along_v.min(2), along_v.max(2)
    side_u, side_v = u1 - u0, v1 - v0
    areas = side_u * side_v
    smallest = areas.min(axis=1, keepdims=True)
    tied = areas <= smallest * (1 + TIE_RELATIVE)
    tied &= ~degenerate | np.all(degenerate, axis=1, keepdims=True)

    angle_u = np.degrees(np.arctan2(axis_u[..., 1], axis_u[..., 0])) % 180.0
    angle_u[angle_u >= 180.0] = 0.0
    is_u_long = side_u >= side_v
    long_angle = np.where(is_u_long, angle_u, (angle_u + 90.0) % 180.0)
    # of a square either side may be called long: the one closer to the x-axis
    is_square = np.abs(side_u - side_v) <= TIE_RELATIVE * np.maximum(side_u, side_v)
    other = (long_angle + 90.0) % 180.0
    nearer = np.minimum(other, 180.0 - other) < np.minimum(long_angle, 180.0 - long_angle)
    long_angle = np.where(is_square & nearer, other, long_angle)
    tilt = np.minimum(long_angle, 180.0 - long_angle)

    rank = np.where(tied, np.round(tilt, 9), np.inf)
    tied &= rank == rank.min(axis=1, keepdims=True)
    best = np.argmin(np.where(tied, long_angle, np.inf), axis=1)
    row = np.arange(m)
    u, v = axis_u[row, best], axis_v[row, best]
    u0, u1, v0, v1 = u0[row, best], u1[row, best], v0[row, best], v1[row, best]
    corners = np.stack([a[:, None] * u + b[:, None] * v for a, b in ((u0, v0), (u1, v0), (u1, v1), (u0, v1))], axis=1)
    corners = _from_first_corner(corners) + origin
    sides = np.stack([u1 - u0, v1 - v0])
    return Rectangles(corners, sides.max(axis=0), sides.min(axis=0), long_angle[row, best])


def _from_first_corner(corners: FloatArray) -> FloatArray:
    """Roll corners (m, 4, 2) so that the one of smallest y, then smallest x comes first."""
    size = np.abs(corners).max(axis=(1, 2), keepdims=True)[..., 0] + 1e-300
    y_rank = np.round((corners[..., 1] - corners[..., 1].min(axis=1, keepdims=True)) / size, 9)
    x_rank = np.round((corners[..., 0] - corners[..., 0].min(axis=1, keepdims=True)) / size, 9)
    first = np.argmin(y_rank * 1e10 + x_rank, axis=1)  # ranks come in steps of 1e-9, so y decides
    return np.take_along_axis(corners, ((first[:, None] + np.arange(4)) % 4)[..., None], axis=1)


def min_area_rectangle(geometry: BaseGeometry) -> Rectangle:
    """Fit the minimum-area rectangle to one geometry; see `min_area_rectangles`."""
    made = min_area_rectangles(np.array([geometry], dtype=object))
    return Rectangle(made.corners[0], float(made.length[0]), float(made.width[0]), float(made.long_angle_deg[0]))


def hbb_from_polygon(polygon: BaseGeometry) -> tuple[float, float, float, float]:
    """Return the pixel-edge envelope (x_min, y_min, x_max, y_max) of a pixel-edge polygon.

    >>> hbb_from_polygon(shapely.box(3, 5, 4, 6))
    (3.0, 5.0, 4.0, 6.0)
    """
    return tuple(polygon.bounds)  # type: ignore[return-value]
