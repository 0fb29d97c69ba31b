"""What people decided: the lines of reviews.jsonl, and what their history means for an item.

Written from docs/release-format.md ("reviews.jsonl"). Not here: what the rest of the release makes of it (`reviews.py`).
"""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from trigpoint.audit.findings import Notebook
from trigpoint.audit.reading import read_lines

REVIEWS = "reviews.jsonl"
DECISION_KEYS: dict[str, tuple[type, ...]] = {
    "action": (str,), "decision_id": (str,), "item_id": (str,), "kind": (str,), "made": (dict,), "merged": (list,),
    "reason": (str, type(None)), "role": (str,), "round": (int,), "scene_id": (str,), "undoes": (str, type(None)),
    "version": (str, type(None)), "who": (str,),
}  # fmt: skip
"""Key → types of its value."""

SILENT = ("undo", "comment")
"""Actions that decide nothing themselves."""

MAKING = ("edit", "add", "split", "merge")
JUDGING = ("accept", "reject", "return")
POLICIES = ("none", "single", "annotator+manager", "unanimous")


@dataclass(frozen=True)
class Decision:
    """One line of reviews.jsonl; names as in docs/release-format.md."""

    decision_id: str
    item_id: str
    kind: str
    scene_id: str
    action: str
    who: str
    role: str
    round: int
    version: str | None
    made: dict[str, str]
    merged: tuple[str, ...]
    undoes: str | None
    reason: str | None


@dataclass(frozen=True)
class Vote:
    """One counted vote on the present content of an item: `says` is accept, reject or return."""

    who: str
    role: str
    round: int
    says: str


@dataclass
class Standing:
    """Where an item stands after all decisions about it.

    Attributes:
        kind: What the decisions call it.
        is_decided: A counted decision is about it, makes it or merges it.
        made: Digest of its present content where a counted decision made it.
        is_changed: It was made, and not what someone saw before anyone had made it, which was proposed.
        gone: Why it is no item any more: `split`, `merged` or `undone` (what made it), or None.
        votes: Votes on its present content, in order.
    """

    kind: str
    is_decided: bool = False
    made: str | None = None
    is_changed: bool = False
    gone: str | None = None
    votes: list[Vote] = field(default_factory=list[Vote])

    @property
    def accepting(self) -> set[str]:
        """Who accepts it: people whose last vote does."""
        return {vote.who for vote in latest(self.votes, _person) if vote.says == "accept"}

    @property
    def is_rejected(self) -> bool:
        """The last vote rejects it."""
        return bool(self.votes) and self.votes[-1].says == "reject"


@dataclass(frozen=True)
class Policy:
    """What must be decided before an item is released."""

    policy: str
    groups: tuple[tuple[str, ...], ...]
    rounds: int
    sample_share: float

    def allows(self, votes: list[Vote]) -> bool:
        """Say whether an item with these votes may be released.

        The format does not say whether a later vote of a person replaces one of another role or round: either reading will do.

        >>> both = [Vote("ada", "annotator", 1, "accept"), Vote("bo", "manager", 1, "accept")]
        >>> [Policy(name, (), 0, 1.0).allows(both[:1]) for name in ("none", "single", "annotator+manager")]
        [True, True, False]
        >>> [Policy(name, (), 0, 1.0).allows([]) for name in POLICIES[:3]], Policy("annotator+manager", (), 0, 1.0).allows(both)
        ([True, False, False], True)
        >>> two = Policy("unanimous", (("ada",), ("bo",)), 2, 1.0)
        >>> two.allows(both), two.allows([both[0], Vote("bo", "annotator", 2, "accept")]), Policy("single", (), 0, 0.5).allows([])
        (False, True, True)
        """
        if not votes and self.sample_share < 1:
            return True
        return any(self._allows(latest(votes, key)) for key in (_person, _person_in_role_and_round))

    def _allows(self, votes: list[Vote]) -> bool:
        last = votes[-1].says if votes else None
        match self.policy:
            case "none":
                return last != "reject"
            case "single":
                return last == "accept"
            case "annotator+manager":
                return _both_accept(votes)
            case _:
                agreed = {(vote.who, vote.round) for vote in votes if vote.says == "accept"}
                return all((who, number + 1) in agreed for number in range(self.rounds) for who in self.groups[number % len(self.groups)])


def _both_accept(votes: list[Vote]) -> bool:
    by_role = {role: [vote for vote in votes if vote.role == role] for role in ("annotator", "manager")}
    if any(not found or found[-1].says != "accept" for found in by_role.values()):
        return False
    annotators, managers = ({vote.who for vote in found if vote.says == "accept"} for found in by_role.values())
    return any(one != other for one in annotators for other in managers)


def _person(vote: Vote) -> object:
    return vote.who


def _person_in_role_and_round(vote: Vote) -> object:
    return vote.who, vote.role, vote.round


def latest(votes: list[Vote], key: Callable[[Vote], object]) -> list[Vote]:
    """Return the last vote of every key, in order."""
    found: dict[object, Vote] = {}
    for vote in votes:
        found.pop(key(vote), None)
        found[key(vote)] = vote
    return list(found.values())


def read_decisions(folder: Path, notes: Notebook) -> list[Decision]:
    """Read reviews.jsonl, in its order; no file is no decision. A line that cannot be used is a finding and left out."""
    if not (folder / REVIEWS).exists():
        return []
    lines: list[str] = []
    with notes.guard("table_unreadable", REVIEWS):
        lines = read_lines(folder, REVIEWS)
        if not lines:
            notes.add("decision_wrong", REVIEWS, "", "no file where nobody decided anything", "an empty one")
    found: list[Decision] = []
    for number, line in enumerate(lines, start=1):
        with notes.guard("decision_unreadable", REVIEWS, f"line {number}"):
            found.append(_decision(json.loads(line)))
    return found


def _decision(row: dict[str, Any]) -> Decision:
    if sorted(row) != sorted(DECISION_KEYS):
        raise ValueError(f"the keys are {sorted(DECISION_KEYS)}, found {sorted(row)}")
    for name, kinds in DECISION_KEYS.items():
        if type(row[name]) not in kinds:
            raise TypeError(f"{name} is {row[name]!r}, expected {' or '.join(kind.__name__ for kind in kinds)}")
    texts = [*cast("dict[str, Any]", row["made"]).values(), *cast("list[Any]", row["merged"])]
    if any(type(text) is not str for text in texts):
        raise TypeError(f"made and merged hold texts, found {texts!r}")
    values: dict[str, Any] = {**row, "merged": tuple(row["merged"])}
    return Decision(**values)


def standings(decisions: list[Decision]) -> dict[str, Standing]:
    """Return where every item stands that a decision names, by item id."""
    undone = {decision.undoes for decision in decisions if decision.action == "undo"}
    counted = [one for one in decisions if one.action not in SILENT and one.decision_id not in undone]
    about: dict[str, list[Decision]] = defaultdict(list)
    for decision in counted:
        for item in dict.fromkeys((decision.item_id, *decision.made, *decision.merged)):
            about[item].append(decision)
    lost: dict[str, set[str]] = defaultdict(set)
    seen: dict[str, set[str]] = defaultdict(set)
    born: set[str] = set()
    found: dict[str, Standing] = {}
    for decision in decisions:
        for item in (decision.item_id, *decision.made, *decision.merged):
            found.setdefault(item, Standing(decision.kind))
        if decision.version is not None and decision.action not in ("add", "split"):
            seen[decision.item_id].add(decision.version)
        if decision.decision_id in undone:
            for item, content in decision.made.items():
                if content not in seen[item]:
                    lost[item].add(content)
                if decision.action in ("add", "split"):
                    born.add(item)
    for item, standing in found.items():
        _settle(item, standing, about[item], lost[item])
        if item in born and standing.made is None and standing.gone is None:
            standing.gone = "undone"
    return found


def _settle(item: str, standing: Standing, counted: list[Decision], lost: set[str]) -> None:
    """Find the present content of an item, whether it still is one, and the votes on it.

    Args:
        item: Its id.
        standing: Filled here.
        counted: Counted decisions that name it, in order.
        lost: Digests of contents of it that were made and undone, and that nobody had seen before.
    """
    standing.is_decided = bool(counted)
    proposed: set[str] = set()
    for decision in counted:
        is_first = decision.item_id == item and standing.made is None and decision.action not in ("add", "split")
        if is_first and decision.version is not None:
            proposed.add(decision.version)
        if item in decision.made:
            standing.made, standing.gone = decision.made[item], None
        elif decision.action == "split":
            standing.gone = "split"
        elif item in decision.merged:
            standing.gone = "merged"
    standing.is_changed = standing.made is not None and standing.made not in proposed
    named = [one.version for one in counted if one.item_id == item and one.action in JUDGING]
    seen = [version for version in named if version is not None and version not in lost]
    content = standing.made if standing.made is not None else seen[-1] if seen else None
    for decision in counted:
        if item in decision.made and decision.made[item] == content:
            standing.votes.append(Vote(decision.who, decision.role, decision.round, "accept"))
        elif decision.item_id == item and decision.action in JUDGING and content is not None and decision.version == content:
            standing.votes.append(Vote(decision.who, decision.role, decision.round, decision.action))
