"""calls: what a language model answers in two stages about the targets of each scene; none when sentences are written offline."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from storage.calls import CallRecord
from storage.digests import CHECKOUT
from storage.rasters import read_scene_tif
from tasks.boxes import read_masks
from tasks.graph import masks_of_rows
from tasks.language import ground_scene
from tasks.scenes import scene_items
from tasks.steps import Done, Item, Made
from tasks.tables import item_table
from tasks.workspace import Workspace
from trigpoint.identity import canonical_json
from trigpoint.imagery.view import rgb_of_patch
from trigpoint.language.openai_provider import PROMPT_FILES, OpenAIProvider
from trigpoint.language.pictures import outlined_png, raw_png
from trigpoint.language.provider import TargetRequest, ask_all
from trigpoint.language.targets import targets_of
from trigpoint.records.stage import ArtefactRef, Drop, ItemResult

PROMPTS = CHECKOUT / "prompts"

MAX_HINTS = 20
"""Look-alikes that a model is shown as hints."""


def prompt_files() -> list[Path]:
    """The prompts that the calls use."""
    return [PROMPTS / name for name in PROMPT_FILES]


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per scene with a graph; none when no language model is asked."""
    config = workspace.config.language
    if not config.forms or config.provider == "offline":
        return []
    return scene_items(workspace, done, ("annotate", "boxes", "graph"))


def make(workspace: Workspace, item: Item) -> Made:
    """Ask both stages about every target of a scene; what was answered before is taken from the record of calls."""
    ground, boxable = ground_scene(workspace, item, frozenset())
    targets = targets_of(ground.resolver, boxable) if ground is not None else []
    rows = item_table(workspace, ItemResult.model_validate(item.payload["boxes"]), "instance").to_pylist()
    masks = masks_of_rows(rows, *read_masks(workspace, ItemResult.model_validate(item.payload["annotate"])))
    rgb = rgb_of_patch(read_scene_tif(workspace.store.get_bytes(ArtefactRef.model_validate(item.payload["image"])))).array
    raw = raw_png(rgb)
    index = {row["instance_id"]: k for k, row in enumerate(rows)}
    requests: list[TargetRequest] = []
    for target in targets:
        nodes = [index[instance_id] for instance_id in target.instance_ids]
        mask = np.isin(masks.labels, [masks.label_of_node[k] for k in nodes if k not in masks.planes])
        for k in nodes:
            if k in masks.planes:
                mask |= masks.planes[k]
        category = workspace.taxonomy.get(target.category[0])
        hints = tuple(dict.fromkeys((*category.look_alikes, *category.negatives)))[:MAX_HINTS]
        requests.append(
            TargetRequest(
                target_id=target.annotation_id, category=target.name, outlined_png=outlined_png(rgb, mask), raw_png=raw, candidates=hints
            )
        )
    config = workspace.config
    folder = Path(config.run.store) if config.run.store and "://" not in config.run.store else workspace.work / "store"
    with OpenAIProvider(config.language, PROMPTS, CallRecord(folder / "calls"), f"{config.name}-{config.version}", config.seed) as provider:
        answers = ask_all(provider, requests)
    made: list[dict[str, Any]] = []
    drops: list[Drop] = []
    for target, (generated, verified) in zip(targets, answers, strict=True):
        failed = next((answer for answer in (generated, verified) if answer is not None and answer.outcome != "ok"), None)
        if failed is not None:
            detail = f"{target.name} in {target.scene_id}, {failed.prompt}: {failed.reason or failed.outcome}"
            drops.append(
                Drop(stage="language", scope_id=item.item_id, item_id=target.annotation_id, reason_code=failed.outcome, detail=detail)
            )
        made.append(
            {
                "annotation_id": target.annotation_id,
                "generated": canonical_json(generated.answer.to_json()) if generated.answer is not None else None,
                "verified": canonical_json(verified.answer.to_json()) if verified is not None and verified.answer is not None else None,
            }
        )
    return Made(
        {"answer": pa.Table.from_pylist(made, schema=ANSWER_SCHEMA)}, drops=drops, n_in=len(targets), n_out=len(targets) - len(drops)
    )


ANSWER_SCHEMA = pa.schema([("annotation_id", pa.string()), ("generated", pa.string()), ("verified", pa.string())])
"""Answers of both stages as JSON, null where a stage gave none."""
