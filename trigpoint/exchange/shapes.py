"""What other programs can hold of a mask, and how two masks compare."""

from typing import cast

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.boxes.calipers import min_area_rectangle
from trigpoint.masks.crops import polygon_of_record
from trigpoint.masks.rle import decode_rle
from trigpoint.records.mask import MaskCrop


def is_plain_polygon(mask: MaskCrop) -> bool:
    """Whether a mask is one 4-connected part without a hole: what a program with simple polygons can hold."""
    polygon = polygon_of_record(mask)
    return polygon.geom_type == "Polygon" and not cast(shapely.Polygon, polygon).interiors


def is_filled(mask: MaskCrop, original: MaskCrop) -> bool:
    """Whether a mask is another one with its holes filled, and nothing else."""
    parts = shapely.get_parts(polygon_of_record(original))
    filled = shapely.union_all(shapely.polygons(shapely.get_exterior_ring(parts)))
    return mask != original and bool(shapely.equals(polygon_of_record(mask), filled))


def box_corners(mask: MaskCrop) -> NDArray[np.float64]:
    """Return the corners (4, 2) of the smallest rectangle around a mask, image coordinates, clockwise on screen from the top."""
    return min_area_rectangle(polygon_of_record(mask)).corners


def shared_px(first: MaskCrop, second: MaskCrop) -> int:
    """Count the pixels that two masks of one scene share."""
    x0, y0 = (max(a, b) for a, b in zip(first.origin_px, second.origin_px, strict=True))
    ends = [(m.origin_px[0] + m.size_px[1], m.origin_px[1] + m.size_px[0]) for m in (first, second)]
    x1, y1 = (min(a, b) for a, b in zip(*ends, strict=True))
    if x1 <= x0 or y1 <= y0:
        return 0
    windows = [_window(mask, x0, y0, x1, y1) for mask in (first, second)]
    return int(np.count_nonzero(windows[0] & windows[1]))


def _window(mask: MaskCrop, x0: int, y0: int, x1: int, y1: int) -> NDArray[np.bool_]:
    col, row = mask.origin_px
    return decode_rle(mask.counts, mask.size_px)[y0 - row : y1 - row, x0 - col : x1 - col]
