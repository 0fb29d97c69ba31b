"""Shares of a scene's pixels that show little: of one value, saturated. Clouds cannot be re-derived: their mask is not in a release.

Not here: the valid share (`trigpoint.audit.georeferencing`).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rasterio.enums import ColorInterp

from trigpoint.audit.findings import Notebook
from trigpoint.audit.georeferencing import open_raster
from trigpoint.audit.reading import Release, Scene

SLACK = 1e-4
"""Shares may differ by this, as the valid share may."""

SATURATED = 250 / 255
"""Share of a whole-number type's largest value from which a value is saturated (docs/release-format.md)."""

MIX = np.uint64(0x9E3779B97F4A7C15)
"""Odd: words of a pixel are mixed into one key by multiplying with it."""


def check_quality(release: Release, scene: Scene, valid: NDArray[np.bool_], notes: Notebook) -> None:
    """Compare the shares that a scene's row has with its pixels; what is null was not measured."""
    name, item = "scenes.parquet", scene.scene_id
    for what in ("blank_share", "bright_share", "cloud_share"):
        found = getattr(scene, what)
        if found is not None and not (math.isfinite(found) and 0 <= found <= 1):
            notes.add("quality_wrong", name, f"{item} {what}", "0 to 1, or null", found)
    if scene.blank_share is None and scene.bright_share is None:
        return
    with notes.guard("quality_wrong", name, item), open_raster(release.folder, scene.path) as dataset:
        bands = [k for k, kind in enumerate(dataset.colorinterp, start=1) if kind != ColorInterp.alpha or dataset.count == 1]
        values = dataset.read(bands)[:, valid]
        for what, found, measure in (
            ("blank_share", scene.blank_share, _blank),
            ("bright_share", scene.bright_share, _bright),
        ):
            notes.count("quality")
            if found is not None and not abs((right := measure(values)) - found) <= SLACK:
                notes.add("quality_wrong", name, f"{item} {what}", right, found)


def _blank(values: NDArray[Any]) -> float:
    """Return the largest share of (band, pixel) values whose pixels are alike byte for byte."""
    if not values.shape[1]:
        return 0.0
    pixels = np.ascontiguousarray(values.T)
    row = pixels.view(np.uint8).reshape(len(pixels), -1)
    padded = np.pad(row, ((0, 0), (0, -row.shape[1] % 8)))
    key = np.zeros(len(pixels), np.uint64)
    for word in padded.view(np.uint64).T:
        key = key * MIX + word
    return float(np.unique(key, return_counts=True)[1].max() / len(pixels))


def _bright(values: NDArray[Any]) -> float:
    """Return the share of (band, pixel) values whose pixels are saturated in every band."""
    limit = np.iinfo(values.dtype.name).max * SATURATED
    return float((values >= limit).all(axis=0).sum() / max(values.shape[1], 1))
