"""Names of coordinate systems, as files give them and as trigpoint writes them.

A CRS travels as text: an authority code when it is exactly that one, else WKT. Coordinates are always x/y, longitude first,
whatever axis order an authority prefers. Not here: metric frames (`trigpoint.geometry`).
"""

from pyproj import CRS
from pyproj.exceptions import CRSError

from trigpoint.errors import InputError

LON_LAT = "OGC:CRS84"
"""WGS 84, longitude then latitude."""

EARTH_RADIUS_M = 6378137.0
"""Equatorial radius of WGS 84, m."""

EARTH_TOLERANCE = 0.005
"""Relative difference of an ellipsoid's radius from the Earth's: all of the Earth's are within 0.12 %, Venus is 5 % off."""


def crs_text(crs: CRS) -> str:
    """Return the authority code of a CRS when it is exactly that one, else its WKT."""
    name = crs.to_authority(min_confidence=100)
    if name is None:
        guess = crs.to_authority(min_confidence=70)
        if guess is not None and CRS.from_authority(*guess).equals(crs, ignore_axis_order=True):
            name = guess
    return ":".join(name) if name else crs.to_wkt()


def parse_crs(text: str, what: str, error_type: type[InputError]) -> CRS:
    """Read a CRS from text of a file or the configuration.

    Args:
        text: Authority code or WKT.
        what: Names the thing in the message, such as `crs of 'a.tif'`.
        error_type: The class to raise.

    Raises:
        InputError: (as `error_type`) the text is no CRS, or a CRS that is not of the Earth.
    """
    try:
        crs = CRS.from_user_input(text)
    except CRSError as error:
        raise error_type(f"{what}: {text!r} is no coordinate system ({error}); use a code such as 'EPSG:32633' or WKT") from error
    expect_earth(crs, what, error_type)
    return crs


def expect_earth(crs: CRS, what: str, error_type: type[InputError]) -> None:
    """Check that a CRS is one of places on the Earth.

    Raises:
        InputError: (as `error_type`) it has no ellipsoid (a local system) or one of another planet's size, or it is geocentric.
    """
    ellipsoid = crs.ellipsoid
    if ellipsoid is None:
        raise error_type(f"{what}: {crs.name!r} is tied to no place on the Earth; give a geographic or projected CRS in the key 'crs'")
    if not (crs.is_geographic or crs.is_projected):
        raise error_type(f"{what}: {crs.name!r} is neither geographic nor projected ({crs.type_name}); give such a CRS in the key 'crs'")
    radius = ellipsoid.semi_major_metre
    if abs(radius - EARTH_RADIUS_M) > EARTH_TOLERANCE * EARTH_RADIUS_M:
        raise error_type(
            f"{what}: {crs.name!r} is not a CRS of the Earth, its ellipsoid has a radius of {radius:.0f} m, "
            f"expected about {EARTH_RADIUS_M:.0f} m; leave this source out"
        )
