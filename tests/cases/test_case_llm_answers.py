"""Cases Q01 to Q03: JSON in fences and prose, cut replies, refusals that look like answers.

vectorize-io/hindsight#2542, #645; openai/openai-python#1763, browser-use/browser-use#5148; pydantic/pydantic-ai#4310,
openai/openai-python#2847.
"""

from typing import Any

import pytest

from trigpoint.errors import InputError
from trigpoint.language.llm_reply import Judged, find_object, read_reply, reply_from_payload
from trigpoint.records.base import Record

FENCE = "`" * 3


class Phrase(Record):
    phrase: str


def judge(answer: Phrase) -> Judged:
    return Judged((answer.phrase,))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param('{"phrase":"the lake"}', {"phrase": "the lake"}, id="plain"),
        pytest.param(f'{FENCE}json\n{{"phrase":"the lake"}}\n{FENCE}', {"phrase": "the lake"}, id="fence"),
        pytest.param(f'Sure!\n{FENCE}\n{{"phrase":"the lake"}}\n{FENCE}\nHope it helps', {"phrase": "the lake"}, id="prose"),
        pytest.param(f'{{"phrase":"sign reading {FENCE}x{FENCE}"}}', {"phrase": f"sign reading {FENCE}x{FENCE}"}, id="inner"),
        pytest.param('{"phrase":"a } b { c"}', {"phrase": "a } b { c"}, id="brace_in_text"),
    ],
)
def test_q01_one_object_is_found_wherever_it_stands(content: str, expected: dict[str, Any]) -> None:
    assert find_object(content) == expected


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"phrase":"a"}\n{"phrase":"b"}', id="two"),
        pytest.param(f"{FENCE}json\n{FENCE}", id="empty_fence"),
        pytest.param('["the lake"]', id="list"),
        pytest.param('{"phrase":"x",}', id="trailing_comma"),
        pytest.param('{"phrase":"x","score":NaN}', id="nan"),
        pytest.param('{"phrase":"a","phrase":"b"}', id="dup_key"),
        pytest.param('[{"phrase":"a"}]', id="object_in_a_list"),
        pytest.param('{"outer":{"phrase":"a"},}', id="a good object within a broken one"),
        pytest.param('{"phrase":' + "[" * 100_000, id="too_deep"),
        pytest.param('{"phrase":' + "9" * 10_000 + "}", id="number_too_long"),
        pytest.param("", id="nothing"),
    ],
)
def test_q01_anything_else_is_malformed_and_nothing_is_invented(content: str) -> None:
    with pytest.raises(InputError):
        find_object(content)

    reading = read_reply(reply_from_payload(chat(content, "stop"), "chat"), Phrase, judge)

    assert reading.outcome == "malformed"
    assert reading.answer is None


@pytest.mark.parametrize(
    ("content", "finish", "expected"),
    [
        pytest.param('{"phrase":"the large buil', "length", "truncated", id="cut"),
        pytest.param('{"phrase":"the lake near"}', "length", "truncated", id="valid_but_cut"),
        pytest.param(None, "length", "truncated", id="null"),
        pytest.param('{"phrase":"the lake"}', "stop", "ok", id="ok"),
        pytest.param("", "content_filter", "content_filter", id="filter"),
        pytest.param('{"phrase":"the pond"}', "eos_token", "ok", id="odd"),
    ],
)
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_q02_how_a_reply_ended_is_looked_at_before_it_is_parsed(api: str, content: str | None, finish: str, expected: str) -> None:
    payload = chat(content, finish) if api == "chat" else responses(content, finish)

    assert read_reply(reply_from_payload(payload, api), Phrase, judge).outcome == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "refusal", "expected"),
    [
        pytest.param(None, "I cannot help with that.", "refused", id="field"),
        pytest.param("I'm sorry, I can't describe this location.", None, "refused", id="text"),
        pytest.param('{"phrase":"I cannot assist with that"}', None, "refused", id="in_json"),
        pytest.param('{"phrase":"the road that cannot be crossed"}', None, "ok", id="ok"),
        pytest.param('{"phrase":"I can’t help with that"}', None, "refused", id="curly_apostrophe"),
        pytest.param('{"phrase":"the sorry heap of stones"}', None, "ok", id="sorry_within"),
    ],
)
def test_q03_a_refusal_is_told_wherever_it_stands(content: str | None, refusal: str | None, expected: str) -> None:
    payload = chat(content, "stop")
    payload["choices"][0]["message"]["refusal"] = refusal

    reading = read_reply(reply_from_payload(payload, "chat"), Phrase, judge)

    assert reading.outcome == expected
    assert (reading.answer is not None) == (expected == "ok")


def test_a_reply_in_parts_is_read_as_one() -> None:
    payload = chat(None, "stop")
    payload["choices"][0]["message"]["content"] = [{"type": "text", "text": '{"phrase":'}, {"type": "text", "text": '"the lake"}'}]

    assert read_reply(reply_from_payload(payload, "chat"), Phrase, judge).answer == Phrase(phrase="the lake")


@pytest.mark.parametrize(
    "payload", [None, [], "x", 7, {}, {"choices": []}, {"choices": [None]}, {"choices": [{"message": 3}]}, {"choices": 5}]
)
def test_whatever_a_server_sends_is_an_outcome(payload: Any) -> None:
    for api in ("chat", "responses"):
        assert read_reply(reply_from_payload(payload, api), Phrase, judge).outcome in ("malformed", "failed")


def chat(content: str | None, finish: str) -> dict[str, Any]:
    return {"choices": [{"finish_reason": finish, "message": {"content": content}}], "model": "m"}


def responses(content: str | None, finish: str) -> dict[str, Any]:
    why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    parts = [] if content is None else [{"type": "output_text", "text": content}]
    return {
        "status": "incomplete" if why else "completed",
        "incomplete_details": {"reason": why} if why else None,
        "output": [{"type": "message", "content": parts}],
    }
