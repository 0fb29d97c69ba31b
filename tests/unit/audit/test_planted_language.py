"""Faults planted in the free language of a release that the pipeline built: each is named when the digests agree with it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.llm_server import LlmServer
from tests.tiny_project import make_project
from tests.unit.audit._built_release import make_split_project
from tests.unit.audit.test_planted_on_built import (
    Fault,
    Row,
    change_inputs,
    change_instance,
    change_manifest,
    change_proof,
    edit_json,
    edit_lines,
    edit_split,
    findings,
    refresh,
    remove,
    truncate,
)
from tests.unit.tasks.test_build import build
from trigpoint.audit import audit_release
from trigpoint.audit.language import language_id_of

Where = dict[str, Any]
SCHOOL: Where = {"category": ["school"]}


# tools


def read(release: Path, name: str) -> list[Row]:
    """Rows of a JSONL file."""
    return [json.loads(line) for line in (release / name).read_text(encoding="utf-8").splitlines()]


def pick(release: Path, form: str, polarity: str = "positive", **where: Any) -> Row:
    """The first query of a form."""
    rows = read(release, "queries.jsonl")
    return next(
        row for row in rows if (row["form"], row["polarity"]) == (form, polarity) and all(row[key] == value for key, value in where.items())
    )


def change(form: str, polarity: str = "positive", where: Where | None = None, /, **values: Any) -> Callable[[Path], None]:
    """Change values of the first query of a form."""

    def plant(release: Path) -> None:
        chosen = pick(release, form, polarity, **(where or {}))["query_id"]
        edit_first("queries.jsonl", lambda row: row["query_id"] == chosen, **values)(release)

    return plant


def reword(release: Path, query: Row, text: str) -> None:
    """Give a query another text, and make ids, item and inputs agree."""
    form, polarity = query["form"], query["polarity"]
    ids = {key: language_id_of(key, query["annotation_id"], form, polarity, text) for key in ("q", "t")}

    def sort(rows: list[Row], *keys: str) -> None:
        rows.sort(key=lambda row: [row[key] for key in keys])

    def in_queries(rows: list[Row]) -> None:
        row = next(row for row in rows if row["query_id"] == query["query_id"])
        row.update(query_id=ids["q"], sentences=[text])
        sort(rows, "scene_id", "query_id")

    def in_items(rows: list[Row]) -> None:
        row = next(row for row in rows if row["query_id"] == query["query_id"])
        row.update(query_id=ids["q"], item_id=ids["t"], text=text, original=text)
        sort(rows, "item_id")

    def in_inputs(rows: list[Row]) -> None:
        for row in rows:
            if row["query_id"] == query["query_id"]:
                row.update(query_id=ids["q"], sentence=text)
        sort(rows, "query_id")

    edit_lines(release / "queries.jsonl", in_queries)
    edit_lines(release / "language.jsonl", in_items)
    for path in (release / "inputs").iterdir():
        edit_lines(path, in_inputs)


def say(form: str, text: str, polarity: str = "positive", where: Where | None = None) -> Callable[[Path], None]:
    """Give the first query of a form another text, ids and all."""
    return lambda release: reword(release, pick(release, form, polarity, **(where or {})), text)


def edit_first(name: str, wanted: Callable[[Row], bool] = lambda row: True, /, **values: Any) -> Callable[[Path], None]:
    """Change values of the first row of a file that is wanted."""
    return lambda release: edit_lines(release / name, lambda rows: next(row for row in rows if wanted(row)).update(values))


# faults


def turn_referring(release: Path) -> None:
    """A school said to be north of something is said to be south of it, or the other way round."""
    for row in read(release, "queries.jsonl"):
        text = row["sentences"][0]
        for one, other in (("north", "south"), ("west", "east")):
            if row["form"] == "referring" and (f" {one} of " in text or f" {other} of " in text):
                mark = text.replace(f"{one} of", "@").replace(f"{other} of", f"{one} of").replace("@", f"{other} of")
                reword(release, row, mark)
                return
    raise AssertionError("no direction")


def point_at_nothing(release: Path) -> None:
    """A referring text whose anchor denotes several things."""
    reword(release, pick(release, "referring", **SCHOOL), "the school north of the building")


def shout(release: Path) -> None:
    """Two names of one annotation differ in case alone."""
    one = pick(release, "vocabulary", **SCHOOL)
    other = next(
        row
        for row in read(release, "queries.jsonl")
        if (row["annotation_id"], row["form"], row["polarity"]) == (one["annotation_id"], "vocabulary", "positive")
        and row["query_id"] != one["query_id"]
    )
    reword(release, other, f"{one['sentences'][0].upper()}.")


def change_text(release: Path) -> None:
    """Another text under the old id."""
    chosen = pick(release, "referring")["query_id"]
    edit_first("queries.jsonl", lambda row: row["query_id"] == chosen, sentences=["the schools"])(release)


def forget_answer(release: Path) -> None:
    """A building is missing in an answer."""
    row = pick(release, "vocabulary", category=["building"])
    change("vocabulary", "positive", {"category": ["building"]}, answer_ids=row["answer_ids"][1:])(release)


def answer_what_is_absent(release: Path) -> None:
    """A negative has an answer."""
    change("vocabulary", "negative", answer_ids=pick(release, "vocabulary")["answer_ids"][:1])(release)


def borrow_annotation(release: Path) -> None:
    """A query names the annotation of another scene."""
    one = pick(release, "vocabulary", **SCHOOL)
    other = next(row for row in read(release, "annotations.jsonl") if row["category"] == ["school"] and row["scene_id"] != one["scene_id"])
    change("vocabulary", "positive", SCHOOL, annotation_id=other["annotation_id"])(release)


def drop_member(release: Path) -> None:
    """An annotation lacks a building."""

    def without(rows: list[Row]) -> None:
        next(row for row in rows if row["category"] == ["building"])["instance_ids"].pop()

    edit_lines(release / "annotations.jsonl", without)


def repeat_annotation(release: Path) -> None:
    """An annotation stands there twice."""
    edit_lines(release / "annotations.jsonl", lambda rows: rows.insert(0, rows[0]))


def reverse_annotations(release: Path) -> None:
    """Annotations stand in another order."""
    edit_lines(release / "annotations.jsonl", lambda rows: rows.reverse())


def drop_line(name: str) -> Callable[[Path], None]:
    """A line is missing."""

    def without(rows: list[Row]) -> None:
        rows.pop(0)

    return lambda release: edit_lines(release / name, without)


def without_key(name: str, part: Callable[[Row], Row], key: str) -> Callable[[Path], None]:
    """The first row, or a part of it, lacks a key."""

    def without(rows: list[Row]) -> None:
        part(rows[0]).pop(key)

    return lambda release: edit_lines(release / name, without)


def drop_query(release: Path) -> None:
    """A query is gone, its item is not."""
    chosen = pick(release, "reasoning")["query_id"]

    def without(rows: list[Row]) -> None:
        rows[:] = [row for row in rows if row["query_id"] != chosen]

    edit_lines(release / "queries.jsonl", without)
    for path in (release / "inputs").iterdir():
        edit_lines(path, without)


def ask_for_depth(release: Path) -> None:
    """The depth protocol lists a language query."""
    row = pick(release, "vocabulary")

    def listed(split: Any) -> None:
        name = next(name for name, scenes in split["assignment"].items() if row["scene_id"] in scenes)
        split["queries"][name] = sorted([*split["queries"][name], row["query_id"]])

    edit_split(release, "depth", listed)


def leak_into_depth(release: Path) -> None:
    """An input file of the depth protocol holds a language query."""
    row = next(row for row in read(release, "inputs/scene-disjoint-test.jsonl") if row["query_id"] == _language_ids(release, row))

    def leak(rows: list[Row]) -> None:
        rows.append(row)
        rows.sort(key=lambda one: one["query_id"])

    edit_lines(release / "inputs" / "depth-test.jsonl", leak)


def _language_ids(release: Path, row: Row) -> str | None:
    forms = {query["query_id"]: query["form"] for query in read(release, "queries.jsonl")}
    return row["query_id"] if forms[row["query_id"]] != "program" else None


def count_in_pairs(release: Path) -> None:
    """What unseen-pair reaches is a share of the queries of all forms."""

    def dilute(split: Any) -> None:
        scenes = set(split["assignment"]["test"])
        n = [sum(row["scene_id"] in scenes and kind(row) for row in read(release, "queries.jsonl")) for kind in (is_program, bool)]
        split["rule"]["reached"] *= n[0] / n[1]

    edit_split(release, "unseen-pair", dilute)


def is_program(row: Row) -> bool:
    return row["form"] == "program"


def count_all(release: Path) -> None:
    """The manifest counts language among the queries."""
    edit_json(release / "manifest.json", lambda m: m["counts"].update(queries=len(read(release, "queries.jsonl"))))


def forget_input(release: Path) -> None:
    """A language query is missing in an input file."""
    path = release / "inputs" / "scene-disjoint-train.jsonl"
    edit_lines(path, lambda rows: rows.remove(next(row for row in rows if _language_ids(release, row))))


def language_of(change_it: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Change what the manifest says of language."""
    return change_manifest(lambda manifest: change_it(manifest["language"]))


def is_referring(row: Row) -> bool:
    return row["form"] == "referring"


ANNOTATIONS, ITEMS, QUERIES = "annotations.jsonl", "language.jsonl", "queries.jsonl"
FAULTS = {
    "level given": Fault(change("vocabulary", level=1), "query_key"),
    "program given": Fault(change("referring", canonical="(cat school)"), "query_key"),
    "answer null": Fault(change("vocabulary", answer_ids=None), "row_unreadable"),
    "annotation null": Fault(change("vocabulary", annotation_id=None), "row_unreadable"),
    "form unknown": Fault(change("vocabulary", form="poem"), "row_unreadable"),
    "two texts": Fault(change("reasoning", sentences=["where one learns", "where one teaches"]), "language_query_wrong", "sentences"),
    "no text": Fault(change("reasoning", sentences=[" . "]), "language_query_wrong", "sentences"),
    "referring negative": Fault(change("referring", polarity="negative"), "polarity_wrong"),
    "kind of a program": Fault(change("vocabulary", "negative", kind="category_absent"), "kind_wrong"),
    "positive denied": Fault(change("vocabulary", answerable=False), "answerable_wrong"),
    "negative answered": Fault(answer_what_is_absent, "answerable_wrong"),
    "text under the old id": Fault(change_text, "query_id_wrong"),
    "answer incomplete": Fault(forget_answer, "answer_stale"),
    "answer of nobody": Fault(change("reasoning", answer_ids=["i-0000000000000000"]), "answer_unknown"),
    "answer undecided": Fault(change_manifest(lambda m: m["unknown_is_other"].clear()), "answer_undecided"),
    "category another": Fault(change("reasoning", "positive", SCHOOL, category=["building"]), "category_wrong"),
    "category unknown": Fault(change("reasoning", "positive", SCHOOL, category=["castle"]), "category_wrong"),
    "annotation of another scene": Fault(borrow_annotation, "annotation_unknown"),
    "annotation missing": Fault(drop_line(ANNOTATIONS), "annotation_unknown"),
    "annotation without a key": Fault(without_key(ANNOTATIONS, lambda row: row, "name"), "annotation_unreadable"),
    "annotation of a wrong kind": Fault(edit_first(ANNOTATIONS, boxable="yes"), "annotation_unreadable"),
    "annotation id": Fault(edit_first(ANNOTATIONS, annotation_id="a-0000000000000000"), "annotation_wrong", "annotation_id"),
    "annotation incomplete": Fault(drop_member, "annotation_wrong", "instance_ids"),
    "annotation misnamed": Fault(edit_first(ANNOTATIONS, name="castle"), "annotation_wrong", "name"),
    "annotation boxed": Fault(
        edit_first(ANNOTATIONS, lambda row: row["category"] == ["road"], boxable=True), "annotation_wrong", "boxable"
    ),
    "annotation not boxed": Fault(
        edit_first(ANNOTATIONS, lambda row: row["boxable"], boxable=False, why_no_boxes="annotation"), "annotation_wrong", "boxable"
    ),
    "instance not separable": Fault(change_instance(boxable=False), "annotation_wrong", "boxable"),
    "annotations not sorted": Fault(reverse_annotations, "order_wrong"),
    "annotation twice": Fault(repeat_annotation, "id_twice"),
    "no name": Fault(say("vocabulary", "windmill"), "text_not_a_name"),
    "name of another category": Fault(say("vocabulary", "temple", where=SCHOOL), "text_not_a_name"),
    "place without a name": Fault(say("referring", "the one to the north of the road"), "category_not_named"),
    "purpose with a name": Fault(say("reasoning", "where people go to Schools", where=SCHOOL), "category_named"),
    "purpose with a synonym": Fault(say("reasoning", "the school-houses of the town", where=SCHOOL), "category_named"),
    "negative there": Fault(say("vocabulary", "The Buildings", "negative"), "concept_present"),
    "negative by a synonym": Fault(say("vocabulary", "edifice", "negative"), "concept_present"),
    "negative broader": Fault(say("vocabulary", "built structures", "negative"), "concept_present"),
    "negative narrower": Fault(say("vocabulary", "tower-block", "negative"), "concept_present"),
    "negative a part": Fault(say("vocabulary", "a roof", "negative"), "concept_present"),
    "negative a kind by grammar": Fault(say("vocabulary", "ruined old buildings", "negative"), "concept_present"),
    "direction turned": Fault(turn_referring, "referring_elsewhere"),
    "anchor that denotes several": Fault(point_at_nothing, "referring_elsewhere"),
    "text twice": Fault(shout, "text_twice"),
    "item without a key": Fault(without_key(ITEMS, lambda row: row, "reason"), "item_unreadable"),
    "claim without a verdict": Fault(without_key(ITEMS, lambda row: row["claims"][0], "verdict"), "item_unreadable"),
    "item id": Fault(edit_first(ITEMS, item_id="t-0000000000000000"), "item_wrong", "item_id"),
    "item state unknown": Fault(edit_first(ITEMS, state="released"), "item_wrong", "state"),
    "item contradicted": Fault(edit_first(ITEMS, verdict="contradicted"), "item_wrong", "verdict"),
    "item form": Fault(edit_first(ITEMS, is_referring, polarity="negative"), "item_wrong", "form"),
    "item scene": Fault(edit_first(ITEMS, scene_id="s-0000000000000000"), "item_wrong", "scene_id"),
    "item corrected to nothing new": Fault(edit_first(ITEMS, state="corrected"), "item_wrong", "text"),
    "item of a second stage that was not": Fault(edit_first(ITEMS, is_referring, stage2="PRESENT"), "item_wrong", "stage2"),
    "item of another query": Fault(edit_first(ITEMS, query_id="q-0000000000000000"), "item_wrong", "query_id"),
    "item for review released": Fault(edit_first(ITEMS, state="review", verdict="undecidable"), "query_without_item"),
    "item for review with a query": Fault(edit_first(ITEMS, state="review", verdict="undecidable"), "item_wrong", "query_id"),
    "item forgotten": Fault(drop_line(ITEMS), "query_without_item"),
    "query forgotten": Fault(drop_query, "item_without_query"),
    "items cut in half": Fault(truncate(ITEMS), "item_unreadable"),
    "items gone": Fault(remove(ITEMS), "part_missing", ITEMS),
    "annotations gone": Fault(remove(ANNOTATIONS), "part_missing", ANNOTATIONS),
    "language not declared": Fault(change_manifest(lambda m: m.update(language=None)), "language_wrong", "language"),
    "language left out": Fault(change_manifest(lambda m: m.pop("language")), "manifest_key", "language"),
    "provider without a model": Fault(language_of(lambda m: m.update(provider="openai")), "language_wrong", "provider"),
    "prompt not there": Fault(
        language_of(lambda m: m["prompts"].append({"name": "generate", "version": 1, "sha256": "0" * 64})), "language_wrong", "prompts"
    ),
    "items miscounted": Fault(language_of(lambda m: m["items"]["referring"].update(accepted=1)), "language_wrong", "language.items"),
    "rate wrong": Fault(
        language_of(lambda m: m["rates"].update(referring_corrected_check=0.5)), "language_wrong", "referring_corrected_check"
    ),
    "rate of nothing": Fault(
        language_of(lambda m: m["rates"].update(negatives_present_stage2=0.0)), "language_wrong", "negatives_present_stage2"
    ),
    "rate left out": Fault(language_of(lambda m: m["rates"].pop("negatives_present_check")), "language_wrong", "rates"),
    "language miscounted": Fault(
        change_manifest(lambda m: m["counts"]["language"]["vocabulary"].update(negative=1)), "count_wrong", "counts.language"
    ),
    "language counted as programs": Fault(count_all, "count_wrong", "counts.queries"),
    "language in what unseen-pair reaches": Fault(count_in_pairs, "protocol_rule_wrong", "rule.reached"),
    "language in depth": Fault(ask_for_depth, "protocol_query_wrong"),
    "language in the inputs of depth": Fault(leak_into_depth, "input_foreign"),
    "language left out of the inputs": Fault(forget_input, "input_missing"),
    "annotation leaked": Fault(change_inputs(lambda rows: [row.update(annotation_id="a-1") for row in rows]), "input_keys"),
    "proof of queries": Fault(change_proof("queries", "test", 1), "proof_wrong", "queries"),
    "proof of answerable": Fault(change_proof("answerable_share", "train", 0.1), "proof_wrong", "answerable_share train"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny project with three sources, five protocols and free language, built once."""
    config = make_split_project(tmp_path_factory.mktemp("language"), language={"forms": ["vocabulary", "referring", "reasoning"]})
    build(config)
    return config.parent / "release"


@pytest.fixture
def release(project: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(project, tmp_path / "release"))


def test_language_of_a_build_has_no_finding(project: Path) -> None:
    report = audit_release(project)

    assert report.findings == ()
    assert len(list((project / "splits").iterdir())) == 5
    assert report.checks["language_queries"] == report.checks["language_items"] > 100
    assert report.checks["language_negatives"] > 20
    assert report.checks["language_readings"] > 10


def test_language_by_a_model_has_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of the test")
    plays = {"school": ["wrong_directions"], "building": ["present_negatives"], "temple": ["corrects"]}
    with LlmServer(plays=plays | {f"{name}|Verified": play for name, play in plays.items()}) as server:
        language = {"forms": ["vocabulary", "referring", "reasoning"], "provider": "openai", "base_url": server.url, "model": "of-the-test"}
        build(make_project(tmp_path, language=language))

    assert audit_release(tmp_path / "release").findings == ()
    rates = json.loads((tmp_path / "release" / "manifest.json").read_text(encoding="utf-8"))["language"]["rates"]
    assert min(rates["negatives_present_stage2"], rates["referring_corrected_stage2"], rates["referring_corrected_check"]) > 0


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_named_when_the_digests_agree(release: Path, name: str) -> None:
    fault = FAULTS[name]
    fault.plant(release)
    refresh(release)

    found = findings(release)

    assert any(code == fault.code and fault.item in item for code, item in found), sorted(found)
    assert not {code for code, _ in found} & {"file_altered", "audit_stale", "check_failed"}


def test_rewording_alone_plants_nothing(release: Path) -> None:
    """The tool that gives texts keeps ids, items and inputs together."""
    reword(release, pick(release, "vocabulary", **SCHOOL), "the Schoolhouses")
    reword(release, pick(release, "vocabulary", "negative"), "helicopter landing site")
    reword(release, pick(release, "reasoning"), "whatever this may be for")
    refresh(release)

    assert findings(release) == set()
