"""Near duplicates by perceptual hash, confirmed by the grey grids. The hashes themselves: `trigpoint.imagery.phash`."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.config import NearDuplicateConfig
from trigpoint.imagery.phash import N_VARIANTS, grid_variants

BLOCK = 256
"""Scenes compared with all others at once."""


class Duplicate(NamedTuple):
    """Two scenes, by index, whose pictures are the same but for a quarter turn, a flip, light or compression."""

    first: int
    second: int
    bits: int


def fewest_bits(hashes: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Compare every scene with all that come after it, block by block.

    Args:
        hashes: (n, 8), the variants of each scene.

    Yields:
        First index of a block, and (m, n): fewest bits that differ between variant 0 of a scene of the block and any variant of another;
        255 where the other is not after it.
    """
    n = len(hashes)
    for start in range(0, n, BLOCK):
        own = hashes[start : start + BLOCK, 0]
        fewest = np.full((len(own), n), 255, np.uint8)
        for k in range(N_VARIANTS):
            np.minimum(fewest, np.bitwise_count(own[:, None] ^ hashes[None, :, k]), out=fewest)
        fewest[np.arange(n)[None] <= start + np.arange(len(own))[:, None]] = 255
        yield start, fewest


def find_duplicates(hashes: NDArray[np.uint64], grids: NDArray[np.float64], rule: NearDuplicateConfig) -> list[Duplicate]:
    """Find near duplicates among scenes that are not low in information.

    Args:
        hashes: (n, 8), the variants of each scene.
        grids: (n, 32, 32), their grey grids.
        rule: `max_bits` and `min_correlation`.
    """
    found: list[Duplicate] = []
    for start, fewest in fewest_bits(hashes):
        for row, second in np.argwhere(fewest <= rule.max_bits):
            first = start + int(row)
            bits = _confirmed_bits(hashes[first, 0], hashes[second], grids[first], grids[second], rule)
            if bits is not None:
                found.append(Duplicate(first, int(second), bits))
    return found


def _confirmed_bits(
    one: np.uint64, variants: NDArray[np.uint64], grid: NDArray[np.float64], other: NDArray[np.float64], rule: NearDuplicateConfig
) -> int | None:
    """Fewest bits of a variant that is close by its hash and alike by its pixels."""
    bits = np.bitwise_count(one ^ variants)
    alike = grid_variants(other)
    confirmed = [
        int(bits[k])
        for k in np.flatnonzero(bits <= rule.max_bits)
        if np.corrcoef(grid.ravel(), alike[k].ravel())[0, 1] >= rule.min_correlation
    ]
    return min(confirmed, default=None)


def smallest_bits(hashes: NDArray[np.uint64], label: NDArray[np.int64], n_labels: int) -> NDArray[np.int64]:
    """Return (n_labels, n_labels): fewest differing bits between scenes of two labels, symmetric; 255 where there is no pair."""
    best = np.full((n_labels, n_labels), 255, np.int64)
    for start, fewest in fewest_bits(hashes):
        own = label[start : start + len(fewest)]
        for other in range(n_labels):
            column = fewest[:, label == other].min(axis=1, initial=255)
            np.minimum.at(best[:, other], own[own >= 0], column[own >= 0])
    return np.minimum(best, best.T)


def met_hashes(hashes: NDArray[np.uint64], listed: Sequence[int], max_bits: int) -> NDArray[np.bool_]:
    """Say of each scene whether a listed hash is within `max_bits` of one of its eight."""
    met = np.zeros(len(hashes), bool)
    outside = np.array(listed, dtype=np.uint64)
    for start in range(0, len(outside), 1 << 16):
        part = outside[start : start + (1 << 16)]
        for row in np.flatnonzero(~met):
            met[row] = bool((np.bitwise_count(hashes[row][:, None] ^ part[None]) <= max_bits).any())
    return met
