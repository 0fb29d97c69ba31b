"""How well the perceptual hash tells copies from other places, on tiles of the sample's real images.

    python benchmarks/near_duplicates.py [IMAGE ...] [--tile 256]

Cuts tiles that share no pixel and changes each in eight ways (a quarter turn, a flip, JPEG, light, contrast, noise, half the size).
Prints how many copies are found, and how many pairs of different tiles are taken for copies: by the hash alone, and confirmed by the
grey grids, with the default thresholds.
"""

import argparse
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import rasterio
from numpy.typing import NDArray
from PIL import Image

from trigpoint.config import NearDuplicateConfig
from trigpoint.imagery.phash import grey_grid, grid_variants, variant_hashes
from trigpoint.splits.duplicates import fewest_bits, find_duplicates

DATA = Path(__file__).parents[1] / "examples" / "banepa" / "data"
MOST_BLANK = 0.1
"""Tiles with a larger share of black or white pixels are left out."""

Picture = NDArray[np.uint8]
Grid = NDArray[np.float64]


def cut_tiles(path: Path, side: int) -> list[Picture]:
    """Cut a raster into square RGB tiles without overlap."""
    with rasterio.open(path) as raster:
        pixels = raster.read([1, 2, 3] if raster.count >= 3 else [1, 1, 1]).transpose(1, 2, 0)
    if pixels.dtype != np.uint8:
        raise SystemExit(f"{path}: {pixels.dtype} pixels, expected uint8")
    found: list[Picture] = []
    for row in range(0, pixels.shape[0] - side + 1, side):
        for col in range(0, pixels.shape[1] - side + 1, side):
            tile = np.ascontiguousarray(pixels[row : row + side, col : col + side])
            if max((tile == blank).all(axis=-1).mean() for blank in (0, 255)) <= MOST_BLANK:
                found.append(tile)
    return found


def clipped(values: NDArray[np.floating]) -> Picture:
    """Round to 8 bits."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def through_jpeg(tile: Picture, quality: int) -> Picture:
    """Compress and read again."""
    file = io.BytesIO()
    Image.fromarray(tile).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file).convert("RGB"))


CHANGES: dict[str, Callable[[Picture], Picture]] = {
    "rotated 90°, JPEG 50, brighter": lambda t: through_jpeg(np.ascontiguousarray(np.rot90(clipped(t * 1.1 + 10))), 50),
    "mirrored": lambda t: np.ascontiguousarray(t[:, ::-1]),
    "JPEG 50": lambda t: through_jpeg(t, 50),
    "brighter by 40": lambda t: clipped(t + 40.0),
    "darker by 40": lambda t: clipped(t - 40.0),
    "contrast 1.4": lambda t: clipped((t - 128.0) * 1.4 + 128),
    "noise of 8 levels": lambda t: clipped(t + np.random.default_rng(1).normal(0, 8, t.shape)),
    "half the size": lambda t: np.asarray(Image.fromarray(t).resize((t.shape[1] // 2, t.shape[0] // 2), Image.Resampling.BILINEAR)),
}


def grid_of(tile: Picture) -> Grid:
    """The grey grid of a tile without invalid pixels."""
    return grey_grid(tile, np.ones(tile.shape[:2], bool))


class Comparison(NamedTuple):
    """A tile and its changed copy."""

    bits: int
    correlation: float
    is_found: bool


def compare(grid: Grid, other: Grid, rule: NearDuplicateConfig) -> Comparison:
    """Compare two grids by hash and by correlation, and say whether they count as copies."""
    hashes = np.stack([variant_hashes(grid), variant_hashes(other)])
    alike = [float(np.corrcoef(grid.ravel(), variant.ravel())[0, 1]) for variant in grid_variants(other)]
    found = find_duplicates(hashes, np.stack([grid, other]), rule)
    return Comparison(int(np.bitwise_count(hashes[0, 0] ^ hashes[1]).min()), max(alike), bool(found))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="how well the perceptual hash tells copies from other places")
    parser.add_argument("images", nargs="*", type=Path, default=sorted(DATA.glob("*.tif")))
    parser.add_argument("--tile", type=int, default=256, help="pixels")
    arguments = parser.parse_args()
    rule = NearDuplicateConfig()
    every = [tile for path in arguments.images for tile in cut_tiles(path, arguments.tile)]
    tiles = [tile for tile in every if grid_of(tile).std() >= rule.low_information_sd]
    grids = np.stack([grid_of(tile) for tile in tiles])
    n_low = len(every) - len(tiles)
    print(f"{len(tiles)} tiles of {arguments.tile} px from {len(arguments.images)} images; {n_low} low in information left out")
    for name, change in CHANGES.items():
        made = [compare(grid, grid_of(change(tile)), rule) for grid, tile in zip(grids, tiles, strict=True)]
        bits = np.array([comparison.bits for comparison in made])
        found = np.mean([comparison.is_found for comparison in made])
        correlation = min(comparison.correlation for comparison in made)
        print(
            f"  {name:32} found {found:7.2%}; bits: median {np.median(bits):.0f}, 99 % {np.percentile(bits, 99):.0f}, most {bits.max()}; "
            f"correlation at least {correlation:.3f}"
        )
    hashes = np.stack([variant_hashes(grid) for grid in grids])
    counts = np.sum([np.bincount(fewest.ravel(), minlength=256) for _, fewest in fewest_bits(hashes)], axis=0)
    by_hash = counts[: rule.max_bits + 1].sum()
    print(
        f"different tiles: {counts[:65].sum()} pairs, fewest bits {np.flatnonzero(counts)[0]}; within {rule.max_bits} bits {by_hash}, "
        f"confirmed {len(find_duplicates(hashes, grids, rule))}"
    )


if __name__ == "__main__":
    main()
