"""The split stage of the tiny project: screening lists in, five protocols out, inputs that follow them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely

from tasks.builds import conclude, plan_build, run_stage
from tasks.engine import start_build
from tasks.publish import staging_folder
from tasks.stages import STAGES
from tasks.workspace import Workspace
from tests.tiny_project import LEFT, make_project
from trigpoint.geometry.frames import lonlat_from_crs
from trigpoint.release.reader import Release


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny project with a list of footprints that covers source b, published but not audited."""
    folder = tmp_path_factory.mktemp("tiny")
    (west, north), (east, south) = lonlat_from_crs("EPSG:32645", np.array([[LEFT + 5010, 3056990], [LEFT + 5130, 3056900]])).tolist()
    feature = {"type": "Feature", "properties": {}, "geometry": json.loads(shapely.to_geojson(shapely.box(west, south, east, north)))}
    split = {
        "geographic": {"region_km": 2},
        "screen": [{"name": "seen", "footprints": "seen.geojson"}, {"name": "tiles", "hashes": "tiles.txt"}],
    }
    path = make_project(folder, split=split)
    (folder / "seen.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    (folder / "tiles.txt").write_text("0123456789abcdef\n")
    run = start_build(Workspace(path), "test")
    for stage in STAGES[: STAGES.index("publish") + 1]:
        run_stage(run, stage)
    conclude(run, is_whole=False)
    return path


@pytest.fixture
def release(config: Path) -> Release:
    return Release.open(staging_folder(Workspace(config)))


def test_protocols_are_split_files_or_reasons(release: Release) -> None:
    assert sorted(release.splits) == ["depth", "geographic", "scene-disjoint", "unseen-pair"]
    assert list(release.manifest["protocols_left_out"]) == ["cross-scale"]
    assert "one scale only" in (release.folder / "README.md").read_text(encoding="utf-8")


def test_a_region_is_left_out_of_training(release: Release) -> None:
    sources = dict(zip(*(release.scenes.column(name).to_pylist() for name in ("scene_id", "source")), strict=True))
    document = release.splits["geographic"]

    assert {sources[s] for s in document["assignment"]["test"]} == {"b"}
    assert document["proof"]["smallest_distance_m"]["train-test"] > 2000


@pytest.mark.parametrize("protocol", ["depth", "unseen-pair", "geographic"])
def test_inputs_are_the_queries_of_the_split(release: Release, protocol: str) -> None:
    for split in ("train", "val", "test"):
        lines = (release.folder / "inputs" / f"{protocol}-{split}.jsonl").read_text(encoding="utf-8").splitlines()

        assert [json.loads(line)["query_id"] for line in lines] == sorted(q.query_id for q in release.queries_of(protocol, split))
    assert {q.level for q in release.queries_of("depth", "test")} == {4, 5}


def test_scenes_that_meet_a_list_say_so(release: Release) -> None:
    scenes: list[dict[str, Any]] = pq.read_table(release.folder / "scenes.parquet").to_pylist()
    screening = release.splits["scene-disjoint"]["screening"]

    assert {row["source"]: row["outside"] for row in scenes} == {"a": [], "b": ["seen"]}
    assert [(listed["name"], listed["n"], len(listed["scenes"])) for listed in screening["lists"]] == [("seen", 1, 2), ("tiles", 1, 0)]
    assert all(len(row["phash"]) == 8 and row["grey_sd"] > 2 for row in scenes)


def test_a_changed_list_makes_the_split_again(config: Path) -> None:
    (config.parent / "tiles.txt").write_text("0123456789abcdee\n")

    rows = {row.step: row for row in plan_build(Workspace(config))}

    assert (rows["selection"].n_todo, rows["split"].n_todo) == (0, 1)
