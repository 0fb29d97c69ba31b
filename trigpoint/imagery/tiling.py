"""Which windows of a raster become scenes: grids without overlap, and windows around points."""

import numpy as np
from numpy.typing import NDArray

from trigpoint.imagery.windows import window_around_pixel
from trigpoint.records.scene import Window


def grid_windows(width: int, height: int, sizes_px: tuple[int, ...]) -> list[Window]:
    """Cut a raster into square windows without overlap, from the top left corner.

    Windows of the first size are laid on their own lattice as many as fit whole; each further size fills what is left on its
    lattice.

    >>> [w.as_tuple() for w in grid_windows(3, 4, (2, 1))]
    [(0, 0, 2, 2), (0, 2, 2, 2), (2, 0, 1, 1), (2, 1, 1, 1), (2, 2, 1, 1), (2, 3, 1, 1)]
    """
    taken: list[Window] = []
    for size in sizes_px:
        for row in range(0, height - size + 1, size):
            for col in range(0, width - size + 1, size):
                window = Window(col_off=col, row_off=row, width=size, height=size)
                if not any(windows_overlap(window, other) for other in taken):
                    taken.append(window)
    return taken


def windows_overlap(a: Window, b: Window) -> bool:
    """Whether two windows of one raster share a pixel."""
    return shared_pixels(a, b) > 0


def shared_pixels(a: Window, b: Window) -> int:
    """Number of native pixels that two windows of one raster share.

    >>> shared_pixels(Window(col_off=0, row_off=0, width=4, height=4), Window(col_off=3, row_off=2, width=4, height=4))
    2
    """
    cols = min(a.col_off + a.width, b.col_off + b.width) - max(a.col_off, b.col_off)
    rows = min(a.row_off + a.height, b.row_off + b.height) - max(a.row_off, b.row_off)
    return max(0, cols) * max(0, rows)


def window_around(col: float, row: float, size_px: int, width: int, height: int) -> Window:
    """Place a square window around an image point, shifted inside the raster as far as it fits.

    The point stays at its pixel; near the edge it is no longer in the middle.

    >>> window_around(280.5, 150.5, 256, 300, 300).as_tuple()
    (44, 22, 256, 256)
    """
    centred = window_around_pixel(int(np.floor(col)), int(np.floor(row)), size_px, size_px)

    def shifted(start: int, extent: int) -> int:
        return min(max(0, start), max(0, extent - size_px))

    return centred.model_copy(update={"col_off": shifted(centred.col_off, width), "row_off": shifted(centred.row_off, height)})


def spread_points(lonlat: NDArray[np.float64], order: list[int], min_spacing_m: float, limit: int) -> list[int]:
    """Choose points in the given order, keeping each at least `min_spacing_m` from those before; returns their indices.

    Args:
        lonlat: (n, 2) WGS 84 degrees.
        order: Indices, most wanted first.
        min_spacing_m: Smallest geodesic distance between two chosen points.
        limit: How many to choose at most.
    """
    from pyproj import Geod

    geod = Geod(ellps="WGS84")
    chosen: list[int] = []
    for index in order:
        if len(chosen) >= limit:
            break
        lon, lat = lonlat[index]
        if all(geod.inv(lon, lat, *lonlat[other])[2] >= min_spacing_m for other in chosen):
            chosen.append(index)
    return chosen
