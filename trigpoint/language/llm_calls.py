"""One call of a language model: what it is made of, the key that names it, the body that is sent.

The key leaves out what does not decide an answer: the server's address, which of the two APIs carries it, limits and budgets.
Not here: sending and waiting (`openai_provider`), the record (`storage.calls`).
"""

import base64
import math
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel

from trigpoint.errors import InputError
from trigpoint.identity import digest_bytes, digest_json
from trigpoint.language.llm_reply import Api
from trigpoint.language.prompts import Prompt
from trigpoint.records.calls import BatchNoted, CallAnswered, CallAsked, Spent

MAX_IMAGE_BYTES = 20 << 20
"""Largest picture that is sent; servers refuse larger ones."""

_PNG = b"\x89PNG\r\n\x1a\n"
_CHARS_PER_TOKEN = 2.5
_PIXELS_PER_TOKEN = 28 * 28 / 2
"""Twice the tokens of a patch of 28 × 28 pixels: more than any model known to us takes. Only for estimates before a reply comes."""


class Message(NamedTuple):
    """One turn of a conversation; pictures by their SHA-256."""

    role: str
    text: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """What is asked.

    Attributes:
        key: SHA-256 of everything that decides the answer.
        images: SHA-256 → PNG bytes of the pictures in `messages`.
        answer: Name of the form of the answer. schema: That form as a strict JSON schema.
        inputs: What the prompt was filled with, for the record.
        parameters: Temperature, seed, limit of output tokens; those that are not set are not sent.
        about: Target and scene that it is asked for; not in the key.
    """

    key: str
    model: str
    prompt: Prompt
    answer: str
    schema: dict[str, Any]
    messages: tuple[Message, ...]
    images: Mapping[str, bytes]
    inputs: dict[str, Any]
    parameters: dict[str, Any]
    about: tuple[str, str] = ("", "")

    @property
    def max_tokens(self) -> tuple[int, int]:
        """The most tokens in and out that it may take (an estimate, on the safe side)."""
        text = sum(len(message.text) for message in self.messages) + len(str(self.schema))
        pixels = sum(width * height for width, height in map(_size_of, self.images.values()))
        return math.ceil(text / _CHARS_PER_TOKEN) + math.ceil(pixels / _PIXELS_PER_TOKEN), int(self.parameters["max_output_tokens"])


class CallLog(Protocol):
    """The record of calls, shared by threads and processes (`storage.calls`)."""

    def find(self, key: str) -> CallAnswered | None:
        """The first answer to a call; else the last failure; None if it was never asked."""
        ...

    def ask(self, ask_id: str) -> CallAsked | None:
        """The line that says that a call was asked."""
        ...

    def append(self, line: CallAsked | CallAnswered | BatchNoted) -> None:
        """Write a line for good."""
        ...

    def append_if(self, asked: CallAsked, fits: Callable[[Spent], bool]) -> bool:
        """Write that a call is asked if that fits what its budget has spent, in one step for all processes; say whether."""
        ...

    def claim(self, key: str) -> AbstractContextManager[None]:
        """Keep every other thread and process from asking this call meanwhile; a killed process holds nothing."""
        ...

    def spent(self, budget_id: str) -> Spent:
        """What a budget has paid."""
        ...

    def batches(self) -> list[BatchNoted]:
        """The newest line of every batch."""
        ...


def make_call(
    model: str,
    prompt: Prompt,
    form: type[BaseModel],
    inputs: dict[str, Any],
    image_png: bytes,
    parameters: dict[str, Any],
    about: tuple[str, str] = ("", ""),
) -> Call:
    """Fill a prompt and say what is to be asked.

    Raises:
        InputError: the picture is no PNG or too large, or the inputs are not those of the prompt.
    """
    if not image_png.startswith(_PNG) or len(image_png) < 33 or len(image_png) > MAX_IMAGE_BYTES:
        raise InputError(f"picture of {len(image_png)} bytes: expected a PNG of at most {MAX_IMAGE_BYTES} bytes")
    digest = digest_bytes(image_png)
    rendered = prompt.render(inputs)
    messages = (*((Message("system", rendered.system),) if rendered.system else ()), Message("user", rendered.user, (digest,)))
    return _keyed(model, prompt, form.__name__, strict_schema(form), messages, {digest: image_png}, inputs, parameters, about)


def repair_call(call: Call, prompt: Prompt, text: str, reason: str) -> Call:
    """Say what is asked after a reply that could not be used: the same conversation, with what was wrong."""
    rendered = prompt.render({"reason": reason})
    reply = (Message("assistant", text),) if text.strip() else ()
    messages = (*call.messages, *reply, Message("user", rendered.user))
    inputs = {"of": call.key, "reason": reason}
    return _keyed(call.model, prompt, call.answer, call.schema, messages, call.images, inputs, call.parameters, call.about)


def _keyed(
    model: str,
    prompt: Prompt,
    answer: str,
    schema: dict[str, Any],
    messages: tuple[Message, ...],
    images: Mapping[str, bytes],
    inputs: dict[str, Any],
    parameters: dict[str, Any],
    about: tuple[str, str],
) -> Call:
    key = digest_json(
        {
            "model": model,
            "prompt": prompt.sha256,
            "messages": [[message.role, message.text, list(message.images)] for message in messages],
            "schema": schema,
            "parameters": parameters,
        }
    )
    return Call(key, model, prompt, answer, schema, messages, images, inputs, parameters, about)


def strict_schema(form: type[BaseModel]) -> dict[str, Any]:
    """Return a record's JSON schema as servers take it for strict output: every field required, no others, no defaults.

    Titles and docstrings are left out: they say nothing to a model, and a reworded docstring must not make a new key.
    """
    return _strict(form.model_json_schema())


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(each) for each in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "object" and isinstance(node.get("properties"), dict):
        kept = {k: _strict(v) for k, v in node.items() if k not in ("title", "description", "properties", "default")}
        properties = {name: _strict(each) for name, each in node["properties"].items()}
        return {**kept, "properties": properties, "required": list(properties), "additionalProperties": False}
    return {k: _strict(v) for k, v in node.items() if k not in ("title", "default")}


def body_of(call: Call, api: Api) -> dict[str, Any]:
    """Return the JSON body of a call: the same for a single request and for a line of a batch."""
    shared = {"model": call.model, **{name: call.parameters[name] for name in ("temperature", "seed") if name in call.parameters}}
    limit = call.parameters["max_output_tokens"]
    form = {"name": call.answer, "strict": True, "schema": call.schema}
    if api == "responses":
        text_of = {"assistant": "output_text"}
        messages = [
            {
                "role": message.role,
                "content": [
                    {"type": text_of.get(message.role, "input_text"), "text": message.text},
                    *({"type": "input_image", "image_url": _data_url(call.images[each]), "detail": "high"} for each in message.images),
                ],
            }
            for message in call.messages
        ]
        # store: the server is to keep nothing
        return {
            **shared,
            "input": messages,
            "text": {"format": {"type": "json_schema", **form}},
            "max_output_tokens": limit,
            "store": False,
        }
    messages = [
        {
            "role": message.role,
            "content": [
                {"type": "text", "text": message.text},
                *({"type": "image_url", "image_url": {"url": _data_url(call.images[each]), "detail": "high"}} for each in message.images),
            ]
            if message.images
            else message.text,
        }
        for message in call.messages
    ]
    return {**shared, "messages": messages, "response_format": {"type": "json_schema", "json_schema": form}, "max_completion_tokens": limit}


def _data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _size_of(png: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", png[16:24])
    return width, height
