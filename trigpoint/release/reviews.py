"""Who decided what about the parts of a release, as the release tells it: reviews.jsonl and the manifest's block."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from trigpoint.config import ReviewConfig, ReviewRule
from trigpoint.records.review import Decision
from trigpoint.review.agreement import report
from trigpoint.review.ledger import Ledger, ReviewItem, instance_id_of, version_of


class ReviewDocument(NamedTuple):
    """What a release says of its review.

    Attributes:
        lines: Of reviews.jsonl, in order of writing within a scene.
        block: The manifest's block `review`, without the counts of states.
    """

    lines: list[dict[str, Any]]
    block: dict[str, Any]


def review_document(items: Iterable[ReviewItem], decisions: Sequence[Decision], config: ReviewConfig, seed: int) -> ReviewDocument:
    """Tell the review of a release; people are numbered in the order of the lines unless their names are published.

    Args:
        items: What was proposed in the scenes of the release.
        decisions: On these scenes, in order of writing within a scene.
        config: The policies.
        seed: Of the release: draws the samples of spot checks.
    """
    names = _Names(config.publish_names)
    states = Ledger(decisions).states(items)
    contents = {version_of(state.item.value) for state in states.values()} | {made for one in decisions for made in _made(one).values()}
    lines = [_line(decision, names, contents) for decision in decisions]
    found = report(states.values(), config, seed)
    for pair in found["agreement"]["cohen"]:
        pair["who"] = [names.of(who) for who in pair["who"]]
    block = {**_rule(config, names), "sentences": _rule(config.rule_for_sentences, names), "note": config.note, **found}
    return ReviewDocument(lines, block)


class _Names:
    def __init__(self, published: bool) -> None:
        self.published = published
        self._number: dict[str, int] = {}
        self._place: dict[str, int] = {}

    def id_of(self, decision_id: str) -> str:
        """The id of a decision as the release gives it: the digest of all it says would tell who signed to anyone with a list of names."""
        return decision_id if self.published else f"d-{self._place.setdefault(decision_id, len(self._place) + 1)}"

    def of(self, who: str) -> str:
        return who if self.published else f"person-{self._number.setdefault(who, len(self._number) + 1)}"


def _rule(rule: ReviewRule, names: _Names) -> dict[str, Any]:
    groups = [[names.of(who) for who in group] for group in rule.groups]
    return {"policy": rule.policy, "groups": groups, "rounds": rule.n_rounds, "sample_share": rule.sample_share}


def _made(decision: Decision) -> dict[str, str]:
    """Digests of the content that a decision made, by item."""
    made = {instance_id_of(decision.scene_id, part): version_of(part.value) for part in decision.parts}
    return made if decision.after is None else {**made, decision.item_id: version_of(decision.after)}


def _line(decision: Decision, names: _Names, contents: set[str]) -> dict[str, Any]:
    return {
        "decision_id": names.id_of(decision.decision_id),
        "item_id": decision.item_id,
        "kind": decision.kind,
        "scene_id": decision.scene_id,
        "action": decision.action,
        "who": names.of(decision.who),
        "role": decision.role,
        "round": decision.round,
        "version": decision.version if decision.version in contents else None,
        "made": _made(decision),
        "merged": list(decision.merged),
        "undoes": names.id_of(decision.undoes) if decision.undoes is not None else None,
        "reason": decision.reason if names.published else None,
    }
