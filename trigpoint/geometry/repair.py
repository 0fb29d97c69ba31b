"""Polygons as people and exports deliver them, made valid without losing area."""

from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
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


def map_coordinates(geometries: NDArray[np.object_], mapping: object) -> NDArray[np.object_]:
    """Apply a function (n, 2) → (n, 2) to all vertices of an array of geometries at once."""
    return shapely.transform(geometries, mapping)  # type: ignore[arg-type]
