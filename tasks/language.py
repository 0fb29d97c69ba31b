"""language: what is said of everything of one category in one scene, held against the scene before anyone sees it."""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from storage.digests import CHECKOUT
from tasks.graph import load_graph
from tasks.query import items_with_pois, poi_categories
from tasks.scenes import frame_of
from tasks.steps import Done, Item, Made
from tasks.tables import item_table, record_table
from tasks.workspace import Workspace
from trigpoint.categories import Taxonomy, load_taxonomy
from trigpoint.geometry.frames import SceneFrame
from trigpoint.geometry.places import reach_into_scene
from trigpoint.language.grounding import GroundedCheck, GroundScene, centroid_shares
from trigpoint.language.items import RELEASED, Draft, drafts_of, judge_drafts
from trigpoint.language.offline import NAME, write_offline
from trigpoint.language.targets import targets_of
from trigpoint.programs.resolver import Resolver
from trigpoint.records.language import Generated, LanguageItem, LanguageTarget, Verified
from trigpoint.records.scene import Scene
from trigpoint.records.stage import Drop, ItemResult


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per scene with a graph; none when the release asks for no language."""
    if not workspace.config.language.forms:
        return []
    needs = ("boxes", "graph") if workspace.config.language.provider == NAME else ("boxes", "graph", "calls")
    return items_with_pois(workspace, done, needs)


VOCABULARIES = tuple(path for path in sorted((CHECKOUT / "taxonomy").glob("*.yaml")) if not path.name.startswith("licences."))
"""Taxonomies whose words negatives are looked up in, beside the release's own."""


@lru_cache(maxsize=1)
def _vocabularies() -> tuple[Taxonomy, ...]:
    return tuple(load_taxonomy(path) for path in VOCABULARIES)


def load_resolver(workspace: Workspace, item: Item) -> tuple[Resolver | None, list[bool]]:
    """Return the graph of a scene with its taxonomy (None without a graph), and which instances get boxes."""
    config = workspace.config
    rows = item_table(workspace, ItemResult.model_validate(item.payload["boxes"]), "instance").to_pylist()
    graph = load_graph(workspace, item.payload["scene"], rows, ItemResult.model_validate(item.payload["graph"]))
    resolver = Resolver(graph, workspace.taxonomy, config.rules, config.unknown_is_other) if graph is not None else None
    return resolver, [row["boxable"] for row in rows]


def ground_scene(workspace: Workspace, item: Item) -> tuple[GroundScene | None, list[bool]]:
    """Return what the sentences of a scene are held against (None without a graph), and which instances get boxes."""
    config = workspace.config
    resolver, boxable = load_resolver(workspace, item)
    if resolver is None:
        return None, []
    scene = Scene.model_validate(item.payload["scene"])
    corners = np.array([[0, 0], [scene.width, 0], [scene.width, scene.height], [0, scene.height]], dtype=np.float64)
    frame, size = frame_of(scene), (scene.width, scene.height)
    mapped = item_table(workspace, ItemResult.model_validate(item.payload["collect"]), "mapped")
    source = next(source for source in config.sources if source.name == scene.source)
    ground = GroundScene(
        resolver=resolver,
        centroid_share=centroid_shares(resolver.graph, frame.ground_from_image(corners)),
        is_north_up=scene.frame.is_north_up,
        near_m=config.rules.near_m(scene.shorter_side_m, scene.frame.gsd_m),
        poi_categories=poi_categories(workspace, item, frame, size),
        mapped_tags=_tags_in_scene(mapped, frame, size),
        is_map_complete=any(part.complete for part in source.pois),
        vocabularies=tuple(taxonomy for taxonomy in _vocabularies() if taxonomy.name != workspace.taxonomy.name),
    )
    return ground, boxable


def _tags_in_scene(mapped: pa.Table, frame: SceneFrame, size: tuple[int, int]) -> list[dict[str, str]]:
    """Tags of what is mapped and shares a point with a scene of `size` (width, height)."""
    if mapped.num_rows == 0:
        return []
    inside = reach_into_scene(shapely.from_wkb(mapped.column("geometry").to_numpy(zero_copy_only=False)), frame, size)
    tags = mapped.column("tags")
    return [json.loads(tags[int(k)].as_py()) for k in np.flatnonzero(inside)]


def make(workspace: Workspace, item: Item) -> Made:
    """Write the sentences of one scene and hold each against the ground."""
    ground, boxable = ground_scene(workspace, item)
    targets = targets_of(ground.resolver, boxable) if ground is not None else []
    config = workspace.config.language
    provider = NAME if config.provider == NAME else config.model
    answers = _answers(workspace, item)
    items: list[LanguageItem] = []
    for target in targets:
        assert ground is not None  # there are no targets without
        check = GroundedCheck(ground, target)
        drafts = _drafts(check, answers)
        items += judge_drafts(check, [draft for draft in drafts if draft.written.form in config.forms], provider)
    drops = [
        Drop(
            stage="language",
            scope_id=item.item_id,
            item_id=one.item_id,
            reason_code="contradicted" if one.state == "dropped" else "needs_review",
            detail=f"{one.form} {one.original!r}: {one.reason}",
            remedy="see language.jsonl",
        )
        for one in items
        if one.state in ("dropped", "review")
    ]
    tables = {
        "annotation": record_table(target.to_json() for target in targets),
        "language_item": record_table(one.to_json() for one in items),
    }
    return Made(tables, drops=drops, n_in=len(items), n_out=sum(one.state in RELEASED for one in items))


def _answers(workspace: Workspace, item: Item) -> dict[str, dict[str, Any]] | None:
    """What the calls before this step were answered, by annotation; None when sentences are written offline."""
    if "calls" not in item.payload:
        return None
    rows = item_table(workspace, ItemResult.model_validate(item.payload["calls"]), "answer").to_pylist()
    return {row["annotation_id"]: row for row in rows}


def _drafts(check: GroundedCheck, answers: dict[str, dict[str, Any]] | None) -> list[Draft]:
    """What the provider wrote about a target."""
    if answers is None:
        return [Draft(written, written.text) for written in write_offline(check)]
    row = answers[check.target.annotation_id]
    if row["generated"] is None:
        return []
    verified = Verified.model_validate_json(row["verified"]) if row["verified"] is not None else None
    return drafts_of(Generated.model_validate_json(row["generated"]), verified)


def released_language(workspace: Workspace, results: Iterable[ItemResult]) -> tuple[list[LanguageTarget], list[LanguageItem]]:
    """Return every annotation and every item of all scenes, sorted by id."""
    targets: list[LanguageTarget] = []
    items: list[LanguageItem] = []
    for result in results:
        targets += [
            LanguageTarget.model_validate_json(text) for text in item_table(workspace, result, "annotation").column("record").to_pylist()
        ]
        items += [
            LanguageItem.model_validate_json(text) for text in item_table(workspace, result, "language_item").column("record").to_pylist()
        ]
    return sorted(targets, key=lambda target: target.annotation_id), sorted(items, key=lambda item: item.item_id)
