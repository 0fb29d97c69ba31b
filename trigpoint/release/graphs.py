"""Scene graphs and resolvers of a release: what a program's answer, its anchors and its reasons can be derived from.

Not here: measuring relations (`trigpoint.scene_graph.build`), what programs mean (`trigpoint.programs`).
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trigpoint.errors import ReleaseError
from trigpoint.geometry.frames import SceneFrame, fit_frame
from trigpoint.geometry.outlines import measuring_outlines, polygon_from_mask, polygons_from_labels
from trigpoint.masks.rle import decode
from trigpoint.programs.resolver import Resolver
from trigpoint.release.reader import Release
from trigpoint.scene_graph.build import anchor_distances, outlines_to_ground
from trigpoint.scene_graph.graph import EDGE_SCHEMA, SceneGraph, nodes_from_rows, verdicts_from_edges

_INSTANCE_COLUMNS = (
    "instance_id", "label", "category", "countable", "cut", "area_m2", "area_px", "perimeter_m", "length_m", "centroid_x_m", "centroid_y_m",
)  # fmt: skip
_SCENE_COLUMNS = ("crs", "transform", "width", "height", "gsd_m", "convergence_deg", "valid_share")


def graph_of_scene(release: Release, scene_id: str) -> SceneGraph:
    """Load the scene graph of a scene: nodes and verdicts as stored, distances measured again on the masks, as the builder did.

    Args:
        release: The release.
        scene_id: Its scene.

    Returns:
        Nodes in file order, (n, n) verdicts and outline distances in true ground metres; `values`, `margins` and `limits_m` are empty,
        relations.parquet has them. A scene whose scale varies too much for a graph has no TRUE and no UNDECIDED edge.

    Raises:
        InputError: there is no such scene.
        ReleaseError: a table lacks a column, or a mask is missing or cannot be read.
    """
    release.scene(scene_id)
    scene = _rows(release, "scenes", release.scenes, scene_id, _SCENE_COLUMNS)[0]
    rows = _rows(release, "instances", release.instances, scene_id, _INSTANCE_COLUMNS)
    frame = SceneFrame(
        scene["crs"], tuple(scene["transform"]), fit_frame(scene["crs"], tuple(scene["transform"]), scene["width"], scene["height"])
    )
    nodes = nodes_from_rows(rows)
    outlines = outlines_to_ground(_outlines(release, scene_id, rows), frame)
    edges = _here(release, "relations", release.relations, scene_id, tuple(EDGE_SCHEMA.names))
    return SceneGraph(
        scene_id=scene_id,
        nodes=nodes,
        gsd_m=scene["gsd_m"],
        convergence_deg=scene["convergence_deg"],
        valid_px=round(scene["valid_share"] * scene["width"] * scene["height"]),
        verdicts=verdicts_from_edges(edges, nodes.instance_ids, release.rules.relation_names),
        distance_m=anchor_distances(outlines, np.arange(len(nodes))),
    )


def resolver_of_scene(release: Release, scene_id: str) -> Resolver:
    """Make the resolver of a scene, which gives every program of the release exactly its stored answer.

    Raises:
        InputError: there is no such scene.
        ReleaseError: a file is missing or cannot be read; the release holds no taxonomy.
    """
    if release.taxonomy is None:
        raise ReleaseError(f"release {release.folder}: taxonomy/ holds no taxonomy that can be read; run trigpoint audit on it")
    unknown_is_other = release.manifest.get("unknown_is_other") or {}
    return Resolver(graph_of_scene(release, scene_id), release.taxonomy, release.rules, unknown_is_other)


def _outlines(release: Release, scene_id: str, rows: list[dict[str, Any]]) -> NDArray[np.object_]:
    """Measuring outlines of a scene's instances in image coordinates, (n,), in the order of the rows."""
    polygons = np.empty(len(rows), dtype=object)
    traced = polygons_from_labels(release.index_map(scene_id)) if any(row["label"] is not None for row in rows) else {}
    masks = release.masks_of_scene(scene_id)
    for k, row in enumerate(rows):
        name = row["instance_id"]
        if row["label"] in traced:
            polygons[k] = traced[row["label"]]
        elif row["label"] is None and name in masks:
            polygons[k] = polygon_from_mask(decode(masks[name]))
        else:
            raise ReleaseError(f"release {release.folder}: instance {name!r} has no pixels; run trigpoint audit on it")
    return measuring_outlines(polygons, release.rules.outline.tolerance_px) if rows else polygons


def _here(release: Release, name: str, table: pa.Table, scene_id: str, columns: tuple[str, ...]) -> pa.Table:
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise ReleaseError(f"release {release.folder}: {name}.parquet lacks the columns {missing}; it has {table.column_names}")
    return table.filter(pc.field("scene_id") == scene_id).select(list(columns))


def _rows(release: Release, name: str, table: pa.Table, scene_id: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    return _here(release, name, table, scene_id, columns).to_pylist()
