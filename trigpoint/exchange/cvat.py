"""CVAT for images 1.1 (XML): masks as run lengths in their own window, polygons, boxes turned about their middle.

Run lengths go row by row through the window, zeros first, the last run of zeros may be left out; `left`, `top`, `width`, `height` are
whole pixels of the picture. Source: docs.cvat.ai, "XML annotation format"; cvat-ai/cvat, cvat/apps/dataset_manager/formats/cvat.py and
cvat-core's mask2Rle. CVAT writes other coordinates with two decimals.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

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
    Form,
    join_category,
    masks_by_scene,
    read_seen,
    read_separable,
    seen_text,
    separable_text,
    shown,
    split_category,
)
from trigpoint.exchange.reading import Label, Reader, Sheet
from trigpoint.exchange.shapes import box_corners, is_plain_polygon
from trigpoint.masks.crops import crop_of_record, polygon_of_record
from trigpoint.masks.rasterise import BoolArray
from trigpoint.review.ledger import ItemState

_OTHER_SHAPES = ("polyline", "points", "ellipse", "cuboid", "skeleton")
_TEXT_KEYS = (ITEM_KEY, SEEN_KEY, MORE_KEY, SEPARABLE_KEY)


def labels_json(taxonomy: Taxonomy) -> str:
    """Write the labels for the field "Raw" of a task's constructor: the categories of the first axis, with the attributes of items."""
    attributes = [{"name": name, "input_type": "text", "mutable": False, "values": [""], "default_value": ""} for name in _TEXT_KEYS]
    first = taxonomy.axes[0].id
    labels = [{"name": category.id, "type": "any", "attributes": attributes} for category in taxonomy.categories if category.axis == first]
    return json.dumps(labels, indent=1, ensure_ascii=False) + "\n"


def to_cvat(scenes: Iterable[ExchangeScene], states: Mapping[str, ItemState], form: Form = "mask") -> Element:
    """Write scenes as a CVAT document for "Upload annotations" of a task that has their pictures.

    Args:
        scenes: In any order.
        states: Items by id.
        form: As what items are drawn. A polygon cannot hold holes or several parts: such items are masks all the same.

    Returns:
        The root element; CVAT keeps no list of the export, which has to stay beside it.
    """
    root = Element("annotations")
    SubElement(root, "version").text = "1.1"
    by_scene = masks_by_scene(states)
    for k, scene in enumerate(sorted(scenes, key=lambda scene: scene.scene_id)):
        image = SubElement(root, "image", id=str(k), name=scene.picture, width=str(scene.width), height=str(scene.height))
        for state, value in by_scene.get(scene.scene_id, []):
            name, more = split_category(value.category)
            drawn = form if form != "polygon" or is_plain_polygon(value.mask) else "mask"
            about = {"label": name, "source": "file", "occluded": "0"}
            if drawn == "mask":
                crop = crop_of_record(value.mask, scene.height, scene.width, state.item.item_id)
                height, width = crop.mask.shape
                window = {"left": crop.col_off, "top": crop.row_off, "width": width, "height": height}
                runs = ", ".join(map(str, runs_by_row(crop.mask)))
                shape = SubElement(image, "mask", about | {"rle": runs} | {key: str(n) for key, n in window.items()} | {"z_order": "0"})
            elif drawn == "polygon":
                ring = shapely.get_coordinates(shapely.get_exterior_ring(polygon_of_record(value.mask)))[:-1]
                points = ";".join(f"{x:.2f},{y:.2f}" for x, y in ring)
                shape = SubElement(image, "polygon", about | {"points": points, "z_order": "0"})
            else:
                shape = SubElement(image, "box", about | _box_of(box_corners(value.mask)) | {"z_order": "0"})
            for key, text in zip(_TEXT_KEYS, (state.item.item_id, seen_text(state), more, separable_text(value)), strict=True):
                SubElement(shape, "attribute", name=key).text = text
    ElementTree.indent(root)
    return root


def _box_of(corners: NDArray[np.float64]) -> dict[str, str]:
    side, other = corners[1] - corners[0], corners[3] - corners[0]
    (cx, cy), half = corners.mean(axis=0), np.array([np.hypot(*side), np.hypot(*other)]) / 2
    box = {"xtl": cx - half[0], "ytl": cy - half[1], "xbr": cx + half[0], "ybr": cy + half[1]}
    angle = math.degrees(math.atan2(side[1], side[0])) % 360.0
    return {key: f"{value:.2f}" for key, value in box.items()} | ({"rotation": f"{angle:.2f}"} if round(angle, 2) else {})


def runs_by_row(mask: BoolArray) -> list[int]:
    """Return the run lengths of a mask (height, width), row by row, zeros first.

    >>> runs_by_row(np.array([[0, 0], [0, 1]], dtype=bool)), runs_by_row(np.array([[1, 1], [0, 0]], dtype=bool))
    ([3, 1], [0, 2, 2])
    """
    flat = mask.ravel()
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    runs = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
    return [0, *runs] if flat[0] else runs


def mask_from_runs(runs: NDArray[np.int64], height: int, width: int) -> BoolArray:
    """Return the mask (height, width) of run lengths row by row, zeros first; what they leave out at the end is zero.

    Raises:
        InputError: a run is negative, or one or all of them are longer than the window.
    """
    if (runs < 0).any() or (runs > height * width).any():
        wrong = int(runs[(runs < 0) | (runs > height * width)][0])
        raise InputError(f"rle: run {wrong} is no part of {height * width} = {width} × {height} pixels")
    total = int(runs.sum())
    if total > height * width:
        raise InputError(f"rle: runs sum to {total}, expected at most {height * width} = {width} × {height} pixels")
    flat = np.zeros(height * width, dtype=bool)
    flat[:total] = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return flat.reshape(height, width)


def from_cvat(root: Element, scenes: Mapping[str, ExchangeScene], taxonomy: Taxonomy) -> Document:
    """Read a CVAT document for images.

    Args:
        root: The root element, parsed without entities.
        scenes: Scene id → scene of the release.
        taxonomy: Its category ids are the labels.

    Raises:
        InputError: it is no such document, or one for videos.
    """
    if root.tag != "annotations" or root.find("track") is not None:
        found = "tracks (CVAT for video)" if root.tag == "annotations" else f"an element {root.tag[:40]!r}"
        raise InputError(f"CVAT document: expected 'annotations' with images, found {found}; export as 'CVAT for images 1.1'")
    reader = Reader("cvat", scenes, taxonomy)
    for position, image in enumerate(root.iter("image")):
        name = image.get("name", "")
        place = f"image {name[:80]!r}" if name else f"image {position} from the top"
        sheet = reader.sheet(name, [_whole(image, "width"), _whole(image, "height")], place)
        for k, shape in enumerate(image if sheet is not None else ()):
            _read_shape(reader, f"{place}, {shown(shape.tag, 40)} {k}", cast(Sheet, sheet), shape)
    return reader.document()


def _read_shape(reader: Reader, place: str, sheet: Sheet, shape: Element) -> None:
    if shape.tag in ("tag", "attribute"):
        return
    given = {key: _attribute(shape, key) for key in _TEXT_KEYS}
    item_id = given[ITEM_KEY] or None
    categories = join_category(shape.get("label", ""), given[MORE_KEY])
    label = Label(place, item_id, categories, read_seen(given[SEEN_KEY]), read_separable(given[SEPARABLE_KEY]))
    try:
        if shape.tag == "mask":
            left, top, width, height = (_number(shape, key) for key in ("left", "top", "width", "height"))
            mask = _mask_of(shape, (left, top, width, height), sheet)
            reader.add_mask(label, sheet, mask, (int(left), int(top)))
        elif shape.tag == "polygon":
            points = _points_of(shape)
            if len(points) < 3:
                raise InputError(f"it has {len(points)} corners, expected at least three")
            reader.add_polygon(label, sheet, shapely.Polygon(points))
        elif shape.tag == "box":
            x0, y0, x1, y1 = (_number(shape, key) for key in ("xtl", "ytl", "xbr", "ybr"))
            angle = _number(shape, "rotation") if shape.get("rotation") else 0.0
            reader.add_box(label, sheet, AngledBox((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, angle))
        elif shape.tag in _OTHER_SHAPES:
            raise InputError(f"{shape.tag} is no mask; draw it as a mask, a polygon or a box")
        else:
            raise InputError(f"unknown element {shape.tag[:40]!r}")
    except InputError as error:
        reader.problem(place, str(error), item_id)


def _mask_of(shape: Element, window: tuple[float, float, float, float], sheet: Sheet) -> BoolArray:
    left, top, width, height = window
    if any(side != int(side) for side in window) or min(left, top) < 0 or min(width, height) < 1:
        raise InputError(f"its window is left {left:g}, top {top:g}, {width:g} × {height:g}, expected whole pixels of the picture")
    if left + width > sheet.size[0] or top + height > sheet.size[1]:
        raise InputError(
            f"its window is {width:g} × {height:g} px from column {left:g}, row {top:g}, outside the picture of {sheet.size[0]} × "
            f"{sheet.size[1]} px; was it drawn on another one?"
        )
    try:
        runs = np.array([int(run) for run in shape.get("rle", "").split(",")], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError("rle: expected whole numbers separated by commas") from error
    return mask_from_runs(runs, int(height), int(width))


def _attribute(shape: Element, key: str) -> str:
    return next(((child.text or "").strip() for child in shape.iter("attribute") if child.get("name") == key), "")


def _number(element: Element, key: str) -> float:
    try:
        value = float(element.get(key, ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"its {key} is {element.get(key)!r}, expected a number")
    return value


def _whole(element: Element, key: str) -> Any:
    text = element.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _points_of(shape: Element) -> NDArray[np.float64]:
    try:
        rows = [[float(number) for number in pair.split(",")] for pair in shape.get("points", "").split(";")]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 2)
    except ValueError as error:
        raise InputError("points: expected x,y;x,y;x,y") from error
