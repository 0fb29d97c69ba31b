"""The grey grid and the perceptual hashes of a scene, from its pixels alone (docs/release-format.md, "The grey grid").

Not here: which scenes are near duplicates (`grouping.py`).
"""

from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from trigpoint.audit.findings import Notebook
from trigpoint.audit.georeferencing import open_raster
from trigpoint.audit.reading import Release, Scene

FILE = "scenes.parquet"
CELLS = 32
SIDE = 8
"""Coefficients per side that a hash is made of."""

TINY = 1e-6
"""A coefficient up to this gives the bit 0."""

SLACK_BITS = 2
"""Bits of a variant that may differ where coefficients are tiny."""

SLACK_SD = 1e-6
WEIGHTS = (299.0, 587.0, 114.0)

Grid = NDArray[np.float64]
"""(32, 32) mean grey values, 0 to 255."""


def picture_of(dataset: Any, valid: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
    """Return three bands R, G, B with values from 0 to 255.

    Args:
        dataset: An open raster.
        valid: (height, width) valid pixels: a band that is not 8-bit is stretched between two percentiles of these.
    """
    kinds = [interpretation.name for interpretation in dataset.colorinterp]
    if "palette" in kinds:
        band = kinds.index("palette") + 1
        table = np.zeros((256 if dataset.dtypes[band - 1] == "uint8" else 65536, 3))
        for value, colour in dataset.colormap(band).items():
            table[value] = colour[:3]
        return [table[dataset.read(band)][..., channel] for channel in range(3)]
    if {"red", "green", "blue"} <= set(kinds):
        bands = [kinds.index(name) + 1 for name in ("red", "green", "blue")]
    else:
        bands = [number for number, kind in enumerate(kinds, start=1) if kind != "alpha"]
        bands = bands[:3] if len(bands) >= 3 else bands[:1] * 3
    values = {band: _eight_bits(dataset.read(band), valid) for band in set(bands)}
    return [values[band] for band in bands]


def _eight_bits(values: NDArray[Any], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Stretch a band between its 2nd and 98th percentile; 8-bit bands stay as they are, what is not finite is 0."""
    if values.dtype == np.uint8:
        return values.astype(np.float64)
    if np.iscomplexobj(values):
        finite = np.isfinite(values)
        values = 10 * np.log10(np.maximum(np.abs(values.astype(np.complex128)) ** 2, 1e-12))
    else:
        values = values.astype(np.float64)
        finite = np.isfinite(values)
    known = values[finite & valid]
    if not len(known):
        return np.zeros(values.shape)
    low, high = (float(v) for v in np.percentile(known, (2, 98)))
    if low == high:
        low, high = float(known.min()), float(known.max())
    if low == high:
        return np.where(finite, 128.0, 0.0)
    with np.errstate(invalid="ignore"):
        stretched = np.rint(255 * np.clip((values - low) / (high - low), 0, 1))
    return np.where(finite, stretched, 0.0)


def _overlaps(n_px: int) -> NDArray[np.float64]:
    """Return (32, n) how much of each pixel lies in each cell along one side, in 1/32 of a pixel (whole numbers)."""
    cell, pixel = np.arange(CELLS)[:, None] * n_px, np.arange(n_px)[None, :] * CELLS
    return np.clip(np.minimum(cell + n_px, pixel + CELLS) - np.maximum(cell, pixel), 0, None).astype(np.float64)


def grey_grid(picture: list[NDArray[np.float64]], valid: NDArray[np.bool_]) -> Grid:
    """Return the mean grey of the valid pixels in 32 x 32 cells, pixels weighted by the area that they share with a cell.

    Raises:
        ValueError: no pixel is valid.

    >>> grey_grid([np.full((5, 7), 200.0)] * 3, np.ones((5, 7), dtype=bool)).round(9).max()
    np.float64(200.0)
    """
    if not valid.any():
        raise ValueError("no valid pixel")
    grey = sum(weight * band for weight, band in zip(WEIGHTS, picture, strict=True))
    rows, columns = _overlaps(valid.shape[0]), _overlaps(valid.shape[1])
    weight = rows @ valid.astype(np.float64) @ columns.T
    total = rows @ np.where(valid, grey, 0.0) @ columns.T
    known = weight > 0
    grid = np.divide(total, weight * 1000, out=np.zeros_like(total), where=known)
    grid[~known] = grid[known].mean()
    return grid


def variants(grid: Grid) -> list[Grid]:
    """Return the eight turns and mirrorings of a grid, in the order of the format."""
    return [np.rot90(grid, turn) for turn in range(4)] + [np.rot90(grid.T, turn) for turn in range(4)]


def hash_of(grid: Grid) -> int:
    """Return the 64-bit perceptual hash of a grid.

    >>> hash_of(np.zeros((32, 32)))
    0
    """
    bits = (np.asarray(scipy.fft.dctn(grid, norm="ortho"))[:SIDE, :SIDE] > TINY).ravel()
    bits[0] = False
    return int("".join("1" if bit else "0" for bit in bits), 2)


def differing_bits(one: int, other: int) -> int:
    """Count the bits in which two hashes differ.

    >>> differing_bits(0b1011, 0b0010)
    2
    """
    return (one ^ other).bit_count()


def check_hashes(release: Release, scene: Scene, valid: NDArray[np.bool_], notes: Notebook) -> Grid | None:
    """Compare `phash` and `grey_sd` of a scene with its pixels; returns its grid."""
    notes.count("hashes")
    with notes.guard("phash_wrong", FILE, scene.scene_id, "hashes of the scene's pixels"):
        with open_raster(release.folder, scene.path) as dataset:
            grid = grey_grid(picture_of(dataset, valid), valid)
        spread = float(grid.std())
        if not abs(spread - scene.grey_sd) <= SLACK_SD:
            notes.add("grey_sd_wrong", FILE, scene.scene_id, spread, scene.grey_sd)
        for number, (variant, found) in enumerate(zip(variants(grid), scene.phash, strict=True)):
            right = hash_of(variant)
            if differing_bits(right, found) > SLACK_BITS:
                notes.add("phash_wrong", FILE, f"{scene.scene_id} phash[{number}]", f"{right:016x}", f"{found:016x}")
        return grid
    return None
