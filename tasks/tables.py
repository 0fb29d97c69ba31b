"""Tables of results: the rows of one item in a shard, the rows of many, and the digest of a table's content."""

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storage.artefacts import ArtefactStore
from tasks.workspace import Workspace
from trigpoint.identity import canonical_json, digest_bytes
from trigpoint.records.stage import ArtefactRef, ItemResult


def table_digest(table: pa.Table) -> str:
    """Digest of a table's content, independent of how it is chunked."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return digest_bytes(sink.getvalue().to_pybytes())


@lru_cache(maxsize=8)
def _shard(store: ArtefactStore, ref: ArtefactRef) -> pa.Table:
    return store.get_table(ref)


def item_table(workspace: Workspace, result: ItemResult, name: str) -> pa.Table:
    """Return one item's rows of a table."""
    shard = _shard(workspace.store, result.tables[name])  # pyright: ignore[reportArgumentType]  a frozen record is hashable
    return _rows_of(shard, result.item_id).combine_chunks()


def _rows_of(shard: pa.Table, item_id: str) -> pa.Table:
    return shard.filter(pc.field("item_id") == item_id).drop_columns(["item_id"])


def stacked_table(store: ArtefactStore, results: Sequence[ItemResult], name: str) -> pa.Table | None:
    """Stack the rows of all results, in their order, with the key of each in `item_key`; None when none has the table."""
    parts: list[pa.Table] = []
    for result in results:
        if name in result.tables:
            shard = _shard(store, result.tables[name])  # pyright: ignore[reportArgumentType]  a frozen record is hashable
            rows = _rows_of(shard, result.item_id)
            parts.append(rows.append_column("item_key", pa.array([result.item_key] * rows.num_rows, pa.string())))
    return pa.concat_tables(parts) if parts else None


def record_table(records: Iterable[dict[str, Any]]) -> pa.Table:
    """Return records as a table of their canonical JSON, one column `record`."""
    return pa.table({"record": pa.array([canonical_json(record) for record in records], pa.string())})


def item_records(workspace: Workspace, result: ItemResult, name: str) -> list[dict[str, Any]]:
    """Return the records of one item's table that `record_table` made."""
    return [json.loads(text) for text in item_table(workspace, result, name).column("record").to_pylist()]


def all_rows(workspace: Workspace, results: Sequence[ItemResult], name: str) -> pa.Table | None:
    """Stack the rows of all results without their keys."""
    stacked = stacked_table(workspace.store, results, name)
    return stacked.drop_columns(["item_key"]).combine_chunks() if stacked is not None else None
