"""Whole builds of the tiny project by plain calls: same bytes, resume, damage, quarantine, audit."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from tasks.builds import conclude, forget_quarantined, is_up_to_date, plan_build, run_stage, run_until
from tasks.engine import close_pool, start_build
from tasks.stages import STAGES
from tasks.workspace import Workspace
from tests.tiny_project import ROOT, make_project, tree_digest
from trigpoint.audit import audit_release
from trigpoint.errors import ConfigError, InputError
from trigpoint.release.reader import Release


def build(config: Path, **overrides: Any) -> Any:
    run = start_build(Workspace(config, overrides), "test")
    for stage in STAGES:
        run_stage(run, stage)
    return conclude(run)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny project, built once with one worker."""
    config = make_project(tmp_path_factory.mktemp("tiny"))
    report = build(config)
    assert report.findings == []
    assert report.state == "done"
    return config


def test_release_has_every_part_and_audits_clean(built: Path) -> None:
    folder = built.parent / "release"
    report = audit_release(folder, sources=built.parent)

    assert list(report.findings) == []
    for name in ("README.md", "sample.png", "queries.jsonl", "scenes.parquet", "exports/coco.json", "stac/catalog.json", "audit.json"):
        assert (folder / name).is_file()
    assert {q.level for q in Release.open(folder).queries} == {1, 2, 3, 4, 5}


def test_the_card_says_nothing_of_language_where_there_is_none(built: Path) -> None:
    card = (built.parent / "release" / "README.md").read_text(encoding="utf-8")
    figures = sorted(path.name for path in (built.parent / "release" / "figures").iterdir())

    assert figures == ["annotations.png", "images.png", "regions.png"]
    assert "language.png" not in card and "| unique phrases |" not in card and "Free language" not in card


def test_what_a_build_is_made_of_is_pinned_whatever_it_gives(built: Path, tmp_path: Path) -> None:
    config = make_project(tmp_path / "p")
    build(config)
    text = (tmp_path / "p" / "b.geojson").read_text(encoding="utf-8")
    (tmp_path / "p" / "b.geojson").write_text(text + "\n", encoding="utf-8")

    build(config)
    old, new = (
        {(row["source"], row["kind"]): row["sha256"] for row in json.loads((folder / "release" / "manifest.json").read_text())["sources"]}
        for folder in (built.parent, tmp_path / "p")
    )

    assert {key for key in old if old[key] != new[key]} == {("b", "footprints")}


def test_a_built_release_has_nothing_to_do(built: Path) -> None:
    assert is_up_to_date(plan_build(Workspace(built)))


def test_two_workers_other_chunks_and_another_folder_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    config = make_project(tmp_path / "elsewhere")
    try:
        build(config, workers=2, chunk_size=5)
    finally:
        close_pool()

    assert tree_digest(tmp_path / "elsewhere" / "release") == tree_digest(built.parent / "release")


def test_a_build_killed_in_the_middle_goes_on_to_the_same_bytes(built: Path, tmp_path: Path) -> None:
    config = make_project(tmp_path / "killed")
    code = (
        "import sys; from pathlib import Path; from tests.unit.tasks.test_build import build;"
        "from tasks import query; make = query.make_candidates\n"
        "def slow(w, i):\n    print('reached', flush=True); import time; time.sleep(60)\n"
        "import tasks.stages as s; import dataclasses\n"
        "s.STEPS['candidates'] = dataclasses.replace(s.STEPS['candidates'], make=slow)\n"
        "s._ALL = tuple(s.STEPS.values())\n"
        "build(Path(sys.argv[1]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(config)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "reached"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()

    resumed = build(config)
    reused = {s.notes[0]: s.n_reused for s in resumed.summaries}

    assert (reused["collect"], reused["graph"], reused["candidates"]) == (2, 5, 0)
    assert tree_digest(tmp_path / "killed" / "release") == tree_digest(built.parent / "release")


def test_only_what_changed_is_made_again(built: Path, tmp_path: Path) -> None:
    config = make_project(tmp_path / "p")
    build(config)
    text = (tmp_path / "p" / "b.geojson").read_text(encoding="utf-8")
    (tmp_path / "p" / "b.geojson").write_text(text.replace('"building": "commercial"', '"building": "school"'), encoding="utf-8")

    again = {s.notes[0]: s.n_items - s.n_reused for s in build(config).summaries}

    assert again == {
        "collect": 0, "propose": 0, "annotate": 2, "boxes": 1, "graph": 1, "candidates": 1, "selection": 1, "calls": 0, "language": 0,
        "review": 0, "split": 1, "publish": 1,
        "audit": 1,
    }  # fmt: skip


@pytest.mark.parametrize("damage", ["change", "delete", "remove all"])
def test_a_damaged_release_folder_is_made_again(tmp_path: Path, damage: str) -> None:
    config = make_project(tmp_path / "p")
    build(config)
    release = tmp_path / "p" / "release"
    whole = tree_digest(release)
    if damage == "change":
        (release / "queries.jsonl").write_text("{}\n", encoding="utf-8")
    elif damage == "delete":
        next((release / "masks").iterdir()).unlink()
    else:
        release.rename(tmp_path / "gone")

    rows = {row.step: row.n_todo for row in plan_build(Workspace(config))}
    build(config)

    assert (rows["graph"], rows["publish"]) == (0, 1)
    assert tree_digest(release) == whole


def test_a_scene_that_cannot_be_read_is_quarantined_and_retried_when_mended(tmp_path: Path, built: Path) -> None:
    config = make_project(tmp_path / "p")
    good = (tmp_path / "p" / "b.tif").read_bytes()
    (tmp_path / "p" / "b.tif").write_bytes(good[: len(good) // 2])

    report = build(config)

    assert report.state == "quarantined"
    assert [(d.stage, d.scope_id) for d in report.quarantined] == [("collect", "b")] * 2  # both scenes reach into the missing half
    assert all("b.tif" in d.detail for d in report.quarantined)
    assert Release.open(tmp_path / "p" / "release").scenes.num_rows == 3

    (tmp_path / "p" / "b.tif").write_bytes(good)
    forget_quarantined(Workspace(config))
    mended = build(config)

    assert mended.state == "done"
    assert tree_digest(tmp_path / "p" / "release") == tree_digest(built.parent / "release")


def test_a_stage_alone_needs_what_comes_before_it(tmp_path: Path) -> None:
    workspace = Workspace(make_project(tmp_path / "p"))

    with pytest.raises(InputError, match="stage 'graph' needs 'collect' first: 2 of 2 items"):
        run_until(start_build(workspace, "test"), "graph")


def test_a_stage_run_again_by_force_gives_the_same_content(built: Path) -> None:
    before = start_build(Workspace(built), "test")
    run_until(before, "graph")
    after = start_build(Workspace(built), "test")
    run_until(after, "graph", force=True)

    assert after.summaries[0].n_reused == 0
    assert [r.content_sha256 for r in after.done["graph"]] == [r.content_sha256 for r in before.done["graph"]]


def test_a_release_with_findings_is_kept_as_rejected_and_the_old_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    from tasks import publish
    from tasks import stages as stages_module

    config = make_project(tmp_path / "p")
    build(config)
    before = tree_digest(tmp_path / "p" / "release")
    write = publish.make

    def damaged(workspace: Workspace, item: Any) -> Any:
        made = write(workspace, item)
        (publish.staging_folder(workspace) / "extra.txt").write_text("x", encoding="utf-8")
        return made

    step = dataclasses.replace(stages_module.STEPS["publish"], make=damaged)
    monkeypatch.setitem(stages_module.STEPS, "publish", step)
    monkeypatch.setattr(stages_module, "_ALL", tuple(stages_module.STEPS.values()))
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("A tiny release", "Another title"), encoding="utf-8")

    report = build(config)

    assert report.state == "findings"
    assert [f["code"] for f in report.findings] == ["file_unknown", "file_unlisted"]
    assert (tmp_path / "p" / "release.rejected" / "audit.json").is_file()
    assert tree_digest(tmp_path / "p" / "release") == before


def test_inputs_show_a_model_nothing_of_the_answer(built: Path) -> None:
    folder = built.parent / "release"
    rows = [json.loads(line) for p in sorted((folder / "inputs").glob("*.jsonl")) for line in p.read_text(encoding="utf-8").splitlines()]
    queries = {q.query_id: q for q in Release.open(folder).queries}

    assert {row["query_id"] for row in rows} == set(queries)
    assert all(set(row) == {"query_id", "sentence", "image", "gsd_m", "crs", "north"} for row in rows)
    assert all(row["sentence"] == queries[row["query_id"]].sentences[0] for row in rows)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")  # pycocotools 2.0.11 under numpy 2
def test_other_peoples_tools_read_the_release(built: Path) -> None:
    import geopandas as gpd
    import numpy as np
    import rasterio
    from pycocotools.coco import COCO

    folder = built.parent / "release"
    instances, scenes = gpd.read_parquet(folder / "instances.parquet"), gpd.read_parquet(folder / "scenes.parquet")
    coco = COCO(str(folder / "exports" / "coco.json"))

    assert str(instances.crs) in ("OGC:CRS84", "EPSG:4326")
    assert instances.geometry.is_valid.all()
    assert scenes.geometry.union_all().covers(instances.geometry.union_all().buffer(-1e-9))
    for annotation in coco.loadAnns(coco.getAnnIds()):
        mask = coco.annToMask(annotation)
        image = coco.imgs[annotation["image_id"]]
        row = instances[instances.instance_id == annotation["instance_id"]].iloc[0]
        with rasterio.open(folder / "masks" / Path(image["file_name"]).name) as source:
            assert np.array_equal(source.read(1) == row.label, mask.astype(bool))


def test_areas_are_ground_areas(built: Path) -> None:
    # the tiny footprints are boxes of whole pixels, half a metre each, at k close to 1
    import shapely
    from pyproj import Geod

    geod = Geod(ellps="WGS84")
    table = pq.read_table(built.parent / "release" / "instances.parquet", columns=["area_m2", "geometry"]).to_pylist()

    for row in table:
        assert row["area_m2"] == pytest.approx(abs(geod.geometry_area_perimeter(shapely.from_wkb(row["geometry"]))[0]), rel=1e-3)


def test_catalogue_knows_what_was_built(built: Path) -> None:
    catalogue = Workspace(built).catalogue
    counts = catalogue.table_counts()

    assert counts["scene"] == 5
    assert counts["release"] >= 1
    assert counts["program"] == len(Release.open(built.parent / "release").queries)


def test_planning_imports_no_prefect(built: Path) -> None:
    code = (
        "import sys; from trigpoint.cli import main; sys.argv = ['trigpoint', 'plan', sys.argv[1]]\n"
        "try: main()\nexcept SystemExit as e: assert not e.code, e.code\nassert 'prefect' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, str(built)], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_a_raster_cut_short_loses_only_the_scenes_in_its_missing_part(tmp_path: Path) -> None:
    config = make_project(tmp_path / "p")
    raster = tmp_path / "p" / "a.tif"
    good = raster.read_bytes()
    raster.write_bytes(good[: int(len(good) * 0.9)])  # the last of 300 rows are gone; the grid's scenes end at row 240

    text = config.read_text(encoding="utf-8").replace("sizes_px:\n      - 240", "sizes_px:\n      - 240\n      - 60")
    config.write_text(text, encoding="utf-8")
    report = build(config)

    lost = [d for d in report.quarantined if d.stage == "collect"]
    assert report.state == "quarantined"
    assert lost
    assert all(d.reason_code == "unreadable" and "a.tif" in d.detail and "window" in d.detail for d in lost)
    assert Release.open(tmp_path / "p" / "release").scenes.num_rows >= 4


def test_a_poi_on_an_invalid_pixel_gives_no_scene_and_says_why(tmp_path: Path) -> None:
    import numpy as np
    import rasterio

    config = make_project(tmp_path / "p")
    raster = tmp_path / "p" / "a.tif"
    with rasterio.open(raster) as source:
        profile, pixels = source.profile, source.read()
    alpha = np.full(pixels.shape[1:], 255, dtype=np.uint8)
    alpha[:, 330:390] = 0  # the first school lies here
    profile.update(count=4, photometric="RGB", alpha="YES")
    with rasterio.open(raster, "w", **profile) as target:
        target.write(np.concatenate([pixels, alpha[None]]))

    run = start_build(Workspace(config), "test")
    run_stage(run, "collect")
    drops = run.workspace.catalogue.list_drops(run_id=run.run_id, stage="collect")

    assert "poi_on_invalid_pixel" in {d.reason_code for d in drops}
    assert all(d.detail.startswith("lies on an invalid pixel") for d in drops if d.reason_code == "poi_on_invalid_pixel")


def test_a_release_that_cannot_be_written_is_told_with_its_reason(tmp_path: Path) -> None:
    config = make_project(tmp_path / "p")
    text = yaml.safe_load(config.read_text(encoding="utf-8"))
    for source in text["sources"]:
        source["scenes"] = {"windows": [[0, 0, 9000, 9000]]}  # outside: no scene is left
    config.write_text(yaml.safe_dump(text), encoding="utf-8")

    report = build(config)

    assert report.state == "quarantined"
    assert [(d.stage, d.item_id) for d in report.quarantined] == [("publish", "all")]
    assert "the release has no scene" in report.quarantined[0].detail
    assert not (tmp_path / "p" / "release").exists()


def test_workers_end_when_their_build_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time, os; from tasks import engine\n"
        "pool = engine._POOL.get(1)\nprint(pool.submit(os.getpid).result(), flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    for _ in range(100):
        if not Path(f"/proc/{worker}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{worker}").exists()


def test_a_scene_without_any_instance_is_released_without_queries(tmp_path: Path) -> None:
    config = make_project(tmp_path / "p")
    text = yaml.safe_load(config.read_text(encoding="utf-8"))
    text["sources"][1]["footprints"] = []
    config.write_text(yaml.safe_dump(text), encoding="utf-8")

    report = build(config)
    release = Release.open(tmp_path / "p" / "release")

    assert report.state == "done"
    source_of = {row["scene_id"]: row["source"] for row in release.scenes.select(["scene_id", "source"]).to_pylist()}
    assert set(source_of.values()) == {"a", "b"}
    assert {source_of[q.scene_id] for q in release.queries} == {"a"}


def test_one_raster_in_two_sources_is_refused_before_any_work(tmp_path: Path) -> None:
    config = make_project(tmp_path / "p")
    (tmp_path / "p" / "b.tif").write_bytes((tmp_path / "p" / "a.tif").read_bytes())

    with pytest.raises(ConfigError, match=r"sources\.b\.imagery: is the raster of source 'a'; merge"):
        start_build(Workspace(config), "test")


def test_a_release_with_touching_audits_clean_too(tmp_path: Path) -> None:
    from trigpoint.rules import KNOWN_RELATIONS

    config = make_project(tmp_path / "p", rules={"min_instance_px": 60, "relations": list(KNOWN_RELATIONS)})

    report = build(config)

    assert report.findings == []
    edges = Release.open(tmp_path / "p" / "release").relations.column("relation").to_pylist()
    assert "touches" in edges
