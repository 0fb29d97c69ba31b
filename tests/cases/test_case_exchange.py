"""Public bug reports about annotation formats, with their exact right values, through the doors of an import."""

import math
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import shapely
from PIL import Image

from storage.rasters import exif_orientation
from tests.unit.exchange._made import RELEASE, TAXONOMY, states_of
from trigpoint.boxes.conventions import corners_from_angled_box
from trigpoint.exchange.coco import from_coco, to_coco
from trigpoint.exchange.cvat import from_cvat, to_cvat
from trigpoint.exchange.geopackage import VectorLayer, from_geopackage, to_geopackage
from trigpoint.exchange.items import Document, ExchangeScene
from trigpoint.exchange.label_studio import from_label_studio, to_label_studio, turned_about_corner
from trigpoint.exchange.merge import plan_import
from trigpoint.masks.crops import crop_of_record, record_of_mask
from trigpoint.masks.rasterise import BoolArray
from trigpoint.masks.rle import rle_area
from trigpoint.records.mask import MaskCrop
from trigpoint.records.review import MaskValue
from trigpoint.release.show import png_bytes
from trigpoint.review.ledger import ItemState, ReviewItem


def scene(width: int, height: int, orientation: int = 1, pixel: float = 1.0) -> ExchangeScene:
    return ExchangeScene("s-00000000000000a1", width, height, "EPSG:32633", (pixel, 0.0, 500_000.0, 0.0, -pixel, 5_500_000.0), orientation)


def area(mask: MaskCrop) -> int:
    return rle_area(mask.counts, mask.size_px)


def box_of(mask: MaskCrop) -> list[int]:
    return [*mask.origin_px, mask.size_px[1], mask.size_px[0]]


def coco_of(sheet: ExchangeScene, shapes: dict[int, Any]) -> Document:
    annotations = [{"id": k, "image_id": 1, "category_id": 0, "bbox": [0, 0, 1, 1], "segmentation": shape} for k, shape in shapes.items()]
    size = (sheet.height, sheet.width) if sheet.orientation > 4 else (sheet.width, sheet.height)
    images = [{"id": 1, "file_name": sheet.picture, "width": size[0], "height": size[1]}]
    document = {"images": images, "annotations": annotations, "categories": [{"id": 0, "name": "hut"}]}
    return from_coco(document, {sheet.scene_id: sheet}, TAXONOMY)


def layer_of(sheet: ExchangeScene, *polygons: shapely.Geometry) -> Document:
    """Polygons in image coordinates, as features of a GeoPackage."""
    a, _, c, _, e, f = sheet.transform
    placed = tuple(shapely.transform(polygon, lambda points: points * (a, e) + (c, f)) for polygon in polygons)
    rows = tuple({"scene_id": sheet.scene_id, "category": "hut"} for _ in polygons)
    layer = VectorLayer("masks", sheet.crs, placed, rows, tuple(range(1, len(rows) + 1)))
    return from_geopackage([layer], None, {sheet.scene_id: sheet}, TAXONOMY)


def one_state(mask: BoolArray, sheet: ExchangeScene) -> dict[str, ItemState]:
    return states_of(ReviewItem("i-0000000000000001", "mask", sheet.scene_id, MaskValue(mask=record_of_mask(mask), category=("hut",))))


def through_every_format(states: dict[str, ItemState], sheet: ExchangeScene) -> dict[str, Document]:
    scenes = {sheet.scene_id: sheet}
    layers = [layer._replace(ids=(1,)) for layer in to_geopackage([sheet], states) if layer.name == "masks"]
    return {
        "gpkg": from_geopackage(layers, None, scenes, TAXONOMY),
        "coco": from_coco(to_coco(RELEASE, [sheet], states, TAXONOMY), scenes, TAXONOMY),
        "label-studio": from_label_studio(to_label_studio(RELEASE, [sheet], states), scenes, TAXONOMY),
        "label-studio polygon": from_label_studio(to_label_studio(RELEASE, [sheet], states, "polygon"), scenes, TAXONOMY),
        "cvat": from_cvat(to_cvat([sheet], states), scenes, TAXONOMY),
        "cvat polygon": from_cvat(to_cvat([sheet], states, "polygon"), scenes, TAXONOMY),
    }


def test_m01_runs_go_down_the_columns_in_coco_and_along_the_rows_in_cvat() -> None:
    sheet = scene(5, 3)
    mask = np.zeros((3, 5), dtype=bool)
    mask[0, 1:4] = mask[2, 4] = True

    document = coco_of(sheet, {1: {"size": [3, 5], "counts": [3, 1, 2, 1, 2, 1, 4, 1]}})

    assert document.problems == ()
    found = document.incoming[0].value.mask
    assert (area(found), box_of(found), found) == (4, [1, 0, 4, 3], record_of_mask(mask))
    written = next(to_cvat([sheet], one_state(mask, sheet)).iter("mask"))
    assert [written.get(key) for key in ("rle", "left", "top", "width", "height")] == ["0, 3, 8, 1", "1", "0", "4", "3"]


def test_m02_bad_run_lengths_are_named_and_the_good_one_is_kept() -> None:
    shapes = {
        1: {"size": [4, 6], "counts": [5, 3, 16]}, 2: {"size": [4, 6], "counts": [5, 3]}, 3: {"size": [4, 6], "counts": [5, 3, 160]},
        4: {"size": [4, 6], "counts": [5, -3, 22]}, 5: {"size": [4, 6], "counts": [5.5, 2.5, 16]},
        6: {"size": [6, 4], "counts": [5, 3, 16]}, 7: {"size": [4, 6], "counts": "zz~~PP"}, 8: {"size": [4, 6], "counts": "52000000h1"},
    }  # fmt: skip

    document = coco_of(scene(6, 4), shapes)

    assert [(one.place, area(one.value.mask)) for one in document.incoming] == [("annotation 1", 3)]
    assert [problem.place for problem in document.problems] == [f"annotation {k}" for k in range(2, 9)]


def test_m04_degenerate_polygons_are_listed_with_their_cause_and_the_good_one_is_kept() -> None:
    shapes = {
        1: [[10, 10, 30, 10, 30, 30, 10, 30]], 2: [[10, 10, 20, 20]], 3: [[]], 4: [], 5: [[5, 5, 5, 5, 5, 5]],
        6: [[0, 0, 1e9, 0, 1e9, 1e9]], 7: [[10, 10, 20, 10, 15]], 8: [[1, 1, 9, 1, 5, 1]],
    }  # fmt: skip

    document = coco_of(scene(64, 48), shapes)

    assert [(one.place, area(one.value.mask)) for one in document.incoming] == [("annotation 1", 400)]
    causes = {problem.place: problem.cause for problem in document.problems}
    assert list(causes) == [f"annotation {k}" for k in range(2, 9)]
    expected = ("4 numbers", "0 numbers", "at least one polygon", "no area", "far outside the scene", "5 numbers", "no area")
    assert all(text in cause for text, cause in zip(expected, causes.values(), strict=True)), causes


def test_m05_every_format_keeps_the_hole() -> None:
    sheet = scene(64, 40)
    donut = np.zeros((40, 64), dtype=bool)
    donut[10:30, 20:40] = True
    donut[15:25, 25:35] = False
    states = one_state(donut, sheet)

    for name, document in through_every_format(states, sheet).items():
        found = document.incoming[0].value.mask
        assert (name, area(found), box_of(found), found) == (name, 300, [20, 10, 20, 20], record_of_mask(donut))

    # a program that makes COCO polygons of it loses the hole: 400 pixels; that is named and is no edit
    lost = coco_of(sheet, {1: [[20, 10, 40, 10, 40, 30, 20, 30], [25, 15, 35, 15, 35, 25, 25, 25]]})
    assert area(lost.incoming[0].value.mask) == 400
    returned = lost._replace(incoming=(lost.incoming[0]._replace(item_id="i-0000000000000001"),))
    plan = plan_import(RELEASE, states, returned, "ada", "annotator")
    assert (plan.planned, "holds no holes" in plan.remarks[0]) == ((), True)


def label_studio_rectangle(sheet: ExchangeScene, **value: float) -> Document:
    region = {
        "id": "r1", "type": "rectanglelabels", "original_width": sheet.width, "original_height": sheet.height, "image_rotation": 0,
        "value": {**value, "rectanglelabels": ["hut"]},
    }  # fmt: skip
    task = {"data": {"image": sheet.picture}, "annotations": [{"result": [region]}]}
    return from_label_studio([task], {sheet.scene_id: sheet}, TAXONOMY)


def test_m07_a_turned_rectangle_is_turned_in_pixels_about_its_corner() -> None:
    """Percent of width and height apart; clockwise on screen."""
    expected = np.array([[100, 80], [203.923, 140.0], [183.923, 174.641], [80.0, 114.641]])

    corners = corners_from_angled_box(turned_about_corner(100, 80, 120, 40, 30))
    document = label_studio_rectangle(scene(400, 200), x=25.0, y=40.0, width=30.0, height=20.0, rotation=30.0)

    assert corners == pytest.approx(expected, abs=5e-4)
    assert shapely.Polygon(corners).area == pytest.approx(4800)
    found = document.incoming[0]
    assert found.corners == pytest.approx(expected, abs=5e-4)
    assert area(found.value.mask) == pytest.approx(4800, rel=0.005)  # pixel centres inside
    assert box_of(found.value.mask) == pytest.approx([80, 80, 124, 95], abs=1)
    assert "a box holds no outline" in found.notes[0]


def test_m07_the_same_rectangle_in_cvat_turns_about_its_middle() -> None:
    sheet = scene(400, 200)
    cx, cy = 141.9615, 127.3205
    box = {"xtl": cx - 60, "ytl": cy - 20, "xbr": cx + 60, "ybr": cy + 20}
    root = to_cvat([sheet], {})
    attributes = " ".join(f'{key}="{number:.4f}"' for key, number in box.items())
    next(root.iter("image")).append(ElementTree.fromstring(f'<box label="hut" {attributes} rotation="30"/>'))

    found = from_cvat(root, {sheet.scene_id: sheet}, TAXONOMY).incoming[0]

    same = label_studio_rectangle(sheet, x=25.0, y=40.0, width=30.0, height=20.0, rotation=30.0).incoming[0]
    assert found.corners == pytest.approx(same.corners, abs=1e-3)
    assert found.value == same.value


@pytest.mark.parametrize("orientation", range(1, 9))
def test_r14_drawings_on_a_turned_picture_are_brought_back(orientation: int) -> None:
    """voxel51/fiftyone#3778, HumanSignal/label-studio#6608; orientation 6 has the reported numbers."""
    raw = np.zeros((200, 300), dtype=bool)
    raw[20:60, 30:80] = True
    turns = {
        1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud, 5: np.transpose, 6: lambda a: np.rot90(a, -1),
        7: lambda a: np.rot90(a, 2).T, 8: np.rot90,
    }  # fmt: skip
    shown = turns[orientation](raw)
    sheet = scene(300, 200, orientation)
    in_shown = record_of_mask(shown)
    (x, y), (height, width) = in_shown.origin_px, in_shown.size_px
    if orientation == 6:
        assert (shown.shape, [x, y, width, height]) == ((300, 200), [140, 30, 40, 50])
    ring = [x, y, x + width, y, x + width, y + height, x, y + height]
    counts = to_coco(RELEASE, [scene(shown.shape[1], shown.shape[0])], one_state(shown, sheet), TAXONOMY)["annotations"][0]["segmentation"]
    size = [shown.shape[1], shown.shape[0]]
    document = {
        "images": [{"id": 1, "file_name": sheet.picture, "width": size[0], "height": size[1]}],
        "categories": [{"id": 1, "name": "hut"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, "segmentation": [ring]},
            {"id": 2, "image_id": 1, "category_id": 1, "segmentation": counts},
            {"id": 3, "image_id": 1, "category_id": 1, "bbox": [x, y, width, height]},
        ],
    }
    if orientation in (2, 3, 4):  # of the same size turned or not: nobody can say
        found = from_coco(document, {sheet.scene_id: sheet}, TAXONOMY)
        assert found.incoming == ()
        assert "which has this size turned or not" in found.problems[0].cause
        return

    found = from_coco(document, {sheet.scene_id: sheet}, TAXONOMY)

    assert found.problems == ()
    assert [box_of(one.value.mask) for one in found.incoming] == [[30, 20, 50, 40]] * 3
    if orientation > 4:  # without the tag the size says that it is another frame
        plain = from_coco(document, {sheet.scene_id: scene(300, 200)}, TAXONOMY)
        assert (plain.incoming, "but it has 300 × 200" in plain.problems[0].cause) == ((), True)


def test_r14_pictures_that_go_out_have_no_turn_tag(tmp_path: Any) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png_bytes(Image.fromarray(np.zeros((20, 30, 3), dtype=np.uint8))))

    assert exif_orientation(path) == 1


def test_v01_parts_that_touch_at_corners_come_back_whole_from_every_format() -> None:
    sheet = scene(20, 12)
    mask = np.zeros((12, 20), dtype=bool)
    mask[3, 4] = mask[4, 5] = mask[8:10, 10:12] = mask[10:12, 12:14] = True

    for document in through_every_format(one_state(mask, sheet), sheet).values():
        assert document.problems == ()
        assert document.incoming[0].value.mask == record_of_mask(mask)


def test_v01_polygons_of_eight_connected_tools_are_repaired_into_valid_parts() -> None:
    """rasterio/rasterio#2244, OSGeo/gdal#7369: one ring that touches itself at a corner."""
    small = shapely.Polygon([(4, 3), (5, 3), (5, 4), (6, 4), (6, 5), (5, 5), (5, 4), (4, 4)])
    large = shapely.Polygon([(10, 8), (12, 8), (12, 10), (14, 10), (14, 12), (12, 12), (12, 10), (10, 10)])
    assert not shapely.is_valid(small)

    document = layer_of(scene(20, 12), small, large)

    assert document.problems == ()
    assert [area(one.value.mask) for one in document.incoming] == [2, 8]
    assert all("repaired" in one.notes[0] for one in document.incoming)


def test_v02_a_bow_tie_keeps_both_halves_and_a_spike_goes() -> None:
    bow = shapely.Polygon([(0, 0), (10, 10), (0, 10), (10, 0)])
    spike = shapely.Polygon([(20, 0), (30, 0), (30, 10), (45, 10), (30, 10), (20, 10)])
    good = shapely.Polygon([(50, 0), (60, 0), (60, 10), (50, 10)])

    document = layer_of(scene(80, 40), bow, spike, good)

    assert document.problems == ()
    notes = [" ".join(one.notes) for one in document.incoming]
    assert ["area 50 px" in notes[0], "area 100 px" in notes[1], notes[2]] == [True, True, ""]
    assert "dropped pieces of type LineString" in notes[1]
    assert area(document.incoming[0].value.mask) == 50
    assert [area(one.value.mask) for one in document.incoming[1:]] == [100, 100]
    halves = crop_of_record(document.incoming[0].value.mask, 40, 80).mask
    assert halves[:5].any()
    assert halves[5:].any()


def test_v03_polygons_below_a_pixel_are_named_with_their_area() -> None:
    boxes = [(5.1, 5.1, 5.4, 5.4), (4.6, 4.6, 5.4, 5.4), (4.0, 4.0, 6.0, 6.0)]

    document = layer_of(scene(20, 20, pixel=10.0), *(shapely.box(*box) for box in boxes))

    assert [problem.cause.split("(")[1].split(")")[0] for problem in document.problems] == ["its area is 0.09 px", "its area is 0.64 px"]
    assert [(one.place, area(one.value.mask)) for one in document.incoming] == [("layer 'masks', feature 3", 4)]
    assert math.isclose(shapely.box(*boxes[1]).area, 0.64)
