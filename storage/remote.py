"""What comes from the web: polite requests, and snapshots of what they brought.

A snapshot is a file under the digest of its bytes, found again by what was asked for: who keeps the folder of snapshots never
asks twice. Not here: what is asked for (`storage.overpass`, `storage.stac`, `storage.tiles`), parts of rasters
(`storage.cogs`).
"""

import email.utils
import io
import json
import math
import os
import re
import threading
import time
from collections import OrderedDict
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

TELL_S = 5.0
"""Seconds between two words on how much has come."""

_SECRET = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
"""`${NAME}` in a URL of the configuration: the environment variable's value, put in when the request is sent and nowhere else."""

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
        tell: Told why it waits, and every `TELL_S` seconds how much has come.
    """

    def __init__(
        self,
        manners: Manners,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.manners = manners
        self.n_requests = self.n_bytes = 0
        self._sleep, self._clock, self._now, self._tell = sleep, clock, now, tell
        self._last = -math.inf
        self._told = clock()

    @property
    def traffic(self) -> str:
        """How much was asked and came, for people."""
        return f"{self.n_requests} request{'' if self.n_requests == 1 else 's'}, {self.n_bytes / 1e6:.1f} MB"

    def get(self, url: str, headers: Mapping[str, str] | None = None, accept_missing: bool = False) -> Answer:
        """Get a URL; see `_ask`."""
        return self._ask("GET", url, {"headers": dict(headers or {})}, 0.0, accept_missing)

    def get_range(self, url: str, start: int, end: int) -> Answer:
        """Get the bytes from `start` to before `end`; no more is read, whatever the server sends. See `_ask`."""
        headers = {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
        return self._ask("GET", url, {"headers": headers}, 0.0, False, end - start)

    def post(self, url: str, *, form: Mapping[str, str] | None = None, document: Any = None, extra_s: float = 0.0) -> Answer:
        """Send a form or a JSON document; `extra_s` is what the server may take beyond the usual. See `_ask`."""
        body: dict[str, Any] = {"data": dict(form)} if form is not None else {"json": document}
        return self._ask("POST", url, body, extra_s, False)

    def _ask(self, method: str, url: str, body: dict[str, Any], extra_s: float, accept_missing: bool, stop_at: int | None = None) -> Answer:
        """Send a request until it is answered.

        Raises:
            FetchError: the server is away or busy after the last attempt, asks for a longer wait than allowed, refuses, or its
                answer is too large.
        """
        what = f"{method} {shown(url)}"
        secrets = {name: _secret(name, what) for name in _SECRET.findall(url)}
        with _ONE_AT_A_TIME:
            for attempt in range(1, self.manners.attempts + 1):
                is_last = attempt == self.manners.attempts
                self._wait_turn()
                try:
                    answer = self._send(method, _SECRET.sub(lambda found: secrets[found[1]], url), body, extra_s, what, stop_at)
                except (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError) as error:
                    if is_last:
                        raise FetchError(f"{what}: no answer after {attempt} attempts ({_why(error)}); try again later") from error
                    self._pause(min(self.manners.backoff_s * 2 ** (attempt - 1), self.manners.max_wait_s), f"no answer ({_why(error)})")
                    continue
                except httpx.HTTPError as error:
                    raise FetchError(f"{what}: {_why(error)}; check the URL in the configuration") from error
                if answer.status >= 300:
                    answer = _without(answer, secrets)
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
                self._pause(self._wait_s(answer, attempt, what), f"the server is busy ({answer.status})")
        raise FetchError(f"{what}: no attempt is allowed; raise run.network.attempts")

    def _wait_turn(self) -> None:
        rest = self._last + self.manners.interval_s - self._clock()
        if rest > 0:
            self._sleep(rest)
        self._last = self._clock()
        self.n_requests += 1

    def _count(self, n_bytes: int) -> None:
        self.n_bytes += n_bytes
        if self._clock() - self._told >= TELL_S:
            self._told = self._clock()
            self._tell(f"{self.traffic} so far")

    def _send(self, method: str, url: str, body: dict[str, Any], extra_s: float, what: str, stop_at: int | None) -> Answer:
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
                if stop_at is not None and size >= stop_at:
                    parts.append(part[: len(part) - (size - stop_at)])
                    break
                if size > limit:
                    raise FetchError(f"{what}: the answer has more than {limit} bytes (run.network.max_bytes); ask for less")
                parts.append(part)
            self._count(sum(map(len, parts)))
            headers = {key.lower(): value for key, value in response.headers.items()}
            return Answer(response.status_code, headers, b"".join(parts))

    def _pause(self, seconds: float, why: str) -> None:
        self._tell(f"{why}; waiting {seconds:.0f} s")
        self._sleep(seconds)

    def _wait_s(self, answer: Answer, attempt: int, what: str) -> float:
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


RANGE_BYTES = 1 << 18
"""Smallest range that is asked for: neighbouring reads of a raster come with one request."""

RANGES_KEPT = 128
"""How many of them are remembered."""


class RangeFile:
    """A file on a server that is read by ranges, each of one and the same version of the file.

    Readers written in C lose what a file object raises: what went wrong is kept, and whoever hands `opened` to one calls `check`
    afterwards.

    Raises:
        FetchError: (when made) the server serves no ranges, or fails.
    """

    def __init__(self, web: Web, url: str) -> None:
        self._web, self._url = web, url
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._n_read = 0
        self._error: Exception | None = None
        first = web.get_range(url, 0, RANGE_BYTES)
        self.n_bytes = _total_of(first, url)
        self.version = first.headers.get("etag") or first.headers.get("last-modified") or ""
        self._keep(0, first.content)

    @property
    def has_failed(self) -> bool:
        """Whether something went wrong."""
        return self._error is not None

    def check(self) -> None:
        """Raise what went wrong while a reader in C had the file."""
        if self._error is not None:
            raise self._error

    def opened(self) -> "RangeReader":
        """Return a file object at the beginning of the file; all of one file share what was read."""
        return RangeReader(self)

    def bytes_between(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to before `end`, less where the file ends.

        Raises:
            FetchError: the server fails, has another version by now, or more bytes are needed than are allowed.
        """
        end = min(end, self.n_bytes)
        if start >= end:
            return b""
        try:
            return self._between(start, end)
        except Exception as error:
            self._error = self._error or error
            raise

    def _between(self, start: int, end: int) -> bytes:
        first, last = start // RANGE_BYTES, (end - 1) // RANGE_BYTES
        found: dict[int, bytes] = {k: self._blocks[k] for k in range(first, last + 1) if k in self._blocks}
        missing = [k for k in range(first, last + 1) if k not in found]
        while missing:
            run = 1
            while run < len(missing) and missing[run] == missing[0] + run:
                run += 1
            data = self._ask(missing[0] * RANGE_BYTES, min((missing[0] + run) * RANGE_BYTES, self.n_bytes))
            for k in range(run):
                found[missing[k]] = data[k * RANGE_BYTES : (k + 1) * RANGE_BYTES]
                self._keep(missing[k], found[missing[k]])
            missing = missing[run:]
        whole = b"".join(found[k] for k in range(first, last + 1))
        return whole[start - first * RANGE_BYTES : end - first * RANGE_BYTES]

    def _ask(self, start: int, end: int) -> bytes:
        what = repr(shown(self._url))
        limit = self._web.manners.max_bytes
        self._n_read += end - start
        if self._n_read > limit:
            raise FetchError(f"file {what}: more than {limit} bytes are needed (run.network.max_bytes); ask for less")
        answer = self._web.get_range(self._url, start, end)
        version = answer.headers.get("etag") or answer.headers.get("last-modified") or ""
        if _total_of(answer, self._url) != self.n_bytes or version != self.version:
            raise FetchError(f"file {what} changed while it was read; try again later")
        if len(answer.content) != end - start:
            raise FetchError(f"file {what}: bytes {start} to {end - 1} were asked for, {len(answer.content)} came; try again later")
        return answer.content

    def _keep(self, position: int, data: bytes) -> None:
        self._blocks[position] = data
        while len(self._blocks) > RANGES_KEPT:
            self._blocks.popitem(last=False)


class RangeReader(io.RawIOBase):
    """A `RangeFile` as a file object that can only be read."""

    def __init__(self, file: RangeFile) -> None:
        super().__init__()
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move: from the beginning (0), the position (1) or the end (2)."""
        self._at = max(0, offset + (0, self._at, self._file.n_bytes)[whence])
        return self._at

    def readall(self) -> bytes:
        """Read to the end."""
        return self.read(-1)

    def read(self, size: int = -1) -> bytes:
        """Read from the position on; nothing more comes once something went wrong (see `RangeFile.check`)."""
        if self._file.has_failed:
            return b""
        try:
            data = self._file.bytes_between(self._at, self._file.n_bytes if size < 0 else self._at + size)
        except FetchError:  # kept by the file: it would be lost in the reader in C
            return b""
        self._at += len(data)
        return data


def _total_of(answer: Answer, url: str) -> int:
    total = answer.headers.get("content-range", "").rpartition("/")[2]
    if answer.status != 206 or not total.isdigit():
        raise FetchError(f"file {shown(url)!r}: its server serves no ranges; download the file and give its path")
    return int(total)


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


def _secret(name: str, what: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise FetchError(f"{what}: the environment variable {name!r} is not set; set it to what the URL needs there")
    return value


def _without(answer: Answer, secrets: Mapping[str, str]) -> Answer:
    """Take secrets out of an answer that will be shown."""
    content = answer.content
    for value in secrets.values():
        content = content.replace(value.encode(), b"***")
    return answer._replace(content=content)


def shown(url: str) -> str:
    """Return a URL without its query, which may hold a key.

    >>> shown("https://x.example/a.tif?key=1"), shown("a.tif")
    ('https://x.example/a.tif', 'a.tif')
    """
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
