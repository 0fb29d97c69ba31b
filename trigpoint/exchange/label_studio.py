"""Label Studio: brush masks (its own run lengths), polygons, turned rectangles; numbers in percent of the picture's width and height.

x and widths are percent of the width, y and heights of the height; a rectangle turns clockwise about its top left corner, in pixels and
not in percent. Source: labelstud.io/tags (brushlabels, polygonlabels, rectanglelabels), HumanSignal/label-studio#5274 and
label-studio-converter#131; `trigpoint.exchange.brush` for the run lengths.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast
from xml.sax.saxutils import quoteattr

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.boxes.conventions import AngledBox
from trigpoint.categories import Taxonomy
from trigpoint.errors import InputError
from trigpoint.exchange.brush import decode_brush, encode_brush
from trigpoint.exchange.items import (
    Document,
    ExchangeScene,
    ExportList,
    Form,
    list_of_export,
    masks_by_scene,
    read_export_list,
    shown,
)
from trigpoint.exchange.reading import Label, Reader, Sheet
from trigpoint.exchange.shapes import box_corners, is_plain_polygon
from trigpoint.masks.crops import crop_of_record, polygon_of_record
from trigpoint.masks.rle import flat_numbers
from trigpoint.records.mask import MaskCrop
from trigpoint.review.ledger import ItemState

_TAGS: dict[Form, tuple[str, str]] = {
    "mask": ("brush", "BrushLabels"),
    "polygon": ("polygon", "PolygonLabels"),
    "box": ("box", "RectangleLabels"),
}
"""Form → name of the control in the labelling configuration, and its tag; the type of a result is the tag in lower case."""

_ITEM_ID = re.compile(r"i-[0-9a-f]{16}")
"""Ids of regions that are ours; those that Label Studio makes are shorter."""


def label_config(taxonomy: Taxonomy) -> str:
    """Write the labelling configuration of the project: all categories as brush, polygon and rectangle; several labels, one per axis."""
    labels = "".join(f"    <Label value={quoteattr(category.id)}/>\n" for category in taxonomy.categories)
    controls = "".join(f'  <{tag} name="{name}" toName="image" choice="multiple">\n{labels}  </{tag}>\n' for name, tag in _TAGS.values())
    return f'<View>\n  <Image name="image" value="$image" zoom="true" zoomControl="true"/>\n{controls}</View>\n'


def to_label_studio(
    release: str, scenes: Iterable[ExchangeScene], states: Mapping[str, ItemState], form: Form = "mask", url_prefix: str = ""
) -> list[dict[str, Any]]:
    """Write scenes as tasks, one annotation each.

    Args:
        release: Name of the release.
        scenes: In any order.
        states: Items by id.
        form: As what items are drawn. A polygon cannot hold holes or several parts: such items are brush masks all the same.
        url_prefix: What Label Studio needs before the name of a picture, such as `/data/local-files/?d=pictures/`.
    """
    by_scene = masks_by_scene(states)
    tasks: list[dict[str, Any]] = []
    for scene in sorted(scenes, key=lambda scene: scene.scene_id):
        results: list[dict[str, Any]] = []
        for state, value in by_scene.get(scene.scene_id, []):
            drawn = form if form != "polygon" or is_plain_polygon(value.mask) else "mask"
            results.append(_result(scene, state.item.item_id, value.category, drawn, value.mask))
        here = {state.item.item_id: state for state, _ in by_scene.get(scene.scene_id, [])}
        export = list_of_export(release, "label-studio", [scene], here, form)
        data = {"image": f"{url_prefix}{scene.picture}", "scene_id": scene.scene_id, "export": export.to_json()}
        tasks.append({"data": data, "annotations": [{"result": results}]})
    return tasks


def _result(scene: ExchangeScene, item_id: str, category: tuple[str, ...], form: Form, mask: MaskCrop) -> dict[str, Any]:
    name, tag = _TAGS[form]
    kind = tag.lower()
    share = np.array([100.0 / scene.width, 100.0 / scene.height])
    value: dict[str, Any]
    if form == "mask":
        crop = crop_of_record(mask, scene.height, scene.width, item_id)
        whole = np.zeros((scene.height, scene.width), dtype=bool)
        whole[crop.slices] = crop.mask
        value = {"format": "rle", "rle": encode_brush(whole)}
    elif form == "polygon":
        ring = shapely.get_coordinates(shapely.get_exterior_ring(polygon_of_record(mask)))[:-1]
        value = {"points": (ring * share).tolist(), "closed": True}
    else:
        corners = box_corners(mask)
        side, other = corners[1] - corners[0], corners[3] - corners[0]
        numbers = [*corners[0] * share, np.hypot(*side) * share[0], np.hypot(*other) * share[1]]
        value = dict(zip(("x", "y", "width", "height"), map(float, numbers), strict=True))
        value["rotation"] = math.degrees(math.atan2(side[1], side[0])) % 360.0
    return {
        "id": item_id,
        "type": kind,
        "from_name": name,
        "to_name": "image",
        "original_width": scene.width,
        "original_height": scene.height,
        "image_rotation": 0,
        "value": {**value, kind: list(category)},
    }


def from_label_studio(document: Any, scenes: Mapping[str, ExchangeScene], taxonomy: Taxonomy) -> Document:
    """Read an export of Label Studio (JSON, not JSON-MIN): one annotation per task; cancelled ones and predictions are passed over.

    Args:
        document: The JSON value: a list of tasks.
        scenes: Scene id → scene of the release.
        taxonomy: Its category ids are the labels.

    Raises:
        InputError: it is no list of tasks, or a list of the export in it is broken.
    """
    tasks = cast(list[Any], document) if isinstance(document, list) else []
    if not isinstance(document, list) or not all(isinstance(task, dict) and isinstance(task.get("data"), dict) for task in tasks):
        raise InputError("Label Studio export: expected a list of tasks, each with 'data'; export as JSON (not JSON-MIN or CSV)")
    reader = Reader("label-studio", scenes, taxonomy)
    exports: list[ExportList] = []
    for position, task in enumerate(cast(list[dict[str, Any]], tasks)):
        _read_task(reader, f"task {shown(task.get('id', position))}", task, exports)
    if exports:
        if len({export.release for export in exports}) > 1:
            raise InputError(f"Label Studio export: its tasks are of {len({e.release for e in exports})} releases; import them one by one")
        scene_ids = tuple(sorted({scene_id for export in exports for scene_id in export.scene_ids}))
        items = {item.item_id: item for export in exports for item in export.items}
        reader.export = exports[0].model_copy(update={"scene_ids": scene_ids, "items": tuple(items.values())})
    return reader.document()


def _read_task(reader: Reader, place: str, task: dict[str, Any], exports: list[ExportList]) -> None:
    data = cast(dict[str, Any], task["data"])
    scene_id, name = data.get("scene_id"), data.get("image")
    given = task.get("annotations")
    annotations = [a for a in given if isinstance(a, dict) and not a.get("was_cancelled")] if isinstance(given, list) else []
    if not annotations:
        return  # nobody has worked on it
    if len(annotations) > 1:
        reader.problem(place, f"it has {len(annotations)} annotations, expected one; delete those that do not count")
        return
    scene = reader.scene(scene_id, place) if isinstance(scene_id, str) else None
    if isinstance(scene_id, str) and scene is None:
        return
    if "export" in data:
        exports.append(read_export_list(data["export"]))
    results = annotations[0].get("result")
    if scene is not None:
        reader.scene_ids.add(scene.scene_id)
    for position, result in enumerate(results if isinstance(results, list) else []):
        if not isinstance(result, dict) or not isinstance(result.get("value"), dict):
            reader.problem(f"{place}, result {position} from the top", "it is no object with a 'value'")
            continue
        region = cast(dict[str, Any], result)
        where = f"{place}, region {shown(region.get('id', position))}"
        size = [region.get("original_width"), region.get("original_height")]
        sheet = reader.sheet(name if isinstance(name, str) else "", size, where, scene.scene_id if scene else None)
        if sheet is not None:
            _read_result(reader, where, sheet, region)


def _read_result(reader: Reader, place: str, sheet: Sheet, region: dict[str, Any]) -> None:
    value = cast(dict[str, Any], region["value"])
    kind = region.get("type")
    own = region.get("id")
    item_id = own if isinstance(own, str) and _ITEM_ID.fullmatch(own) else None
    labels = value.get(kind) if isinstance(kind, str) else None
    categories = [label for label in cast(list[Any], labels) if isinstance(label, str)] if isinstance(labels, list) else []
    label = Label(place, item_id, categories)
    if region.get("image_rotation") not in (0, None, 360):
        cause = f"the picture was turned by {shown(region['image_rotation'])}° in Label Studio; turn it back there and export again"
        reader.problem(place, cause, item_id)
        return
    width, height = sheet.size
    scale = np.array([width / 100.0, height / 100.0])
    if kind == "brushlabels":
        try:
            reader.add_mask(label, sheet, decode_brush(value.get("rle"), height, width, "rle"))
        except InputError as error:
            reader.problem(place, str(error), item_id)
    elif kind == "polygonlabels":
        points = _points(value.get("points"))
        if points is None or len(points) < 3:
            reader.problem(place, "expected at least three points [x, y] in percent", item_id)
        else:
            reader.add_polygon(label, sheet, shapely.Polygon(points * scale))
    elif kind == "rectanglelabels":
        numbers = flat_numbers([value.get(key, 0 if key == "rotation" else None) for key in ("x", "y", "width", "height", "rotation")])
        if numbers is None:
            reader.problem(place, "its x, y, width, height or rotation is no finite number", item_id)
        else:
            x, y, box_width, box_height = (numbers[:4] * np.tile(scale, 2)).tolist()
            reader.add_box(label, sheet, turned_about_corner(x, y, box_width, box_height, float(numbers[4])))
    else:
        reader.problem(place, f"a region of type {kind!r} is no mask; draw it with the brush, as a polygon or as a rectangle", item_id)


def turned_about_corner(x: float, y: float, width: float, height: float, angle_deg: float) -> AngledBox:
    """Return the box that a rectangle becomes when it turns clockwise about its top left corner; pixels, degrees.

    >>> turned_about_corner(10, 20, 4, 2, 90)
    AngledBox(cx=9.0, cy=22.0, width=4, height=2, angle_deg=90)
    """
    cos, sin = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    cx, cy = x + (width * cos - height * sin) / 2, y + (width * sin + height * cos) / 2
    return AngledBox(cx, cy, width, height, angle_deg)


def _points(value: Any) -> NDArray[np.float64] | None:
    if not isinstance(value, list):
        return None
    rows = [flat_numbers(row) for row in cast(list[Any], value)]
    if any(row is None or len(row) != 2 for row in rows):
        return None
    return np.array(rows, dtype=np.float64).reshape(-1, 2)
