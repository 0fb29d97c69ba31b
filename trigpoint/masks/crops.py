"""Masks in their own windows, between arrays, records and pixel-edge polygons; every step is exact."""

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from trigpoint.errors import InputError
from trigpoint.geometry.outlines import polygon_from_mask
from trigpoint.masks.rasterise import BoolArray, CropMask, crop_mask
from trigpoint.masks.rle import decode_rle, encode_mask
from trigpoint.records.mask import MaskCrop


def record_of_mask(mask: BoolArray, origin_px: tuple[int, int] = (0, 0)) -> MaskCrop:
    """Return a mask in its smallest window.

    Args:
        mask: (height, width) bool, a scene's or a window of it.
        origin_px: Column and row of its top left pixel in the scene.

    Raises:
        InputError: the mask has no pixel.

    >>> record_of_mask(np.array([[0, 0, 0], [0, 0, 1]], dtype=bool)).origin_px
    (2, 1)
    """
    rows, cols = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if rows.size == 0:
        raise InputError("mask: it has no pixel, expected at least one; reject the item instead of emptying it")
    window = np.ascontiguousarray(mask[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1])
    origin = (origin_px[0] + int(cols[0]), origin_px[1] + int(rows[0]))
    return MaskCrop(origin_px=origin, size_px=(window.shape[0], window.shape[1]), counts=encode_mask(window))


def record_of_polygon(polygon: BaseGeometry, height: int, width: int) -> MaskCrop:
    """Rasterise a polygon in image coordinates by the pixel-centre rule, clipped to a scene.

    Raises:
        InputError: it covers no pixel centre of the scene.
    """
    crop = crop_mask(polygon, height, width)
    return record_of_mask(crop.mask, (crop.col_off, crop.row_off))


def crop_of_record(record: MaskCrop, height: int, width: int, item: str = "mask") -> CropMask:
    """Decode a record, checked against the scene that it is to lie in.

    Raises:
        InputError: it reaches outside the scene, or its counts are not those of its size.
    """
    (col, row), (rows, cols) = record.origin_px, record.size_px
    if row + rows > height or col + cols > width:
        raise InputError(
            f"{item}: its window is {cols} × {rows} px from column {col}, row {row}, outside the scene of {width} × {height} px; "
            "was it drawn on another scene?"
        )
    return CropMask(row, col, decode_rle(record.counts, (rows, cols), item))


def polygon_of_record(record: MaskCrop) -> BaseGeometry:
    """Return the pixel-edge polygon in image coordinates; rasterised, it gives the mask back bit for bit.

    Raises:
        InputError: the counts are not those of its size, or hold no pixel.
    """
    mask = decode_rle(record.counts, record.size_px, "mask")
    return shapely.transform(polygon_from_mask(mask), lambda points: points + record.origin_px)
