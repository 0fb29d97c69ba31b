"""Proposals in builds: what becomes of them, and that what was recorded is never asked again."""

import json
from pathlib import Path
from typing import Any

import geopandas as gpd
import pyarrow.parquet as pq
import pytest
import shapely
import yaml

from tasks import propose
from tasks.builds import run_stage
from tasks.engine import Build, start_build
from tasks.tables import item_records, item_table
from tasks.workspace import Workspace
from tests.sam2_micro import make_micro
from tests.tiny_project import LEFT, PIXEL, TOP, make_project
from tests.unit.tasks.test_build import build
from trigpoint.errors import ConfigError, InputError, ModelError
from trigpoint.identity import digest_file
from trigpoint.proposals.classical import ClassicalProposer
from trigpoint.records.proposal import InferenceRecord, MaskProposal
from trigpoint.records.stage import Drop

OWN = {"licence": "CC0-1.0", "attribution": "made for the tests"}
BOXES = [(100, 40, 30, 30), (300, 100, 40, 30), (204, 204, 34, 30)]
DRAWN = {"path": "boxes.gpkg", "id_property": "no", "id_prefix": "box/", **OWN}
CLASSICAL = {"proposer": "classical", "prompts": "drawn", "drawn": DRAWN, "tile_px": 128, "overlap_px": 60}


def project(folder: Path, *first: dict[str, Any], second: tuple[dict[str, Any], ...] = (), **changes: Any) -> Path:
    """The tiny project with proposals in its two sources, and a file of three drawn boxes."""
    path = make_project(folder, **changes)
    shapes = [shapely.box(LEFT + x * PIXEL, TOP - (y + h) * PIXEL, LEFT + (x + w) * PIXEL, TOP - y * PIXEL) for x, y, w, h in BOXES]
    gpd.GeoDataFrame({"category": ["tree"] * 3, "no": [1, 2, 3]}, geometry=shapes, crs=32645).to_file(folder / "boxes.gpkg")
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["sources"][0]["proposals"], config["sources"][1]["proposals"] = list(first), list(second)
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


def annotated(config: Path) -> Build:
    """Collected and annotated, no more."""
    run = start_build(Workspace(config), "test")
    for stage in ("collect", "annotate"):
        run_stage(run, stage)
    return run


def proposals(run: Build) -> list[MaskProposal]:
    return [MaskProposal.model_validate(r) for result in run.done["propose"] for r in item_records(run.workspace, result, "proposal")]


def inferences(run: Build) -> list[InferenceRecord]:
    return [InferenceRecord.model_validate(r) for result in run.done["propose"] for r in item_records(run.workspace, result, "inference")]


def drops(run: Build, step: str) -> list[Drop]:
    return [drop for result in run.done[step] for drop in result.drops]


def test_a_release_with_proposals_audits_clean_and_says_whose_they_are(tmp_path: Path) -> None:
    replacing = {"proposer": "classical", "prompts": "footprints", "prompt_as": "obb", "replaces": True, "categories": ["school"]}
    config = project(tmp_path / "p", CLASSICAL, replacing, second=({"proposer": "classical", "prompts": "footprints"},))

    report = build(config)

    assert (report.state, report.findings) == ("done", [])
    rows = pq.read_table(tmp_path / "p" / "release" / "instances.parquet").to_pylist()
    machine = [row for row in rows if row["proposal"] == "classical"]
    assert {row["source_ids"][0] for row in machine} == {"box/1", "box/2", "box/3", "osm/way/1007", "osm/way/1023"}
    assert {row["review_state"] for row in machine} == {"unreviewed"}
    assert all(row["source_ids"][1].startswith("p-") for row in machine)
    assert {row["category"][0] for row in machine} == {"tree", "school"}
    (proposer,) = json.loads((tmp_path / "p" / "release" / "manifest.json").read_text())["proposers"]
    assert (proposer["proposer"], proposer["instances"]) == ("classical", len(machine))
    told = [json.loads(line) for line in (tmp_path / "p" / "release" / "proposals.jsonl").read_text().splitlines()]
    assert [line["proposal_id"] for line in told] == sorted(row["source_ids"][1] for row in machine)
    # a footprint that a proposal replaces is a prompt alone; the others are kept, and what they prompted is not
    here = {row["scene_id"] for row in machine}
    kept = {row["source_ids"][0] for row in rows if row["proposal"] == "vector" and row["scene_id"] in here}
    assert not kept & {"osm/way/1007", "osm/way/1023"}
    assert len(kept) > 20
    counts = next(summary for summary in report.summaries if summary.notes[0] == "annotate").drops
    assert counts["replaced_by_proposal"] == 3  # one of the two is in two scenes
    assert counts["footprint_kept"] > 40


def test_what_was_recorded_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = project(tmp_path / "p", CLASSICAL)
    before = annotated(config)

    def refuse(*_: Any) -> None:
        raise ModelError("asked again")

    monkeypatch.setattr(ClassicalProposer, "propose", refuse)
    text = config.read_text(encoding="utf-8")
    # other cleaning is other work on the same answers
    config.write_text(text.replace("proposer: classical", "proposer: classical\n    min_px: 400"), encoding="utf-8")
    after = annotated(config)

    assert [r.to_json() for r in inferences(after)] == [r.to_json() for r in inferences(before)]
    assert 0 < len(proposals(after)) < len(proposals(before))
    assert any("fewer than 400" in drop.detail for drop in drops(after, "propose"))

    config.write_text(text.replace("proposer: classical", "proposer: classical\n    edition: 2"), encoding="utf-8")
    again = annotated(config)
    assert again.summaries[1].n_quarantined == len(inferences(before))


def test_scenes_whose_proposals_fail_wait_and_say_why(tmp_path: Path) -> None:
    run = annotated(project(tmp_path / "p", {"proposer": "classical", "prompts": "pois", "categories": ["school"]}))
    failed = run.summaries[1].n_quarantined

    assert failed > 0
    assert len(run.done["annotate"]) == run.summaries[1].n_items - failed + 2  # two scenes of the other source


def test_pois_prompt_points_of_the_size_that_the_configuration_says(tmp_path: Path) -> None:
    run = annotated(project(tmp_path / "p", {"proposer": "classical", "prompts": "pois", "categories": ["school"], "point_size_m": 10}))
    made = proposals(run)

    assert made
    assert {p.prompt.origin for p in made} == {"poi"}
    for p in made:
        assert p.prompt.shape.kind == "points"
        assert p.prompt.shape.size_px == pytest.approx(20, rel=0.01)
        assert p.prompt.categories[0] == "school"
        (x, y), (col, row) = p.prompt.shape.points_px[0], p.mask.origin_px
        assert col - 20 <= x <= col + p.mask.size_px[1] + 20
        assert row - 20 <= y <= row + p.mask.size_px[0] + 20


def test_outlines_of_a_file_are_proposals_as_they_are(tmp_path: Path) -> None:
    run = annotated(project(tmp_path / "p", {"proposer": "vector", "prompts": "drawn", "drawn": DRAWN}))

    whole = {p.prompt.source_id: p for p in proposals(run) if p.mask.size_px[0] * p.mask.size_px[1] == 900}
    assert "box/1" in whole
    assert {(p.identity.proposer, p.score, p.specks_px) for p in proposals(run)} == {("vector", None, 0)}


def test_the_same_thing_from_two_origins_is_there_once_the_better_founded(tmp_path: Path) -> None:
    # people drew the very things that prompt the machine, in a file of annotations
    path = project(tmp_path / "p", {"proposer": "vector", "prompts": "drawn", "drawn": DRAWN})
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["sources"][0]["annotations"].append({"path": "boxes.gpkg", "id_property": "no", "id_prefix": "drawn/", **OWN})
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    run = annotated(path)

    same = [drop for drop in drops(run, "annotate") if drop.reason_code == "same_thing"]
    assert len(same) == len(proposals(run)) > 0
    assert all("mask IoU 1.0000 with drawn/" in drop.detail and "(annotator)" in drop.detail for drop in same)


@pytest.mark.sam2
def test_a_build_goes_on_from_the_record_where_there_are_neither_weights_nor_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    micro = make_micro(tmp_path / "model")
    weights = digest_file(micro.checkpoint)
    own = {"checkpoint": str(micro.checkpoint), "config_file": str(micro.config_file), "device": "cpu"}
    part = {"proposer": "sam2", "prompts": "drawn", "drawn": DRAWN, "prompt_as": "obb", "sam2": own}
    config = project(tmp_path / "p", part, run={"work": "work", "output": "release", "store": "store", "workers": 1})
    before = annotated(config)
    who = {(r.identity.weights_sha256, r.identity.device, r.identity.model) for r in inferences(before)}
    assert who == {(weights, "cpu", "sam2_micro")}
    assert {"torch", "torchvision", "sam2"} <= set(inferences(before)[0].versions)

    micro.checkpoint.unlink()
    propose._sam2.cache_clear()
    monkeypatch.setattr("trigpoint.proposals.sam2.find_spec", lambda _name: None)
    (tmp_path / "p" / "work").rename(tmp_path / "gone")
    text = config.read_text(encoding="utf-8")
    for said in (text, text.replace("device: cpu", f"device: auto\n      sha256: {weights}")):
        config.write_text(said, encoding="utf-8")
        after = annotated(config)

        assert after.summaries[1].n_reused == 0
        for step in ("propose", "annotate"):
            assert [result.content_sha256 for result in after.done[step]] == [result.content_sha256 for result in before.done[step]]

    config.write_text(text.replace("prompt_as: obb", "prompt_as: box"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"was never asked .* these prompts and settings, and cannot be asked here: .*pip install"):
        annotated(config)


@pytest.mark.sam2
def test_where_two_models_have_answered_and_neither_is_here_the_build_asks_which(tmp_path: Path) -> None:
    part = {"proposer": "sam2", "prompts": "drawn", "drawn": DRAWN, "sam2": {"checkpoint": "weights.pt", "config_file": "sam2_micro.yaml"}}
    config = project(tmp_path / "p", part)
    for seed in (0, 1):
        make_micro(tmp_path / "p", seed).checkpoint.rename(tmp_path / "p" / "weights.pt")
        run = annotated(config)
    assert len({r.model_sha256 for r in inferences(run)}) == 1
    (tmp_path / "p" / "weights.pt").unlink()
    propose._sam2.cache_clear()

    workspace = Workspace(config)
    item = next(i for i in propose.plan(workspace, run.done) if item_records(workspace, _result(run, i.item_id), "inference"))
    with pytest.raises(InputError, match=r"2 models called 'sam2_micro' have answered .* set sam2.sha256"):
        propose.make(workspace, item)


def _result(run: Build, item_id: str) -> Any:
    return next(result for result in run.done["propose"] if result.item_id == item_id)


def test_automatic_masks_are_instances_that_nobody_has_reviewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.proposals._thresholding import Thresholding

    monkeypatch.setattr(propose, "_proposer", lambda _workspace, _part: Thresholding())
    monkeypatch.setattr(propose, "_model_sha256", lambda _workspace, _part: "0" * 64)
    part = {"proposer": "sam2", "prompts": "automatic", "category": "tree", "sam2": {"checkpoint": "a.pt", "config": "sam2.1_hiera_t"}}
    run = annotated(project(tmp_path / "p", {**part, "speck_px": 0, "min_px": 20}, rules={"min_instance_px": 20}))
    rows = [row for result in run.done["annotate"] for row in item_table(run.workspace, result, "mask").to_pylist()]
    machine = [row for row in rows if row["proposal"] == "classical"]  # what the thresholding says it is

    assert 0 < len(machine) <= len(proposals(run))
    assert {tuple(row["category"]) for row in machine} == {("tree",)}
    assert {row["review_state"] for row in machine} == {"unreviewed"}
