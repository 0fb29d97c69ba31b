"""What a document cannot say, says wrongly, or says to do harm: a problem with its place and cause, or an error; never a guess."""

import copy
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import shapely

from tests.unit.exchange._made import DEGREES, FIRST, RELEASE, SCENES, TAXONOMY, an_item, filled, states_of, through_label_studio
from trigpoint.errors import InputError
from trigpoint.exchange.brush import encode_brush
from trigpoint.exchange.coco import from_coco, to_coco
from trigpoint.exchange.cvat import from_cvat, labels_json, to_cvat
from trigpoint.exchange.geopackage import VectorLayer, from_geopackage
from trigpoint.exchange.items import Document, ExchangeScene, join_category, read_export_list, read_seen
from trigpoint.exchange.label_studio import from_label_studio, label_config, to_label_studio
from trigpoint.exchange.merge import plan_import
from trigpoint.exchange.qgis import ProjectLayer, mask_style, project_text
from trigpoint.masks.crops import record_of_polygon

STATES = states_of(an_item(filled(FIRST, 2, 2, 6, 5)))


def causes(document: Document) -> list[str]:
    return [problem.cause for problem in document.problems]


# COCO


def coco_with(change: Callable[[dict[str, Any]], None]) -> Document:
    document = to_coco(RELEASE, [FIRST], STATES, TAXONOMY)
    change(document)
    return from_coco(document, SCENES, TAXONOMY)


def of_annotation(**change: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["annotations"][0].update(change)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (of_annotation(category_id=99), "category 99 is not in the document"),
        (of_annotation(image_id=99), "image 99 is not in the document"),
        (of_annotation(segmentation={"size": [20, 30], "counts": [600]}), "its mask has no pixel"),
        (of_annotation(segmentation={"size": [30, 20], "counts": [0, 600]}), "height comes first"),
        (of_annotation(segmentation={"size": [20, 30], "counts": [1 << 31, 5]}), "runs sum to"),
        (of_annotation(segmentation=None, bbox=[1, 1, "2", 2]), "expected [x, y, width, height]"),
        (of_annotation(attributes={"item_id": 7}), "its item_id is 7, expected text"),
        (lambda d: d["categories"][0].update(name="castle"), "castle"),
        (lambda d: d["images"][0].update(width=2_000_000_000, height=2), "it has 30 × 20"),
        (lambda d: d["images"][0].update(width="30"), "expected width and height in pixels"),
        (lambda d: d["images"][0].update(file_name="../../etc/passwd"), "scene 'passwd' is not of this release"),
        (lambda d: d["annotations"].append([]), "it has no whole number as id"),
        (lambda d: d["images"].append(d["images"][0]), "two images have this id"),
        (lambda d: d["categories"].append(d["categories"][0]), "two categories have this id"),
    ],
)  # fmt: skip
def test_coco_problems_say_what_is_wrong(change: Callable[[dict[str, Any]], None], cause: str) -> None:
    assert any(cause in found for found in causes(coco_with(change)))


def test_coco_boxes_without_a_mask_are_rectangles_and_say_so() -> None:
    document = coco_with(of_annotation(segmentation=None, bbox=[2, 2, 6, 5]))

    assert document.problems == ()
    assert document.incoming[0].value == next(iter(STATES.values())).value
    assert "a box holds no outline" in document.incoming[0].notes[0]


@pytest.mark.parametrize("content", [[], {"images": []}, "text", None, {"images": [], "annotations": {}, "categories": []}])
def test_what_is_no_coco_is_refused(content: Any) -> None:
    with pytest.raises(InputError, match="expected an object with the lists"):
        from_coco(content, SCENES, TAXONOMY)


@pytest.mark.parametrize("change", [{"format": "png"}, {"items": [{"item_id": ""}]}, {"scene_ids": 5}, {"more": 1}])
def test_a_broken_list_of_the_export_is_refused(change: dict[str, Any]) -> None:
    document = to_coco(RELEASE, [FIRST], STATES, TAXONOMY)
    document["info"]["trigpoint_export"].update(change)

    with pytest.raises(InputError, match="list of the export"):
        from_coco(document, SCENES, TAXONOMY)


# Label Studio


def regions_with(**change: Any) -> Document:
    tasks = to_label_studio(RELEASE, [FIRST], STATES)
    region = tasks[0]["annotations"][0]["result"][0]
    region["value"].update(change.pop("value", {}))
    region.update(change)
    return from_label_studio(tasks, SCENES, TAXONOMY)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"value": {"rle": encode_brush(filled(DEGREES, 1, 1, 2, 2))}}, "expected 2400 = 4 × 30 × 20"),
        ({"value": {"rle": [255] * 40}}, "it holds 4294967295 values"),
        ({"value": {"rle": encode_brush(filled(FIRST, 1, 1, 2, 2))[:-3]}}, "cut short"),
        ({"value": {"rle": "AAAA"}}, "expected a list of whole numbers"),
        ({"value": {"rle": [1, 2, 300]}}, "expected a list of whole numbers"),
        ({"value": {"rle": encode_brush(np.zeros((20, 30), dtype=bool))}}, "has no pixel"),
        ({"value": {"brushlabels": []}}, "it has no category"),
        ({"value": {"brushlabels": ["castle"]}}, "castle"),
        ({"value": {"brushlabels": ["hut", "pond"]}}, "both values of axis"),
        ({"original_width": 20, "original_height": 30}, "it has 30 × 20"),
        ({"original_width": 1 << 31}, "use the annotations of this picture"),
        ({"image_rotation": 90}, "turned by 90° in Label Studio"),
        ({"type": "ellipselabels"}, "is no mask"),
        ({"type": "polygonlabels", "value": {"points": [[1, 2], [3]], "polygonlabels": ["hut"]}}, "at least three points"),
        ({"type": "rectanglelabels", "value": {"x": 1, "y": 1, "width": float("inf"), "height": 2, "rectanglelabels": ["hut"]}}, "finite"),
        ({"type": "rectanglelabels", "value": {"x": 1, "y": 1, "width": 0, "height": 2, "rectanglelabels": ["hut"]}}, "two lengths"),
    ],
)  # fmt: skip
def test_label_studio_problems_say_what_is_wrong(change: dict[str, Any], cause: str) -> None:
    document = regions_with(**copy.deepcopy(change))

    assert document.incoming == ()
    assert any(cause in found for found in causes(document))


def test_label_studio_tasks_with_two_annotations_or_none() -> None:
    tasks = to_label_studio(RELEASE, [FIRST, DEGREES], STATES)
    tasks[0]["annotations"].append({"result": []})
    tasks[1]["annotations"][0]["was_cancelled"] = True
    tasks[1]["predictions"] = tasks[0]["annotations"]

    document = from_label_studio(tasks, SCENES, TAXONOMY)

    assert document.incoming == ()
    assert causes(document) == ["it has 2 annotations, expected one; delete those that do not count"]
    assert document.scene_ids == frozenset()


def test_label_studio_regions_of_its_own_are_new_whatever_their_id() -> None:
    document = regions_with(id="i-V1StGXR8")

    assert document.incoming[0].item_id is None


def test_label_studio_knows_the_picture_by_its_scene_whatever_its_path() -> None:
    tasks = to_label_studio(RELEASE, [FIRST], STATES)
    tasks[0]["data"]["image"] = "/data/upload/7/8f3a-../../x.png"

    assert from_label_studio(tasks, SCENES, TAXONOMY).incoming[0].scene_id == FIRST.scene_id
    tasks[0]["data"]["scene_id"] = "../../etc/passwd"
    assert "is not of this release" in causes(from_label_studio(tasks, SCENES, TAXONOMY))[0]


@pytest.mark.parametrize("content", [{}, [1], [{"image": "x"}], "x"])
def test_what_is_no_label_studio_export_is_refused(content: Any) -> None:
    with pytest.raises(InputError, match="expected a list of tasks"):
        from_label_studio(content, SCENES, TAXONOMY)


def test_label_studio_tasks_of_two_releases_are_refused() -> None:
    tasks = to_label_studio(RELEASE, [FIRST, DEGREES], STATES)
    tasks[0]["data"]["export"]["release"] = "another"

    with pytest.raises(InputError, match="2 releases"):
        from_label_studio(tasks, SCENES, TAXONOMY)


# CVAT


def cvat_with(change: Callable[[ElementTree.Element], None]) -> Document:
    root = to_cvat([FIRST], STATES)
    change(root)
    return from_cvat(root, SCENES, TAXONOMY)


def of_mask(**change: str) -> Callable[[ElementTree.Element], None]:
    return lambda root: next(root.iter("mask")).attrib.update(change)


def another(tag: str, **attributes: str) -> Callable[[ElementTree.Element], None]:
    return lambda root: next(root.iter("image")).append(ElementTree.Element(tag, {"label": "hut", **attributes}))


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (of_mask(rle="1, 2, x"), "whole numbers separated by commas"),
        (of_mask(rle="99999999999999999999"), "whole numbers separated by commas"),
        (of_mask(rle="9223372036854775807, 9223372036854775807, 2"), "is no part of 30"),
        (of_mask(rle="20, 20"), "runs sum to 40, expected at most 30"),
        (of_mask(rle="-1, 3"), "is no part of"),
        (of_mask(rle="30"), "has no pixel"),
        (of_mask(width="2000000000", height="2000000000"), "outside the picture of 30 × 20"),
        (of_mask(left="-1"), "expected whole pixels"),
        (of_mask(left="1.5"), "expected whole pixels"),
        (of_mask(left="nan"), "expected a number"),
        (of_mask(label="castle"), "castle"),
        (of_mask(label=""), "no category"),
        (another("polygon", points="1,1;2,2"), "it has 2 corners"),
        (another("polygon", points="1,1;2,2;x"), "points: expected"),
        (another("box", xtl="5", ytl="5", xbr="2", ybr="9"), "two lengths above 0"),
        (another("ellipse", cx="1"), "ellipse is no mask"),
        (another("skeleton"), "skeleton is no mask"),
        (another("script"), "unknown element 'script'"),
        (lambda root: next(root.iter("image")).set("name", "/etc/passwd"), "scene 'passwd' is not of this release"),
        (lambda root: next(root.iter("image")).set("width", "31"), "but it has 30 × 20"),
        (lambda root: next(root.iter("image")).set("width", "9" * 30), "expected width and height in pixels"),
    ],
)  # fmt: skip
def test_cvat_problems_say_what_is_wrong(change: Callable[[ElementTree.Element], None], cause: str) -> None:
    assert any(cause in found for found in causes(cvat_with(change)))


@pytest.mark.parametrize("root", [ElementTree.Element("svg"), ElementTree.fromstring("<annotations><track id='0'/></annotations>")])
def test_what_is_no_cvat_document_for_images_is_refused(root: ElementTree.Element) -> None:
    with pytest.raises(InputError, match="CVAT for images"):
        from_cvat(root, SCENES, TAXONOMY)


# GeoPackage


def layer_of(geometry: Any, crs: str = FIRST.crs, **row: Any) -> VectorLayer:
    return VectorLayer("masks", crs, (geometry,), ({"scene_id": FIRST.scene_id, "category": "hut", **row},), (1,))


def at(x: float, y: float, width: float, height: float) -> shapely.Geometry:
    """A box in image coordinates of the first scene, as a polygon in its CRS."""
    a, _, c, _, e, f = FIRST.transform
    return shapely.box(c + a * x, f + e * (y + height), c + a * (x + width), f + e * y)


@pytest.mark.parametrize(
    ("layer", "cause"),
    [
        (layer_of(None), "it has no geometry"),
        (layer_of(shapely.Point(412_350, 5_299_999)), "it is a Point"),
        (layer_of(shapely.GeometryCollection([at(1, 1, 4, 4), at(2, 2, 1, 1).exterior])), "it is a GeometryCollection"),
        (layer_of(at(100, 100, 4, 4)), "lies outside the scene of 30 × 20 px"),
        (layer_of(at(1, 1, 500, 4)), "reaches far outside"),
        (layer_of(at(1.1, 1.1, 0.3, 0.3)), "covers no pixel centre (its area is 0.09 px)"),
        (layer_of(at(1, 1, 4, 4), category=None), "no category"),
        (layer_of(at(1, 1, 4, 4), category="castle"), "castle"),
        (layer_of(at(1, 1, 4, 4), scene_id="s-0000000000000fff"), "is not of this release"),
        (layer_of(at(1, 1, 4, 4), scene_id="../../etc/passwd"), "is not of this release"),
        (layer_of(at(100, 100, 4, 4), scene_id=None), "lies in no scene"),
    ],
)  # fmt: skip
def test_geopackage_problems_say_what_is_wrong(layer: VectorLayer, cause: str) -> None:
    document = from_geopackage([layer], None, SCENES, TAXONOMY)

    assert document.incoming == ()
    assert any(cause in found for found in causes(document))


def test_a_new_polygon_is_of_the_scene_around_it_unless_there_are_two() -> None:
    layer = layer_of(at(1, 1, 4, 4), scene_id=None)
    twin = FIRST._replace(scene_id="s-00000000000000dd")

    assert from_geopackage([layer], None, SCENES, TAXONOMY).incoming[0].scene_id == FIRST.scene_id
    both = from_geopackage([layer], None, {**SCENES, twin.scene_id: twin}, TAXONOMY)
    assert "it lies in 2 scenes" in causes(both)[0]


def test_a_layer_saved_in_another_crs_is_brought_back() -> None:
    from trigpoint.geometry.frames import transformer

    to_lonlat = transformer(FIRST.crs, "EPSG:4326")
    lonlat = shapely.transform(at(3, 2, 6, 5), lambda points: np.column_stack(to_lonlat.transform(points[:, 0], points[:, 1])))

    document = from_geopackage([layer_of(lonlat, "EPSG:4326", scene_id=None)], None, SCENES, TAXONOMY)

    assert document.problems == ()
    assert document.incoming[0].value == an_item(filled(FIRST, 3, 2, 6, 5)).value


def test_what_reaches_over_the_edge_is_cut_off_and_says_so() -> None:
    document = from_geopackage([layer_of(at(-2, 1, 5, 4))], None, SCENES, TAXONOMY)

    assert document.incoming[0].value == an_item(filled(FIRST, 0, 1, 3, 4)).value
    assert "reaches over the edge" in document.incoming[0].notes[0]


# what all share


def test_scene_ids_that_could_lead_out_of_the_folder_become_no_file_names() -> None:
    for scene_id in ("../x", "a/b", "..", "", "a\\b", ".hidden", "x" * 65, "a\0b", "con.png"):
        with pytest.raises(InputError, match="no file name"):
            _ = ExchangeScene(scene_id, 2, 2, "EPSG:4326", (1, 0, 0, 0, -1, 0)).picture


def test_texts_between_programs() -> None:
    assert read_seen("0" * 64 + " d-0123456789abcdef") == ("0" * 64, "d-0123456789abcdef")
    assert [read_seen(text) for text in ("", None, 5, "0" * 64, "0" * 64 + " x")] == [None] * 5
    assert join_category("hut", None) == ["hut"]
    with pytest.raises(InputError):
        read_export_list({"release": "x"})


def test_what_people_need_to_set_a_project_up_is_well_formed() -> None:
    names = [category.id for category in TAXONOMY.categories]
    config = ElementTree.fromstring(label_config(TAXONOMY))
    assert [label.get("value") for label in next(config.iter("BrushLabels"))] == names
    assert '"name": "hut"' in labels_json(TAXONOMY)
    assert '"name": "tin"' not in labels_json(TAXONOMY)
    tricky = 'a"<&>b'
    layer = ProjectLayer("masks", "./masks.gpkg|layername=masks", "EPSG:32633", (0.0, 0.0, 1.0, 1.0), is_vector=True)
    for text in (mask_style([tricky]), project_text(tricky, [layer], [tricky])):
        root = ElementTree.fromstring(text.split("\n", 1)[1])
        assert tricky in {entry.get("value") for entry in root.iter("category")}
    assert "/" + "tmp" not in project_text("x", [layer], names)
    assert len(next(ElementTree.fromstring(project_text("x", [layer], names).split("\n", 1)[1]).iter("maplayer")).findtext("id", "")) > 10


def test_label_studio_numbers_are_percent_of_each_side() -> None:
    """x and width of the width, y and height of the height: a picture that is not square tells them apart."""
    tasks = to_label_studio(RELEASE, [FIRST], STATES, "polygon")

    points = tasks[0]["annotations"][0]["result"][0]["value"]["points"]

    xs, ys = zip(*points, strict=True)
    assert (min(xs), max(xs)) == pytest.approx((100 * 2 / 30, 100 * 8 / 30))
    assert (min(ys), max(ys)) == pytest.approx((100 * 2 / 20, 100 * 7 / 20))
    assert through_label_studio(STATES, "polygon").incoming[0].form == "polygon"


def test_overlapping_coco_rings_are_united_also_when_one_crosses_itself() -> None:
    bow, square = [1, 1, 11, 11, 1, 11, 11, 1], [5, 3, 9, 3, 9, 9, 5, 9]
    document = coco_with(of_annotation(segmentation=[bow, square]))

    assert document.problems == ()
    found = document.incoming[0]
    whole = shapely.union_all([shapely.make_valid(shapely.Polygon(np.reshape(ring, (-1, 2)))) for ring in (bow, square)])
    assert found.value.mask == record_of_polygon(whole, FIRST.height, FIRST.width)
    assert "polygon 0: Self-intersection" in found.notes[0]


def test_what_a_document_says_cannot_steer_a_terminal() -> None:
    document = regions_with(id="\x1b[2J\x07" + "x" * 500, type="ellipse")
    renamed = coco_with(of_annotation(attributes={"item_id": "i-\x1b]0;owned\x07"}))
    plan = plan_import(RELEASE, STATES, renamed, "ada", "annotator")

    texts = [str(problem) for problem in (*document.problems, *plan.problems)]
    assert len(texts) == 2
    assert all(text.isprintable() and len(text) < 300 for text in texts)
