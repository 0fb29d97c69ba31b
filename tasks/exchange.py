"""Exports of masks for other programs, and imports of what came back: the workspace read and written.

Items are those that `annotate` proposes now, whatever people decided since its last run. Not here: formats and what an import means
(`trigpoint.exchange`).
"""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree

from PIL import Image

from storage.documents import parse_json, parse_xml, read_document
from storage.geopackages import read_list, read_mask_layers, write_geopackage
from storage.rasters import read_scene_tif
from tasks.last_build import last_annotated, proposed_masks
from tasks.scenes import SceneInput, collected_scenes
from tasks.workspace import Workspace
from trigpoint.errors import InputError
from trigpoint.exchange.coco import from_coco, to_coco
from trigpoint.exchange.cvat import from_cvat, labels_json, to_cvat
from trigpoint.exchange.geopackage import MASKS, from_geopackage, to_geopackage
from trigpoint.exchange.items import (
    JOINT,
    Document,
    ExchangeScene,
    Form,
    Format,
    Problem,
    list_of_export,
    masks_by_scene,
    read_export_list,
)
from trigpoint.exchange.label_studio import from_label_studio, label_config, to_label_studio
from trigpoint.exchange.merge import ImportPlan, Removed, plan_import
from trigpoint.exchange.qgis import ProjectLayer, mask_style, project_text, scene_bounds
from trigpoint.imagery.view import rgb_of_patch
from trigpoint.records.review import Role
from trigpoint.release.show import png_bytes
from trigpoint.review.ledger import ItemState
from trigpoint.review.policy import judge, round_of

Which = Literal["waiting", "all"]

LIST_FILE = "export.json"
"""The list of an export, for programs that drop it from their documents."""

GEOPACKAGE, PROJECT, COCO, TASKS, LABEL_CONFIG, CVAT, LABELS = (
    "masks.gpkg", "review.qgs", "instances.json", "tasks.json", "labels.xml", "annotations.xml", "labels.json",
)  # fmt: skip
"""Files of an export."""

PICTURES, TIFS = "pictures", "scenes"
"""Folders of an export: pictures as PNG without a turn tag, and for QGIS the scenes as GeoTIFF."""


class Opened(NamedTuple):
    """A release being built, as other programs may see it.

    Attributes:
        entries: Scene id → the scene and its pixels.
        scenes: The same for documents.
        states: All masks, by id.
    """

    workspace: Workspace
    entries: dict[str, SceneInput]
    scenes: dict[str, ExchangeScene]
    states: dict[str, ItemState]

    @property
    def release(self) -> str:
        """Name of the release in lists of exports."""
        return self.workspace.config.name


class Exported(NamedTuple):
    """What an export wrote: the folder, and how many scenes and items of each category."""

    folder: Path
    n_scenes: int
    n_items: dict[str, int]


def open_exchange(workspace: Workspace) -> Opened:
    """Read the scenes that were collected, the masks that are proposed in them, and what people decided.

    Raises:
        InputError: scenes are not collected yet, what else comes before `annotate` is not done, or a scene's masks cannot be made.
    """
    annotated = last_annotated(workspace)
    if annotated.failed:
        scene_id, why = min(annotated.failed.items())
        raise InputError(f"scene {scene_id}: its masks cannot be made: {why}; mend the cause, or `trigpoint build` says more")
    entries = {entry.scene.scene_id: entry for entry in collected_scenes(workspace, annotated.done)}
    items = proposed_masks(workspace, annotated.done["annotate"])
    states: dict[str, ItemState] = {}
    ledger = workspace.ledger.refresh()
    for scene_id in entries:
        here = [item for item in items if item.scene_id == scene_id]
        states |= {key: state for key, state in ledger.states_of_scene(scene_id, here).items() if state.item.kind == "mask"}
    scenes = {
        scene_id: ExchangeScene(scene_id, entry.scene.width, entry.scene.height, entry.scene.crs, entry.scene.transform)
        for scene_id, entry in entries.items()
    }
    return Opened(workspace, entries, scenes, states)


def export_masks(
    opened: Opened, format_: Format, folder: Path, scene_ids: Sequence[str], which: Which, form: Form = "mask", url_prefix: str = ""
) -> Exported:
    """Write an export into a new folder, whole or not at all.

    Args:
        opened: The release.
        format_: The format.
        folder: Made; must not be there, or be empty.
        scene_ids: Only these; none: all.
        which: `waiting` for masks that the policy still keeps back.
        form: As what masks are drawn, in Label Studio and CVAT.
        url_prefix: What Label Studio needs before the name of a picture.

    Raises:
        InputError: a scene is not there, the folder is not empty, or the format has no such form.
    """
    unknown = sorted(set(scene_ids) - set(opened.scenes))
    if unknown:
        raise InputError(f"--scene {unknown[0]!r}: the release has no such scene; `trigpoint catalogue tables` shows the tables to look in")
    if form != "mask" and format_ not in ("label-studio", "cvat"):
        raise InputError(f"--as {form}: {format_} has one form, masks exactly as they are; leave --as out")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--out {folder}: is there and not empty; choose another folder, what is in it may be somebody's work")
    chosen = [opened.scenes[scene_id] for scene_id in sorted(scene_ids or opened.scenes)]
    wanted = {scene.scene_id for scene in chosen}
    rule, seed = opened.workspace.config.review, opened.workspace.config.seed
    states = {
        item_id: state
        for item_id, state in opened.states.items()
        if state.item.scene_id in wanted
        and (which == "all" or judge(state, rule, seed).status in ("waiting", "returned"))
        and judge(state, rule, seed).status != "rejected"
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as parent:
        target = Path(parent) / "export"
        target.mkdir()
        _write(opened, format_, target, chosen, states, form, url_prefix)
        if folder.exists():
            folder.rmdir()
        os.rename(target, folder)  # noqa: PTH104 - into place at once, on one file system
    counts: dict[str, int] = {}
    for _, value in (pair for pairs in masks_by_scene(states).values() for pair in pairs):
        name = JOINT.join(value.category)
        counts[name] = counts.get(name, 0) + 1
    return Exported(folder, len(chosen), dict(sorted(counts.items())))


def _write(
    opened: Opened,
    format_: Format,
    target: Path,
    scenes: list[ExchangeScene],
    states: Mapping[str, ItemState],
    form: Form,
    url_prefix: str,
) -> None:
    taxonomy = opened.workspace.taxonomy
    export = list_of_export(opened.release, format_, scenes, states, form).to_json()
    _write_json(target / LIST_FILE, export)
    if format_ == "gpkg":
        _write_for_qgis(opened, target, scenes, states, export)
        return
    if format_ == "coco":
        _write_json(target / COCO, to_coco(opened.release, scenes, states, taxonomy))
    elif format_ == "label-studio":
        _write_json(target / TASKS, to_label_studio(opened.release, scenes, states, form, url_prefix))
        (target / LABEL_CONFIG).write_text(label_config(taxonomy), encoding="utf-8")
    else:
        document = ElementTree.tostring(to_cvat(scenes, states, form), encoding="utf-8", xml_declaration=True)
        (target / CVAT).write_bytes(document + b"\n")
        (target / LABELS).write_text(labels_json(taxonomy), encoding="utf-8")
    (target / PICTURES).mkdir()
    for scene in scenes:
        patch = read_scene_tif(opened.workspace.store.get_bytes(opened.entries[scene.scene_id].image))
        (target / PICTURES / scene.picture).write_bytes(png_bytes(Image.fromarray(rgb_of_patch(patch).array)))


def _write_for_qgis(
    opened: Opened, target: Path, scenes: list[ExchangeScene], states: Mapping[str, ItemState], export: dict[str, Any]
) -> None:
    taxonomy = opened.workspace.taxonomy
    first = taxonomy.axes[0].id
    used = {JOINT.join(value.category) for pairs in masks_by_scene(states).values() for _, value in pairs}
    categories = sorted(used | {category.id for category in taxonomy.categories if category.axis == first})
    layers = to_geopackage(scenes, states)
    styles = {layer.name: mask_style(categories) for layer in layers if layer.name.startswith(MASKS)}
    write_geopackage(target / GEOPACKAGE, layers, styles, export)
    (target / TIFS).mkdir()
    for scene in scenes:
        (target / TIFS / f"{scene.stem}.tif").write_bytes(opened.workspace.store.get_bytes(opened.entries[scene.scene_id].image))
    project: list[ProjectLayer] = []
    for layer in layers:
        bounds = [scene_bounds(scene) for scene in scenes if scene.crs == layer.crs]
        whole = (min(b[0] for b in bounds), min(b[1] for b in bounds), max(b[2] for b in bounds), max(b[3] for b in bounds))
        project.append(ProjectLayer(layer.name, f"./{GEOPACKAGE}|layername={layer.name}", layer.crs, whole, is_vector=True))
    for scene in scenes:
        project.append(ProjectLayer(scene.stem, f"./{TIFS}/{scene.stem}.tif", scene.crs, scene_bounds(scene), is_vector=False))
    (target / PROJECT).write_text(project_text(opened.workspace.config.title, project, categories), encoding="utf-8")


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8")


def read_masks(opened: Opened, path: Path, list_path: Path | None = None, orientation: int = 1) -> Document:
    """Read a file that another program wrote; its content says which format it is.

    Args:
        opened: The release.
        path: `.gpkg`, COCO or Label Studio JSON, CVAT XML, or a zip archive of one of these.
        list_path: The list of the export; else the document's own, else `export.json` beside the file.
        orientation: Turn tag (Exif) of the pictures that people drew on, when it was not those of the export.

    Raises:
        InputError: it cannot be read as any of them.
    """
    scenes = {scene_id: scene._replace(orientation=orientation) for scene_id, scene in opened.scenes.items()}
    taxonomy = opened.workspace.taxonomy
    if path.suffix.lower() == ".gpkg":
        found = read_list(path)
        layers, broken = read_mask_layers(path)
        own = read_export_list(found) if found is not None and list_path is None else _list_beside(path, list_path, "gpkg")
        document = from_geopackage(layers, own, opened.scenes, taxonomy)
        return document._replace(problems=(*document.problems, *(Problem(line, None, "its geometry cannot be read") for line in broken)))
    raw = read_document(path, (".json", ".xml"), passed_over=(LIST_FILE, LABELS, LABEL_CONFIG))
    if raw.data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        document = from_cvat(parse_xml(raw), scenes, taxonomy)
    else:
        content = parse_json(raw)
        document = (from_label_studio if isinstance(content, list) else from_coco)(content, scenes, taxonomy)
    if document.export is None or list_path is not None:
        document = document._replace(export=_list_beside(path, list_path, document.format))
    return document


def _list_beside(path: Path, list_path: Path | None, format_: Format) -> Any:
    """Read the list of the export; one that merely lies beside the file must be of its format."""
    beside = list_path or path.parent / LIST_FILE
    if list_path is None and not beside.is_file():
        return None
    export = read_export_list(parse_json(read_document(beside, (".json",))))
    if export.format != format_:
        if list_path is None:
            return None
        raise InputError(f"--list {list_path}: is of an export as {export.format}, and {path.name} is {format_}; give that of this export")
    return export


def plan_masks(opened: Opened, document: Document, who: str, role: Role, removed: Removed, round_number: int | None = None) -> ImportPlan:
    """Say what an import would do; see `trigpoint.exchange.merge.plan_import`.

    Raises:
        InputError: the policy is unanimous, and it is not clear in which round the person decides.
    """
    number = round_of(opened.workspace.config.review, who, round_number)
    ledger = opened.workspace.ledger.refresh()

    def newest(item_id: str) -> str | None:
        decision = ledger.newest(item_id)
        return decision.decision_id if decision else None

    return plan_import(opened.release, opened.states, document, who, role, removed, newest, number)


def write_decisions(opened: Opened, plan: ImportPlan) -> int:
    """Write what an import decides, all or none; returns how many decisions are new.

    Raises:
        ConflictError: somebody decided about one of its items meanwhile.
    """
    return opened.workspace.ledger.append_all(plan.decisions)
