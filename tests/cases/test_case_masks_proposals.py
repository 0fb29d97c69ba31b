"""Known traps of proposed masks. Inputs and expectations are rebuilt here from the case descriptions."""

import numpy as np

from trigpoint.masks.crops import record_of_mask
from trigpoint.masks.rle import rle_bbox
from trigpoint.proposals.scene import Cleaning, settle_answers
from trigpoint.records.proposal import AutomaticPrompt, Prompt, ProposerIdentity, RawAnswer
from trigpoint.records.scene import Window


def test_m09_two_masks_of_one_object_are_one_proposal_without_the_stray_pixel() -> None:
    """facebookresearch/segment-anything#199: near-equal masks survive box NMS; mask IoU 0.9997, box IoU 0.4545 for one pixel far off."""
    clean = np.zeros((128, 128), dtype=bool)
    clean[60:100, 20:110] = True
    stray = clean.copy()
    stray[12, 40] = True
    prompts = [Prompt(shape=AutomaticPrompt(), origin="automatic", source_id="automatic")]
    tile = Window(col_off=0, row_off=0, width=128, height=128)
    answers = [RawAnswer(prompt=0, tile=tile, mask=record_of_mask(m), score=s) for m, s in ((clean, 0.988), (stray, 0.990))]
    identity = ProposerIdentity(proposer="sam2", model="any", version="any")

    swept = settle_answers("s", identity, prompts, answers, (128, 128), Cleaning())
    unswept = settle_answers("s", identity, prompts, answers, (128, 128), Cleaning(speck_px=0))

    assert len(swept.proposals) == len(unswept.proposals) == 1
    mask = swept.proposals[0].mask
    x0, y0, x1, y1 = rle_bbox(mask.counts, mask.size_px) or (0, 0, 0, 0)
    col, row = mask.origin_px
    assert [col + x0, row + y0, x1 - x0, y1 - y0] == [20, 60, 90, 40]
    assert [drop.reason_code for drop in unswept.drops] == ["proposal_duplicate"]
    assert "mask IoU 0.9997" in unswept.drops[0].detail
    assert unswept.proposals[0].score == 0.990
