import numpy as np
import pytest
from numpy.typing import NDArray

from trigpoint.errors import InputError
from trigpoint.proposals.classical import ClassicalProposer
from trigpoint.proposals.masks import crop_iou
from trigpoint.proposals.prompts import points_of_obb
from trigpoint.proposals.proposer import ArrayPicture, crop_of_window
from trigpoint.proposals.tiles import Tiling, ask_scene
from trigpoint.records.proposal import AutomaticPrompt, BoxPrompt, ClassicalMethod, PointsPrompt, Prompt

METHODS: tuple[ClassicalMethod, ...] = ("watershed", "random_walker")
OBB = np.array([[36.0, 27], [104, 27], [104, 73], [36, 73]])
SHAPES = {
    "box": BoxPrompt(box_px=(35, 26, 106, 75)),
    "obb": points_of_obb(OBB, 120, 140),
    "point": PointsPrompt(points_px=((70, 50),), labels=(1,), size_px=60),
}


def prompt(shape: BoxPrompt | PointsPrompt | AutomaticPrompt) -> Prompt:
    return Prompt(shape=shape, origin="drawn", source_id="x")


@pytest.fixture(scope="module")
def roof() -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """A bright roof on dark ground with some noise, and its mask."""
    mask = np.zeros((120, 140), dtype=bool)
    mask[30:70, 40:100] = True
    rgb = np.where(mask[..., None], [200, 180, 170], [60, 60, 60]) + np.random.default_rng(0).integers(0, 20, (120, 140, 3))
    return rgb.astype(np.uint8), mask


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", SHAPES)
def test_a_clear_thing_is_found_from_every_kind_of_prompt(
    roof: tuple[NDArray[np.uint8], NDArray[np.bool_]], method: ClassicalMethod, kind: str
) -> None:
    truth = crop_of_window(roof[1])
    assert truth is not None

    answers = ClassicalProposer(method).propose(roof[0], [prompt(SHAPES[kind])])

    assert [(answer.prompt, answer.score) for answer in answers] == [(0, None)]
    assert crop_iou(answers[0].crop, truth) > 0.85


@pytest.mark.parametrize("method", METHODS)
def test_a_tile_that_holds_what_is_around_a_prompt_gives_the_answer_of_the_whole_scene(
    roof: tuple[NDArray[np.uint8], NDArray[np.bool_]], method: ClassicalMethod
) -> None:
    scene = np.random.default_rng(1).integers(0, 255, (340, 420, 3), dtype=np.uint8)
    scene[120:240, 150:290] = roof[0]  # over the seam of the first two tiles
    prompts = [
        prompt(BoxPrompt(box_px=(185, 146, 256, 195))),
        prompt(points_of_obb(OBB + np.array([150, 120]), 340, 420)),
        prompt(PointsPrompt(points_px=((220, 170),), labels=(1,), size_px=60)),
        prompt(BoxPrompt(box_px=(2, 2, 40, 30))),
    ]

    tiled, whole = (
        ask_scene(ClassicalProposer(method), ArrayPicture(scene), prompts, tiling) for tiling in (Tiling(300, 145), Tiling(512))
    )

    assert len({answer.tile for answer in tiled}) > 1
    assert {a.prompt: a.mask for a in tiled} == {a.prompt: a.mask for a in whole}


def test_a_negative_point_keeps_the_mask_off() -> None:
    rgb = np.full((60, 100, 3), 40, dtype=np.uint8)
    rgb[20:40, 10:90] = 200  # two things that look like one
    both = PointsPrompt(points_px=((30, 30),), labels=(1,), size_px=70)
    one = PointsPrompt(points_px=((30, 30), (70, 30)), labels=(1, 0), size_px=70)

    wide, narrow = (ClassicalProposer().propose(rgb, [prompt(shape)])[0].crop for shape in (both, one))

    assert narrow.col_off + narrow.mask.shape[1] < wide.col_off + wide.mask.shape[1]


def test_a_prompt_that_fills_the_picture_or_is_tiny_is_answered() -> None:
    rgb = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)

    answers = ClassicalProposer().propose(rgb, [prompt(BoxPrompt(box_px=(0, 0, 40, 30))), prompt(BoxPrompt(box_px=(5.2, 5.3, 5.9, 5.8)))])

    assert [answer.prompt for answer in answers] == [0, 1]


def test_what_it_cannot_use_is_refused_with_what_to_do() -> None:
    rgb = np.zeros((9, 9, 3), dtype=np.uint8)
    with pytest.raises(InputError, match="set point_size_m"):
        ClassicalProposer().propose(rgb, [prompt(PointsPrompt(points_px=((4, 4),), labels=(1,)))])
    with pytest.raises(InputError, match="'x' is of kind 'automatic'"):
        ClassicalProposer().propose(rgb, [prompt(AutomaticPrompt())])
