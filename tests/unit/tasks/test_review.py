"""Review in whole builds: the release has exactly what people decided, and nothing that the policy keeps back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from storage.ledger import LedgerFile
from tasks.builds import conclude, plan_build, run_stage
from tasks.engine import Silent, finish_build, start_build
from tasks.stages import STAGES
from tasks.tables import item_records
from tasks.workspace import Workspace
from tests.tiny_project import make_project, tree_digest
from tests.unit.tasks.test_build import build
from tests.unit.tasks.test_language import FORMS, lines_of
from trigpoint.masks.crops import crop_of_record, record_of_mask
from trigpoint.masks.rle import decode_rle
from trigpoint.records.mask import MaskCrop
from trigpoint.records.review import Decision, MaskValue, SentenceValue
from trigpoint.release.reader import Release
from trigpoint.review.ledger import ReviewItem, instance_id_of, item_from_json, new_part, version_of


def mask_items(config: Path) -> list[ReviewItem]:
    """Every proposed mask, from the stage that proposes them."""
    run = start_build(Workspace(config), "test")
    for stage in ("collect", "annotate"):
        run_stage(run, stage)
    finish_build(run, "done")
    found = [item_from_json(record) for result in run.done["annotate"] for record in item_records(run.workspace, result, "review_item")]
    return sorted(found)


def ledger_of(config: Path) -> LedgerFile:
    return LedgerFile(Workspace(config).reviews_folder)


def decide(ledger: LedgerFile, item: ReviewItem, action: str, who: str = "ada", role: str = "annotator", **more: Any) -> Decision:
    """What someone decides who sees the item as it is now."""
    state = ledger.refresh().states_of_scene(item.scene_id, [item])[item.item_id]
    about = {"item_id": item.item_id, "kind": item.kind, "scene_id": item.scene_id, "version": version_of(state.value)}
    if action in ("reject", "return"):
        more.setdefault("reason", "because")
    decision = Decision.model_validate({**about, "action": action, "who": who, "role": role, "previous": state.newest, **more})
    known = {other: (newest.decision_id if (newest := ledger.ledger.newest(other)) else None) for other in decision.merged}
    assert ledger.append(decision, known)
    return decision


def shifted(mask: MaskCrop, by: int) -> MaskCrop:
    return mask.model_copy(update={"origin_px": (mask.origin_px[0] + by, mask.origin_px[1])})


def pixels(release: Release, instance_id: str) -> np.ndarray:
    row = next(row for row in release.instances.to_pylist() if row["instance_id"] == instance_id)
    size = next((s["height"], s["width"]) for s in release.scenes.to_pylist() if s["scene_id"] == row["scene_id"])
    return decode_rle(row["rle"], size)


def canvas(mask: MaskCrop, size: tuple[int, int]) -> np.ndarray:
    full = np.zeros(size, dtype=bool)
    crop = crop_of_record(mask, *size)
    full[crop.slices] = crop.mask
    return full


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny project of one source, built without any decision."""
    config = make_project(tmp_path_factory.mktemp("review"))
    assert build(config).state == "done"
    return config


def test_masks_that_people_edit_make_split_merge_and_reject_are_exactly_those_of_the_release(project: Path) -> None:
    ledger = ledger_of(project)
    size = (240, 240)
    scenes = Release.open(project.parent / "release").scenes.to_pylist()
    scene_id = next(row["scene_id"] for row in scenes if (row["height"], row["width"]) == size)
    houses = [item for item in mask_items(project) if item.scene_id == scene_id and "building" in item.value.category]  # type: ignore[union-attr]
    inner = [item for item in houses if min(item.value.mask.origin_px) > 12 and max(item.value.mask.origin_px) < 190]  # type: ignore[union-attr]
    gone, edited, cut, one, two, seen = inner[:6]
    assert isinstance(edited.value, MaskValue) and isinstance(cut.value, MaskValue) and isinstance(one.value, MaskValue)

    decide(ledger, gone, "reject")
    moved = shifted(edited.value.mask, 3)
    decide(ledger, edited, "edit", after=MaskValue(mask=moved, category=("temple",)))
    whole = crop_of_record(cut.value.mask, *size)
    half = whole.mask.shape[1] // 2
    halves = [
        record_of_mask(whole.mask[:, :half], (whole.col_off, whole.row_off)),
        record_of_mask(whole.mask[:, half:], (whole.col_off + half, whole.row_off)),
    ]
    parts = tuple(new_part(scene_id, mask, cut.value.category) for mask in halves)
    decide(ledger, cut, "split", parts=parts)
    both = canvas(one.value.mask, size) | canvas(two.value.mask, size)  # type: ignore[union-attr]
    decide(ledger, one, "merge", after=MaskValue(mask=record_of_mask(both), category=one.value.category), merged=(two.item_id,))
    added = new_part(scene_id, record_of_mask(np.ones((5, 5), dtype=bool), (0, 0)), ("building",))
    new = ReviewItem(instance_id_of(scene_id, added), "mask", scene_id, added.value)
    decide(ledger, new, "add", parts=(added,))
    decide(ledger, seen, "accept", who="bo")

    report = build(project)
    assert report.findings == []
    release = Release.open(project.parent / "release")
    rows = {row["instance_id"]: row for row in release.instances.to_pylist() if row["scene_id"] == scene_id}
    assert not {gone.item_id, cut.item_id, two.item_id} & set(rows)
    assert np.array_equal(pixels(release, edited.item_id), canvas(moved, size))
    assert (rows[edited.item_id]["category"], rows[edited.item_id]["review_state"]) == (["temple"], "edited")
    for part, mask in zip(parts, halves, strict=True):
        item_id = instance_id_of(scene_id, part)
        assert np.array_equal(pixels(release, item_id), canvas(mask, size))
        assert rows[item_id]["source_ids"] == [part.source_id]
    assert np.array_equal(pixels(release, one.item_id), both)
    assert len(rows[one.item_id]["source_ids"]) == 2
    assert rows[new.item_id]["area_px"] == 25  # smaller than what footprints must have: a person drew it
    assert rows[seen.item_id]["review_state"] == "accepted"


def test_the_same_decisions_give_the_same_bytes_elsewhere(project: Path, tmp_path: Path) -> None:
    config = make_project(tmp_path / "again")
    folder = Workspace(config).reviews_folder
    folder.mkdir(parents=True)
    (folder / "decisions.jsonl").write_bytes(ledger_of(project).path.read_bytes())
    build(project)
    build(config, workers=2)
    assert tree_digest(config.parent / "release") == tree_digest(project.parent / "release")


def test_a_decision_redoes_only_its_scene(project: Path) -> None:
    build(project)
    decide(ledger_of(project), mask_items(project)[-1], "accept", who="cy")
    rows = {row.step: row for row in plan_build(Workspace(project))}
    assert rows["collect"].n_todo == 0
    assert rows["annotate"].n_todo == 1


def test_a_policy_keeps_whole_scenes_back_until_their_masks_are_decided(tmp_path: Path) -> None:
    config = make_project(tmp_path, review={"policy": "annotator+manager"})
    report = build(config)
    assert report.state != "done"
    assert [(drop.stage, drop.remedy) for drop in report.quarantined] == [
        ("publish", "decide in `trigpoint review`, then `trigpoint build`")
    ]
    assert "the release has no scene yet: 5 wait for people" in report.quarantined[0].detail
    ledger = ledger_of(config)
    items = mask_items(config)
    first = items[0].scene_id
    for item in items:
        if item.scene_id == first:
            decide(ledger, item, "accept")
            decide(ledger, item, "accept", who="bo", role="manager")
    report = build(config)
    assert report.findings == []
    release = Release.open(tmp_path / "release")
    assert [row["scene_id"] for row in release.scenes.to_pylist()] == [first]
    assert {row["review_state"] for row in release.instances.to_pylist()} == {"accepted"}
    assert release.manifest["review"]["policy"] == "annotator+manager"
    catalogue = Workspace(config).catalogue
    assert catalogue.table_counts()["review"] == 2 * sum(item.scene_id == first for item in items)


def as_item(item: dict[str, Any]) -> ReviewItem:
    kind = "negative" if item["polarity"] == "negative" else item["form"]
    return ReviewItem(item["item_id"], kind, item["scene_id"], SentenceValue(text=item["text"]))


def test_sentences_are_edited_under_the_eyes_of_the_ground(tmp_path: Path) -> None:
    config = make_project(tmp_path, language={"forms": FORMS})
    assert build(config).state == "done"
    ledger = ledger_of(config)
    good = [item for item in lines_of(tmp_path / "release" / "language.jsonl") if item["state"] == "accepted"]
    vocabulary = next(item for item in good if item["form"] == "vocabulary" and item["polarity"] == "positive")
    negative = next(item for item in good if item["polarity"] == "negative")
    rejected = next(item for item in good if item["form"] == "reasoning")
    decide(ledger, as_item(vocabulary), "edit", after=SentenceValue(text=vocabulary["text"] + " seen from above"))
    decide(ledger, as_item(negative), "edit", after=SentenceValue(text="building"))  # there are some
    decide(ledger, as_item(rejected), "reject")
    assert build(config).findings == []
    after = {item["item_id"]: item for item in lines_of(tmp_path / "release" / "language.jsonl")}
    assert after[negative["item_id"]]["state"] == "dropped"
    assert "contradicted by the ground" in after[negative["item_id"]]["reason"]
    assert (after[rejected["item_id"]]["state"], after[rejected["item_id"]]["query_id"]) == ("dropped", None)
    edited = after[vocabulary["item_id"]]
    assert edited["text"] == vocabulary["text"] + " seen from above"
    assert (edited["state"], edited["people"], edited["verdict"]) == ("edited", 1, "undecidable")
    assert edited["original"] == vocabulary["original"]


def test_sentences_have_a_policy_of_their_own(tmp_path: Path) -> None:
    config = make_project(tmp_path, language={"forms": FORMS}, review={"sentences": {"policy": "single"}})
    assert build(config).findings == []
    release = Release.open(tmp_path / "release")
    assert all(query.form == "program" for query in release.queries)
    items = lines_of(tmp_path / "release" / "language.jsonl")
    waiting = next(item for item in items if item["state"] == "review" and item["verdict"] == "supported")
    decide(ledger_of(config), as_item(waiting), "accept")
    assert build(config).findings == []
    (only,) = [query for query in Release.open(tmp_path / "release").queries if query.form != "program"]
    assert list(only.sentences) == [waiting["text"]]


def test_what_people_draw_needs_terms(tmp_path: Path) -> None:
    config = make_project(tmp_path)
    said = yaml.safe_load(config.read_text(encoding="utf-8"))
    said["sources"] = [{key: value for key, value in said["sources"][1].items() if key != "footprints"}]
    config.write_text(yaml.safe_dump(said), encoding="utf-8")
    run = start_build(Workspace(config), "test")
    run_stage(run, "collect")
    finish_build(run, "done")
    scene_id = item_records(run.workspace, run.done["collect"][0], "scene_record")[0]["scene_id"]
    part = new_part(scene_id, record_of_mask(np.ones((30, 30), dtype=bool), (40, 40)), ("building",))
    decide(ledger_of(config), ReviewItem(instance_id_of(scene_id, part), "mask", scene_id, part.value), "add", parts=(part,))
    (lost,) = build(config).quarantined
    assert "people drew masks in b" in lost.detail
    assert "review.drawn" in lost.detail

    said["review"] = {"drawn": {"licence": "CC0-1.0", "attribution": "the testers"}}
    config.write_text(yaml.safe_dump(said), encoding="utf-8")
    assert build(config).findings == []
    assert [row["layer"] for row in Release.open(tmp_path / "release").manifest["licences"]] == ["annotations", "pixels"]


class Listening(Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        """Keep a line."""
        self.lines.append(text)


def test_decisions_about_what_is_no_longer_there_are_told_by_a_build(project: Path) -> None:
    item = mask_items(project)[0]
    gone = decide(ledger_of(project), item._replace(item_id="i-0000000000000000", scene_id="s-0000000000000000"), "reject", who="dee")
    listening = Listening()
    run = start_build(Workspace(project), "test", progress=listening)
    for stage in STAGES:
        run_stage(run, stage)
    conclude(run)
    (line,) = [line for line in listening.lines if "no effect" in line]
    assert "no effect: 1, since" in line
    assert f": reject {gone.item_id} (dee); they are kept" in line
    assert run.workspace.catalogue.list_runs(1)[0].note.endswith("1 decisions without effect")


def test_damaged_lines_of_the_ledger_are_told_by_a_build(tmp_path: Path) -> None:
    config = make_project(tmp_path)
    path = ledger_of(config).path
    path.write_bytes(path.read_bytes() + b"not a line\n")
    listening = Listening()
    run = start_build(Workspace(config), "test", progress=listening)
    run_stage(run, "collect")
    for step in ("annotate", "language"):
        run.done[step] = []
    conclude(run)
    (line,) = [line for line in listening.lines if "ledger of review" in line]
    assert f"do not count: 1: {path}:1: not a line of a ledger of review; restore the file from a copy" in line
    assert run.workspace.catalogue.list_runs(1)[0].note.endswith("1 damaged lines in the ledger of review")
