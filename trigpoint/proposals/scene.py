"""From raw answers about a scene to its proposals: pieces joined, specks taken out, small masks and duplicates left out, with reasons."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trigpoint.identity import make_id
from trigpoint.masks.crops import record_of_mask
from trigpoint.proposals.duplicates import drop_duplicates, same_things
from trigpoint.proposals.masks import PieceMasks, remove_specks
from trigpoint.proposals.settings import SAME_THING_IOU
from trigpoint.proposals.tiles import Joined, join_pieces, joined_crop
from trigpoint.records.proposal import AutomaticPrompt, MaskProposal, Prompt, ProposerIdentity, RawAnswer
from trigpoint.records.stage import Drop


class Cleaning(NamedTuple):
    """What is left out of a machine's masks.

    Attributes:
        speck_px: Parts with fewer pixels are taken out; the largest part stays.
        min_px: Masks with fewer pixels are dropped.
        duplicate_iou: Of masks with this IoU or more one stays, that with the higher score, then the larger.
        min_score: Masks with a lower score are dropped; those without a score stay.
    """

    speck_px: int = 25
    min_px: int = 100
    duplicate_iou: float = SAME_THING_IOU
    min_score: float | None = None


class SceneProposals(NamedTuple):
    """What came of the answers about a scene.

    Attributes:
        proposals: Sorted by id.
        drops: What was left out, and why.
    """

    proposals: list[MaskProposal]
    drops: list[Drop]


def settle_answers(
    scene_id: str,
    identity: ProposerIdentity,
    prompts: Sequence[Prompt],
    answers: Sequence[RawAnswer],
    size_px: tuple[int, int],
    cleaning: Cleaning,
) -> SceneProposals:
    """Make proposals of raw answers; the same answers in the same order give the same proposals.

    Specks are taken out of machine masks only: those of the proposer `vector` stay as they were drawn. Nothing fills a hole.

    Args:
        scene_id: The scene.
        identity: Who answered.
        prompts: What was asked.
        answers: What came back.
        size_px: Height and width of the scene.
        cleaning: What to leave out.
    """
    drops: list[Drop] = []
    found: list[MaskProposal] = []
    seen: set[str] = set()
    joined = _one_per_prompt(join_pieces(answers, prompts, *size_px), answers, prompts)
    answered = {answers[each.members[0]].prompt for each in joined}
    for k, prompt in enumerate(prompts):
        if k not in answered and not isinstance(prompt.shape, AutomaticPrompt):
            why = f"{identity.proposer} found nothing for its {prompt.shape.kind}"
            drops.append(_drop(scene_id, prompt.source_id, "no_mask_proposed", why))
    for each in joined:
        prompt = prompts[answers[each.members[0]].prompt]
        crop = joined_crop(each, answers)
        swept = remove_specks(crop.mask, cleaning.speck_px if identity.proposer != "vector" else 0)
        mask = record_of_mask(swept.mask, (crop.col_off, crop.row_off))
        area_px = int(np.count_nonzero(swept.mask))
        proposal = MaskProposal(
            proposal_id=make_id("p", scene_id, identity.proposer, identity.model, prompt.source_id, mask.to_json()),
            scene_id=scene_id,
            mask=mask,
            score=each.score,
            prompt=prompt,
            identity=identity,
            n_pieces=len(each.members),
            specks_px=swept.removed_px,
            is_cut_by_tile=each.is_cut,
        )
        item = _item(proposal)
        if proposal.proposal_id in seen:
            continue  # two tiles saw the same
        seen.add(proposal.proposal_id)
        if area_px < cleaning.min_px:
            drops.append(_drop(scene_id, item, "proposal_too_small", f"{area_px} pixels, fewer than {cleaning.min_px}"))
        elif each.score is not None and cleaning.min_score is not None and each.score < cleaning.min_score:
            drops.append(_drop(scene_id, item, "proposal_score_low", f"score {each.score:.3f}, below {cleaning.min_score:g}"))
        else:
            found.append(proposal)
    masks = PieceMasks([proposal.mask for proposal in found])
    order = sorted(range(len(found)), key=lambda k: (-(found[k].score or 0.0), -masks.area(k), found[k].proposal_id))
    kept = drop_duplicates(same_things(masks, cleaning.duplicate_iou), order)
    for place, pair in sorted(kept.instead_of.items()):
        why = f"mask IoU {pair.iou:.4f} with {_item(found[pair.first])}, which is kept"
        drops.append(_drop(scene_id, _item(found[place]), "proposal_duplicate", why))
    return SceneProposals(sorted((found[k] for k in kept.kept), key=lambda proposal: proposal.proposal_id), drops)


def _one_per_prompt(joined: list[Joined], answers: Sequence[RawAnswer], prompts: Sequence[Prompt]) -> list[Joined]:
    """Of a prompt that was asked in both passes keep one mask: the better scored, else that of the native pixels."""
    best: dict[int, Joined] = {}
    others: list[Joined] = []
    for each in joined:
        answer = answers[each.members[0]]
        if isinstance(prompts[answer.prompt].shape, AutomaticPrompt):
            others.append(each)
            continue
        known = best.setdefault(answer.prompt, each)
        rank, known_rank = ((one.score or 0.0, -answers[one.members[0]].reduced_by) for one in (each, known))
        if rank > known_rank:
            best[answer.prompt] = each
    return [*best.values(), *others]


def _item(proposal: MaskProposal) -> str:
    return proposal.proposal_id if proposal.prompt.origin == "automatic" else f"{proposal.prompt.source_id} ({proposal.proposal_id})"


def _drop(scene_id: str, item_id: str, reason_code: str, detail: str) -> Drop:
    return Drop(stage="annotate", scope_id=scene_id, item_id=item_id, reason_code=reason_code, detail=detail)
