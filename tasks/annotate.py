"""annotate: footprints, drawn polygons and machines' proposals of one scene → index map and region planes."""

import numpy as np
import pyarrow as pa

from storage.rasters import write_label_tif, write_plane_tif
from tasks.collect import set_aside_drop, source_config
from tasks.features import drawn_proposals, features_of, footprint_proposals
from tasks.propose import machine_masks
from tasks.scenes import collected_scenes, open_scene, results_by_item, scene_payload
from tasks.steps import Done, Item, Made
from tasks.tables import record_table
from tasks.workspace import Workspace
from trigpoint.identity import digest_json
from trigpoint.masks.annotate import Proposal, annotate_scene
from trigpoint.records.review import Decision
from trigpoint.records.stage import Drop, ItemResult
from trigpoint.records.tables import MASK_SCHEMA
from trigpoint.review.apply import SceneReview
from trigpoint.review.ledger import Ledger, item_to_json


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per scene; its inputs are the scene, the vector files of its source, what machines propose and what people decided.

    A scene whose proposals failed waits for them.
    """
    items: list[Item] = []
    proposed = results_by_item(done, "propose")
    ledger = workspace.ledger.refresh()
    for entry in collected_scenes(workspace, done):
        config = source_config(workspace, entry.scene.source)
        machine = proposed.get(entry.scene.scene_id)
        if config.proposals and machine is None:
            continue
        parts = [*config.footprints, *config.annotations]
        decisions = [decision.to_json() for decision in ledger.of_scene(entry.scene.scene_id, ("mask",))]
        said = [{**part.model_dump(mode="json"), "path": part.path.name} for part in parts]
        items.append(
            Item(
                item_id=entry.scene.scene_id,
                inputs=(
                    entry.image.sha256,
                    digest_json(entry.scene.to_json()),
                    *(workspace.digest(part.path) for part in parts),
                    digest_json(said),
                    digest_json(decisions),
                    *([machine.content_sha256] if machine is not None else []),
                ),
                payload={
                    **scene_payload(entry),
                    "decisions": decisions,
                    "propose": machine.to_json() if machine is not None else None,
                },
            )
        )
    return items


def make(workspace: Workspace, item: Item) -> Made:
    """Rasterise the proposals of a scene and decide who owns each pixel."""
    scene, frame, valid = open_scene(workspace, item.payload)
    config = source_config(workspace, scene.source)
    drops: list[Drop] = []
    proposals: list[Proposal] = []
    for part in config.footprints:
        proposals += footprint_proposals(part, workspace, scene.scene_id, drops)
    for part in config.annotations:
        proposals += drawn_proposals(part, workspace)
    proposed = item.payload["propose"]
    machine = machine_masks(workspace, ItemResult.model_validate(proposed)) if proposed is not None else []
    ledger = Ledger(Decision.model_validate(decision) for decision in item.payload["decisions"])
    settings = workspace.config
    review = SceneReview(scene.scene_id, (scene.height, scene.width), frame.record.pixel_area_m2, ledger, settings.review, settings.seed)
    made = annotate_scene(scene.scene_id, proposals, frame, valid, workspace.taxonomy, settings.rules, review.apply, machine)
    for part in (*config.footprints, *config.annotations):
        made.drops.extend(set_aside_drop("annotate", scene.scene_id, part, aside) for aside in features_of(part, workspace).set_aside)
    kept = {drop.item_id for drop in made.drops} | {source for row in made.rows for source in row["source_ids"]}
    files = {"labels": workspace.store.put_bytes(write_label_tif(made.labels, scene.crs, scene.transform), ".tif")}
    if made.n_planes:
        dtype = "uint8" if made.n_planes <= 8 else "uint16" if made.n_planes <= 16 else "uint32"
        planes = made.planes.astype(np.dtype(dtype))
        files["planes"] = workspace.store.put_bytes(write_plane_tif(planes, scene.crs, scene.transform), ".tif")
    table = pa.Table.from_pylist(made.rows, schema=MASK_SCHEMA)
    here = [drop for drop in drops if drop.item_id in kept]
    tables = {
        "mask": table,
        "review_item": record_table(item_to_json(one) for one in review.items),
        "decision": record_table(item.payload["decisions"]),
        "verdict": record_table(verdict.to_json() for verdict in review.verdicts),
    }
    return Made(tables, files, [*here, *made.drops], n_in=made.n_in, n_out=len(made.rows))
