"""Both stages by any server that speaks OpenAI's API: asked live, replayed from the record, or sent in batches.

A call that has a recorded answer is never sent again; every call is in the record, with the most that it may cost, before it is
sent. How a call ends is an outcome, not an exception; exceptions are for what stops all calls (budget, key, model, a missing record).
The key is read from the environment, given to the client, and taken out of whatever the server says. Not here: what a reply is
worth (`llm_reply`), speed (`llm_limits`), batches (`llm_batch`), the record (`storage.calls`).
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel

from trigpoint.config import LanguageConfig
from trigpoint.errors import BudgetError, CallMissingError, ConfigError
from trigpoint.identity import digest_json
from trigpoint.language.llm_batch import Batches
from trigpoint.language.llm_calls import Call, CallLog, body_of, make_call, repair_call
from trigpoint.language.llm_ledger import CallCounts, answered_line, asked_line, budget_message, clean_reply, fits_budget, reply_of
from trigpoint.language.llm_limits import RateLimiter, backoff_s, retry_after_s
from trigpoint.language.llm_reply import Judged, Reply, better_reading, read_reply, reply_from_payload
from trigpoint.language.llm_stages import judge_generated, judge_verified
from trigpoint.language.prompts import load_prompt
from trigpoint.language.provider import (
    CallSummary,
    GenerationRequest,
    StageAnswer,
    TargetRequests,
    VerificationRequest,
    ask_target,
)
from trigpoint.records.calls import CallAnswered
from trigpoint.records.language import Generated, Verified

if TYPE_CHECKING:
    from openai import OpenAI

FormT = TypeVar("FormT", bound=BaseModel)

PROMPT_FILES = ("generate.v1.md", "verify.v1.md", "repair.v1.md")
"""The prompts of the two stages and of the repeat after an unusable reply."""

_MISTAKES = {401: "does not accept the key", 403: "does not accept the key for this", 404: "does not know the model or the address"}
"""Answers that every further call would get too: they stop a build instead of spoiling each item."""

_BUSY_CODES = ("server_error", "rate_limit_exceeded")


class _MissingCallError(CallMissingError):
    """A call without a recorded answer, when nothing may be sent."""

    def __init__(self, message: str, call: Call) -> None:
        super().__init__(message)
        self.call = call


class _TroubleError(Exception):
    """An attempt that brought no reply.

    Attributes:
        is_passing: Whether another attempt may go better.
        wait_s: How long the server asks to wait.
        stops: The error that stops all calls, if it is such a one.
    """

    def __init__(
        self, reason: str, is_passing: bool = False, wait_s: float | None = None, stops: type[ConfigError] | type[BudgetError] | None = None
    ) -> None:
        super().__init__(reason)
        self.is_passing, self.wait_s, self.stops = is_passing, wait_s, stops


class _Sent(NamedTuple):
    reply: Reply
    attempts: int
    request_id: str = ""
    stops: type[ConfigError] | type[BudgetError] | None = None


class OpenAIProvider:
    """Writes and checks sentences with a model behind OpenAI's API; threads may share it. Close it after use, or use it as a context.

    Args:
        settings: The `language` block.
        prompts: Folder of the prompt files.
        calls: The record of calls.
        budget_id: Whose money is spent, over all runs and processes: name and version of the release.
        seed: Of the release; for the jitter of waits.

    Raises:
        ConfigError: the key is not in the environment, or the openai package is not installed. Neither is needed to replay.
        InputError: a prompt file breaks its rules.
    """

    def __init__(self, settings: LanguageConfig, prompts: Path, calls: CallLog, budget_id: str, seed: int = 0) -> None:
        self.settings = settings
        self.calls = calls
        self.budget_id = budget_id
        self.concurrency = settings.concurrency
        self._seed = seed
        self._generate, self._verify, self._repair = (load_prompt(prompts / name) for name in PROMPT_FILES)
        self._key, self._client = ("", None) if settings.mode == "replay" else _open_client(settings)
        self._limiter = RateLimiter(settings.requests_per_minute, settings.tokens_per_minute)
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._under_way = 0
        self._settled = threading.Condition()
        self._counts = CallCounts()
        self._preparing: set[str] | None = None
        self._stopped = ""
        sent = {"temperature": settings.temperature, "seed": settings.seed, "max_output_tokens": settings.max_output_tokens}
        self._parameters = {name: value for name, value in sent.items() if value is not None}

    def __enter__(self) -> "OpenAIProvider":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the server."""
        if self._client is not None:
            self._client.close()

    @property
    def name(self) -> str:
        """The model."""
        return self.settings.model

    @property
    def summary(self) -> CallSummary:
        """What was done since this provider was opened."""
        return self._counts.summary(self.calls.spent(self.budget_id).n_unsettled)

    def generate(self, request: GenerationRequest) -> StageAnswer[Generated]:
        """Stage 1: sentences about the outlined target, and names of what is absent."""
        inputs = {"category": request.category, "candidates": list(request.candidates)}
        call = make_call(self.settings.model, self._generate, Generated, inputs, request.outlined_png, self._parameters, _about(request))
        return self._run_stage(call, Generated, judge_generated(request.category))

    def verify(self, request: VerificationRequest) -> StageAnswer[Verified]:
        """Stage 2: what holds of stage 1 against the scene as it is."""
        inputs = {"category": request.category, "negatives": list(request.negatives), "referring": list(request.referring)}
        call = make_call(self.settings.model, self._verify, Verified, inputs, request.raw_png, self._parameters, _about(request))
        return self._run_stage(call, Verified, judge_verified(request.category, request.negatives, request.referring))

    def prepare(self, requests: TargetRequests, say: Callable[[str], None]) -> None:
        """Take up the batches that earlier runs left; in batch mode, send what is not recorded, round after round, until both stages are.

        What does not fit the budget is left out, and raises when it is asked for.

        Raises:
            ModelError: the server did not finish in `batch_wait_s`, or could not be reached; the next run goes on from there. In
                live mode: a batch is still under way, and its calls would be paid twice.
        """
        if self._client is None:
            return
        with self.calls.claim(digest_json("batches")):
            batches = Batches(self._client, self.settings, self.calls, self.budget_id, self.clean, say)
            self._preparing = batches.failed
            try:
                self._counts.add_asked(batches.take_up(is_patient=self.settings.mode == "batch"))
                while self.settings.mode == "batch" and (sent := batches.send(self._missing_calls(requests))):
                    self._counts.add_asked(sent)
            except BudgetError as error:
                self._stopped = str(error)
            finally:
                self._preparing = None

    def _missing_calls(self, requests: TargetRequests) -> Iterator[Call]:
        """Yield the next call of every target that has one without an answer, each call once."""
        seen: set[str] = set()
        for request in requests:
            try:
                ask_target(self, request)
            except _MissingCallError as error:
                if error.call.key not in seen:
                    seen.add(error.call.key)
                    yield error.call

    def _run_stage(self, call: Call, form: type[FormT], judge: Callable[[FormT], Judged]) -> StageAnswer[FormT]:
        answered, asked = self._answer(call)
        replies = [answered]
        reading, text = read_reply(reply_of(answered), form, judge), answered.text
        if reading.outcome == "malformed" or reading.problems:
            reason = reading.reason or "; ".join(reading.problems)
            repaired, asked_again = self._answer(repair_call(call, self._repair, answered.text, reason))
            replies.append(repaired)
            asked = asked or asked_again
            second = read_reply(reply_of(repaired), form, judge)
            if better_reading(reading, second) is second:
                reading, text = second, repaired.text
        costs = [each.cost for each in replies if each.outcome == "answered"]
        if self._preparing is None:
            self._counts.add_stage(call.prompt.label, reading.outcome)
        return StageAnswer(
            outcome=reading.outcome,
            answer=reading.answer,
            text=text,
            reason=reading.reason,
            problems=reading.problems,
            tokens_in=sum(each.tokens_in for each in replies),
            tokens_out=sum(each.tokens_out for each in replies),
            cost=None if None in costs else round(sum(cost or 0.0 for cost in costs), 9),
            model=self.settings.model,
            prompt=call.prompt.label,
            from_record=not asked,
        )

    def _answer(self, call: Call) -> tuple[CallAnswered, bool]:
        """Return the answer to a call, and whether it was asked for now."""
        known = self.calls.find(call.key)
        if (known is None or known.outcome == "failed") and self.settings.mode == "live":
            with self.calls.claim(call.key):
                known = self.calls.find(call.key)
                if known is None or known.outcome == "failed":
                    return self._ask(call), True
        # in batch mode a failure counts once this run has tried, too
        if known is None or (known.outcome == "failed" and self._preparing is not None and call.key not in self._preparing):
            if self._stopped:
                raise BudgetError(self._stopped)
            hint = "run with language.mode: live once" if self.settings.mode == "replay" else "its batch was not sent"
            raise _MissingCallError(
                f"no answer is recorded for call {call.key} ({call.prompt.label}, model {call.model}, inputs {call.inputs}); {hint}", call
            )
        if self._preparing is None:
            self._counts.add_recorded()
        return known, False

    # asking

    def clean(self, text: str) -> str:
        """Take the key out of what a server said."""
        return text.replace(self._key, "[key]") if self._key else text

    def _ask(self, call: Call) -> CallAnswered:
        """Record that a call is asked, send it, and record what came back."""
        asked = asked_line(call, self.budget_id, self.settings)
        with self._settled:
            while not self._stopped and not self.calls.append_if(asked, lambda spent: fits_budget(self.settings, spent, asked)):
                if self._under_way == 0:
                    self._stopped = budget_message(self.settings, self.calls.spent(self.budget_id), asked)
                else:
                    # it may fit once the calls under way have taken less than they might have
                    self._settled.wait()
            if self._stopped:
                raise BudgetError(self._stopped)
            self._under_way += 1
        try:
            sent = self._send(call)
            answered = answered_line(asked, sent.reply, self.settings, sent.attempts, sent.request_id)
            self.calls.append(answered)
        finally:
            with self._settled:
                self._under_way -= 1
                self._settled.notify_all()
        self._counts.add_asked([answered])
        if sent.stops is BudgetError:
            self._stopped = answered.error
        if sent.stops is not None:
            raise sent.stops(answered.error)
        return answered

    def _send(self, call: Call) -> _Sent:
        """Send a call until a reply comes, as often as its failures allow."""
        body, tokens = body_of(call, self.settings.api), sum(call.max_tokens)
        attempt = 0
        while True:
            attempt += 1
            try:
                with self._slots:
                    ticket = self._limiter.wait(tokens)
                    payload, request_id = self._post(body, call.key)
                reply = clean_reply(reply_from_payload(payload, self.settings.api), self.clean)
                self._limiter.settle(ticket, tokens if reply.usage is None else reply.usage[0] + reply.usage[2])
                if reply.error and reply.error_code in _BUSY_CODES:
                    raise _TroubleError(reply.error, is_passing=True)
                return _Sent(reply, attempt, request_id)
            except _TroubleError as trouble:
                reason = self.clean(str(trouble))
                if not trouble.is_passing or attempt == self.settings.attempts:
                    times = f" ({attempt} attempts)" if attempt > 1 else ""
                    return _Sent(Reply(error=f"{reason}{times}"), attempt, stops=trouble.stops)
                wait_s = backoff_s(self.settings.backoff_s, self.settings.max_wait_s, self._seed, call.key, attempt)
                if trouble.wait_s is None:
                    time.sleep(wait_s)
                else:
                    # the server is busy for everyone
                    self._limiter.pause(min(trouble.wait_s, self.settings.max_wait_s))

    def _post(self, body: dict[str, Any], key: str) -> tuple[Any, str]:
        """Send one attempt and return its JSON and the server's name for it.

        The call's key goes along as idempotency key: a server that honours it bills a call that is sent again after a kill or
        a timeout once.
        """
        import openai

        assert self._client is not None
        options: dict[str, Any] = {"extra_headers": {"Idempotency-Key": key}}
        send: Any = self._client.chat.completions.with_raw_response.create
        if self.settings.api == "responses":
            send = self._client.responses.with_raw_response.create
            # the client knows no seed here; servers that do take it from the body
            options["extra_body"] = {"seed": body["seed"]} if "seed" in body else None
            body = {name: value for name, value in body.items() if name != "seed"}
        try:
            raw = send(**body, **options)
            return json.loads(raw.http_response.content), self.clean(str(raw.request_id or ""))
        except openai.OpenAIError as error:
            raise _trouble_of(error) from None
        except ValueError:
            raise _TroubleError("the server sent no JSON", is_passing=True) from None


def _about(request: GenerationRequest | VerificationRequest) -> tuple[str, str]:
    return request.target_id, request.scene_id


def _trouble_of(error: Exception) -> _TroubleError:
    """Say what an error of the client means: whether to wait, to give the call up, or to stop."""
    import openai

    if isinstance(error, openai.APITimeoutError):
        return _TroubleError("the server did not answer in time", is_passing=True)
    if isinstance(error, openai.APIConnectionError):
        return _TroubleError(f"no connection to the server: {error.__cause__ or error}", is_passing=True)
    if not isinstance(error, openai.APIStatusError):
        return _TroubleError(f"{type(error).__name__}: {error}")
    status, reason = error.status_code, f"HTTP {error.status_code}: {error.message}"
    if status == 429 and error.code == "insufficient_quota":
        return _TroubleError(f"the account has no money left: {reason}", stops=BudgetError)
    if status in _MISTAKES:
        reason = f"the server {_MISTAKES[status]} ({reason}); check language.key_variable, base_url, api and model"
        return _TroubleError(reason, stops=ConfigError)
    may_retry = error.response.headers.get("x-should-retry") != "false"
    if status in (408, 409, 429) or status >= 500:
        wait_s = retry_after_s(error.response.headers) if status in (429, 503) else None
        return _TroubleError(reason, is_passing=may_retry, wait_s=wait_s)
    return _TroubleError(reason)


def _open_client(settings: LanguageConfig) -> "tuple[str, OpenAI]":
    try:
        from openai import OpenAI
    except ImportError as error:
        raise ConfigError("language.provider openai needs a package that is not installed: pip install 'trigpoint[llm]'") from error
    key = "" if settings.key_variable is None else os.environ.get(settings.key_variable, "").strip()
    if settings.key_variable is not None and not key:
        raise ConfigError(
            f"the environment has no {settings.key_variable}, which holds the key of {settings.base_url}; set it, or use "
            "language.mode: replay or language.provider: offline (language.key_variable: null for a server without keys)"
        )
    # retries are ours: the client's wait out any Retry-After and know no budget
    return key, OpenAI(api_key=key or "none", base_url=settings.base_url, max_retries=0, timeout=settings.timeout_s)
