"""Scenes, queries and material for the tests of splits, without files."""

import zlib
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.config import SplitConfig
from trigpoint.imagery.phash import variant_hashes
from trigpoint.records.scene import Window
from trigpoint.splits.groups import SceneSet, SplitScene, group_scenes
from trigpoint.splits.protocols import Material, SplitQuery


def random_grid(seed: int) -> NDArray[np.float64]:
    """A grid that looks like no other."""
    return np.random.default_rng(seed).random((32, 32)) * 200


def made_scene(
    name: str,
    col: int,
    row: int,
    source: str = "a",
    lon: float = 8.0,
    size: int = 100,
    grid: NDArray[np.float64] | None = None,
    **more: Any,
) -> SplitScene:
    """A scene of 1e-5° pixels (1.113 m) at the equator; its picture is like no other unless a grid is given."""
    west, north = lon + col * 1e-5, -row * 1e-5
    grid = random_grid(zlib.crc32(repr((name, source, col, row)).encode())) if grid is None else grid
    values: dict[str, Any] = {
        "scene_id": name,
        "source": source,
        "source_sha256": source * 64,
        "window": Window(col_off=col, row_off=row, width=size, height=size),
        "footprint": shapely.box(west, north - size * 1e-5, west + size * 1e-5, north),
        "gsd_m": 1.0,
        "area_km2": 0.01,
        "n_discrete": 10,
        "hashes": tuple(int(h) for h in variant_hashes(grid)),
        "grid": grid,
        "grey_sd": float(grid.std()),
    }
    return SplitScene(**{**values, **more})


def made_queries(scene_id: str, n: int = 10, relation: str = "near", level: int | None = None) -> list[SplitQuery]:
    """Queries of levels 1 to 5 in turn; from level 3 up about `relation`."""
    cat = {"op": "cat", "category": "house"}
    made: list[SplitQuery] = []
    for k in range(n):
        own = level or 1 + k % 5
        program: Any = cat if own < 3 else {"op": "rel", "of": cat, "relation": relation, "anchor": {"op": "cat", "category": "road"}}
        made.append(SplitQuery(f"q-{scene_id}-{k}-{relation}", scene_id, own, k % 4 != 0, program))
    return made


def made_material(scenes: list[SplitScene], queries: list[SplitQuery] | None = None, seed: int = 3, **config: Any) -> Material:
    """Group the scenes; ten queries each unless given."""
    settings = SplitConfig(**config)
    scene_set = SceneSet(scenes)
    asked = [q for s in scenes for q in made_queries(s.scene_id)] if queries is None else queries
    return Material(scene_set, group_scenes(scene_set, settings), asked, settings, seed)
