"""A real HTTP server on 127.0.0.1 that plays what a test tells it to, with range requests; it remembers what it was asked."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Reply(NamedTuple):
    """An answer; `drop` closes the connection instead, `ranges` says whether ranges are served."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = {}
    ranges: bool = True
    drop: bool = False


class Served:
    """`replies[path]` is a list of answers; the last one stays."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.asked: list[Asked] = []
        self.url = ""
        self.busy = 0
        self.most_at_once = 0
        self.lock = threading.Lock()

    def put(self, path: str, *replies: Reply) -> str:
        self.replies[path] = list(replies)
        return self.url + path

    def reply_to(self, path: str) -> Reply:
        waiting = self.replies.get(path)
        if not waiting:
            return Reply(b"not here", 404)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        served: Served = self.server.served  # type: ignore[attr-defined]
        with served.lock:
            served.busy += 1
            served.most_at_once = max(served.most_at_once, served.busy)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            served.asked.append(Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            reply = served.reply_to(self.path.split("?")[0])
        try:
            self._send(reply)
        finally:
            with served.lock:
                served.busy -= 1

    def _send(self, reply: Reply) -> None:
        if reply.drop:
            self.close_connection = True
            return
        data, status, headers = reply.body, reply.status, dict(reply.headers)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if wanted and reply.ranges and status == 200:
            start, end = int(wanted[1]), min(int(wanted[2] or len(data) - 1), len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
            data, status = data[start : end + 1], 206
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        if reply.ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_POST = do_HEAD = _answer  # noqa: N815


@contextmanager
def serving() -> Iterator[Served]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    served = Served()
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    server.served = served  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
