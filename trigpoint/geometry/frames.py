"""The metric frame of a scene: true ground metres and true north for any CRS and transform.

One module; everything else asks it. Image coordinates are (x right, y down) in pixels with the origin at the outer
corner of the first pixel. Ground coordinates are metres, x along grid east and y along grid north of the metric CRS, with the
origin at the scene's centre, already divided by the point scale. See docs/release-format.md, "The local ground frame".
"""

import math
from functools import cached_property, lru_cache

import numpy as np
import pyproj
from numpy.typing import NDArray
from pyproj.enums import TransformDirection
from pyproj.exceptions import CRSError

from trigpoint.errors import CrsMismatchError, InputError, NodataError
from trigpoint.records.scene import FrameRecord, Transform

FloatArray = NDArray[np.float64]

MAX_SCALE_ERROR = 1e-3
"""A projected CRS in metres is kept as metric frame while its scale stays within this of 1. Source: semantics section 1."""

MAX_SPREAD = 1e6
"""Written where the metric CRS has no finite scale somewhere in the scene, as in one of half the Earth."""

JACOBIAN_STEP_PX = 8.0
"""Half-width of the central differences that measure the true pixel area."""

UTM_LIMITS_DEG = (-80.0, 84.0)
"""Latitudes between which a UTM zone serves; beyond them UPS does."""


@lru_cache(maxsize=256)
def parse_crs(crs: str) -> pyproj.CRS:
    """Parse an authority code or WKT.

    Raises:
        CrsMismatchError: pyproj does not know it, or it is not of the Earth.
    """
    try:
        parsed = pyproj.CRS.from_user_input(crs)
    except CRSError as error:
        raise CrsMismatchError(f"crs {crs[:80]!r} is not known to PROJ: {error}; give an authority code such as EPSG:32645") from error
    ellipsoid = parsed.ellipsoid
    if ellipsoid is not None and abs(ellipsoid.semi_major_metre - 6_378_137.0) > 60_000.0:
        raise CrsMismatchError(
            f"crs {parsed.name!r} has a semi-major axis of {ellipsoid.semi_major_metre:.0f} m, expected the Earth's 6378137 m;"
            " scenes of other bodies are not supported"
        )
    return parsed


@lru_cache(maxsize=256)
def transformer(source_crs: str, target_crs: str) -> pyproj.Transformer:
    """Return a cached x/y transformer (longitude first, east first) between two CRSs."""
    return pyproj.Transformer.from_crs(parse_crs(source_crs), parse_crs(target_crs), always_xy=True)


@lru_cache(maxsize=256)
def _projection(crs: str) -> pyproj.Proj:
    return pyproj.Proj(parse_crs(crs))


def crs_name(crs: pyproj.CRS) -> str:
    """Return the authority code when there is one, else WKT."""
    authority = crs.to_authority()
    return f"{authority[0]}:{authority[1]}" if authority else crs.to_wkt()


def utm_crs(lon: float, lat: float) -> str:
    """Return the WGS 84 UTM zone of a point, or UPS beyond 84° N / 80° S.

    >>> utm_crs(85.52, 27.63), utm_crs(-179.9, -17.0), utm_crs(0.0, 88.0)
    ('EPSG:32645', 'EPSG:32701', 'EPSG:5041')
    """
    if lat > UTM_LIMITS_DEG[1]:
        return "EPSG:5041"
    if lat < UTM_LIMITS_DEG[0]:
        return "EPSG:5042"
    zone = int((lon + 180.0) // 6.0) % 60 + 1
    return f"EPSG:{(32600 if lat >= 0 else 32700) + zone}"


def _is_metric(crs: str, lonlat: FloatArray) -> bool:
    """Whether `crs` itself serves as metric frame over the points (n, 2) lon/lat."""
    parsed = parse_crs(crs)
    if not parsed.is_projected or any(abs(axis.unit_conversion_factor - 1.0) > 1e-12 for axis in parsed.axis_info):
        return False
    if {axis.direction for axis in parsed.axis_info[:2]} != {"east", "north"}:
        return False  # westings and southings turn every azimuth round
    operation = parsed.coordinate_operation
    if operation is not None and "Pseudo Mercator" in operation.method_name:
        return False
    factors = _projection(crs).get_factors(lonlat[:, 0], lonlat[:, 1])
    scales = np.concatenate([np.atleast_1d(factors.meridional_scale), np.atleast_1d(factors.parallel_scale)])
    return bool(np.all(np.isfinite(scales)) and np.all(np.abs(scales - 1.0) <= MAX_SCALE_ERROR))


def apply_affine(transform: Transform, points: FloatArray) -> FloatArray:
    """Map points (n, 2) from (column, row) to CRS coordinates; `transform` in affine order."""
    a, b, c, d, e, f = transform
    return np.column_stack([a * points[:, 0] + b * points[:, 1] + c, d * points[:, 0] + e * points[:, 1] + f])


def invert_affine(transform: Transform) -> Transform:
    """Return the transform from CRS coordinates to (column, row).

    Raises:
        InputError: the transform is singular.
    """
    a, b, c, d, e, f = transform
    determinant = a * e - b * d
    if determinant == 0 or not all(math.isfinite(v) for v in transform):
        raise InputError(f"transform {transform!r} is singular, expected two independent pixel axes")
    ia, ib, id_, ie = e / determinant, -b / determinant, -d / determinant, a / determinant
    return (ia, ib, -(ia * c + ib * f), id_, ie, -(id_ * c + ie * f))


def image_grid(width: int, height: int) -> FloatArray:
    """Return the centre, corners and edge midpoints of a scene in image coordinates, (9, 2); the centre first."""
    xs, ys = (0.0, width / 2, float(width)), (0.0, height / 2, float(height))
    points = [(width / 2, height / 2)] + [(x, y) for y in ys for x in xs if (x, y) != (width / 2, height / 2)]
    return np.array(points)


def fit_frame(crs: str, transform: Transform, width: int, height: int) -> FrameRecord:
    """Choose the metric frame of a scene and measure its scale, convergence and pixel.

    Args:
        crs: CRS of the scene.
        transform: Image → CRS, affine order.
        width: Columns.
        height: Rows.

    Raises:
        CrsMismatchError: the CRS is unknown or the scene lies outside its area of use (coordinates come out infinite).

    Source: scale and convergence from PROJ's `proj_factors`; Differs: nothing.
    """
    grid = image_grid(width, height)
    lonlat = lonlat_from_crs(crs, apply_affine(transform, grid))
    lon, lat = float(lonlat[0, 0]), float(lonlat[0, 1])
    if abs(lat) > 90:
        raise CrsMismatchError(
            f"the scene's centre has the latitude {lat:g} in {crs[:40]!r}, expected -90 to 90; check the CRS (key 'crs')"
        )
    metric_crs = crs_name(parse_crs(crs)) if _is_metric(crs, lonlat) else utm_crs(lon, lat)
    factors = _projection(metric_crs).get_factors(lonlat[:, 0], lonlat[:, 1])
    scales = np.sqrt(np.asarray(factors.areal_scale, dtype=float))
    scale_k = float(scales[0])
    convergence_deg = float(np.asarray(factors.meridian_convergence, dtype=float)[0])

    step = JACOBIAN_STEP_PX
    cross = np.array([[step, 0.0], [-step, 0.0], [0.0, step], [0.0, -step], [0.0, 0.0]]) + grid[0]
    metric = np.column_stack(transformer(crs, metric_crs).transform(*apply_affine(transform, cross).T))
    if not np.all(np.isfinite(metric)):
        raise CrsMismatchError(f"the scene's centre lon {lon:.6f}, lat {lat:.6f} cannot be projected to {metric_crs}; check the CRS")
    along_x, along_y = (metric[0] - metric[1]) / (2 * step * scale_k), (metric[2] - metric[3]) / (2 * step * scale_k)
    pixel_area_m2 = float(abs(along_x[0] * along_y[1] - along_x[1] * along_y[0]))
    image_up_deg = float((math.degrees(math.atan2(-along_y[0], -along_y[1])) + convergence_deg) % 360.0)
    return FrameRecord(
        metric_crs=metric_crs,
        origin_x_m=float(metric[4, 0]),
        origin_y_m=float(metric[4, 1]),
        scale_k=scale_k,
        convergence_deg=convergence_deg,
        gsd_m=math.sqrt(pixel_area_m2),
        pixel_area_m2=pixel_area_m2,
        image_up_deg=image_up_deg,
        scale_spread=min(float(np.max(np.abs(scales / scale_k - 1.0))), MAX_SPREAD),
    )


def lonlat_from_crs(crs: str, points: FloatArray) -> FloatArray:
    """Map points (n, 2) of `crs` to WGS 84 longitude in [-180, 180], latitude in degrees.

    Raises:
        CrsMismatchError: a point cannot be mapped.
    """
    lon, lat = transformer(crs, "OGC:CRS84").transform(points[:, 0], points[:, 1])
    with np.errstate(invalid="ignore"):  # degrees go on past the antimeridian, and PROJ with them
        lon = np.where(np.abs(lon) > 180.0, (lon + 180.0) % 360.0 - 180.0, lon)
    lonlat = np.column_stack([lon, lat])
    if not np.all(np.isfinite(lonlat)):
        bad = points[~np.all(np.isfinite(lonlat), axis=1)][0]
        raise CrsMismatchError(
            f"point {tuple(bad.tolist())!r} of {crs[:40]!r} has no longitude and latitude; check the CRS and the transform"
        )
    return lonlat


class SceneFrame:
    """Maps between image, CRS, ground and geographic coordinates of one scene.

    All methods take and return arrays (n, 2) of float64.
    """

    def __init__(self, crs: str, transform: Transform, frame: FrameRecord) -> None:
        self.crs = crs
        self.transform = transform
        self.inverse = invert_affine(transform)
        self.record = frame
        self._to_metric = transformer(crs, frame.metric_crs)

    def crs_from_image(self, points: FloatArray) -> FloatArray:
        """Image (x, y) pixels → CRS coordinates."""
        return apply_affine(self.transform, points)

    def image_from_crs(self, points: FloatArray) -> FloatArray:
        """CRS coordinates → image (x, y) pixels.

        A scene over the antimeridian goes on past 180°, whereas what comes from elsewhere has longitudes in [-180°, 180°]: points are taken
        on the turn around the Earth that is nearest to the scene, unless they would then lie more than half a turn apart.
        """
        if self._turn and len(points):
            turns = np.round((self._middle_x - points[:, 0]) / self._turn)
            x = points[:, 0] + self._turn * turns
            if turns.any() and np.ptp(x) <= abs(self._turn) / 2:
                points = np.column_stack([x, points[:, 1]])
        return apply_affine(self.inverse, points)

    def ground_from_image(self, points: FloatArray) -> FloatArray:
        """Image (x, y) pixels → local ground metres."""
        x, y = self._to_metric.transform(*self.crs_from_image(points).T)
        origin = (self.record.origin_x_m, self.record.origin_y_m)
        return np.column_stack([np.asarray(x) - origin[0], np.asarray(y) - origin[1]]) / self.record.scale_k

    def _metric_from_ground(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        scaled = points * self.record.scale_k
        return scaled[:, 0] + self.record.origin_x_m, scaled[:, 1] + self.record.origin_y_m

    def image_from_ground(self, points: FloatArray) -> FloatArray:
        """Local ground metres → image (x, y) pixels."""
        x, y = self._to_metric.transform(*self._metric_from_ground(points), direction=TransformDirection.INVERSE)
        return self.image_from_crs(np.column_stack([x, y]))

    @cached_property
    def _turn(self) -> float:
        """How far once round the Earth is along x of the scene's CRS; 0 unless x is proportional to longitude from -180° to 180°."""
        x = np.array(transformer("OGC:CRS84", self.crs).transform(np.linspace(-180.0, 180.0, 5), np.zeros(5))[0])
        steps = np.diff(x)
        return float(x[4] - x[0]) if np.all(np.isfinite(x)) and np.allclose(steps, steps[0], rtol=1e-9, atol=0) else 0.0

    @cached_property
    def _middle_x(self) -> float:
        """The x of the scene's centre in its CRS, on the turn that the image is on: the first whose pixels have positive coordinates."""
        x, y = self._to_metric.transform(self.record.origin_x_m, self.record.origin_y_m, direction=TransformDirection.INVERSE)
        candidates = x + self._turn * np.arange(-1, 2)
        pixels = apply_affine(self.inverse, np.column_stack([candidates, np.full(3, y)]))
        return float(candidates[np.argmin(np.where((pixels > 0).all(axis=1), pixels.sum(axis=1), np.inf))])

    def lonlat_from_image(self, points: FloatArray) -> FloatArray:
        """Image (x, y) pixels → WGS 84 longitude, latitude in degrees."""
        return lonlat_from_crs(self.crs, self.crs_from_image(points))

    def shorter_side_m(self, valid: NDArray[np.bool_]) -> float:
        """Ground length of the shorter side of the bounding rectangle of the valid pixels, (height, width) bool.

        Raises:
            NodataError: no pixel is valid.
        """
        rows, cols = np.flatnonzero(valid.any(axis=1)), np.flatnonzero(valid.any(axis=0))
        if not rows.size:
            raise NodataError("the scene has no valid pixel")
        x0, x1, y0, y1 = float(cols[0]), float(cols[-1] + 1), float(rows[0]), float(rows[-1] + 1)
        xm, ym = (x0 + x1) / 2, (y0 + y1) / 2
        ends = self.ground_from_image(np.array([[x0, ym], [x1, ym], [xm, y0], [xm, y1]]))
        return float(min(np.hypot(*(ends[1] - ends[0])), np.hypot(*(ends[3] - ends[2]))))

    def convergence_at(self, points: FloatArray) -> FloatArray:
        """Meridian convergence in degrees at local ground points, (n,): true azimuth = grid azimuth + this."""
        if not len(points):
            return np.zeros(0)
        x, y = self._metric_from_ground(points)
        lonlat = lonlat_from_crs(self.record.metric_crs, np.column_stack([x, y]))
        factors = _projection(self.record.metric_crs).get_factors(lonlat[:, 0], lonlat[:, 1])
        return np.atleast_1d(np.asarray(factors.meridian_convergence, dtype=float))


def azimuth_deg(delta: FloatArray) -> FloatArray:
    """Grid azimuth of vectors (n, 2) (east, north), clockwise from north in [0, 360); NaN for the zero vector.

    >>> azimuth_deg(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, -2.0]])).tolist()
    [90.0, 270.0, 180.0]
    """
    azimuth = np.degrees(np.arctan2(delta[:, 0], delta[:, 1])) % 360.0
    azimuth[azimuth == 360.0] = 0.0
    azimuth[(delta[:, 0] == 0) & (delta[:, 1] == 0)] = np.nan
    return azimuth


WINDS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")
"""The 8-wind names, clockwise from north."""


def wind_name(azimuth: float) -> str | None:
    """Name the 8-wind sector of an azimuth in degrees; [-22.5, 22.5) is north; None for NaN: the same place has no direction.

    >>> wind_name(337.5), wind_name(22.5), wind_name(-45.0), wind_name(360.0), wind_name(math.nan)
    ('north', 'north-east', 'north-west', 'north', None)
    """
    return None if math.isnan(azimuth) else WINDS[int(((azimuth + 22.5) % 360.0) // 45.0) % 8]
