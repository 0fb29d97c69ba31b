"""Exports and imports by the command line: what people did elsewhere becomes decisions, and the build applies them."""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyogrio
import pytest
import rasterio
import shapely
from PIL import Image
from typer.testing import CliRunner, Result

from storage.ledger import LedgerFile
from tasks.builds import run_stage
from tasks.engine import finish_build, start_build
from tasks.exchange import open_exchange, plan_masks, read_masks, write_decisions
from tasks.tables import item_table
from tasks.workspace import Workspace
from tests.tiny_project import make_project
from trigpoint.cli import app
from trigpoint.errors import InputError
from trigpoint.records.review import Decision
from trigpoint.review.ledger import ConflictError

FILES = {"gpkg": "masks.gpkg", "coco": "instances.json", "label-studio": "tasks.json", "cvat": "annotations.xml"}


@pytest.fixture(scope="module")
def annotated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_project(tmp_path_factory.mktemp("made") / "project", review={"policy": "single"})
    run = start_build(Workspace(path), "test")
    for stage in ("collect", "annotate"):
        run_stage(run, stage)  # type: ignore[arg-type]
    finish_build(run, "done")
    return path


@pytest.fixture
def config(annotated: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(annotated.parent, tmp_path / "project")) / annotated.name


def called(*args: Any) -> Result:
    return CliRunner().invoke(app, ["exchange", *(str(arg) for arg in args)])


def exported(config: Path, folder: Path, format_: str, *more: str) -> Path:
    result = called("export", config, "--format", format_, "--out", folder, *more)
    assert result.exit_code == 0, result.output
    return folder / FILES[format_]


def imported(config: Path, file: Path, *more: str, who: str = "ada") -> tuple[int, dict[str, Any]]:
    result = called("import", config, file, "--who", who, "--json", *more)
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, json.loads(result.stdout)


def decisions(config: Path) -> list[Decision]:
    ledger = LedgerFile(Workspace(config).reviews_folder)
    return [Decision.model_validate({k: v for k, v in row.items() if k not in ("decision_id", "decided_at")}) for row in ledger.records()]


@pytest.mark.parametrize("format_", FILES)
def test_an_export_comes_back_unchanged_and_names_no_place(config: Path, tmp_path: Path, format_: str) -> None:
    file = exported(config, tmp_path / "out", format_)

    code, told = imported(config, file)

    assert (code, told["planned"], told["problems"], told["missing"], told["written"]) == (0, [], [], [], 0)
    assert len(told["unchanged"]) == len(open_exchange(Workspace(config)).states) > 100
    for path in (tmp_path / "out").rglob("*"):
        assert not path.is_file() or str(tmp_path).encode() not in path.read_bytes()


def test_pictures_are_the_scenes_pixels_as_stored_and_have_no_turn_tag(config: Path, tmp_path: Path) -> None:
    exported(config, tmp_path / "coco", "coco")
    exported(config, tmp_path / "gpkg", "gpkg")

    pictures = sorted((tmp_path / "coco" / "pictures").iterdir())
    assert [p.stem for p in pictures] == [p.stem for p in sorted((tmp_path / "gpkg" / "scenes").iterdir())]
    for picture in pictures:
        with Image.open(picture) as image, rasterio.open(tmp_path / "gpkg" / "scenes" / f"{picture.stem}.tif") as scene:
            assert (image.getexif(), image.size) == ({}, (scene.width, scene.height))
            assert image.getpixel((7, 3)) == tuple(int(scene.read(band)[3, 7]) for band in (1, 2, 3))


def test_work_in_qgis_becomes_decisions_and_the_build_applies_them(config: Path, tmp_path: Path) -> None:
    file = exported(config, tmp_path / "out", "gpkg")
    table = geopandas.read_file(file, layer="masks").sort_values("item_id").reset_index(drop=True)
    scene = table.scene_id[0]
    table.loc[0, "geometry"] = shapely.transform(table.geometry[0], lambda points: points + np.array([1.0, 0.0]))
    moved, recategorised, deleted = table.item_id[0], table.item_id[1], table.item_id[2]
    table.loc[1, "category"] = "tree"
    table = table.drop(index=2)
    left, bottom, _, _ = geopandas.read_file(file, layer="scenes").set_index("scene_id").geometry[scene].bounds
    drawn = {"category": "tree", "scene_id": scene, "geometry": shapely.box(left + 2, bottom + 2, left + 6, bottom + 5)}
    table = geopandas.GeoDataFrame([*table.to_dict("records"), drawn], crs=table.crs)
    pyogrio.write_dataframe(table, file, layer="masks", driver="GPKG", append=False, geometry_type="MultiPolygon", promote_to_multi=True)

    dry = imported(config, file, "--removed", "reject", "--dry-run")
    assert (dry[0], dry[1]["written"], decisions(config)) == (0, 0, [])
    code, told = imported(config, file, "--removed", "reject")

    assert (code, told["problems"], told["written"]) == (0, [], 4)
    assert {one["what"]: one["decision"]["item_id"] for one in told["planned"] if one["what"] != "added"} == {
        "edited": moved, "recategorised": recategorised, "removed": deleted,
    }  # fmt: skip
    assert {decision.who for decision in decisions(config)} == {"ada"}
    assert imported(config, file, "--removed", "reject")[1]["planned"] == []

    run = start_build(Workspace(config), "test")
    for stage in ("collect", "annotate"):
        run_stage(run, stage)  # type: ignore[arg-type]
    finish_build(run, "done")
    rows = [row for result in run.done["annotate"] for row in item_table(run.workspace, result, "mask").to_pylist()]
    categories = {row["instance_id"]: row["category"] for row in rows}
    added = next(one["decision"]["item_id"] for one in told["planned"] if one["what"] == "added")
    assert categories[recategorised] == ["tree"]
    assert categories[added] == ["tree"]
    assert deleted not in categories
    assert next(row["area_px"] for row in rows if row["instance_id"] == added) == 8 * 6  # 4 m × 3 m of half a metre


def test_one_problem_keeps_the_whole_file_out_unless_a_part_is_asked_for(config: Path, tmp_path: Path) -> None:
    file = exported(config, tmp_path / "out", "coco")
    document = json.loads(file.read_text())
    edited, broken = document["annotations"][:2]
    edited["category_id"] = next(c["id"] for c in document["categories"] if c["name"] == "tree")
    edited["attributes"]["more"] = ""
    broken["attributes"]["item_id"] = "i-ffffffffffffffff"
    file.write_text(json.dumps(document))

    result = called("import", config, file, "--who", "ada")
    assert result.exit_code == 1
    assert "annotation 2 (i-ffffffffffffffff): this release has no such mask" in result.output
    assert decisions(config) == []

    code, told = imported(config, file, "--partial")
    assert (code, told["written"], len(told["problems"])) == (1, 1, 1)
    assert [decision.item_id for decision in decisions(config)] == [edited["attributes"]["item_id"]]


def test_who_decided_meanwhile_is_not_overwritten(config: Path, tmp_path: Path) -> None:
    file = exported(config, tmp_path / "out", "label-studio")
    tasks = json.loads(file.read_text())
    region = tasks[0]["annotations"][0]["result"][0]
    region["value"]["brushlabels"] = ["tree"]
    file.write_text(json.dumps(tasks))
    opened = open_exchange(Workspace(config))
    plan = plan_masks(opened, read_masks(opened, file), "bo", "annotator", "report")
    assert [one.decision.item_id for one in plan.planned] == [region["id"]]
    assert imported(config, file)[1]["written"] == 1  # ada is quicker

    with pytest.raises(ConflictError, match="ada"):
        write_decisions(opened, plan)
    tasks[0]["annotations"][0]["result"][0]["value"]["brushlabels"] = ["building"]
    file.write_text(json.dumps(tasks))
    code, told = imported(config, file, who="bo")

    assert (code, told["written"]) == (1, 0)
    assert "ada (annotator) decided to edit it since" in told["problems"][0]["cause"]
    assert len(decisions(config)) == 1


def test_decisions_of_one_import_are_written_all_or_none(config: Path) -> None:
    opened = open_exchange(Workspace(config))
    first, second = sorted(opened.states.values(), key=lambda state: state.item.item_id)[:2]

    def accept(state: Any, previous: str | None = None) -> Decision:
        about = {"item_id": state.item.item_id, "kind": "mask", "scene_id": state.item.scene_id, "version": state.version}
        return Decision.model_validate({**about, "action": "accept", "who": "ada", "role": "annotator", "previous": previous})

    with pytest.raises(ConflictError):
        opened.workspace.ledger.append_all([accept(first), accept(second, "d-0123456789abcdef")])
    assert decisions(config) == []
    assert opened.workspace.ledger.append_all([accept(first), accept(second)]) == 2
    assert opened.workspace.ledger.append_all([accept(first), accept(second)]) == 0


def test_a_zip_of_cvat_with_the_list_beside_or_named(config: Path, tmp_path: Path) -> None:
    file = exported(config, tmp_path / "out", "cvat")
    packed = tmp_path / "elsewhere.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(file, "annotations.xml")

    assert "what was removed is not known" in imported(config, packed)[1]["remarks"][0]
    assert imported(config, packed, "--list", str(tmp_path / "out" / "export.json"))[1]["remarks"] == []
    exported(config, tmp_path / "coco", "coco")
    result = called("import", config, packed, "--who", "ada", "--list", tmp_path / "coco" / "export.json")
    assert (result.exit_code, "is of an export as coco" in result.output) == (2, True)


def test_only_what_waits_of_one_scene(config: Path, tmp_path: Path) -> None:
    opened = open_exchange(Workspace(config))
    scene = sorted(opened.scenes)[0]
    here = sorted(item_id for item_id, state in opened.states.items() if state.item.scene_id == scene)
    state = opened.states[here[0]]
    about = {"item_id": here[0], "kind": "mask", "scene_id": scene, "version": state.version}
    opened.workspace.ledger.append(Decision.model_validate({**about, "action": "accept", "who": "ada", "role": "annotator"}))

    file = exported(config, tmp_path / "out", "coco", "--scene", scene, "--what", "waiting")

    document = json.loads(file.read_text())
    assert sorted(a["attributes"]["item_id"] for a in document["annotations"]) == here[1:]
    assert [image["file_name"] for image in document["images"]] == [f"{scene}.png"]
    assert [p.name for p in (tmp_path / "out" / "pictures").iterdir()] == [f"{scene}.png"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("export", "--format", "shp", "--out", "{new}"), "expected one of gpkg, coco, label-studio, cvat"),
        (("export", "--format", "gpkg", "--out", "{new}", "--as", "box"), "leave --as out"),
        (("export", "--format", "cvat", "--out", "{new}", "--scene", "../x"), "no such scene"),
        (("export", "--format", "cvat", "--out", "{full}"), "is there and not empty"),
        (("export", "--format", "cvat", "--out", "{new}", "--what", "some"), "expected one of waiting, all"),
        (("import", "{missing}", "--who", "ada"), "is not there"),
        (("import", "{missing}", "--who", " ada"), "no space at either end"),
        (("import", "{text}", "--who", "ada"), "is no JSON"),
        (("import", "{text}", "--who", "ada", "--role", "boss"), "expected one of annotator, manager, expert"),
    ],
)
def test_wrong_calls_say_what_is_wrong_and_write_nothing(config: Path, tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    places = {name: str(tmp_path / name) for name in ("new", "full", "missing")} | {"text": str(tmp_path / "full" / "mine.txt")}
    command, *rest = (arg.format(**places) for arg in args)

    if command == "import" and rest[-1] == "boss":
        file = exported(config, tmp_path / "out", "coco")
        rest[0] = str(file)
    result = called(command, config, *rest)

    assert result.exit_code == 2
    assert said in result.output
    assert not (tmp_path / "new").exists()
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["mine.txt"]
    assert decisions(config) == []


def test_an_export_that_fails_leaves_nothing_behind(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> bytes:
        raise InputError("no pictures today")

    monkeypatch.setattr("tasks.exchange.png_bytes", fail)

    result = called("export", config, "--format", "coco", "--out", tmp_path / "out")

    assert result.exit_code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["project"]
