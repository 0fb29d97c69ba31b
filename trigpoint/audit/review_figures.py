"""The numbers that manifest.json gives of a review: what people changed, how well they agree, what a spot check found.

Written from docs/release-format.md ("reviews.jsonl"). Not here: what decisions mean for the items (`reviews.py`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, NamedTuple, cast

from trigpoint.audit.decisions import JUDGING, SILENT, Decision, Policy, Standing
from trigpoint.audit.findings import Notebook
from trigpoint.audit.reading import LANGUAGE_FORMS, Item, Release

MANIFEST = "manifest.json"
KINDS = ("mask", *LANGUAGE_FORMS, "negative")
ROLES = ("annotator", "manager", "expert")
RATE_KEYS = ("changed", "changed_or_removed", "changed_or_removed_share", "rejected", "removed", "seen", "share")
CHANGED_KEYS = tuple(sorted((*RATE_KEYS, "by_role", "kind")))
AGREEMENT_KEYS = ("cohen", "fleiss", "items", "mask_iou_mean", "mask_pairs")
COHEN_KEYS = ("items", "kappa", "who")
SPOT_CHECK_KEYS = ("decided", "drawn", "interval", "share", "wrong")
SHARE_SLACK = 1e-4
"""Shares may be rounded to four digits."""

NORMAL_95 = 1.959964
"""Standard normal quantile of 0.975."""


def check_figures(
    release: Release,
    decisions: list[Decision],
    found: Mapping[str, Standing],
    block: Mapping[str, Any],
    policies: Mapping[str, Policy | None],
    notes: Notebook,
) -> None:
    """Check `changed`, `agreement` and `spot_check` of `manifest.review`.

    Args:
        release: What is released.
        decisions: All of reviews.jsonl.
        found: Where every item stands, by id.
        block: `manifest.review`.
        policies: The policy of every kind; None where it cannot be used.
        notes: Findings go here.
    """
    with notes.guard("review_wrong", MANIFEST, "review.changed", f"{{kind: {{{', '.join(CHANGED_KEYS)}}}}}"):
        _check_changed(release, decisions, found, block.get("changed"), notes)
    with notes.guard("review_wrong", MANIFEST, "review.agreement", f"{{{', '.join(AGREEMENT_KEYS)}}}"):
        _check_agreement(release, decisions, block.get("agreement"), notes)
    with notes.guard("review_wrong", MANIFEST, "review.spot_check", f"{{kind: {{{', '.join(SPOT_CHECK_KEYS)}}}}}"):
        _check_spot_checks(release, found, block.get("spot_check"), policies, notes)


def kind_of(item: Item) -> str:
    """Return what decisions call an item of language.jsonl."""
    return "negative" if item.polarity == "negative" else item.form


def is_count(value: object) -> bool:
    """Say whether a value is a whole number from 0 on."""
    return type(value) is int and value >= 0


def is_number(value: object, least: float, most: float) -> bool:
    """Say whether a value is a finite number within limits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and least <= value <= most


# what people changed


class _Outcome(NamedTuple):
    """What became of an item: surely, and at most."""

    is_changed: bool
    may_be_changed: bool
    is_rejected: bool
    is_removed: bool


def _outcome(one: Standing) -> _Outcome:
    return _Outcome(one.is_changed, one.made is not None, one.is_rejected, one.is_rejected or one.gone in ("split", "merged"))


def _outcome_of(item: str, decisions: list[Decision]) -> _Outcome:
    """What counted decisions of one role did to an item: made it other than it was seen, rejected or removed it last."""
    last = decisions[-1]
    is_changed = any(
        item in one.made and (one.action == "add" or item != one.item_id or one.made[item] != one.version) for one in decisions
    )
    is_rejected = last.action == "reject"
    is_gone = item in last.merged or (last.action == "split" and last.item_id == item)
    return _Outcome(is_changed, is_changed, is_rejected, is_rejected or is_gone)


def _check_changed(release: Release, decisions: list[Decision], found: Mapping[str, Standing], stored: Any, notes: Notebook) -> None:
    """Count again, by kind and role, the items that decisions name, those that people made and those that they removed.

    Masks that are not in the release may have left the sources since, and dropped sentences may have been dropped before people were asked,
    so that they count or not. Sentences outside language.jsonl do not.
    """
    rows = cast("dict[str, dict[str, Any]]", stored)
    decided = {item: one for item, one in found.items() if one.is_decided and (one.kind == "mask" or item in release.items)}
    of_role = _by_role(decisions)
    for kind in sorted({*rows, *(one.kind for one in decided.values())}):
        notes.count("review_counts")
        items = {item: _outcome(one) for item, one in decided.items() if one.kind == kind}
        where = f"review.changed.{kind}"
        row = rows.get(kind)
        if row is None:
            _expect_absent(release, where, items, notes)
            continue
        if sorted(row) != list(CHANGED_KEYS) or row["kind"] != kind or kind not in KINDS:
            notes.add("review_wrong", MANIFEST, where, list(CHANGED_KEYS), row)
        _check_rate(release, where, row, items, notes)
        by_role = cast("dict[str, dict[str, Any]]", row["by_role"])
        for role in sorted({*ROLES, *by_role}):
            inner = f"{where}.by_role.{role}"
            acts = {item: _outcome_of(item, of_role[item, role]) for item in items if (item, role) in of_role}
            if role not in by_role:
                _expect_absent(release, inner, acts, notes)
                continue
            if sorted(by_role[role]) != list(RATE_KEYS) or role not in ROLES or by_role[role]["seen"] == 0:
                notes.add("review_wrong", MANIFEST, inner, list(RATE_KEYS), by_role[role])
            _check_rate(release, inner, by_role[role], acts, notes)


def _by_role(decisions: list[Decision]) -> dict[tuple[str, str], list[Decision]]:
    """Return the counted decisions that name an item, in order, by item and role."""
    undone = {one.undoes for one in decisions if one.action == "undo"}
    found: dict[tuple[str, str], list[Decision]] = {}
    for one in decisions:
        if one.action not in SILENT and one.decision_id not in undone:
            for item in dict.fromkeys((one.item_id, *one.made, *one.merged)):
                found.setdefault((item, one.role), []).append(one)
    return found


def _is_here(release: Release, item: str) -> bool:
    """Whether an item surely counts."""
    return item in release.instances or (item in release.items and release.items[item].state != "dropped")


def _expect_absent(release: Release, where: str, items: Mapping[str, _Outcome], notes: Notebook) -> None:
    """A row is left out only where no item of the release is in it."""
    here = sum(_is_here(release, item) for item in items)
    if here:
        notes.add("review_wrong", MANIFEST, where, f"{here} items seen", "none")


def _check_rate(release: Release, where: str, row: Mapping[str, Any], items: Mapping[str, _Outcome], notes: Notebook) -> None:
    """Hold one row of numbers against what became of the items, and its shares against its numbers."""
    here = [one for item, one in items.items() if _is_here(release, item)]
    every = list(items.values())
    counts: dict[str, tuple[Callable[[_Outcome], bool], Callable[[_Outcome], bool]]] = {
        "seen": (lambda _: True, lambda _: True),
        "changed": (lambda one: one.is_changed, lambda one: one.may_be_changed),
        "rejected": (lambda one: one.is_rejected, lambda one: one.is_rejected),
        "removed": (lambda one: one.is_removed, lambda one: one.is_removed),
        "changed_or_removed": (lambda one: one.is_changed or one.is_removed, lambda one: one.may_be_changed or one.is_removed),
    }
    for name, (surely, perhaps) in counts.items():
        _check_count(f"{where}.{name}", row[name], sum(map(surely, here)), sum(map(perhaps, every)), notes)
    seen, changed, rejected, removed, either = (row[name] for name in counts)
    if rejected > removed:
        notes.add("review_wrong", MANIFEST, f"{where}.removed", f"at least {rejected}: the rejected", removed)
    _check_count(f"{where}.changed_or_removed", either, max(changed, removed), min(seen, changed + removed), notes)
    for name, share in (("share", changed), ("changed_or_removed_share", either)):
        _check_share(f"{where}.{name}", row[name], share / seen if seen else 0.0, notes)


def _check_count(where: str, value: Any, least: int, most: int, notes: Notebook) -> None:
    if not is_count(value) or not least <= value <= most:
        notes.add("review_wrong", MANIFEST, where, str(least) if least == most else f"{least} to {most}", value)


def _check_share(where: str, value: Any, right: float, notes: Notebook) -> None:
    if not is_number(value, right - SHARE_SLACK, right + SHARE_SLACK):
        notes.add("review_wrong", MANIFEST, where, right, value)


# spot checks


def _check_spot_checks(
    release: Release, found: Mapping[str, Standing], stored: Any, policies: Mapping[str, Policy | None], notes: Notebook
) -> None:
    """Only kinds of which a share must be seen have a spot check, of no more items than there are, with the interval of its share."""
    for kind, row in sorted(cast("dict[str, dict[str, Any]]", stored).items()):
        notes.count("review_counts")
        where = f"review.spot_check.{kind}"
        policy = policies.get(kind)
        if kind not in KINDS or (policy is not None and (policy.policy == "none" or policy.sample_share >= 1)):
            notes.add("review_wrong", MANIFEST, where, "no spot check: its policy asks for none", row)
        if sorted(row) != list(SPOT_CHECK_KEYS):
            notes.add("review_wrong", MANIFEST, where, list(SPOT_CHECK_KEYS), sorted(row))
        decided = [
            _outcome(one)
            for item, one in found.items()
            if one.kind == kind and one.is_decided and (kind == "mask" or item in release.items)
        ]
        # a scene whose masks wait for people is not released: of masks all that were drawn are decided
        there = len(decided) if kind == "mask" else sum(kind_of(item) == kind for item in release.items.values())
        _check_count(f"{where}.drawn", row["drawn"], 1, max(there, 1), notes)
        _check_count(f"{where}.decided", row["decided"], row["drawn"] if kind == "mask" else 0, min(row["drawn"], len(decided)), notes)
        wrong = sum(one.may_be_changed or one.is_removed for one in decided)
        _check_count(f"{where}.wrong", row["wrong"], 0, min(row["decided"], wrong), notes)
        _check_interval(where, row, notes)


def _check_interval(where: str, row: Mapping[str, Any], notes: Notebook) -> None:
    """The share is of the decided, with Wilson's interval; both null where none is decided."""
    n, wrong = row["decided"], row["wrong"]
    if n == 0:
        if (row["share"], row["interval"]) != (None, None):
            notes.add("review_wrong", MANIFEST, f"{where}.share", "null: none is decided", [row["share"], row["interval"]])
        return
    _check_share(f"{where}.share", row["share"], wrong / n, notes)
    centre = (wrong + NORMAL_95**2 / 2) / (n + NORMAL_95**2)
    half = NORMAL_95 / (n + NORMAL_95**2) * math.sqrt(wrong * (n - wrong) / n + NORMAL_95**2 / 4)
    low, high = row["interval"]
    _check_share(f"{where}.interval", low, centre - half, notes)
    _check_share(f"{where}.interval", high, centre + half, notes)


# agreement


class _Judged:
    """Who judged which content: an edit judges what it saw."""

    def __init__(self, decisions: list[Decision]) -> None:
        undone = {one.undoes for one in decisions if one.action == "undo"}
        self.people: set[str] = set()
        self._of_content: dict[tuple[str, str], set[str]] = {}
        self._of_unknown: dict[str, list[str]] = {}
        for one in decisions:
            if one.decision_id in undone or one.action not in (*JUDGING, "edit"):
                continue
            self.people.add(one.who)
            if one.version is None:
                self._of_unknown.setdefault(one.item_id, []).append(one.who)
            else:
                self._of_content.setdefault((one.item_id, one.version), set()).add(one.who)

    def n_contents(self, is_counted: Callable[[str], bool] = lambda _: True, people: Set[str] = frozenset()) -> int:
        """Return how many contents of counted items two or more judged, all of `people` among them."""
        return sum(len(who) > 1 and who >= people and is_counted(item) for (item, _), who in self._of_content.items())

    def n_unknown(self, people: Set[str] = frozenset()) -> int:
        """Return how many more there can be among the versions that the release does not name."""
        listed = [[one for one in who if not people or one in people] for who in self._of_unknown.values()]
        return sum(len(who) // 2 for who in listed if len(set(who)) > 1)


def _check_agreement(release: Release, decisions: list[Decision], stored: Any, notes: Notebook) -> None:
    """Kappas and shares are possible numbers, of people who judged that many contents together."""
    agreement = cast("dict[str, Any]", stored)
    if sorted(agreement) != list(AGREEMENT_KEYS):
        notes.add("review_wrong", MANIFEST, "review.agreement", list(AGREEMENT_KEYS), sorted(agreement))

    def expect(what: str, holds: bool, expected: object, found: object) -> None:
        notes.count("review_counts")
        if not holds:
            notes.add("review_wrong", MANIFEST, f"review.agreement.{what}", expected, found)

    judged = _Judged(decisions)
    least, most = judged.n_contents(lambda item: _is_here(release, item)), judged.n_contents() + judged.n_unknown()
    for name in ("items", "mask_pairs"):
        expect(name, is_count(agreement.get(name)), "a whole number", agreement.get(name))
    expect("items", is_number(agreement.get("items"), least, most), f"{least} to {most}: what two people judged", agreement.get("items"))
    kappa, iou, pairs = (agreement.get(name) for name in ("fleiss", "mask_iou_mean", "mask_pairs"))
    expect("fleiss", kappa is None or is_number(kappa, -1, 1), "null or -1 to 1", kappa)
    expect("mask_iou_mean", (iou is None) == (pairs == 0), "null exactly without pairs", iou)
    expect("mask_iou_mean", iou is None or is_number(iou, 0, 1), "null or 0 to 1", iou)
    rows = cast("list[dict[str, Any]]", agreement.get("cohen"))
    people: list[Iterable[str]] = []
    for number, row in enumerate(rows):
        what = f"cohen[{number}]"
        expect(what, sorted(row) == list(COHEN_KEYS), list(COHEN_KEYS), sorted(row))
        one, other = row["who"]
        together = judged.n_contents(people={one, other}) + judged.n_unknown({one, other})
        expect(f"{what}.who", one != other and {one, other} <= judged.people, "two people who judged", [one, other])
        expect(f"{what}.items", is_count(row["items"]) and 1 <= row["items"] <= together, f"1 to {together}", row["items"])
        expect(f"{what}.kappa", row["kappa"] is None or is_number(row["kappa"], -1, 1), "null or -1 to 1", row["kappa"])
        people.append(frozenset((one, other)))
    expect("cohen", len(set(people)) == len(people), "every pair of people once", [row["who"] for row in rows])
