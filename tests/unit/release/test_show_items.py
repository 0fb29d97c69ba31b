"""Everything in a release can be shown: held against what was decided, against stored edges, and against native pixels."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from tests.toy_release import toy_query, write_toy_release
from tests.unit.release.conftest import Reviewed
from trigpoint.cli import app
from trigpoint.errors import InputError
from trigpoint.programs.language import And, Farthest, Nearest, Rel, anchors_of, from_json
from trigpoint.release.graphs import graph_of_scene
from trigpoint.release.reader import Release
from trigpoint.release.show import draw_item, png_bytes
from trigpoint.release.show_cards import card_of, card_to_text
from trigpoint.release.show_documents import document_of, history_of
from trigpoint.release.show_programs import explain, queries_by_anchor


def text_of(document: dict[str, Any]) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as captured:
        console.print(card_to_text(card_of(document)))
    return captured.get()


def shown(release: Release, *args: Any) -> Any:
    result = CliRunner().invoke(app, ["show", str(release.folder), *(str(arg) for arg in args), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def related_queries(release: Release) -> list[Any]:
    return [query for query in release.queries if query.program is not None and anchors_of(from_json(query.program))]


# queries


def test_every_relation_leads_from_its_anchor_to_what_is_stored_as_true(reviewed: Reviewed) -> None:
    release = reviewed.release
    stored = {
        (row["relation"], row["anchor_id"], row["subject_id"]) for row in release.relations.to_pylist() if row["verdict"] == "TRUE"
    }  # fmt: skip
    graphs = {scene_id: graph_of_scene(release, scene_id) for scene_id in release.scene_by_id}
    depths: set[int] = set()
    for query in related_queries(release):
        explained = explain(release, query)
        assert explained is not None
        for hop in explained.hops:
            depths.add(hop.depth)
            if hop.depth == 0:
                assert hop.subject_ids == query.answer_ids
            if hop.relation in ("nearest", "farthest"):
                graph = graphs[query.scene_id]
                choices = graph.distance_m[[graph.index[name] for name in explained.candidate_ids], graph.index[hop.anchor_id]]
                best = graph.distance_m[[graph.index[name] for name in hop.subject_ids], graph.index[hop.anchor_id]]
                others = choices[choices > 0]
                assert hop.depth or not len(best) or best[0] == (others.min() if hop.relation == "nearest" else others.max())
            else:
                assert all((hop.relation, hop.anchor_id, subject) in stored for subject in hop.subject_ids)
    assert depths == {0, 1}


def test_relations_are_as_many_as_the_program_has_outermost_first(reviewed: Reviewed) -> None:
    for query in related_queries(reviewed.release):
        node = from_json(query.program)
        explained = explain(reviewed.release, query)
        assert explained is not None
        outer = list(node.args) if isinstance(node, And) else [node]

        assert len(explained.hops) == len(anchors_of(node))
        assert sum(hop.depth == 0 for hop in explained.hops) == len(outer)
        assert [hop.relation for hop in explained.hops if hop.depth == 0] == [
            arg.relation if isinstance(arg, Rel) else "nearest" if isinstance(arg, Nearest) else "farthest"
            for arg in outer
            if isinstance(arg, Rel | Nearest | Farthest)
        ]


def test_an_unanswerable_query_says_what_was_there_instead(reviewed: Reviewed) -> None:
    release = reviewed.release
    empty = [query for query in related_queries(release) if not query.answer_ids and query.level == 3]
    assert empty
    for query in empty:
        node = from_json(query.program)
        explained = explain(release, query)
        assert explained is not None and explained.why_nothing is not None and isinstance(node, Rel)
        edge = (node.relation, explained.hops[0].anchor_id, "TRUE")
        others = sum((row["relation"], row["anchor_id"], row["verdict"]) == edge for row in release.relations.to_pylist())

        n, of_others = map(int, re.findall(r"(?:the|;) (\d+) ", explained.why_nothing))
        assert (n, of_others) == (len(explained.candidate_ids), others)
        assert "nothing" in text_of(document_of(release, query.query_id))


def test_what_is_absent_is_said_to_be_absent(reviewed: Reviewed) -> None:
    absent = [query for query in reviewed.release.queries if query.kind == "category_absent"]
    for query in absent:
        explained = explain(reviewed.release, query)
        assert explained is not None and (explained.why_nothing or "").startswith("none of the")
    assert all((explain(reviewed.release, query) is None) == (query.form != "program") for query in reviewed.release.queries)


# instances


def test_an_instance_tells_its_measures_queries_sentences_and_history(reviewed: Reviewed) -> None:
    release = reviewed.release
    document = shown(release, reviewed.edited, "-o", reviewed.config.parent / "i.png")

    row = next(row for row in release.instances.to_pylist() if row["instance_id"] == reviewed.edited)
    assert document["instance"]["area_m2"] == row["area_m2"]
    assert document["instance"]["review_state"] == "edited"
    assert [query["query_id"] for query in document["queries"]["answer_of"]] == [
        query.query_id for query in release.queries if reviewed.edited in query.answer_ids
    ]
    wanted = {hop["anchor_id"] for one in related_queries(release) for hop in document_of(release, one.query_id)["explained"]["hops"]}
    assert wanted == {name for scene_id in release.scene_by_id for name in queries_by_anchor(release, scene_id)}
    assert [(one["action"], one["who"], one["role"]) for one in document["history"]] == [
        ("return", "Maya Rai", "manager"), ("edit", "ada", "annotator"), ("accept", "Maya Rai", "manager"),
    ]  # fmt: skip
    assert all(one["counts"] for one in document["history"])
    text = text_of(document)
    assert f"{row['area_m2']:.1f} m²" in text and "the roof goes on to the east" in text and row["source_ids"][0] in text


def test_a_close_up_shows_native_pixels_enlarged_by_a_whole_factor(tmp_path: Path) -> None:
    """The pond i-4 is in rows 2-6 and columns 50-55 of 40 x 60; its close-up is rows 0-37 and columns 23-60, 16 times as large."""
    release = Release.open(write_toy_release(tmp_path))
    image = draw_item(release, "i-4")
    pixels = np.asarray(image)

    native = release.picture("s-a")
    block = np.repeat(np.repeat(native[30:36, 50:58], 16, axis=0), 16, axis=1)
    height, width = block.shape[:2]
    top = next(top for top in range(480, pixels.shape[0] - height) if np.array_equal(pixels[top, 10 + (50 - 23) * 16 :][:width], block[0]))

    assert np.array_equal(pixels[top : top + height, 10 + (50 - 23) * 16 :][:, :width], block)


def test_a_region_is_shown_without_boxes(reviewed: Reviewed) -> None:
    release = reviewed.release
    region = next(row.instance_id for row in release.instance_by_id.values() if not row.countable)

    text = text_of(document_of(release, region))

    assert "region in" in text and "HBB" not in text
    assert draw_item(release, region).width > 480


# sentences and decisions


def test_a_sentence_tells_its_claims_and_who_changed_it(reviewed: Reviewed) -> None:
    document = shown(reviewed.release, reviewed.sentence, "-o", reviewed.config.parent / "t.png")

    text = text_of(document)
    claim = document["sentence"]["claims"][0]
    assert claim["text"] in text and claim["verdict"] in text and claim["measured"].split()[0] in text
    assert document["sentence"]["original"] != document["sentence"]["text"] and document["sentence"]["original"] in text
    assert [(one["action"], one["who"]) for one in document["history"]] == [("edit", "lin")]
    assert "edited" in text and "by lin" in text


def test_an_annotation_tells_all_its_sentences(reviewed: Reviewed) -> None:
    release = reviewed.release
    for annotation in release.annotations:
        document = document_of(release, annotation["annotation_id"])
        wanted = [one["item_id"] for one in release.language if one["annotation_id"] == annotation["annotation_id"]]
        assert [one["item_id"] for one in document["sentences"]] == wanted
        assert {query["query_id"] for query in document["queries"]} == {one["query_id"] for one in document["sentences"] if one["query_id"]}
        assert draw_item(release, annotation["annotation_id"], document).width > 480


def test_decisions_are_told_with_what_they_are_about(reviewed: Reviewed) -> None:
    release = reviewed.release
    for item_id, decisions in reviewed.decisions.items():
        for decision in decisions:
            document = document_of(release, decision.decision_id)
            assert document["decision"]["action"] == decision.action
            assert (document["about"] is None) == (item_id == reviewed.rejected)
            text = text_of(document)
            assert f"{decision.who} ({decision.role})" in text and decision.reason in text and "(this one)" in text
            assert draw_item(release, decision.decision_id, document).width > 480


def test_what_was_rejected_says_by_whom(reviewed: Reviewed) -> None:
    with pytest.raises(InputError, match=r"any more: ada \(annotator\) decided to reject it; show 'd-"):
        document_of(reviewed.release, reviewed.rejected)


def test_what_was_undone_is_marked(reviewed: Reviewed, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    shutil.copytree(reviewed.release.folder, folder)
    lines = [json.loads(line) for line in (folder / "reviews.jsonl").read_text(encoding="utf-8").splitlines()]
    last = next(line for line in reversed(lines) if line["item_id"] == reviewed.edited)
    undo = {**last, "decision_id": "d-undo", "action": "undo", "undoes": last["decision_id"], "reason": None}
    (folder / "reviews.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in [*lines, undo]), encoding="utf-8")

    history = history_of(Release.open(folder), reviewed.edited)

    assert [(one["action"], one["counts"]) for one in history] == [("return", True), ("edit", True), ("accept", False), ("undo", False)]
    assert "(undone)" in text_of(document_of(Release.open(folder), reviewed.edited))


# everything


def test_every_kind_of_item_gives_the_same_bytes_every_time(reviewed: Reviewed) -> None:
    release = reviewed.release
    again = Release.open(release.folder)
    level_5 = next(query.query_id for query in release.queries if query.level == 5)
    decision = reviewed.decisions[reviewed.rejected][0].decision_id
    items = (level_5, reviewed.edited, reviewed.sentence, release.annotations[0]["annotation_id"], decision)
    for item in items:
        assert png_bytes(draw_item(release, item)) == png_bytes(draw_item(again, item))
        assert document_of(release, item) == document_of(again, item)


def test_text_in_a_release_is_never_markup(tmp_path: Path) -> None:
    sentence = "the [bold]houses[/bold] north of [link=x]it"
    release = Release.open(write_toy_release(tmp_path, [toy_query(1, "s-a", 1, "house", ["i-1"], [sentence])]))

    assert sentence in text_of(document_of(release, "q-1"))


def test_a_relation_is_shown_and_written(reviewed: Reviewed, tmp_path: Path) -> None:
    edge = next(row for row in reviewed.release.relations.to_pylist() if row["verdict"] == "TRUE")
    args = (edge["scene_id"], "--relation", edge["relation"], "--anchor", edge["anchor_id"], "-o", tmp_path / "r.png")

    document = shown(reviewed.release, *args)

    assert edge["subject_id"] in document["subjects"]["TRUE"]
    with Image.open(tmp_path / "r.png") as image:
        assert image.width > 200


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("s-a", "--relation", "near"), "--relation and --anchor go together"),
        (("i-1", "--relation", "near", "--anchor", "i-2"), "go together, with a scene"),
        (("s-a", "--relation", "nearby", "--anchor", "i-2"), "there is no relation 'nearby' here; the nearest are near"),
        (("s-a", "--relation", "near", "--anchor", "i-5"), "there is no anchor 'i-5' here"),
        (("i-77",), "'i-77' is nothing in release toy 1"),
        (("zebra",), "it has ids such as s-a (scene), q-1 (query), i-1 (instance)"),
    ],
    ids=["relation alone", "anchor of an instance", "relation", "anchor of another scene", "instance", "nothing like it"],
)
def test_what_cannot_be_shown_is_named(args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["show", str(write_toy_release(tmp_path)), *args])

    assert result.exit_code == 2
    assert said in result.stderr
