"""boxes: measure the instances of one scene."""

from typing import Any

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from storage.rasters import read_label_tif, read_plane_tif
from tasks.scenes import open_scene, scene_items
from tasks.steps import Done, Item, Made
from tasks.tables import item_table
from tasks.workspace import Workspace
from trigpoint.boxes.measure import measure_instances
from trigpoint.records.stage import ItemResult
from trigpoint.records.tables import INSTANCE_SCHEMA, OUTLINE_SCHEMA
from trigpoint.review.apply import WAITS


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per annotated scene that no policy of review keeps back."""
    free = [result for result in done["annotate"] if not any(drop.reason_code == WAITS for drop in result.drops)]
    return scene_items(workspace, {**done, "annotate": free}, ("annotate",))


def read_masks(workspace: Workspace, annotated: ItemResult) -> tuple[NDArray[np.uint16], NDArray[Any]]:
    """Return the index map and the bit planes of a scene (zeros where it has no region)."""
    labels = read_label_tif(workspace.store.get_bytes(annotated.files["labels"])).array
    if "planes" not in annotated.files:
        return labels, np.zeros(labels.shape, dtype=np.uint8)
    return labels, read_plane_tif(workspace.store.get_bytes(annotated.files["planes"])).array


def make(workspace: Workspace, item: Item) -> Made:
    """Measure every instance of a scene."""
    _, frame, valid = open_scene(workspace, item.payload)
    annotated = ItemResult.model_validate(item.payload["annotate"])
    labels, planes = read_masks(workspace, annotated)
    rows = item_table(workspace, annotated, "mask").to_pylist()
    measured = measure_instances(rows, labels, planes, valid, frame, workspace.config.rules)
    outlines = {"instance_id": [row["instance_id"] for row in rows], "outline": list(shapely.to_wkb(measured.outlines))}
    return Made(
        {
            "instance": pa.Table.from_pylist(measured.rows, schema=INSTANCE_SCHEMA),
            "outline": pa.table(outlines, schema=OUTLINE_SCHEMA),
        },
        n_in=len(rows),
        n_out=len(measured.rows),
    )
