"""How often people change what is proposed, how well they agree, and what spot checks say of the rest."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from trigpoint.config import ReviewConfig
from trigpoint.proposals.masks import PieceMasks, crop_iou
from trigpoint.records.mask import MaskCrop
from trigpoint.records.review import Decision, ItemKind, MaskValue, Role, Verdict
from trigpoint.review.ledger import ItemState, instance_id_of, version_of
from trigpoint.review.policy import is_sampled, judge

ROLES: tuple[Role, ...] = get_args(Role)
DIGITS = 4
"""Decimal digits of shares and κ in a report."""


class ChangeRate(NamedTuple):
    """How many items people decided about, and what they did to them.

    Attributes:
        seen: Items with a decision that counts.
        changed: Of those, with other content than before.
        rejected: Of those, rejected last.
        removed: Of those, rejected last, or split or merged into others.
        changed_or_removed: Of those, changed, removed or both.
    """

    seen: int
    changed: int
    rejected: int
    removed: int
    changed_or_removed: int

    @property
    def share(self) -> float:
        """Share of the seen that were changed; 0 when none was seen."""
        return self.changed / self.seen if self.seen else 0.0

    @property
    def changed_or_removed_share(self) -> float:
        """Share of the seen that were changed or removed; 0 when none was seen."""
        return self.changed_or_removed / self.seen if self.seen else 0.0


class SpotCheck(NamedTuple):
    """What people found in the items that a spot check drew.

    Attributes:
        drawn: Proposed items in the sample.
        decided: Of those, approved or rejected as the policy asks.
        wrong: Of those, with other content than proposed, or removed.
    """

    drawn: int
    decided: int
    wrong: int

    @property
    def share(self) -> float | None:
        """Share of the decided that were wrong; None when none is decided."""
        return self.wrong / self.decided if self.decided else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the share; None when none is decided."""
        return wilson_interval(self.wrong, self.decided) if self.decided else None


class Agreement(NamedTuple):
    """How well people agree.

    Attributes:
        n_items: Items that two or more judged at one version.
        cohen: (who, who) → (Cohen's κ, items judged by both); κ is NaN where both always said one and the same.
        fleiss: Fleiss' κ over the items with the most frequent number of judges; NaN as above, or without any.
        mask_ious: IoU of two people's outlines of one instance, for every pair.
    """

    n_items: int
    cohen: dict[tuple[str, str], tuple[float, int]]
    fleiss: float
    mask_ious: list[float]


def change_rates(states: Iterable[ItemState]) -> dict[ItemKind, ChangeRate]:
    """Count, by kind, the items that people decided about and what became of them; sorted by kind."""
    outcomes: dict[ItemKind, list[_Outcome]] = {}
    for state in states:
        if _counted(state):
            outcomes.setdefault(state.item.kind, []).append(_outcome(state))
    return {kind: _rate(outcomes[kind]) for kind in sorted(outcomes)}


def change_rates_by_role(states: Iterable[ItemState]) -> dict[ItemKind, dict[Role, ChangeRate]]:
    """Count, by kind and role, the items that people decided about in a role and what they did as that; sorted by kind, roles in order."""
    outcomes: dict[ItemKind, dict[Role, list[_Outcome]]] = {}
    for state in states:
        for role in ROLES:
            mine = [one for one in _counted(state) if one.role == role]
            if mine:
                outcomes.setdefault(state.item.kind, {}).setdefault(role, []).append(_outcome_of(state.item.item_id, mine))
    return {kind: {role: _rate(found[role]) for role in ROLES if role in found} for kind, found in sorted(outcomes.items())}


class _Outcome(NamedTuple):
    is_changed: bool
    is_rejected: bool
    is_removed: bool


def _rate(outcomes: Sequence[_Outcome]) -> ChangeRate:
    return ChangeRate(
        seen=len(outcomes),
        changed=sum(one.is_changed for one in outcomes),
        rejected=sum(one.is_rejected for one in outcomes),
        removed=sum(one.is_removed for one in outcomes),
        changed_or_removed=sum(one.is_changed or one.is_removed for one in outcomes),
    )


def _counted(state: ItemState) -> list[Decision]:
    return [one for one in state.decisions if one.decision_id not in state.undone and one.action not in ("undo", "comment")]


def _outcome(state: ItemState) -> _Outcome:
    """What became of an item."""
    is_rejected = bool(state.votes) and state.votes[-1].verdict == "reject"
    return _Outcome(state.is_changed, is_rejected, is_rejected or state.fate != "here")


def _outcome_of(item_id: str, decisions: Sequence[Decision]) -> _Outcome:
    """What some decisions did to an item: changed by any of them, rejected or removed by the last."""
    last = decisions[-1]
    is_gone = item_id in last.merged or (last.action == "split" and last.item_id == item_id)
    return _Outcome(any(_changes(one, item_id) for one in decisions), last.action == "reject", last.action == "reject" or is_gone)


def _changes(decision: Decision, item_id: str) -> bool:
    """Whether a decision makes an item, or gives it content other than what was seen."""
    if decision.after is not None:
        return decision.item_id == item_id and version_of(decision.after) != decision.version
    return any(instance_id_of(decision.scene_id, part) == item_id for part in decision.parts)


def spot_checks(states: Iterable[ItemState], config: ReviewConfig, seed: int) -> dict[ItemKind, SpotCheck]:
    """Count, by kind, what the spot checks found; sorted by kind, without kinds of which everything must be seen.

    Only items that the builder proposes and that the seed draws count: what people looked at beside them is no random sample.

    Args:
        states: Items after their history.
        config: The policies of masks and of sentences.
        seed: Of the release.
    """
    found: dict[ItemKind, list[tuple[Verdict, _Outcome]]] = {}
    for state in states:
        rule = config if state.item.kind == "mask" else config.rule_for_sentences
        is_spot_check = rule.policy != "none" and rule.sample_share < 1
        if is_spot_check and state.item.made_by is None and is_sampled(state.item.item_id, rule, seed):
            found.setdefault(state.item.kind, []).append((judge(state, rule, seed), _outcome(state)))
    return {kind: _spot_check(found[kind]) for kind in sorted(found)}


def _spot_check(drawn: Sequence[tuple[Verdict, _Outcome]]) -> SpotCheck:
    decided = [outcome for verdict, outcome in drawn if verdict.status in ("approved", "rejected")]
    return SpotCheck(len(drawn), len(decided), sum(one.is_changed or one.is_removed for one in decided))


def wilson_interval(n_found: int, n: int) -> tuple[float, float]:
    """Return the 95 % score interval of a share, without continuity correction.

    Source: Wilson, E. B. (1927), Probable inference, the law of succession, and statistical inference.

    Raises:
        ValueError: `n` is 0.

    >>> tuple(round(end, 4) for end in wilson_interval(1, 10))
    (0.0179, 0.4042)
    """
    from scipy.stats import binomtest  # 0.5 s to import, and planning needs none of it

    found = binomtest(n_found, n).proportion_ci(0.95, "wilson")
    return float(found.low), float(found.high)


def agreement(states: Iterable[ItemState]) -> Agreement:
    """Compute Cohen's κ for every two people, Fleiss' κ for all, and the IoU of outlines drawn by two."""
    judged: list[dict[str, str]] = []
    ious: list[float] = []
    for state in states:
        judged += _judgements(state)
        ious += _outline_ious(state)
    both = [said for said in judged if len(said) >= 2]
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for said in both:
        for first, second in combinations(sorted(said), 2):
            pairs.setdefault((first, second), []).append((said[first], said[second]))
    cohen = {pair: (cohen_kappa(labels), len(labels)) for pair, labels in sorted(pairs.items())}
    return Agreement(len(both), cohen, fleiss_kappa(_table(both)), ious)


def _judgements(state: ItemState) -> list[dict[str, str]]:
    """Person → last verdict, for every version of an item that people judged."""
    found: dict[str, dict[str, str]] = {}
    for one in state.decisions:
        if one.decision_id not in state.undone and one.action in ("accept", "reject", "return", "edit"):
            # an edit says that the version before it would not do
            found.setdefault(one.version, {})[one.who] = "accept" if one.action == "accept" else "other"
    return [found[version] for version in sorted(found)]


def _outline_ious(state: ItemState) -> list[float]:
    drawn: dict[str, MaskCrop] = {}
    for one in state.decisions:
        if one.decision_id not in state.undone and isinstance(one.after, MaskValue):
            drawn[one.who] = one.after.mask
    return [mask_iou(drawn[first], drawn[second]) for first, second in combinations(sorted(drawn), 2)]


def mask_iou(first: MaskCrop, second: MaskCrop) -> float:
    """Return the IoU of two masks of one scene."""
    masks = PieceMasks([first, second])
    return crop_iou(masks.crop(0), masks.crop(1))


def cohen_kappa(labels: Sequence[tuple[str, str]]) -> float:
    """Return Cohen's κ of pairs of labels; NaN when chance alone would agree always.

    Source: Cohen, J. (1960), A coefficient of agreement for nominal scales.

    >>> cohen_kappa([("a", "a"), ("b", "b"), ("a", "b"), ("b", "b")])
    0.5
    """
    if not labels:
        return float("nan")
    n = len(labels)
    observed = sum(first == second for first, second in labels) / n
    firsts, seconds = Counter(first for first, _ in labels), Counter(second for _, second in labels)
    expected = sum(firsts[label] * seconds[label] for label in firsts) / n**2
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")


def fleiss_kappa(table: NDArray[np.int64]) -> float:
    """Return Fleiss' κ; NaN without items, with one judge, or when chance alone would agree always.

    Args:
        table: (items, labels): how many judges gave an item a label; every row has the same sum.

    Source: Fleiss, J. L. (1971), Measuring nominal scale agreement among many raters.
    """
    if table.size == 0 or table[0].sum() < 2:
        return float("nan")
    judges = int(table[0].sum())
    each = ((table**2).sum(axis=1) - judges) / (judges * (judges - 1))
    expected = float(((table.sum(axis=0) / table.sum()) ** 2).sum())
    return float((each.mean() - expected) / (1 - expected)) if expected < 1 else float("nan")


def _table(judged: Sequence[Mapping[str, str]]) -> NDArray[np.int64]:
    sizes = Counter(len(said) for said in judged)
    if not sizes:
        return np.zeros((0, 0), dtype=np.int64)
    size = max(sizes, key=lambda n: (sizes[n], n))
    kept = [said for said in judged if len(said) == size]
    labels = sorted({label for said in kept for label in said.values()})
    return np.array([[sum(value == label for value in said.values()) for label in labels] for said in kept], dtype=np.int64)


def report(states: Iterable[ItemState], config: ReviewConfig, seed: int) -> dict[str, Any]:
    """Return rates, agreement and spot checks as plain JSON values, for the release and the command line.

    Args:
        states: Items after their history.
        config: The policies.
        seed: Of the release: draws the samples of spot checks.
    """
    every = list(states)
    by_role = change_rates_by_role(every)
    return {
        "changed": {
            kind: {"kind": kind, **_rate_json(rate), "by_role": {role: _rate_json(one) for role, one in by_role[kind].items()}}
            for kind, rate in change_rates(every).items()
        },
        "agreement": _agreement_json(agreement(every)),
        "spot_check": {kind: _spot_check_json(found) for kind, found in spot_checks(every, config, seed).items()},
    }


def _rate_json(rate: ChangeRate) -> dict[str, Any]:
    shares = {"share": rate.share, "changed_or_removed_share": rate.changed_or_removed_share}
    return {**rate._asdict(), **{name: round(share, DIGITS) for name, share in shares.items()}}


def _spot_check_json(found: SpotCheck) -> dict[str, Any]:
    share, interval = found.share, found.interval
    return {
        **found._asdict(),
        "share": None if share is None else round(share, DIGITS),
        "interval": None if interval is None else [round(end, DIGITS) for end in interval],
    }


def _agreement_json(found: Agreement) -> dict[str, Any]:
    number = lambda value: None if np.isnan(value) else round(float(value), DIGITS)  # noqa: E731
    return {
        "items": found.n_items,
        "cohen": [{"who": list(pair), "kappa": number(kappa), "items": n} for pair, (kappa, n) in found.cohen.items()],
        "fleiss": number(found.fleiss),
        "mask_iou_mean": round(float(np.mean(found.mask_ious)), DIGITS) if found.mask_ious else None,
        "mask_pairs": len(found.mask_ious),
    }
