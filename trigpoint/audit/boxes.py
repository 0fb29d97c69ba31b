"""The auditor's own boxes: envelopes, rotating calipers on the hull, and the metric rectangle; instances held against them.

Not here: masks themselves (`ownership.py`) and outlines (`outline.py`).
"""

import math
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.audit.findings import Notebook
from trigpoint.audit.georeferencing import Frame
from trigpoint.audit.reading import Instance

FILE = "instances.parquet"
EQUAL_AREAS = 1e-9
"""Rectangles whose areas differ relatively by less than this count as equal (semantics, section 3)."""

CORNER_SLACK_PX = 1e-6
"""Rounding allowed in a stored corner."""

BAND_PX = 2.0
"""The auditor objects to measured values that are off by more than this (semantics, section 7)."""


class Rectangle(NamedTuple):
    """A rectangle around a hull: corners (4, 2), the lengths of both sides and the angle of the long one in [0, 180)."""

    corners: NDArray[np.float64]
    long: float
    short: float
    angle_deg: float


def hull_of(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the convex hull's vertices (n, 2), without the closing repeat."""
    hull = shapely.convex_hull(shapely.multipoints(points))
    return shapely.get_coordinates(hull)[:-1] if isinstance(hull, shapely.Polygon) else shapely.get_coordinates(hull)


def rectangle_along(hull: NDArray[np.float64], direction: NDArray[np.float64]) -> Rectangle:
    """Return the enclosing rectangle of a hull with one side along `direction` (any length)."""
    normal = np.array([-direction[1], direction[0]])
    squared = float(direction @ direction)
    along, across = hull @ direction, hull @ normal
    a0, a1, b0, b1 = along.min(), along.max(), across.min(), across.max()
    corners = np.array([a * direction + b * normal for a, b in ((a0, b0), (a1, b0), (a1, b1), (a0, b1))]) / squared
    sides = (a1 - a0) / math.sqrt(squared), (b1 - b0) / math.sqrt(squared)
    angle = math.degrees(math.atan2(direction[1], direction[0]))
    if sides[1] > sides[0]:
        return Rectangle(corners, float(sides[1]), float(sides[0]), (angle + 90) % 180)
    return Rectangle(corners, float(sides[0]), float(sides[1]), angle % 180)


def smallest_rectangles(points: NDArray[np.float64]) -> list[Rectangle]:
    """Return all minimum-area enclosing rectangles of a point set (several when areas are equal), one per hull edge direction.

    Source: one side of a minimum-area rectangle lies on a hull edge (Freeman and Shapira 1975); every edge is tried.
    """
    hull = hull_of(points)
    edges = np.roll(hull, -1, axis=0) - hull
    edges = edges[np.hypot(edges[:, 0], edges[:, 1]) > 0]
    along, across = hull @ edges.T, hull @ np.column_stack([-edges[:, 1], edges[:, 0]]).T
    areas = np.ptp(along, axis=0) * np.ptp(across, axis=0) / np.sum(edges**2, axis=1)
    return [rectangle_along(hull, edge) for edge in edges[areas <= areas.min() * (1 + EQUAL_AREAS)]]


def oriented_box(points_px: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the oriented box of image points: (4, 2) corners, clockwise on screen, first the smallest y, then the smallest x.

    Of equal areas the box whose long side is closest to the x-axis wins, then the one of smaller angle. Sides of equal length
    (within 1e-9) both count as the long one.

    >>> oriented_box(np.array([[5, 12], [49, 12], [49, 15], [5, 15.0]])).tolist()
    [[5.0, 12.0], [49.0, 12.0], [49.0, 15.0], [5.0, 15.0]]
    """

    def rank(box: Rectangle) -> tuple[float, float]:
        angles = [box.angle_deg] if box.long > box.short * (1 + EQUAL_AREAS) else [box.angle_deg, (box.angle_deg + 90) % 180]
        # Rounded: the same rectangle reached from two hull edges must rank the same.
        return min((round(min(a, 180 - a), 9) % 180, round(a, 9) % 180) for a in angles)

    return order_corners(min(smallest_rectangles(points_px), key=rank).corners)


def order_corners(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Order four corners clockwise on screen, the first being the one of smallest y, then smallest x (within rounding)."""
    x, y = corners[:, 0], corners[:, 1]
    if np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y) < 0:
        corners = corners[::-1]
    top = np.flatnonzero(corners[:, 1] <= corners[:, 1].min() + CORNER_SLACK_PX)
    return np.roll(corners, -int(top[np.argmin(corners[top, 0])]), axis=0)


def check_boxes(instance: Instance, edge_polygon: Any, extent: tuple[int, int, int, int], file: str, notes: Notebook) -> None:
    """Compare hbb and obb with the mask's envelope and its minimum-area rectangle.

    Args:
        instance: The stored row.
        edge_polygon: The mask's pixel-edge polygon in image coordinates.
        extent: (x_min, y_min, x_max, y_max) of the mask's pixel edges.
        file: File to name in findings.
        notes: Where findings go.
    """
    item = instance.instance_id
    notes.count("boxes")
    if not (instance.countable and instance.boxable):
        if instance.obb_px is not None or (instance.countable and instance.hbb_px is not None):
            notes.add("box_unwanted", file, item, "null: no region and nothing inseparable has boxes", "a box")
        if instance.hbb_px is None:
            return
    if instance.hbb_px is None or not np.allclose(instance.hbb_px, extent, rtol=0, atol=1e-9):
        notes.add("hbb_wrong", file, item, [float(v) for v in extent], instance.hbb_px)
    if not (instance.countable and instance.boxable):
        return
    points = shapely.get_coordinates(edge_polygon)
    right = oriented_box(points)
    if instance.obb_px is None or len(instance.obb_px) != 8 or not np.all(np.isfinite(instance.obb_px)):
        notes.add("obb_wrong", file, item, right.ravel().round(6).tolist(), instance.obb_px)
        return
    found = np.asarray(instance.obb_px).reshape(4, 2)
    if np.allclose(found, right, rtol=0, atol=CORNER_SLACK_PX):
        return
    code, area = _name_box_fault(points, found, right)
    notes.add(code, file, item, f"{right.ravel().round(6).tolist()} px", f"{found.ravel().round(6).tolist()} px, area {area:.9g} px2")


def _name_box_fault(points: NDArray[np.float64], found: NDArray[np.float64], right: NDArray[np.float64]) -> tuple[str, float]:
    """Say what is wrong with a stored oriented box: no rectangle, not around the mask, not minimal, wrong tie, or wrong order."""
    first, second = found[1] - found[0], found[2] - found[1]
    sides = float(np.hypot(*first)), float(np.hypot(*second))
    area = sides[0] * sides[1]
    least = float(np.hypot(*(right[1] - right[0])) * np.hypot(*(right[2] - right[1])))
    square = abs(float(first @ second)) <= 1e-6 * max(area, 1)
    if min(sides) == 0 or not square or not np.allclose(found[0] + found[2], found[1] + found[3], atol=CORNER_SLACK_PX):
        return "obb_wrong", area
    along, across = (points - found[0]) @ first / sides[0], (points - found[0]) @ second / sides[1]
    slack = 10 * CORNER_SLACK_PX
    if (
        along.min() < -slack
        or along.max() > sides[0] + slack
        or abs(across).max() > sides[1] + slack
        or across.min() * across.max() < -slack
    ):
        return "obb_not_enclosing", area
    if area > least * (1 + 1e-6):
        return "obb_not_minimal", area
    if any(np.allclose(np.roll(way, turn, axis=0), right, atol=CORNER_SLACK_PX) for way in (found, found[::-1]) for turn in range(4)):
        return "obb_corner_order", area
    return "obb_tie_rule", area


def check_metric(instance: Instance, outline_m: Any, edges_m: NDArray[np.float64], frame: Frame, file: str, notes: Notebook) -> None:
    """Compare perimeter, metric rectangle, orientation, compactness and centroid with the measuring outline, within 2 pixels.

    The documents do not say whether the metric rectangle encloses the measuring outline or the pixel edges: either will do.

    Args:
        instance: The stored row.
        outline_m: Measuring outline in local ground metres.
        edges_m: (n, 2) vertices of the pixel edges in local ground metres.
        frame: The auditor's own frame of the scene.
        file: File to name in findings.
        notes: Where findings go.
    """
    item, band = instance.instance_id, BAND_PX * frame.gsd_m
    notes.count("metric_rectangles")
    perimeter = float(shapely.length(outline_m))
    if not abs(instance.perimeter_m - perimeter) <= max(band, 0.02 * perimeter):
        notes.add("perimeter_wrong", file, item, f"{perimeter:.6g} m", f"{instance.perimeter_m:.6g} m")
    faults = [_name_rectangle_fault(instance, points, frame) for points in (shapely.get_coordinates(outline_m), edges_m)]
    if faults[0] and faults[1]:
        code, expected, found = faults[0]
        notes.add(code, file, item, expected, found)
    if instance.length_m < instance.width_m:
        notes.add("rectangle_wrong", file, item, "length >= width", f"{instance.length_m:.6g} < {instance.width_m:.6g} m")
    elif instance.width_m > 0 and not math.isclose(instance.elongation, instance.length_m / instance.width_m, rel_tol=1e-6):
        notes.add("elongation_wrong", file, item, instance.length_m / instance.width_m, instance.elongation)
    _check_compactness(instance, outline_m, perimeter, file, notes)
    centre = shapely.get_coordinates(shapely.centroid(outline_m))[0]
    if not math.dist(centre, instance.centroid_m) <= band:
        notes.add("centroid_wrong", file, item, f"{centre.round(3).tolist()} m", f"{list(instance.centroid_m)} m")


def _name_rectangle_fault(instance: Instance, points: NDArray[np.float64], frame: Frame) -> tuple[str, str, str] | None:
    """Say what is wrong with the stored metric rectangle around `points` (code, expected, found); nothing when it fits.

    Near a tie of areas another rectangle may win by a hair; then the stored orientation is accepted when the rectangle that it
    gives has the stored sides and is no larger than the smallest one by more than the band.
    """
    band = BAND_PX * frame.gsd_m
    right = smallest_rectangles(points)[0]
    grid_deg = 90 - (instance.orientation_deg - frame.convergence_deg)
    given = rectangle_along(hull_of(points), np.array([math.cos(math.radians(grid_deg)), math.sin(math.radians(grid_deg))]))
    slack_deg = math.degrees(math.atan2(band, right.long))
    azimuth = (90 - right.angle_deg + frame.convergence_deg) % 180
    off = _axis_turn(instance.orientation_deg, azimuth)
    turned = right.long - right.short <= band and off >= 90 - slack_deg
    sides_fit = abs(instance.length_m - right.long) <= band and abs(instance.width_m - right.short) <= band
    given_fits = (
        (_axis_turn(given.angle_deg, grid_deg) < 1 or given.long - given.short <= band)
        and abs(instance.length_m - given.long) <= band
        and abs(instance.width_m - given.short) <= band
        and given.long * given.short <= right.long * right.short + band * right.short
    )
    if not sides_fit and not given_fits:
        sides = f"{instance.length_m:.6g} x {instance.width_m:.6g} m"
        return "rectangle_wrong", f"{right.long:.6g} x {right.short:.6g} m", sides
    if not 0 <= instance.orientation_deg < 180 or not (off <= slack_deg or turned or given_fits):
        return "orientation_wrong", f"{azimuth:.4f} deg", f"{instance.orientation_deg:.4f} deg"
    return None


def _axis_turn(one_deg: float, other_deg: float) -> float:
    """Return the turn between two directions that have no head or tail, in [0, 90]."""
    return abs((one_deg - other_deg + 90) % 180 - 90)


def _check_compactness(instance: Instance, outline_m: Any, perimeter: float, file: str, notes: Notebook) -> None:
    """Compactness may be off by what the allowed difference of the perimeter makes of it; either area (mask or outline) is fine."""
    values = [4 * math.pi * area / perimeter**2 for area in (float(shapely.area(outline_m)), instance.area_m2)]
    slack = 0.05 * max(values)
    if not min(values) - slack <= instance.compactness <= max(values) + slack:
        notes.add("compactness_wrong", file, instance.instance_id, values[0], instance.compactness)
