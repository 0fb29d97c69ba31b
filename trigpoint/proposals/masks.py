"""Masks of a scene by their place in a list, decoded a few at a time; unions, overlaps, IoU and specks."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.masks.rasterise import CropMask
from trigpoint.masks.rle import decode_rle, rle_area
from trigpoint.records.mask import MaskCrop
from trigpoint.records.scene import Window

BoolArray = NDArray[np.bool_]

KEPT_DECODED = 64
"""Masks that are held decoded."""


class PieceMasks:
    """Masks of one scene; what is decoded is bounded, whatever their number."""

    def __init__(self, records: Sequence[MaskCrop]) -> None:
        self._records = records
        self._decoded = lru_cache(maxsize=KEPT_DECODED)(self._decode)

    def _decode(self, k: int) -> CropMask:
        record = self._records[k]
        return CropMask(record.origin_px[1], record.origin_px[0], decode_rle(record.counts, record.size_px, f"mask {k}"))

    def __len__(self) -> int:
        return len(self._records)

    def crop(self, k: int) -> CropMask:
        """The mask in its window of the scene."""
        return self._decoded(k)

    def area(self, k: int) -> int:
        """Its pixels."""
        return rle_area(self._records[k].counts, self._records[k].size_px, f"mask {k}")

    def box(self, k: int) -> tuple[int, int, int, int]:
        """Its pixel-edge box (x_min, y_min, x_max, y_max)."""
        (col, row), (height, width) = self._records[k].origin_px, self._records[k].size_px
        return (col, row, col + width, row + height)

    def meets(self, k: int, window: Window) -> bool:
        """Whether its box shares a pixel with a window."""
        left, top, right, bottom = self.box(k)
        return (
            left < window.col_off + window.width
            and window.col_off < right
            and top < window.row_off + window.height
            and window.row_off < bottom
        )

    def boxes_meet(self, k: int, m: int) -> bool:
        """Whether the boxes of two masks share a pixel."""
        left, top, right, bottom = self.box(k)
        return self.meets(m, Window(col_off=left, row_off=top, width=right - left, height=bottom - top))

    def within(self, k: int, window: Window) -> BoolArray:
        """The part of a mask in a window, (height, width) of the window."""
        return part_in(self.crop(k), window)


class CropMasks:
    """Masks of one scene that are decoded anyway."""

    def __init__(self, crops: Sequence[CropMask]) -> None:
        self._crops = crops

    def __len__(self) -> int:
        return len(self._crops)

    def crop(self, k: int) -> CropMask:
        """The mask in its window of the scene."""
        return self._crops[k]

    def area(self, k: int) -> int:
        """Its pixels."""
        return self._crops[k].area_px

    def box(self, k: int) -> tuple[int, int, int, int]:
        """Its pixel-edge box (x_min, y_min, x_max, y_max)."""
        crop = self._crops[k]
        return (crop.col_off, crop.row_off, crop.col_off + crop.mask.shape[1], crop.row_off + crop.mask.shape[0])


def part_in(crop: CropMask, window: Window) -> BoolArray:
    """Return the part of a mask in a window as (height, width) bool of the window."""
    out = np.zeros((window.height, window.width), dtype=bool)
    height, width = crop.mask.shape
    row0, row1 = max(crop.row_off, window.row_off), min(crop.row_off + height, window.row_off + window.height)
    col0, col1 = max(crop.col_off, window.col_off), min(crop.col_off + width, window.col_off + window.width)
    if row0 < row1 and col0 < col1:
        part = crop.mask[row0 - crop.row_off : row1 - crop.row_off, col0 - crop.col_off : col1 - crop.col_off]
        out[row0 - window.row_off : row1 - window.row_off, col0 - window.col_off : col1 - window.col_off] = part
    return out


def crop_iou(first: CropMask, second: CropMask) -> float:
    """Return the IoU of two masks of one scene, counted on pixels; 0 when both are empty.

    >>> ones = np.ones((2, 2), dtype=bool)
    >>> crop_iou(CropMask(0, 0, ones), CropMask(0, 1, ones))
    0.3333333333333333
    """
    shared = int(np.count_nonzero(first.mask & part_in(second, _window_of(first)))) if first.mask.size and second.mask.size else 0
    union = first.area_px + second.area_px - shared
    return shared / union if union else 0.0


def _window_of(crop: CropMask) -> Window:
    return Window(col_off=crop.col_off, row_off=crop.row_off, width=crop.mask.shape[1], height=crop.mask.shape[0])


def overlap_of(first: Window, second: Window) -> Window:
    """Return the window that two overlapping windows share."""
    col, row = max(first.col_off, second.col_off), max(first.row_off, second.row_off)
    right = min(first.col_off + first.width, second.col_off + second.width)
    bottom = min(first.row_off + first.height, second.row_off + second.height)
    return Window(col_off=col, row_off=row, width=right - col, height=bottom - row)


def union_crop(crops: Sequence[CropMask]) -> CropMask:
    """Return the union of masks of one scene in the smallest window that holds theirs."""
    if len(crops) == 1:
        return crops[0]
    row, col = min(crop.row_off for crop in crops), min(crop.col_off for crop in crops)
    bottom = max(crop.row_off + crop.mask.shape[0] for crop in crops)
    right = max(crop.col_off + crop.mask.shape[1] for crop in crops)
    out = np.zeros((bottom - row, right - col), dtype=bool)
    for crop in crops:
        height, width = crop.mask.shape
        out[crop.row_off - row : crop.row_off - row + height, crop.col_off - col : crop.col_off - col + width] |= crop.mask
    return CropMask(row, col, out)


class Swept(NamedTuple):
    """A mask without specks.

    Attributes:
        mask: What is left, same shape. removed_px: Pixels taken out.
    """

    mask: BoolArray
    removed_px: int


def remove_specks(mask: BoolArray, below_px: int) -> Swept:
    """Take parts of fewer than `below_px` pixels out of a mask; the largest part stays whatever its size, and holes stay open.

    Parts are 8-connected, so that a thin slanting thing is one part. For machine proposals alone: what a person drew has no specks.

    >>> swept = remove_specks(np.array([[1, 1, 0, 1]], dtype=bool), 2)
    >>> swept.mask.tolist(), swept.removed_px
    ([[True, True, False, False]], 1)
    """
    from scipy import ndimage  # 0.2 s to import, and planning needs none of it

    label: Any = ndimage.label  # its stubs say that it may return a number
    parts, n = label(mask, structure=np.ones((3, 3), dtype=bool))
    if n <= 1:
        return Swept(mask, 0)
    sizes = np.bincount(parts.ravel())[1:]
    keep = sizes >= below_px
    keep[int(np.argmax(sizes))] = True
    kept = np.concatenate([[False], keep])[parts]
    return Swept(kept, int(np.count_nonzero(mask) - np.count_nonzero(kept)))
