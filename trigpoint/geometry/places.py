"""Where features of a map are: a point that stands for each, and which of them reach into a scene.

Not here: what a feature means (`trigpoint.categories`), outlines of instances (`trigpoint.geometry.outlines`).
"""

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from trigpoint.geometry.frames import SceneFrame, transformer
from trigpoint.geometry.repair import split_at_antimeridian


def representative_points(geometries: NDArray[np.object_]) -> NDArray[np.float64]:
    """Return a point (n, 2) of each geometry: itself, the middle of its (longest) line, or a point inside its area.

    >>> line = shapely.from_wkt("MULTILINESTRING ((0 0, 2 0), (5 0, 11 0))")
    >>> representative_points(np.array([line, shapely.Point(3, 4)], dtype=object)).tolist()
    [[8.0, 0.0], [3.0, 4.0]]
    """
    points = np.empty(len(geometries), dtype=object)
    is_line = np.isin(shapely.get_type_id(geometries), (1, 2, 5))
    longest = [max(shapely.get_parts(line), key=shapely.length) for line in geometries[is_line]]
    points[is_line] = shapely.line_interpolate_point(np.array(longest, dtype=object), 0.5, normalized=True)
    points[~is_line] = shapely.point_on_surface(geometries[~is_line])
    return shapely.get_coordinates(points)


def lonlat_geometry(geometry: BaseGeometry, crs: str) -> BaseGeometry | None:
    """Map a geometry to OGC:CRS84, valid and split at the antimeridian; None when a point of it is nowhere on the Earth.

    >>> lonlat_geometry(shapely.LineString([(179, 0), (182, 3)]), "EPSG:4326").wkt
    'MULTILINESTRING ((179 0, 180 1), (-180 1, -178 3))'
    """
    to_lonlat = transformer(crs, "OGC:CRS84")
    mapped = shapely.transform(geometry, lambda points: np.column_stack(to_lonlat.transform(*points.T)))
    lon, lat = shapely.get_coordinates(mapped).T
    if not (np.isfinite(lon).all() and np.isfinite(lat).all() and np.abs(lat).max() <= 90):
        return None
    if np.abs(lon).max() > 180:
        mapped = shapely.transform(mapped, lambda points: np.column_stack([(points[:, 0] + 180.0) % 360.0 - 180.0, points[:, 1]]))
    return split_at_antimeridian(shapely.make_valid(mapped))


def reach_into_scene(geometries: NDArray[np.object_], frame: SceneFrame, size_px: tuple[int, int]) -> NDArray[np.bool_]:
    """Say which geometries share a point with a scene, its edges included.

    Args:
        geometries: In OGC:CRS84; those over 180° are split there.
        frame: The scene's frame.
        size_px: Width and height of the scene.
    """
    width, height = size_px
    scene = shapely.box(0, 0, width, height)
    edge = shapely.segmentize(scene, max(width, height) / 8)
    footprint = split_at_antimeridian(shapely.transform(edge, frame.lonlat_from_image))
    to_crs = transformer("OGC:CRS84", frame.crs)
    found = np.zeros(len(geometries), dtype=bool)
    bounds = shapely.bounds(geometries)
    for west, south, east, north in shapely.bounds(shapely.get_parts(footprint)):
        # twice the size: what is straight in degrees is not in the scene's CRS, so lines are cut outside of it
        dx, dy = (east - west) / 2, (north - south) / 2
        box = (west - dx, south - dy, east + dx, north + dy)
        near = np.flatnonzero((bounds[:, 0] <= box[2]) & (bounds[:, 2] >= box[0]) & (bounds[:, 1] <= box[3]) & (bounds[:, 3] >= box[1]))
        pieces = shapely.clip_by_rect(shapely.make_valid(geometries[near]), *box)
        pixels = shapely.transform(pieces, lambda points: frame.image_from_crs(np.column_stack(to_crs.transform(*points.T))))
        found[near] |= shapely.intersects(pixels, scene)
    return found
