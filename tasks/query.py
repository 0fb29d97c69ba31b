"""query: candidate programs per scene, then one global selection with its sentences."""

import json
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from tasks.graph import load_graph
from tasks.scenes import open_scene, results_by_item, scene_items
from tasks.steps import Done, Item, Made
from tasks.tables import all_rows, item_table, table_digest
from tasks.workspace import Workspace
from trigpoint.geometry.frames import SceneFrame, azimuth_deg, transformer
from trigpoint.language.sentences import sentence
from trigpoint.programs.generate import Candidate, Limits, SectorShare, generate_candidates
from trigpoint.programs.language import parse, to_json
from trigpoint.programs.resolver import Resolver
from trigpoint.programs.select import Quota, select_queries
from trigpoint.records.stage import Drop, ItemResult
from trigpoint.records.tables import CANDIDATE_SCHEMA, PROGRAM_SCHEMA, SENTENCE_SCHEMA
from trigpoint.rules import DIRECTIONS

SECTOR_GRID = 64
"""Points per side that measure how much of the valid area lies in a sector."""


def plan_candidates(workspace: Workspace, done: Done) -> list[Item]:
    """One item per scene with a graph."""
    sources = results_by_item(done, "collect")
    poi_digest = {name: table_digest(item_table(workspace, result, "poi")) for name, result in sources.items()}
    items: list[Item] = []
    for item in scene_items(workspace, done, ("boxes", "graph")):
        source = item.payload["scene"]["source"]
        payload = {**item.payload, "collect": sources[source].to_json()}
        items.append(item.model_copy(update={"inputs": (*item.inputs, poi_digest[source]), "payload": payload}))
    return items


def make_candidates(workspace: Workspace, item: Item) -> Made:
    """Enumerate, execute and prune the programs of one scene."""
    scene, frame, valid = open_scene(workspace, item.payload)
    config = workspace.config
    boxes = ItemResult.model_validate(item.payload["boxes"])
    rows = item_table(workspace, boxes, "instance").to_pylist()
    graph = load_graph(workspace, item.payload["scene"], rows, ItemResult.model_validate(item.payload["graph"]))
    if graph is None:
        return Made({"candidate": CANDIDATE_SCHEMA.empty_table()})
    resolver = Resolver(graph, workspace.taxonomy, config.rules, config.unknown_is_other)
    outlines = shapely.from_wkb(item_table(workspace, boxes, "outline").column("outline").to_numpy(zero_copy_only=False))
    pois = _poi_categories(workspace, item, frame, (scene.width, scene.height))
    generated = generate_candidates(
        resolver,
        _sector_shares(graph.nodes.countable, graph.nodes.centroid_m, outlines, valid, frame, config.rules.direction_half_angle_deg),
        pois,
        config.seed,
        Limits(category_absent=config.query.category_absent_per_scene),
    )
    table = pa.Table.from_pylist([_candidate_row(candidate) for candidate in generated.candidates], schema=CANDIDATE_SCHEMA)
    tried = len(generated.candidates) + sum(generated.rejected.values())
    drops = [
        Drop(
            stage="query",
            scope_id=scene.scene_id,
            item_id=scene.scene_id,
            reason_code=reason,
            detail="programs that may not be asked",
            remedy="none needed",
            n=n,
        )
        for reason, n in generated.rejected.items()
    ]
    return Made({"candidate": table}, drops=drops, n_in=tried, n_out=table.num_rows)


def _poi_categories(workspace: Workspace, item: Item, frame: SceneFrame, size: tuple[int, int]) -> frozenset[str]:
    """Categories that the tags of the scene's POIs name."""
    table = item_table(workspace, ItemResult.model_validate(item.payload["collect"]), "poi")
    if table.num_rows == 0:
        return frozenset()
    x, y = transformer("OGC:CRS84", frame.crs).transform(table.column("lon").to_numpy(), table.column("lat").to_numpy())
    inside = np.all((pixels := frame.image_from_crs(np.column_stack([x, y]))) >= 0, axis=1) & np.all(pixels <= size, axis=1)
    categories = table.column("categories").to_pylist()
    return frozenset(name for k in np.flatnonzero(inside) for name in categories[k])


def _sector_shares(
    countable: np.ndarray, centroid_m: np.ndarray, outlines: np.ndarray, valid: np.ndarray, frame: SceneFrame, half_angle_deg: float
) -> SectorShare:
    """Measure how much of the valid area lies in a direction's sector of an anchor, on a grid of points."""
    height, width = valid.shape
    cols = (np.arange(SECTOR_GRID) + 0.5) * width / SECTOR_GRID
    rows = (np.arange(SECTOR_GRID) + 0.5) * height / SECTOR_GRID
    grid = np.array([(x, y) for y in rows for x in cols])
    grid = grid[valid[grid[:, 1].astype(int), grid[:, 0].astype(int)]]
    ground = frame.ground_from_image(grid)
    ground_outlines = shapely.transform(outlines, frame.ground_from_image)
    convergence = frame.convergence_at(centroid_m)

    @cache
    def azimuths(anchor: int) -> np.ndarray:
        if countable[anchor]:
            rays = ground - centroid_m[anchor]
        else:
            lines = shapely.get_coordinates(shapely.shortest_line(ground_outlines[anchor], shapely.points(ground))).reshape(-1, 2, 2)
            rays = lines[:, 1] - lines[:, 0]
        return (azimuth_deg(rays) + convergence[anchor]) % 360.0

    def share(anchor: int, direction: str) -> float:
        off = np.abs((azimuths(anchor) - 90.0 * DIRECTIONS.index(direction) + 180.0) % 360.0 - 180.0)
        return float(np.count_nonzero(off <= half_angle_deg) / max(1, len(ground)))

    return share


def _candidate_row(candidate: Candidate) -> dict[str, Any]:
    row = candidate._asdict()
    row["canonical"] = row.pop("node").canonical()
    return row


def plan_selection(workspace: Workspace, done: Done) -> list[Item]:
    """One item: all candidates of all scenes."""
    results = done["candidates"]
    return [
        Item(
            item_id="all",
            inputs=tuple(f"{result.item_id}:{result.content_sha256}" for result in results),
            payload={"candidates": [result.to_json() for result in results]},
        )
    ]


def make_selection(workspace: Workspace, item: Item) -> Made:
    """Select the queries of the release and say them."""
    results = [ItemResult.model_validate(value) for value in item.payload["candidates"]]
    table = all_rows(workspace, results, "candidate")
    rows = table.to_pylist() if table is not None else []
    config = workspace.config
    candidates = [
        Candidate(
            query_id=row["query_id"],
            scene_id=row["scene_id"],
            level=row["level"],
            node=parse(row["canonical"]),
            kind=row["kind"],
            answer_ids=tuple(row["answer_ids"]),
            category=tuple(row["category"]),
            relations=tuple(row["relations"]),
            anchor_ids=tuple(row["anchor_ids"]),
            n_category=row["n_category"],
            difficulty=row["difficulty"],
        )
        for row in rows
    ]
    quota = Quota(dict(config.query.per_scene), config.rules.unanswerable_share, config.query.max_per_answer)
    selection = select_queries(candidates, quota)
    programs = [
        {
            "query_id": c.query_id,
            "scene_id": c.scene_id,
            "level": c.level,
            "program": json.dumps(to_json(c.node), sort_keys=True),
            "canonical": c.node.canonical(),
            "answer_ids": list(c.answer_ids),
            "answerable": c.kind == "answerable",
            "kind": c.kind,
            "counterfactual_of": None,
            "difficulty": c.difficulty,
            "category": list(c.category),
        }
        for c in selection.chosen
    ]
    sentences = [
        {"query_id": c.query_id, "scene_id": c.scene_id, "position": 0, "text": sentence(c.node, workspace.taxonomy)}
        for c in selection.chosen
    ]
    tables = {
        "program": pa.Table.from_pylist(programs, schema=PROGRAM_SCHEMA),
        "sentence": pa.Table.from_pylist(sentences, schema=SENTENCE_SCHEMA),
        "note": pa.table({"text": pa.array(selection.shortfalls, pa.string())}),
    }
    return Made(tables, n_in=len(candidates), n_out=len(programs))
