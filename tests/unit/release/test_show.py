import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.toy_release import toy_mask, write_toy_release
from trigpoint.errors import InputError
from trigpoint.release.reader import Release
from trigpoint.release.show import ANSWER, contact_sheet, draw_query, draw_scene, png_bytes


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release.open(write_toy_release(tmp_path_factory.mktemp("toy")))


def share_of(image: Image.Image, colour: tuple[int, int, int]) -> float:
    return float((np.abs(np.asarray(image, dtype=int) - colour).max(axis=2) < 12).mean())


def test_pictures_are_the_same_bytes_every_time(release: Release) -> None:
    again = Release.open(release.folder)

    for draw, item in ((draw_scene, "s-a"), (draw_query, "q-1")):
        assert png_bytes(draw(release, item)) == png_bytes(draw(again, item))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png_bytes(draw_scene(release, "s-b"))))), np.asarray(draw_scene(release, "s-b")))


def test_the_answer_is_marked_and_an_unanswerable_query_marks_nothing(release: Release) -> None:
    marked, unmarked = draw_query(release, "q-1"), draw_query(release, "q-3")

    # the legend's swatch is the only such colour of a query without an answer
    assert share_of(marked, ANSWER) > 10 * share_of(unmarked, ANSWER)


def test_the_answer_lies_where_its_mask_lies(release: Release) -> None:
    """q-8 is the school, rows 20-30 and columns 30-50 of 40 x 60; the scene is drawn 8 times as large between margins of 10."""
    image = np.asarray(draw_query(release, "q-8"), dtype=int)

    rows, cols = np.nonzero(np.abs(image - ANSWER).max(axis=2) < 12)
    is_swatch = rows > rows.min() + 10 * 8 + 2
    top = int(rows.min())

    assert (cols[~is_swatch].min(), cols[~is_swatch].max()) == pytest.approx((10 + 30 * 8, 10 + 50 * 8 - 1), abs=2)
    assert rows[~is_swatch].max() - top == pytest.approx(10 * 8 - 1, abs=3)
    assert toy_mask("s-a", (20, 30, 30, 50)).sum() == 200


def test_large_scenes_are_reduced_to_the_side_asked_for(release: Release) -> None:
    small = draw_scene(release, "s-a", max_side_px=30)
    large = draw_scene(release, "s-a", max_side_px=960)

    # 30 x 20 and 480 x 320 pixels of scene in frames alike
    assert large.height - small.height == 320 - 20
    assert large.width == 480 + 20


def test_a_region_answer_is_drawn_from_its_rle(tmp_path: Path) -> None:
    from tests.toy_release import toy_query

    release = Release.open(write_toy_release(tmp_path, [toy_query(1, "s-a", None, "road", ["i-9"], ["the road"], form="referring")]))

    assert share_of(draw_query(release, "q-1"), ANSWER) > 0.005


def test_true_north_turns_with_the_image(tmp_path: Path) -> None:
    release = Release.open(write_toy_release(tmp_path))
    turned = Release.open(release.folder)
    turned.__dict__["scene_by_id"] = {key: row._replace(image_up_deg=90.0) for key, row in release.scene_by_id.items()}

    first, second = (np.asarray(draw_scene(r, "s-b")) for r in (release, turned))

    assert first.shape == second.shape
    rows = np.flatnonzero((first != second).any(axis=(1, 2)))
    assert 0 < np.ptp(rows) < 42, "nothing but the arrow differs"


@pytest.mark.parametrize(("draw", "item"), [(draw_scene, "s-z"), (draw_query, "q-z")])
def test_unknown_items_are_named_with_some_that_exist(release: Release, draw: object, item: str) -> None:
    with pytest.raises(InputError, match=f"{item}.*it has"):
        draw(release, item)  # type: ignore[operator]


def test_a_contact_sheet_holds_every_picture_in_order() -> None:
    pictures = [Image.new("RGB", (20, 10), colour) for colour in ("red", "green", "blue")]

    sheet = contact_sheet(pictures, columns=2, cell_width_px=20, gap_px=4)

    assert sheet.size == (52, 32)
    assert [sheet.getpixel(at) for at in ((10, 8), (34, 8), (10, 22), (34, 22))] == [(255, 0, 0), (0, 128, 0), (0, 0, 255), (255, 255, 255)]
