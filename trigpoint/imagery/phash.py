"""Perceptual hashes of scenes that survive quarter turns, flips, brightness, contrast, resampling and JPEG.

The rule is written down in docs/release-format.md, "The grey grid and the perceptual hash of a scene"; `benchmarks/near_duplicates.py`
measures it. A copy that is shifted or cropped is not found: windows and footprints find those.
Not here: which hashes count as equal (`trigpoint.splits.duplicates`).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn

from trigpoint.errors import InputError

SIDE = 32
"""Rows and columns of the grey grid."""

LOW = 8
"""Rows and columns of the low frequencies that make the hash."""

N_VARIANTS = 8
"""Four quarter turns of a grid and of its mirror image."""

GREY_WEIGHTS = (299, 587, 114)
"""Thousandths of red, green and blue in grey. Source: ITU-R BT.601 luma."""

ZERO = 1e-6
"""Coefficients up to this are 0: a symmetric image has many, and rounding must not make bits of them."""


def grey_grid(picture: NDArray[np.uint8], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Average a picture to 32 × 32 grey cells over its valid pixels; partly covered pixels count by area.

    Sums are of whole numbers below 2^53, so the order of adding changes nothing.

    Args:
        picture: (height, width, 3) uint8, see `trigpoint.imagery.view`.
        valid: (height, width) bool.

    Returns:
        (32, 32) grey levels in [0, 255]. A cell without a valid pixel has the mean of the others; all are 0 when no pixel is valid.

    Raises:
        InputError: the shapes do not fit.
    """
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.shape[:2] != valid.shape:
        raise InputError(f"picture {picture.shape} and validity {valid.shape} do not fit, expected (height, width, 3) and (height, width)")
    height, width = valid.shape
    columns = _cell_weights(width)
    total, weight = np.zeros((SIDE, SIDE)), np.zeros((SIDE, SIDE))
    rows = _cell_weights(height)
    for cell in range(SIDE):
        part = slice(cell * height // SIDE, -(-(cell + 1) * height // SIDE))
        inside = valid[part].astype(np.float64)
        grey = picture[part].astype(np.float64) @ np.array(GREY_WEIGHTS, dtype=np.float64)
        total[cell] = (rows[part, cell] @ (grey * inside)) @ columns
        weight[cell] = (rows[part, cell] @ inside) @ columns
    known = weight > 0
    grid = np.divide(total, 1000.0 * weight, out=np.zeros_like(total), where=known)
    if known.any():
        grid[~known] = grid[known].mean()
    return grid


def _cell_weights(n: int) -> NDArray[np.float64]:
    """(n, 32): 32nds of each of n pixels that lie in each cell."""
    pixel, cell = np.arange(n)[:, None], np.arange(SIDE)[None]
    overlap = np.minimum((pixel + 1) * SIDE, (cell + 1) * n) - np.maximum(pixel * SIDE, cell * n)
    return np.maximum(overlap, 0).astype(np.float64)


def grid_variants(grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (8, 32, 32): the grid turned 0 to 3 quarters counter-clockwise, then its transpose turned likewise."""
    return np.stack([np.rot90(base, turns) for base in (grid, grid.T) for turns in range(4)])


def variant_hashes(grid: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the eight 64-bit hashes of a grid's variants; the first is that of the grid as it is.

    >>> [hash_text(h) for h in variant_hashes(np.add.outer(np.arange(32.0), np.zeros(32)))[:3]]
    ['0000000000000000', '0000000000000000', '0080008000800080']
    """
    spectrum: NDArray[np.float64] = np.array(dctn(grid_variants(grid), axes=(1, 2), norm="ortho"))
    bits = spectrum[:, :LOW, :LOW].reshape(N_VARIANTS, LOW * LOW) > ZERO
    bits[:, 0] = False
    return np.packbits(bits, axis=1).view(">u8")[:, 0].astype(np.uint64)


def hash_text(value: int) -> str:
    """Write a hash as 16 lower-case hex digits."""
    return f"{int(value):016x}"


def hash_from_text(text: str) -> int:
    """Read a hash.

    Raises:
        InputError: it is not 16 hex digits.
    """
    try:
        if len(text) == 16:
            return int(bytes.fromhex(text).hex(), 16)
    except ValueError:
        pass
    raise InputError(f"hash {text!r}: expected 16 hex digits such as '05af05af05af05af' (docs/release-format.md)")
