"""Case A01: duplicate annotation ids overwrite each other, category 0 is taken for background, dangling images vanish in silence."""

import json

import pytest

from tests.unit.audit import _tiny_release as tiny
from trigpoint.audit import audit_release
from trigpoint.errors import ReleaseError
from trigpoint.release.coco import CocoProblem, read_coco


def box(annotation_id, image_id, category_id, x, y, side):
    return {
        "id": annotation_id, "image_id": image_id, "category_id": category_id, "bbox": [x, y, side, side], "area": side * side,
        "iscrowd": 0, "segmentation": [[x, y, x + side, y, x + side, y + side, x, y + side]],
    }  # fmt: skip


IMAGES = [{"id": k, "file_name": f"{k}.png", "width": 16, "height": 16} for k in (1, 2)]
CATEGORIES = [{"id": 0, "name": "zero"}, {"id": 1, "name": "one"}]
ANNOTATIONS = [box(7, 1, 1, 0, 0, 4), box(7, 2, 1, 5, 5, 4), box(8, 3, 1, 0, 0, 2), box(9, 1, 0, 1, 1, 2)]


def write(path, annotations=ANNOTATIONS, **lists):
    path.write_text(json.dumps({"images": IMAGES, "categories": CATEGORIES, "annotations": annotations} | lists))
    return path


def test_case_a01_both_annotations_of_one_id_survive_and_every_problem_is_named(tmp_path):
    found = read_coco(write(tmp_path / "coco.json"))

    assert found.problems == (CocoProblem("duplicate_id", 7), CocoProblem("unknown_image_id", 3))
    assert [(a.annotation_id, a.given_id, a.file_name, a.category, a.bbox_px) for a in found.annotations] == [
        (7, 7, "1.png", "one", (0, 0, 4, 4)),
        (10, 7, "2.png", "one", (5, 5, 4, 4)),
        (9, 9, "1.png", "zero", (1, 1, 2, 2)),
    ]


def test_case_a01_a_new_id_is_never_one_of_the_file(tmp_path):
    found = read_coco(write(tmp_path / "coco.json", [box(n, 1, 1, 0, 0, 2) for n in (5, 5, 6, 5)]))

    assert [a.annotation_id for a in found.annotations] == [5, 7, 6, 8]


@pytest.mark.parametrize(
    ("lists", "problem"),
    [
        ({"images": [*IMAGES, IMAGES[0] | {"file_name": "other.png"}]}, CocoProblem("duplicate_image_id", 1)),
        ({"categories": [*CATEGORIES, {"id": 0, "name": "nil"}]}, CocoProblem("duplicate_category_id", 0)),
        ({"categories": CATEGORIES[1:]}, CocoProblem("unknown_category_id", 0)),
        ({"annotations": [{"id": 1}]}, CocoProblem("malformed", 0)),
        ({"annotations": [box(1, 1, 1, 0, 0, float("nan"))]}, CocoProblem("malformed", 0)),
        ({"annotations": [box(True, 1, 1, 0, 0, 1)]}, CocoProblem("malformed", 0)),
        ({"images": ["1.png", *IMAGES]}, CocoProblem("malformed", 0)),
    ],
)
def test_case_a01_other_faults_are_named_too(tmp_path, lists, problem):
    assert problem in read_coco(write(tmp_path / "coco.json", **lists)).problems


@pytest.mark.parametrize("text", ["[1", "[]", '{"images": [], "annotations": {}, "categories": []}'])
def test_case_a01_what_is_no_coco_file_is_refused(tmp_path, text):
    (tmp_path / "coco.json").write_text(text)

    with pytest.raises(ReleaseError, match=r"coco\.json"):
        read_coco(tmp_path / "coco.json")


def test_case_a01_the_auditor_names_an_id_that_comes_twice_in_an_export(tmp_path):
    tiny.build(tmp_path / "release", tmp_path / "sources")
    path = tmp_path / "release/exports/coco.json"
    content = json.loads(path.read_text())
    content["annotations"][1]["id"] = content["annotations"][0]["id"]
    content["annotations"][2]["image_id"] = 99
    path.write_text(tiny.dump(content))
    tiny.seal(tmp_path / "release")

    found = {(f.code, f.item) for f in audit_release(tmp_path / "release").findings}

    assert ("coco_annotation", "1") in found
    assert ("coco_annotation", f"{content['annotations'][2]['instance_id']} image_id") in found


def test_case_a01_a_release_s_own_export_reads_back_without_a_problem(tmp_path):
    tiny.build(tmp_path / "release", tmp_path / "sources")

    found = read_coco(tmp_path / "release/exports/coco.json")

    assert found.problems == ()
    assert len(found.annotations) == 24
