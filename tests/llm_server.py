"""A server on 127.0.0.1 that speaks OpenAI's API over real HTTP, plays what a test scripts, and keeps its own accounts."""

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

DATA = re.compile(r"<data>(.*?)</data>", re.DOTALL)


class Billed(NamedTuple):
    idempotency_key: str
    category: str
    form: str
    tokens_in: int
    tokens_out: int


class Asked(NamedTuple):
    """A request as the server understood it."""

    api: str
    category: str
    form: str
    texts: list[str]
    data: list[Any]
    n_images: int
    body: dict[str, Any]


@dataclass
class LlmServer:
    """Plays per category, or per `category|Form`; the n-th request for it gets the n-th play, the last one repeats.

    good, wrong_directions, present_negatives, corrects, forgets, nameless, refusal, refusal_text, refusal_in_json, cut, cut_valid, filter,
    fenced, prose, broken, empty, extra_key, surrogate, no_usage, failed, html, quota, slow, drop, drop_billed, echo_key,
    a status such as 500, or a status and seconds to wait such as 429:2
    """

    plays: dict[str, list[str]] = field(default_factory=dict)
    latency_s: float = 0.0
    honours_keys: bool = True
    billed: list[Billed] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    authorizations: set[str] = field(default_factory=set)
    spans: list[tuple[float, float, str]] = field(default_factory=list)
    """When a call arrived, when it was answered, its idempotency key."""
    most_at_once: int = 0
    n_requests: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    batch_ends_as: str = "completed"
    polls_until_done: int = 2
    _at_once: int = 0
    _answers: dict[str, Any] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.RLock)

    def __enter__(self) -> Self:
        owner = self

        class Handler(_Handler):
            server_of = owner

        self._http = _Http(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def tokens(self) -> int:
        return sum(each.tokens_in + each.tokens_out for each in self.billed)

    def play_of(self, asked: Asked) -> str:
        place = f"{asked.category}|{asked.form}"
        with self._lock:
            n = self._counts.get(place, 0)
            self._counts[place] = n + 1
        plays = self.plays.get(place) or (self.plays.get(asked.category) if asked.form == "Generated" else None) or ["good"]
        return plays[min(n, len(plays) - 1)]

    def bill(self, key: str, asked: Asked, text: str) -> tuple[int, int]:
        tokens = 100 + sum(len(each) for each in asked.texts) // 4, 1 + len(text) // 4
        with self._lock:
            self.billed.append(Billed(key, asked.category, asked.form, *tokens))
        return tokens

    def understand(self, api: str, body: dict[str, Any]) -> Asked:
        """Take a body apart as a strict server does, and complain of what a real one would refuse."""
        if api == "responses":
            form, messages, wanted = body["text"]["format"], body["input"], "input_text"
            if body.get("store") is not False:
                self.complaints.append("responses: store is not false")
        else:
            form, messages, wanted = body["response_format"]["json_schema"], body["messages"], "text"
        parts = [
            (m["role"], p)
            for m in messages
            for p in (m["content"] if isinstance(m["content"], list) else [{"type": wanted, "text": m["content"]}])
        ]
        texts = [part["text"] for role, part in parts if "text" in part and role != "assistant"]
        urls = [part["image_url"] if api == "responses" else part["image_url"]["url"] for _, part in parts if "image_url" in part]
        if any(not url.startswith("data:image/png;base64,iVBOR") for url in urls):
            self.complaints.append(f"picture is no PNG data URL: {urls[0][:60]}")
        if form["strict"] is not True or _loose(form["schema"]):
            self.complaints.append(f"schema is not strict: {form}")
        roles = [role for role, _ in parts]
        if roles[0] != "system" or "user" not in roles:
            self.complaints.append(f"roles are {roles}")
        data = [json.loads(found) for text in texts[1:] for found in DATA.findall(text)]
        asked = Asked(api, data[0], form["name"], texts, data, len(urls), body)
        with self._lock:
            self.asked.append(asked)
        return asked


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: else every second reply waits for an acknowledgement
    disable_nagle_algorithm = True
    server_of: LlmServer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def reply(self, status: int, payload: Any, headers: dict[str, str] | None = None, raw: bytes | None = None) -> None:
        data = json.dumps(payload).encode() if raw is None else raw
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "x-request-id": "req-1", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(2)

    def do_GET(self) -> None:
        server = self.server_of
        parts = self.path.split("?")[0].strip("/").split("/")[1:]
        if parts == ["batches"]:
            self.reply(200, {"object": "list", "data": list(server.batches.values()), "has_more": False})
        elif parts[0] == "batches" and parts[1] in server.batches:
            batch = server.batches[parts[1]]
            batch["polls"] += 1
            if batch["status"] == "in_progress" and batch["polls"] >= server.polls_until_done:
                _finish_batch(server, batch)
            self.reply(200, batch)
        elif parts[0] == "files" and parts[2:] == ["content"]:
            self.reply(200, None, raw=server.files[parts[1]])
        else:
            self.reply(404, _error("no such thing"))

    def do_POST(self) -> None:
        server = self.server_of
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with server._lock:
            server.arrivals.append(time.monotonic())
            server.authorizations.add(self.headers.get("Authorization", ""))
            server.n_requests += 1
            server._at_once += 1
            server.most_at_once = max(server.most_at_once, server._at_once)
        try:
            if self.path == "/v1/files":
                self.take_file(body)
            elif self.path == "/v1/batches":
                self.take_batch(json.loads(body))
            else:
                began = time.monotonic()
                self.answer("responses" if self.path.endswith("/responses") else "chat", json.loads(body))
                server.spans.append((began, time.monotonic(), self.headers.get("Idempotency-Key", "")))
        finally:
            with server._lock:
                server._at_once -= 1

    def answer(self, api: str, body: dict[str, Any]) -> None:
        server, key = self.server_of, self.headers.get("Idempotency-Key", "")
        asked = server.understand(api, body)
        time.sleep(server.latency_s)
        with server._lock:
            known = server._answers.get(key) if server.honours_keys else None
        if known is not None:
            self.reply(200, known)
            return
        play = server.play_of(asked)
        if play == "slow":
            time.sleep(1.0)
        if play == "drop":
            self.hang_up()
        elif play == "html":
            self.reply(200, None, raw=b"<html>a proxy</html>")
        elif play == "quota":
            self.reply(429, _error("no money", "insufficient_quota"))
        elif play == "echo_key":
            self.reply(400, _error(f"Incorrect API key provided: {self.headers['Authorization'].removeprefix('Bearer ')}"))
        elif play[0].isdigit():
            status, _, wait = play.partition(":")
            self.reply(int(status), _error("scripted"), {"Retry-After": wait} if wait else {})
        else:
            payload = payload_of(server, key, asked, play)
            if play != "failed":
                with server._lock:
                    server._answers[key] = payload
            if play == "drop_billed":
                self.hang_up()
            else:
                self.reply(200, payload)

    def take_file(self, body: bytes) -> None:
        boundary = b"--" + self.headers["Content-Type"].split("boundary=")[1].encode()
        part = next(each for each in body.split(boundary) if b"filename=" in each)
        name = f"file-{len(self.server_of.files) + 1}"
        self.server_of.files[name] = part.split(b"\r\n\r\n", 1)[1][:-2]
        self.reply(
            200,
            {
                "id": name,
                "object": "file",
                "bytes": 1,
                "created_at": 1,
                "filename": "calls.jsonl",
                "purpose": "batch",
                "status": "processed",
            },
        )

    def take_batch(self, body: dict[str, Any]) -> None:
        name = f"batch-{len(self.server_of.batches) + 1}"
        self.server_of.batches[name] = {
            "id": name, "object": "batch", "endpoint": body["endpoint"], "errors": None, "input_file_id": body["input_file_id"],
            "completion_window": body["completion_window"], "status": "in_progress", "output_file_id": None, "error_file_id": None,
            "created_at": 1, "metadata": body.get("metadata"), "polls": 0,
        }  # fmt: skip
        self.reply(200, self.server_of.batches[name])


def _finish_batch(server: LlmServer, batch: dict[str, Any]) -> None:
    batch["status"] = server.batch_ends_as
    if server.batch_ends_as == "failed":
        batch["errors"] = {"object": "list", "data": [{"code": "invalid_file", "message": "scripted", "line": 1, "param": None}]}
        return
    good, bad = [], []
    for raw in server.files[batch["input_file_id"]].splitlines():
        line = json.loads(raw)
        asked = server.understand(line["url"].removeprefix("/v1/").split("/")[0].replace("completions", "chat"), line["body"])
        play = server.play_of(asked)
        if play[0].isdigit():
            response = {"status_code": int(play), "request_id": "r", "body": _error("scripted")}
            bad.append({"id": "x", "custom_id": line["custom_id"], "response": response, "error": None})
        else:
            response = {"status_code": 200, "request_id": "r", "body": payload_of(server, line["custom_id"], asked, play)}
            good.append({"id": "x", "custom_id": line["custom_id"], "response": response, "error": None})
    for place, rows in (("output_file_id", good), ("error_file_id", bad)):
        if rows:
            batch[place] = f"{batch['id']}-{place}"
            server.files[batch[place]] = "\n".join(json.dumps(row) for row in rows).encode()


def _error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted", "code": code, "param": None}}


def _loose(schema: Any) -> bool:
    """Whether a schema has an object that a strict server refuses."""
    if isinstance(schema, list):
        return any(map(_loose, schema))
    if not isinstance(schema, dict):
        return False
    is_object = schema.get("type") == "object"
    if is_object and (schema.get("additionalProperties") is not False or set(schema["required"]) != set(schema["properties"])):
        return True
    return (not is_object and "default" in schema) or any(map(_loose, schema.values()))


def payload_of(server: LlmServer, key: str, asked: Asked, play: str) -> dict[str, Any]:
    """Make and bill the JSON of a reply."""
    answer = json.dumps(answer_of(asked, play), ensure_ascii=False)
    refusal, finish = None, "stop"
    text: str | None = {
        "refusal": None,
        "refusal_text": "I'm sorry, I can't describe this location.",
        "cut": answer[: len(answer) // 2],
        "cut_valid": answer,
        "filter": "",
        "fenced": f"```json\n{answer}\n```",
        "prose": f"Sure!\n```\n{answer}\n```\nHope it helps",
        "broken": answer[:-1] + ",}",
        "empty": "",
        "extra_key": answer[:-1] + ', "note": "hello"}',
        "surrogate": answer.replace("airport", "\\ud800"),
    }.get(play, answer)
    if play == "refusal":
        refusal = "I cannot help with that."
    finish = {"cut": "length", "cut_valid": "length", "filter": "content_filter"}.get(play, "stop")
    failed = play == "failed"
    tokens_in, tokens_out = (0, 0) if failed else server.bill(key, asked, text or refusal or "")
    if asked.api == "chat":
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, "refusal": refusal}}
        usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
        payload: dict[str, Any] = {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "mock-1",
            "choices": [choice],
            "usage": usage,
        }
        return {**payload, "choices": [], "error": {"message": "boom", "code": "server_error"}} if failed else payload
    part = {"type": "refusal", "refusal": refusal} if refusal else {"type": "output_text", "text": text, "annotations": []}
    why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    usage = {
        "input_tokens": tokens_in,
        "output_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
        "input_tokens_details": {"cached_tokens": 0},
    }
    return {
        "id": "r", "object": "response", "created_at": 1, "model": "mock-1",
        "status": "failed" if failed else "incomplete" if why else "completed",
        "error": {"code": "server_error", "message": "boom"} if failed else None,
        "incomplete_details": {"reason": why} if why else None,
        "output": [{"type": "reasoning", "id": "x", "summary": []}, {"type": "message", "role": "assistant", "content": [part]}],
        "usage": None if play == "no_usage" else usage,
    }  # fmt: skip


def answer_of(asked: Asked, play: str) -> dict[str, Any]:
    """What the model says."""
    c = asked.category
    if asked.form == "Generated":
        side = "south" if play == "wrong_directions" else "north"
        names = ["the place"] * 2 if play == "nameless" else [c] * 2
        sorry = "I cannot assist with that" if play == "refusal_in_json" else f"the {names[0]} in the {side}"
        return {
            "positive_ovs_phrases": [c, f"{c} area"],
            "positive_res_phrases": [sorry, f"the {names[1]} beside the road"],
            "positive_reasoning_phrases": ["where people spend their mornings", "what the road was built for"],
            "negative_candidates": ["airport", "stadium", "harbour"],
        }
    negatives, referring = asked.data[1], asked.data[2]
    verdicts = [{"candidate": each, "status": "ABSENT", "reason": "I cannot find one anywhere"} for each in negatives]
    if play == "present_negatives":
        verdicts[0] = {**verdicts[0], "status": "PRESENT", "reason": "there is one in the corner"}
    final = [f"the {c} by the road" if play == "corrects" and k == 0 else each for k, each in enumerate(referring)]
    checked = [
        {"original_phrase": a, "status": "valid" if a == b else "corrected", "issue": "" if a == b else "wrong side", "corrected_phrase": b}
        for a, b in zip(referring, final, strict=True)
    ]
    if play == "forgets":
        verdicts.pop()
    return {"verification_results": verdicts, "positive_res_phrase_qc": checked, "corrected_positive_res_phrases": final}
