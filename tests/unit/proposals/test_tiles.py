import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage

from tests.unit.proposals._thresholding import AUTOMATIC, Thresholding, picture_of
from trigpoint.errors import InputError
from trigpoint.masks.crops import record_of_mask
from trigpoint.masks.rasterise import CropMask
from trigpoint.proposals.masks import part_in
from trigpoint.proposals.proposer import ArrayPicture, RgbArray
from trigpoint.proposals.scene import Cleaning, settle_answers
from trigpoint.proposals.tiles import Tiling, ask_scene, join_pieces, joined_crop, tiles_of
from trigpoint.records.proposal import BoxPrompt, MaskProposal, Pass, Prompt, RawAnswer
from trigpoint.records.scene import Window

EVERYTHING = Cleaning(speck_px=0, min_px=1)


def whole(crop: CropMask, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    return part_in(crop, Window(col_off=0, row_off=0, width=shape[1], height=shape[0]))


def components(mask: NDArray[np.bool_]) -> set[bytes]:
    parts, n = ndimage.label(mask)
    return {(parts == k).tobytes() for k in range(1, n + 1)}


def proposed(mask: NDArray[np.bool_], tiling: Tiling) -> list[MaskProposal]:
    answers = ask_scene(Thresholding(), ArrayPicture(picture_of(mask)), AUTOMATIC, tiling)
    return settle_answers("s", Thresholding.identity, AUTOMATIC, answers, (mask.shape[0], mask.shape[1]), EVERYTHING).proposals


def test_tiles_cover_the_scene_and_neighbours_share_the_overlap() -> None:
    tiles = tiles_of(70, 100, 32, 8)
    seen = np.zeros((70, 100), dtype=int)
    for tile in tiles:
        seen[tile.row_off : tile.row_off + tile.height, tile.col_off : tile.col_off + tile.width] += 1

    assert seen.min() == 1
    assert {(tile.width, tile.height) for tile in tiles} == {(32, 32)}
    assert all(seen[:, k].min() >= 2 for k in range(24, 32))
    assert [tile.as_tuple() for tile in tiles_of(20, 30, 32, 8)] == [(0, 0, 30, 20)]


@pytest.mark.parametrize("overlap", [0, 16, 20])
def test_an_overlap_that_joins_nothing_or_never_advances_is_refused(overlap: int) -> None:
    with pytest.raises(InputError, match="from 1 to below half a tile"):
        tiles_of(70, 100, 32, overlap)


def test_one_thing_in_four_tiles_with_a_hole_and_an_arm_is_one_again_bit_for_bit() -> None:
    mask = np.zeros((100, 130), dtype=bool)
    mask[30:70, 40:95] = True
    mask[45:52, 55:80] = False
    mask[34:37, 95:125] = True  # an arm into a further tile
    mask[10:15, 10:18] = True  # a thing of its own

    made = proposed(mask, Tiling(tile_px=64, overlap_px=10))

    assert {whole_mask(p, mask.shape).tobytes() for p in made} == components(mask)
    largest = max(made, key=lambda p: p.n_pieces)
    assert largest.n_pieces >= 4
    assert not any(p.is_cut_by_tile for p in made)


def whole_mask(proposal: MaskProposal, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    from trigpoint.masks.crops import crop_of_record

    return whole(crop_of_record(proposal.mask, shape[0], shape[1]), shape)


def test_combs_that_are_one_in_one_tile_and_many_in_the_next_are_joined() -> None:
    mask = np.zeros((40, 60), dtype=bool)
    mask[2:38:4, 5:55] = True  # teeth over every seam
    mask[2:38, 5] = True  # joined on the left for some,
    mask[2:20, 54] = True  # on the right for others
    mask[8, 30] = False

    assert {whole_mask(p, mask.shape).tobytes() for p in proposed(mask, Tiling(16, 3))} == components(mask)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(7, 20), st.integers(1, 9), st.sampled_from([0.4, 0.55, 0.6, 0.7]))
def test_the_parts_of_any_picture_are_those_of_the_whole_scene_whatever_the_tiles(
    seed: int, tile_px: int, overlap_px: int, share: float
) -> None:
    overlap_px = min(overlap_px, (tile_px - 1) // 2)
    mask = np.random.default_rng(seed).random((24, 31)) < share

    assert {whole_mask(p, mask.shape).tobytes() for p in proposed(mask, Tiling(tile_px, overlap_px))} == components(mask)


def answer(mask: NDArray[np.bool_], tile: tuple[int, int, int, int], score: float = 0.9) -> RawAnswer:
    window = Window(col_off=tile[0], row_off=tile[1], width=tile[2], height=tile[3])
    return RawAnswer(prompt=0, tile=window, mask=record_of_mask(mask), score=score)


def rectangle(x0: int, x1: int, y0: int = 10, y1: int = 30) -> NDArray[np.bool_]:
    mask = np.zeros((40, 100), dtype=bool)
    mask[y0:y1, x0:x1] = True
    return mask


LEFT, RIGHT = (0, 0, 60, 40), (40, 0, 60, 40)


def test_a_part_that_no_tile_cuts_stays_its_own_beside_the_whole_that_is_cut() -> None:
    answers = [answer(rectangle(20, 60), LEFT), answer(rectangle(40, 80), RIGHT), answer(rectangle(45, 52, 15, 20), LEFT)]

    joined = join_pieces(answers, AUTOMATIC, 40, 100)

    assert [each.members for each in joined] == [(0, 1), (2,)]
    assert np.array_equal(whole(joined_crop(joined[0], answers), (40, 100)), rectangle(20, 80))


def test_of_several_masks_that_go_on_the_one_that_agrees_best_is_taken() -> None:
    # the neighbour sees the thing, and a much larger one around it
    answers = [answer(rectangle(30, 60, 15, 25), LEFT), answer(rectangle(40, 100, 0, 40), RIGHT), answer(rectangle(40, 70, 15, 25), RIGHT)]

    joined = join_pieces(answers, AUTOMATIC, 40, 100)

    assert (0, 2) in [each.members for each in joined]


def test_what_a_tile_cuts_and_no_neighbour_goes_on_with_says_so() -> None:
    joined = join_pieces([answer(rectangle(20, 60), LEFT), answer(rectangle(90, 98), RIGHT)], AUTOMATIC, 40, 100)

    assert [(each.members, each.is_cut) for each in joined] == [((0,), True), ((1,), False)]


def test_the_score_of_a_joined_mask_is_the_mean_of_its_pieces_by_pixels() -> None:
    joined = join_pieces([answer(rectangle(20, 60), LEFT, 0.9), answer(rectangle(40, 60), RIGHT, 0.6)], AUTOMATIC, 40, 100)

    assert joined[0].score == pytest.approx((0.9 * 800 + 0.6 * 400) / 1200)


# who is asked where


def box(x0: float, y0: float, x1: float, y1: float, name: str = "b") -> Prompt:
    return Prompt(shape=BoxPrompt(box_px=(x0, y0, x1, y1)), origin="drawn", source_id=name)


def test_a_prompt_is_asked_once_in_a_tile_that_holds_it_whole() -> None:
    prompts = [box(1, 1, 9, 9, "a"), box(55, 50, 68, 60, "seam"), box(20, 2, 75, 12, "wide")]
    answers = ask_scene(Thresholding(), ArrayPicture(picture_of(np.ones((100, 130), dtype=bool))), prompts, Tiling(64, 16))

    tiles = {answer.prompt: answer.tile for answer in answers}
    assert sorted(answer.prompt for answer in answers) == [0, 1, 2]
    for k, prompt in enumerate(prompts):
        shape, tile = prompt.shape, tiles[k]
        assert isinstance(shape, BoxPrompt)
        assert tile.col_off <= shape.box_px[0]
        assert shape.box_px[2] <= tile.col_off + tile.width


def test_a_prompt_larger_than_a_tile_is_asked_in_all_and_put_together() -> None:
    mask = np.zeros((100, 130), dtype=bool)
    mask[20:60, 5:125] = True
    prompts = [box(5, 20, 125, 60)]
    answers = ask_scene(Thresholding(), ArrayPicture(picture_of(mask)), prompts, Tiling(64, 16))
    made = settle_answers("s", Thresholding.identity, prompts, answers, (100, 130), EVERYTHING).proposals

    assert len(made) == 1
    assert np.array_equal(whole_mask(made[0], mask.shape), mask)


def test_the_whole_scene_in_one_look_is_reduced_to_a_tile_and_its_masks_come_back_in_place() -> None:
    mask = np.zeros((100, 130), dtype=bool)
    mask[30:60, 30:90] = True  # edges on multiples of 3
    proposer = Thresholding()

    answers = ask_scene(proposer, ArrayPicture(picture_of(mask)), AUTOMATIC, Tiling(64, 16, ("scene",)))

    assert proposer.seen == [(34, 44)]
    assert [a.reduced_by for a in answers] == [3]
    assert np.array_equal(whole(joined_crop(join_pieces(answers, AUTOMATIC, 100, 130)[0], answers), mask.shape), mask)


def test_both_passes_give_one_proposal_of_a_thing() -> None:
    mask = np.zeros((90, 120), dtype=bool)
    mask[30:60, 30:90] = True

    made = proposed(mask, Tiling(60, 14, ("scene", "tiles")))

    assert [np.array_equal(whole_mask(p, mask.shape), mask) for p in made] == [True]


class Squares:
    """A scene of any size that is never in memory: bright squares on a grid, in its top left corner alone if `extent` says so."""

    def __init__(self, side: int, extent: int) -> None:
        self.size_px = (side, side)
        self._extent = extent

    def read(self, window: Window) -> RgbArray:
        y = np.arange(window.row_off, window.row_off + window.height)
        x = np.arange(window.col_off, window.col_off + window.width)
        is_bright = np.outer((y // 50) % 2 * (y < self._extent), (x // 50) % 2 * (x < self._extent))
        return np.repeat((is_bright * 250).astype(np.uint8)[..., None], 3, axis=2)


def peak_bytes(side: int, extent: int, passes: tuple[Pass, ...]) -> int:
    tracemalloc.start()
    try:
        answers = ask_scene(Thresholding(), Squares(side, extent), AUTOMATIC, Tiling(256, 64, passes))
        made = settle_answers("s", Thresholding.identity, AUTOMATIC, answers, (side, side), EVERYTHING).proposals
        assert made
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("passes", [("tiles",), ("scene", "tiles")])
def test_memory_is_that_of_a_tile_however_large_the_scene(passes: tuple[Pass, ...]) -> None:
    peak_bytes(300, 300, passes)  # what is imported and cached once
    small, large = peak_bytes(800, 800, passes), peak_bytes(3200, 800, passes)  # 16 times the pixels, the same things

    assert large < 1.25 * small
    assert large < 3200 * 3200 * 3 / 10  # of the picture


def test_the_whole_scene_in_one_look_is_read_in_strips() -> None:
    assert peak_bytes(3200, 800, ("scene",)) < 3200 * 3200 * 3 / 10


def test_more_things_cost_their_run_lengths_and_records() -> None:
    peak_bytes(300, 300, ("tiles",))
    few, many = peak_bytes(2400, 600, ("tiles",)), peak_bytes(2400, 2400, ("tiles",))

    assert (many - few) / (24**2 - 6**2) < 8000  # bytes per thing, which most tiles see twice
