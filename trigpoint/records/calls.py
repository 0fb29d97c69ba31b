"""Calls of a language model as they are recorded: what was asked, what came back, which batches were sent.

A record holds no time of day and no key of a server: the log that keeps it notes when a line was written, beside it.
Not here: how lines are kept (`storage.calls`), what an answer is worth (`trigpoint.language.llm_reply`).
"""

from typing import Any, Literal

from pydantic import Field

from trigpoint.records.base import Record, Sha256


class CallAsked(Record):
    """Written before a call is sent: what is asked, and the most that it may cost, so that a killed process leaves nothing unknown.

    Attributes:
        key: SHA-256 of what decides the answer: model, prompt, rendered input, pictures, schema, parameters.
        ask_id: This sending of it.
        budget_id: Whose money it is.
        prompt: Name and version. answer: Name of the form of the answer.
        inputs: What the prompt was filled with. images: SHA-256 of the pictures.
        tokens, cost: The most that it may need; cost None without a price.
        batch: Token of the batch that carries it, if any.
        target_id, scene_id: The target that it was asked for; in no key, and empty where nobody said.
    """

    line: Literal["asked"] = "asked"
    key: Sha256
    ask_id: str
    budget_id: str
    model: str
    prompt: str
    prompt_sha256: Sha256
    answer: str
    inputs: dict[str, Any]
    images: tuple[Sha256, ...]
    parameters: dict[str, Any]
    tokens: int = Field(ge=0)
    cost: float | None = None
    batch: str | None = None
    target_id: str = ""
    scene_id: str = ""


class CallAnswered(Record):
    """What came back for a call, kept raw, so that a better reader needs no second answer.

    Attributes:
        outcome: `answered`, whatever it says; `failed` if nothing came back, so that it may be asked again.
        text, refusal, finish: The reply as it came, lone surrogates replaced; finish in the words of chat completions.
        error: Why it failed.
        served_model: What the server calls the model that answered.
        tokens_estimated: The server reported no usage; the tokens are our upper estimate.
        attempts: How often it was sent.
        request_id: The server's name for it.
    """

    line: Literal["answered"] = "answered"
    key: Sha256
    ask_id: str
    budget_id: str
    outcome: Literal["answered", "failed"]
    text: str = ""
    refusal: str = ""
    finish: str = ""
    error: str = ""
    served_model: str = ""
    tokens_in: int = Field(default=0, ge=0)
    tokens_out: int = Field(default=0, ge=0)
    tokens_cached: int = Field(default=0, ge=0)
    tokens_estimated: bool = False
    cost: float | None = None
    attempts: int = Field(ge=0)
    request_id: str = ""


class BatchNoted(Record):
    """How far a batch of calls is; the newest line of a token counts.

    Attributes:
        token: Ours, also in the server's metadata: it finds a batch whose id was never written down.
        state: `planned` before it is sent, `submitted`, `fetched` when every answer of it is recorded, `dead` when it never will be.
        asks: Call key → ask id.
    """

    line: Literal["batch"] = "batch"
    token: str
    state: Literal["planned", "submitted", "fetched", "dead"]
    endpoint: str
    batch_id: str = ""
    asks: dict[Sha256, str]


class Spent(Record):
    """What a budget has paid, and what it may still have to pay for calls whose answer is not recorded."""

    tokens: int = 0
    cost: float = 0.0
    n_calls: int = 0
    unsettled_tokens: int = 0
    unsettled_cost: float = 0.0
    n_unsettled: int = 0
