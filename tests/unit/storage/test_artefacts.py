import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from storage.artefacts import ArtefactStore, parquet_bytes, write_atomic
from trigpoint.errors import ArtefactError, InputError
from trigpoint.identity import canonical_json, digest_bytes
from trigpoint.records.stage import ArtefactRef, ItemResult

DATA = b"native pixels"


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtefactStore:
    location = tmp_path / "store" if request.param == "local" else f"memory://{tmp_path.name}"
    return ArtefactStore(location, cache_folder=tmp_path / "cache")


def file_of(store: ArtefactStore, ref: ArtefactRef) -> Path:
    return Path(store.location) / "sha256" / ref.sha256[:2] / f"{ref.sha256}{ref.suffix}"


def test_bytes_come_back_under_their_digest(store: ArtefactStore) -> None:
    ref = store.put_bytes(DATA, ".tif")

    assert ref == ArtefactRef(sha256=digest_bytes(DATA), n_bytes=13, suffix=".tif")
    assert store.get_bytes(ref) == DATA
    assert store.check(ref, deep=True) == "ok"


def test_file_is_stored_as_it_is_and_stays(store: ArtefactStore, tmp_path: Path) -> None:
    path = tmp_path / "A.TIF"
    path.write_bytes(DATA)

    ref = store.put_file(path)

    assert ref.suffix == ".tif"
    assert store.get_bytes(ref) == DATA
    assert path.read_bytes() == DATA


def test_file_that_does_not_exist_is_named(store: ArtefactStore, tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match=r"none\.tif"):
        store.put_file(tmp_path / "none.tif")


def test_table_comes_back_whatever_its_chunks(store: ArtefactStore) -> None:
    whole = pa.table({"osm_id": pa.array([2**53 + 1, None, 3]), "name": ["a", "", None], "xs": [[1.5], [], None]})
    chunked = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])

    ref = store.put_table(whole)

    assert store.put_table(chunked) == ref
    assert store.get_table(ref).equals(whole)
    assert ref.suffix == ".parquet"


def test_table_without_rows_keeps_its_schema(store: ArtefactStore) -> None:
    empty = pa.table({"a": pa.array([], pa.int64())})

    assert store.get_table(store.put_table(empty)).schema == empty.schema


def test_parquet_bytes_are_the_same_twice() -> None:
    table = pa.table({"a": list(range(1000)), "b": [str(i % 7) for i in range(1000)]})

    assert parquet_bytes(table) == parquet_bytes(table)


def test_bytes_that_are_no_table_are_refused_by_name(store: ArtefactStore) -> None:
    with pytest.raises(ArtefactError, match="no Parquet file"):
        store.get_table(store.put_bytes(DATA, ".parquet"))


def test_missing_artefact_is_named_with_what_to_do(store: ArtefactStore) -> None:
    ref = ArtefactRef(sha256=digest_bytes(b"never"), n_bytes=5, suffix=".json")

    assert store.check(ref) == "missing"
    with pytest.raises(ArtefactError, match=rf"{ref.sha256}\.json' is missing.*run the stage"):
        store.get_bytes(ref)
    with pytest.raises(ArtefactError, match="is missing"):
        store.local_path(ref)


def test_damage_of_the_same_size_is_found_by_digest_and_never_served(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path / "store")
    ref = store.put_bytes(DATA, ".tif")
    file_of(store, ref).write_bytes(b"NATIVE PIXELS")

    assert store.check(ref) == "ok"
    assert store.check(ref, deep=True) == "damaged"
    with pytest.raises(ArtefactError, match=rf"expected sha256 {ref.sha256}.*found sha256 {digest_bytes(b'NATIVE PIXELS')}"):
        store.get_bytes(ref)
    with pytest.raises(ArtefactError, match="damaged"):
        store.local_path(ref)


def test_put_repairs_a_damaged_file_and_leaves_a_good_one_alone(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path / "store")
    ref = store.put_bytes(DATA, ".tif")
    path = file_of(store, ref)
    before = path.stat()

    store.put_bytes(DATA, ".tif")

    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    path.write_bytes(DATA[:4])
    assert store.check(ref) == "damaged"
    store.put_bytes(DATA, ".tif")
    assert store.get_bytes(ref) == DATA


def test_put_file_repairs_a_damaged_file(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path / "store")
    source = tmp_path / "a.tif"
    source.write_bytes(DATA)
    ref = store.put_file(source)
    file_of(store, ref).write_bytes(b"")

    assert store.put_file(source) == ref
    assert store.get_bytes(ref) == DATA


def test_local_path_holds_verified_bytes(store: ArtefactStore) -> None:
    ref = store.put_bytes(DATA, ".tif")

    path = store.local_path(ref)

    assert path.read_bytes() == DATA
    assert path.suffix == ".tif"


def test_damaged_cache_copy_of_a_remote_artefact_is_fetched_again(tmp_path: Path) -> None:
    store = ArtefactStore(f"memory://{tmp_path.name}", cache_folder=tmp_path / "cache")
    ref = store.put_bytes(DATA, ".tif")
    store.local_path(ref).write_bytes(b"broken")

    assert store.local_path(ref).read_bytes() == DATA


def test_opening_a_store_removes_old_temporary_files_and_nothing_else(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path / "store")
    ref = store.put_bytes(DATA, ".tif")
    folder = file_of(store, ref).parent
    old, young, other = folder / ".tmp-1-aa", folder / ".tmp-2-bb", folder / "notes.txt"
    for path in (old, young, other):
        path.write_bytes(b"x")
    two_hours_ago = time.time() - 7200
    os.utime(old, (two_hours_ago, two_hours_ago))
    os.utime(other, (two_hours_ago, two_hours_ago))
    os.utime(file_of(store, ref), (two_hours_ago, two_hours_ago))

    ArtefactStore(tmp_path / "store")

    assert sorted(p.name for p in folder.iterdir()) == sorted([".tmp-2-bb", "notes.txt", f"{ref.sha256}.tif"])


def test_writing_leaves_no_temporary_file(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path / "store")

    store.put_bytes(DATA, ".tif")

    assert not list((tmp_path / "store").rglob(".tmp-*"))


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, b"old")

    def fail(handle: int) -> None:
        raise OSError("disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk is full"):
        write_atomic(path, b"new")

    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_records_are_kept_once_and_read_in_order_of_their_digest(store: ArtefactStore) -> None:
    records = [{"subject": "i-1", "state": "accepted"}, {"subject": "i-2", "state": "returned", "note": "naïve"}]

    digests = [store.append_record("review", record) for record in [*records, records[0]]]

    assert digests[0] == digests[2] == digest_bytes(canonical_json(records[0]).encode())
    assert list(store.iter_records("review")) == sorted(records, key=lambda r: digest_bytes(canonical_json(r).encode()))
    assert list(store.iter_records("llm_call")) == []


def test_torn_record_is_named_and_appending_it_again_repairs_it(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path / "store")
    digest = store.append_record("review", {"a": 1})
    path = tmp_path / "store" / "records" / "review" / digest[:2] / f"{digest}.json"
    path.write_bytes(b'{"a"')

    with pytest.raises(ArtefactError, match=digest):
        list(store.iter_records("review"))

    store.append_record("review", {"a": 1})
    assert list(store.iter_records("review")) == [{"a": 1}]


@pytest.mark.parametrize("stream", ["../x", "", "A", "a/b"])
def test_stream_name_never_becomes_another_path(tmp_path: Path, stream: str) -> None:
    with pytest.raises(InputError, match="not allowed"):
        ArtefactStore(tmp_path).append_record(stream, {})


@pytest.mark.parametrize("value", [float("nan"), object()], ids=["nan", "object"])
def test_record_that_is_not_json_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(InputError, match="not plain JSON"):
        ArtefactStore(tmp_path).append_record("review", {"a": value})


def test_result_is_usable_only_while_all_its_files_are_good(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path / "store")
    ref = store.put_bytes(DATA, ".tif")
    key = digest_bytes(b"key")
    result = ItemResult(stage="collect", item_id="s", item_key=key, status="done", content_sha256=key, files={"s.tif": ref})

    assert store.check_result(result) is None
    file_of(store, ref).unlink()
    assert store.check_result(result) == f"artefact '{ref.sha256}.tif' (file 's.tif') is missing"


def test_unknown_url_is_refused_with_what_to_do() -> None:
    with pytest.raises(ArtefactError, match="no-such-protocol"):
        ArtefactStore("no-such-protocol://x")
