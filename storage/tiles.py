"""Tiles of web maps: the tiles of one zoom over a box, put together in EPSG:3857 without resampling, kept as a snapshot.

Source: OGC Two Dimensional Tile Matrix Set 2.0, WebMercatorQuad (rows from the top, tile 0/0/0 is the square world).
"""

import io
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from storage.rasters import write_native_tif
from storage.remote import Snapshot, Snapshots, Web
from trigpoint.errors import FetchError, InputError
from trigpoint.imagery.bbox import LonLatBox
from trigpoint.imagery.patch import Colours, Patch
from trigpoint.records.scene import Window

HALF_WORLD_M = math.pi * 6378137.0
"""Half the side of the square world in EPSG:3857, m."""

MAX_LATITUDE = math.degrees(math.atan(math.sinh(math.pi)))
"""Latitude at which the square world ends, 85.05°."""

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")


class TileRange(NamedTuple):
    """Tiles that cover a box: columns x0, x0 + 1, ... (round the antimeridian, modulo 2^zoom), rows y0, y0 + 1, ... from the top."""

    zoom: int
    x0: int
    y0: int
    n_cols: int
    n_rows: int


def tile_range(box: LonLatBox, zoom: int) -> TileRange:
    """Return the tiles that cover a box.

    Raises:
        InputError: the box lies beyond 85.05° of latitude.

    >>> tile_range((179.5, -17.5, -179.5, -16.5), 9)
    TileRange(zoom=9, x0=511, y0=279, n_cols=2, n_rows=3)
    """
    west, south, east, north = box
    if south >= MAX_LATITUDE or north <= -MAX_LATITUDE:
        raise InputError(f"bbox {list(box)} lies where web maps have no tiles, beyond {MAX_LATITUDE:.2f}° of latitude")
    n = 1 << zoom
    x0, x1 = _column(west, n), _last(_column_edge(east, n), n)
    y0 = min(max(math.floor(_row_edge(min(north, MAX_LATITUDE), n)), 0), n - 1)
    y1 = _last(_row_edge(max(south, -MAX_LATITUDE), n), n)
    n_cols = x1 - x0 + 1 if west < east else n - x0 + x1 + 1
    return TileRange(zoom, x0, y0, min(max(n_cols, 1), n), max(y1 - y0 + 1, 1))


def _column_edge(lon: float, n: int) -> float:
    return (lon + 180.0) / 360.0 * n


def _column(lon: float, n: int) -> int:
    return min(max(math.floor(_column_edge(lon, n)), 0), n - 1)


def _row_edge(lat: float, n: int) -> float:
    return (1.0 - math.asinh(math.tan(math.radians(lat))) / math.pi) / 2.0 * n


def _last(edge: float, n: int) -> int:
    """The last tile that an edge reaches into: an edge between two tiles belongs to the one before it."""
    return min(max(math.ceil(edge) - 1, 0), n - 1)


def request_of(url: str, tile_px: int, tiles: TileRange) -> dict[str, Any]:
    """Return what identifies a mosaic of tiles."""
    return {"kind": "tiles", "url": url, "tile_px": tile_px, **tiles._asdict()}


def fetch_tiles(web: Web, snapshots: Snapshots, url: str, tile_px: int, tiles: TileRange, max_tiles: int, max_px: int) -> Snapshot:
    """Return the mosaic of a range of tiles as GeoTIFF: red, green, blue; what has no tile, or is seen through, is invalid.

    Every tile is kept as soon as it came: an interrupted fetch goes on where it was.

    Raises:
        FetchError: there are too many tiles, a server fails, a tile is no picture or of another size, or there is no tile at all.
    """
    request = request_of(url, tile_px, tiles)
    known = snapshots.find(request)
    if known is not None:
        return known
    shown = url.split("?")[0]
    n_tiles, n_px = tiles.n_cols * tiles.n_rows, tiles.n_cols * tiles.n_rows * tile_px**2
    if n_tiles > max_tiles or n_px > max_px:
        raise FetchError(
            f"tiles {shown}: {n_tiles} tiles with {n_px} pixels are asked for, more than run.network.max_tiles = {max_tiles} or "
            f"max_px = {max_px}; give a smaller bbox or zoom"
        )
    pixels = np.zeros((3, tiles.n_rows * tile_px, tiles.n_cols * tile_px), np.uint8)
    valid = np.zeros(pixels.shape[1:], bool)
    n_missing = 0
    for row in range(tiles.n_rows):
        for col in range(tiles.n_cols):
            data = _tile(web, snapshots, _url_of(url, tiles.zoom, (tiles.x0 + col) % (1 << tiles.zoom), tiles.y0 + row))
            if not data:
                n_missing += 1
                continue
            here = np.s_[row * tile_px : (row + 1) * tile_px, col * tile_px : (col + 1) * tile_px]
            rgb, seen = _decoded(data, tile_px, f"tile {tiles.zoom}/{tiles.x0 + col}/{tiles.y0 + row} of {shown}")
            pixels[(slice(None), *here)], valid[here] = rgb, seen
    if n_missing == n_tiles:
        raise FetchError(f"tiles {shown}: the server has none of the {n_tiles} tiles; check zoom and bbox")
    step = 2 * HALF_WORLD_M / (1 << tiles.zoom)
    pixel = step / tile_px
    transform = (pixel, 0.0, tiles.x0 * step - HALF_WORLD_M, 0.0, -pixel, HALF_WORLD_M - tiles.y0 * step)
    window = Window(col_off=0, row_off=0, width=pixels.shape[2], height=pixels.shape[1])
    patch = Patch(pixels, valid, transform, "EPSG:3857", window, Colours(("red", "green", "blue")))
    facts = {"url": shown, "n_tiles": n_tiles, "n_missing": n_missing}
    return snapshots.save(request, write_native_tif(patch), ".tif", facts)


def _url_of(template: str, zoom: int, x: int, y: int) -> str:
    values = {"{z}": zoom, "{x}": x, "{y}": y, "{-y}": (1 << zoom) - 1 - y}
    for name, value in values.items():
        template = template.replace(name, str(value))
    return template


def _tile(web: Web, snapshots: Snapshots, url: str) -> bytes:
    """Return the bytes of a tile; none where the server has no tile."""
    request = {"kind": "tile", "url": url}
    known = snapshots.find(request)
    if known is not None:
        return known.path.read_bytes()
    answer = web.get(url, accept_missing=True)
    data = answer.content if answer.status == 200 else b""
    snapshots.save(request, data, ".tile")
    return data


def _decoded(data: bytes, tile_px: int, what: str) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return (3, row, col) and where it is not seen through; pixels as the tile has them, palettes in their colours."""
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.size != (tile_px, tile_px):
                raise FetchError(f"{what} has {image.size[0]} × {image.size[1]} pixels, expected {tile_px} (imagery.tiles.tile_px)")
            rgba = np.asarray(image.convert("RGBA"))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise FetchError(f"{what} is no whole picture ({error}); the server sent {data[:60]!r}") from error
    return np.moveaxis(rgba[..., :3], -1, 0), rgba[..., 3] > 0
