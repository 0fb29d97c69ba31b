"""GDAL's virtual rasters: mosaics of files in native pixels, put together once into a GeoTIFF.

A VRT can name any path, URL or Python function. Only plain mosaics are read: files in its own folder (or below), copied pixel by
pixel, no scaling, no warping. Source: the VRT driver's schema in GDAL's documentation.
"""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import rasterio
from rasterio.errors import RasterioError

from storage.rasters import is_same_crs, open_source, read_window, source_of, write_native_tif
from storage.remote import Snapshot, Snapshots
from trigpoint.errors import RasterError
from trigpoint.identity import digest_file
from trigpoint.records.scene import Window

MAX_XML_BYTES = 16 << 20
"""Largest VRT file, bytes."""

MAX_FILES = 10_000

_TOP = frozenset({"SRS", "GeoTransform", "VRTRasterBand", "Metadata", "BlockXSize", "BlockYSize", "OverviewList"})
_BAND = frozenset(
    {"SimpleSource", "ComplexSource", "ColorInterp", "NoDataValue", "HideNoDataValue", "Description", "Metadata", "ColorTable", "UnitType"}
)
_SOURCE = frozenset({"SourceFilename", "SourceBand", "SourceProperties", "SrcRect", "DstRect", "NODATA"})


def files_of_vrt(path: Path) -> list[Path]:
    """Return the files that a VRT mosaics, sorted.

    Raises:
        RasterError: it is no plain mosaic of files in its own folder.
    """
    name = f"VRT {str(path)!r}"
    root = _parsed(path, name)
    _expect(name, root, "VRTDataset", _TOP)
    found: set[Path] = set()
    for band in root.iter("VRTRasterBand"):
        _expect(name, band, "VRTRasterBand", _BAND)
        for source in (*band.iter("SimpleSource"), *band.iter("ComplexSource")):
            _expect(name, source, source.tag, _SOURCE)
            if source.get("resampling"):
                raise RasterError(f"{name} resamples ({source.get('resampling')}); build it in native pixels (gdalbuildvrt)")
            _expect_native(name, source)
            found.add(_file_of(name, path, source))
    if not found or len(found) > MAX_FILES:
        raise RasterError(f"{name} names {len(found)} files, expected 1 to {MAX_FILES}; build it again (gdalbuildvrt)")
    return sorted(found)


def _parsed(path: Path, name: str) -> ElementTree.Element:
    try:
        if path.stat().st_size > MAX_XML_BYTES:
            raise RasterError(f"{name} has more than {MAX_XML_BYTES} bytes; split it")
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise RasterError(f"{name} cannot be read: {error.strerror}; check the path in the configuration") from error
    except UnicodeDecodeError as error:
        raise RasterError(f"{name} is not UTF-8; build it again (gdalbuildvrt)") from error
    if re.search(r"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise RasterError(f"{name} has a DOCTYPE, which may define entities; remove it, the format has none")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise RasterError(f"{name} is no XML: {error}; build it again (gdalbuildvrt)") from error


def _expect(name: str, element: ElementTree.Element, tag: str, known: frozenset[str]) -> None:
    if element.tag != tag or element.get("subClass") is not None:
        raise RasterError(
            f"{name}: {element.tag} {element.get('subClass') or ''} is no plain mosaic; make a GeoTIFF of it (gdal_translate)"
        )
    strange = sorted({child.tag for child in element} - known)
    if strange:
        raise RasterError(f"{name}: {tag} holds {', '.join(strange)}: no plain mosaic; make a GeoTIFF of it (gdal_translate)")


def _expect_native(name: str, source: ElementTree.Element) -> None:
    """Raise unless a source is copied pixel by pixel: both rectangles have one size and begin on whole pixels."""
    sizes: list[tuple[float, float]] = []
    for tag in ("SrcRect", "DstRect"):
        rect = source.find(tag)
        try:
            x, y, w, h = (float((rect.attrib if rect is not None else {})[key]) for key in ("xOff", "yOff", "xSize", "ySize"))
        except (KeyError, ValueError) as error:
            raise RasterError(f"{name}: a source has no whole {tag}; build it again (gdalbuildvrt)") from error
        if any(abs(v - round(v)) > 1e-6 for v in (x, y, w, h)):
            raise RasterError(
                f"{name}: a source begins or ends between pixels ({tag} {x}, {y}, {w}, {h}): it would be resampled; warp it first"
            )
        sizes.append((round(w), round(h)))
    if sizes[0] != sizes[1]:
        raise RasterError(
            f"{name}: a source of {sizes[0]} pixels is drawn on {sizes[1]}: it would be resampled; use files of one pixel size"
        )


def _file_of(name: str, path: Path, source: ElementTree.Element) -> Path:
    element = source.find("SourceFilename")
    text = (element.text or "").strip() if element is not None else ""
    folder = path.resolve().parent
    file = (folder / text).resolve()
    is_near = element is not None and element.get("relativeToVRT") == "1" and file.is_relative_to(folder)
    if not text or "://" in text or text.startswith("/vsi") or not is_near:
        raise RasterError(f"{name} names {text!r}, expected a file in its own folder, relative to it; build it there (gdalbuildvrt)")
    if not file.is_file():
        raise RasterError(f"{name} names {text!r}, which is not there; copy it beside the VRT")
    return file


def request_of(path: Path, crs_override: str | None) -> dict[str, Any]:
    """Return what identifies the mosaic: the bytes of the VRT and of its files.

    Raises:
        RasterError: it is no plain mosaic.
    """
    files = files_of_vrt(path)
    folder = path.resolve().parent
    digests = {file.relative_to(folder).as_posix(): digest_file(file) for file in files}
    return {"kind": "vrt", "sha256": digest_file(path), "files": digests, "crs": crs_override}


def put_together(snapshots: Snapshots, path: Path, crs_override: str | None, max_px: int) -> Snapshot:
    """Return the mosaic of a VRT as a GeoTIFF of native pixels.

    Raises:
        RasterError: it is no plain mosaic, a file of it is no raster or in another CRS, or it has too many pixels.
    """
    request = request_of(path, crs_override)
    known = snapshots.find(request)
    if known is not None:
        return known
    name = f"VRT {str(path)!r}"
    try:
        dataset = rasterio.open(path.resolve(), driver="VRT")
    except (RasterioError, OSError) as error:
        raise RasterError(f"{name} cannot be opened: {error}; build it again (gdalbuildvrt)") from error
    with source_of(dataset, path, name, crs_override, max_source_px=max_px) as source:
        for file in files_of_vrt(path):
            with open_source(file, crs_override) as part:
                if not is_same_crs(part, source):
                    raise RasterError(
                        f"{name}: {file.name} is in {part.crs[:80]!r}, the mosaic in {source.crs[:80]!r}; warp it first, then build the "
                        "mosaic again (gdalbuildvrt)"
                    )
        patch = read_window(source, Window(col_off=0, row_off=0, width=source.width, height=source.height))
    return snapshots.save(request, write_native_tif(patch), ".tif", {"n_files": len(request["files"])})
