import math

import numpy as np
import pytest

from trigpoint.errors import InputError, RasterError
from trigpoint.geometry.frames import apply_affine
from trigpoint.imagery.windows import (
    bounds_of_grid,
    clip_window,
    transform_of_window,
    window_around_pixel,
    window_of_bounds,
)
from trigpoint.records.scene import Transform, Window

NORTH_UP = (0.5, 0.0, 500000.0, 0.0, -0.25, 5500000.0)
SKEWED = (0.5, 0.1, 500000.0, 0.2, -0.6, 5500000.0)


def at(transform: Transform, col: float, row: float) -> tuple[float, float]:
    x, y = apply_affine(transform, np.array([[col, row]]))[0].tolist()
    return x, y


def test_edges_near_the_grid_snap_and_others_go_outwards() -> None:
    def bounds(left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        x0, y0 = at(NORTH_UP, left, top)
        x1, y1 = at(NORTH_UP, right, bottom)
        return (x0, y1, x1, y0)

    assert window_of_bounds(NORTH_UP, bounds(2.009, 2.991, 4.991, 8.009)).as_tuple() == (2, 3, 3, 5)
    assert window_of_bounds(NORTH_UP, bounds(1.98, 3.02, 5.02, 8.02)).as_tuple() == (1, 3, 5, 6)
    assert window_of_bounds(NORTH_UP, bounds(-3, -4, -1, -2)).as_tuple() == (-3, -4, 2, 2)
    assert window_of_bounds(NORTH_UP, bounds(2.0, 3.0, 2.001, 3.001)).as_tuple() == (2, 3, 1, 1)


def test_window_of_a_rotated_grid_covers_the_whole_bounds() -> None:
    window = window_of_bounds(SKEWED, bounds_of_grid(SKEWED, 10, 20))

    assert window.col_off <= 0 and window.row_off <= 0
    assert window.col_off + window.width >= 10 and window.row_off + window.height >= 20


@pytest.mark.parametrize("bounds", [(1.0, 1.0, 1.0, 2.0), (2.0, 1.0, 1.0, 2.0), (0.0, 2.0, 1.0, 1.0), (0.0, 0.0, math.inf, 1.0)])
def test_bounds_that_cover_nothing_are_refused(bounds: tuple[float, float, float, float]) -> None:
    with pytest.raises(RasterError, match="cover nothing"):
        window_of_bounds(NORTH_UP, bounds)


def test_pixel_lies_at_the_same_ground_in_the_window_and_the_source() -> None:
    window = window_around_pixel(3, 5, 7, 4)

    assert window.as_tuple() == (0, 3, 7, 4)
    moved = transform_of_window(SKEWED, window)
    assert at(moved, 3, 2) == pytest.approx(at(SKEWED, 3, 5))


def test_clipped_window_is_the_part_inside_or_nothing() -> None:
    def clip(*window: int) -> tuple[int, int, int, int] | None:
        col_off, row_off, width, height = window
        found = clip_window(Window(col_off=col_off, row_off=row_off, width=width, height=height), 9, 7)
        return None if found is None else found.as_tuple()

    assert clip(-2, -3, 5, 5) == (0, 0, 3, 2)
    assert clip(6, 5, 9, 9) == (6, 5, 3, 2)
    assert clip(1, 2, 3, 4) == (1, 2, 3, 4)
    assert clip(9, 0, 1, 1) is None
    assert clip(0, -1, 1, 1) is None


def test_a_singular_transform_has_no_windows() -> None:
    with pytest.raises(InputError, match="singular"):
        window_of_bounds((1.0, 2.0, 0.0, 2.0, 4.0, 0.0), (0.0, 0.0, 1.0, 1.0))
