"""Polygons as people and exports deliver them, made valid without losing area."""

from typing import Any, NamedTuple

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry


class Repaired(NamedTuple):
    """A polygon made valid, and what was done to it.

    Attributes:
        geometry: Polygon or MultiPolygon (may be empty).
        is_changed: Whether anything was done.
        note: What was found and what was dropped; empty when nothing was done.
    """

    geometry: BaseGeometry
    is_changed: bool
    note: str


def polygonal_part(geometry: BaseGeometry) -> BaseGeometry:
    """Return the polygons of a geometry as Polygon or MultiPolygon; lines and points are left out."""
    parts = [part for part in shapely.get_parts(geometry) if part.geom_type in {"Polygon", "MultiPolygon"}]
    flat = [piece for part in parts for piece in shapely.get_parts(part) if not piece.is_empty]
    if not flat:
        return shapely.Polygon()
    return flat[0] if len(flat) == 1 else shapely.MultiPolygon(flat)


def repair_polygon(geometry: BaseGeometry) -> Repaired:
    """Make a polygon valid, keeping both halves of a bow tie and dropping line pieces.

    `buffer(0)` is not used: it loses one half of a bow tie.

    >>> repair_polygon(shapely.Polygon([(0, 0), (10, 10), (0, 10), (10, 0)])).geometry.area
    50.0
    """
    flat = shapely.force_2d(geometry)
    if shapely.is_valid(flat) and flat.geom_type in {"Polygon", "MultiPolygon"}:
        return Repaired(flat, False, "")
    reason = shapely.is_valid_reason(flat)
    valid = shapely.make_valid(flat)
    polygons = polygonal_part(valid)
    dropped = sorted({part.geom_type for part in shapely.get_parts(valid)} - {"Polygon", "MultiPolygon"})
    note = f"{reason}; repaired" + (f"; dropped pieces of type {', '.join(dropped)}" if dropped else "")
    return Repaired(polygons, True, note)


def split_at_antimeridian(geometry: BaseGeometry) -> BaseGeometry:
    """Split a lon/lat polygon or line that crosses 180° into a Multi of its kind; every other is returned as it is.

    A polygon or line whose longitudes span more than 180° is taken to cross. Points and collections are never split.

    Source: RFC 7946, section 3.1.9.

    >>> split_at_antimeridian(shapely.Polygon([(179, 0), (-179, 0), (-179, 1), (179, 1)])).bounds
    (-180.0, 0.0, 180.0, 1.0)
    >>> split_at_antimeridian(shapely.LineString([(179, 0), (-178, 3)])).wkt
    'MULTILINESTRING ((179 0, 180 1), (-180 1, -178 3))'
    """
    west, _, east, _ = geometry.bounds
    dimension = shapely.get_dimensions(geometry)
    if not east - west > 180.0 or dimension < 1 or geometry.geom_type == "GeometryCollection":
        return geometry
    east_of_zero = shapely.transform(geometry, lambda points: np.column_stack([points[:, 0] % 360.0, points[:, 1]]))
    parts: list[Any] = []
    for left in (0.0, 180.0):
        half = shapely.get_parts(shapely.get_parts(shapely.intersection(east_of_zero, shapely.box(left, -90.0, left + 180.0, 90.0))))
        whole = half[(shapely.get_dimensions(half) == dimension) & ~shapely.is_empty(half)]
        parts += shapely.transform(whole, lambda points, shift=2 * left: points - (shift, 0.0)).tolist()
    return shapely.MultiPolygon(parts) if dimension == 2 else shapely.MultiLineString(parts)
