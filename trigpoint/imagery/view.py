"""Pictures for eyes and models: three 8-bit bands from native pixels, without ever changing these.

Not here: reading patches (`storage.rasters`), drawing on pictures.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.errors import RasterError
from trigpoint.imagery.patch import Colours, Patch

LOW_PERCENTILE, HIGH_PERCENTILE = 2.0, 98.0
"""Share of the valid pixels, %, at which a stretch begins and ends: single outliers do not set it."""

COMPLEX_FLOOR = 1e-12
"""Smallest power of a complex pixel before its logarithm is taken (-120 dB)."""


class RgbView(NamedTuple):
    """A picture of a patch.

    Attributes:
        array: (row, col, 3) uint8; invalid pixels are black.
        bands: The zero-based source band of red, green and blue.
        limits: (low, high) of each of them: the source values (of complex pixels: dB) that became 0 and 255;
            (0, 255) where 8-bit values or palette colours were taken as they are.
    """

    array: NDArray[np.uint8]
    bands: tuple[int, int, int]
    limits: tuple[tuple[float, float], ...]


def rgb_of_patch(patch: Patch) -> RgbView:
    """Make the picture of a patch; see `rgb_view`."""
    return rgb_view(patch.pixels, patch.valid, patch.colours)


def rgb_view(pixels: NDArray[Any], valid: NDArray[np.bool_], colours: Colours) -> RgbView:
    """Make a picture of native pixels.

    Palette bands get the colours of their table. Of several bands, those called red, green and blue are shown, else the
    first three; one or two bands become grey; alpha is never shown. 8-bit values stay as they are. All others are
    stretched linearly, band by band, from the 2nd to the 98th percentile of the valid finite values: the picture grows
    with the source and never wraps. Complex pixels (SAR) are shown as power in dB.

    Args:
        pixels: (band, row, col), any numeric dtype.
        valid: (row, col) bool; the picture is black where False or not finite.
        colours: Interpretation of the bands and the colour table.

    Raises:
        RasterError: the shapes do not fit, or there is no band to show.
    """
    if pixels.ndim != 3 or pixels.shape[1:] != valid.shape or pixels.shape[0] != len(colours.interpretation):
        raise RasterError(
            f"pixels {pixels.shape}, validity {valid.shape} and {len(colours.interpretation)} band names do not fit, "
            "expected (band, row, col), (row, col) and one name per band"
        )
    bands = _bands_to_show(colours)
    if colours.table is not None:
        return RgbView(_palette(pixels[bands[0]], valid, colours.table), bands, ((0.0, 255.0),) * 3)
    shown: dict[int, tuple[NDArray[np.uint8], tuple[float, float]]] = {b: _stretch(pixels[b], valid) for b in dict.fromkeys(bands)}
    return RgbView(np.stack([shown[b][0] for b in bands], axis=-1), bands, tuple(shown[b][1] for b in bands))


def _bands_to_show(colours: Colours) -> tuple[int, int, int]:
    names = colours.interpretation
    if all(name in names for name in ("red", "green", "blue")):
        return (names.index("red"), names.index("green"), names.index("blue"))
    data = [index for index, name in enumerate(names) if name != "alpha"]
    if not data:
        raise RasterError(f"bands {list(names)} hold no picture, expected a band that is not alpha; choose another source")
    if colours.table is not None and "palette" in names:
        return _grey(names.index("palette"))
    return (data[0], data[1], data[2]) if len(data) >= 3 else _grey(data[0])


def _grey(band: int) -> tuple[int, int, int]:
    return (band, band, band)


def _palette(index: NDArray[Any], valid: NDArray[np.bool_], table: dict[int, tuple[int, int, int, int]]) -> NDArray[np.uint8]:
    size = max([*table, int(index.max(initial=0))]) + 1
    colours = np.zeros((size, 3), np.uint8)
    for key, colour in table.items():
        colours[key] = colour[:3]
    picture = colours[index]
    picture[~valid] = 0
    return picture


def _stretch(band: NDArray[Any], valid: NDArray[np.bool_]) -> tuple[NDArray[np.uint8], tuple[float, float]]:
    if band.dtype == np.uint8:
        return np.where(valid, band, np.uint8(0)), (0.0, 255.0)
    if np.iscomplexobj(band):
        power = np.abs(band.astype(np.complex128)) ** 2
        values = 10.0 * np.log10(np.maximum(power, COMPLEX_FLOOR))
    else:
        values = band.astype(np.float64)
    shown = valid & np.isfinite(values)
    if not shown.any():
        return np.zeros(band.shape, np.uint8), (0.0, 0.0)
    low, high = (float(v) for v in np.percentile(values[shown], (LOW_PERCENTILE, HIGH_PERCENTILE)))
    if low == high:
        low, high = float(values[shown].min()), float(values[shown].max())
    scaled = np.clip((values[shown] - low) / (high - low), 0.0, 1.0) if high > low else np.full(int(shown.sum()), 0.5)
    picture = np.zeros(band.shape, np.uint8)
    picture[shown] = np.rint(255.0 * scaled).astype(np.uint8)
    return picture, (low, high)
