"""What comes from the web: polite requests, and snapshots of what they brought.

A snapshot is a file under the digest of its bytes, found again by what was asked for: who keeps the folder of snapshots never
asks twice. Not here: what is asked for (`storage.overpass`, `storage.stac`, `storage.tiles`), windows of remote rasters
(`storage.cogs`).
"""

import email.utils
import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from storage.artefacts import write_atomic
from trigpoint.errors import FetchError
from trigpoint.identity import digest_bytes, digest_file, digest_json

BUSY_STATUS = frozenset({429, 502, 503, 504})
"""HTTP states after which the same request may be sent again: too many requests, gateway trouble, overload, timeout."""

MAX_REDIRECTS = 5

_ONE_AT_A_TIME = threading.Lock()


class Manners(NamedTuple):
    """How a server is treated; see `NetworkConfig`."""

    user_agent: str = "trigpoint"
    timeout_s: float = 60.0
    attempts: int = 4
    backoff_s: float = 5.0
    max_wait_s: float = 120.0
    interval_s: float = 0.0
    max_bytes: int = 512 << 20


class Answer(NamedTuple):
    """A good answer: its state (2xx, or 404 where that was allowed), headers in lower case, and body."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Web:
    """A client with manners: one request at a time in a process, `Retry-After` is kept, answers have a size limit.

    Args:
        manners: Limits.
        sleep, clock, now: For tests: wait, seconds that only grow, and seconds since 1970.
    """

    def __init__(
        self,
        manners: Manners,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.manners = manners
        self.n_requests = 0
        self._sleep, self._clock, self._now = sleep, clock, now
        self._last = -math.inf

    def get(self, url: str, headers: Mapping[str, str] | None = None, accept_missing: bool = False) -> Answer:
        """Get a URL; see `_ask`."""
        return self._ask("GET", url, {"headers": dict(headers or {})}, 0.0, accept_missing)

    def post(self, url: str, *, form: Mapping[str, str] | None = None, document: Any = None, extra_s: float = 0.0) -> Answer:
        """Send a form or a JSON document; `extra_s` is what the server may take beyond the usual. See `_ask`."""
        body: dict[str, Any] = {"data": dict(form)} if form is not None else {"json": document}
        return self._ask("POST", url, body, extra_s, False)

    def _ask(self, method: str, url: str, body: dict[str, Any], extra_s: float, accept_missing: bool) -> Answer:
        """Send a request until it is answered.

        Raises:
            FetchError: the server is away or busy after the last attempt, asks for a longer wait than allowed, refuses, or its
                answer is too large.
        """
        what = f"{method} {_shown(url)}"
        with _ONE_AT_A_TIME:
            for attempt in range(1, self.manners.attempts + 1):
                is_last = attempt == self.manners.attempts
                self._wait_turn()
                try:
                    answer = self._send(method, url, body, extra_s, what)
                except (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError) as error:
                    if is_last:
                        raise FetchError(f"{what}: no answer after {attempt} attempts ({_why(error)}); try again later") from error
                    self._sleep(min(self.manners.backoff_s * 2 ** (attempt - 1), self.manners.max_wait_s))
                    continue
                except httpx.HTTPError as error:
                    raise FetchError(f"{what}: {_why(error)}; check the URL in the configuration") from error
                if answer.status < 300 or (accept_missing and answer.status in (204, 404)):
                    return answer
                if answer.status not in BUSY_STATUS:
                    raise FetchError(
                        f"{what}: the server says {answer.status}{_said(answer)}; check the URL and the request in the configuration"
                    )
                if is_last:
                    raise FetchError(
                        f"{what}: the server is busy ({answer.status}{_said(answer)}) after {attempt} attempts; try again later"
                    )
                self._sleep(self._pause(answer, attempt, what))
        raise FetchError(f"{what}: no attempt is allowed; raise run.network.attempts")

    def _wait_turn(self) -> None:
        rest = self._last + self.manners.interval_s - self._clock()
        if rest > 0:
            self._sleep(rest)
        self._last = self._clock()
        self.n_requests += 1

    def _send(self, method: str, url: str, body: dict[str, Any], extra_s: float, what: str) -> Answer:
        timeout = httpx.Timeout(self.manners.timeout_s + extra_s, connect=self.manners.timeout_s)
        limit = self.manners.max_bytes
        with (
            httpx.Client(
                timeout=timeout,
                follow_redirects=True,
                max_redirects=MAX_REDIRECTS,
                headers={"user-agent": self.manners.user_agent},
                trust_env=True,
            ) as client,
            client.stream(method, url, **body) as response,
        ):
            parts: list[bytes] = []
            size = 0
            for part in response.iter_bytes():
                size += len(part)
                if size > limit:
                    raise FetchError(f"{what}: the answer has more than {limit} bytes (run.network.max_bytes); ask for less")
                parts.append(part)
            headers = {key.lower(): value for key, value in response.headers.items()}
            return Answer(response.status_code, headers, b"".join(parts))

    def _pause(self, answer: Answer, attempt: int, what: str) -> float:
        """Seconds to wait: what the server asks for, else the backoff.

        Raises:
            FetchError: the server asks for more than is allowed.
        """
        asked = _retry_after(answer.headers.get("retry-after"), self._now())
        if asked is None:
            return min(self.manners.backoff_s * 2 ** (attempt - 1), self.manners.max_wait_s)
        if asked > self.manners.max_wait_s:
            raise FetchError(
                f"{what}: the server asks to wait {asked:.0f} s, more than run.network.max_wait_s = {self.manners.max_wait_s:g}; "
                "try again later"
            )
        return asked


def _retry_after(text: str | None, now: float) -> float | None:
    """Read a `Retry-After`: whole seconds or a date; None when there is none or it is neither."""
    if text is None:
        return None
    if text.strip().isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except ValueError:
        return None


def _shown(url: str) -> str:
    """A URL without its query, which may hold a key."""
    return url.split("?")[0]


def _said(answer: Answer) -> str:
    text = " ".join(answer.content[:200].decode("utf-8", "replace").split())
    return f": {text!r}" if text else ""


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


class Snapshot(NamedTuple):
    """Something fetched, and kept.

    Attributes:
        path: The file; its name is its digest.
        sha256: Of its bytes.
        facts: What is known of it beside its bytes (date of acquisition, where it comes from).
    """

    path: Path
    sha256: str
    facts: dict[str, Any]


class Snapshots:
    """A folder of snapshots.

        <digest><suffix>                 what was fetched
        requests/<digest>.json           what was asked for, and which snapshot answered it

    A file is used only while its bytes have its digest.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, request: Any) -> Snapshot | None:
        """Return the snapshot that answered a request, or None when there is none or it is damaged."""
        try:
            entry = json.loads(self._entry(request).read_bytes())
            sha256, suffix, facts = str(entry["sha256"]), str(entry["suffix"]), dict(entry["facts"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        path = self.folder / f"{sha256}{suffix}"
        if len(sha256) != 64 or not path.is_file() or digest_file(path) != sha256:
            return None
        return Snapshot(path, sha256, facts)

    def save(self, request: Any, data: bytes, suffix: str, facts: dict[str, Any] | None = None) -> Snapshot:
        """Keep an answer; the file first, then the entry that finds it."""
        sha256 = digest_bytes(data)
        path = self.folder / f"{sha256}{suffix}"
        if not path.is_file() or digest_file(path) != sha256:
            write_atomic(path, data)
        entry = {
            "request": request,
            "sha256": sha256,
            "suffix": suffix,
            "n_bytes": len(data),
            "facts": facts or {},
            "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_atomic(self._entry(request), json.dumps(entry, indent=1, sort_keys=True, ensure_ascii=False).encode())
        return Snapshot(path, sha256, facts or {})

    def _entry(self, request: Any) -> Path:
        return self.folder / "requests" / f"{digest_json(request)}.json"


def expect_digest(snapshot: Snapshot, expected: str | None, what: str) -> Snapshot:
    """Check that a snapshot is the one that the configuration pins.

    Raises:
        FetchError: it has another digest.
    """
    if expected is not None and snapshot.sha256 != expected:
        raise FetchError(
            f"{what}: what was fetched has the SHA-256 {snapshot.sha256}, expected {expected} (key sha256); the source has changed: "
            f"restore {expected[:12]}… in {snapshot.path.parent}, or pin the new one"
        )
    return snapshot
