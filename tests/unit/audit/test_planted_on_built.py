"""Faults planted in a release that the pipeline built: each is named, also when the manifest's digests are made to agree with it."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rasterio

from tests.tiny_project import make_project
from tests.unit.tasks.test_build import build
from trigpoint.audit import audit_release

Row = dict[str, Any]


class Fault(NamedTuple):
    """A change of a release, and the code that must name it.

    Attributes:
        needs_sources: Only the original rasters can show it once the digests agree.
        is_listed: Whether it changes a file that the manifest lists.
    """

    plant: Callable[[Path], None]
    code: str
    needs_sources: bool = False
    is_listed: bool = True


# tools


def edit_table(path: Path, change: Callable[[list[Row]], None]) -> None:
    """Change rows of a Parquet table; its schema and metadata stay."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def edit_lines(path: Path, change: Callable[[list[Row]], None]) -> None:
    """Change rows of a JSONL file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows), encoding="utf-8")


def edit_json(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refresh(release: Path) -> None:
    """Make the manifest's sizes and digests, and audit.json, agree with the files as they are."""

    def agree(manifest: Any) -> None:
        for row in manifest["files"]:
            row["bytes"], row["sha256"] = (release / row["path"]).stat().st_size, digest(release / row["path"])

    edit_json(release / "manifest.json", agree)
    edit_json(release / "audit.json", lambda report: report.update(manifest_sha256=digest(release / "manifest.json")))


def codes(release: Path, sources: Path | None = None) -> set[str]:
    """Codes of all findings."""
    return {finding["code"] for finding in audit_release(release, sources=sources).to_json()["findings"]}


# faults


def shift_hbb(release: Path) -> None:
    """One building's horizontal box lies one pixel further east."""

    def change(rows: list[Row]) -> None:
        row = next(row for row in rows if row["hbb_px"])
        row["hbb_px"] = [row["hbb_px"][0] + 1, row["hbb_px"][1], row["hbb_px"][2] + 1, row["hbb_px"][3]]

    edit_table(release / "instances.parquet", change)


def move_obb_vertex(release: Path) -> None:
    """One corner of one oriented box lies half a pixel off."""

    def change(rows: list[Row]) -> None:
        row = next(row for row in rows if row["obb_px"])
        row["obb_px"] = [row["obb_px"][0] + 0.5, *row["obb_px"][1:]]

    edit_table(release / "instances.parquet", change)


def swap_labels(release: Path) -> None:
    """Two buildings exchange their numbers in an index map."""
    with rasterio.open(sorted((release / "masks").iterdir())[0], "r+") as dataset:
        band = dataset.read(1)
        first, second = np.unique(band[band > 0])[:2]
        dataset.write(np.where(band == first, second, np.where(band == second, first, band)).astype(band.dtype), 1)


def _clear_edge(rows: list[Row]) -> Row:
    """A TRUE edge as far from its threshold as any."""
    return max((row for row in rows if row["relation"] == "far" and row["verdict"] == "TRUE"), key=lambda row: row["value"])


def flip_verdict(release: Path) -> None:
    """A clear TRUE is stored as UNDECIDED."""
    edit_table(release / "relations.parquet", lambda rows: _clear_edge(rows).update(verdict="UNDECIDED"))


def turn_relation(release: Path) -> None:
    """The two farthest things are stored as near."""
    edit_table(release / "relations.parquet", lambda rows: _clear_edge(rows).update(relation="near"))


def change_answer(release: Path) -> None:
    """A stored answer lacks one of its instances."""

    def change(rows: list[Row]) -> None:
        next(row for row in rows if len(row["answer_ids"]) > 2)["answer_ids"].pop()

    edit_lines(release / "queries.jsonl", change)


def exchange_sentences(release: Path) -> None:
    """Two queries of one scene bear each other's sentence."""

    def change(rows: list[Row]) -> None:
        first = next(row for row in rows if row["level"] == 3)
        second = next(row for row in rows if row["scene_id"] == first["scene_id"] and row["level"] == 1)
        first["sentences"], second["sentences"] = second["sentences"], first["sentences"]

    edit_lines(release / "queries.jsonl", change)


def put_scene_into_two_splits(release: Path) -> None:
    """A scene of training is also one of the test."""

    def change(split: Any) -> None:
        assignment = split["assignment"]
        assignment["test"] = sorted([*assignment["test"], assignment["train"][0]])

    edit_json(release / "splits" / "scene-disjoint.json", change)


def change_scene_byte(release: Path) -> None:
    """One byte in the middle of a scene's file is another."""
    path = sorted((release / "scenes").iterdir())[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def change_scene_pixel(release: Path) -> None:
    """One pixel of a scene is one grey value brighter or darker; the file is whole."""
    with rasterio.open(sorted((release / "scenes").iterdir())[0], "r+") as dataset:
        pixels = dataset.read()
        pixels[0, pixels.shape[1] // 2, pixels.shape[2] // 2] ^= 1
        dataset.write(pixels)


def remove_licence(release: Path) -> None:
    """A source's pixels have no licence."""

    def change(manifest: Any) -> None:
        manifest["licences"] = [row for row in manifest["licences"] if row["layer"] != "pixels" or row is manifest["licences"][-1]]

    edit_json(release / "manifest.json", change)


def add_file(release: Path) -> None:
    """A file that the manifest does not list."""
    (release / "notes.txt").write_text("who put me here?\n", encoding="utf-8")


def put_nominal_gsd(release: Path) -> None:
    """The pixel size of a scene is that of the projection, not of the ground."""

    def change(rows: list[Row]) -> None:
        row = max(rows, key=lambda row: abs(abs(row["transform"][0]) - row["gsd_m"]))
        row["gsd_m"] = abs(row["transform"][0])

    edit_table(release / "scenes.parquet", change)


def leak_level(release: Path) -> None:
    """What a model may see says how hard a question is."""
    edit_lines(release / "inputs" / "scene-disjoint-test.jsonl", lambda rows: rows[0].update(level=3))


FAULTS = {
    "hbb shifted": Fault(shift_hbb, "hbb_wrong"),
    "obb vertex moved": Fault(move_obb_vertex, "obb_wrong"),
    "labels swapped": Fault(swap_labels, "rle_wrong"),
    "verdict flipped": Fault(flip_verdict, "edge_verdict"),
    "relation turned": Fault(turn_relation, "edge_opposite"),
    "answer changed": Fault(change_answer, "answer_stale"),
    "sentences exchanged": Fault(exchange_sentences, "sentence_mismatch"),
    "scene in two splits": Fault(put_scene_into_two_splits, "scene_in_splits"),
    "scene byte changed": Fault(change_scene_byte, "recut_differs", needs_sources=True),
    "scene pixel changed": Fault(change_scene_pixel, "recut_differs", needs_sources=True),
    "licence removed": Fault(remove_licence, "licence_missing", is_listed=False),
    "file added": Fault(add_file, "file_unlisted", is_listed=False),
    "gsd nominal": Fault(put_nominal_gsd, "gsd_nominal"),
    "level leaked": Fault(leak_level, "input_keys"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny project, built once."""
    config = make_project(tmp_path_factory.mktemp("planted"))
    build(config)
    return config.parent


def test_release_without_a_fault_has_no_finding(project: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(project / "release", tmp_path / "release"))
    refresh(copy)

    assert codes(copy, project) == set()


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_named(project: Path, tmp_path: Path, name: str) -> None:
    fault = FAULTS[name]
    copy = Path(shutil.copytree(project / "release", tmp_path / "release"))
    sources = project if fault.needs_sources else None
    fault.plant(copy)

    as_it_is = codes(copy, sources)
    refresh(copy)
    with_digests_that_agree = codes(copy, sources)

    assert fault.code in as_it_is
    assert ("file_altered" in as_it_is) == fault.is_listed
    assert fault.code in with_digests_that_agree
    assert not with_digests_that_agree & {"file_altered", "audit_stale"}
