"""An append-only file of JSON lines, written and read by several threads and processes at once.

    {"sha256":"<of the bytes of body>","body":{"at":"<UTC>","line":{...}}}

A line is written in one piece under a lock and fsynced before anything relies on it. What a killed process left of a last
line is no line: it is passed over, and cut off before the next one is written. A line whose bytes are not those of its digest
is left where it is, named, and counts as not there. Not here: what a line means (`storage.calls`, `storage.ledger`).
"""

import contextlib
import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from storage.artefacts import fsync_folder
from trigpoint.errors import ArtefactError
from trigpoint.identity import digest_bytes

_HEAD = b'{"sha256":"'
_BODY = b'","body":'
_BODY_AT = len(_HEAD) + 64 + len(_BODY)

_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where a line lies in its file, bytes."""

    start: int
    length: int


class DamagedLine(NamedTuple):
    """A line that cannot be used."""

    path: Path
    number: int
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}:{self.number}: {self.reason}; {self.remedy}"


class Journal:
    """One file; threads may share it, and any number of processes may each open it.

    Args:
        path: A local file, made when absent with its folder. On a network file system its locks must work.
        what: What to call it in messages, such as `record of calls`.
        remedy: What to do about a damaged line.
        take: Told of each good line, in order: its time, the line and its place. A KeyError, TypeError or ValueError of it says that
            this is no line of this version.
    """

    def __init__(self, path: Path, what: str, remedy: str, take: Callable[[str, dict[str, Any], Place], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path.resolve()
        self.damaged: list[DamagedLine] = []
        self.lock = threading.RLock()
        self._what, self._remedy, self._take = what, remedy, take
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        fsync_folder(self.path.parent)
        self._read_to = 0
        self._n_lines = 0
        self.refresh()
        for damage in self.damaged:
            _log.warning("%s: %s", what, damage)

    @property
    def is_in_place(self) -> bool:
        """Whether this journal is still the file at its path, as far as it was read: nobody has deleted, replaced or cut it."""
        try:
            now = os.fstat(self._file)
            return self._file >= 0 and os.path.samestat(now, self.path.stat()) and now.st_size >= self._read_to
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the file; the journal must not be used afterwards."""
        with self.lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def refresh(self) -> None:
        """Take in what was written since the last look, by whomever; the rest of a killed process's last line stays outside."""
        with self.lock:
            size = os.fstat(self._file).st_size
            if size <= self._read_to:
                return
            data = os.pread(self._file, size - self._read_to, self._read_to)
            for raw in _whole_lines(data):
                self._n_lines += 1
                try:
                    body = self._body_of(raw)
                    self._take(str(body["at"]), body["line"], Place(self._read_to, len(raw)))
                except _DamageError as error:
                    self._note(str(error))
                except (KeyError, TypeError, ValueError) as error:
                    self._note(f"not a line of this version: {error!r}")
                self._read_to += len(raw)

    def lines(self) -> Iterator[tuple[str, dict[str, Any], Place]]:
        """Yield every line with good bytes, with its time and place, in the order of writing."""
        with self.lock:
            self.refresh()
            data = os.pread(self._file, self._read_to, 0)
        start = 0
        for raw in _whole_lines(data):
            with contextlib.suppress(_DamageError, KeyError, TypeError):
                body = self._body_of(raw)
                yield str(body["at"]), body["line"], Place(start, len(raw))
            start += len(raw)

    def line_at(self, place: Place) -> dict[str, Any]:
        """Return one line.

        Raises:
            ArtefactError: its bytes are no longer those of its digest.
        """
        try:
            return self._body_of(os.pread(self._file, place.length, place.start))["line"]
        except (_DamageError, KeyError) as error:
            raise ArtefactError(
                f"{self._what} {self.path}: the line at byte {place.start} cannot be read: {error}; restore the file from a copy"
            ) from error

    @contextlib.contextmanager
    def writing(self) -> Generator[None, None, None]:
        """Keep others from writing, know everything that they wrote, and cut off what one of them began."""
        with self.lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                self.refresh()
                if os.fstat(self._file).st_size > self._read_to:
                    _log.warning("%s %s: the rest of a half-written last line is cut off", self._what, self.path)
                    os.ftruncate(self._file, self._read_to)
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def write(self, line: dict[str, Any]) -> None:
        """Write a line for good (fsynced); only inside `writing`.

        Raises:
            ArtefactError: it cannot be written, such as on a full disk.
        """
        body = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "line": line}, separators=(",", ":")).encode()
        raw = _HEAD + digest_bytes(body).encode() + _BODY + body + b"}\n"
        try:
            written = os.pwrite(self._file, raw, self._read_to)
            if written != len(raw):
                raise OSError(f"wrote {written} of {len(raw)} bytes")
            os.fsync(self._file)
        except OSError as error:
            raise ArtefactError(f"{self._what} {self.path}: cannot be written: {error}; make room and try again") from error
        self.refresh()

    def _body_of(self, raw: bytes) -> dict[str, Any]:
        body = raw[_BODY_AT:-2]
        if not raw.startswith(_HEAD) or raw[len(_HEAD) + 64 : _BODY_AT] != _BODY or raw[-2:] != b"}\n":
            raise _DamageError(f"not a line of a {self._what}")
        if digest_bytes(body).encode() != raw[len(_HEAD) : len(_HEAD) + 64]:
            raise _DamageError("its bytes do not have its sha256")
        found: dict[str, Any] = json.loads(body)
        return found

    def _note(self, reason: str) -> None:
        self.damaged.append(DamagedLine(self.path, self._n_lines, reason, self._remedy))


class _DamageError(Exception):
    """Why a line is not used."""


def _whole_lines(data: bytes) -> list[bytes]:
    return [raw + b"\n" for raw in data.split(b"\n")[:-1]]
