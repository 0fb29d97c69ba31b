"""graph: measure every relation of every pair of one scene."""

from typing import Any

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from tasks.boxes import read_masks
from tasks.scenes import frame_of, scene_items
from tasks.steps import Done, Item, Made
from tasks.tables import item_table
from tasks.workspace import Workspace
from trigpoint.boxes.measure import plane_mask
from trigpoint.errors import InputError
from trigpoint.records.scene import Scene
from trigpoint.records.stage import Drop, ItemResult
from trigpoint.records.tables import DISTANCE_SCHEMA
from trigpoint.scene_graph.build import SceneMasks, build_graph, outlines_to_ground
from trigpoint.scene_graph.graph import EDGE_SCHEMA, SceneGraph, algebra_violations, nodes_from_rows, verdicts_from_edges


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per measured scene."""
    return scene_items(workspace, done, ("annotate", "boxes"))


def masks_of_rows(rows: list[dict[str, Any]], labels: NDArray[np.uint16], planes: NDArray[Any]) -> SceneMasks:
    """Say which pixels belong to which node; rows of `INSTANCE_SCHEMA` in node order."""
    return SceneMasks(
        labels=labels,
        label_of_node=np.array([row["label"] or 0 for row in rows], dtype=np.int64),
        planes={k: plane_mask(planes, row["plane"]) for k, row in enumerate(rows) if row["plane"] is not None},
    )


def make(workspace: Workspace, item: Item) -> Made:
    """Build the scene graph and check its algebra."""
    scene = Scene.model_validate(item.payload["scene"])
    frame = frame_of(scene)
    rules = workspace.config.rules
    boxes = ItemResult.model_validate(item.payload["boxes"])
    rows = item_table(workspace, boxes, "instance").to_pylist()
    if scene.frame.scale_spread > rules.max_scale_spread:
        why = f"the scale varies by {scene.frame.scale_spread:.2%} over the scene, more than {rules.max_scale_spread:.2%}"
        drop = Drop(
            stage="graph",
            scope_id=scene.scene_id,
            item_id=scene.scene_id,
            reason_code="scale_varies",
            detail=why,
            remedy="cut smaller scenes",
        )
        return Made({"relation": EDGE_SCHEMA.empty_table(), "distance": DISTANCE_SCHEMA.empty_table()}, drops=[drop], n_in=len(rows))
    labels, planes = read_masks(workspace, ItemResult.model_validate(item.payload["annotate"]))
    outlines = shapely.from_wkb(item_table(workspace, boxes, "outline").column("outline").to_numpy(zero_copy_only=False))
    masks = masks_of_rows(rows, labels, planes)
    graph = build_graph(
        scene.scene_id,
        nodes_from_rows(rows),
        outlines_to_ground(outlines, frame),
        masks,
        frame,
        scene.shorter_side_m,
        round(scene.valid_share * scene.width * scene.height),
        rules,
    )
    violations = algebra_violations(graph)
    if violations:
        raise InputError(f"scene {scene.scene_id!r}: the graph breaks its own algebra ({len(violations)}): {violations[0]}")
    n = len(rows)
    upper_m = graph.distance_m[np.triu_indices(n, 1)]
    distance = {
        "scene_id": [scene.scene_id],
        "instance_ids": [list(graph.nodes.instance_ids)],
        "upper_m": pa.ListArray.from_arrays([0, len(upper_m)], upper_m),
        "valid_px": [graph.valid_px],
    }
    edges = graph.to_edges()
    return Made({"relation": edges, "distance": pa.table(distance, schema=DISTANCE_SCHEMA)}, n_in=n * (n - 1), n_out=edges.num_rows)


def load_graph(workspace: Workspace, scene: dict[str, Any], rows: list[dict[str, Any]], result: ItemResult) -> SceneGraph | None:
    """Rebuild the graph that the resolver needs from its stored tables; None for a scene without one."""
    distance = item_table(workspace, result, "distance")
    if distance.num_rows == 0:
        return None
    record = Scene.model_validate(scene)
    n = len(rows)
    upper = np.zeros((n, n))
    upper[np.triu_indices(n, 1)] = distance.column("upper_m")[0].values.to_numpy()
    nodes = nodes_from_rows(rows)
    return SceneGraph(
        scene_id=record.scene_id,
        nodes=nodes,
        gsd_m=record.frame.gsd_m,
        convergence_deg=record.frame.convergence_deg,
        valid_px=distance.column("valid_px")[0].as_py(),
        verdicts=verdicts_from_edges(item_table(workspace, result, "relation"), nodes.instance_ids, workspace.config.rules.relation_names),
        distance_m=upper + upper.T,
    )
