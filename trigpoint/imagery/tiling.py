"""Which windows of a raster become scenes: grids without overlap, and windows around chosen points."""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyproj import Geod

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


class Sampling(NamedTuple):
    """How many points to choose, and how far apart.

    Attributes:
        quota: Category → how many at most; a point counts for every category it has. Only these categories are chosen.
        limit: How many in all at most; None: no limit.
        min_spacing_m: Smallest geodesic distance between two chosen points.
        per_region: How many of a category in one region at most; None: no limit.
        region_km: Side of a region, km.
    """

    quota: dict[str, int]
    limit: int | None = None
    min_spacing_m: float = 0.0
    per_region: int | None = None
    region_km: float = 1.0


Refusal = Literal["too_near", "region_full", "quota_full", "over_limit"]
"""Why a point is not chosen: another is nearer than the spacing, its region has enough of a category, one of its categories has its
quota, or there are enough in all."""


class Chosen(NamedTuple):
    """Which points were chosen.

    Attributes:
        indices: In the order of choice.
        missing: Category → how many of its quota were not found.
        refused: Every other point of the categories, with the reason that it met first.
    """

    indices: list[int]
    missing: dict[str, int]
    refused: dict[int, Refusal]


def choose_points(lonlat: NDArray[np.float64], categories: Sequence[tuple[str, ...]], order: Sequence[int], sampling: Sampling) -> Chosen:
    """Choose points by quota per category and region with a minimum spacing; the order alone decides among equals.

    Categories take turns, the one with the fewest points first, so that a common one never crowds out a rare one.

    Args:
        lonlat: (n, 2) WGS 84 degrees.
        categories: Those of each point.
        order: Indices, most wanted first.
        sampling: The rule.

    >>> points = np.array([[0.0, 0.0], [0.00001, 0.0], [1.0, 0.0]])
    >>> choose_points(points, [("a",), ("a",), ("a", "b")], [0, 1, 2], Sampling({"a": 3, "b": 1}, min_spacing_m=50))
    Chosen(indices=[2, 0], missing={'a': 1}, refused={1: 'too_near'})
    """
    regions = _regions(lonlat, sampling.region_km)
    waiting = {c: deque(k for k in order if c in categories[k]) for c in sampling.quota}
    turns = sorted(waiting, key=lambda c: (len(waiting[c]), c))
    spacing = _Spacing(lonlat, sampling.min_spacing_m)
    counts: Counter[str] = Counter()
    here: Counter[tuple[str, tuple[int, int]]] = Counter()
    chosen: list[int] = []
    refused: dict[int, Refusal] = {}
    limit = len(order) if sampling.limit is None else sampling.limit

    def refusal(k: int) -> Refusal | None:
        asked = [c for c in categories[k] if c in sampling.quota]
        if any(counts[c] >= sampling.quota[c] for c in asked):
            return "quota_full"
        if sampling.per_region is not None and any(here[c, regions[k]] >= sampling.per_region for c in asked):
            return "region_full"
        return None if spacing.take(k) else "too_near"

    while len(chosen) < limit and any(waiting.values()):
        for category in turns:
            while waiting[category] and len(chosen) < limit:
                k = waiting[category].popleft()
                if k in refused or k in chosen:
                    continue
                reason = refusal(k)
                if reason is not None:
                    refused[k] = reason
                    continue
                chosen.append(k)
                for own in categories[k]:
                    counts[own] += 1
                    here[own, regions[k]] += 1
                break
    left = {k for queue in waiting.values() for k in queue} - refused.keys() - set(chosen)
    refused.update(dict.fromkeys(sorted(left), "over_limit"))
    missing = {c: sampling.quota[c] - counts[c] for c in sorted(sampling.quota) if counts[c] < sampling.quota[c]}
    return Chosen(chosen, missing, refused)


EARTH_DEGREE_KM = 111.32
"""Length of a degree at the equator, km: regions are cells of about this measure, not survey districts."""


def _regions(lonlat: NDArray[np.float64], region_km: float) -> list[tuple[int, int]]:
    """Cells of a grid of whole steps in latitude; steps in longitude grow with latitude, so that cells keep their size."""
    step = region_km / EARTH_DEGREE_KM
    rows = np.floor(lonlat[:, 1] / step)
    shrink = np.maximum(np.cos(np.radians((rows + 0.5) * step)), 1e-3)
    cols = np.floor(lonlat[:, 0] * shrink / step)
    return [(int(row), int(col)) for row, col in zip(rows, cols, strict=True)]


class _Spacing:
    """Points taken so far, and whether another is far enough from all of them."""

    def __init__(self, lonlat: NDArray[np.float64], min_spacing_m: float) -> None:
        self.lonlat, self.min_spacing_m = lonlat, min_spacing_m
        self._taken: list[int] = []
        self._geod = Geod(ellps="WGS84")
        self._chord = _earth_centred(lonlat)

    def take(self, k: int) -> bool:
        """Take a point unless one taken before is nearer than the spacing."""
        if self.min_spacing_m > 0 and self._taken:
            taken = np.array(self._taken)
            # a straight line through the Earth is never longer than the way along it: only what is near by it can be near
            near = taken[np.linalg.norm(self._chord[taken] - self._chord[k], axis=1) < self.min_spacing_m]
            lon, lat = self.lonlat[k]
            if len(near):
                ways = self._geod.inv(np.full(len(near), lon), np.full(len(near), lat), self.lonlat[near, 0], self.lonlat[near, 1])[2]
                if np.any(np.asarray(ways) < self.min_spacing_m):
                    return False
        self._taken.append(k)
        return True


def _earth_centred(lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 3) earth-centred coordinates on the ellipsoid, m."""
    geod = Geod(ellps="WGS84")
    lon, lat = np.radians(lonlat.T)
    normal = geod.a / np.sqrt(1 - geod.es * np.sin(lat) ** 2)
    return np.column_stack([normal * np.cos(lat) * np.cos(lon), normal * np.cos(lat) * np.sin(lon), normal * (1 - geod.es) * np.sin(lat)])
