"""The review of a release: what people decided, what follows for every mask and sentence, and whether the policy lets it out.

Written from docs/release-format.md ("reviews.jsonl"). Not here: what a history of decisions means (`decisions.py`), and the numbers that
the manifest gives (`review_figures.py`).
"""

import re
from typing import Any, cast

from trigpoint.audit.decisions import JUDGING, MAKING, POLICIES, REVIEWS, SILENT, Decision, Policy, Standing, read_decisions, standings
from trigpoint.audit.findings import Notebook
from trigpoint.audit.reading import ITEMS, Instance, Item, Release
from trigpoint.audit.review_figures import KINDS, MANIFEST, ROLES, check_figures, is_count, is_number, kind_of

INSTANCES = "instances.parquet"
ACTIONS = (*JUDGING, *MAKING, *SILENT)
MASK_ACTIONS = ("add", "split", "merge")
"""Actions that sentences have not."""

RELEASED = ("accepted", "corrected", "edited")
DIGEST = re.compile(r"[0-9a-f]{64}")
SENTENCE = re.compile(r"t-[0-9a-f]{16}")
PSEUDONYM = re.compile(r"person-[1-9][0-9]*")
POLICY_KEYS = ("groups", "policy", "rounds", "sample_share")
REVIEW_KEYS = ("agreement", "changed", "groups", "note", "policy", "rounds", "sample_share", "sentences", "spot_check", "states")


def check_reviews(release: Release, notes: Notebook) -> None:
    """Check every decision, what follows from all of them, and what the manifest says of them."""
    decisions = read_decisions(release.folder, notes)
    earlier: dict[str, Decision] = {}
    first: dict[str, Decision] = {}
    for decision in decisions:
        notes.count("decisions")
        _check_decision(release, decision, earlier, first, notes)
        if earlier.setdefault(decision.decision_id, decision) is not decision:
            notes.add("id_twice", REVIEWS, decision.decision_id, "one line", "several")
    found = standings(decisions)
    stored: Any = release.manifest.get("review")
    block = cast("dict[str, Any]", stored) if isinstance(stored, dict) else {}
    masks, sentences = _policies(block, notes)
    _check_names(decisions, [who for policy in (masks, sentences) if policy for group in policy.groups for who in group], notes)
    for instance in release.instances.values():
        notes.count("reviewed_masks")
        standing = found.get(instance.instance_id, Standing("mask"))
        _check_state(instance, standing, notes)
        _check_release(masks, standing, INSTANCES, instance.instance_id, notes)
    for item in release.items.values():
        notes.count("reviewed_sentences")
        standing = found.get(item.item_id, Standing(kind_of(item)))
        _check_people(item, standing, notes)
        if item.state in RELEASED:
            _check_release(sentences, standing, ITEMS, item.item_id, notes)
    check_figures(release, decisions, found, block, {kind: masks if kind == "mask" else sentences for kind in KINDS}, notes)


# decisions


def _check_decision(release: Release, one: Decision, earlier: dict[str, Decision], first: dict[str, Decision], notes: Notebook) -> None:
    """Check the words of one decision, what it is about, and that what it made, merged or undid fits its action."""

    def expect(what: str, holds: bool, expected: object, found: object) -> None:
        if not holds:
            notes.add("decision_wrong", REVIEWS, f"{one.decision_id} {what}", expected, found)

    expect("decision_id", bool(one.decision_id), "an id", one.decision_id)
    expect("kind", one.kind in KINDS, " or ".join(KINDS), one.kind)
    actions = ACTIONS if one.kind == "mask" else tuple(action for action in ACTIONS if action not in MASK_ACTIONS)
    expect("action", one.action in actions, " or ".join(actions), one.action)
    expect("role", one.role in ROLES, " or ".join(ROLES), one.role)
    expect("who", bool(one.who.strip()), "a person", one.who)
    expect("round", one.round >= 1, "a whole number from 1 on", one.round)
    digests = [*([] if one.version is None else [one.version]), *one.made.values()]
    expect("version, made", all(DIGEST.fullmatch(text) for text in digests), "64 hex digits", digests)
    if one.scene_id not in release.scenes:
        notes.add("scene_unknown", REVIEWS, one.decision_id, "a scene of scenes.parquet", one.scene_id)
    before = first.setdefault(one.item_id, one)
    expect("kind, scene_id", (before.kind, before.scene_id) == (one.kind, one.scene_id),
           f"{before.kind} of {before.scene_id} as in {before.decision_id}", f"{one.kind} of {one.scene_id}")  # fmt: skip
    for item in dict.fromkeys((one.item_id, *one.made, *one.merged)):
        _check_item(release, one, item, notes)
    made = set(one.made)
    if one.action == "split":
        expect("made", bool(made) and one.item_id not in made, "its parts", sorted(made))
    else:
        right = {one.item_id} if one.action in MAKING else set[str]()
        expect("made", made == right, sorted(right), sorted(made))
    merged = list(one.merged)
    fits = len(set(merged)) == len(merged) and one.item_id not in merged and bool(merged) == (one.action == "merge")
    expect("merged", fits, "the other instances, each once" if one.action == "merge" else "none", merged)
    if (one.undoes is not None) != (one.action == "undo"):
        expect("undoes", False, "a decision" if one.action == "undo" else "null", one.undoes)
    elif one.undoes is not None:
        target = earlier.get(one.undoes)
        fits = target is not None and (target.item_id, target.who) == (one.item_id, one.who) and target.action not in SILENT
        expect("undoes", fits, f"an earlier decision of {one.who} about {one.item_id}", one.undoes)


def _check_item(release: Release, one: Decision, item: str, notes: Notebook) -> None:
    """Check that what a decision names is what it says; it may have left the release since."""
    found: tuple[str, str] | None = None
    if item in release.instances:
        found = ("mask", release.instances[item].scene_id)
    elif item in release.items:
        found = (kind_of(release.items[item]), release.items[item].scene_id)
    elif one.kind in KINDS and (one.kind == "mask") == bool(SENTENCE.fullmatch(item)):
        expected = "an instance" if one.kind == "mask" else "t- and 16 hex digits"
        notes.add("decision_wrong", REVIEWS, f"{one.decision_id} item_id", expected, item)
    if found is not None and found != (one.kind, one.scene_id):
        expected = f"{found[0]} of {found[1]}: that is {item}"
        notes.add("decision_wrong", REVIEWS, f"{one.decision_id} kind, scene_id", expected, f"{one.kind} of {one.scene_id}")


def _check_names(decisions: list[Decision], members: list[str], notes: Notebook) -> None:
    """Where one person has no name nobody has, and no reason is given."""
    if not any(PSEUDONYM.fullmatch(one.who) for one in decisions):
        return
    for one in decisions:
        if not PSEUDONYM.fullmatch(one.who):
            notes.add("decision_wrong", REVIEWS, f"{one.decision_id} who", "person-<n>: names are not published", one.who)
        if one.reason is not None:
            notes.add("decision_wrong", REVIEWS, f"{one.decision_id} reason", "null: names are not published", one.reason)
    for who in members:
        if not PSEUDONYM.fullmatch(who):
            notes.add("review_wrong", MANIFEST, "review.groups", "person-<n>: names are not published", who)


# what follows from them


def _check_state(instance: Instance, standing: Standing, notes: Notebook) -> None:
    """`edited` where people made the content, `accepted` where someone accepts it, else as nobody saw it."""
    if standing.made is not None:
        right = ("edited",) if standing.is_changed else ("accepted", "edited")
    elif standing.accepting:
        right = ("accepted",)
    else:
        right = ("annotated", "unreviewed") if instance.proposal == "annotator" else ("unreviewed",)
    if instance.review_state not in right:
        notes.add("review_state_wrong", INSTANCES, instance.instance_id, " or ".join(right), instance.review_state)


def _check_people(item: Item, standing: Standing, notes: Notebook) -> None:
    """`people` counts who accepts a sentence (nobody, where the ground contradicts it); `edited` is what people made."""
    right = {len(standing.accepting), *((0,) if item.state == "dropped" else ())}
    if item.people not in right:
        notes.add("review_state_wrong", ITEMS, f"{item.item_id} people", " or ".join(map(str, sorted(right))), item.people)
    if item.state not in RELEASED:
        return
    if standing.is_changed and item.state != "edited":
        notes.add("review_state_wrong", ITEMS, f"{item.item_id} state", "edited", item.state)
    if standing.made is None and item.state == "edited":
        notes.add("review_state_wrong", ITEMS, f"{item.item_id} state", "accepted or corrected: nobody edited it", item.state)


def _check_release(policy: Policy | None, standing: Standing, file: str, item: str, notes: Notebook) -> None:
    """What is released is still an item, and accepted by whom the policy asks."""
    if standing.gone is not None:
        notes.add("policy_broken", file, item, f"not released: {standing.gone}", "released")
    elif policy is not None and not policy.allows(standing.votes):
        votes = [f"{vote.who} ({vote.role}, round {vote.round}): {vote.says}" for vote in standing.votes]
        notes.add("policy_broken", file, item, f"decided as the policy {policy.policy} asks", "; ".join(votes) or "nobody decided")


# the manifest


def _policies(block: dict[str, Any], notes: Notebook) -> tuple[Policy | None, Policy | None]:
    """Check the keys of `manifest.review`; return the policies of masks and of sentences, None where one cannot be used."""
    if sorted(block) != list(REVIEW_KEYS):
        notes.add("review_wrong", MANIFEST, "review", list(REVIEW_KEYS), sorted(block))
    if not isinstance(block.get("note"), str):
        notes.add("review_wrong", MANIFEST, "review.note", "a text", block.get("note"))
    inner: Any = block.get("sentences")
    sentences = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
    if sorted(sentences) != list(POLICY_KEYS):
        notes.add("review_wrong", MANIFEST, "review.sentences", list(POLICY_KEYS), sorted(sentences))
    return _policy("review", block, notes), _policy("review.sentences", sentences, notes)


def _policy(where: str, block: dict[str, Any], notes: Notebook) -> Policy | None:
    policy, rounds, share, raw = cast(
        "tuple[Any, Any, Any, Any]", tuple(block.get(n) for n in ("policy", "rounds", "sample_share", "groups"))
    )
    groups = _groups(raw)
    needed = 1 if policy == "unanimous" else 0
    usable = (
        ("policy", policy in POLICIES, " or ".join(POLICIES), policy),
        ("groups", groups is not None and len(groups) >= needed, "lists of people", raw),
        ("rounds", is_count(rounds) and rounds >= needed, f"a whole number from {needed} on", rounds),
        ("sample_share", is_number(share, 0, 1) and share > 0, "a number above 0, up to 1", share),
    )
    for name, holds, expected, found in usable:
        if not holds:
            notes.add("review_wrong", MANIFEST, f"{where}.{name}", expected, found)
    return Policy(policy, groups or (), rounds, share) if all(holds for _, holds, _, _ in usable) else None


def _groups(raw: object) -> tuple[tuple[str, ...], ...] | None:
    """Return the groups: lists of people, none empty, none with one twice; None where they are something else."""
    if not isinstance(raw, list):
        return None
    groups: list[tuple[str, ...]] = []
    for group in cast("list[Any]", raw):
        if not isinstance(group, list) or not group or any(type(who) is not str or not who for who in cast("list[Any]", group)):
            return None
        groups.append(tuple(cast("list[str]", group)))
    return tuple(groups) if all(len(set(group)) == len(group) for group in groups) else None
