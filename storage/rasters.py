"""Rasters in and out: sources, patches in native pixels, index maps and bit planes.

Pixels are read as they are; nothing here resamples, reprojects or stretches. Files we write are deterministic: the same
pixels give the same bytes with the same GDAL. Not here: pictures (`trigpoint.imagery.view`), which windows to cut (tasks).
"""

import contextlib
import math
import warnings
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import rasterio
import rasterio.crs
from affine import Affine
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from pyproj import CRS
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.io import DatasetReader, MemoryFile
from rasterio.windows import Window as RasterioWindow

from storage.crs import crs_text, expect_earth, parse_crs
from storage.digests import source_digest
from trigpoint.errors import RasterError
from trigpoint.geometry.frames import apply_affine, invert_affine
from trigpoint.imagery.patch import Colours, Patch, valid_from_pixels
from trigpoint.imagery.windows import Bounds, bounds_of_grid, clip_window, transform_of_window
from trigpoint.records.scene import Transform, Window

MAX_WINDOW_PX = 1 << 31
"""Largest window that is read at once, pixels."""

MAX_SOURCE_PX = 1 << 42
"""Largest raster that is opened, pixels: 2 million by 2 million."""

TILE_PX = 512
"""Side of the tiles of the GeoTIFFs we write, pixels."""

VALID_TAG = "valid_rle"
"""GeoTIFF tag (namespace TRIGPOINT) with the validity of a scene where nodata and alpha do not tell it: run lengths,
column-major, beginning with invalid pixels, separated by spaces."""

_NAMESPACE = "TRIGPOINT"
_ORIENTATION_TAG = 0x0112
_MAGIC = (
    ((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), "GTiff"),
    ((b"\xff\xd8\xff",), "JPEG"),
    ((b"\x89PNG\r\n\x1a\n",), "PNG"),
    ((b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51"), "JP2OpenJPEG"),
)


@dataclass(frozen=True, eq=False)
class RasterSource:
    """An open raster and what is known of it; close it, or use it as a context manager.

    Attributes:
        path: The file.
        width, height, count: Columns, rows, bands.
        dtype: numpy name of the pixels' type.
        crs: Authority code or WKT.
        transform: Affine order a, b, c, d, e, f, pixel edges to `crs`; may be rotated.
        nodata: May be NaN; None without one, or when the type of the pixels cannot hold it.
        colours: Interpretation of the bands and colour table.
        crs_overridden: The CRS is the configuration's, because the file has none or another.
        digest_cache: Where digests of large files are remembered.
        name: How messages call it.
    """

    path: Path
    width: int
    height: int
    count: int
    dtype: str
    crs: str
    transform: Transform
    nodata: float | None
    colours: Colours
    crs_overridden: bool
    digest_cache: Path | None = field(repr=False)
    name: str
    _dataset: DatasetReader = field(repr=False)

    @property
    def has_alpha(self) -> bool:
        """Whether a band says which pixels are seen through."""
        return self.colours.alpha_band is not None

    @property
    def bounds_crs(self) -> Bounds:
        """Bounds (left, bottom, right, top) in `crs`, from all four corners."""
        return bounds_of_grid(self.transform, self.width, self.height)

    @property
    def is_rotated(self) -> bool:
        """Whether rows do not run along the axes of the CRS: image-up is not the CRS's north."""
        return self.transform[1] != 0 or self.transform[3] != 0

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the file's bytes."""
        return source_digest(self.path, self.digest_cache)

    @cached_property
    def sidecar_sha256(self) -> dict[str, str]:
        """SHA-256 of every file beside it that GDAL reads too (`.aux.xml`, `.msk`, `.tfw`), by file name."""
        others = [Path(name) for name in self._dataset.files if Path(name).resolve() != self.path.resolve()]
        return {other.name: source_digest(other, self.digest_cache) for other in sorted(others)}

    def close(self) -> None:
        """Close the file."""
        self._dataset.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Grid(NamedTuple):
    """One band of whole numbers with its place.

    Attributes:
        array: (row, col).
        crs: Authority code or WKT.
        transform: Affine order a, b, c, d, e, f.
    """

    array: NDArray[Any]
    crs: str
    transform: Transform


def is_same_crs(a: RasterSource, b: RasterSource) -> bool:
    """Whether two rasters are in one CRS, however it is written."""
    return a.crs == b.crs or CRS.from_user_input(a.crs).equals(CRS.from_user_input(b.crs), ignore_axis_order=True)


def is_same_grid(a: RasterSource, b: RasterSource) -> bool:
    """Whether the pixels of two rasters are the same places: size, CRS and, within a hundredth of a pixel, corners."""
    if (a.width, a.height) != (b.width, b.height) or not is_same_crs(a, b):
        return False
    corners = np.array([[0, 0], [a.width, 0], [a.width, a.height], [0, a.height]], dtype=np.float64)
    there = apply_affine(invert_affine(b.transform), apply_affine(a.transform, corners))
    return bool(np.abs(there - corners).max() <= 0.01)


def open_source(
    path: str | Path,
    crs_override: str | None = None,
    digest_cache: Path | None = None,
    max_source_px: int = MAX_SOURCE_PX,
) -> RasterSource:
    """Open a raster (GeoTIFF, JPEG, PNG or JPEG 2000, told by its first bytes) with a place on the Earth.

    Args:
        path: A local file.
        crs_override: The configuration's key `crs` of this source; used instead of the file's own CRS, and recorded.
        digest_cache: See `source_digest`.
        max_source_px: Larger rasters are refused.

    Raises:
        RasterError: the file is missing, no raster, too large, without CRS and override, without georeferencing, placed
            by ground control points or RPCs alone, or not on the Earth.
    """
    path = Path(path)
    return source_of(_open(path, repr(str(path))), path, repr(str(path)), crs_override, digest_cache, max_source_px)


def source_of(
    dataset: DatasetReader,
    path: Path,
    name: str,
    crs_override: str | None = None,
    digest_cache: Path | None = None,
    max_source_px: int = MAX_SOURCE_PX,
) -> RasterSource:
    """Check an open raster and say what it is; it is closed when it cannot be used.

    Args:
        dataset: An open raster; the caller has made sure that its driver follows nothing else.
        path: The file, or where it would be.
        name: How messages call it.
        crs_override: See `open_source`, as the two below.
        digest_cache: See there.
        max_source_px: See there.

    Raises:
        RasterError: as `open_source` does.
    """
    try:
        n_px = dataset.width * dataset.height
        if n_px > max_source_px:
            raise RasterError(
                f"raster {name} has {dataset.width} x {dataset.height} = {n_px} pixels, at most {max_source_px} are allowed; cut it"
            )
        crs, overridden = _crs_of(dataset, name, crs_override)
        return RasterSource(
            path=path,
            width=dataset.width,
            height=dataset.height,
            count=dataset.count,
            dtype=_dtype_of(dataset, name),
            crs=crs_text(crs),
            transform=_unmirrored(_transform_of(dataset, name), name),
            nodata=_nodata_of(dataset),
            colours=_colours_of(dataset),
            crs_overridden=overridden,
            digest_cache=digest_cache,
            name=name,
            _dataset=dataset,
        )
    except BaseException:
        dataset.close()
        raise


def exif_orientation(path: str | Path) -> int:
    """Return a picture's turn tag, 1 (not turned) without one; GDAL and trigpoint read pixels as they are stored, whatever it says.

    Raises:
        RasterError: the file is no JPEG, PNG or WebP, or damaged.
    """
    try:
        with Image.open(path, formats=("JPEG", "PNG", "WEBP")) as image:
            return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise RasterError(
            f"picture {str(path)!r} cannot be read: {error}; the file is damaged or of another kind: copy it again"
        ) from error


def read_window(source: RasterSource, window: Window, max_window_px: int = MAX_WINDOW_PX) -> Patch:
    """Read a window in native pixels; what lies outside the source is padded and invalid.

    Args:
        source: An open source.
        window: Native pixels; may reach over the edge.
        max_window_px: Larger windows are refused.

    Raises:
        RasterError: the window is too large, lies outside altogether, or bytes of the file are missing or broken (nothing
            is ever filled in for them); the message names file and window.
    """
    what = f"raster {source.name}, window {window.as_tuple()} (col_off, row_off, width, height)"
    if window.width * window.height > max_window_px:
        raise RasterError(
            f"{what} has {window.width * window.height} pixels, at most {max_window_px} are read at once; take smaller windows"
        )
    inside = clip_window(window, source.width, source.height)
    if inside is None:
        raise RasterError(f"{what} lies outside the source of {source.width} x {source.height} pixels; check the transform and the CRS")
    fill = 0 if source.nodata is None else source.nodata
    pixels = np.full((source.count, window.height, window.width), fill, dtype=source.dtype)
    valid = np.zeros((window.height, window.width), bool)
    rows = slice(inside.row_off - window.row_off, inside.row_off - window.row_off + inside.height)
    cols = slice(inside.col_off - window.col_off, inside.col_off - window.col_off + inside.width)
    dataset = source._dataset  # pyright: ignore[reportPrivateUsage] (the class and its reader are one)
    region = RasterioWindow(inside.col_off, inside.row_off, inside.width, inside.height)  # pyright: ignore[reportCallIssue]
    try:
        pixels[:, rows, cols] = dataset.read(window=region)
        valid[rows, cols] = valid_from_pixels(pixels[:, rows, cols], source.colours, source.nodata)
        if _has_mask(dataset):
            valid[rows, cols] &= dataset.read_masks(1, window=region) > 0
    except (RasterioError, OSError) as error:
        raise RasterError(f"{what} cannot be read: {_why(error)}; the file is damaged or cut short: copy it again") from error
    alpha = source.colours.alpha_band
    if alpha is not None:
        outside = np.ones((window.height, window.width), bool)
        outside[rows, cols] = False
        pixels[alpha][outside] = 0
    return Patch(pixels, valid, transform_of_window(source.transform, window), source.crs, window, source.colours, source.nodata)


def write_scene_tif(patch: Patch) -> bytes:
    """Return a GeoTIFF of native pixels: tiled 512, deflate with predictor, all bands, nodata, alpha and colours kept.

    There is no internal mask. Where nodata and alpha do not tell which pixels are valid (padding, the source's mask), the
    tag `valid_rle` of namespace TRIGPOINT does, and `read_scene_tif` reads it.
    """
    with _creating_patch(patch) as (memory, dataset):
        if not _is_valid_told(patch):
            dataset.update_tags(ns=_NAMESPACE, **{VALID_TAG: _runs_text(patch.valid)})
        dataset.write(patch.pixels)
        dataset.close()
        return bytes(memory.read())


def write_native_tif(patch: Patch) -> bytes:
    """Return a GeoTIFF for other programs, too: as `write_scene_tif`, but what nodata and alpha do not tell is an internal mask."""
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), _creating_patch(patch) as (memory, dataset):
        dataset.write(patch.pixels)
        if not _is_valid_told(patch):
            dataset.write_mask(patch.valid)
        dataset.close()
        return bytes(memory.read())


def _is_valid_told(patch: Patch) -> bool:
    """Whether nodata and alpha alone tell which pixels are valid."""
    return np.array_equal(patch.valid, valid_from_pixels(patch.pixels, patch.colours, patch.nodata))


def read_scene_tif(data: bytes | Path) -> Patch:
    """Read a GeoTIFF that `write_scene_tif` wrote, from bytes or a file; its window is that of the file itself.

    Raises:
        RasterError: it cannot be read.
    """
    with _reading(data) as (dataset, name):
        colours, nodata = _colours_of(dataset), _nodata_of(dataset)
        pixels = dataset.read()
        valid = valid_from_pixels(pixels, colours, nodata)
        text = dataset.tags(ns=_NAMESPACE).get(VALID_TAG)
        if text is not None:
            valid = _valid_from_runs(text, valid.shape, name)
        crs, _ = _crs_of(dataset, name, None)
        window = Window(col_off=0, row_off=0, width=dataset.width, height=dataset.height)
        return Patch(pixels, valid, _transform_of(dataset, name), crs_text(crs), window, colours, nodata)


def write_label_tif(labels: NDArray[np.uint16], crs: str, transform: Transform) -> bytes:
    """Return an index map as GeoTIFF: (row, col) uint16, 0 = nothing, ZSTD, tiled 512.

    Raises:
        RasterError: the array is not (row, col) uint16.
    """
    return _write_grid(labels, crs, transform, ("uint16",))


def write_plane_tif(planes: NDArray[Any], crs: str, transform: Transform) -> bytes:
    """Return bit planes as GeoTIFF: (row, col) uint8, uint16 or uint32, bit p = plane p, ZSTD, tiled 512.

    Raises:
        RasterError: the array is of another shape or type.
    """
    return _write_grid(planes, crs, transform, ("uint8", "uint16", "uint32"))


def read_label_tif(data: bytes | Path) -> Grid:
    """Read an index map.

    Raises:
        RasterError: it cannot be read, or is not one band of uint16.
    """
    return _read_grid(data, ("uint16",))


def read_plane_tif(data: bytes | Path) -> Grid:
    """Read bit planes.

    Raises:
        RasterError: it cannot be read, or is not one band of uint8, uint16 or uint32.
    """
    return _read_grid(data, ("uint8", "uint16", "uint32"))


def _open(path: Path, name: str) -> DatasetReader:
    """Open a file with the one driver that its first bytes ask for, so that nothing else (VRT, URL) is ever followed."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise RasterError(f"raster {name} cannot be read: {error.strerror}; check the path in the configuration") from error
    driver = next((driver for magics, driver in _MAGIC if head.startswith(magics)), None)
    if driver is None:
        raise RasterError(f"raster {name} is no GeoTIFF, JPEG, PNG or JPEG 2000 (it begins with {head[:8]!r}); convert it to GeoTIFF")
    with _quiet():
        try:
            return rasterio.open(path.resolve(), driver=driver)
        except (RasterioError, OSError) as error:
            raise RasterError(f"raster {name} cannot be opened: {_why(error)}; the file is damaged or cut short: copy it again") from error


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Silence rasterio's warning about missing georeferencing: `_transform_of` raises a better one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


@contextlib.contextmanager
def _reading(data: bytes | Path) -> Generator[tuple[DatasetReader, str]]:
    name = repr(str(data)) if isinstance(data, Path) else f"of {len(data)} bytes"
    try:
        if isinstance(data, Path):
            with _open(data, name) as dataset:
                yield dataset, name
        else:
            with MemoryFile(data) as memory:
                with _quiet():
                    dataset = memory.open(driver="GTiff")
                with dataset:
                    yield dataset, name
    except (RasterioError, OSError) as error:
        raise RasterError(f"raster {name} cannot be read: {_why(error)}; the file is damaged: make it again") from error


@contextlib.contextmanager
def _creating(
    dtype: np.dtype[Any], count: int, shape: tuple[int, int], crs: str, transform: Transform, compress: str, options: dict[str, Any]
) -> Generator[tuple[MemoryFile, Any]]:
    with MemoryFile() as memory, _quiet():
        dataset = memory.open(
            driver="GTiff",
            dtype=dtype.name,
            count=count,
            height=shape[0],
            width=shape[1],
            crs=rasterio.crs.CRS.from_user_input(crs),
            transform=Affine(*transform),
            tiled=True,
            blockxsize=TILE_PX,
            blockysize=TILE_PX,
            compress=compress,
            bigtiff="IF_SAFER",
            **options,
        )
        with dataset:
            yield memory, dataset


@contextlib.contextmanager
def _creating_patch(patch: Patch) -> Generator[tuple[MemoryFile, Any]]:
    """Open a GeoTIFF for the pixels of a patch, with its nodata and colours."""
    count, height, width = patch.pixels.shape
    dtype, names = patch.pixels.dtype, patch.colours.interpretation
    options: dict[str, Any] = {"interleave": "pixel" if count <= 4 else "band", "photometric": _photometric(names)}
    if dtype.kind != "c":
        options["predictor"] = 3 if dtype.kind == "f" else 2
    with _creating(dtype, count, (height, width), patch.crs, patch.transform, "deflate", options) as (memory, dataset):
        if patch.nodata is not None:
            dataset.nodata = patch.nodata
        dataset.colorinterp = [ColorInterp[name] for name in names]
        if patch.colours.table is not None:
            dataset.write_colormap(1, patch.colours.table)
        yield memory, dataset


def _write_grid(array: NDArray[Any], crs: str, transform: Transform, dtypes: tuple[str, ...]) -> bytes:
    if array.ndim != 2 or array.dtype.name not in dtypes:
        raise RasterError(f"array is {array.dtype.name} {array.shape}, expected (row, col) of {' or '.join(dtypes)}; convert it first")
    shape = (array.shape[0], array.shape[1])
    with _creating(array.dtype, 1, shape, crs, transform, "zstd", {"zstd_level": 9}) as (memory, dataset):
        dataset.write(array, 1)
        dataset.close()
        return bytes(memory.read())


def _read_grid(data: bytes | Path, dtypes: tuple[str, ...]) -> Grid:
    with _reading(data) as (dataset, name):
        if dataset.count != 1 or dataset.dtypes[0] not in dtypes:
            raise RasterError(f"raster {name} has bands {list(dataset.dtypes)}, expected one of {' or '.join(dtypes)}; give the right file")
        crs, _ = _crs_of(dataset, name, None)
        return Grid(dataset.read(1), crs_text(crs), _transform_of(dataset, name))


def _crs_of(dataset: DatasetReader, name: str, override: str | None) -> tuple[CRS, bool]:
    own = CRS.from_wkt(dataset.crs.to_wkt()) if dataset.crs else None
    if dataset.transform.is_identity:
        if dataset.gcps[0]:
            found, remedy = f"{len(dataset.gcps[0])} ground control points", "warp it first (gdalwarp)"
        elif dataset.rpcs is not None:
            found, remedy = "rational polynomial coefficients", "orthorectify it first (gdalwarp -rpc)"
        else:
            found, remedy = "the identity", "give it a world file, or take the georeferenced original"
        raise RasterError(f"raster {name} has no georeferencing: expected an affine transform, found {found}; {remedy}")
    if override is not None:
        crs = parse_crs(override, f"key 'crs' for raster {name}", RasterError)
        return crs, own is None or not own.equals(crs, ignore_axis_order=True)
    if own is None:
        raise RasterError(f"raster {name} has no CRS; set the key 'crs' of this source in the configuration, for example 'EPSG:32633'")
    expect_earth(own, f"raster {name}", RasterError)
    return own, False


def _transform_of(dataset: DatasetReader, name: str) -> Transform:
    a, b, c, d, e, f = (float(v) for v in tuple(dataset.transform)[:6])
    determinant = a * e - b * d
    if not all(math.isfinite(v) for v in (a, b, c, d, e, f)) or determinant == 0:
        raise RasterError(f"raster {name} has the transform {(a, b, c, d, e, f)}, expected one with an inverse; repair its georeferencing")
    return (a, b, c, d, e, f)


def _unmirrored(transform: Transform, name: str) -> Transform:
    """Return a transform whose image has its right side in the east where its top is in the north.

    Raises:
        RasterError: it is mirrored that way: `left of` and `west of` would not mean the same in a picture that looks north-up.
    """
    a, b, _, d, e, _ = transform
    if a * e - b * d > 0 and -e > abs(b):
        raise RasterError(f"raster {name} has the transform {transform}: north is up and west is right; flip it (gdalwarp)")
    return transform


def _dtype_of(dataset: DatasetReader, name: str) -> str:
    kinds = sorted(set(dataset.dtypes))
    if len(kinds) != 1:
        raise RasterError(f"raster {name} mixes pixel types {kinds}, expected one; split it into files of one type each")
    return _numpy_name(str(kinds[0]))


def _numpy_name(kind: str) -> str:
    return "complex64" if kind == "complex_int16" else kind


def _nodata_of(dataset: DatasetReader) -> float | None:
    if dataset.nodata is None:
        return None
    value = float(dataset.nodata)
    kind: np.dtype[Any] = np.dtype(_numpy_name(str(dataset.dtypes[0])))
    if kind.kind in "iu":
        limits = np.iinfo(kind.name)
        return value if value.is_integer() and limits.min <= value <= limits.max else None
    return value


def _colours_of(dataset: DatasetReader) -> Colours:
    names = tuple(str(entry.name) for entry in dataset.colorinterp)
    try:
        table = {int(key): (int(r), int(g), int(b), int(a)) for key, (r, g, b, a) in dataset.colormap(1).items()}
    except ValueError:
        table = None
    return Colours(names, table)


def _has_mask(dataset: DatasetReader) -> bool:
    flags = dataset.mask_flag_enums[0]
    return MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags


def _photometric(names: tuple[str, ...]) -> str:
    if names[:3] == ("red", "green", "blue"):
        return "RGB"
    return "PALETTE" if names == ("palette",) else "MINISBLACK"


def _runs_text(valid: NDArray[np.bool_]) -> str:
    flat = valid.ravel(order="F")
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    runs = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
    return " ".join(str(run) for run in ([0, *runs] if flat[0] else runs))


def _valid_from_runs(text: str, shape: tuple[int, ...], name: str) -> NDArray[np.bool_]:
    size = math.prod(shape)
    try:
        runs = np.array([int(word) for word in text.split()], dtype=np.int64)
    except ValueError:
        runs = np.array([-1])
    if (runs < 0).any() or int(runs.sum()) != size:
        raise RasterError(f"raster {name} has a broken tag {VALID_TAG!r}, expected runs that add up to {size}; make the file again")
    return np.repeat(np.arange(runs.size) % 2 == 1, runs).reshape(shape, order="F")


def _why(error: BaseException) -> str:
    """Return the message of GDAL that says most: the deepest cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__
