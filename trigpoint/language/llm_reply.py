"""What a reply of a language model is worth: brought to one form, its JSON found, its outcome told.

The order matters: how a reply ended is looked at before its text is parsed, so that a cut reply never counts as an answer
nor as malformed (openai-python#1763), and a refusal never as either (pydantic-ai#4310). Nothing is repaired or invented.
Not here: sending (`openai_provider`), the rules of each stage (`llm_stages`).
"""

import json
import re
from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from trigpoint.errors import InputError
from trigpoint.records.language import Outcome

Api = Literal["responses", "chat"]
ReadT = TypeVar("ReadT", bound=BaseModel)

_REFUSAL = re.compile(
    r"""^\W*(?:
        (?:i['’]?m|i\ am|we\ are)\ (?:(?:very|so|really|terribly)\ )?(?:sorry|afraid)\b
      | sorry\s*[,.;:!\-–—]
      | (?:unfortunately,?\ )?(?:i|we)
        \ (?:can\ ?not|can['’]t|am\ (?:not\ able|unable)\ to|are\ (?:not\ able|unable)\ to|won['’]t|will\ not|must)
        \ (?:help|assist|comply|provide|describe|answer|fulfil|do|identify|generate|create|write|process|support|discuss|engage
            |continue|decline|refuse)\b
      | (?:i|we)\ (?:decline|refuse)\b
      | as\ an\ ai\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""How a refusal begins. It is looked for at the start alone: `the road that cannot be crossed` is a sentence like any other."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class Reply(NamedTuple):
    """One reply of either API in one form.

    Attributes:
        finish: As in chat completions: `stop`, `length`, `content_filter`, or another word of the server.
        error: The server says that it failed to answer; nothing else counts then.
        error_code: Its code for that.
        usage: (tokens in, of these cached, out); None when the server reports none.
    """

    text: str = ""
    refusal: str = ""
    finish: str = ""
    served_model: str = ""
    usage: tuple[int, int, int] | None = None
    error: str = ""
    error_code: str = ""


class Judged(NamedTuple):
    """What a stage says of an answer of the right form.

    Attributes:
        texts: Its sentences that could end up in a release: none of them may be a refusal.
        fault: Why it cannot be used at all, or empty.
        problems: What it lacks although it can be used.
    """

    texts: tuple[str, ...]
    fault: str = ""
    problems: tuple[str, ...] = ()


class Reading(NamedTuple, Generic[ReadT]):
    """A reply as it counts."""

    outcome: Outcome
    answer: ReadT | None
    reason: str = ""
    problems: tuple[str, ...] = ()


def better_reading(first: Reading[ReadT], second: Reading[ReadT]) -> Reading[ReadT]:
    """Return which of a reply and its repeat counts: the repeat, unless only the first has an answer."""
    return second if second.answer is not None or first.answer is None else first


def reply_from_payload(payload: Any, api: Api) -> Reply:
    """Bring the JSON of a server to one form; a server that sends something else altogether has failed."""
    if not isinstance(payload, dict):
        return Reply(error=f"the server sent {type(payload).__name__}, expected an object", error_code="server_error")
    return _from_responses(payload) if api == "responses" else _from_chat(payload)


def _from_chat(payload: dict[str, Any]) -> Reply:
    choices = payload.get("choices")
    choice = _dict(choices[0]) if isinstance(choices, list) and choices else {}
    message = _dict(choice.get("message"))
    error = _dict(payload.get("error"))
    return Reply(
        text=_content(message.get("content")),
        refusal=_text(message.get("refusal")),
        finish=_text(choice.get("finish_reason")),
        served_model=_text(payload.get("model")),
        usage=_usage(payload, "prompt_tokens", "completion_tokens"),
        error=(_text(error.get("message")) or "error without message") if error and not choice else "",
        error_code=_text(error.get("code")),
    )


def _from_responses(payload: dict[str, Any]) -> Reply:
    output = payload.get("output")
    parts = [
        _dict(part)
        for item in (output if isinstance(output, list) else [])
        if _dict(item).get("type") == "message"
        for part in (_dict(item).get("content") or [])
    ]
    status = _text(payload.get("status"))
    why = _text(_dict(payload.get("incomplete_details")).get("reason"))
    error = _dict(payload.get("error"))
    finish = {"max_output_tokens": "length"}.get(why, why or "incomplete") if status == "incomplete" else "stop"
    failed = status not in ("completed", "incomplete", "")
    return Reply(
        text="".join(_text(part.get("text")) for part in parts if part.get("type") == "output_text"),
        refusal="".join(_text(part.get("refusal")) for part in parts if part.get("type") == "refusal"),
        finish=finish,
        served_model=_text(payload.get("model")),
        usage=_usage(payload, "input_tokens", "output_tokens"),
        error=f"status {status!r}: {_text(error.get('message')) or 'no message'}" if failed else "",
        error_code=_text(error.get("code")) if failed else "",
    )


def _usage(payload: dict[str, Any], name_in: str, name_out: str) -> tuple[int, int, int] | None:
    usage = _dict(payload.get("usage"))
    counts = (usage.get(name_in), _dict(usage.get(f"{name_in}_details")).get("cached_tokens", 0), usage.get(name_out))
    if all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (counts[0], counts[2])):
        cached = counts[1] if isinstance(counts[1], int) else 0
        return (int(counts[0] or 0), min(max(cached, 0), int(counts[0] or 0)), int(counts[2] or 0))
    return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _content(value: Any) -> str:
    """The text of a message that some servers divide into parts."""
    return "".join(_text(_dict(part).get("text")) for part in value) if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else ""


def find_object(text: str) -> dict[str, Any]:
    r"""Return the one JSON object in a reply, which may stand in a code fence or in prose.

    Raises:
        InputError: there is none or more than one, it is not strict JSON (NaN, a trailing comma, a key twice), or it stands in a list.

    >>> find_object('Sure!\n```json\n{"phrase": "a } b { c"}\n```\nHope it helps')
    {'phrase': 'a } b { c'}
    """
    decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_constant)
    start = text.find("{")
    if start < 0:
        raise InputError("no JSON object in it")
    try:
        found, end = decoder.raw_decode(text, start)
    except RecursionError:
        raise InputError("JSON is nested too deeply") from None
    except ValueError as error:  # also of `_pairs` and `_no_constant`, and of numbers too long to read
        raise InputError(f"not JSON: {error}") from None
    around = text[:start] + text[end:]
    if re.search(r"[{}\[\]]", around):
        raise InputError("more than one JSON object, or one within a list: expected exactly one object")
    return found


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(n for n in names if names.count(n) > 1)!r} stands twice in one object")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON value")


def read_reply(reply: Reply, form: type[ReadT], judge: Callable[[ReadT], Judged]) -> Reading[ReadT]:
    """Tell the outcome of a reply, and parse the answer of one that has one.

    Args:
        reply: The reply.
        form: What its JSON object must be, strictly.
        judge: What the stage says of an answer of that form.
    """
    early = _outcome_without_text(reply)
    if early is not None:
        return Reading(early[0], None, early[1])
    if _REFUSAL.match(reply.text):
        return Reading("refused", None, f"it begins like a refusal: {reply.text[:120]!r}")
    try:
        answer = form.model_validate_json(json.dumps(find_object(reply.text)), strict=True)
    except ValidationError as error:
        told = [f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in error.errors(include_url=False, include_input=False)]
        return Reading("malformed", None, "; ".join(told[:5]))
    except InputError as error:
        return Reading("malformed", None, str(error))
    judged = judge(answer)
    refusal = next((text for text in judged.texts if _REFUSAL.match(text)), None)
    if refusal is not None:
        return Reading("refused", None, f"a sentence of it is a refusal: {refusal[:120]!r}")
    if judged.fault:
        return Reading("malformed", None, judged.fault)
    return Reading("ok", answer, "", judged.problems)


def _outcome_without_text(reply: Reply) -> tuple[Outcome, str] | None:
    """What is known before a reply's text is looked at."""
    if reply.error:
        return "failed", reply.error
    if reply.finish == "length":
        return "truncated", "it reached the limit of output tokens (language.max_output_tokens)"
    if reply.finish == "content_filter":
        return "content_filter", "the server's content filter stopped it"
    if reply.refusal:
        return "refused", reply.refusal[:300]
    if not reply.text.strip():
        return "malformed", "it is empty"
    return None
