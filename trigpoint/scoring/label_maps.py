"""Predictions that are rasters: index maps and mask files beside a prediction file.

Not here: what a record means (`trigpoint.scoring.predictions`).
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.errors import NotGeoreferencedWarning, RasterioError

from trigpoint.errors import InputError

_PNG_SIGNATURE = b"\x89PNG"


def read_label_map(folder: Path | None, name: Any, size: tuple[int, int], item: str) -> NDArray[Any]:
    """Read a label map that a record names.

    Args:
        folder: Folder of the prediction file; None when the records come from no file.
        name: Path relative to it, with `/`. It must not lead out of the folder, through a link either.
        size: (height, width) of the scene, pixels.
        item: What to call it in an error.

    Returns:
        (height, width) whole numbers ≥ 0 in native pixels; 0 = nothing.

    Raises:
        InputError: no such file, outside the folder, no TIFF or PNG, more than one band, not of the scene's size, or values that
            are no whole numbers ≥ 0.
    """
    if not isinstance(name, str) or not name or "\0" in name:
        raise InputError(f"{item} is {name!r}, expected the path of a TIFF or PNG beside the prediction file")
    if folder is None:
        raise InputError(f"{item} is {name!r}, but these records come from no file that it could lie beside")
    path = (folder / name).resolve()
    if Path(name).is_absolute() or not path.is_relative_to(folder.resolve()):
        raise InputError(f"{item}: {name!r} leads out of the folder of the prediction file; put it inside and give a relative path")
    if not path.is_file():
        raise InputError(f"{item}: {name!r} is no file in the folder of the prediction file")
    try:
        with path.open("rb") as file:
            signature = file.read(len(_PNG_SIGNATURE))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)  # a map of a scene's pixels needs no place of its own
            # one named driver, of a format whose pixels are in the file itself: a VRT could lead anywhere
            with rasterio.open(path, driver="PNG" if signature == _PNG_SIGNATURE else "GTiff") as raster:
                if raster.count != 1:
                    raise InputError(f"{item}: {name!r} has {raster.count} bands, expected one band of whole numbers")
                if (raster.height, raster.width) != size:
                    found = [raster.height, raster.width]
                    raise InputError(f"{item}: {name!r} has [height, width] {found}, expected the scene's {list(size)}")
                if not np.issubdtype(np.dtype(raster.dtypes[0]), np.integer):
                    raise InputError(f"{item}: {name!r} holds {raster.dtypes[0]}, expected whole numbers")
                labels: NDArray[Any] = raster.read(1)
    except (OSError, RasterioError) as error:
        raise InputError(f"{item}: {name!r} cannot be read as TIFF or PNG ({error})") from error
    if labels.min() < 0:
        raise InputError(f"{item}: {name!r} holds {int(labels.min())}, expected whole numbers from 0")
    return labels
