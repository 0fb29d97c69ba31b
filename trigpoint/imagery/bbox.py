"""Boxes in longitude and latitude; west > east means that a box crosses the antimeridian.

Source: RFC 7946 (GeoJSON), section 5.2. Not here: bounds in the CRS of a raster (`trigpoint.imagery.windows`).
"""

import math

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import Geod

from trigpoint.errors import InputError

LonLatBox = tuple[float, float, float, float]
"""(west, south, east, north), WGS 84 degrees; west > east crosses 180°."""


def check_box(box: LonLatBox) -> None:
    """Check that a box lies on the Earth and covers something.

    Raises:
        InputError: a number is not finite or out of range, south is not below north, or west equals east.
    """
    west, south, east, north = box
    if not (all(math.isfinite(v) for v in box) and -180 <= west <= 180 and -180 <= east <= 180 and -90 <= south < north <= 90):
        raise InputError(f"bbox {list(box)} is no box, expected [west, south, east, north] in degrees with south < north")
    if west == east:
        raise InputError(f"bbox {list(box)} has no width; west > east means that it crosses the antimeridian")


def box_around(lon: float, lat: float, size_m: float) -> LonLatBox:
    """Return the box whose sides lie half of `size_m` north, east, south and west of a point; round the antimeridian where they do.

    >>> [round(v, 4) for v in box_around(180.0, 60.0, 20000)]
    [179.8208, 59.9102, -179.8208, 60.0898]
    """
    geod = Geod(ellps="WGS84")
    ends = [geod.fwd(lon, lat, azimuth, size_m / 2) for azimuth in (270, 180, 90, 0)]
    west, south, east, north = ends[0][0], ends[1][1], ends[2][0], ends[3][1]
    return (float(west), float(south), float(east), float(north))


def parts_of_box(box: LonLatBox) -> tuple[LonLatBox, ...]:
    """Return the box, or its two halves when it crosses the antimeridian.

    >>> parts_of_box((179.5, -17.5, -179.5, -16.5))
    ((179.5, -17.5, 180.0, -16.5), (-180.0, -17.5, -179.5, -16.5))
    """
    west, south, east, north = box
    if west <= east:
        return (box,)
    halves: tuple[LonLatBox, ...] = ((west, south, 180.0, north), (-180.0, south, east, north))
    return tuple(half for half in halves if half[0] < half[2])


def box_of(geometries: NDArray[np.object_]) -> LonLatBox:
    """Return the narrowest box around geometries in degrees; those over the antimeridian are split there.

    The box leaves out the widest gap between them, once round the Earth, so that it crosses 180° where they do.

    >>> box_of(shapely.from_wkt(["MULTIPOLYGON (((179 0, 180 0, 180 1, 179 0)), ((-180 0, -178 0, -180 1, -180 0)))"]))
    (179.0, 0.0, -178.0, 1.0)
    >>> box_of(shapely.points([(10.0, 50.0), (-20.0, 40.0)]))
    (-20.0, 40.0, 10.0, 50.0)

    Raises:
        InputError: there is no geometry, or none with a point.
    """
    bounds = shapely.bounds(shapely.get_parts(geometries))
    bounds = bounds[np.isfinite(bounds).all(axis=1)]
    if not len(bounds):
        raise InputError("no geometry has a point, so that no box is around them")
    bounds = bounds[np.argsort(bounds[:, 0], kind="stable")]
    reach = np.maximum.accumulate(bounds[:, 2])
    gaps = np.append(bounds[1:, 0] - reach[:-1], bounds[0, 0] + 360.0 - reach[-1])
    k = len(gaps) - 1 if gaps[-1] >= gaps.max() else int(gaps.argmax())
    west, east = bounds[(k + 1) % len(bounds), 0], reach[k]
    return (float(west), float(bounds[:, 1].min()), float(east), float(bounds[:, 3].max()))
