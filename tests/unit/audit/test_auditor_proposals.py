"""Machines' proposals: a good release has no finding, and each fault planted in it is named."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from tests.unit.audit import _tiny_release as tiny
from trigpoint.audit.findings import Notebook
from trigpoint.audit.proposals import PROPOSALS, check_proposals
from trigpoint.audit.reading import read_release

WHO = {"proposer": "sam2", "model": "sam2.1_hiera_l", "version": "sam2 1.1.0", "weights_sha256": "a" * 64, "device": "cpu"}
PROMPT = {"shape": {"kind": "automatic"}, "origin": "automatic", "source_id": "automatic", "categories": []}


def line(number, scene="s-utm", **more):
    row = {"proposal_id": f"p-{number}", "scene_id": scene, **WHO, "score": 0.9, "prompt": PROMPT, "n_pieces": 1, "specks_px": 0}
    return row | more


def set_sources(folder, sources):
    """Give instances other source ids, and the proposer as origin."""
    rows = pq.read_table(folder / "instances.parquet").to_pylist()
    for row in rows:
        if row["instance_id"] in sources:
            row.update(source_ids=sources[row["instance_id"]], proposal="sam2")
    tiny.write_table(folder / "instances.parquet", rows)


def change(**values):
    def plant(folder):
        path = folder / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["proposers"][0].update(values)
        path.write_text(tiny.dump(manifest))

    return plant


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The hand-made release, two instances of which come of proposals."""
    root = tmp_path_factory.mktemp("proposals")
    folder = root / "release"
    tiny.build(folder, root / "sources")
    rows = pq.read_table(folder / "instances.parquet").to_pylist()
    first, second = [row["instance_id"] for row in rows if row["scene_id"] == "s-utm"][:2]
    set_sources(folder, {first: ["p-1"], second: ["osm/way/1", "p-2"]})
    tiny.write_lines(folder / PROPOSALS, [line(1), line(2)])
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["proposers"] = [{**WHO, "answers": 5, "instances": 2, "versions": {"torch": "2"}}]
    (folder / "manifest.json").write_text(tiny.dump(manifest))
    return folder


def findings(folder):
    notes = Notebook()
    manifest = json.loads((folder / "manifest.json").read_text())
    check_proposals(read_release(folder, manifest, notes), notes)
    return {finding.code for finding in notes.findings}


def test_a_good_release_has_no_finding(good):
    assert findings(good) == set()


@pytest.mark.parametrize(
    ("code", "plant"),
    [
        ("proposal_wrong", lambda folder: (folder / PROPOSALS).unlink()),
        ("proposal_wrong", lambda folder: tiny.write_lines(folder / PROPOSALS, [])),
        ("proposal_wrong", lambda folder: tiny.write_lines(folder / PROPOSALS, [line(2), line(1)])),
        ("proposal_wrong", lambda folder: tiny.write_lines(folder / PROPOSALS, [line(1), line(2), line(3)])),
        ("proposal_wrong", lambda folder: tiny.write_lines(folder / PROPOSALS, [line(1), line(2, scene="s-merc")])),
        ("proposal_wrong", lambda folder: tiny.write_lines(folder / PROPOSALS, [line(1), line(2, score=1.5)])),
        ("proposal_wrong", lambda folder: tiny.write_lines(folder / PROPOSALS, [line(1), line(2, n_pieces=0)])),
        ("proposal_wrong", lambda folder: tiny.write_lines(folder / PROPOSALS, [line(1), line(2, prompt={**PROMPT, "origin": "guess"})])),
        ("proposal_wrong", lambda folder: (folder / PROPOSALS).write_text("[]\n")),
        ("proposer_wrong", change(instances=1)),
        ("proposer_wrong", change(answers=-1)),
        ("proposer_wrong", change(weights_sha256=None)),
        ("proposer_wrong", change(device="cuda")),
        ("proposer_wrong", change(more=1)),
    ],
)
def test_planted_fault_is_named(good, tmp_path, code, plant):
    folder = tmp_path / "release"
    shutil.copytree(good, folder)
    plant(folder)
    assert code in findings(folder)


def test_a_machines_instance_names_its_proposal(good, tmp_path):
    folder = tmp_path / "release"
    shutil.copytree(good, folder)
    first = pq.read_table(folder / "instances.parquet").column("instance_id")[0].as_py()
    set_sources(folder, {first: ["osm/way/9"]})
    assert "proposal_wrong" in findings(folder)
