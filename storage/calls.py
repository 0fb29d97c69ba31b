"""The record of calls to language models: one append-only file of JSON lines, written and read by several processes at once.

    <store>/calls/calls.jsonl     {"sha256":"<of the bytes of body>","body":{"at":"<UTC>","line":{...}}}
    <store>/calls/claims.lock     which calls are being asked now (locked bytes; free when their process ends, however it ends)

A line is written in one piece under a lock and fsynced before anything relies on it. What a killed process left of a last
line is no line: it is passed over, and cut off before the next one is written. A line whose bytes are not those of its digest
is left where it is, named, and counts as not there. Times of day live here alone. Not here: what a call or an answer means.
"""

import contextlib
import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from trigpoint.errors import ArtefactError
from trigpoint.identity import digest_bytes
from trigpoint.records.calls import BatchNoted, CallAnswered, CallAsked, Spent

Line = CallAsked | CallAnswered | BatchNoted

_HEAD = b'{"sha256":"'
_BODY = b'","body":'
_BODY_AT = len(_HEAD) + 64 + len(_BODY)
_FORMS: dict[str, type[Line]] = {"asked": CallAsked, "answered": CallAnswered, "batch": BatchNoted}
_POLL_S = 0.05

_log = logging.getLogger(__name__)


class DamagedLine(NamedTuple):
    """A line that cannot be used."""

    path: Path
    number: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {self.reason}; restore the file from a copy, or leave the line: its call is asked again"


class CallRecord:
    """The record in one folder; threads may share it, and any number of processes may each open it.

    Args:
        folder: A local folder (`<store>/calls`), made when absent. On a network file system its locks must work.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder.resolve() / "calls.jsonl"
        self.damaged: list[DamagedLine] = []
        self._lock = threading.RLock()
        self._claims = _claims_of(self.path.with_name("claims.lock"))
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        _fsync_folder(self.path.parent)
        self._read_to = 0
        self._n_lines = 0
        self._answer_at: dict[str, tuple[int, int]] = {}
        self._failure_at: dict[str, tuple[int, int]] = {}
        self._ask_at: dict[str, tuple[int, int]] = {}
        self._open: dict[str, tuple[str, int, float]] = {}
        """Ask id → budget, tokens and cost at most, of the calls that have no recorded answer."""
        self._asks_of: dict[str, list[str]] = {}
        self._spent: dict[str, Spent] = {}
        self._batch_at: dict[str, tuple[int, int]] = {}
        self._refresh()
        for damage in self.damaged:
            _log.warning("record of calls: %s", damage)

    @property
    def is_in_place(self) -> bool:
        """Whether this record is still the file at its path: nobody has deleted or replaced it."""
        try:
            return self._file >= 0 and os.path.samestat(os.fstat(self._file), self.path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the file; the record must not be used afterwards."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def find(self, key: str) -> CallAnswered | None:
        """The first answer to a call; else its last failure; None if it was never asked."""
        with self._lock:
            self._refresh()
            place = self._answer_at.get(key) or self._failure_at.get(key)
            if place is None:
                return None
            found = self._line_at(*place)
            assert isinstance(found, CallAnswered)
            return found

    def ask(self, ask_id: str) -> CallAsked | None:
        """The line that says that a call was asked; None if there is no good one."""
        with self._lock:
            self._refresh()
            found = self._line_at(*self._ask_at[ask_id]) if ask_id in self._ask_at else None
            return found if isinstance(found, CallAsked) else None

    def append(self, line: Line) -> None:
        """Write a line for good (fsynced).

        Raises:
            ArtefactError: it cannot be written, such as on a full disk.
        """
        with self._lock, self._writing():
            self._write(line)

    def append_if(self, asked: CallAsked, fits: Callable[[Spent], bool]) -> bool:
        """Write that a call is asked if that fits what its budget has spent, in one step for all processes; say whether."""
        with self._lock, self._writing():
            if not fits(self.spent(asked.budget_id)):
                return False
            self._write(asked)
            return True

    def spent(self, budget_id: str) -> Spent:
        """What a budget has paid, and what calls without a recorded answer may still cost it."""
        with self._lock:
            self._refresh()
            open_asks = [(tokens, cost) for owner, tokens, cost in self._open.values() if owner == budget_id]
            return self._spent.get(budget_id, Spent()).model_copy(
                update={
                    "unsettled_tokens": sum(tokens for tokens, _ in open_asks),
                    "unsettled_cost": sum(cost for _, cost in open_asks),
                    "n_unsettled": len(open_asks),
                }
            )

    def batches(self) -> list[BatchNoted]:
        """The newest line of every batch, in the order of their tokens."""
        with self._lock:
            self._refresh()
            lines = [self._line_at(*self._batch_at[token]) for token in sorted(self._batch_at)]
            return [line for line in lines if isinstance(line, BatchNoted)]

    def lines(self) -> Iterator[tuple[str, Line]]:
        """Yield every good line with the time when it was written, in the order of writing."""
        with self._lock:
            self._refresh()
            data = os.pread(self._file, self._read_to, 0)
        for raw in _whole_lines(data):
            with contextlib.suppress(_DamageError, KeyError, ValidationError):
                body = _body_of(raw)
                yield str(body["at"]), _line_of(body)

    def catalogue_rows(self) -> Iterator[dict[str, Any]]:
        """Yield what the catalogue holds of calls: a row per asked or answered line, in the order of writing, always the same one."""
        asked: dict[str, tuple[datetime, CallAsked]] = {}
        for at, line in self.lines():
            if isinstance(line, BatchNoted):
                continue
            row: dict[str, Any] = {"called_at": at, "call_key": line.key, "ask_id": line.ask_id, "budget_id": line.budget_id}
            row["line"] = line.to_json()
            if isinstance(line, CallAsked):
                asked[line.ask_id] = datetime.fromisoformat(at), line
                row["status"] = "asked"
            else:
                row |= {"status": line.outcome, "input_tokens": line.tokens_in, "output_tokens": line.tokens_out, "cost": line.cost}
            if line.ask_id in asked:
                began, ask = asked[line.ask_id]
                row |= {"model": ask.model, "prompt": ask.prompt, "scene_id": ask.scene_id, "target_id": ask.target_id}
                if isinstance(line, CallAnswered):
                    row["seconds"] = (datetime.fromisoformat(at) - began).total_seconds()
                    del asked[line.ask_id]
            yield row

    @contextlib.contextmanager
    def claim(self, key: str) -> Generator[None, None, None]:
        """Keep every other thread and process from asking this call meanwhile; a killed process holds nothing."""
        with self._claims.hold(key):
            yield

    # reading

    def _refresh(self) -> None:
        """Take in what was written since the last look; the rest of a killed process's last line stays outside."""
        size = os.fstat(self._file).st_size
        if size <= self._read_to:
            return
        data = os.pread(self._file, size - self._read_to, self._read_to)
        for raw in _whole_lines(data):
            self._n_lines += 1
            try:
                self._take(_body_of(raw)["line"], self._read_to, len(raw))
            except (_DamageError, KeyError, TypeError) as error:
                reason = str(error) if isinstance(error, _DamageError) else f"not a line of this version: {error!r}"
                self.damaged.append(DamagedLine(self.path, self._n_lines, reason))
            self._read_to += len(raw)

    def _take(self, line: dict[str, Any], start: int, length: int) -> None:
        if line["line"] == "batch":
            self._batch_at[line["token"]] = (start, length)
            return
        key, ask_id = line["key"], line["ask_id"]
        if line["line"] == "asked":
            self._ask_at[ask_id] = (start, length)
            if key not in self._answer_at:
                self._open[ask_id] = (line["budget_id"], line["tokens"], line["cost"] or 0.0)
                self._asks_of.setdefault(key, []).append(ask_id)
            return
        if line["line"] != "answered":
            raise KeyError(line["line"])
        spent = self._spent.get(line["budget_id"], Spent())
        self._spent[line["budget_id"]] = spent.model_copy(
            update={
                "tokens": spent.tokens + line["tokens_in"] + line["tokens_out"],
                "cost": spent.cost + (line["cost"] or 0.0),
                "n_calls": spent.n_calls + (line["outcome"] != "failed"),
            }
        )
        if line["outcome"] == "failed":
            self._failure_at[key] = (start, length)
            self._open.pop(ask_id, None)
            return
        self._answer_at.setdefault(key, (start, length))
        for each in self._asks_of.pop(key, []):
            self._open.pop(each, None)

    def _line_at(self, start: int, length: int) -> Line:
        raw = os.pread(self._file, length, start)
        try:
            return _line_of(_body_of(raw))
        except (_DamageError, KeyError, ValidationError) as error:
            raise ArtefactError(
                f"record of calls {self.path}: the line at byte {start} cannot be read: {error}; restore the file from a copy"
            ) from error

    # writing

    @contextlib.contextmanager
    def _writing(self) -> Generator[None, None, None]:
        """Keep other processes from writing, know everything that they wrote, and cut off what one of them began."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            self._refresh()
            if os.fstat(self._file).st_size > self._read_to:
                _log.warning("record of calls %s: the rest of a half-written last line is cut off", self.path)
                os.ftruncate(self._file, self._read_to)
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _write(self, line: Line) -> None:
        body = json.dumps(
            {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "line": line.to_json()}, separators=(",", ":")
        ).encode()
        raw = _HEAD + digest_bytes(body).encode() + _BODY + body + b"}\n"
        try:
            written = os.pwrite(self._file, raw, self._read_to)
            if written != len(raw):
                raise OSError(f"wrote {written} of {len(raw)} bytes")
            os.fsync(self._file)
        except OSError as error:
            raise ArtefactError(f"record of calls {self.path}: cannot be written: {error}; make room and run again") from error
        self._refresh()


class _DamageError(Exception):
    """Why a line is not used."""


def _whole_lines(data: bytes) -> list[bytes]:
    return [raw + b"\n" for raw in data.split(b"\n")[:-1]]


def _body_of(raw: bytes) -> dict[str, Any]:
    body = raw[_BODY_AT:-2]
    if not raw.startswith(_HEAD) or raw[len(_HEAD) + 64 : _BODY_AT] != _BODY or raw[-2:] != b"}\n":
        raise _DamageError("not a line of a record of calls")
    if digest_bytes(body).encode() != raw[len(_HEAD) : len(_HEAD) + 64]:
        raise _DamageError("its bytes do not have its sha256")
    found: dict[str, Any] = json.loads(body)
    return found


def _line_of(body: dict[str, Any]) -> Line:
    line = body["line"]
    return _FORMS[line["line"]].model_validate_json(json.dumps(line))


class _Claims:
    """Claims of this process on one file: a lock among its threads, and a locked byte for other processes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._held: set[str] = set()
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def hold(self, key: str) -> Generator[None, None, None]:
        with self._changed:
            self._changed.wait_for(lambda: key not in self._held)
            self._held.add(key)
        place = int(key[:15], 16)
        try:
            while True:
                # asked again and again: a blocking call could not be interrupted
                try:
                    fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                    break
                except BlockingIOError:
                    time.sleep(_POLL_S)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)
        finally:
            with self._changed:
                self._held.discard(key)
                self._changed.notify_all()


_CLAIMS: dict[Path, _Claims] = {}
"""By path, for the life of the process: locked bytes belong to a process, and closing any handle of the file would free them."""
_CLAIMS_LOCK = threading.Lock()


def _claims_of(path: Path) -> _Claims:
    with _CLAIMS_LOCK:
        if path not in _CLAIMS:
            _CLAIMS[path] = _Claims(path)
        return _CLAIMS[path]


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_RECORDS: dict[Path, CallRecord] = {}
_RECORDS_LOCK = threading.Lock()


def open_record(folder: Path) -> CallRecord:
    """Return the record in a folder, opened and read through once per process: it is as long as everything that was ever answered."""
    with _RECORDS_LOCK:
        found = _RECORDS.get(folder)
        if found is None or not found.is_in_place:
            if found is not None:
                found.close()
            found = _RECORDS[folder] = CallRecord(folder)
        return found
