"""Polygons to masks by the one pixel rule: a pixel belongs to a polygon when its centre is inside."""

import math
from typing import NamedTuple

import numpy as np
import rasterio.features
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

BoolArray = NDArray[np.bool_]


class CropMask(NamedTuple):
    """A mask in its own window of the scene.

    Attributes:
        row_off: First row. col_off: First column.
        mask: (height, width) bool.
    """

    row_off: int
    col_off: int
    mask: BoolArray

    @property
    def area_px(self) -> int:
        """Number of true pixels."""
        return int(np.count_nonzero(self.mask))

    @property
    def slices(self) -> tuple[slice, slice]:
        """Where the mask lies in the scene's arrays."""
        height, width = self.mask.shape
        return (slice(self.row_off, self.row_off + height), slice(self.col_off, self.col_off + width))


def crop_mask(polygon: BaseGeometry, height: int, width: int) -> CropMask:
    """Rasterise a polygon in image coordinates, clipped to a scene.

    Args:
        polygon: Polygon or MultiPolygon, image coordinates (x right, y down), pixels; may reach outside.
        height: Rows of the scene.
        width: Columns of the scene.

    Returns:
        The mask in the polygon's window; an empty window when it lies outside or covers no pixel centre.

    Source: GDAL's polygon fill without `ALL_TOUCHED`: the pixel-centre rule.

    >>> crop_mask(shapely.box(0.6, 0.6, 2.4, 1.4), 4, 4).area_px, crop_mask(shapely.box(0.4, 0.4, 2.6, 1.6), 4, 4).area_px
    (0, 6)
    """
    if polygon.is_empty:
        return CropMask(0, 0, np.zeros((0, 0), dtype=bool))
    left, top, right, bottom = polygon.bounds
    col0, row0 = max(0, math.floor(left)), max(0, math.floor(top))
    col1, row1 = min(width, math.ceil(right)), min(height, math.ceil(bottom))
    if col1 <= col0 or row1 <= row0:
        return CropMask(0, 0, np.zeros((0, 0), dtype=bool))
    # a local origin keeps GDAL's fill exact whatever the size of the scene
    local = shapely.transform(polygon, lambda points: points - (col0, row0))
    burnt = rasterio.features.rasterize([(local, 1)], out_shape=(row1 - row0, col1 - col0), dtype="uint8")
    return CropMask(row0, col0, np.asarray(burnt, dtype=bool))
