"""The catalogue: one DuckDB file that knows every run, result, drop, artefact, record and release. All SQL is here.

DuckDB lets one process at a time write a file. Every public method therefore opens the file, runs one short transaction
and closes it again; when another process holds the file, it waits a bounded time and then names that process.

Schema changes are numbered files `schema/NNN_<name>.sql`, applied in order in one transaction each; a file once released
is never edited. Not here: files (`storage.artefacts`), what makes a result reusable (tasks).
"""

import contextlib
import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from logging import getLogger
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import pyarrow as pa
from pydantic import ValidationError

from trigpoint.errors import CatalogueError, InputError
from trigpoint.identity import canonical_json, digest_json, make_id
from trigpoint.records.stage import Drop, ItemResult, StageName, StageSummary

SCHEMA_FOLDER = Path(__file__).parent / "schema"
"""Where the numbered migrations are."""

DOMAIN_TABLES = ("poi", "scene", "instance", "relation", "program", "sentence")
"""Tables whose rows belong to an item result, by `item_key`."""

RecordKind = Literal["review", "llm_call"]
"""Streams of records that are copied into tables of the same name."""

_RESULT_TABLES = ("item_artefact", "lineage", "item_drop", "run_item")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5
_SETTINGS = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
_HOLDER = re.compile(r"held in (?P<program>.*?)\s*\(PID (?P<pid>\d+)\)")
_LOCK_SIGNS = ("Could not set lock on file", "different configuration", "Conflicting lock")

_log = getLogger(__name__)
_jitter = random.SystemRandom()
_thread_locks: dict[str, threading.Lock] = {}
_thread_locks_guard = threading.Lock()


class RunRow(NamedTuple):
    """One run. Times are UTC; `finished_at` is None while it runs, or when its process died."""

    run_id: str
    kind: str
    state: str
    config_sha256: str
    config_json: str
    versions: dict[str, str]
    started_at: datetime
    finished_at: datetime | None
    note: str


class StageRunRow(NamedTuple):
    """One stage of one run; `summary` is None until it is finished."""

    stage_run_id: str
    run_id: str
    stage: str
    attempt: int
    state: str
    started_at: datetime
    finished_at: datetime | None
    summary: StageSummary | None


class ReleaseRow(NamedTuple):
    """One release that was published or rejected."""

    name: str
    version: str
    manifest_sha256: str
    path: str
    run_id: str
    state: str
    recorded_at: datetime


class Selection(NamedTuple):
    """The answer to a question of a person: column names and rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Migration(NamedTuple):
    """One numbered step of the schema."""

    version: int
    name: str
    sql: str


def _now_utc() -> datetime:
    return datetime.now(UTC)


class Catalogue:
    """The catalogue file, opened anew for every call.

    Args:
        path: The DuckDB file; made, and brought to the newest schema, when needed.
        wait_s: Longest wait for a process that holds the file, seconds.
        clock: Gives the time of day (with a zone); only tests need another one.
        schema_folder: Where the migrations are; only tests need another one.

    Raises:
        CatalogueError: the file is held by another process for too long, is no catalogue, or has an unknown schema.
    """

    def __init__(
        self,
        path: str | Path,
        wait_s: float = 30.0,
        clock: Callable[[], datetime] = _now_utc,
        schema_folder: Path = SCHEMA_FOLDER,
    ) -> None:
        self.path = Path(path).resolve()
        self.wait_s = wait_s
        self._clock = clock
        self._migrations = read_migrations(schema_folder)
        self._migrate()

    # ------------------------------------------------------------------ runs

    def start_run(self, run_id: str, kind: str, config_sha256: str, config_json: str, versions: dict[str, str]) -> None:
        """Record that a run begins, in state `running`; what still says so of earlier ones is `abandoned`: their process died.

        Raises:
            CatalogueError: the id is taken.
        """
        with self._write() as con:
            con.execute("UPDATE run SET state = 'abandoned', note = 'its process ended' WHERE state = 'running'")
            con.execute("UPDATE stage_run SET state = 'abandoned' WHERE state = 'running'")
            if _one(con, "SELECT 1 FROM run WHERE run_id = ?", [run_id]):
                raise CatalogueError(f"run {run_id!r} is already in catalogue {str(self.path)!r}; give every run its own id")
            con.execute(
                "INSERT INTO run BY NAME SELECT ? AS run_id, ? AS kind, 'running' AS state, ? AS config_sha256, ? AS config_json, "
                "? AS versions_json, ? AS started_at",
                [run_id, kind, config_sha256, config_json, canonical_json(versions), self._time()],
            )

    def finish_run(self, run_id: str, state: str, note: str = "") -> None:
        """Record how a run ended.

        Raises:
            CatalogueError: there is no such run.
        """
        with self._write() as con:
            self._expect_run(con, run_id)
            con.execute("UPDATE run SET state = ?, note = ?, finished_at = ? WHERE run_id = ?", [state, note, self._time(), run_id])

    def list_runs(self, limit: int = 20) -> list[RunRow]:
        """Return the newest runs, newest first."""
        with self._read() as con:
            rows = con.execute(f"SELECT {_RUN_COLUMNS} FROM run ORDER BY started_at DESC, run_id LIMIT ?", [limit]).fetchall()
        return [_run_row(row) for row in rows]

    def get_run(self, run_id: str) -> RunRow | None:
        """Return one run, or None when there is no such run."""
        with self._read() as con:
            row = _one(con, f"SELECT {_RUN_COLUMNS} FROM run WHERE run_id = ?", [run_id])
        return None if row is None else _run_row(row)

    def start_stage_run(self, run_id: str, stage: StageName) -> str:
        """Record that a stage of a run begins; return the id of this stage run.

        Raises:
            CatalogueError: there is no such run.
        """
        with self._write() as con:
            self._expect_run(con, run_id)
            row = _one(con, "SELECT count(*) FROM stage_run WHERE run_id = ? AND stage = ?", [run_id, stage])
            attempt = (row[0] if row else 0) + 1
            stage_run_id = make_id("sr", run_id, stage, attempt)
            con.execute(
                "INSERT INTO stage_run BY NAME SELECT ? AS stage_run_id, ? AS run_id, ? AS stage, ? AS attempt, 'running' AS state, "
                "? AS started_at",
                [stage_run_id, run_id, stage, attempt, self._time()],
            )
        return stage_run_id

    def finish_stage_run(self, stage_run_id: str, summary: StageSummary, state: str) -> None:
        """Record how a stage run ended, with its counts.

        Raises:
            CatalogueError: there is no such stage run.
        """
        counts = [summary.n_items, summary.n_done, summary.n_reused, summary.n_quarantined, summary.n_in, summary.n_out, summary.seconds]
        with self._write() as con:
            found = _one(
                con,
                "UPDATE stage_run SET state = ?, finished_at = ?, n_items = ?, n_done = ?, n_reused = ?, n_quarantined = ?, n_in = ?, "
                "n_out = ?, seconds = ?, summary_json = ? WHERE stage_run_id = ? RETURNING 1",
                [state, self._time(), *counts, canonical_json(summary.to_json()), stage_run_id],
            )
            if found is None:
                raise CatalogueError(f"stage run {stage_run_id!r} is not in catalogue {str(self.path)!r}; call start_stage_run first")

    def list_stage_runs(self, run_id: str) -> list[StageRunRow]:
        """Return the stage runs of a run, in the order they were started."""
        with self._read() as con:
            rows = con.execute(
                "SELECT stage_run_id, run_id, stage, attempt, state, started_at, finished_at, summary_json FROM stage_run "
                "WHERE run_id = ? ORDER BY started_at, stage, attempt",
                [run_id],
            ).fetchall()
        return [
            StageRunRow(
                stage_run_id=stage_run_id,
                run_id=run_id,
                stage=stage,
                attempt=attempt,
                state=state,
                started_at=_utc(started_at),
                finished_at=_utc_or_none(finished_at),
                summary=None if summary_json is None else StageSummary.model_validate_json(summary_json),
            )
            for stage_run_id, run_id, stage, attempt, state, started_at, finished_at, summary_json in rows
        ]

    # --------------------------------------------------------------- results

    def find_results(self, stage: StageName, item_keys: Sequence[str]) -> dict[str, ItemResult]:
        """Return the results that are known under some keys.

        A result record that cannot be read is left out with a log line, so that the item is made again. Whether the files
        of a result are still good is for `ArtefactStore.check_result` to say.
        """
        if not item_keys:
            return {}
        with self._read() as con:
            # a list as parameter: registering an Arrow table would import pandas, a third of a second for every plan
            rows = con.execute(
                "SELECT item_key, result_json FROM item_result WHERE stage = ? AND item_key IN (SELECT unnest(?::VARCHAR[])) "
                "ORDER BY item_key",
                [stage, list(item_keys)],
            ).fetchall()
        return dict(_readable_results(stage, rows))

    def list_quarantined(self, run_id: str | None = None, stage: StageName | None = None) -> list[ItemResult]:
        """Return the results that an error kept out, whole or in part, of one run or stage or of all: what `retry` takes up again."""
        with self._read() as con:
            rows = con.execute(
                "SELECT stage, item_key, result_json FROM item_result r WHERE (status = 'quarantined' OR EXISTS "
                "(SELECT 1 FROM item_drop d WHERE d.stage = r.stage AND d.item_key = r.item_key AND d.is_quarantined)) "
                f"AND (? IS NULL OR stage = ?) AND (? IS NULL OR {_OF_RUN}) ORDER BY stage, item_id, item_key",
                [stage, stage, run_id, run_id],
            ).fetchall()
        return [result for stage_name, *row in rows for _, result in _readable_results(stage_name, [tuple(row)])]

    def record_results(
        self,
        run_id: str,
        stage: StageName,
        results: list[ItemResult],
        tables: dict[str, pa.Table],
        lineage: list[tuple[str, str]],
    ) -> None:
        """Record results with their artefacts, drops, parents and rows, all in one transaction.

        A result under a known key replaces the earlier one with everything that belonged to it.

        Args:
            run_id: The run that made them.
            stage: Their stage.
            results: The results; their files must be in the store already.
            tables: Rows for `poi`, `scene`, `instance`, `relation`, `program`, `sentence`. A table has a column
                `item_key`, or a column `item_id` from which the key is taken. Columns that the catalogue does not have
                are left out; nested values for a text column are written as JSON.
            lineage: (item key of the child, content digest of a parent).

        Raises:
            InputError: a result is of another stage, two share a key, a table is unknown, or rows belong to no result.
            CatalogueError: there is no such run.
        """
        keys = [result.item_key for result in results]
        _check_results(stage, results, tables, lineage)
        now = self._time()
        with self._write() as con:
            self._expect_run(con, run_id)
            _forget(con, stage, keys)
            _insert_artefacts(con, run_id, stage, results, now)
            _insert_results(con, run_id, stage, results, now)
            _insert(
                con, "lineage", pa.table(_columns(["stage", "item_key", "parent_content_sha256"], [(stage, *pair) for pair in lineage]))
            )
            _insert_drops(con, stage, results)
            key_of = pa.table({"item_id": [r.item_id for r in results], "item_key": keys}, schema=_KEY_SCHEMA)
            for name, table in sorted(tables.items()):
                _insert_rows(con, name, table, key_of)

    def record_reuse(self, run_id: str, stage: StageName, item_keys: Sequence[str]) -> None:
        """Record that a run stands on earlier results, so that its drops and rows can be listed.

        Raises:
            CatalogueError: there is no such run.
        """
        rows = [(run_id, stage, key, True) for key in dict.fromkeys(item_keys)]
        with self._write() as con:
            self._expect_run(con, run_id)
            _insert(con, "run_item", pa.table(_columns(["run_id", "stage", "item_key", "is_reused"], rows)), "ON CONFLICT DO NOTHING")

    def forget_results(self, stage: StageName, item_keys: Sequence[str]) -> int:
        """Delete results and all their rows, so that the items are made again; return how many there were.

        Artefacts stay: they are known by their digest and may belong to other results.
        """
        with self._write() as con:
            return _forget(con, stage, item_keys)

    def list_drops(self, run_id: str | None = None, stage: StageName | None = None, quarantined_only: bool = False) -> list[Drop]:
        """Return what was dropped, sorted by stage, scope and item.

        Args:
            run_id: Only drops of the results that this run made or reused.
            stage: Only drops of this stage.
            quarantined_only: Only whole items that an error kept out.
        """
        with self._read() as con:
            rows = con.execute(
                "SELECT stage, scope_id, item_id, reason_code, detail, remedy, is_quarantined, n FROM item_drop r "
                f"WHERE (? IS NULL OR stage = ?) AND (NOT ? OR is_quarantined) AND (? IS NULL OR {_OF_RUN}) "
                "ORDER BY stage, scope_id, item_id, reason_code, item_key, position",
                [stage, stage, quarantined_only, run_id, run_id],
            ).fetchall()
        names = ("stage", "scope_id", "item_id", "reason_code", "detail", "remedy", "is_quarantined", "n")
        return [Drop(**dict(zip(names, row, strict=True))) for row in rows]

    # --------------------------------------------------- releases and records

    def record_release(self, name: str, version: str, manifest_sha256: str, path: str, run_id: str, state: str) -> None:
        """Record a release; the same manifest again updates its path, run, state and time."""
        with self._write() as con:
            con.execute(
                "INSERT INTO release BY NAME SELECT ? AS name, ? AS version, ? AS manifest_sha256, ? AS path, ? AS run_id, ? AS state, "
                "? AS recorded_at ON CONFLICT DO UPDATE SET path = excluded.path, run_id = excluded.run_id, state = excluded.state, "
                "recorded_at = excluded.recorded_at",
                [name, version, manifest_sha256, path, run_id, state, self._time()],
            )

    def list_releases(self) -> list[ReleaseRow]:
        """Return every release, newest first."""
        with self._read() as con:
            rows = con.execute(
                "SELECT name, version, manifest_sha256, path, run_id, state, recorded_at FROM release "
                "ORDER BY recorded_at DESC, name, version, manifest_sha256"
            ).fetchall()
        return [
            ReleaseRow(
                name=name, version=version, manifest_sha256=sha256, path=path, run_id=run_id, state=state, recorded_at=_utc(recorded_at)
            )
            for name, version, sha256, path, run_id, state, recorded_at in rows
        ]

    def import_records(self, kind: RecordKind, records: Iterable[dict[str, Any]]) -> int:
        """Copy records of the store into the table of their kind; return how many were new.

        Values whose name and type fit a column are put there; the whole record is kept as JSON beside them.

        Raises:
            InputError: the kind is unknown.
        """
        if kind not in ("review", "llm_call"):
            raise InputError(f"records of kind {kind!r} have no table, expected 'review' or 'llm_call'")
        unique = {digest_json(record): record for record in records}
        with self._read() as con:
            known = con.execute(
                f"SELECT record_sha256 FROM {_quote(kind)} WHERE record_sha256 IN (SELECT unnest(?::VARCHAR[]))", [list(unique)]
            ).fetchall()
        for (digest,) in known:
            del unique[digest]
        if not unique:
            return 0
        now = self._time()
        with self._write() as con:
            types = _table_columns(con, kind)
            named = [name for name in types if name not in ("record_sha256", "record_json", "imported_at")]
            rows = [
                (digest, canonical_json(record), now, *(_as_text(record.get(name)) for name in named))
                for digest, record in sorted(unique.items())
            ]
            names = ["record_sha256", "record_json", "imported_at", *named]
            table = pa.table(_columns(names, rows))
            selected = ", ".join(f"TRY_CAST({_quote(name)} AS {types[name]}) AS {_quote(name)}" for name in names)
            before = _count(con, kind)
            with _view(con, "incoming", table):
                con.execute(f"INSERT INTO {_quote(kind)} BY NAME SELECT {selected} FROM incoming ON CONFLICT DO NOTHING")
            return _count(con, kind) - before

    # ---------------------------------------------------------------- people

    def table_counts(self) -> dict[str, int]:
        """Return the number of rows of every table, by name."""
        with self._read() as con:
            names = [row[0] for row in con.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_name").fetchall()]
            return {name: _count(con, name) for name in names}

    def select(self, sql: str, limit: int = 1000) -> Selection:
        """Answer a question in SQL; nothing can be changed and no other file can be reached.

        Args:
            sql: One statement that yields rows.
            limit: At most so many rows.

        Raises:
            CatalogueError: DuckDB refuses the statement; its own message is given.
        """
        with self._read() as con:
            con.execute("SET enable_external_access = false; SET lock_configuration = true")
            try:
                cursor = con.execute(sql)
                columns = tuple(column[0] for column in cursor.description or ())
                return Selection(columns, cursor.fetchmany(limit))
            except duckdb.Error as error:
                raise CatalogueError(f"the catalogue cannot answer {sql!r}: {_first_line(error)}; correct the statement") from error

    # ------------------------------------------------------------- machinery

    @property
    def schema_version(self) -> int:
        """Number of the newest migration that this code knows; the file has it too."""
        return self._migrations[-1].version

    def _time(self) -> datetime:
        return self._clock().astimezone(UTC).replace(tzinfo=None)

    def _expect_run(self, con: duckdb.DuckDBPyConnection, run_id: str) -> None:
        if _one(con, "SELECT 1 FROM run WHERE run_id = ?", [run_id]) is None:
            raise CatalogueError(f"run {run_id!r} is not in catalogue {str(self.path)!r}; call start_run first")

    def _migrate(self) -> None:
        if self.path.exists():
            with self._read() as con:
                if self._version_of(con) == self.schema_version:
                    return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._open(read_only=False) as con:
            for migration in self._migrations[self._version_of(con) :]:
                with _transaction(con):
                    con.execute(_VERSION_TABLE)
                    con.execute(migration.sql)
                    con.execute("INSERT INTO schema_version VALUES (?, ?, ?)", [migration.version, migration.name, self._time()])

    def _version_of(self, con: duckdb.DuckDBPyConnection) -> int:
        names = {row[0] for row in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        if not names:
            return 0
        if "schema_version" not in names:
            raise CatalogueError(
                f"file {str(self.path)!r} is a DuckDB database but no trigpoint catalogue: expected a table 'schema_version', "
                f"found {sorted(names)}; give the catalogue another path"
            )
        row = _one(con, "SELECT coalesce(max(version), 0) FROM schema_version")
        version = int(row[0]) if row else 0
        if version > self.schema_version:
            raise CatalogueError(
                f"catalogue {str(self.path)!r} has schema version {version}, this trigpoint knows versions up to {self.schema_version}; "
                "use the trigpoint that wrote it or a newer one, or give another path for a new catalogue"
            )
        return version

    @contextlib.contextmanager
    def _write(self) -> Generator[duckdb.DuckDBPyConnection]:
        with self._open(read_only=False) as con, _transaction(con):
            yield con

    @contextlib.contextmanager
    def _read(self) -> Generator[duckdb.DuckDBPyConnection]:
        with self._open(read_only=True) as con:
            yield con

    @contextlib.contextmanager
    def _open(self, read_only: bool) -> Generator[duckdb.DuckDBPyConnection]:
        deadline = time.monotonic() + self.wait_s
        lock = _thread_lock(self.path)
        if not lock.acquire(timeout=max(self.wait_s, 0.001)):
            raise CatalogueError(self._busy(f"another thread of this process (PID {os.getpid()})"))
        try:
            con = self._connect(read_only, deadline)
            try:
                yield con
            except duckdb.Error as error:
                raise CatalogueError(
                    f"catalogue {str(self.path)!r} refused the transaction: {_first_line(error)}; nothing was changed: "
                    "check the values, and the disk"
                ) from error
            finally:
                con.close()
        finally:
            lock.release()

    def _connect(self, read_only: bool, deadline: float) -> duckdb.DuckDBPyConnection:
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return duckdb.connect(str(self.path), read_only=read_only, config=dict(_SETTINGS))
            except duckdb.Error as error:
                message = str(error)
                if not any(sign in message for sign in _LOCK_SIGNS):
                    raise CatalogueError(
                        f"catalogue {str(self.path)!r} cannot be opened: {message}; "
                        "check the path, or move the file away to begin a new one"
                    ) from error
                left = deadline - time.monotonic()
                if left <= 0:
                    held = _HOLDER.search(message)
                    holder = f"{held['program']} (PID {held['pid']})" if held else message
                    raise CatalogueError(self._busy(holder)) from error
                time.sleep(min(left, pause * _jitter.uniform(0.5, 1.0)))
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _busy(self, holder: str) -> str:
        return (
            f"catalogue {str(self.path)!r} is held by {holder}, waited {self.wait_s:g} s; "
            "wait until that process ends or end it, then try again: nothing was changed"
        )


def read_migrations(folder: Path) -> list[Migration]:
    """Read `NNN_<name>.sql` files in order.

    Raises:
        CatalogueError: there is none, or the numbers are not 1, 2, 3, ...
    """
    found: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        number, _, name = path.stem.partition("_")
        if not number.isdigit() or int(number) != len(found) + 1:
            raise CatalogueError(f"migration {path.name!r} is out of order, expected number {len(found) + 1:03d}; rename it")
        found.append(Migration(int(number), name, path.read_text(encoding="utf-8")))
    if not found:
        raise CatalogueError(f"folder {str(folder)!r} holds no migration such as '001_catalogue.sql'; reinstall the checkout")
    return found


_VERSION_TABLE = (
    "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, name VARCHAR NOT NULL, applied_at TIMESTAMP NOT NULL)"
)
_RUN_COLUMNS = "run_id, kind, state, config_sha256, config_json, versions_json, started_at, finished_at, note"
_OF_RUN = "EXISTS (SELECT 1 FROM run_item u WHERE u.run_id = ? AND u.stage = r.stage AND u.item_key = r.item_key)"
_KEY_SCHEMA = pa.schema([("item_id", pa.string()), ("item_key", pa.string())])


def _run_row(row: tuple[Any, ...]) -> RunRow:
    run_id, kind, state, config_sha256, config_json, versions_json, started_at, finished_at, note = row
    return RunRow(
        run_id=run_id,
        kind=kind,
        state=state,
        config_sha256=config_sha256,
        config_json=config_json,
        versions=json.loads(versions_json),
        started_at=_utc(started_at),
        finished_at=_utc_or_none(finished_at),
        note=note,
    )


def _utc(time_of_day: datetime) -> datetime:
    return time_of_day.replace(tzinfo=UTC)


def _utc_or_none(time_of_day: datetime | None) -> datetime | None:
    return None if time_of_day is None else _utc(time_of_day)


def _thread_lock(path: Path) -> threading.Lock:
    with _thread_locks_guard:
        return _thread_locks.setdefault(str(path), threading.Lock())


@contextlib.contextmanager
def _transaction(con: duckdb.DuckDBPyConnection) -> Generator[None]:
    con.execute("BEGIN TRANSACTION")
    try:
        yield
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            con.execute("ROLLBACK")
        raise
    con.execute("COMMIT")


@contextlib.contextmanager
def _view(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> Generator[None]:
    """Show an Arrow table as a view; after an error the connection is closed anyway, and the error must stay the first one."""
    con.register(name, table)
    yield
    con.unregister(name)


def _one(con: duckdb.DuckDBPyConnection, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    """Return the first row; the result is read to its end, because a connection with half-read results refuses more work."""
    rows = con.execute(sql, list(values)).fetchall()
    return rows[0] if rows else None


def _first_line(error: duckdb.Error) -> str:
    return str(error).split("\n", 1)[0]


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _count(con: duckdb.DuckDBPyConnection, table: str) -> int:
    row = _one(con, f"SELECT count(*) FROM {_quote(table)}")
    return int(row[0]) if row else 0


def _table_columns(con: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    rows = con.execute("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [table]).fetchall()
    return dict(rows)


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, pa.Array]:
    """Turn rows into Arrow columns; a column without a value is text."""
    columns: dict[str, pa.Array] = {}
    for index, name in enumerate(names):
        array = pa.array([row[index] for row in rows])
        columns[name] = array.cast(pa.string()) if pa.types.is_null(array.type) else array
    return columns


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return canonical_json(value)


def _insert(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table, conflict: str = "") -> None:
    if table.num_rows:
        with _view(con, "incoming", table):
            con.execute(f"INSERT INTO {_quote(name)} BY NAME SELECT * FROM incoming {conflict}")


def _check_results(stage: str, results: list[ItemResult], tables: dict[str, pa.Table], lineage: list[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for result in results:
        if result.stage != stage:
            raise InputError(
                f"result of item {result.item_id!r} is of stage {result.stage!r}, expected {stage!r}; record each stage by itself"
            )
        if result.item_key in seen:
            raise InputError(
                f"items {seen[result.item_key]!r} and {result.item_id!r} have the same key {result.item_key}; keys must name one item"
            )
        seen[result.item_key] = result.item_id
    for name, table in tables.items():
        if name not in DOMAIN_TABLES:
            raise InputError(f"table {name!r} is not in the catalogue, expected one of {list(DOMAIN_TABLES)}")
        if "item_key" not in table.column_names and "item_id" not in table.column_names:
            raise InputError(f"table {name!r} has neither 'item_key' nor 'item_id', found {table.column_names}; add the item of each row")
    strange = sorted({child for child, _ in lineage} - seen.keys())
    if strange:
        raise InputError(f"lineage names children that are not among the results: {strange[:3]}; record child and lineage together")


def _readable_results(stage: str, rows: list[tuple[Any, ...]]) -> Iterator[tuple[str, ItemResult]]:
    for item_key, text in rows:
        try:
            yield item_key, ItemResult.model_validate_json(text)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]["msg"]
            _log.warning("result record of stage %s, key %s is unreadable (%s): the item is made again", stage, item_key, problem)


def _forget(con: duckdb.DuckDBPyConnection, stage: str, item_keys: Sequence[str]) -> int:
    if not item_keys:
        return 0
    with _view(con, "gone", pa.table({"item_key": pa.array(item_keys, pa.string())})):
        row = _one(con, "SELECT count(*) FROM item_result WHERE stage = ? AND item_key IN (SELECT item_key FROM gone)", [stage])
        n_known = int(row[0]) if row else 0
        if n_known:
            for table in ("item_result", *_RESULT_TABLES):
                con.execute(f"DELETE FROM {table} WHERE stage = ? AND item_key IN (SELECT item_key FROM gone)", [stage])
            for table in DOMAIN_TABLES:
                con.execute(f"DELETE FROM {table} WHERE item_key IN (SELECT item_key FROM gone)")
    return n_known


def _insert_artefacts(con: duckdb.DuckDBPyConnection, run_id: str, stage: str, results: list[ItemResult], now: datetime) -> None:
    links = [
        (stage, result.item_key, role, name, ref.sha256, ref.suffix, ref.n_bytes)
        for result in results
        for role, refs in (("table", result.tables), ("file", result.files))
        for name, ref in sorted(refs.items())
    ]
    names = ["stage", "item_key", "role", "name", "sha256", "suffix", "n_bytes"]
    table = pa.table(_columns(names, links))
    _insert(con, "item_artefact", table.drop_columns(["n_bytes"]))
    known = {link[4:]: None for link in links}
    rows = [(sha256, suffix, n_bytes, run_id, stage, now) for sha256, suffix, n_bytes in known]
    names = ["sha256", "suffix", "n_bytes", "first_run_id", "first_stage", "recorded_at"]
    _insert(con, "artefact", pa.table(_columns(names, rows)), "ON CONFLICT DO NOTHING")


def _insert_results(con: duckdb.DuckDBPyConnection, run_id: str, stage: str, results: list[ItemResult], now: datetime) -> None:
    rows = [
        (stage, r.item_key, r.item_id, r.status, r.content_sha256, r.n_in, r.n_out, run_id, now, canonical_json(r.to_json()))
        for r in results
    ]
    names = ["stage", "item_key", "item_id", "status", "content_sha256", "n_in", "n_out", "run_id", "recorded_at", "result_json"]
    _insert(con, "item_result", pa.table(_columns(names, rows)))
    used = [(run_id, stage, result.item_key, False) for result in results]
    _insert(con, "run_item", pa.table(_columns(["run_id", "stage", "item_key", "is_reused"], used)))


def _insert_drops(con: duckdb.DuckDBPyConnection, stage: str, results: list[ItemResult]) -> None:
    rows = [
        (stage, r.item_key, i, d.scope_id, d.item_id, d.reason_code, d.detail, d.remedy, d.is_quarantined, d.n)
        for r in results
        for i, d in enumerate(r.drops)
    ]
    names = ["stage", "item_key", "position", "scope_id", "item_id", "reason_code", "detail", "remedy", "is_quarantined", "n"]
    _insert(con, "item_drop", pa.table(_columns(names, rows)))


def _insert_rows(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table, key_of: pa.Table) -> None:
    """Insert domain rows, over the columns that both sides have."""
    if not table.num_rows:
        return
    types = _table_columns(con, name)
    has_key = "item_key" in table.column_names
    shared = [c for c in table.column_names if c in types and c != "item_key"]
    nested = [c for c in shared if types[c] == "VARCHAR" and pa.types.is_nested(table.schema.field(c).type)]
    texts = {c: f"CAST(to_json(t.{_quote(c)}) AS VARCHAR)" if c in nested else f"t.{_quote(c)}" for c in shared}
    columns = ", ".join(["k.item_key AS item_key", *(f"{text} AS {_quote(c)}" for c, text in texts.items())])
    key = "item_key" if has_key else "item_id"
    with _view(con, "incoming", table), _view(con, "known", key_of):
        strange = _one(con, f"SELECT {key} FROM incoming ANTI JOIN known USING ({key}) LIMIT 1")
        if strange:
            raise InputError(f"table {name!r} has rows of {key} {strange[0]!r}, which is not among the results recorded with it")
        con.execute(f"INSERT INTO {_quote(name)} BY NAME SELECT {columns} FROM incoming t JOIN known k ON t.{key} = k.{key}")
