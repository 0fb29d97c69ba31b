"""COCO instances: masks as run lengths, which keep holes and parts; one category per annotation, its further axes as an attribute."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.boxes.conventions import AngledBox
from trigpoint.categories import Taxonomy
from trigpoint.errors import InputError
from trigpoint.exchange.items import (
    ITEM_KEY,
    MORE_KEY,
    SEEN_KEY,
    SEPARABLE_KEY,
    Document,
    ExchangeScene,
    join_category,
    list_of_export,
    masks_by_scene,
    read_export_list,
    read_seen,
    read_separable,
    seen_text,
    separable_text,
    split_category,
)
from trigpoint.exchange.reading import Label, Reader, Sheet
from trigpoint.geometry.repair import repair_polygon
from trigpoint.masks.crops import crop_of_record
from trigpoint.masks.rle import check_rle, decode, encode_mask, flat_numbers
from trigpoint.review.ledger import ItemState

LIST_KEY = "trigpoint_export"
"""Key of `info` that holds the list of the export; many programs drop it."""


def to_coco(release: str, scenes: Iterable[ExchangeScene], states: Mapping[str, ItemState], taxonomy: Taxonomy) -> dict[str, Any]:
    """Write the masks of scenes as a COCO instances document. Ids are whole numbers from 1 that mean nothing outside it.

    Args:
        release: Name of the release.
        scenes: In any order.
        states: Items by id; those that are split or merged away are left out.
        taxonomy: Its categories on the first axis become the categories.
    """
    ordered = sorted(scenes, key=lambda scene: scene.scene_id)
    by_scene = masks_by_scene(states)
    first_axis = taxonomy.axes[0].id
    category_id = {category.id: k for k, category in enumerate((c for c in taxonomy.categories if c.axis == first_axis), start=1)}
    annotations: list[dict[str, Any]] = []
    for image_id, scene in enumerate(ordered, start=1):
        for state, value in by_scene.get(scene.scene_id, []):
            crop = crop_of_record(value.mask, scene.height, scene.width, state.item.item_id)
            mask = np.zeros((scene.height, scene.width), dtype=bool)
            mask[crop.slices] = crop.mask
            name, more = split_category(value.category)
            (x, y), (height, width) = value.mask.origin_px, value.mask.size_px
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image_id,
                    "category_id": category_id[name],
                    "segmentation": {"size": [scene.height, scene.width], "counts": encode_mask(mask)},
                    "area": crop.area_px,
                    "bbox": [x, y, width, height],
                    "iscrowd": 0,
                    "attributes": {
                        ITEM_KEY: state.item.item_id,
                        SEEN_KEY: seen_text(state),
                        MORE_KEY: more,
                        SEPARABLE_KEY: separable_text(value),
                    },
                }
            )
    return {
        "info": {"description": release, LIST_KEY: list_of_export(release, "coco", ordered, states).to_json()},
        "images": [
            {"id": k, "file_name": scene.picture, "width": scene.width, "height": scene.height} for k, scene in enumerate(ordered, start=1)
        ],
        "annotations": annotations,
        "categories": [{"id": number, "name": name, "supercategory": ""} for name, number in category_id.items()],
    }


def from_coco(document: Any, scenes: Mapping[str, ExchangeScene], taxonomy: Taxonomy) -> Document:
    """Read a COCO instances document: run lengths, polygons (whose rings are united: they cannot say that they are holes), else boxes.

    Args:
        document: The JSON value.
        scenes: Scene id → scene of the release.
        taxonomy: Its categories are looked up by the names of the document's.

    Raises:
        InputError: it lacks `images`, `annotations` or `categories`, or its list of the export is broken.
    """
    lists = ("images", "annotations", "categories")
    if not isinstance(document, dict) or not all(isinstance(cast(dict[str, Any], document).get(name), list) for name in lists):
        raise InputError(f"COCO document: expected an object with the lists {', '.join(lists)}; export instances")
    content = cast(dict[str, Any], document)
    reader = Reader("coco", scenes, taxonomy)
    info = content.get("info")
    if isinstance(info, dict) and LIST_KEY in info:
        reader.export = read_export_list(cast(dict[str, Any], info)[LIST_KEY])
    sheets = _sheets(reader, content["images"])
    names = _names(reader, content["categories"])
    for place, row in enumerate(content["annotations"]):
        _read_annotation(reader, place, row, sheets, names)
    return reader.document()


def _sheets(reader: Reader, rows: list[Any]) -> dict[int, Sheet]:
    found: dict[int, Sheet] = {}
    for place, row in enumerate(rows):
        if not isinstance(row, dict) or type(row.get("id")) is not int or not isinstance(row.get("file_name"), str):
            reader.problem(f"image {place} from the top", "it has no whole number as id, or no file_name")
        elif row["id"] in found:
            reader.problem(f"image {row['id']}", "two images have this id; give each its own")
        else:
            sheet = reader.sheet(row["file_name"], [row.get("width"), row.get("height")], f"image {row['id']}")
            if sheet is not None:
                found[row["id"]] = sheet
    return found


def _names(reader: Reader, rows: list[Any]) -> dict[int, str]:
    names: dict[int, str] = {}
    for place, row in enumerate(rows):
        if not isinstance(row, dict) or type(row.get("id")) is not int or not isinstance(row.get("name"), str):
            reader.problem(f"category {place} from the top", "it has no whole number as id, or no name")
        elif row["id"] in names:
            reader.problem(f"category {row['id']}", "two categories have this id; give each its own")
        else:
            names[row["id"]] = row["name"]
    return names


def _read_annotation(reader: Reader, position: int, row: Any, sheets: dict[int, Sheet], names: dict[int, str]) -> None:
    if not isinstance(row, dict) or type(row.get("id")) is not int:
        reader.problem(f"annotation {position} from the top", "it has no whole number as id")
        return
    place = f"annotation {row['id']}"
    given = row.get("attributes")
    attributes = cast(dict[str, Any], given) if isinstance(given, dict) else {}
    item_id = attributes.get(ITEM_KEY) or None
    if item_id is not None and not isinstance(item_id, str):
        reader.problem(place, f"its {ITEM_KEY} is {item_id!r}, expected text")
        return
    sheet, name = sheets.get(row.get("image_id", -1)), names.get(row.get("category_id", -1))
    if sheet is None or name is None:
        what = f"image {row.get('image_id')!r}" if sheet is None else f"category {row.get('category_id')!r}"
        reader.problem(place, f"{what} is not in the document, or cannot be used", item_id)
        return
    separable = read_separable(attributes.get(SEPARABLE_KEY))
    label = Label(place, item_id, join_category(name, attributes.get(MORE_KEY)), read_seen(attributes.get(SEEN_KEY)), separable)
    shape = row.get("segmentation")
    if isinstance(shape, dict):
        width, height = sheet.size
        try:
            mask = decode(check_rle(shape, (height, width), "segmentation"))
        except InputError as error:
            reader.problem(place, str(error), item_id)
            return
        reader.add_mask(label, sheet, mask)
    elif isinstance(shape, list) and shape:
        _read_rings(reader, label, sheet, cast(list[Any], shape))
    elif shape is None and row.get("bbox") is not None:
        box = flat_numbers(row["bbox"])
        if box is None or len(box) != 4:
            reader.problem(place, f"its bbox is {row['bbox']!r}, expected [x, y, width, height]", item_id)
        else:
            x, y, width, height = box.tolist()
            reader.add_box(label, sheet, AngledBox(x + width / 2, y + height / 2, width, height, 0.0))
    else:
        reader.problem(place, f"its segmentation is {str(shape)[:40]!r}, expected run lengths or at least one polygon", item_id)


def _read_rings(reader: Reader, label: Label, sheet: Sheet, rings: list[Any]) -> None:
    parts: list[NDArray[np.float64]] = []
    for k, ring in enumerate(rings):
        numbers = flat_numbers(ring)
        if numbers is None or len(numbers) % 2 or len(numbers) < 6:
            found = "no list of finite numbers" if numbers is None else f"{len(numbers)} numbers"
            what = f"polygon {k} is {found}, expected at least three points x1, y1, x2, y2, x3, y3"
            reader.problem(label.place, what, label.item_id)
            return
        parts.append(numbers.reshape(-1, 2))
    polygons = [shapely.Polygon(points) for points in parts]
    if len(polygons) == 1:
        reader.add_polygon(label, sheet, polygons[0])
        return
    # each by itself: what lies in two of them is of both, and no hole
    repaired = [repair_polygon(polygon) for polygon in polygons]
    notes = [f"polygon {k}: {made.note}" for k, made in enumerate(repaired) if made.is_changed]
    reader.add_polygon(label, sheet, shapely.union_all([made.geometry for made in repaired]), notes)
