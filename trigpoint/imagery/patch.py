"""What a patch is: native pixels of a window with their validity, place and colours.

Not here: cutting one out of a file (`storage.rasters`), turning it into a picture (`trigpoint.imagery.view`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.records.scene import Transform, Window


class Colours(NamedTuple):
    """How the bands of a raster are to be seen.

    Attributes:
        interpretation: One name per band, as GDAL says: `red`, `green`, `blue`, `alpha`, `gray`, `palette`, `undefined`, ...
        table: Colour table of a palette band: index to (red, green, blue, alpha), each 0 to 255; None without a palette.
    """

    interpretation: tuple[str, ...]
    table: dict[int, tuple[int, int, int, int]] | None = None

    @property
    def alpha_band(self) -> int | None:
        """Zero-based index of the alpha band, or None."""
        return self.interpretation.index("alpha") if "alpha" in self.interpretation else None


class Patch(NamedTuple):
    """A window of a raster in native pixels.

    Attributes:
        pixels: (band, row, col), the source's dtype and values, never resampled. Outside the source they are the nodata
            value where there is one, else 0.
        valid: (row, col) bool: inside the source, not nodata (or NaN) in all bands, alpha above 0, not masked.
        transform: Affine of this patch, order a, b, c, d, e, f, from pixel edges to `crs`.
        crs: Authority code or WKT.
        window: Where it lies in the source, in native pixels of the source.
        colours: How the bands are to be seen.
        nodata: The source's nodata value; may be NaN; None without one.
    """

    pixels: NDArray[Any]
    valid: NDArray[np.bool_]
    transform: Transform
    crs: str
    window: Window
    colours: Colours
    nodata: float | None = None

    @property
    def valid_share(self) -> float:
        """Share of valid pixels in [0, 1]."""
        return float(self.valid.mean())


def valid_from_pixels(pixels: NDArray[Any], colours: Colours, nodata: float | None) -> NDArray[np.bool_]:
    """Say which pixels hold data, from the pixels alone.

    A pixel is invalid when every band (but alpha) is nodata or NaN, so that one dark band of a bright pixel, or one
    saturated band of a dark one, does not make a hole; and where alpha is 0.

    Args:
        pixels: (band, row, col), any dtype.
        colours: Names the alpha band.
        nodata: The nodata value, NaN, or None.

    Returns:
        (row, col) bool.
    """
    alpha = colours.alpha_band
    data = pixels if alpha is None or pixels.shape[0] == 1 else np.delete(pixels, alpha, axis=0)
    empty = np.zeros(data.shape, bool)
    if data.dtype.kind in "fc":
        empty |= np.isnan(data)
    if nodata is not None and not np.isnan(nodata):
        empty |= data == _nodata_of_dtype(nodata, data.dtype)
    valid: NDArray[np.bool_] = np.logical_not(np.logical_and.reduce(empty, axis=0))
    if alpha is not None and pixels.shape[0] > 1:
        valid &= pixels[alpha] > 0
    return valid


def _nodata_of_dtype(nodata: float, dtype: np.dtype[Any]) -> Any:
    """Round nodata to the precision of the pixels (a float32 raster holds float32(-3.4e38)); integers compare as they are."""
    return dtype.type(nodata) if dtype.kind == "f" else nodata
