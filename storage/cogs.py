"""Rasters on the web: the part of a cloud-optimised GeoTIFF that a source needs, read by range requests and kept as a snapshot.

Only the URL of the configuration is opened, as a GeoTIFF and nothing else. Native pixels, nothing resampled.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import rasterio
import shapely
from pyproj import Transformer
from pyproj.exceptions import ProjError
from rasterio.errors import RasterioError

from storage.crs import LON_LAT
from storage.rasters import RasterSource, read_window, source_of, write_native_tif
from storage.remote import RangeFile, Snapshot, Snapshots, Web
from trigpoint.errors import FetchError, RasterError
from trigpoint.geometry.frames import apply_affine, invert_affine
from trigpoint.imagery.bbox import LonLatBox
from trigpoint.imagery.windows import clip_window, window_of_points
from trigpoint.records.scene import Window

TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
HEAD_BYTES = 16


def request_of(url: str, box: LonLatBox | None, crs_override: str | None) -> dict[str, Any]:
    """Return what identifies a part of a remote raster."""
    return {"kind": "cog", "url": url, "bbox": None if box is None else list(box), "crs": crs_override}


def fetch_cog(
    web: Web,
    snapshots: Snapshots,
    url: str,
    box: LonLatBox | None,
    crs_override: str | None,
    max_px: int,
) -> Snapshot:
    """Return the part of a remote GeoTIFF inside a box (all of it without one), as a local GeoTIFF of native pixels.

    Args:
        web: Client; GDAL reads through it and asks nobody itself.
        snapshots: Where the part is kept; when it is there already, nothing is asked.
        url: http or https.
        box: Longitude and latitude; not over the antimeridian.
        crs_override: As in `open_source`.
        max_px: Most pixels of the part.

    Raises:
        FetchError: the server serves no ranges, what it has is no GeoTIFF or changes meanwhile, the box misses it or holds too
            many pixels, or bytes are missing.
        RasterError: the raster has no place on the Earth.
    """
    request = request_of(url, box, crs_override)
    known = snapshots.find(request)
    if known is not None:
        return known
    shown = repr(url.split("?")[0])
    file = RangeFile(web, url)
    head = file.bytes_between(0, HEAD_BYTES)
    if not head.startswith(TIFF_MAGIC):
        raise FetchError(f"raster {shown} is no GeoTIFF (it begins with {head[:8]!r}); give the URL of one")
    try:
        # no files beside it are looked for; one thread, so that requests stay one after the other
        with rasterio.Env(GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR", GDAL_NUM_THREADS="1"):
            dataset = rasterio.open("remote.tif", driver="GTiff", opener=lambda *_args, **_more: file.opened())
            with source_of(dataset, Path(urlsplit(url).path), shown, crs_override) as source:
                window = _window(source, box, max_px)
                patch = read_window(source, window)
    except (RasterioError, OSError) as error:
        file.check()
        raise FetchError(f"raster {shown} cannot be opened: {error}; check that it is a GeoTIFF") from error
    except RasterError:
        file.check()
        raise
    file.check()
    found = {"url": url.split("?")[0], "etag": file.version, "n_bytes": file.n_bytes, "window": list(window.as_tuple())}
    return snapshots.save(request, write_native_tif(patch), ".tif", found)


def _window(source: RasterSource, box: LonLatBox | None, max_px: int) -> Window:
    whole = Window(col_off=0, row_off=0, width=source.width, height=source.height)
    window: Window | None = whole
    if box is not None:
        west, south, east, north = box
        edge = shapely.get_coordinates(shapely.segmentize(shapely.box(west, south, east, north), (east - west + north - south) / 32))
        try:
            x, y = Transformer.from_crs(LON_LAT, source.crs, always_xy=True).transform(edge[:, 0], edge[:, 1], errcheck=True)
        except ProjError as error:
            raise FetchError(f"raster {source.name}: bbox {list(box)} is outside of its CRS ({error}); give the place it shows") from error
        points = apply_affine(invert_affine(source.transform), np.column_stack([x, y]))
        window = clip_window(window_of_points(points), source.width, source.height)
    if window is None:
        raise FetchError(f"raster {source.name}: bbox {list(box or ())} lies outside of it; give the place it shows")
    if window.width * window.height > max_px:
        raise FetchError(
            f"raster {source.name}: {window.width} × {window.height} pixels are asked for, more than run.network.max_px = {max_px}; "
            "give a smaller bbox"
        )
    return window
