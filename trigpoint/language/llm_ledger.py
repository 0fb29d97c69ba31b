"""The lines that the record keeps of a call, what a call costs, whether a budget allows it, and counts for people.

Not here: how lines are written (`storage.calls`), when calls are made (`openai_provider`, `llm_batch`).
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from uuid import uuid4

from trigpoint.config import LanguageConfig
from trigpoint.language.llm_calls import Call
from trigpoint.language.llm_reply import Reply
from trigpoint.language.provider import CallSummary
from trigpoint.records.calls import CallAnswered, CallAsked, Spent


def asked_line(call: Call, budget_id: str, settings: LanguageConfig, batch: str | None = None) -> CallAsked:
    """Return the line that says that a call is asked, with the most that it may cost."""
    tokens_in, tokens_out = call.max_tokens
    target_id, scene_id = call.about
    return CallAsked(
        key=call.key,
        ask_id=uuid4().hex,
        budget_id=budget_id,
        model=call.model,
        prompt=call.prompt.label,
        prompt_sha256=call.prompt.sha256,
        answer=call.answer,
        inputs=call.inputs,
        images=tuple(sorted(call.images)),
        parameters=call.parameters,
        tokens=tokens_in + tokens_out,
        cost=cost_of(settings, tokens_in, 0, tokens_out, batch is not None),
        batch=batch,
        target_id=target_id,
        scene_id=scene_id,
    )


def answered_line(asked: CallAsked, reply: Reply, settings: LanguageConfig, attempts: int, request_id: str = "") -> CallAnswered:
    """Return the line that says what came back; a reply without usage counts as the most that it may have taken."""
    line = CallAnswered(
        key=asked.key,
        ask_id=asked.ask_id,
        budget_id=asked.budget_id,
        outcome="failed" if reply.error else "answered",
        text=reply.text,
        refusal=reply.refusal,
        finish=reply.finish,
        error=reply.error,
        served_model=reply.served_model,
        attempts=attempts,
        request_id=request_id,
    )
    if reply.error:
        return line
    is_estimated = reply.usage is None
    tokens_in, cached, tokens_out = reply.usage or (asked.tokens, 0, 0)
    cost = asked.cost if is_estimated else cost_of(settings, tokens_in, cached, tokens_out, asked.batch is not None)
    usage = {"tokens_in": tokens_in, "tokens_out": tokens_out, "tokens_cached": cached, "tokens_estimated": is_estimated, "cost": cost}
    return line.model_copy(update=usage)


def reply_of(line: CallAnswered) -> Reply:
    """Return a recorded reply, to be read again."""
    return Reply(line.text, line.refusal, line.finish, line.served_model, error=line.error)


def clean_reply(reply: Reply, clean: Callable[[str], str]) -> Reply:
    """Return a reply with every text of the server cleaned."""
    return reply._replace(
        text=clean(reply.text),
        refusal=clean(reply.refusal),
        finish=clean(reply.finish),
        served_model=clean(reply.served_model),
        error=clean(reply.error),
    )


def cost_of(settings: LanguageConfig, tokens_in: int, tokens_cached: int, tokens_out: int, is_batch: bool = False) -> float | None:
    """Return what so many tokens cost, or None if the model has no price."""
    price = settings.prices.get(settings.model)
    if price is None:
        return None
    cached = price.input if price.cached_input is None else price.cached_input
    cost = ((tokens_in - tokens_cached) * price.input + tokens_cached * cached + tokens_out * price.output) / 1e6
    return round(cost * (price.batch_share if is_batch else 1.0), 9)


def fits_budget(settings: LanguageConfig, spent: Spent, asked: CallAsked) -> bool:
    """Whether a call fits, at the most that it and everything unsettled may cost."""
    tokens = spent.tokens + spent.unsettled_tokens + asked.tokens
    cost = spent.cost + spent.unsettled_cost + (asked.cost or 0.0)
    return (settings.max_tokens is None or tokens <= settings.max_tokens) and (settings.max_cost is None or cost <= settings.max_cost)


def budget_message(settings: LanguageConfig, spent: Spent, asked: CallAsked) -> str:
    """Say what a budget was spent on, and what the next call would need."""
    limits = [
        f"{spent.tokens} of {settings.max_tokens} tokens (language.max_tokens)" if settings.max_tokens is not None else "",
        f"{spent.cost:.4f} of {settings.max_cost:g} (language.max_cost)" if settings.max_cost is not None else "",
    ]
    held = f", {spent.n_unsettled} more without an answer may have taken {spent.unsettled_tokens} tokens" if spent.n_unsettled else ""
    cost = "" if asked.cost is None else f" ({asked.cost:.4f})"
    return (
        f"budget {asked.budget_id!r}: {' and '.join(filter(None, limits))} are spent on {spent.n_calls} calls{held}; "
        f"the next call may need {asked.tokens} tokens{cost}; raise the limit and run again to go on"
    )


class CallCounts:
    """Counts of one provider, for all its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcomes: Counter[str] = Counter()
        self._n: Counter[str] = Counter()
        self._cost: float | None = 0.0

    def add_stage(self, label: str, outcome: str) -> None:
        """A stage of a target ended."""
        with self._lock:
            self._outcomes[f"{label}:{outcome}"] += 1

    def add_recorded(self) -> None:
        """A call had a recorded answer."""
        with self._lock:
            self._n["recorded"] += 1

    def add_asked(self, lines: Sequence[CallAnswered]) -> None:
        """Calls were sent; those that failed cost nothing."""
        with self._lock:
            for line in lines:
                self._n["resent"] += max(0, line.attempts - 1)
                if line.outcome == "answered":
                    self._n["asked"] += 1
                    self._n["in"] += line.tokens_in
                    self._n["out"] += line.tokens_out
                    self._cost = None if self._cost is None or line.cost is None else self._cost + line.cost

    def summary(self, n_unsettled: int) -> CallSummary:
        """Return the counts so far."""
        with self._lock:
            return CallSummary(
                n_asked=self._n["asked"],
                n_from_record=self._n["recorded"],
                n_resent=self._n["resent"],
                outcomes=dict(sorted(self._outcomes.items())),
                tokens_in=self._n["in"],
                tokens_out=self._n["out"],
                cost=None if self._cost is None else round(self._cost, 9),
                n_unsettled=n_unsettled,
            )
