"""Whatever is done to the files of a release: findings, never an exception."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.audit import _tiny_release as tiny
from trigpoint.audit import audit_release

MAY_BE_NULL = {
    "acquired",
    "poi_id",
    "series_id",
    "blank_share",
    "bright_share",
    "cloud_share",
    "region_path",
    "outside",
    "label",
    "plane",
    "hbb_px",
    "obb_px",
    "value",
    "counterfactual_of",
    "annotation_id",
}
"""Columns in which null may be right, or right enough."""


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    root = tmp_path_factory.mktemp("fuzz")
    tiny.build(root / "release", root / "sources")
    return root / "release"


@pytest.fixture
def release(good, tmp_path):
    return Path(shutil.copytree(good, tmp_path / "release"))


def files_of(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name != "manifest.json")


def damage(data, kind, seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    if kind == "truncated":
        return data[: len(data) // 2]
    if kind == "empty" or not data:
        return b""
    changed = bytearray(data)
    for place in rng.integers(0, len(changed), 1 + len(changed) // 100):
        changed[place] = int(rng.integers(0, 256))
    return bytes(changed)


@pytest.mark.parametrize("kind", ["truncated", "empty", "noise"])
def test_every_file_damaged_at_once_gives_findings_for_each(release, kind):
    names = files_of(release)
    for seed, name in enumerate(names):
        path = release / name
        path.write_bytes(damage(path.read_bytes(), kind, seed))

    found = {finding.file for finding in audit_release(release).findings if finding.code == "file_altered"}

    assert found == {name for name in names if name != "inputs/scene-disjoint-val.jsonl"}  # that one is empty


@pytest.mark.parametrize("kind", ["truncated", "empty", "noise"])
@pytest.mark.parametrize(
    "name",
    [
        "scenes.parquet", "instances.parquet", "relations.parquet", "queries.jsonl", "scenes/s-utm.tif", "masks/s-utm.tif",
        "regions/s-utm.tif", "splits/scene-disjoint.json", "inputs/scene-disjoint-test.jsonl", "exports/coco.json",
        "exports/dota/s-utm.txt", "taxonomy/tiny.v1.yaml", "stac/s-utm.json", "stac/catalog.json", "schemas/program.v1.schema.json",
    ],
)  # fmt: skip
def test_one_damaged_file_with_a_digest_that_agrees_is_found(release, name, kind):
    path = release / name
    path.write_bytes(damage(path.read_bytes(), kind, 5))
    tiny.seal(release)

    codes = {finding.code for finding in audit_release(release).findings}

    assert codes - {"file_altered"}


def weird(field):
    """Values that a column of this type can hold and should not."""
    kind = field.type
    if pa.types.is_floating(kind):
        return [None, math.nan, math.inf, -1e300]
    if pa.types.is_integer(kind):
        return [None, -5, 2**31]
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return [None]
    if pa.types.is_binary(kind):
        return [None, b"", b"\x00\xff"]
    if pa.types.is_list(kind):
        return [None, []]
    return [None, "", "../\x00ü"]


@pytest.mark.parametrize("table", ["scenes.parquet", "instances.parquet", "relations.parquet"])
def test_weird_values_in_any_column_are_found_and_stop_nothing(good, tmp_path, table):
    original = pq.read_table(good / table)
    folder = Path(shutil.copytree(good, tmp_path / "release"))
    for name in original.column_names:
        field = original.schema.field(name)
        for value in weird(field):
            rows = original.to_pylist()
            rows[1][name] = value
            pq.write_table(pa.Table.from_pylist(rows, schema=original.schema), folder / table)
            tiny.seal(folder)

            findings = audit_release(folder).findings

            assert findings or (value is None and name in MAY_BE_NULL) or name in MAY_BE_NULL, (name, value)
            assert "check_failed" not in {f.code for f in findings}, (name, value)


@pytest.mark.parametrize("name", ["int32", "string", "float64"])
def test_a_column_of_another_type_is_found_and_stops_nothing(release, name):
    for table, column in (("scenes.parquet", "gsd_m"), ("instances.parquet", "area_px"), ("relations.parquet", "value")):
        original = pq.read_table(release / table)
        at = original.column_names.index(column)
        values = pa.array([str(v) if name == "string" else 7 for v in original[column].to_pylist()], type=name)
        pq.write_table(original.set_column(at, column, values), release / table)
    tiny.seal(release)

    codes = {(f.code, f.item) for f in audit_release(release).findings}

    columns = {("column_type", "gsd_m"), ("column_type", "area_px"), ("column_type", "value")}
    assert columns & codes == (columns if name == "string" else set())
    assert len(codes) > 2


WRONG = (None, 7, -1.5, "x", [], {}, [[]], {"op": "cat"}, True)


def test_any_key_of_a_query_may_hold_anything(good, tmp_path):
    folder = Path(shutil.copytree(good, tmp_path / "release"))
    lines = (good / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    for key in json.loads(lines[0]):
        rows = [json.loads(line) for line in lines]
        for row, value in zip(rows, WRONG, strict=False):
            row[key] = value
        tiny.write_lines(folder / "queries.jsonl", rows)
        tiny.seal(folder)

        codes = {finding.code for finding in audit_release(folder).findings}

        assert codes, key
        assert "check_failed" not in codes, key


@pytest.mark.parametrize("file", ["manifest.json", "splits/scene-disjoint.json"])
def test_any_key_of_a_json_file_may_hold_anything(good, tmp_path, file):
    folder = Path(shutil.copytree(good, tmp_path / "release"))
    content = json.loads((good / file).read_text())
    for key in content:
        for value in WRONG:
            if value == content[key] or (key, value) in (
                ("rule", {}),
                ("left_out", {}),
                ("protocols_left_out", {}),
                ("unknown_is_other", {}),
                ("declared_licences", {}),
            ):
                continue
            (folder / file).write_text(tiny.dump(content | {key: value}))
            if file != "manifest.json":
                tiny.seal(folder)

            report = audit_release(folder)

            assert report.findings or key in ("name", "version", "title", "description", "versions", "seed"), (key, value)
