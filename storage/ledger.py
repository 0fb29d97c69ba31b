"""The ledger of review in its file: `<store>/reviews/decisions.jsonl`, append-only, shared by any number of reviewers' processes.

Not here: what decisions mean (`trigpoint.review.ledger`).
"""

import contextlib
import logging
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from storage.journal import Journal, Place
from trigpoint.records.review import Decision
from trigpoint.review.ledger import Ledger

FILE = "decisions.jsonl"

_log = logging.getLogger(__name__)


class LedgerFile:
    """The ledger of one store.

    Args:
        folder: A local folder (`<store>/reviews`), made when absent.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._lock = threading.RLock()
        self._open()

    def _open(self) -> None:
        self.ledger = Ledger()
        self.time_of: dict[str, str] = {}
        """Decision id → when it was written, ISO 8601 UTC."""
        remedy = "restore the file from a copy, or leave the line: its decision does not count"
        self._journal = Journal(self._path, "ledger of review", remedy, self._take)

    @property
    def path(self) -> Path:
        """Its file."""
        return self._journal.path

    @property
    def damaged(self) -> list[str]:
        """What cannot be used of it, for people."""
        return [str(line) for line in self._journal.damaged]

    def close(self) -> None:
        """Close the file; the ledger must not be used afterwards."""
        self._journal.close()

    def refresh(self) -> Ledger:
        """Take in what others wrote, and return the decisions so far; a file that was replaced is read anew."""
        with self._lock:
            if not self._journal.is_in_place:
                _log.warning("ledger of review %s: the file was replaced, and is read anew", self._path)
                self._journal.close()
                self._open()
            self._journal.refresh()
            return self.ledger

    @contextlib.contextmanager
    def _writing(self) -> Generator[None, None, None]:
        """Keep others from writing to the file that is at the path now."""
        with self._lock:
            while True:
                self.refresh()
                with self._journal.writing():
                    if self._journal.is_in_place:  # nobody replaced it before it was locked
                        yield
                        return

    def append(self, decision: Decision, seen: Mapping[str, str | None] | None = None) -> bool:
        """Write a decision for good (fsynced), if nobody decided about its items meanwhile; False: it is there already.

        Args:
            decision: The decision.
            seen: Item id → id of the newest decision that its author knew, for the items of `merged`.

        Raises:
            ConflictError: somebody did; nothing is written.
            InputError: it undoes what cannot be undone.
            ArtefactError: the file cannot be written.
        """
        with self._writing():
            if decision.decision_id in self.time_of:
                return False
            self.ledger.check(decision, seen or {})
            self._journal.write({"decision": decision.to_json()})
            return True

    def append_all(self, decisions: Iterable[Decision]) -> int:
        """Write decisions on different items, all or, when one of them may not be written, none; returns how many are new.

        A machine that stops in the middle leaves the first of them; the same call then writes the rest.

        Raises:
            ConflictError, InputError, ArtefactError: as `append`.
        """
        with self._writing():
            new = [decision for decision in decisions if decision.decision_id not in self.time_of]
            for decision in new:
                self.ledger.check(decision, {})
            for decision in new:
                self._journal.write({"decision": decision.to_json()})
            return len(new)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield every decision with its id and time as plain JSON, in order of writing, for the catalogue."""
        for at, line, _ in self._journal.lines():
            decision = Decision.model_validate(line["decision"])
            yield {"decision_id": decision.decision_id, "decided_at": at, **decision.to_json()}

    def _take(self, at: str, line: dict[str, Any], _: Place) -> None:
        decision = Decision.model_validate(line["decision"])
        self.time_of.setdefault(decision.decision_id, at)
        self.ledger.add(decision)
