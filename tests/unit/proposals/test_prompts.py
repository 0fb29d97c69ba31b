import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from trigpoint.errors import InputError
from trigpoint.masks.crops import crop_of_record, polygon_of_record, record_of_mask
from trigpoint.masks.rasterise import crop_mask
from trigpoint.proposals.prompts import points_of_obb, prompt_bounds, prompt_in_tile, prompt_shape
from trigpoint.proposals.proposer import crop_of_window
from trigpoint.proposals.vector import VectorProposer
from trigpoint.records.proposal import AutomaticPrompt, BoxPrompt, MaskPrompt, PointsPrompt, Prompt
from trigpoint.records.scene import Window

SLANTED = shapely.Polygon([(30, 20), (80, 60), (70, 72), (20, 32)])


def prompt(shape: BoxPrompt | PointsPrompt | MaskPrompt | AutomaticPrompt) -> Prompt:
    return Prompt(shape=shape, origin="drawn", source_id="x")


def test_an_outline_becomes_its_box_clipped_to_the_scene() -> None:
    assert prompt_shape(shapely.box(-5, 10, 30, 40), "box", 50, 60) == BoxPrompt(box_px=(0, 10, 30, 40))
    assert prompt_shape(shapely.box(70, 10, 90, 40), "box", 50, 60) is None


def test_an_outline_becomes_a_point_on_it_even_where_its_middle_is_not() -> None:
    ring = shapely.box(10, 10, 50, 50).difference(shapely.box(20, 20, 45, 45))
    shape = prompt_shape(ring, "point", 60, 60)

    assert isinstance(shape, PointsPrompt)
    assert shape.labels == (1,)
    assert ring.contains(shapely.Point(shape.points_px[0]))


def test_an_oriented_box_becomes_points_on_its_long_axis_and_off_its_corners() -> None:
    shape = prompt_shape(SLANTED, "obb", 100, 100)

    assert isinstance(shape, PointsPrompt)
    assert shape.obb_px is not None
    box = shapely.Polygon(shape.obb_px)
    assert box.symmetric_difference(SLANTED).area < 0.1 * SLANTED.area
    inside = [box.contains(shapely.Point(point)) for point in shape.points_px]
    assert inside == [label == 1 for label in shape.labels] == [True] * 3 + [False] * 4
    on_axis = [point for point, label in zip(shape.points_px, shape.labels, strict=True) if label]
    assert shapely.LineString([on_axis[0], on_axis[2]]).length == pytest.approx(0.6 * max(_sides(shape.obb_px)))
    assert shapely.LineString([on_axis[0], on_axis[2]]).distance(shapely.Point(on_axis[1])) < 1e-9
    # just outside: nearer to a corner of the box than its short side is long
    assert all(shapely.MultiPoint(shape.obb_px).distance(shapely.Point(p)) < min(_sides(shape.obb_px)) for p in shape.points_px[3:])


def _sides(corners: tuple[tuple[float, float], ...]) -> list[float]:
    points = np.array(corners)
    return np.hypot(*(points[1:] - points[:-1]).T).tolist()


def test_points_beside_the_scene_are_left_out_and_a_box_beside_it_is_refused() -> None:
    shape = points_of_obb(np.array([[-4.0, 5], [40, 5], [40, 20], [-4, 20]]), 50, 60)
    assert all(0 <= x < 60 and 0 <= y < 50 for x, y in shape.points_px)
    assert shape.labels.count(0) == 2

    with pytest.raises(InputError, match="its middle is outside the scene of 60 × 50 px"):
        points_of_obb(np.array([[70.0, 5], [90, 5], [90, 20], [70, 20]]), 50, 60)


@given(st.integers(0, 2**32 - 1))
def test_a_footprint_as_a_mask_is_rasterised_by_the_one_pixel_rule_and_given_back_as_it_is(seed: int) -> None:
    random = np.random.default_rng(seed)
    polygon = shapely.MultiPoint(random.uniform(-5, 45, (5, 2))).convex_hull
    shape = prompt_shape(polygon, "mask", 40, 40)
    crop = crop_mask(polygon.intersection(shapely.box(0, 0, 40, 40)), 40, 40)

    if shape is None:
        assert crop.area_px == 0
        return
    answers = VectorProposer().propose(np.zeros((40, 40, 3), dtype=np.uint8), [prompt(shape)])
    assert isinstance(shape, MaskPrompt)
    assert answers[0].score is None
    assert crop_mask(polygon_of_record(shape.mask), 40, 40).area_px == answers[0].crop.area_px == crop.area_px
    assert np.array_equal(crop_of_window(answers[0].crop.mask).mask, crop_of_record(shape.mask, 40, 40).mask)  # type: ignore[union-attr]


def test_the_vector_proposer_takes_masks_alone() -> None:
    with pytest.raises(InputError, match="is of kind 'box'"):
        VectorProposer().propose(np.zeros((9, 9, 3), dtype=np.uint8), [prompt(BoxPrompt(box_px=(0, 0, 4, 4)))])


TILE = Window(col_off=20, row_off=10, width=30, height=40)


def test_a_tile_sees_prompts_in_its_own_pixels() -> None:
    mask = np.zeros((60, 80), dtype=bool)
    mask[5:20, 15:30] = True

    box = prompt_in_tile(prompt(BoxPrompt(box_px=(10, 20, 40, 60))), TILE)
    points = prompt_in_tile(prompt(PointsPrompt(points_px=((25.5, 12), (60, 20), (21, 49.5)), labels=(1, 1, 0), size_px=8)), TILE, 2)
    part = prompt_in_tile(prompt(MaskPrompt(mask=record_of_mask(mask))), TILE)

    assert box is not None
    assert box.shape == BoxPrompt(box_px=(0, 10, 20, 40))
    assert points is not None
    assert points.shape == PointsPrompt(points_px=((2.75, 1), (0.5, 19.75)), labels=(1, 0), size_px=4)
    assert part is not None
    assert isinstance(part.shape, MaskPrompt)
    assert (part.shape.mask.origin_px, part.shape.mask.size_px) == ((0, 0), (10, 10))


def test_a_prompt_of_which_a_tile_sees_nothing_is_none() -> None:
    far = np.zeros((60, 80), dtype=bool)
    far[55:, 70:] = True

    assert prompt_in_tile(prompt(BoxPrompt(box_px=(60, 0, 70, 8))), TILE) is None
    assert prompt_in_tile(prompt(PointsPrompt(points_px=((60, 20), (25, 20)), labels=(1, 0))), TILE) is None
    assert prompt_in_tile(prompt(MaskPrompt(mask=record_of_mask(far))), TILE) is None


def test_bounds_of_a_prompt_hold_what_it_is_about() -> None:
    assert prompt_bounds(PointsPrompt(points_px=((10, 20), (90, 90)), labels=(1, 0), size_px=6)) == (7, 17, 13, 23)
    assert prompt_bounds(AutomaticPrompt()) is None


def test_prompts_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="x_min < x_max"):
        BoxPrompt(box_px=(5, 5, 5, 9))
    with pytest.raises(ValueError, match="at least one 1"):
        PointsPrompt(points_px=((1, 1),), labels=(0,))
