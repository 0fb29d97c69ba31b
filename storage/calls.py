"""The record of calls to language models: one journal, written and read by several processes at once.

    <store>/calls/calls.jsonl     lines of `storage.journal`
    <store>/calls/claims.lock     which calls are being asked now (locked bytes; free when their process ends, however it ends)

Times of day live here alone. Not here: how lines are kept whole (`storage.journal`), what a call or an answer means.
"""

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storage.journal import DamagedLine, Journal, Place
from trigpoint.errors import ArtefactError
from trigpoint.records.calls import BatchNoted, CallAnswered, CallAsked, Spent

Line = CallAsked | CallAnswered | BatchNoted

_FORMS: dict[str, type[Line]] = {"asked": CallAsked, "answered": CallAnswered, "batch": BatchNoted}
_POLL_S = 0.05


class CallRecord:
    """The record in one folder; threads may share it, and any number of processes may each open it.

    Args:
        folder: A local folder (`<store>/calls`), made when absent. On a network file system its locks must work.
    """

    def __init__(self, folder: Path) -> None:
        self._answer_at: dict[str, Place] = {}
        self._failure_at: dict[str, Place] = {}
        self._ask_at: dict[str, Place] = {}
        self._open: dict[str, tuple[str, int, float]] = {}
        """Ask id → budget, tokens and cost at most, of the calls that have no recorded answer."""
        self._asks_of: dict[str, list[str]] = {}
        self._spent: dict[str, Spent] = {}
        self._batch_at: dict[str, Place] = {}
        remedy = "restore the file from a copy, or leave the line: its call is asked again"
        self._journal = Journal(folder / "calls.jsonl", "record of calls", remedy, self._take)
        self._claims = _claims_of(self.path.with_name("claims.lock"))

    @property
    def path(self) -> Path:
        """Its file."""
        return self._journal.path

    @property
    def damaged(self) -> list[DamagedLine]:
        """Lines that cannot be used."""
        return self._journal.damaged

    @property
    def is_in_place(self) -> bool:
        """Whether this record is still the file at its path: nobody has deleted or replaced it."""
        return self._journal.is_in_place

    def close(self) -> None:
        """Close the file; the record must not be used afterwards."""
        self._journal.close()

    def find(self, key: str) -> CallAnswered | None:
        """The first answer to a call; else its last failure; None if it was never asked."""
        with self._journal.lock:
            self._journal.refresh()
            place = self._answer_at.get(key) or self._failure_at.get(key)
            if place is None:
                return None
            found = self._line_at(place)
            assert isinstance(found, CallAnswered)
            return found

    def ask(self, ask_id: str) -> CallAsked | None:
        """The line that says that a call was asked; None if there is no good one."""
        with self._journal.lock:
            self._journal.refresh()
            found = self._line_at(self._ask_at[ask_id]) if ask_id in self._ask_at else None
            return found if isinstance(found, CallAsked) else None

    def append(self, line: Line) -> None:
        """Write a line for good (fsynced).

        Raises:
            ArtefactError: it cannot be written, such as on a full disk.
        """
        with self._journal.writing():
            self._journal.write(line.to_json())

    def append_if(self, asked: CallAsked, fits: Callable[[Spent], bool]) -> bool:
        """Write that a call is asked if that fits what its budget has spent, in one step for all processes; say whether."""
        with self._journal.writing():
            if not fits(self.spent(asked.budget_id)):
                return False
            self._journal.write(asked.to_json())
            return True

    def spent(self, budget_id: str) -> Spent:
        """What a budget has paid, and what calls without a recorded answer may still cost it."""
        with self._journal.lock:
            self._journal.refresh()
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
        with self._journal.lock:
            self._journal.refresh()
            lines = [self._line_at(self._batch_at[token]) for token in sorted(self._batch_at)]
            return [line for line in lines if isinstance(line, BatchNoted)]

    def lines(self) -> Iterator[tuple[str, Line]]:
        """Yield every good line with the time when it was written, in the order of writing."""
        for at, line, _ in self._journal.lines():
            with contextlib.suppress(KeyError, ValidationError):
                yield at, _line_of(line)

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

    def _take(self, _: str, line: dict[str, Any], place: Place) -> None:
        if line["line"] == "batch":
            self._batch_at[line["token"]] = place
            return
        key, ask_id = line["key"], line["ask_id"]
        if line["line"] == "asked":
            self._ask_at[ask_id] = place
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
            self._failure_at[key] = place
            self._open.pop(ask_id, None)
            return
        self._answer_at.setdefault(key, place)
        for each in self._asks_of.pop(key, []):
            self._open.pop(each, None)

    def _line_at(self, place: Place) -> Line:
        line = self._journal.line_at(place)
        try:
            return _line_of(line)
        except (KeyError, ValidationError) as error:
            raise ArtefactError(
                f"record of calls {self.path}: the line at byte {place.start} cannot be read: {error}; restore the file from a copy"
            ) from error


def _line_of(line: dict[str, Any]) -> Line:
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
