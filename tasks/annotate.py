"""annotate: footprints and drawn polygons of one scene → index map and region planes."""

from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from storage.rasters import write_label_tif, write_plane_tif
from storage.vectors import FeatureTable, read_features, tags_of
from tasks.collect import feature_id, set_aside_drop, source_config
from tasks.scenes import collected_scenes, open_scene, scene_payload
from tasks.steps import Done, Item, Made
from tasks.tables import record_table
from tasks.workspace import Workspace
from trigpoint.config import AnnotationConfig, VectorConfig
from trigpoint.errors import TaxonomyError
from trigpoint.identity import digest_json
from trigpoint.masks.annotate import Proposal, annotate_scene
from trigpoint.records.review import Decision
from trigpoint.records.stage import Drop
from trigpoint.records.tables import MASK_SCHEMA
from trigpoint.review.apply import SceneReview
from trigpoint.review.ledger import Ledger, item_to_json


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per scene; its inputs are the scene, the vector files of its source, and what people decided about its masks."""
    items: list[Item] = []
    ledger = workspace.ledger.refresh()
    for entry in collected_scenes(workspace, done):
        config = source_config(workspace, entry.scene.source)
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
                ),
                payload={**scene_payload(entry), "decisions": decisions},
            )
        )
    return items


@lru_cache(maxsize=16)
def _read(path: Path, layer: str | None, crs: str | None, _sha256: str) -> FeatureTable:
    return read_features(path, layer=layer, crs_override=crs)


def _features(part: VectorConfig, workspace: Workspace) -> FeatureTable:
    """Read a vector file once per process and content."""
    return _read(part.path, part.layer, part.crs, workspace.digest(part.path))


def make(workspace: Workspace, item: Item) -> Made:
    """Rasterise the proposals of a scene and decide who owns each pixel."""
    scene, frame, valid = open_scene(workspace, item.payload)
    config = source_config(workspace, scene.source)
    drops: list[Drop] = []
    proposals: list[Proposal] = []
    for part in config.footprints:
        proposals += _footprints(part, workspace, scene.scene_id, drops)
    for part in config.annotations:
        proposals += _annotations(part, workspace)
    ledger = Ledger(Decision.model_validate(decision) for decision in item.payload["decisions"])
    settings = workspace.config
    review = SceneReview(scene.scene_id, (scene.height, scene.width), frame.record.pixel_area_m2, ledger, settings.review, settings.seed)
    made = annotate_scene(scene.scene_id, proposals, frame, valid, workspace.taxonomy, settings.rules, review.apply)
    for part in (*config.footprints, *config.annotations):
        made.drops.extend(set_aside_drop("annotate", scene.scene_id, part, aside) for aside in _features(part, workspace).set_aside)
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
        "verdict": record_table(verdict.to_json() for verdict in review.verdicts),
    }
    return Made(tables, files, [*here, *made.drops], n_in=made.n_in, n_out=len(made.rows))


def _footprints(part: VectorConfig, workspace: Workspace, scene_id: str, drops: list[Drop]) -> list[Proposal]:
    """Footprints whose tags name a category; where two tags disagree the axis stays unknown and that is recorded."""
    table = _features(part, workspace)
    found: list[Proposal] = []
    for geometry, properties in zip(table.geometries, table.properties, strict=True):
        categories, torn = workspace.taxonomy.values_from_tags(tags_of(properties))
        if not categories:
            continue
        source_id = feature_id(part, properties, geometry)
        if torn:
            drops.append(
                Drop(
                    stage="annotate",
                    scope_id=scene_id,
                    item_id=source_id,
                    reason_code="tags_disagree",
                    detail=f"its tags name several categories on {', '.join(torn)}; the broader one is taken",
                    remedy="mend the tags",
                )
            )
        found.append(Proposal(source_id, geometry, table.crs, categories, "vector"))
    return found


def _annotations(part: AnnotationConfig, workspace: Workspace) -> list[Proposal]:
    table = _features(part, workspace)
    origin: Literal["annotator"] = "annotator"
    found: list[Proposal] = []
    for geometry, properties in zip(table.geometries, table.properties, strict=True):
        text = properties.get(part.category_property)
        if not text:
            raise TaxonomyError(f"{part.path}: a feature has no {part.category_property!r}; every drawn polygon needs its category")
        try:
            categories = workspace.taxonomy.one_per_axis([name.strip() for name in str(text).split("+")])
        except TaxonomyError as error:
            raise TaxonomyError(f"{part.path}: {part.category_property} {text!r}: {error}") from error
        found.append(Proposal(feature_id(part, properties, geometry), geometry, table.crs, categories, origin))
    return found
