"""Public bug reports about catalogues and stores, as tests: each names the reports and holds the exact right values."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from storage.artefacts import ArtefactStore
from storage.catalogue import Catalogue
from trigpoint.errors import CatalogueError
from trigpoint.identity import digest_bytes
from trigpoint.records.stage import ItemResult

HOLD = "import duckdb, sys, time; c = duckdb.connect(sys.argv[1]); print('held', flush=True); time.sleep(60)"


def test_d01_held_catalogue_is_waited_for_and_then_names_its_holder(tmp_path: Path) -> None:
    """duckdb/duckdb#9988, Mause/duckdb_engine#436: a second process cannot open the catalogue."""
    path = tmp_path / "cat.duckdb"
    Catalogue(path).start_run("run-1", "build", digest_bytes(b"c"), "{}", {})
    with duckdb.connect(str(path)) as con:
        con.execute("INSERT INTO run BY NAME SELECT 'r' || i AS run_id, * EXCLUDE (run_id, i) FROM run, range(99) t(i)")

    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        start = time.monotonic()
        with pytest.raises(CatalogueError, match=rf"cat\.duckdb' is held by .*\(PID {holder.pid}\), waited 0\.5 s"):
            Catalogue(path, wait_s=0.5)
        waited = time.monotonic() - start
        holder.terminate()
        holder.wait(timeout=10)

    assert 0.4 <= waited < 5.0
    catalogue = Catalogue(path, wait_s=0.5)
    assert catalogue.table_counts()["run"] == 100


def test_d04_result_whose_file_is_gone_or_changed_is_a_miss_with_a_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PrefectHQ/prefect#8892, #3378: the file of a cached result is gone, and the run crashes."""
    store = ArtefactStore(tmp_path / "store")
    catalogue = Catalogue(tmp_path / "cat.duckdb")
    catalogue.start_run("run-1", "build", digest_bytes(b"c"), "{}", {})
    refs = {name: store.put_bytes(name.encode() * 64, ".bin") for name in "abcd"}
    keys = {name: digest_bytes(f"key {name}".encode()) for name in "abcd"}
    results = [
        ItemResult(stage="collect", item_id=name, item_key=keys[name], status="done", content_sha256=ref.sha256, files={"patch.bin": ref})
        for name, ref in refs.items()
    ]
    catalogue.record_results("run-1", "collect", results, {}, [])
    store.local_path(refs["b"]).unlink()
    store.local_path(refs["c"]).write_bytes(b"c" * 63)
    with duckdb.connect(str(catalogue.path)) as con:
        con.execute("UPDATE item_result SET result_json = '{\"task\":\"extr' WHERE item_id = 'd'")

    with caplog.at_level(logging.WARNING):
        found = catalogue.find_results("collect", list(keys.values()))
    reasons = {result.item_id: store.check_result(result) for result in found.values()}

    assert reasons == {
        "a": None,
        "b": f"artefact '{refs['b'].sha256}.bin' (file 'patch.bin') is missing",
        "c": f"artefact '{refs['c'].sha256}.bin' (file 'patch.bin') is damaged",
    }
    assert f"key {keys['d']} is unreadable" in caplog.text


def test_d06_killed_writer_leaves_no_artefact_under_its_final_name(tmp_path: Path) -> None:
    """ScrollPrize/villa#1695: existence of a file is not success."""
    code = (
        "import os, sys; from pathlib import Path; from storage.artefacts import ArtefactStore; store = ArtefactStore(Path(sys.argv[1]));"
        "os.fsync = lambda handle: os.kill(os.getpid(), 9); store.put_bytes(b'x' * 1000, '.bin')"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "store")], env=environment, check=False)

    assert killed.returncode == -9
    assert [path.name[:5] for path in (tmp_path / "store").rglob("*") if path.is_file()] == [".tmp-"]
    store = ArtefactStore(tmp_path / "store")
    ref = store.put_bytes(b"x" * 1000, ".bin")
    assert store.check(ref, deep=True) == "ok"
