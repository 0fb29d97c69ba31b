"""Screening: which scenes meet a list of what other data sets hold.

Not here: reading the lists (`storage`), what follows for a split (`trigpoint.splits.protocols`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.config import SplitConfig
from trigpoint.splits.duplicates import met_hashes
from trigpoint.splits.groups import SplitScene


class OutsideList(NamedTuple):
    """A list of outside footprints or hashes.

    Attributes:
        name: Its name. file: Name of its file. sha256: Of its bytes.
        footprints: Geometries in longitude and latitude, or None. hashes: Numbers, or None.
    """

    name: str
    file: str
    sha256: str
    footprints: NDArray[Any] | None
    hashes: Sequence[int] | None


class Screened(NamedTuple):
    """Names of the lists that each scene meets, in the order of the scenes, and the block of the split file (None without lists)."""

    outside: list[tuple[str, ...]]
    block: dict[str, Any] | None


def screen_scenes(scenes: Sequence[SplitScene], lists: Sequence[OutsideList], config: SplitConfig) -> Screened:
    """Mark every scene that meets a list."""
    outside: list[tuple[str, ...]] = [() for _ in scenes]
    rows: list[dict[str, Any]] = []
    for listed in lists:
        met = _met(scenes, listed, config)
        for k in np.flatnonzero(met).tolist():
            outside[k] += (listed.name,)
        entries = listed.footprints if listed.footprints is not None else listed.hashes
        rows.append(
            {
                "name": listed.name,
                "kind": "footprints" if listed.footprints is not None else "hashes",
                "file": listed.file,
                "sha256": listed.sha256,
                "n": len(entries) if entries is not None else 0,
                "scenes": sorted(scenes[k].scene_id for k in np.flatnonzero(met).tolist()),
            }
        )
    block = {"policy": config.screen_policy, "max_bits": config.screen_max_bits, "lists": rows} if lists else None
    return Screened(outside, block)


def _met(scenes: Sequence[SplitScene], listed: OutsideList, config: SplitConfig) -> NDArray[np.bool_]:
    met = np.zeros(len(scenes), bool)
    if listed.footprints is not None:
        footprints = np.array([scene.footprint for scene in scenes], dtype=object)
        met[shapely.STRtree(listed.footprints).query(footprints, predicate="intersects")[0]] = True
    if listed.hashes is not None:
        informative = np.array([scene.grey_sd >= config.near_duplicate.low_information_sd for scene in scenes], bool)
        hashes = np.array([scene.hashes for scene in scenes], dtype=np.uint64).reshape(-1, 8)
        met[informative] = met_hashes(hashes[informative], listed.hashes, config.screen_max_bits)
    return met
