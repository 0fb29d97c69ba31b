"""What the scene-scoped stages share: the scenes that `collect` made, and how to open one."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.rasters import read_scene_tif
from tasks.steps import Done
from tasks.tables import item_table
from tasks.workspace import Workspace
from trigpoint.geometry.frames import SceneFrame
from trigpoint.records.scene import Scene
from trigpoint.records.stage import ArtefactRef, ItemResult


class SceneInput(NamedTuple):
    """A scene and the artefact of its pixels."""

    scene: Scene
    image: ArtefactRef
    source_result: ItemResult


def collected_scenes(workspace: Workspace, done: Done) -> list[SceneInput]:
    """Return all scenes of all sources, sorted by id, each once."""
    found: dict[str, SceneInput] = {}
    for result in done["collect"]:
        for text in item_table(workspace, result, "scene_record").column("record").to_pylist():
            scene = Scene.model_validate_json(text)
            found[scene.scene_id] = SceneInput(scene, result.files[scene.scene_id], result)
    return [found[scene_id] for scene_id in sorted(found)]


def open_scene(workspace: Workspace, payload: dict[str, Any]) -> tuple[Scene, SceneFrame, NDArray[np.bool_]]:
    """Return a scene, its frame and its valid mask (height, width) from an item's payload."""
    scene = Scene.model_validate(payload["scene"])
    image = ArtefactRef.model_validate(payload["image"])
    patch = read_scene_tif(workspace.store.get_bytes(image))
    return scene, SceneFrame(scene.crs, scene.transform, scene.frame), patch.valid


def scene_payload(scene: SceneInput) -> dict[str, Any]:
    """Return what `open_scene` needs."""
    return {"scene": scene.scene.to_json(), "image": scene.image.to_json()}


def results_by_item(done: Done, step: str) -> dict[str, ItemResult]:
    """Return the results of a step by item id."""
    return {result.item_id: result for result in done[step]}
