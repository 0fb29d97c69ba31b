"""The review of a release: hand-made histories mean what the format says, and each fault planted in one is named."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.unit.audit import _tiny_release as tiny
from trigpoint.audit import audit_release
from trigpoint.audit.decisions import DECISION_KEYS, REVIEWS, Policy, read_decisions, standings
from trigpoint.audit.findings import Notebook
from trigpoint.audit.reading import read_release
from trigpoint.audit.reviews import check_reviews

ADA, BO = "person-1", "person-2"
SENTENCE, OTHER, GONE = "t-00000000000000aa", "t-00000000000000bb", "t-00000000000000cc"


def digest(name):
    return tiny.sha256(name.encode())


def mask(name, scene="s-utm"):
    return f"{scene}/{name}"


def line(number, action, item, who=ADA, seen="proposed", scene="s-utm", **more):
    """A line of reviews.jsonl; `seen` and the values of `made` are names of contents."""
    made = {name: digest(content) for name, content in more.pop("made", {}).items()}
    row = {
        "decision_id": f"d-{number}", "item_id": item, "kind": "mask", "scene_id": scene, "action": action, "who": who,
        "role": "annotator", "round": 1, "version": digest(f"{item} {seen}"), "made": made, "merged": [], "undoes": None, "reason": None,
    }  # fmt: skip
    return row | more


def by_hand():
    """Decisions of two people about fourteen masks of the release and about four that are not in it any more."""
    b10 = mask("B10")
    return [
        line(1, "accept", mask("B1")),
        line(2, "edit", mask("B2"), made={mask("B2"): f"{mask('B2')} smaller"}),
        line(3, "accept", mask("B2"), BO, "smaller", role="manager"),
        line(4, "reject", mask("B3")),
        line(5, "undo", mask("B3"), undoes="d-4"),
        line(6, "reject", mask("G1"), BO),
        line(7, "split", mask("G2"), made={mask("B4"): f"{mask('B4')} left", mask("G3"): f"{mask('G3')} right"}),
        line(8, "reject", mask("G3"), BO, "right", role="manager"),
        line(9, "merge", mask("B5"), BO, made={mask("B5"): f"{mask('B5')} both"}, merged=[mask("G4")]),
        line(10, "add", mask("B6"), made={mask("B6"): f"{mask('B6')} drawn"}, version=digest(f"{mask('B6')} drawn")),
        line(11, "comment", mask("B7")),
        line(12, "return", mask("B8"), BO),
        line(13, "accept", mask("B9")),
        line(14, "return", mask("B9")),
        line(15, "accept", b10, BO),
        line(16, "edit", b10, made={b10: f"{b10} wider"}),
        line(17, "reject", mask("B1", "s-merc"), scene="s-merc"),
        line(18, "accept", mask("B1", "s-merc"), BO, scene="s-merc"),
        line(19, "edit", mask("B2", "s-merc"), scene="s-merc", made={mask("B2", "s-merc"): f"{mask('B2', 's-merc')} proposed"}),
    ]


STATES = {
    mask("B1"): "accepted", mask("B2"): "edited", mask("B4"): "edited", mask("B5"): "edited", mask("B6"): "edited",
    mask("B10"): "edited", mask("B1", "s-merc"): "accepted", mask("B2", "s-merc"): "accepted",
}  # fmt: skip


def rate(seen, changed, rejected, removed, either):
    shares = {"share": round(changed / seen, 4), "changed_or_removed_share": round(either / seen, 4)}
    return {"seen": seen, "changed": changed, "rejected": rejected, "removed": removed, "changed_or_removed": either, **shares}


ANNOTATOR, MANAGER = rate(14, 6, 1, 3, 9), rate(2, 0, 1, 1, 1)
CHANGED = {"mask": {"kind": "mask", **rate(14, 6, 2, 4, 9), "by_role": {"annotator": ANNOTATOR, "manager": MANAGER}}}
AGREEMENT = {
    "items": 2, "cohen": [{"who": [ADA, BO], "kappa": 0.0, "items": 2}], "fleiss": -1.0, "mask_iou_mean": None, "mask_pairs": 0,
}  # fmt: skip


def set_states(folder, states):
    rows = pq.read_table(folder / "instances.parquet").to_pylist()
    for row in rows:
        row["review_state"] = states.get(row["instance_id"], row["review_state"])
    tiny.write_table(folder / "instances.parquet", rows)


def edit_manifest(folder, change):
    content = json.loads((folder / "manifest.json").read_text())
    change(content["review"])
    (folder / "manifest.json").write_text(tiny.dump(content))


def put(**values):
    return lambda folder: edit_manifest(folder, lambda review: review.update(values))


def in_line(number, **values):
    def plant(folder):
        rows = tiny.read_lines(folder / REVIEWS)
        next(row for row in rows if row["decision_id"] == f"d-{number}").update(values)
        tiny.write_lines(folder / REVIEWS, rows)

    return plant


def more(*rows):
    return lambda folder: tiny.write_lines(folder / REVIEWS, [*tiny.read_lines(folder / REVIEWS), *rows])


def without(number):
    return lambda folder: tiny.write_lines(
        folder / REVIEWS, [row for row in tiny.read_lines(folder / REVIEWS) if row["decision_id"] != f"d-{number}"]
    )


def state(item, value):
    return lambda folder: set_states(folder, {item: value})


def count(**values):
    return put(changed={"mask": CHANGED["mask"] | values})


def role(**values):
    return count(by_role={"annotator": ANNOTATOR, "manager": MANAGER} | values)


SPOT = {"drawn": 5, "decided": 5, "wrong": 2, "share": 0.4, "interval": [0.1176, 0.7693]}


def spot(kind="mask", **values):
    return put(policy="single", sample_share=0.5, spot_check={kind: SPOT | values})


def agree(**values):
    return put(agreement=AGREEMENT | values)


def pair(**values):
    return agree(cohen=[AGREEMENT["cohen"][0] | values])


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The hand-made release that nobody reviewed."""
    root = tmp_path_factory.mktemp("reviews")
    tiny.build(root / "release", root / "sources")
    return root / "release"


@pytest.fixture(scope="module")
def good(plain, tmp_path_factory):
    """The hand-made release with the decisions above."""
    folder = Path(shutil.copytree(plain, tmp_path_factory.mktemp("reviewed") / "release"))
    tiny.write_lines(folder / REVIEWS, by_hand())
    set_states(folder, STATES)
    edit_manifest(
        folder, lambda review: review.update(states={"accepted": 3, "edited": 5, "unreviewed": 18}, changed=CHANGED, agreement=AGREEMENT)
    )
    tiny.seal(folder)
    return folder


@pytest.fixture
def release(good, tmp_path):
    return Path(shutil.copytree(good, tmp_path / "release"))


def findings(folder):
    """What the check of reviews alone says."""
    notes = Notebook()
    manifest = json.loads((folder / "manifest.json").read_text())
    check_reviews(read_release(folder, manifest, notes), notes)
    return {(finding.code, finding.item) for finding in notes.findings}


def test_a_reviewed_release_passes_the_whole_audit(good):
    report = audit_release(good)

    assert report.findings == ()
    assert (report.checks["decisions"], report.checks["reviewed_masks"]) == (19, 26)
    assert any(sentence.startswith("review:") for sentence in report.not_certified)


UNANIMOUS = {"policy": "unanimous", "groups": [[ADA], [BO]], "rounds": 2}
FAULTS = [
    # name, code, part of the item, plant
    ("key missing", "decision_unreadable", "line 1", lambda f: tiny.write_lines(f / REVIEWS, [{"item_id": mask("B1")}])),
    ("key too many", "decision_unreadable", "line 1", in_line(1, when="2026")),
    ("round is text", "decision_unreadable", "line 1", in_line(1, round="1")),
    ("made holds numbers", "decision_unreadable", "line 2", in_line(2, made={mask("B2"): 7})),
    ("empty file", "decision_wrong", "", lambda f: (f / REVIEWS).write_text("")),
    ("no text", "table_unreadable", "", lambda f: (f / REVIEWS).write_bytes(b"\xff\xfe{}\n")),
    ("decision twice", "id_twice", "d-1", more(line(1, "comment", mask("B1")))),
    ("unknown scene", "scene_unknown", "d-6", in_line(6, scene_id="s-none")),
    ("unknown kind", "decision_wrong", "d-1 kind", in_line(1, kind="region")),
    ("unknown action", "decision_wrong", "d-1 action", in_line(1, action="approve")),
    ("unknown role", "decision_wrong", "d-1 role", in_line(1, role="king")),
    ("nobody", "decision_wrong", "d-1 who", in_line(1, who=" ")),
    ("a name among numbers", "decision_wrong", "d-1 who", in_line(1, who="Ada")),
    ("a reason without names", "decision_wrong", "d-6 reason", in_line(6, reason="not a house")),
    ("a named member", "review_wrong", "review.groups", put(groups=[["Ada"]])),
    ("round zero", "decision_wrong", "d-1 round", in_line(1, round=0)),
    ("no digest", "decision_wrong", "d-1 version, made", in_line(1, version="new")),
    ("no id", "decision_wrong", "decision_id", in_line(11, decision_id="")),
    ("another scene's mask", "decision_wrong", "d-1 kind, scene_id", in_line(1, scene_id="s-merc")),
    ("two scenes", "decision_wrong", "d-20 kind, scene_id", more(line(20, "comment", mask("G1"), scene="s-merc"))),
    ("a mask as sentence", "decision_wrong", "d-1 kind, scene_id", in_line(1, kind="referring")),
    ("a sentence as mask", "decision_wrong", "d-20 item_id", more(line(20, "comment", SENTENCE))),
    ("no sentence", "decision_wrong", "d-20 item_id", more(line(20, "comment", "text", kind="negative"))),
    ("a sentence is split", "decision_wrong", "d-20 action", more(line(20, "split", GONE, kind="negative", made={OTHER: "x"}))),
    ("accept makes something", "decision_wrong", "d-1 made", in_line(1, made={mask("B1"): digest("x")})),
    ("edit makes nothing", "decision_wrong", "d-2 made", in_line(2, made={})),
    ("split into nothing", "decision_wrong", "d-7 made", in_line(7, made={})),
    ("split into itself", "decision_wrong", "d-7 made", in_line(7, made={mask("G2"): digest("x")})),
    ("merge of nothing", "decision_wrong", "d-9 merged", in_line(9, merged=[])),
    ("merge with itself", "decision_wrong", "d-9 merged", in_line(9, merged=[mask("B5")])),
    ("edit merges", "decision_wrong", "d-2 merged", in_line(2, merged=[mask("G4")])),
    ("accept undoes", "decision_wrong", "d-18 undoes", in_line(18, undoes="d-17")),
    ("undo of nothing", "decision_wrong", "d-5 undoes", in_line(5, undoes=None)),
    ("undo of another person", "decision_wrong", "d-5 undoes", in_line(5, who=BO)),
    ("undo of another item", "decision_wrong", "d-5 undoes", in_line(5, undoes="d-1")),
    ("undo of a later one", "decision_wrong", "d-5 undoes", in_line(5, undoes="d-14")),
    ("undo of a comment", "decision_wrong", "d-20 undoes", more(line(20, "undo", mask("B7"), undoes="d-11"))),
    ("accepted called unreviewed", "review_state_wrong", mask("B1"), state(mask("B1"), "unreviewed")),
    ("edited called accepted", "review_state_wrong", mask("B2"), state(mask("B2"), "accepted")),
    ("undone reject called accepted", "review_state_wrong", mask("B3"), state(mask("B3"), "accepted")),
    ("withdrawn called accepted", "review_state_wrong", mask("B9"), state(mask("B9"), "accepted")),
    ("nobody drew it", "review_state_wrong", mask("B11"), state(mask("B11"), "annotated")),
    ("unknown state", "review_state_wrong", mask("B11"), state(mask("B11"), "good")),
    ("edit undone", "review_state_wrong", mask("B10"), more(line(20, "undo", mask("B10"), undoes="d-16"))),
    ("rejected is released", "policy_broken", mask("B7"), more(line(20, "reject", mask("B7")))),
    ("undo taken away", "policy_broken", mask("B3"), without(5)),
    ("accept taken away", "policy_broken", mask("B1", "s-merc"), without(18)),
    ("edit rejected", "policy_broken", mask("B10"), more(line(20, "reject", mask("B10"), BO, "wider"))),
    ("split is released", "policy_broken", mask("B7"), in_line(7, item_id=mask("B7"))),
    ("merged is released", "policy_broken", mask("B7"), in_line(9, merged=[mask("B7")])),
    ("undone addition is released", "policy_broken", mask("B6"), more(line(20, "undo", mask("B6"), undoes="d-10"))),
    ("single and undecided", "policy_broken", mask("B7"), put(policy="single")),
    ("single and returned", "policy_broken", mask("B8"), put(policy="single", sample_share=0.5)),
    ("two people", "policy_broken", mask("B1"), put(policy="annotator+manager", sample_share=0.5)),
    ("everyone", "policy_broken", mask("B2"), put(**UNANIMOUS, sample_share=0.5)),
    ("no policy", "review_wrong", "review.policy", put(policy="some")),
    ("groups of no people", "review_wrong", "review.groups", put(groups=[[]])),
    ("someone twice", "review_wrong", "review.groups", put(groups=[[ADA, ADA]])),
    ("unanimous of nobody", "review_wrong", "review.groups", put(policy="unanimous", rounds=1)),
    ("unanimous without rounds", "review_wrong", "review.rounds", put(policy="unanimous", groups=[[ADA]])),
    ("half a round", "review_wrong", "review.rounds", put(rounds=0.5)),
    ("nobody drawn", "review_wrong", "review.sample_share", put(sample_share=0)),
    ("sentences missing", "review_wrong", "review.sentences", put(sentences={})),
    ("policy of sentences", "review_wrong", "review.sentences.policy", put(sentences={**UNANIMOUS, "policy": 3, "sample_share": 1.0})),
    ("a key too many", "review_wrong", "review", put(by="us")),
    ("note is no text", "review_wrong", "review.note", put(note=None)),
    ("seen too many", "review_wrong", "review.changed.mask.seen", count(seen=15)),
    ("seen too few", "review_wrong", "review.changed.mask.seen", count(seen=9)),
    ("changed too many", "review_wrong", "review.changed.mask.changed", count(changed=8)),
    ("changed too few", "review_wrong", "review.changed.mask.changed", count(changed=4)),
    ("rejected too many", "review_wrong", "review.changed.mask.rejected", count(rejected=3)),
    ("removed too many", "review_wrong", "review.changed.mask.removed", count(removed=5)),
    ("removed fewer than rejected", "review_wrong", "review.changed.mask.removed", count(removed=1)),
    ("removed without changed", "review_wrong", "review.changed.mask.changed_or_removed", count(changed_or_removed=5)),
    ("changed or removed too many", "review_wrong", "review.changed.mask.changed_or_removed", count(changed_or_removed=11)),
    ("share", "review_wrong", "review.changed.mask.share", count(share=0.6)),
    ("share of changed or removed", "review_wrong", "review.changed.mask.changed_or_removed_share", count(changed_or_removed_share=0.43)),
    ("role seen too few", "review_wrong", "by_role.manager.seen", role(manager=rate(1, 0, 0, 0, 0) | {"seen": 0})),
    ("role seen too many", "review_wrong", "by_role.manager.seen", role(manager=rate(3, 0, 1, 1, 1))),
    ("role changed too many", "review_wrong", "by_role.manager.changed", role(manager=rate(2, 1, 1, 1, 1))),
    ("role changed too few", "review_wrong", "by_role.annotator.changed", role(annotator=rate(14, 4, 1, 3, 7))),
    ("role rejected too many", "review_wrong", "by_role.annotator.rejected", role(annotator=rate(14, 6, 2, 3, 9))),
    ("role removed too many", "review_wrong", "by_role.annotator.removed", role(annotator=rate(14, 6, 1, 4, 9))),
    ("share of a role", "review_wrong", "by_role.manager.share", role(manager=MANAGER | {"share": 0.5})),
    ("role left out", "review_wrong", "by_role.manager", count(by_role={"annotator": ANNOTATOR})),
    ("role nobody had", "review_wrong", "by_role.expert", role(expert=rate(1, 0, 0, 0, 0))),
    ("unknown role", "review_wrong", "by_role.king", role(king=MANAGER)),
    ("a key of a role too many", "review_wrong", "by_role.manager", role(manager=MANAGER | {"who": ADA})),
    ("roles are no table", "review_wrong", "review.changed", count(by_role=None)),
    ("no spot checks", "review_wrong", "review.spot_check", put(spot_check=None)),
    ("spot check of what all must see", "review_wrong", "review.spot_check.mask", put(policy="single", spot_check={"mask": SPOT})),
    ("spot check without a policy", "review_wrong", "review.spot_check.mask", put(sample_share=0.5, spot_check={"mask": SPOT})),
    ("spot check of sentences", "review_wrong", "review.spot_check.negative", spot("negative")),
    ("spot check of an unknown kind", "review_wrong", "review.spot_check.region", spot("region")),
    ("a key of a spot check too many", "review_wrong", "review.spot_check.mask", spot(by="us")),
    ("more drawn than decided about", "review_wrong", "review.spot_check.mask.drawn", spot(drawn=15)),
    ("nothing drawn", "review_wrong", "review.spot_check.mask.drawn", spot(drawn=0, decided=0, wrong=0, share=None, interval=None)),
    ("drawn masks undecided", "review_wrong", "review.spot_check.mask.decided", spot(drawn=6)),
    ("more wrong than anyone changed", "review_wrong", "review.spot_check.mask.wrong", spot(drawn=14, decided=14, wrong=11)),
    ("more wrong than decided", "review_wrong", "review.spot_check.mask.wrong", spot(wrong=6)),
    ("share of a spot check", "review_wrong", "review.spot_check.mask.share", spot(share=0.5)),
    ("low end", "review_wrong", "review.spot_check.mask.interval", spot(interval=[0.0, 0.7693])),
    ("high end", "review_wrong", "review.spot_check.mask.interval", spot(interval=[0.1176, 0.8])),
    ("no interval", "review_wrong", "review.spot_check", spot(interval=None)),
    ("kind differs", "review_wrong", "review.changed.mask", count(kind="negative")),
    ("kind left out", "review_wrong", "review.changed.mask", put(changed={})),
    ("kind nobody saw", "review_wrong", "review.changed.negative", put(
        changed=CHANGED | {"negative": {"kind": "negative", **rate(1, 0, 0, 0, 0), "by_role": {}}})),
    ("changed is no table", "review_wrong", "review.changed", put(changed=None)),
    ("no agreement", "review_wrong", "review.agreement", put(agreement=None)),
    ("agreement on too little", "review_wrong", "review.agreement.items", agree(items=1)),
    ("agreement on too many versions", "review_wrong", "review.agreement.cohen[0].items", pair(items=3)),
    ("agreement on too much", "review_wrong", "review.agreement.items", agree(items=9)),
    ("fleiss", "review_wrong", "review.agreement.fleiss", agree(fleiss=1.5)),
    ("overlap of no masks", "review_wrong", "review.agreement.mask_iou_mean", agree(mask_iou_mean=0.5)),
    ("overlap above 1", "review_wrong", "review.agreement.mask_iou_mean", agree(mask_iou_mean=1.5, mask_pairs=1)),
    ("kappa", "review_wrong", "review.agreement.cohen[0].kappa", pair(kappa=-2)),
    ("agreement with oneself", "review_wrong", "review.agreement.cohen[0].who", pair(who=[ADA, ADA])),
    ("agreement of a stranger", "review_wrong", "review.agreement.cohen[0].who", pair(who=[ADA, "person-9"])),
    ("agreement on nothing", "review_wrong", "review.agreement.cohen[0].items", pair(items=0)),
    ("a pair twice", "review_wrong", "review.agreement.cohen", agree(cohen=[*AGREEMENT["cohen"], *AGREEMENT["cohen"]])),
]  # fmt: skip


@pytest.mark.parametrize(("code", "item", "plant"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_planted_fault_is_named(release, code, item, plant):
    plant(release)

    found = findings(release)

    assert any(said == code and item in what for said, what in found), sorted(found)
    assert "check_failed" not in {said for said, _ in found}


def test_good_decisions_alone_have_no_finding(good, plain):
    assert findings(good) == set()
    assert findings(plain) == set()


def test_names_and_reasons_may_be_published_together(release):
    rows = [row | {"who": {ADA: "Ada", BO: "Bo"}[row["who"]], "reason": "a roof"} for row in by_hand()]
    tiny.write_lines(release / REVIEWS, rows)
    pair(who=["Ada", "Bo"])(release)

    assert findings(release) == set()


def test_a_policy_without_any_decision_releases_nothing(plain, tmp_path):
    folder = Path(shutil.copytree(plain, tmp_path / "release"))
    put(policy="single")(folder)

    found = audit_release(folder).findings

    assert {finding.code for finding in found} == {"policy_broken"}
    assert len(found) == 26


def test_what_nobody_drew_may_be_released_unseen(plain, tmp_path):
    folder = Path(shutil.copytree(plain, tmp_path / "release"))
    put(policy="annotator+manager", sample_share=0.1)(folder)

    assert findings(folder) == set()


def test_a_spot_check_that_adds_up_has_no_finding(release):
    spot()(release)

    assert not [item for _, item in findings(release) if "spot_check" in item]


# sentences


def sentence(item_id, state, people, **more):
    row = {
        "item_id": item_id, "annotation_id": "a-1", "scene_id": "s-utm", "form": "vocabulary", "polarity": "negative", "text": "a kiosk",
        "original": "a kiosk", "provider": "offline", "stage2": None, "verdict": "supported", "claims": [], "state": state, "reason": "",
        "people": people, "query_id": None,
    }  # fmt: skip
    return row | more


def about(number, action, item, who=ADA, **more):
    return line(number, action, item, who, kind="negative", **more)


SAID = [
    about(30, "accept", SENTENCE),
    about(31, "accept", SENTENCE, BO),
    about(32, "edit", OTHER, made={OTHER: f"{OTHER} better"}),
    about(33, "accept", GONE),
]
AGREED = AGREEMENT | {"items": 3, "cohen": [{"who": [ADA, BO], "kappa": 0.0, "items": 3}], "fleiss": -0.5}
SEEN_SENTENCES = {"negative": {"kind": "negative", **rate(2, 1, 0, 0, 1), "by_role": {"annotator": rate(2, 1, 0, 0, 1)}}}
SENTENCE_FAULTS = [
    ("good", None, "", []),
    ("people too many", "review_state_wrong", f"{SENTENCE} people", [sentence(SENTENCE, "accepted", 3)]),
    ("people nobody counted", "review_state_wrong", f"{OTHER} people", [sentence(OTHER, "edited", 0)]),
    ("edited and dropped by the ground", None, "", [sentence(OTHER, "dropped", 0)]),
    ("edited called corrected", "review_state_wrong", f"{OTHER} state", [sentence(OTHER, "corrected", 1)]),
    ("accepted called edited", "review_state_wrong", f"{SENTENCE} state", [sentence(SENTENCE, "edited", 2)]),
    ("another form", "decision_wrong", "d-30 kind", [sentence(SENTENCE, "accepted", 2, form="referring", polarity="positive")]),
    ("released unseen", "policy_broken", "t-00000000000000dd", [sentence("t-00000000000000dd", "accepted", 0)]),
    ("unseen, not released", None, "", [sentence("t-00000000000000dd", "review", 0)]),
]


@pytest.mark.parametrize(("code", "item", "rows"), [fault[1:] for fault in SENTENCE_FAULTS], ids=[fault[0] for fault in SENTENCE_FAULTS])
def test_sentences_follow_their_own_policy(release, code, item, rows):
    items = {row["item_id"]: row for row in [sentence(SENTENCE, "accepted", 2), sentence(OTHER, "edited", 1), *rows]}
    tiny.write_lines(release / "language.jsonl", list(items.values()))
    more(*SAID)(release)
    rule = {"policy": "single", "groups": [], "rounds": 0, "sample_share": 1.0}
    edit_manifest(release, lambda review: review.update(sentences=rule, changed=CHANGED | SEEN_SENTENCES, agreement=AGREED))

    found = findings(release)

    if code is None:
        assert found == set()
    else:
        assert any(said == code and item in what for said, what in found), sorted(found)


def test_a_sentence_that_the_ground_dropped_first_may_count_or_not(release):
    tiny.write_lines(release / "language.jsonl", [sentence(SENTENCE, "accepted", 2), sentence(OTHER, "dropped", 0)])
    more(*SAID)(release)
    alone = {"negative": {"kind": "negative", **rate(1, 0, 0, 0, 0), "by_role": {"annotator": rate(1, 0, 0, 0, 0)}}}
    for rates in (SEEN_SENTENCES, alone):
        put(changed=CHANGED | rates, agreement=AGREED)(release)
        assert findings(release) == set()


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ("", {"drawn": 2, "decided": 0, "wrong": 0, "share": None, "interval": None}),
        ("", {"drawn": 2, "decided": 1, "wrong": 1, "share": 1.0, "interval": [0.2065, 1.0]}),
        ("drawn", {"drawn": 3, "decided": 1, "wrong": 0, "share": 0.0, "interval": [0.0, 0.7935]}),
        ("wrong", {"drawn": 2, "decided": 2, "wrong": 2, "share": 1.0, "interval": [0.3424, 1.0]}),
        ("share", {"drawn": 2, "decided": 0, "wrong": 0, "share": 0.0, "interval": None}),
    ],
)
def test_a_spot_check_of_sentences_is_about_those_that_there_are(release, wrong, found):
    tiny.write_lines(release / "language.jsonl", [sentence(SENTENCE, "accepted", 2), sentence(OTHER, "edited", 1)])
    more(*SAID)(release)
    rule = {"policy": "single", "groups": [], "rounds": 0, "sample_share": 0.5}
    put(sentences=rule, changed=CHANGED | SEEN_SENTENCES, agreement=AGREED, spot_check={"negative": found})(release)

    assert findings(release) == ({("review_wrong", f"review.spot_check.negative.{wrong}")} if wrong else set())


# histories and policies

ITEM = mask("B1")
OLD = {"made": {ITEM: f"{ITEM} new"}}


def votes_of(tmp_path, *rows):
    tiny.write_lines(tmp_path / REVIEWS, rows)
    return standings(read_decisions(tmp_path, Notebook()))[ITEM]


@pytest.mark.parametrize(
    ("expected", "rows"),
    [
        ([(ADA, "accept")], [line(1, "accept", ITEM)]),
        ([(ADA, "accept")], [line(1, "edit", ITEM, **OLD)]),
        ([(BO, "accept")], [line(1, "accept", ITEM), line(2, "edit", ITEM, BO, **OLD)]),
        ([(BO, "accept"), (ADA, "reject")], [line(1, "edit", ITEM, BO, **OLD), line(2, "reject", ITEM, ADA, "new")]),
        ([(BO, "accept")], [line(1, "edit", ITEM, BO, **OLD), line(2, "reject", ITEM, ADA, "proposed")]),
        ([(BO, "return")], [line(1, "accept", ITEM, ADA, "older"), line(2, "return", ITEM, BO)]),
        ([], [line(1, "accept", ITEM), line(2, "undo", ITEM, undoes="d-1"), line(3, "comment", ITEM)]),
        (
            [(ADA, "accept")],
            [line(1, "accept", ITEM), line(2, "edit", ITEM, BO, **OLD), line(3, "reject", ITEM, ADA, "new"),
             line(4, "undo", ITEM, BO, "new", undoes="d-2")],
        ),
        ([(BO, "accept")], [line(1, "edit", ITEM, ADA, made={ITEM: "one"}), line(2, "edit", ITEM, BO, **OLD)]),
        (
            [(BO, "reject")],
            [line(1, "edit", ITEM, made={ITEM: f"{ITEM} proposed"}), line(2, "undo", ITEM, undoes="d-1"), line(3, "reject", ITEM, BO)],
        ),
    ],
    ids=["accepted", "edited", "edit makes votes old", "rejected as it is now", "rejected as it was", "proposed anew", "undone",
         "edit undone", "edited twice", "edit to the same undone"],
)  # fmt: skip
def test_votes_are_those_on_the_present_content(tmp_path, expected, rows):
    assert [(vote.who, vote.says) for vote in votes_of(tmp_path, *rows).votes] == expected


def accept(number, who, role="annotator", round_=1, action="accept"):
    return line(number, action, ITEM, who, role=role, round=round_)


CY = "person-3"
PAIR, ROUNDS = ("annotator+manager", (), 0), ("unanimous", ((ADA, BO), (CY,)), 3)
ALL = [accept(1, ADA), accept(2, BO), accept(3, CY, round_=2), accept(4, BO, round_=3), accept(5, ADA, round_=3)]


@pytest.mark.parametrize(
    ("policy", "allowed", "rows"),
    [
        (("none", (), 0), True, [accept(1, ADA, action="reject"), accept(2, BO, action="return")]),
        (("none", (), 0), False, [accept(1, BO), accept(2, ADA, action="reject")]),
        (("single", (), 0), True, [accept(1, ADA, action="reject"), accept(2, BO)]),
        (("single", (), 0), False, [accept(1, BO), accept(2, ADA, action="return")]),
        (PAIR, True, [accept(1, ADA), accept(2, BO, "manager")]),
        (PAIR, True, [accept(1, BO, "manager"), accept(2, ADA)]),
        (PAIR, False, [accept(1, ADA), accept(2, ADA, "manager")]),
        (PAIR, False, [accept(1, ADA), accept(2, BO)]),
        (PAIR, False, [accept(1, ADA, "manager"), accept(2, BO, "manager")]),
        (PAIR, False, [accept(1, ADA), accept(2, BO, "manager"), accept(3, CY, action="reject")]),
        (PAIR, False, [accept(1, ADA), accept(2, BO, "manager"), accept(3, CY, "manager", action="return")]),
        (PAIR, True, [accept(1, CY, action="reject"), accept(2, ADA), accept(3, BO, "manager")]),
        (ROUNDS, True, ALL),
        (ROUNDS, False, ALL[:-1]),
        (ROUNDS, False, [*ALL[:2], *ALL[3:]]),
        (ROUNDS, False, [*ALL, accept(6, BO, round_=3, action="return")]),
        (ROUNDS, False, [row | {"round": 1} for row in ALL]),
    ],
)
def test_policies_let_out_what_was_decided(tmp_path, policy, allowed, rows):
    assert Policy(*policy, 1.0).allows(votes_of(tmp_path, *rows).votes) is allowed
    assert Policy(*policy, 0.5).allows(votes_of(tmp_path, *rows).votes) is allowed


# damage


WRONG = (None, 7, -1.5, "x", [], {}, [[]], {"a": 1}, True)


def test_any_key_of_a_decision_may_hold_anything(release):
    lines = by_hand()
    for key in DECISION_KEYS:
        for value in WRONG:
            tiny.write_lines(release / REVIEWS, [*lines[:8], lines[8] | {key: value}, *lines[9:]])

            codes = {code for code, _ in findings(release)}

            assert codes or (key, value) in (("reason", None), ("undoes", None), ("version", None), ("decision_id", "x"), ("round", 7)), (
                key,
                value,
            )
            assert "check_failed" not in codes, (key, value)


@pytest.mark.parametrize("text", ["[]", "7", "null", "{", '"x"', "[[", '{"action": NaN}', "\x00"])
def test_a_line_that_is_no_decision_stops_nothing(release, text):
    path = release / REVIEWS
    path.write_text(path.read_text() + text + "\n")

    assert ("decision_unreadable", "line 20") in findings(release)


@pytest.mark.parametrize("key", ["agreement", "changed", "groups", "note", "policy", "rounds", "sample_share", "sentences", "spot_check"])
def test_any_key_of_the_manifest_may_hold_anything(release, key):
    for value in WRONG:
        if (key, value) not in (("note", "x"), ("groups", []), ("spot_check", {})) and not (
            key == "rounds" and value == 7 and value is not True
        ):
            put(**{key: value})(release)

            codes = {code for code, _ in findings(release)}

            assert "review_wrong" in codes, (key, value)


def test_keys_of_a_line_are_sorted(release):
    rows = tiny.read_lines(release / REVIEWS)
    (release / REVIEWS).write_text("".join(json.dumps(dict(sorted(row.items(), reverse=True))) + "\n" for row in rows))

    assert "json_form" in {finding.code for finding in audit_release(release).findings}
