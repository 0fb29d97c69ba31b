"""What a patch shows little on: flat areas, saturated pixels, and what a given mask calls clouds.

Nothing here guesses clouds: brightness is called brightness.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.errors import InputError
from trigpoint.imagery.patch import Patch

BRIGHT = 250 / 255
"""Share of a whole-number type's largest value from which a pixel counts as saturated: JPEG leaves white a few levels below 255."""


def blank_share(patch: Patch) -> float:
    """Return the largest share of the valid pixels that have one and the same value in all bands but alpha; 0 without a valid pixel.

    White or black fill that no nodata value tells is found by this; so is calm water that a sensor shows as one value.
    """
    values = np.ascontiguousarray(_data_bands(patch)[:, patch.valid].T)
    if not values.size:
        return 0.0
    width = values.dtype.itemsize * values.shape[1]
    if width <= 8:
        padded = np.zeros((len(values), 8), np.uint8)
        padded[:, :width] = values.view(np.uint8).reshape(len(values), width)
        keys: NDArray[Any] = padded.view(np.uint64).ravel()
    else:
        keys = values.view(np.dtype((np.void, width))).ravel()
    return float(np.unique(keys, return_counts=True)[1].max()) / len(values)


def bright_share(patch: Patch) -> float:
    """Return the share of the valid pixels that are saturated in all bands but alpha: clouds, but also snow, sand and tin roofs.

    Raises:
        InputError: the pixels are no whole numbers, which have no largest value.
    """
    data = _data_bands(patch)
    if data.dtype.kind not in "iu":
        raise InputError(f"pixels of type {data.dtype.name} have no largest value: max_bright_share is for whole numbers; leave it out")
    limit = np.iinfo(data.dtype.name).max * BRIGHT
    bright = (data >= limit).all(axis=0) & patch.valid
    return float(np.count_nonzero(bright)) / max(int(np.count_nonzero(patch.valid)), 1)


def cloud_share(mask: NDArray[Any], values: tuple[int, ...], valid: NDArray[np.bool_]) -> float:
    """Return the share of the valid pixels where a mask (row, col) has one of the values that mean cloud."""
    return float(np.count_nonzero(np.isin(mask, values) & valid)) / max(int(np.count_nonzero(valid)), 1)


def _data_bands(patch: Patch) -> NDArray[Any]:
    alpha = patch.colours.alpha_band
    return patch.pixels if alpha is None or patch.pixels.shape[0] == 1 else np.delete(patch.pixels, alpha, axis=0)
