"""Scenes, points of interest and sources: what `collect` makes."""

from typing import Literal

from pydantic import ConfigDict, Field

from trigpoint.records.base import Record, Sha256

Transform = tuple[float, float, float, float, float, float]
"""Affine order a, b, c, d, e, f: x = a·col + b·row + c, y = d·col + e·row + f (not GDAL's order)."""


class Window(Record):
    """A window of a source in native pixels; may reach over its edge.

    >>> Window(col_off=2, row_off=3, width=4, height=5).as_tuple()
    (2, 3, 4, 5)
    """

    col_off: int
    row_off: int
    width: int = Field(gt=0)
    height: int = Field(gt=0)

    def as_tuple(self) -> tuple[int, int, int, int]:
        """Return (col_off, row_off, width, height)."""
        return (self.col_off, self.row_off, self.width, self.height)


class Poi(Record):
    """A point of interest from a source of features.

    Attributes:
        poi_id: `osm/way/123`-like for OpenStreetMap, else `<source>/<id>`; 64-bit ids stay exact.
        lon, lat: A point of it, WGS 84 degrees, longitude first.
        geometry: Of a line or an area, WKB in OGC:CRS84, split at the antimeridian; None of a point.
        tags: As found, byte for byte.
        categories: Taxonomy categories whose tag expressions match.
    """

    model_config = ConfigDict(ser_json_bytes="hex", val_json_bytes="hex")

    poi_id: str
    source: str
    osm_type: str | None = None
    osm_id: int | None = None
    lon: float = Field(ge=-180, le=180)
    lat: float = Field(ge=-90, le=90)
    geometry: bytes | None = None
    name: str | None = None
    tags: dict[str, str] = {}
    categories: tuple[str, ...] = ()


class FrameRecord(Record):
    """The metric frame of a scene (see docs/release-format.md, "The local ground frame").

    Attributes:
        metric_crs: Authority code or WKT of the projected CRS, metres.
        origin_x_m, origin_y_m: Metric CRS coordinates of the scene's centre.
        scale_k: Point scale at the centre: lengths are divided by it.
        convergence_deg: Meridian convergence at the centre; true azimuth = grid azimuth + convergence.
        gsd_m: Square root of `pixel_area_m2`.
        pixel_area_m2: True ground area of one pixel at the centre.
        image_up_deg: True azimuth of the image's up direction at the centre, [0, 360).
        scale_spread: Largest relative difference of k over the scene from k at the centre.
    """

    metric_crs: str
    origin_x_m: float
    origin_y_m: float
    scale_k: float
    convergence_deg: float
    gsd_m: float
    pixel_area_m2: float
    image_up_deg: float
    scale_spread: float

    @property
    def is_north_up(self) -> bool:
        """Whether image words (left, top) may be used: image-up within 5° of true north."""
        return min(self.image_up_deg, 360.0 - self.image_up_deg) <= 5.0


class Scene(Record):
    """One whole GeoTIFF patch: the unit of work.

    Attributes:
        scene_id: From source digest and window.
        crs: Authority code or WKT; recorded override when the source had none.
        window: Native window of the source.
        valid_share: Share of pixels that are inside the source and not nodata.
        how: How the window was chosen.
        phash: The eight perceptual hashes, 16 hex digits each (`trigpoint.imagery.phash`).
        grey_sd: How much the picture varies, grey levels.
        series_id: Of scenes that show one footprint on several dates; None where there is but one.
        blank_share, bright_share, cloud_share: As measured (`trigpoint.imagery.quality`) where the configuration limits them.
    """

    scene_id: str
    source: str
    source_sha256: Sha256
    window: Window
    crs: str
    transform: Transform
    frame: FrameRecord
    valid_share: float = Field(ge=0, le=1)
    shorter_side_m: float = Field(gt=0)
    licence: str
    attribution: str
    acquired: str | None = None
    how: Literal["grid", "window", "poi"]
    phash: tuple[str, ...]
    grey_sd: float = Field(ge=0)
    poi_id: str | None = None
    crs_overridden: bool = False
    series_id: str | None = None
    blank_share: float | None = None
    bright_share: float | None = None
    cloud_share: float | None = None

    @property
    def width(self) -> int:
        """Columns."""
        return self.window.width

    @property
    def height(self) -> int:
        """Rows."""
        return self.window.height
