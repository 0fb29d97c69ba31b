"""Distances and overlaps of footprints on the ground, of many pairs at once.

Close footprints are measured in an azimuthal equidistant frame (WGS 84) at the middle between their centroids, far ones between
their centroids along the geodesic. Not here: what a distance means for a split (`trigpoint.splits.groups`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import Geod
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from shapely.geometry.base import BaseGeometry

CLOSE_M = 100_000.0
"""Footprints whose circumscribed circles are farther apart than this are measured between centroids along the geodesic."""

EARTH_RADIUS_M = 6_371_008.8
"""Mean radius. Source: IUGG."""

SPHERE_ERROR = 0.006
"""Largest relative difference between a distance on that sphere and on the WGS 84 ellipsoid (0.56 %), rounded up."""

DEGREE_M = 110_000.0
"""A degree of latitude is nowhere shorter, metres."""

BLOCK = 512
"""Footprints looked at together; bounds the memory that pairs take."""

CHUNK = 16_384
"""Pairs measured together."""

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]

_GEOD = Geod(ellps="WGS84")


class PairArrays(NamedTuple):
    """Pairs of footprints by their index, first below second."""

    first: Indices
    second: Indices


class Footprints:
    """Footprints of scenes, made ready for measuring.

    Attributes:
        shapes: Longitudes counted from the first vertex, so that a footprint across the antimeridian is one piece; may leave [-180, 180].
        centres: (n, 2) centroids, degrees. radius_m: Distance from the centroid to the farthest vertex.
    """

    def __init__(self, footprints: Sequence[BaseGeometry]) -> None:
        """Take footprints in longitude and latitude, WGS 84, none empty; they may be split at the antimeridian."""
        self.shapes: NDArray[Any] = np.array([_unwrapped(footprint) for footprint in footprints], dtype=object)
        centroids = shapely.centroid(self.shapes)
        self.centres: Floats = np.column_stack([shapely.get_x(centroids), shapely.get_y(centroids)]).reshape(-1, 2)
        points, owner = shapely.get_coordinates(self.shapes, return_index=True)
        self.radius_m: Floats = np.zeros(len(self.shapes))
        if len(points):
            away = _GEOD.inv(self.centres[owner, 0], self.centres[owner, 1], points[:, 0], points[:, 1])[2]
            np.maximum.at(self.radius_m, owner, np.asarray(away))
        lon, lat = np.radians(self.centres).T
        self._unit: Floats = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])

    def __len__(self) -> int:
        return len(self.shapes)

    def distances_m(self, first: Indices, second: Indices) -> Floats:
        """Return the ground distance of each pair, metres; 0 where footprints meet."""
        out = np.empty(len(first))
        for part in _chunks(len(first)):
            i, j = first[part], second[part]
            apart = self._apart_m(i, j)
            near = apart - self.radius_m[i] - self.radius_m[j] <= CLOSE_M
            out[part] = apart
            a, b = self._local(i[near], j[near])
            out[part.start + np.flatnonzero(near)] = shapely.distance(a, b)
        return out

    def overlap_shares(self, first: Indices, second: Indices) -> Floats:
        """Return the area that each pair shares over the area of the smaller one, in [0, 1]."""
        out = np.empty(len(first))
        for part in _chunks(len(first)):
            a, b = self._local(first[part], second[part])
            smaller = np.minimum(shapely.area(a), shapely.area(b))
            out[part] = np.divide(shapely.area(shapely.intersection(a, b)), smaller, out=np.zeros_like(smaller), where=smaller > 0)
        return out

    def candidates(self, reach_m: float) -> PairArrays:
        """Return pairs that may lie closer than `reach_m`: none that does is missing, some that do not are among them."""
        found = list(self._candidate_blocks(reach_m))
        if not found:
            return PairArrays(np.empty(0, np.int64), np.empty(0, np.int64))
        return PairArrays(np.concatenate([block.first for block in found]), np.concatenate([block.second for block in found]))

    def smallest_m(self, ones: Indices, others: Indices) -> float | None:
        """Return the smallest distance between a footprint of one set and one of another; None when a set is empty."""
        if not len(ones) or not len(others):
            return None
        best, found = np.inf, []
        for block in np.array_split(ones, -(-len(ones) // BLOCK)):
            sphere = self._sphere_m(block, others)
            best = min(best, float(sphere.min()) * (1 + SPHERE_ERROR))
            least = sphere * (1 - SPHERE_ERROR) - self.radius_m[block][:, None] - self.radius_m[others][None]
            i, j = np.nonzero(least <= best)
            found.append((block[i], others[j], least[i, j]))
        first, second, least = (np.concatenate([part[k] for part in found]) for k in range(3))
        order = np.argsort(least, kind="stable")
        result = np.inf
        for part in _chunks(len(order)):
            chosen = order[part][least[order[part]] <= result]
            if len(chosen):
                result = min(result, float(self.distances_m(first[chosen], second[chosen]).min()))
        return result

    def components(self, reach_m: float, joined: PairArrays) -> Indices:
        """Return a component number per footprint: those closer than `reach_m`, and those of `joined`, are in one."""
        labels = _components(len(self), joined.first, joined.second)
        for block in self._candidate_blocks(reach_m):
            apart = labels[block.first] != labels[block.second]
            i, j = block.first[apart], block.second[apart]
            sphere = self._pair_sphere_m(i, j)
            sure = sphere * (1 + SPHERE_ERROR) < reach_m
            labels = _merged(labels, i[sure], j[sure])
            open_ = ~sure & (labels[i] != labels[j])
            open_ &= sphere * (1 - SPHERE_ERROR) - self.radius_m[i] - self.radius_m[j] < reach_m
            close = self.distances_m(i[open_], j[open_]) < reach_m
            labels = _merged(labels, i[open_][close], j[open_][close])
        return labels

    def _candidate_blocks(self, reach_m: float) -> Iterator[PairArrays]:
        """Search boxes in degrees, widened by the reach and by how far a straight edge of the local frame may leave them."""
        if not len(self):
            return
        west, south, east, north = shapely.bounds(self.shapes).T
        steep = np.radians(np.minimum(np.maximum(np.abs(south), np.abs(north)), 85.0))
        bulge_m = self.radius_m**2 / (2 * EARTH_RADIUS_M) * (1 + np.tan(steep))
        tree = shapely.STRtree(shapely.box(west, south, east, north))
        pad_lat = (reach_m + bulge_m + bulge_m.max()) / DEGREE_M
        shrink = np.cos(np.radians(np.minimum(np.maximum(np.abs(south), np.abs(north)) + pad_lat, 90.0)))
        pad_lon = np.minimum(pad_lat / np.maximum(shrink, 1e-9), 360.0)
        for start in range(0, len(self), BLOCK):
            k = slice(start, start + BLOCK)
            pairs: list[NDArray[Any]] = []
            for turn in (-360.0, 0.0, 360.0):
                boxes = shapely.box(west[k] - pad_lon[k] + turn, south[k] - pad_lat[k], east[k] + pad_lon[k] + turn, north[k] + pad_lat[k])
                pairs.append(tree.query(boxes))
            i, j = np.concatenate(pairs, axis=1).astype(np.int64)
            i += start
            unique = np.unique(np.column_stack([i, j])[i < j], axis=0)
            yield PairArrays(unique[:, 0], unique[:, 1])

    def _local(self, i: Indices, j: Indices) -> tuple[NDArray[Any], NDArray[Any]]:
        """The two footprints of each pair in its azimuthal equidistant frame, metres."""
        lon = self.centres[i, 0] + ((self.centres[j, 0] - self.centres[i, 0] + 180) % 360 - 180) / 2
        lat = (self.centres[i, 1] + self.centres[j, 1]) / 2
        return _equidistant(self.shapes[i], lon, lat), _equidistant(self.shapes[j], lon, lat)

    def _apart_m(self, i: Indices, j: Indices) -> Floats:
        return np.asarray(_GEOD.inv(self.centres[i, 0], self.centres[i, 1], self.centres[j, 0], self.centres[j, 1])[2], dtype=np.float64)

    def _sphere_m(self, i: Indices, j: Indices) -> Floats:
        """(len(i), len(j)) distances between centroids on a sphere."""
        chord = np.sqrt(np.maximum(2 - 2 * self._unit[i] @ self._unit[j].T, 0.0))
        return 2 * EARTH_RADIUS_M * np.arcsin(np.minimum(chord / 2, 1.0))

    def _pair_sphere_m(self, i: Indices, j: Indices) -> Floats:
        chord = np.linalg.norm(self._unit[i] - self._unit[j], axis=1)
        return 2 * EARTH_RADIUS_M * np.arcsin(np.minimum(chord / 2, 1.0))


def footprint_distance_m(a: BaseGeometry, b: BaseGeometry) -> float:
    """Return the ground distance between two footprints in longitude and latitude, metres; see `Footprints`."""
    return float(Footprints([a, b]).distances_m(np.array([0]), np.array([1]))[0])


def _unwrapped(footprint: BaseGeometry) -> Any:
    first = shapely.get_coordinates(footprint)[0, 0]
    moved = shapely.transform(footprint, lambda points: np.column_stack([(points[:, 0] - first + 180) % 360 - 180 + first, points[:, 1]]))
    # two pieces that meet at 180° are no valid multipolygon
    return shapely.union_all([moved]) if moved.geom_type == "MultiPolygon" else moved


def _equidistant(shapes: NDArray[Any], lon: Floats, lat: Floats) -> NDArray[Any]:
    """Project each shape about its own centre. Source: the azimuthal equidistant projection is the geodesic's polar coordinates."""
    points, owner = shapely.get_coordinates(shapes, return_index=True)
    azimuth, _, length = _GEOD.inv(lon[owner], lat[owner], points[:, 0], points[:, 1])
    angle = np.radians(azimuth)
    flat = shapes.copy()
    return shapely.set_coordinates(flat, np.column_stack([length * np.sin(angle), length * np.cos(angle)]))


def _components(n: int, first: Indices, second: Indices) -> Indices:
    links = coo_array((np.ones(len(first), bool), (first, second)), shape=(n, n))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)


def _merged(labels: Indices, first: Indices, second: Indices) -> Indices:
    """Join the components of each pair."""
    return _components(int(labels.max()) + 1, labels[first], labels[second])[labels] if len(first) else labels


def _chunks(n: int) -> Iterator[slice]:
    return (slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))
