"""What the scene-scoped stages share: the scenes that `collect` made, and how to open one."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.rasters import read_scene_tif
from tasks.steps import Done, Item
from tasks.tables import item_table
from tasks.workspace import Workspace
from trigpoint.geometry.frames import SceneFrame
from trigpoint.records.scene import Scene
from trigpoint.records.stage import ArtefactRef, ItemResult


class SceneInput(NamedTuple):
    """A scene and the artefact of its pixels."""

    scene: Scene
    image: ArtefactRef


def collected_scenes(workspace: Workspace, done: Done) -> list[SceneInput]:
    """Return all scenes of all sources, sorted by id, each once."""
    found: dict[str, SceneInput] = {}
    for result in done["collect"]:
        for text in item_table(workspace, result, "scene_record").column("record").to_pylist():
            scene = Scene.model_validate_json(text)
            found[scene.scene_id] = SceneInput(scene, result.files[scene.scene_id])
    return [found[scene_id] for scene_id in sorted(found)]


def open_scene(workspace: Workspace, payload: dict[str, Any]) -> tuple[Scene, SceneFrame, NDArray[np.bool_]]:
    """Return a scene, its frame and its valid mask (height, width) from an item's payload."""
    scene = Scene.model_validate(payload["scene"])
    image = ArtefactRef.model_validate(payload["image"])
    patch = read_scene_tif(workspace.store.get_bytes(image))
    return scene, frame_of(scene), patch.valid


def frame_of(scene: Scene) -> SceneFrame:
    """Return the frame of a scene."""
    return SceneFrame(scene.crs, scene.transform, scene.frame)


def scene_payload(scene: SceneInput) -> dict[str, Any]:
    """Return what `open_scene` needs."""
    return {"scene": scene.scene.to_json(), "image": scene.image.to_json()}


def results_by_item(done: Done, step: str) -> dict[str, ItemResult]:
    """Return the results of a step by item id."""
    return {result.item_id: result for result in done[step]}


def scene_items(workspace: Workspace, done: Done, needs: Sequence[str]) -> list[Item]:
    """Return one item per scene that has a result of every step in `needs`; its payload holds the scene and those results by step."""
    results = {step: results_by_item(done, step) for step in needs}
    items: list[Item] = []
    for entry in collected_scenes(workspace, done):
        scene_id = entry.scene.scene_id
        if all(scene_id in found for found in results.values()):
            made = {step: found[scene_id] for step, found in results.items()}
            items.append(
                Item(
                    item_id=scene_id,
                    inputs=(entry.image.sha256, *(result.content_sha256 for result in made.values())),
                    payload={**scene_payload(entry), **{step: result.to_json() for step, result in made.items()}},
                )
            )
    return items
