"""Calls in batches, for nightly runs: half the price, an answer within a day.

A batch is in the record before it is sent, and our token for it in the server's metadata, so that a run that is killed at any
moment finds it again: by its id, or by its token where the id was never written down. Not here: which calls are missing.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from trigpoint.config import LanguageConfig
from trigpoint.errors import BudgetError, ModelError
from trigpoint.language.llm_calls import Call, CallLog, body_of
from trigpoint.language.llm_ledger import answered_line, asked_line, budget_message, clean_reply, fits_budget
from trigpoint.language.llm_reply import Reply, reply_from_payload
from trigpoint.records.calls import BatchNoted, CallAnswered, CallAsked

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch

ResultT = TypeVar("ResultT")

MAX_CALLS = 50_000
MAX_BYTES = 190_000_000
"""Largest batch that is sent. Source: OpenAI's limits of 50,000 requests and 200 MB for an input file."""

ENDPOINTS = {"responses": "/v1/responses", "chat": "/v1/chat/completions"}
_ENDED = ("completed", "failed", "expired", "cancelled")


class Batches:
    """Sends calls in batches and records what comes back.

    Attributes:
        failed: Keys of the calls that brought no answer in this run: they are not sent again before the next.
    """

    def __init__(
        self,
        client: "OpenAI",
        settings: LanguageConfig,
        calls: CallLog,
        budget_id: str,
        clean: Callable[[str], str],
        say: Callable[[str], None],
    ) -> None:
        self._client, self._settings, self._calls = client, settings, calls
        self._budget_id, self._clean, self._say = budget_id, clean, say
        self._deadline = time.monotonic() + settings.batch_wait_s
        self.failed: set[str] = set()

    def take_up(self, is_patient: bool) -> list[CallAnswered]:
        """Finish the batches that earlier runs left, and return what they brought.

        Args:
            is_patient: Wait for those that are under way.

        Raises:
            ModelError: one is under way still.
        """
        open_batches = [noted for noted in self._calls.batches() if noted.state in ("planned", "submitted")]
        found: list[BatchNoted] = []
        lines: list[CallAnswered] = []
        for noted in open_batches:
            if noted.state == "planned":
                batch_id = self._reach(lambda token=noted.token: self._id_of(token))
                if batch_id is None:
                    lines += self._give_up(noted, "its batch was never sent")
                    continue
                noted = self._note(noted, "submitted", batch_id)
            self._say(f"batch {noted.batch_id} of an earlier run is taken up: {len(noted.asks)} calls")
            found.append(noted)
        # what an earlier run's batch did not answer may be sent again in this one
        lines += self._wait_for(found, is_patient)
        self.failed.clear()
        return lines

    def send(self, missing: Iterable[Call]) -> list[CallAnswered]:
        """Send calls and wait for their answers; empty when none is missing.

        Calls are taken as they come and forgotten once their batch is sent: the pictures of one batch are in memory at a time.

        Raises:
            BudgetError: some do not fit the budget; the others are answered.
            ModelError: the server cannot be reached, or is not done in time.
        """
        noted: list[BatchNoted] = []
        over: CallAsked | None = None
        for calls in _split(missing, self._settings):
            token = uuid4().hex
            asked = {call.key: asked_line(call, self._budget_id, self._settings, token) for call, _ in calls}
            plan = BatchNoted(
                token=token, state="planned", endpoint=ENDPOINTS[self._settings.api], asks={key: line.ask_id for key, line in asked.items()}
            )
            self._calls.append(plan)
            fitting: list[bytes] = []
            for call, row in calls:
                if self._calls.append_if(asked[call.key], lambda spent, line=asked[call.key]: fits_budget(self._settings, spent, line)):
                    fitting.append(row)
                else:
                    over = over or asked[call.key]
                    plan = plan.model_copy(update={"asks": {key: ask for key, ask in plan.asks.items() if key != call.key}})
            if not fitting:
                self._note(plan, "dead")
                continue
            self._calls.append(plan)
            noted.append(self._note(plan, "submitted", self._reach(lambda rows=fitting, plan=plan: self._submit(rows, plan))))
        lines = self._wait_for(noted)
        if over is not None:
            raise BudgetError(budget_message(self._settings, self._calls.spent(self._budget_id), over))
        return lines

    def _submit(self, rows: list[bytes], plan: BatchNoted) -> str:
        file = self._client.files.create(file=("calls.jsonl", b"".join(rows)), purpose="batch")
        endpoint: Any = plan.endpoint
        batch = self._client.batches.create(
            input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"trigpoint": plan.token}
        )
        self._say(f"batch {batch.id} is sent: {len(rows)} calls")
        return batch.id

    def _id_of(self, token: str) -> str | None:
        return next((batch.id for batch in self._client.batches.list() if (batch.metadata or {}).get("trigpoint") == token), None)

    def _wait_for(self, noted: list[BatchNoted], is_patient: bool = True) -> list[CallAnswered]:
        waiting = list(noted)
        lines: list[CallAnswered] = []
        while waiting:
            for each in list(waiting):
                batch = self._reach(lambda batch_id=each.batch_id: self._client.batches.retrieve(batch_id))
                if batch.status in _ENDED:
                    waiting.remove(each)
                    lines += self._fetch(each, batch)
            if waiting:
                ids = ", ".join(each.batch_id for each in waiting)
                if not is_patient:
                    raise ModelError(f"batches {ids} are under way; wait for them with language.mode: batch, or cancel them at the server")
                if time.monotonic() > self._deadline:
                    raise ModelError(f"batches {ids} are not done after {self._settings.batch_wait_s:g} s; run again later to take them up")
                time.sleep(self._settings.batch_poll_s)
        return lines

    def _fetch(self, noted: BatchNoted, batch: "Batch") -> list[CallAnswered]:
        rows: dict[str, dict[str, Any]] = {}
        for file_id in filter(None, (batch.error_file_id, batch.output_file_id)):
            content = self._reach(lambda file_id=file_id: self._client.files.content(file_id)).content
            rows.update({row["custom_id"]: row for row in _rows(content)})
        problems = [f"{error.code}: {error.message}" for error in (batch.errors.data or [] if batch.errors else [])]
        fallback = f"batch {batch.id} ended as {batch.status} without it" + (
            f" ({self._clean('; '.join(problems[:3]))})" if problems else ""
        )
        lines = [self._record(key, ask_id, rows.get(key), noted, fallback) for key, ask_id in sorted(noted.asks.items())]
        self._note(noted, "fetched", noted.batch_id)
        n_failed = sum(line.outcome == "failed" for line in lines)
        self._say(f"batch {batch.id} is {batch.status}: {len(lines) - n_failed} answers, {n_failed} failures")
        return lines

    def _record(self, key: str, ask_id: str, row: dict[str, Any] | None, noted: BatchNoted, fallback: str) -> CallAnswered:
        response = row.get("response") if row else None
        reply = Reply(error=fallback)
        if isinstance(response, dict) and response.get("status_code") == 200:
            api = "responses" if noted.endpoint == ENDPOINTS["responses"] else "chat"
            reply = clean_reply(reply_from_payload(response.get("body"), api), self._clean)
        elif row is not None:
            reply = Reply(error=self._clean(f"batch: {json.dumps(row.get('error') or response)[:300]}"))
        asked = self._calls.ask(ask_id)
        line = (
            CallAnswered(key=key, ask_id=ask_id, budget_id=self._budget_id, outcome="failed", error=fallback, attempts=0)
            if asked is None
            else answered_line(asked, reply, self._settings, 1)
        )
        self._calls.append(line)
        if line.outcome == "failed":
            self.failed.add(key)
        return line

    def _give_up(self, noted: BatchNoted, reason: str) -> list[CallAnswered]:
        lines = [self._record(key, ask_id, None, noted, reason) for key, ask_id in sorted(noted.asks.items())]
        self._note(noted, "dead")
        return lines

    def _note(self, noted: BatchNoted, state: str, batch_id: str = "") -> BatchNoted:
        newer = BatchNoted.model_validate({**noted.to_json(), "state": state, "batch_id": batch_id})
        self._calls.append(newer)
        return newer

    def _reach(self, action: Callable[[], ResultT]) -> ResultT:
        """Do something at the server; what was noted before makes it safe to stop at any failure."""
        import openai

        try:
            return action()
        except openai.OpenAIError as error:
            raise ModelError(f"batch: {self._clean(str(error))}; run again to go on") from None


def _split(calls: Iterable[Call], settings: LanguageConfig) -> Iterator[list[tuple[Call, bytes]]]:
    """Divide calls into batches that are not too large, each call with its line of the input file; one batch is in memory at a time."""
    batch: list[tuple[Call, bytes]] = []
    size = 0
    for call in calls:
        line = {"custom_id": call.key, "method": "POST", "url": ENDPOINTS[settings.api], "body": body_of(call, settings.api)}
        row = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        if batch and (len(batch) == MAX_CALLS or size + len(row) > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((call, row))
        size += len(row)
    if batch:
        yield batch


def _rows(content: bytes) -> list[dict[str, Any]]:
    """Return the lines of a result file that name their call; others answer nothing of ours."""
    rows: list[dict[str, Any]] = []
    for raw in content.splitlines():
        try:
            row = json.loads(raw)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("custom_id"), str):
            rows.append(row)
    return rows
