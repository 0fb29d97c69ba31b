import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from trigpoint.masks.crops import crop_of_record, record_of_mask
from trigpoint.proposals.duplicates import drop_duplicates, same_things
from trigpoint.proposals.masks import CropMasks, PieceMasks, crop_iou, remove_specks
from trigpoint.proposals.proposer import crop_of_window
from trigpoint.proposals.scene import Cleaning, SceneProposals, settle_answers
from trigpoint.records.proposal import AutomaticPrompt, BoxPrompt, Prompt, ProposerIdentity, ProposerName, RawAnswer
from trigpoint.records.scene import Window

SCENE = Window(col_off=0, row_off=0, width=100, height=80)
AUTOMATIC = [Prompt(shape=AutomaticPrompt(), origin="automatic", source_id="automatic")]


def rectangle(x0: int, x1: int, y0: int = 10, y1: int = 40) -> NDArray[np.bool_]:
    mask = np.zeros((80, 100), dtype=bool)
    mask[y0:y1, x0:x1] = True
    return mask


def settled(
    *answers: tuple[NDArray[np.bool_], float | None],
    prompts: list[Prompt] | None = None,
    proposer: ProposerName = "sam2",
    **cleaning: float,
) -> SceneProposals:
    raw = [RawAnswer(prompt=0 if prompts is None else k, tile=SCENE, mask=record_of_mask(m), score=s) for k, (m, s) in enumerate(answers)]
    identity = ProposerIdentity(proposer=proposer, model="m", version="1")
    return settle_answers("s", identity, prompts or AUTOMATIC, raw, (80, 100), Cleaning(**cleaning))  # type: ignore[arg-type]


def test_of_two_masks_of_one_thing_the_better_scored_stays_and_the_other_says_why_it_went() -> None:
    made = settled((rectangle(10, 50), 0.8), (rectangle(10, 51), 0.9), (rectangle(60, 90), 0.7))

    assert [p.score for p in sorted(made.proposals, key=lambda p: p.mask.origin_px)] == [0.9, 0.7]
    assert [d.reason_code for d in made.drops] == ["proposal_duplicate"]
    assert "mask IoU 0.9756 with p-" in made.drops[0].detail


def test_neighbours_with_nearly_one_box_are_two_things() -> None:
    # two halves of a square, cut along its diagonal: box IoU above 0.9, no pixel in common
    upper = np.zeros((80, 100), dtype=bool)
    upper[10:50, 10:50] = np.triu(np.ones((40, 40), dtype=bool), 1)
    lower = np.zeros((80, 100), dtype=bool)
    lower[10:50, 10:50] = np.tril(np.ones((40, 40), dtype=bool))

    assert len(settled((upper, 0.9), (lower, 0.8)).proposals) == 2


def test_specks_go_and_are_counted_while_holes_and_large_parts_stay() -> None:
    mask = rectangle(10, 50)
    mask[20:25, 20:25] = False
    mask[60:68, 60:68] = True
    mask[75, 90] = True

    proposal = settled((mask, 0.9)).proposals[0]
    left = crop_of_record(proposal.mask, 80, 100)

    assert proposal.specks_px == 1
    assert left.area_px == 40 * 30 - 25 + 64
    assert not left.mask[10:15, 10:15].any()


def test_what_a_person_drew_has_no_specks() -> None:
    mask = rectangle(10, 50)
    mask[75, 90] = True

    assert settled((mask, None), proposer="vector").proposals[0].specks_px == 0


def test_a_slanting_line_one_pixel_wide_is_one_part() -> None:
    assert remove_specks(np.eye(30, dtype=bool), 25).removed_px == 0


def test_the_largest_part_stays_however_small() -> None:
    swept = remove_specks(np.array([[1, 0, 1, 1, 0, 1]], dtype=bool), 25)

    assert (swept.mask.tolist(), swept.removed_px) == ([[False, False, True, True, False, False]], 2)


def test_small_masks_and_low_scores_are_dropped_with_their_reason() -> None:
    made = settled((rectangle(10, 14, 10, 14), 0.9), (rectangle(30, 60), 0.3), (rectangle(65, 90), 0.8), min_score=0.5)

    assert sorted(d.reason_code for d in made.drops) == ["proposal_score_low", "proposal_too_small"]
    assert len(made.proposals) == 1


def test_a_prompt_without_an_answer_is_named() -> None:
    prompts = [Prompt(shape=BoxPrompt(box_px=(0, 0, 9, 9)), origin="footprint", source_id=f"osm/way/{k}") for k in range(2)]

    made = settled((rectangle(10, 50), None), prompts=prompts)

    assert [(d.item_id, d.reason_code) for d in made.drops] == [("osm/way/1", "no_mask_proposed")]
    assert made.proposals[0].prompt == prompts[0]


@given(st.permutations(range(6)))
def test_the_order_of_the_answers_changes_nothing(order: list[int]) -> None:
    masks = [(rectangle(10 + k, 50 + k), 0.5 + k % 3 / 10) for k in range(6)]
    there = settled(*masks).proposals

    assert settled(*(masks[k] for k in order)).proposals == there


def test_a_chain_of_likenesses_keeps_both_ends() -> None:
    # 0 is like 1 and 1 is like 2, but 0 is not like 2: what goes goes because of one that stays
    crops = CropMasks([crop for k in range(3) if (crop := crop_of_window(rectangle(10 + 5 * k, 60 + 5 * k))) is not None])
    pairs = same_things(crops)

    assert [(pair.first, pair.second) for pair in pairs] == [(0, 1), (1, 2)]
    assert drop_duplicates(pairs, [0, 1, 2]).kept == [0, 2]
    assert drop_duplicates(pairs, [1, 0, 2]).kept == [1]


@given(st.integers(0, 2**32 - 1))
def test_iou_in_windows_is_iou_in_the_scene(seed: int) -> None:
    random = np.random.default_rng(seed)
    masks = [np.zeros((30, 40), dtype=bool) for _ in range(2)]
    for mask in masks:
        y, x = random.integers(0, 20, 2)
        mask[y : y + 10, x : x + 15] = random.random((10, 15)) < 0.6
        mask[y, x] = True
    crops = PieceMasks([record_of_mask(mask) for mask in masks])

    expected = np.count_nonzero(masks[0] & masks[1]) / np.count_nonzero(masks[0] | masks[1])
    assert crop_iou(crops.crop(0), crops.crop(1)) == pytest.approx(expected)
