"""Cases B06 and B07: the overlap of turned boxes, and DOTA files as they come."""

import math

import numpy as np
import pytest

from trigpoint.boxes.conventions import AngledBox, angled_box_from_corners, corners_from_angled_box, dota_line, parse_dota
from trigpoint.scoring.boxes import obb_iou

DOTA = (
    "imagesource:GoogleEarth\ngsd:null\n10.0 10.0 50.0 10.0 50.0 30.0 10.0 30.0 large-vehicle 0\n1 1 9 1 9 9 1 9 storage tank 1\n"
    "5 5 6 5 6 6 5 6 ship 2\n1 2 3 4 5 6 ship 0\n\n-4 -4 4 -4 4 4 -4 4 plane 0\r\n"
)


def area(corners: np.ndarray) -> float:
    x, y = corners.T
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((672.5, 290.8, 791.0, 38.9, 34.15), (672.5, 290.8, 791.0, 38.9, 34.15), 1.0),
        ((46.8, 44.0, 3.9, 1.6, 0), (46.8, 44.0, 1.6, 3.9, 90), 1.0),
        ((5, 5, 4, 2, 10), (5, 5, 4, 2, 190), 1.0),
        ((0, 0, 1, 1, 0), (0, 0, 1, 1, 45), math.sqrt(2) / 2),
        ((0, 0, 4, 2, 0), (2, 0, 4, 2, 0), 1 / 3),
        ((160, 150, 230, 23, -37), (360, 350, 80, 21, -46), 0.0),
        ((0, 0, 2, 2, 0), (2, 0, 2, 2, 0), 0.0),
        ((0, 0, 10, 10, 20), (0, 0, 5, 5, 20), 0.25),
        ((0, 0, 1e-6, 1000, 45), (0, 0, 200, 300, 45), 1e-6 * 300 / (200 * 300 + 1e-6 * 1000 - 1e-6 * 300)),
        ((500000.25, 5500000.5, 4, 2, 30), (500000.25, 5500000.5, 4, 2, 30), 1.0),
    ],
)
def test_b06_iou_of_turned_boxes(one: tuple[float, ...], other: tuple[float, ...], expected: float) -> None:
    """Case B06: open-mmlab/mmcv#2621, mjq11302010044/RRPN#44, facebookresearch/detectron2#1207."""
    a, b = (corners_from_angled_box(AngledBox(*box)).reshape(1, 8) for box in (one, other))

    for iou in (obb_iou(a, b)[0, 0], obb_iou(b, a)[0, 0]):
        assert iou == pytest.approx(expected, abs=1e-6)
        assert 0 <= iou <= 1


def test_b07_a_dota_file_is_read_with_its_bad_lines_named() -> None:
    """Case B07: CAPTAIN-WHU/DOTA_devkit#4, VIAME/VIAME#150."""
    parsed = parse_dota(DOTA)

    assert [(found.category, found.is_difficult, area(found.corners)) for found in parsed.objects] == [
        ("large-vehicle", False, 800.0),
        ("storage tank", True, 64.0),
        ("plane", False, 64.0),
    ]
    assert parsed.gsd_m is None
    assert parsed.problems == {
        5: "difficult is '2', expected 0 or 1",
        6: "expected 8 numbers, a category and 0 or 1; found 6 numbers",
    }


def test_b07_our_export_reads_back_the_same() -> None:
    corners = np.array([[10.0, 10.0], [50.0, 10.125], [50.0, 30.5], [10.0, 30.0]])

    (found,) = parse_dota(dota_line(corners, "storage tank", True) + "\n").objects

    assert found.category == "storage-tank"
    assert found.is_difficult
    assert np.array_equal(found.corners, corners)


def test_b07_an_empty_file_is_an_image_without_objects() -> None:
    assert parse_dota("") == ([], None, {})


def forms_of_b04(angle: float) -> dict[str, AngledBox]:
    """A box of 40 × 20 in the four conventions, as the case writes them: long side first, or width and height of OpenCV's angle."""

    def opencv(turned: float) -> AngledBox:
        is_long = abs((angle - turned) % 180) < 1e-9
        return AngledBox(100, 80, *((40, 20) if is_long else (20, 40)), turned)

    return {
        "le90": AngledBox(100, 80, 40, 20, (angle + 90) % 180 - 90),
        "le135": AngledBox(100, 80, 40, 20, (angle + 45) % 180 - 45),
        "opencv_0_90": opencv(angle % 90 or 90.0),
        "opencv_m90_0": opencv(angle % 90 - 90),
    }


@pytest.mark.parametrize("angle", [30, -30, 0, 90, 45, -45, 89.9999999])
def test_b04_all_forms_of_a_box_are_one_box(angle: float) -> None:
    """Case B04: opencv/opencv#19472, #28051, open-mmlab/mmrotate#483: the range of the angle differs by version."""
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    expected = np.array([[100 + x * c - y * s, 80 + x * s + y * c] for x, y in ((-20, -10), (20, -10), (20, 10), (-20, 10))])

    for convention, form in forms_of_b04(angle).items():
        corners = corners_from_angled_box(form)
        assert obb_iou(corners.reshape(1, 8), expected.reshape(1, 8))[0, 0] == pytest.approx(1.0, abs=1e-6)

        found = angled_box_from_corners(expected, convention)  # type: ignore[arg-type]
        assert (found.cx, found.cy, found.width, found.height) == pytest.approx((100, 80, form.width, form.height), abs=1e-6)
        assert found.angle_deg == pytest.approx(form.angle_deg, abs=1e-6)
