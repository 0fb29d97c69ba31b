"""split: scenes → groups → protocols, each with a proof."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from storage.hashes import read_hashes
from storage.vectors import read_features
from tasks.language import released_language
from tasks.scenes import collected_scenes, results_by_item
from tasks.steps import Done, Item, Made
from tasks.tables import all_rows, item_table
from tasks.workspace import Workspace
from trigpoint.config import ScreenConfig
from trigpoint.geometry.frames import lonlat_from_crs
from trigpoint.identity import digest_json
from trigpoint.imagery.phash import SIDE, hash_from_text
from trigpoint.language.items import language_queries
from trigpoint.records.scene import Window
from trigpoint.records.stage import ItemResult
from trigpoint.splits.groups import SceneSet, SplitScene, group_scenes
from trigpoint.splits.proof import split_document
from trigpoint.splits.protocols import Material, SplitQuery, Unsupported, divide
from trigpoint.splits.screening import OutsideList, screen_scenes


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item: all scenes that have a graph, their instances, the selected queries and the screening lists."""
    if not done["selection"]:
        return []
    graphs = results_by_item(done, "graph")
    kept = [entry.scene.scene_id for entry in collected_scenes(workspace, done) if entry.scene.scene_id in graphs]
    boxes = [result for result in done["boxes"] if result.item_id in graphs]
    earlier = {"collect": done["collect"], "boxes": boxes, "selection": done["selection"], "review": done["review"]}
    lists = [workspace.digest(screen.path) for screen in workspace.config.split.screen]
    return [
        Item(
            item_id="all",
            inputs=(digest_json(kept), *(r.content_sha256 for results in earlier.values() for r in results), *lists),
            payload={"scene_ids": kept, **{step: [r.to_json() for r in results] for step, results in earlier.items()}},
        )
    ]


def make(workspace: Workspace, item: Item) -> Made:
    """Screen the scenes, group them, divide the groups by every protocol, prove it."""
    results = {
        step: [ItemResult.model_validate(value) for value in item.payload[step]] for step in ("collect", "boxes", "selection", "review")
    }
    config = workspace.config.split
    scenes = _scenes(workspace, results, set(item.payload["scene_ids"]))
    screened = screen_scenes(scenes, [_outside_list(workspace, screen) for screen in config.screen], config)
    scenes = [scene._replace(outside=names) for scene, names in zip(scenes, screened.outside, strict=True)]
    scene_set = SceneSet(scenes)
    material = Material(
        scene_set=scene_set,
        groups=group_scenes(scene_set, config),
        queries=_queries(workspace, results["selection"][0], results["review"]),
        config=config,
        seed=workspace.config.seed,
    )
    documents: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for protocol in config.protocols:
        division = divide(protocol, material)
        if isinstance(division, Unsupported):
            left_out[protocol] = division.reason
        else:
            documents[protocol] = json.dumps(split_document(protocol, material, division, screened.block), sort_keys=True)
    tables = {
        "split": _text_table(protocol=list(documents), document=list(documents.values())),
        "split_left_out": _text_table(protocol=list(left_out), reason=list(left_out.values())),
        "outside": pa.table(
            {
                "scene_id": pa.array([scene.scene_id for scene in scenes], pa.string()),
                "outside": pa.array([list(scene.outside) for scene in scenes], pa.list_(pa.string())),
            }
        ),
    }
    return Made(tables, n_in=len(scenes), n_out=len(material.groups))


def _text_table(**columns: list[str]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _scenes(workspace: Workspace, results: dict[str, list[ItemResult]], kept: set[str]) -> list[SplitScene]:
    scenes, grids = (all_rows(workspace, results["collect"], name) for name in ("scene", "grey_grid"))
    instances = all_rows(workspace, results["boxes"], "instance")
    rows: list[dict[str, Any]] = [row for row in scenes.to_pylist() if row["scene_id"] in kept] if scenes is not None else []
    grid_of = dict(zip(grids.column("scene_id").to_pylist(), grids.column("grid").to_pylist(), strict=True)) if grids is not None else {}
    n_discrete: dict[str, int] = {}
    if instances is not None:
        counted = instances.group_by("scene_id").aggregate([("countable", "sum")])
        n_discrete = dict(zip(counted.column("scene_id").to_pylist(), counted.column("countable_sum").to_pylist(), strict=True))
    return [
        SplitScene(
            scene_id=row["scene_id"],
            source=row["source"],
            source_sha256=row["source_sha256"],
            window=Window(col_off=row["window"][0], row_off=row["window"][1], width=row["window"][2], height=row["window"][3]),
            footprint=shapely.from_wkb(row["geometry"]),
            gsd_m=row["gsd_m"],
            area_km2=row["valid_share"] * row["width"] * row["height"] * row["pixel_area_m2"] / 1e6,
            n_discrete=n_discrete.get(row["scene_id"], 0),
            hashes=tuple(hash_from_text(text) for text in row["phash"]),
            grid=np.array(grid_of[row["scene_id"]], dtype=np.float64).reshape(SIDE, SIDE),
            grey_sd=row["grey_sd"],
        )
        for row in rows
    ]


def _queries(workspace: Workspace, selection: ItemResult, language: list[ItemResult]) -> list[SplitQuery]:
    rows = item_table(workspace, selection, "program").select(["query_id", "scene_id", "level", "answerable", "program"]).to_pylist()
    said = [SplitQuery(*(q[key] for key in SplitQuery._fields)) for q in language_queries(*released_language(workspace, language))]
    return [*(SplitQuery(**{**row, "program": json.loads(row["program"])}) for row in rows), *said]


def _outside_list(workspace: Workspace, screen: ScreenConfig) -> OutsideList:
    path: Path = screen.path
    identity = {"name": screen.name, "file": path.name, "sha256": workspace.digest(path)}
    if screen.hashes is not None:
        return OutsideList(**identity, footprints=None, hashes=read_hashes(path))
    table = read_features(path, layer=screen.layer, crs_override=screen.crs)
    lonlat = shapely.transform(table.geometries, lambda points: lonlat_from_crs(table.crs, points))
    return OutsideList(**identity, footprints=lonlat, hashes=None)
