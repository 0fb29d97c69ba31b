"""split: scenes → groups → protocols, with a proof."""

import json
from collections import Counter

import pyarrow as pa
import shapely

from tasks.scenes import collected_scenes, results_by_item
from tasks.steps import Done, Item, Made
from tasks.tables import all_rows, item_table
from tasks.workspace import Workspace
from trigpoint.identity import digest_json
from trigpoint.records.scene import Window
from trigpoint.records.stage import ItemResult
from trigpoint.splits.groups import SplitScene, assign_groups, group_scenes, split_document

PROTOCOL = "scene-disjoint"
"""The primary protocol; the others are a later issue."""


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item: all scenes that have a graph, and the selected queries."""
    if not done["selection"]:
        return []
    graphs = results_by_item(done, "graph")
    kept = [entry.scene.scene_id for entry in collected_scenes(workspace, done) if entry.scene.scene_id in graphs]
    return [
        Item(
            item_id="all",
            inputs=(digest_json(kept), *(r.content_sha256 for r in done["selection"]), *(r.content_sha256 for r in done["collect"])),
            payload={
                "scene_ids": kept,
                "collect": [r.to_json() for r in done["collect"]],
                "selection": [r.to_json() for r in done["selection"]],
            },
        )
    ]


def make(workspace: Workspace, item: Item) -> Made:
    """Group the scenes, divide the groups, prove it."""
    kept = set(item.payload["scene_ids"])
    selection = ItemResult.model_validate(item.payload["selection"][0])
    n_queries = Counter(item_table(workspace, selection, "program").column("scene_id").to_pylist())
    table = all_rows(workspace, [ItemResult.model_validate(value) for value in item.payload["collect"]], "scene")
    scenes = [
        SplitScene(
            scene_id=row["scene_id"],
            source_sha256=row["source_sha256"],
            window=Window(col_off=row["window"][0], row_off=row["window"][1], width=row["window"][2], height=row["window"][3]),
            footprint=shapely.from_wkb(row["geometry"]),
            n_queries=n_queries[row["scene_id"]],
        )
        for row in (table.to_pylist() if table is not None else [])
        if row["scene_id"] in kept
    ]
    config = workspace.config.split
    buffers = (config.buffer_m_same_source, config.buffer_m_other_source)
    groups = group_scenes(scenes, *buffers)
    shares = {str(name): share for name, share in config.shares.items()}
    assignment = assign_groups(groups, scenes, shares, workspace.config.seed)
    document = split_document(PROTOCOL, scenes, groups, assignment, workspace.config.seed, shares, buffers)
    made = pa.table({"protocol": [PROTOCOL], "document": [json.dumps(document, sort_keys=True)]})
    return Made({"split": made}, n_in=len(scenes), n_out=len(groups))
