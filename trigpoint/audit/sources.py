"""Re-cutting: with the original rasters at hand, every scene's window is read again and compared pixel by pixel.

Not here: anything that a release alone can prove.
"""

from pathlib import Path

import numpy as np
import rasterio

from trigpoint.audit.files import digest
from trigpoint.audit.findings import Notebook
from trigpoint.audit.georeferencing import open_raster
from trigpoint.audit.reading import Release


def find_sources(folder: Path, wanted: set[str]) -> dict[str, Path]:
    """Return SHA-256 → file for the wanted digests, looking through `folder` and everything below it, links not followed."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and len(found) < len(wanted):
            sha256 = digest(path)
            if sha256 in wanted:
                found.setdefault(sha256, path)
    return found


def check_sources(release: Release, folder: Path, notes: Notebook) -> None:
    """Find each scene's source by its digest, cut the window again and compare shape, kind and every pixel."""
    sources = find_sources(folder, {scene.source_sha256 for scene in release.scenes.values()})
    for scene in release.scenes.values():
        notes.count("recut")
        path = sources.get(scene.source_sha256)
        if path is None:
            notes.add("source_not_found", "scenes.parquet", scene.scene_id, f"a file with SHA-256 {scene.source_sha256}", "none")
            continue
        with notes.guard("recut_differs", scene.path, scene.scene_id), rasterio.open(path) as source:
            column, row, width, height = scene.window
            if column < 0 or row < 0 or column + width > source.width or row + height > source.height:
                notes.add(
                    "recut_differs", "scenes.parquet", scene.scene_id, f"within {source.width} x {source.height} px", list(scene.window)
                )
                continue
            with open_raster(release.folder, scene.path) as cut:
                pixels = cut.read()
            original = source.read(window=((row, row + height), (column, column + width)))
            if original.shape != pixels.shape or original.dtype != pixels.dtype:
                notes.add(
                    "recut_differs", scene.path, scene.scene_id, f"{original.shape} {original.dtype}", f"{pixels.shape} {pixels.dtype}"
                )
            else:
                floating = np.issubdtype(original.dtype, np.inexact)
                same = (original == pixels) | (np.isnan(original) & np.isnan(pixels) if floating else False)
                if not same.all():
                    notes.add(
                        "recut_differs", scene.path, scene.scene_id, "the pixels of the source", f"{int((~same).sum())} values differ"
                    )
