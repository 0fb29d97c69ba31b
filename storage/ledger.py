"""The ledger of review in its file: `<store>/reviews/decisions.jsonl`, append-only, shared by any number of reviewers' processes.

Not here: what decisions mean (`trigpoint.review.ledger`).
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from storage.journal import Journal, Place
from trigpoint.records.review import Decision
from trigpoint.review.ledger import Ledger

FILE = "decisions.jsonl"


class LedgerFile:
    """The ledger of one store.

    Args:
        folder: A local folder (`<store>/reviews`), made when absent.
    """

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger()
        self.time_of: dict[str, str] = {}
        """Decision id → when it was written, ISO 8601 UTC."""
        remedy = "restore the file from a copy, or leave the line: its decision does not count"
        self._journal = Journal(folder / FILE, "ledger of review", remedy, self._take)

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
        """Take in what others wrote, and return the decisions so far."""
        self._journal.refresh()
        return self.ledger

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
        with self._journal.writing():
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
        with self._journal.writing():
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
