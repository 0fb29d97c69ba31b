"""Where a scene lies and how large its pixels are: the local ground frame re-derived, and scenes.parquet held against it.

Not here: masks and instances.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import rasterio
import shapely
from numpy.typing import NDArray

from trigpoint.audit.findings import Notebook
from trigpoint.audit.reading import MAX_PIXELS, Release, Scene, find_file

WGS84 = pyproj.CRS.from_user_input("OGC:CRS84")
SCALE_TOLERANCE = 0.001
"""A scene keeps its own CRS when the scale factor over it is within this of 1 (semantics, section 1)."""

SCALE_SLACK = 1e-5
"""Scales this close to the limit may go either way: nobody can say which points of the scene were looked at."""

STEP_PX = 8.0
"""Half-step of the central differences at the scene's centre (docs/release-format.md)."""

RELATIVE = 1e-5
"""Relative tolerance of numbers that have one right value (pixel sizes, areas, scales)."""


@dataclass(frozen=True)
class Frame:
    """The local ground frame of a scene: true ground metres, x along grid east and y along grid north of `metric_crs`.

    Attributes:
        metric: The CRS that everything is measured in.
        scale_k: Point scale of `metric` at the scene's centre.
        origin: Metric coordinates of the scene's centre.
        gsd_m: Square root of the true pixel area.
        convergence_deg: Grid azimuth + this = true azimuth, at the scene's centre.
        image_up_deg: True azimuth of the image's up direction at the centre.
        scale_spread: Largest relative difference of the scale over the scene from that at the centre.
        to_metric: Scene CRS → metric CRS; `to_lonlat`: metric CRS → WGS 84; `from_lonlat`: WGS 84 → scene CRS.
    """

    transform: tuple[float, float, float, float, float, float]
    scene_crs: pyproj.CRS
    metric: pyproj.CRS
    scale_k: float
    origin: tuple[float, float]
    pixel_area_m2: float
    convergence_deg: float
    image_up_deg: float
    scale_spread: float
    to_metric: pyproj.Transformer
    to_lonlat: pyproj.Transformer
    from_lonlat: pyproj.Transformer

    @property
    def gsd_m(self) -> float:
        """Ground size of a pixel in metres."""
        return math.sqrt(self.pixel_area_m2)

    def to_ground(self, points_px: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take (n, 2) image coordinates to (n, 2) local ground metres."""
        x, y = self.to_metric.transform(*apply_transform(self.transform, points_px))
        return np.column_stack([(np.asarray(x) - self.origin[0]) / self.scale_k, (np.asarray(y) - self.origin[1]) / self.scale_k])

    def convergence_at(self, points_m: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the meridian convergence in degrees at (n, 2) local ground points."""
        metric = points_m * self.scale_k + np.asarray(self.origin)
        lon, lat = self.to_lonlat.transform(metric[:, 0], metric[:, 1])
        return np.asarray(pyproj.Proj(self.metric).get_factors(lon, lat).meridian_convergence, dtype=np.float64)

    def to_image(self, lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take (n, 2) longitudes and latitudes to (n, 2) image coordinates."""
        x, y = self.from_lonlat.transform(lonlat[:, 0], lonlat[:, 1])
        a, b, c, d, e, f = self.transform
        x, y, det = np.asarray(x) - c, np.asarray(y) - f, a * e - b * d
        return np.column_stack([(e * x - b * y) / det, (a * y - d * x) / det])


def apply_transform(transform: tuple[float, ...], points_px: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return CRS coordinates (x, y) of image points; the six numbers are in affine order a, b, c, d, e, f."""
    a, b, c, d, e, f = transform
    x, y = points_px[:, 0], points_px[:, 1]
    return a * x + b * y + c, d * x + e * y + f


def _scales(crs: pyproj.CRS, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the point scale (root of the areal one) and the largest deviation of any direction's scale from 1."""
    factors = pyproj.Proj(crs).get_factors(lon, lat)
    areal, low, high = (np.asarray(v) for v in (factors.areal_scale, factors.tissot_semiminor, factors.tissot_semimajor))
    return np.sqrt(areal), np.maximum(np.abs(low - 1), np.abs(high - 1))


def metric_choices(scene_crs: pyproj.CRS, corners_and_centre: NDArray[np.float64]) -> list[pyproj.CRS]:
    """Return the metric CRS that the rule gives for a scene: one, or two when its scale is right at the limit.

    Args:
        scene_crs: The CRS of the scene.
        corners_and_centre: (n, 2) CRS coordinates; the last row is the centre.

    Source: docs/release-format.md and the project's semantics, section 1: keep a projected metre CRS whose scale is within 0.1 %
        of 1 over the scene; else WGS 84 UTM of the centre, or UPS beyond 84° N / 80° S.
    """
    lon, lat = pyproj.Transformer.from_crs(scene_crs, WGS84, always_xy=True).transform(*corners_and_centre.T)
    choices: list[pyproj.CRS] = []
    deviation = math.inf
    axes = scene_crs.axis_info[:2]
    east_and_north = {axis.direction for axis in axes} == {"east", "north"}
    if scene_crs.is_projected and east_and_north and all(axis.unit_conversion_factor == 1 for axis in axes):
        deviation = float(np.max(_scales(scene_crs, np.asarray(lon), np.asarray(lat))[1]))
        if deviation <= SCALE_TOLERANCE + SCALE_SLACK:
            choices.append(scene_crs)
    if deviation > SCALE_TOLERANCE - SCALE_SLACK:
        centre_lon, centre_lat = float(lon[-1]), float(lat[-1])
        if centre_lat > 84:
            codes = [5041, 32661]
        elif centre_lat < -80:
            codes = [5042, 32761]
        else:
            codes = [(32600 if centre_lat >= 0 else 32700) + min(60, int((centre_lon + 180) // 6) + 1)]
        choices += [pyproj.CRS.from_epsg(code) for code in codes]
    return choices


def build_frame(scene: Scene, metric: pyproj.CRS) -> Frame:
    """Derive the local ground frame of a scene in a given metric CRS."""
    scene_crs = pyproj.CRS.from_user_input(scene.crs)
    centre = np.array([[scene.width / 2, scene.height / 2]])
    steps = centre + STEP_PX * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    corners = np.array([[0, 0], [scene.width, 0], [scene.width, scene.height], [0, scene.height]], dtype=np.float64)
    points = np.column_stack(apply_transform(scene.transform, np.vstack([centre, steps, corners])))
    to_metric = pyproj.Transformer.from_crs(scene_crs, metric, always_xy=True)
    to_lonlat = pyproj.Transformer.from_crs(metric, WGS84, always_xy=True)
    points = np.column_stack(to_metric.transform(*points.T))
    lon, lat = to_lonlat.transform(*points.T)
    scales = _scales(metric, np.asarray(lon), np.asarray(lat))[0]
    k = float(scales[0])
    right, left, down, up = points[1:5] / k
    dx, dy = (right - left) / (2 * STEP_PX), (down - up) / (2 * STEP_PX)
    convergence = float(pyproj.Proj(metric).get_factors(lon[0], lat[0]).meridian_convergence)
    return Frame(
        transform=scene.transform,
        scene_crs=scene_crs,
        metric=metric,
        scale_k=k,
        origin=(float(points[0, 0]), float(points[0, 1])),
        pixel_area_m2=abs(float(dx[0] * dy[1] - dx[1] * dy[0])),
        convergence_deg=convergence,
        image_up_deg=(math.degrees(math.atan2(-dy[0], -dy[1])) + convergence) % 360,
        scale_spread=float(np.max(np.abs(scales / k - 1))),
        to_metric=to_metric,
        to_lonlat=to_lonlat,
        from_lonlat=pyproj.Transformer.from_crs(WGS84, scene_crs, always_xy=True),
    )


def open_raster(folder: Path, path: str) -> Any:
    """Open a GeoTIFF of the release, refusing other files and drivers, and sizes that nobody could mean."""
    dataset = rasterio.open(find_file(folder, path), driver="GTiff")
    if dataset.width * dataset.height > MAX_PIXELS:
        dataset.close()
        raise ValueError(f"{dataset.width} x {dataset.height} pixels are too many to open")
    return dataset


def angle_between(a_deg: float, b_deg: float) -> float:
    """Return the smallest turn between two azimuths, in [0, 180]."""
    return abs((a_deg - b_deg + 180) % 360 - 180)


def check_scene(release: Release, scene: Scene, notes: Notebook) -> tuple[Frame, NDArray[np.bool_]] | None:
    """Hold one row of scenes.parquet against its GeoTIFF and against the re-derived frame.

    Returns:
        The auditor's own frame and the (height, width) mask of valid pixels; None when the row gives no frame at all.
    """
    name, item = "scenes.parquet", scene.scene_id
    notes.count("georeferencing")
    valid = np.ones((scene.height, scene.width), dtype=bool)
    with notes.guard("scene_unreadable", scene.path, item), open_raster(release.folder, scene.path) as dataset:
        if (dataset.width, dataset.height) != (scene.width, scene.height):
            notes.add("scene_size", name, item, f"{dataset.width} x {dataset.height} px", f"{scene.width} x {scene.height} px")
        else:
            valid = dataset.dataset_mask() > 0
            if all(np.issubdtype(np.dtype(kind), np.floating) for kind in dataset.dtypes):
                valid &= np.isfinite(dataset.read()).any(axis=0)
        stored = tuple(dataset.transform)[:6]
        if not np.allclose(stored, scene.transform, rtol=1e-12, atol=1e-9 * max(abs(stored[0]), abs(stored[1]))):
            notes.add("scene_transform", name, item, list(stored), list(scene.transform))
        if dataset.crs is None or pyproj.CRS.from_user_input(dataset.crs) != pyproj.CRS.from_user_input(scene.crs):
            notes.add("scene_crs", name, item, "no CRS" if dataset.crs is None else dataset.crs.to_string(), scene.crs)
    frames: list[Frame] = []
    with notes.guard("frame_underivable", name, item):
        frames.append(_check_frame(scene, notes))
    if not frames:
        return None
    frame = frames[0]
    with notes.guard("footprint_wrong", name, item):
        _check_extent(scene, frame, valid, notes)
    return frame, valid


def _check_frame(scene: Scene, notes: Notebook) -> Frame:
    """Compare metric CRS, scale, convergence, pixel size and image-up."""
    name, item = "scenes.parquet", scene.scene_id
    w, h = float(scene.width), float(scene.height)
    places = np.array([[0, 0], [w, 0], [w, h], [0, h], [w / 2, 0], [w, h / 2], [w / 2, h], [0, h / 2], [w / 2, h / 2]])
    scene_crs = pyproj.CRS.from_user_input(scene.crs)
    choices = metric_choices(scene_crs, np.column_stack(apply_transform(scene.transform, places)))
    stored = pyproj.CRS.from_user_input(scene.metric_crs)
    metric = next((choice for choice in choices if choice == stored or choice.equals(stored, ignore_axis_order=True)), None)
    if metric is None:
        notes.add("metric_crs", name, item, choices[0].to_string(), scene.metric_crs)
        metric = choices[0]
    frame = build_frame(scene, metric)
    a, b, _, d, e, _ = scene.transform
    nominal = math.sqrt(abs(a * e - b * d))
    if not abs(scene.gsd_m / frame.gsd_m - 1) <= RELATIVE:
        code = "gsd_nominal" if scene_crs.is_projected and abs(scene.gsd_m / nominal - 1) < RELATIVE else "gsd_wrong"
        notes.add(code, name, item, f"{frame.gsd_m:.9g} m", f"{scene.gsd_m:.9g} m")
    for code, right, found in (
        ("pixel_area_wrong", frame.pixel_area_m2, scene.pixel_area_m2),
        ("scale_wrong", frame.scale_k, scene.scale_k),
    ):
        if not math.isclose(right, found, rel_tol=2 * RELATIVE):
            notes.add(code, name, item, right, found)
    for code, right, found, slack in (
        ("convergence_wrong", frame.convergence_deg, scene.convergence_deg, 1e-3),
        ("image_up_wrong", frame.image_up_deg, scene.image_up_deg, 1e-2),
    ):
        if not angle_between(right, found) <= slack:
            notes.add(code, name, item, f"{right:.6f} deg", f"{found:.6f} deg")
    off_north = angle_between(frame.image_up_deg, 0)
    if abs(off_north - 5) > 1e-2 and scene.north_up != (off_north < 5):
        notes.add("north_up_wrong", name, item, off_north < 5, scene.north_up)
    return frame


def valid_rectangle(valid: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Return (x_min, y_min, x_max, y_max) pixel edges of the bounding rectangle of the valid pixels.

    Raises:
        ValueError: no pixel is valid.
    """
    rows, cols = np.flatnonzero(valid.any(axis=1)), np.flatnonzero(valid.any(axis=0))
    if not len(rows):
        raise ValueError("no valid pixel")
    return int(cols[0]), int(rows[0]), int(cols[-1]) + 1, int(rows[-1]) + 1


def shorter_side(frame: Frame, valid: NDArray[np.bool_]) -> float:
    """Return the ground length in metres of the shorter side of the valid pixels' bounding rectangle, along its middle lines."""
    x0, y0, x1, y1 = valid_rectangle(valid)
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    ends = frame.to_ground(np.array([[x0, y], [x1, y], [x, y0], [x, y1]], dtype=np.float64))
    return float(min(np.hypot(*(ends[1] - ends[0])), np.hypot(*(ends[3] - ends[2]))))


def _check_extent(scene: Scene, frame: Frame, valid: NDArray[np.bool_], notes: Notebook) -> None:
    """Compare valid share, shorter side and footprint with the valid pixels."""
    name, item = "scenes.parquet", scene.scene_id
    share = float(valid.mean())
    if not abs(share - scene.valid_share) <= 1e-4:
        notes.add("valid_share_wrong", name, item, share, scene.valid_share)
    side = shorter_side(frame, valid)
    if not abs(side - scene.shorter_side_m) <= max(frame.gsd_m, 0.001 * side):
        notes.add("shorter_side_wrong", name, item, f"{side:.6g} m", f"{scene.shorter_side_m:.6g} m")
    # one polygon again where it was split at the antimeridian
    parts = shapely.get_parts(shapely.transform(shapely.from_wkb(scene.geometry), frame.to_image))
    footprint = shapely.union_all(parts) if len(parts) > 1 else parts[0]
    height, width = valid.shape
    rows, cols = np.nonzero(valid[:: max(1, height // 64), :: max(1, width // 64)])
    x, y = cols * max(1, width // 64) + 0.5, rows * max(1, height // 64) + 0.5
    if not shapely.is_valid(footprint) or not shapely.box(0, 0, width, height).buffer(1).covers(footprint):
        notes.add("footprint_wrong", name, item, f"a valid polygon within {width} x {height} px", f"bounds {footprint.bounds} px")
    elif not bool(np.all(shapely.contains_xy(footprint.buffer(1), x, y))):
        notes.add("footprint_wrong", name, item, "a polygon around all valid pixels", "valid pixels outside it")
