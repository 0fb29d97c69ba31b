"""Which scenes belong together: shared pixels, one place in two sources, a buffer on the ground, copies of one picture.

Groups are the connected components of such pairs and never straddle a split. Not here: dividing them (`trigpoint.splits.protocols`).
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from shapely.geometry.base import BaseGeometry

from trigpoint.config import NearDuplicateConfig, SplitConfig
from trigpoint.identity import make_id
from trigpoint.records.scene import Window
from trigpoint.splits.distances import Footprints, PairArrays
from trigpoint.splits.duplicates import Duplicate, find_duplicates


class SplitScene(NamedTuple):
    """What splitting needs of a scene.

    Attributes:
        source: Name. source_sha256: Of the file its window is in.
        footprint: Longitude and latitude, WGS 84.
        gsd_m: True ground pixel. area_km2: Valid ground area. n_discrete: Its discrete instances.
        hashes: The eight variants, see `trigpoint.imagery.phash`. grid: (32, 32) grey. grey_sd: How much it varies, grey levels.
        outside: Names of the screening lists that it meets.
    """

    scene_id: str
    source: str
    source_sha256: str
    window: Window
    footprint: BaseGeometry
    gsd_m: float
    area_km2: float
    n_discrete: int
    hashes: tuple[int, ...]
    grid: NDArray[np.float64]
    grey_sd: float
    outside: tuple[str, ...] = ()


class Reason(NamedTuple):
    """Why two scenes are in one group; `why` and `value` as in docs/release-format.md."""

    first: str
    second: str
    why: str
    value: float


class Group(NamedTuple):
    """Scenes that must stay together, and why."""

    group_id: str
    scenes: tuple[str, ...]
    reasons: tuple[Reason, ...]


class SceneSet:
    """The scenes of a release in order of their ids, with what is computed once for all protocols.

    Attributes:
        scenes: Sorted by id; indices elsewhere are places in it.
    """

    def __init__(self, scenes: Sequence[SplitScene]) -> None:
        """Take scenes in any order."""
        self.scenes = sorted(scenes, key=lambda scene: scene.scene_id)
        self.index = {scene.scene_id: k for k, scene in enumerate(self.scenes)}

    @cached_property
    def footprints(self) -> Footprints:
        """Their footprints, ready for measuring."""
        return Footprints([scene.footprint for scene in self.scenes])

    @cached_property
    def shared(self) -> tuple[PairArrays, NDArray[np.int64]]:
        """Pairs of one source that share native pixels, and how many."""
        return _shared_pixels(self.scenes)

    def informative(self, rule: NearDuplicateConfig) -> NDArray[np.int64]:
        """Return the indices of scenes that are not low in information."""
        return np.array([k for k, scene in enumerate(self.scenes) if scene.grey_sd >= rule.low_information_sd], dtype=np.int64)

    def hashes(self, indices: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return (n, 8) hashes."""
        return np.array([self.scenes[k].hashes for k in indices], dtype=np.uint64).reshape(-1, 8)


def group_scenes(scene_set: SceneSet, config: SplitConfig) -> list[Group]:
    """Group scenes by what they share; independent of their order. Sorted by group id."""
    scenes = scene_set.scenes
    found = [*_shared_reasons(scene_set), *_ground_reasons(scene_set, config)]
    found += [Reason(scenes[d.first].scene_id, scenes[d.second].scene_id, "near_duplicate", d.bits) for d in _duplicates(scene_set, config)]
    first = [scene_set.index[reason.first] for reason in found]
    second = [scene_set.index[reason.second] for reason in found]
    links = coo_array((np.ones(len(found), bool), (first, second)), shape=(len(scenes), len(scenes)))
    labels = connected_components(links, directed=False)[1] if scenes else []
    members: dict[int, list[str]] = defaultdict(list)
    for scene, label in zip(scenes, labels, strict=True):
        members[int(label)].append(scene.scene_id)
    reasons: dict[int, list[Reason]] = defaultdict(list)
    for k, reason in zip(first, found, strict=True):
        reasons[int(labels[k])].append(reason)
    groups = [Group(make_id("g", *ids), tuple(ids), tuple(sorted(reasons[label]))) for label, ids in members.items()]
    return sorted(groups, key=lambda group: group.group_id)


def _shared_reasons(scene_set: SceneSet) -> list[Reason]:
    pairs, pixels = scene_set.shared
    scenes = scene_set.scenes
    return [
        Reason(scenes[i].scene_id, scenes[j].scene_id, "shared_pixels", int(n))
        for i, j, n in zip(pairs.first, pairs.second, pixels, strict=True)
    ]


def _shared_pixels(scenes: Sequence[SplitScene]) -> tuple[PairArrays, NDArray[np.int64]]:
    windows = np.array([scene.window.as_tuple() for scene in scenes], dtype=np.int64).reshape(-1, 4)
    start, end = windows[:, :2], windows[:, :2] + windows[:, 2:]
    by_source: dict[str, list[int]] = defaultdict(list)
    for k, scene in enumerate(scenes):
        by_source[scene.source_sha256].append(k)
    pairs: list[NDArray[np.int64]] = [np.empty((0, 2), np.int64)]
    for members in by_source.values():
        index = np.array(members)
        boxes = shapely.box(start[index, 0], start[index, 1], end[index, 0], end[index, 1])
        i, j = shapely.STRtree(boxes).query(boxes)
        pairs.append(np.column_stack([index[i], index[j]])[i < j])
    i, j = np.concatenate(pairs).T
    sides = np.maximum(np.minimum(end[i], end[j]) - np.maximum(start[i], start[j]), 0)
    pixels = sides[:, 0] * sides[:, 1]
    return PairArrays(i[pixels > 0], j[pixels > 0]), pixels[pixels > 0]


def _ground_reasons(scene_set: SceneSet, config: SplitConfig) -> list[Reason]:
    """One place in two sources, or closer than the buffer; pairs that share pixels are settled already."""
    scenes, footprints = scene_set.scenes, scene_set.footprints
    same_m, other_m = config.buffer_m_same_source, config.buffer_m_other_source
    i, j = footprints.candidates(max(same_m, other_m, 1.0))
    code = np.unique([scene.source_sha256 for scene in scenes], return_inverse=True)[1] if scenes else np.empty(0, np.int64)
    same = code[i] == code[j]
    settled = np.isin(i * len(scenes) + j, scene_set.shared[0].first * len(scenes) + scene_set.shared[0].second)
    measured = ~settled & (~same | (same_m > 0))
    i, j, same = i[measured], j[measured], same[measured]
    distance = footprints.distances_m(i, j)
    share = np.zeros(len(i))
    touching = ~same & (distance == 0)
    share[touching] = footprints.overlap_shares(i[touching], j[touching])
    one_place = share > config.same_place_share
    close = ~one_place & (distance < np.where(same, same_m, other_m))
    value = np.where(one_place, np.round(share, 6), np.round(distance, 3))
    return [
        Reason(scenes[i[k]].scene_id, scenes[j[k]].scene_id, "same_place" if one_place[k] else "buffer", float(value[k]))
        for k in np.flatnonzero(one_place | close)
    ]


def _duplicates(scene_set: SceneSet, config: SplitConfig) -> list[Duplicate]:
    kept = scene_set.informative(config.near_duplicate)
    grids = np.array([scene_set.scenes[k].grid for k in kept], dtype=np.float64).reshape(-1, 32, 32)
    found = find_duplicates(scene_set.hashes(kept), grids, config.near_duplicate)
    return [Duplicate(int(kept[d.first]), int(kept[d.second]), d.bits) for d in found]
