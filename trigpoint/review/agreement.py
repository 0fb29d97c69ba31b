"""How often people change what is proposed, and how well they agree."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.proposals.masks import PieceMasks, crop_iou
from trigpoint.records.mask import MaskCrop
from trigpoint.records.review import MaskValue
from trigpoint.review.ledger import ItemState


class ChangeRate(NamedTuple):
    """How many items of one kind people looked at, and what they did.

    Attributes:
        seen: Items with a decision that counts. changed: Of those, with other content than proposed. rejected: Of those, rejected last.
    """

    kind: str
    seen: int
    changed: int
    rejected: int

    @property
    def changed_share(self) -> float:
        """Share of the seen that were changed; 0 when none was seen."""
        return self.changed / self.seen if self.seen else 0.0


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


def change_rates(states: Iterable[ItemState]) -> list[ChangeRate]:
    """Count by kind; sorted by kind."""
    seen: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for state in states:
        counted = [one for one in state.decisions if one.decision_id not in state.undone and one.action not in ("undo", "comment")]
        if not counted:
            continue
        kind = state.item.kind
        seen[kind] += 1
        changed[kind] += state.is_changed
        rejected[kind] += bool(state.votes) and state.votes[-1].verdict == "reject"
    return [ChangeRate(kind, seen[kind], changed[kind], rejected[kind]) for kind in sorted(seen)]


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


def report(states: Iterable[ItemState]) -> dict[str, Any]:
    """Return rates and agreement as plain JSON values, for the card and the command line."""
    every = list(states)
    found = agreement(every)
    number = lambda value: None if np.isnan(value) else round(float(value), 4)  # noqa: E731
    return {
        "changed": {rate.kind: {**rate._asdict(), "share": round(rate.changed_share, 4)} for rate in change_rates(every)},
        "agreement": {
            "items": found.n_items,
            "cohen": [{"who": list(pair), "kappa": number(kappa), "items": n} for pair, (kappa, n) in found.cohen.items()],
            "fleiss": number(found.fleiss),
            "mask_iou_mean": round(float(np.mean(found.mask_ious)), 4) if found.mask_ious else None,
            "mask_pairs": len(found.mask_ious),
        },
    }
