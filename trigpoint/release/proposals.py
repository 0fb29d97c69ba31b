"""What machines proposed of a release's instances: proposals.jsonl and the manifest's block of proposers."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from trigpoint.identity import canonical_json
from trigpoint.records.proposal import InferenceRecord, MaskProposal


class ProposalDocument(NamedTuple):
    """What a release says of machines' masks.

    Attributes:
        lines: Of proposals.jsonl, sorted by id: the proposals that instances come from.
        block: The manifest's block `proposers`: who was asked, how many answered, how many instances came of it.
    """

    lines: list[dict[str, Any]]
    block: list[dict[str, Any]]


def proposal_document(
    proposals: Iterable[MaskProposal], inferences: Iterable[InferenceRecord], sources: Mapping[str, Iterable[str]]
) -> ProposalDocument:
    """Tell what machines proposed.

    Args:
        proposals: Of the scenes of the release.
        inferences: Of the same scenes.
        sources: Instance id → its source ids.
    """
    named = {source for each in sources.values() for source in each}
    used = {proposal.proposal_id: proposal for proposal in proposals if proposal.proposal_id in named}
    lines = [
        {
            "proposal_id": name,
            "scene_id": one.scene_id,
            **one.identity.to_json(),
            "score": one.score,
            "prompt": one.prompt.to_json(),
            "n_pieces": one.n_pieces,
            "specks_px": one.specks_px,
        }
        for name, one in sorted(used.items())
    ]
    answers: Counter[str] = Counter()
    who: dict[str, dict[str, Any]] = {}
    for inference in inferences:
        said = {**inference.identity.to_json(), "versions": inference.versions}
        answers[canonical_json(said)] += inference.n_answers
        who[canonical_json(said)] = said
    instances = Counter(canonical_json(one.identity.to_json()) for one in used.values())
    identity_of = {key: canonical_json({k: v for k, v in said.items() if k != "versions"}) for key, said in who.items()}
    block = [{**who[key], "answers": answers[key], "instances": instances[identity_of[key]]} for key in sorted(who)]
    return ProposalDocument(lines, block)
