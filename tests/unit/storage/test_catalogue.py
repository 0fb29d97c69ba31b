import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from storage.catalogue import DOMAIN_TABLES, SCHEMA_FOLDER, Catalogue, read_migrations
from trigpoint.errors import CatalogueError, InputError
from trigpoint.identity import digest_bytes
from trigpoint.records.stage import ArtefactRef, Drop, ItemResult, StageSummary

ROOT = Path(__file__).parents[3]
SHARD = ArtefactRef(sha256=digest_bytes(b"shard"), n_bytes=5, suffix=".parquet")


class Clock:
    """Each look is one second later."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    catalogue = Catalogue(tmp_path / "catalogue.duckdb", wait_s=5.0, clock=Clock())
    catalogue.start_run("run-1", "build", digest_bytes(b"config"), "{}", {"numpy": "2.4"})
    return catalogue


def key_of(name: str) -> str:
    return digest_bytes(name.encode())


def result_of(name: str, **more: object) -> ItemResult:
    values: dict[str, object] = {
        "stage": "collect",
        "item_id": name,
        "item_key": key_of(name),
        "status": "done",
        "content_sha256": key_of(name + " content"),
        "tables": {"poi": SHARD},
    }
    return ItemResult.model_validate({**values, **more})


def drop_of(item: str, **more: object) -> Drop:
    return Drop.model_validate(
        {"stage": "collect", "scope_id": "osm", "item_id": item, "reason_code": "no_geometry", "detail": "none", **more}
    )


POIS = pa.table(
    {
        "item_id": ["osm", "osm"],
        "poi_id": ["osm/node/9007199254740993", "osm/way/2"],
        "osm_id": pa.array([2**53 + 1, 2], pa.int64()),
        "lon": [7.4386, None],
        "tags": pa.array([[("amenity", "café")], []], pa.map_(pa.string(), pa.string())),
        "categories": [["cafe"], None],
        "only_here": [1, 2],
    }
)


def test_run_is_recorded_from_start_to_finish(catalogue: Catalogue) -> None:
    stage_run = catalogue.start_stage_run("run-1", "collect")
    again = catalogue.start_stage_run("run-1", "collect")
    summary = StageSummary(stage="collect", n_items=3, n_done=2, n_reused=1, drops={"no_geometry": 4}, seconds=1.5)
    catalogue.finish_stage_run(stage_run, summary, "completed")
    catalogue.finish_run("run-1", "completed", "all good")

    run = catalogue.get_run("run-1")
    assert run is not None
    assert (run.kind, run.state, run.note, run.versions) == ("build", "completed", "all good", {"numpy": "2.4"})
    # the clock of these tests ticks once a look: migrations first, then start, two stage runs, one end, and the run's own
    assert run.started_at == datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=catalogue.schema_version + 1)
    assert run.finished_at == run.started_at + timedelta(seconds=4)
    first, second = catalogue.list_stage_runs("run-1")
    assert (first.stage_run_id, first.state, first.summary, first.attempt) == (stage_run, "completed", summary, 1)
    assert (second.stage_run_id, second.state, second.summary, second.attempt) == (again, "running", None, 2)


def test_newest_run_is_listed_first_within_the_limit(catalogue: Catalogue) -> None:
    catalogue.start_run("run-2", "nightly", digest_bytes(b"config"), "{}", {})

    assert [run.run_id for run in catalogue.list_runs(10)] == ["run-2", "run-1"]
    assert [run.run_id for run in catalogue.list_runs(1)] == ["run-2"]
    assert catalogue.get_run("run-3") is None


def test_unknown_and_repeated_runs_are_refused(catalogue: Catalogue) -> None:
    with pytest.raises(CatalogueError, match="run 'run-1' is already in catalogue"):
        catalogue.start_run("run-1", "build", digest_bytes(b"config"), "{}", {})
    with pytest.raises(CatalogueError, match=r"run 'none' is not in catalogue.*start_run"):
        catalogue.finish_run("none", "completed")
    with pytest.raises(CatalogueError, match="stage run 'none'"):
        catalogue.finish_stage_run("none", StageSummary(stage="collect"), "completed")
    with pytest.raises(CatalogueError, match="run 'none' is not"):
        catalogue.record_results("none", "collect", [result_of("osm")], {}, [])


def test_results_come_back_with_rows_drops_artefacts_and_lineage(catalogue: Catalogue) -> None:
    result = result_of("osm", drops=[drop_of("osm/way/7")], n_in=3, n_out=2)
    catalogue.record_results("run-1", "collect", [result], {"poi": POIS}, [(result.item_key, digest_bytes(b"source"))])

    assert catalogue.find_results("collect", [result.item_key, key_of("other")]) == {result.item_key: result}
    assert catalogue.find_results("annotate", [result.item_key]) == {}
    assert catalogue.find_results("collect", []) == {}
    assert catalogue.list_drops() == list(result.drops)
    found = catalogue.select("SELECT item_key, osm_id, lon, tags, categories FROM poi ORDER BY osm_id")
    assert found.columns == ("item_key", "osm_id", "lon", "tags", "categories")
    assert found.rows == [
        (result.item_key, 2, None, "{}", None),
        (result.item_key, 2**53 + 1, 7.4386, '{"amenity":"café"}', ["cafe"]),
    ]
    assert catalogue.select("SELECT sha256, suffix, n_bytes FROM artefact").rows == [(SHARD.sha256, ".parquet", 5)]
    assert catalogue.select("SELECT item_key, parent_content_sha256 FROM lineage").rows == [(result.item_key, digest_bytes(b"source"))]


def test_same_key_replaces_everything_that_belonged_to_it(catalogue: Catalogue) -> None:
    first = result_of("osm", drops=[drop_of("a"), drop_of("b")])
    other = result_of("other")
    catalogue.record_results("run-1", "collect", [first, other], {"poi": POIS}, [(first.item_key, key_of("x"))])
    second = result_of("osm", drops=[drop_of("c")], n_out=1)

    catalogue.record_results("run-1", "collect", [second], {"poi": POIS.slice(0, 1)}, [])

    assert catalogue.find_results("collect", [first.item_key, other.item_key]) == {first.item_key: second, other.item_key: other}
    assert [drop.item_id for drop in catalogue.list_drops()] == ["c"]
    counts = catalogue.table_counts()
    assert (counts["poi"], counts["lineage"], counts["item_result"], counts["artefact"]) == (1, 0, 2, 1)


def test_forgotten_results_leave_no_row_behind(catalogue: Catalogue) -> None:
    result = result_of("osm", drops=[drop_of("a")])
    catalogue.record_results("run-1", "collect", [result], {"poi": POIS}, [(result.item_key, key_of("x"))])

    assert catalogue.forget_results("annotate", [result.item_key]) == 0
    assert catalogue.forget_results("collect", [result.item_key, key_of("none")]) == 1

    counts = catalogue.table_counts()
    assert {name for name, n in counts.items() if n} == {"run", "schema_version", "artefact"}


def test_failed_recording_changes_nothing(catalogue: Catalogue) -> None:
    result = result_of("osm")
    catalogue.record_results("run-1", "collect", [result], {"poi": POIS}, [])
    bad = pa.table({"item_id": ["osm"], "poi_id": ["osm/node/1"], "lon": ["not a number"]})

    with pytest.raises(CatalogueError, match=r"refused the transaction: .*not a number.*nothing was changed"):
        catalogue.record_results("run-1", "collect", [result_of("osm", n_out=9)], {"poi": bad}, [])

    assert catalogue.find_results("collect", [result.item_key]) == {result.item_key: result}
    assert catalogue.table_counts()["poi"] == 2


@pytest.mark.parametrize(
    ("results", "tables", "lineage", "message"),
    [
        ([result_of("osm", stage="boxes")], {}, [], "is of stage 'boxes', expected 'collect'"),
        ([result_of("osm"), result_of("b", item_key=key_of("osm"))], {}, [], "items 'osm' and 'b' have the same key"),
        ([result_of("osm")], {"run": POIS}, [], "table 'run' is not in the catalogue"),
        ([result_of("osm")], {"poi": POIS.drop_columns(["item_id"])}, [], "neither 'item_key' nor 'item_id'"),
        ([result_of("other")], {"poi": POIS}, [], "rows of item_id 'osm', which is not among the results"),
        ([result_of("osm")], {}, [(key_of("q"), key_of("x"))], "lineage names children"),
    ],
    ids=["stage", "key", "table", "no item", "strange item", "lineage"],
)
def test_broken_recordings_are_refused(
    catalogue: Catalogue, results: list[ItemResult], tables: dict[str, pa.Table], lineage: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        catalogue.record_results("run-1", "collect", results, tables, lineage)
    assert catalogue.table_counts()["item_result"] == 0


def test_unreadable_result_record_is_a_miss_with_a_log_line(catalogue: Catalogue, caplog: pytest.LogCaptureFixture) -> None:
    results = [result_of("a"), result_of("b")]
    catalogue.record_results("run-1", "collect", results, {}, [])
    with duckdb.connect(str(catalogue.path)) as con:
        con.execute("UPDATE item_result SET result_json = '{\"stage\":\"coll' WHERE item_id = 'b'")

    assert catalogue.find_results("collect", [r.item_key for r in results]) == {results[0].item_key: results[0]}
    assert key_of("b") in caplog.text


def test_drops_are_those_of_what_a_run_made_or_reused(catalogue: Catalogue) -> None:
    catalogue.start_run("run-2", "nightly", digest_bytes(b"config"), "{}", {})
    error = drop_of("b", scope_id="b", reason_code="raster_error", is_quarantined=True)
    bad = result_of("b", status="quarantined", drops=[error])
    catalogue.record_results("run-1", "collect", [result_of("a", drops=[drop_of("a1")]), bad], {}, [])
    catalogue.record_results("run-2", "collect", [result_of("c", drops=[drop_of("c1")])], {}, [])

    assert [d.item_id for d in catalogue.list_drops("run-2")] == ["c1"]
    catalogue.record_reuse("run-2", "collect", [key_of("a"), key_of("a")])
    assert [d.item_id for d in catalogue.list_drops("run-2")] == ["a1", "c1"]
    assert catalogue.list_drops(quarantined_only=True) == [error]
    assert catalogue.list_drops(stage="boxes") == []
    assert catalogue.list_quarantined("run-1", "collect") == [bad]
    assert catalogue.list_quarantined("run-2") == []


def test_release_of_the_same_manifest_is_one_row(catalogue: Catalogue) -> None:
    manifest = digest_bytes(b"manifest")
    catalogue.record_release("kampala", "1.0", manifest, "out/kampala.rejected", "run-1", "rejected")
    catalogue.record_release("kampala", "1.0", manifest, "out/kampala", "run-1", "published")
    catalogue.record_release("kampala", "1.1", digest_bytes(b"next"), "out/kampala-1.1", "run-1", "published")

    assert [(r.version, r.state, r.path) for r in catalogue.list_releases()] == [
        ("1.1", "published", "out/kampala-1.1"),
        ("1.0", "published", "out/kampala"),
    ]


def test_records_are_imported_once_and_kept_whole(catalogue: Catalogue) -> None:
    reviews = [
        {"kind": "mask", "item_id": "i-1", "action": "accept", "more": [1, 2]},
        {"item_id": "i-2", "action": "return"},
    ]
    calls = [{"call_key": "k", "model": "m", "input_tokens": 12, "seconds": 0.25, "status": "ok"}, {"input_tokens": "many"}]

    assert catalogue.import_records("review", reviews) == 2
    assert catalogue.import_records("review", [*reviews, {"item_id": "i-3"}]) == 1
    assert catalogue.import_records("llm_call", calls) == 2
    assert catalogue.import_records("llm_call", []) == 0

    rows = catalogue.select("SELECT item_id, action, record_json FROM review ORDER BY 1").rows
    assert [row[:2] for row in rows] == [("i-1", "accept"), ("i-2", "return"), ("i-3", None)]
    assert json.loads(rows[0][2]) == reviews[0]
    tokens = catalogue.select("SELECT model, input_tokens, seconds FROM llm_call ORDER BY model NULLS LAST").rows
    assert tokens == [("m", 12, 0.25), (None, None, None)]


def test_select_reads_and_never_writes(catalogue: Catalogue, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")

    assert catalogue.select("SELECT i FROM range(10) t(i)", limit=3).rows == [(0,), (1,), (2,)]
    for sql in (
        "DELETE FROM run",
        "DROP TABLE run",
        f"COPY run TO '{tmp_path / 'out.csv'}'",
        f"SELECT * FROM read_csv('{secret}')",
        f"ATTACH '{tmp_path / 'other.duckdb'}'",
        "SET enable_external_access = true",
        "SELEC 1",
    ):
        with pytest.raises(CatalogueError, match="cannot answer"):
            catalogue.select(sql)
    assert len(catalogue.list_runs()) == 1


def test_every_column_says_what_it_is(catalogue: Catalogue) -> None:
    silent = catalogue.select(
        "SELECT table_name, column_name FROM duckdb_columns() JOIN duckdb_tables() USING (table_name) "
        "WHERE NOT duckdb_columns.internal AND duckdb_columns.comment IS NULL AND table_name <> 'schema_version'"
    )

    assert silent.rows == []


def test_rows_of_every_domain_table_carry_their_item_key(catalogue: Catalogue) -> None:
    rows = catalogue.select("SELECT table_name FROM duckdb_columns() WHERE column_name = 'item_key'").rows

    assert {row[0] for row in rows} >= set(DOMAIN_TABLES)


# ------------------------------------------------------------------------------------------------ schema


def schema_with_next(tmp_path: Path) -> Path:
    folder = tmp_path / "schema"
    shutil.copytree(SCHEMA_FOLDER, folder)
    n = len(read_migrations(SCHEMA_FOLDER)) + 1
    (folder / f"{n:03d}_next.sql").write_text("ALTER TABLE run ADD COLUMN host VARCHAR; COMMENT ON COLUMN run.host IS 'name';")
    return folder


@pytest.mark.parametrize("version", range(len(read_migrations(SCHEMA_FOLDER)) + 1))
def test_catalogue_of_every_earlier_version_is_brought_up_and_keeps_its_rows(tmp_path: Path, version: int) -> None:
    path = tmp_path / "old.duckdb"
    folder = schema_with_next(tmp_path)
    if version:
        older = tmp_path / "older"
        older.mkdir()
        for file in sorted(folder.glob("*.sql"))[:version]:
            shutil.copy(file, older)
        Catalogue(path, schema_folder=older).start_run("old", "build", key_of("c"), "{}", {})

    catalogue = Catalogue(path, schema_folder=folder)

    assert [run.run_id for run in catalogue.list_runs()] == (["old"] if version else [])
    versions = [row[0] for row in catalogue.select("SELECT version FROM schema_version ORDER BY 1").rows]
    assert versions == list(range(1, catalogue.schema_version + 1))
    assert catalogue.select("SELECT host FROM run").columns == ("host",)


def test_failed_migration_leaves_the_old_version(tmp_path: Path) -> None:
    folder = schema_with_next(tmp_path)
    Catalogue(tmp_path / "c.duckdb")
    broken = sorted(folder.glob("*.sql"))[-1]
    broken.write_text("CREATE TABLE extra (a INTEGER); SELECT no_such_column FROM run;")

    with pytest.raises(CatalogueError, match="no_such_column"):
        Catalogue(tmp_path / "c.duckdb", schema_folder=folder)

    assert "extra" not in Catalogue(tmp_path / "c.duckdb").table_counts()


def test_newer_schema_is_refused_with_both_versions(tmp_path: Path) -> None:
    newer = Catalogue(tmp_path / "c.duckdb", schema_folder=schema_with_next(tmp_path)).schema_version

    with pytest.raises(CatalogueError, match=rf"schema version {newer}, this trigpoint knows versions up to {newer - 1}"):
        Catalogue(tmp_path / "c.duckdb")


def test_foreign_database_and_foreign_file_are_refused(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "other.duckdb")) as con:
        con.execute("CREATE TABLE t (a INTEGER)")
    (tmp_path / "text.duckdb").write_text("no database" * 1000)

    with pytest.raises(CatalogueError, match=r"no trigpoint catalogue.*found \['t'\]"):
        Catalogue(tmp_path / "other.duckdb")
    with pytest.raises(CatalogueError, match=r"text\.duckdb' cannot be opened"):
        Catalogue(tmp_path / "text.duckdb")


def test_migration_numbers_must_have_no_gap(tmp_path: Path) -> None:
    (tmp_path / "002_b.sql").write_text("SELECT 1")

    with pytest.raises(CatalogueError, match="expected number 001"):
        read_migrations(tmp_path)
    with pytest.raises(CatalogueError, match="no migration"):
        read_migrations(tmp_path / "none")


# ------------------------------------------------------------------------------------------ several processes

WRITER = """
import sys
from storage.catalogue import Catalogue
from trigpoint.identity import digest_bytes
from trigpoint.records.stage import ItemResult
import pyarrow as pa
path, name = sys.argv[1:]
catalogue = Catalogue(path, wait_s=30.0)
for i in range(20):
    key = digest_bytes(f"{name}/{i}".encode())
    result = ItemResult(stage="collect", item_id=f"{name}/{i}", item_key=key, status="done", content_sha256=key)
    pois = pa.table({"item_key": [key] * 3, "poi_id": [f"{name}/{i}/{k}" for k in range(3)]})
    catalogue.record_results("run-1", "collect", [result], {"poi": pois}, [])
"""

KILLED = """
import sys, time
import duckdb
con = duckdb.connect(sys.argv[1])
con.execute("UPDATE run SET note = 'committed'")
con.execute("BEGIN")
con.execute("UPDATE run SET note = 'never committed'")
print("ready", flush=True)
time.sleep(60)
"""


def test_two_writing_processes_lose_nothing(catalogue: Catalogue) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WRITER, str(catalogue.path)]
    writers = [subprocess.Popen([*command, name], env=environment, stderr=subprocess.PIPE, text=True) for name in ("a", "b")]

    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors

    assert catalogue.select("SELECT count(*), count(DISTINCT item_id) FROM item_result").rows == [(40, 40)]
    assert catalogue.select("SELECT count(*), count(DISTINCT poi_id) FROM poi").rows == [(120, 120)]


def test_threads_of_one_process_take_turns(catalogue: Catalogue) -> None:
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda _: catalogue.start_stage_run("run-1", "boxes"), range(20)))
        counts = list(pool.map(lambda _: catalogue.table_counts()["stage_run"], range(4)))

    assert (len(set(ids)), counts) == (20, [20] * 4)


def test_killed_writer_leaves_what_it_committed_and_nothing_else(catalogue: Catalogue) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(catalogue.path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        writer.wait(timeout=10)

    run = catalogue.get_run("run-1")
    assert run is not None and run.note == "committed"


def test_short_holder_is_waited_for(catalogue: Catalogue) -> None:
    hold = "import duckdb, sys, time; c = duckdb.connect(sys.argv[1]); print('held', flush=True); time.sleep(0.5)"
    with subprocess.Popen([sys.executable, "-c", hold, str(catalogue.path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        start = time.monotonic()

        catalogue.finish_run("run-1", "completed")

        assert time.monotonic() - start < 5.0


def test_current_rows_are_those_of_the_latest_finished_run(catalogue: Catalogue) -> None:
    def record(run_id: str, key: str, name: str) -> None:
        result = ItemResult(stage="collect", item_id="a", item_key=key_of(key), status="done", content_sha256=key_of(key))
        catalogue.start_run(run_id, "build", key_of("config"), "{}", {})
        poi = pa.table({"item_key": [key_of(key)], "poi_id": [name], "source": ["a"], "lon": [8.0], "lat": [50.0], "tags": ["{}"]})
        catalogue.record_results(run_id, "collect", [result], {"poi": poi}, [])

    record("run-8", "one", "old")
    catalogue.finish_run("run-8", "done")
    record("run-9", "two", "new")
    assert catalogue.select("SELECT poi_id FROM current_poi").rows == [("old",)]

    catalogue.finish_run("run-9", "done")
    assert catalogue.select("SELECT poi_id FROM current_poi").rows == [("new",)]
    assert catalogue.table_counts()["poi"] == 2
