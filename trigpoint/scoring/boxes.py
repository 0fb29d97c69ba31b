"""IoU of boxes: horizontal ones by their sides, oriented ones as polygons. Image coordinates, pixels."""

from typing import Any, cast

import numpy as np
import shapely
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def hbb_iou(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the IoU matrix (n, m) of boxes (n, 4) and (m, 4): x_min, y_min, x_max, y_max, pixel edges (no ±1).

    >>> hbb_iou(np.array([[3.0, 0, 13, 10]]), np.array([[0.0, 0, 10, 10], [6, 0, 16, 10]])).round(6).tolist()
    [[0.538462, 0.538462]]
    """
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0.0, None), axis=2)
    area = np.prod(first[:, 2:] - first[:, :2], axis=1)[:, None] + np.prod(second[:, 2:] - second[:, :2], axis=1)[None, :]
    return shared / (area - shared)


def obb_iou(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the IoU matrix (n, m) of oriented boxes (n, 8) and (m, 8): four corners x1, y1, … x4, y4 in ring order.

    Source: polygon overlay by GEOS, on corners moved to a local origin.

    >>> square, diamond = np.array([[0.0, 0, 2, 0, 2, 2, 0, 2]]), np.array([[1.0, 0, 2, 1, 1, 2, 0, 1]])
    >>> obb_iou(square, diamond).tolist()
    [[0.5]]
    """
    result = np.zeros((len(first), len(second)))
    if not result.size:
        return result
    origin = np.tile(first[0, :2], 4)
    a: Any = shapely.polygons((first - origin).reshape(-1, 4, 2))
    b: Any = shapely.polygons((second - origin).reshape(-1, 4, 2))
    i, j = shapely.STRtree(b).query(a, predicate="intersects")
    shared: Any = shapely.area(shapely.intersection(a[i], b[j]))
    result[i, j] = shared / (cast(Any, shapely.area(a))[i] + cast(Any, shapely.area(b))[j] - shared)
    return result
