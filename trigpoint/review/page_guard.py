"""Who may talk to the review page: names it answers to, sessions, forged requests, sizes, and what browsers may do with its answers.

The page is for people who trust each other, on one machine or behind one token; the guard keeps everybody else out: other sites in the
same browser (cookie of its own site alone, a token in a header, the Origin), names that were pointed at this address (DNS rebinding), and
requests that are too large. Source: OWASP cheat sheets on cross-site request forgery and content security policy.
"""

import hmac
import ipaddress
import json
import re
import secrets
import socket
from collections.abc import Mapping, MutableMapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trigpoint.errors import InputError
from trigpoint.records.review import Role, Who

MAX_BODY_BYTES = 64 << 10
"""Largest request."""

MAX_DRAWING_BYTES = 8 << 20
"""Largest request with a drawing."""

MAX_SESSIONS = 1_000
"""Sessions that are kept; the oldest goes first."""

CSRF_HEADER = "x-trigpoint-csrf"
_DRAWINGS = ("/api/decisions", "/api/preview")
_SESSION = "/api/session"
_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]+")
_WHO: TypeAdapter[str] = TypeAdapter(Who)
_ROLE: TypeAdapter[Role] = TypeAdapter(Role)

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Signed(NamedTuple):
    """Who decides in a session."""

    who: str
    role: Role


class Session:
    """One browser that gave a token.

    Attributes:
        csrf: What it must send in a header with every request that changes something.
        signed: Who it is; None until the person says so.
    """

    def __init__(self, signed: Signed | None) -> None:
        self.csrf = secrets.token_urlsafe(24)
        self.signed = signed


class Sessions:
    """Tokens and the sessions that they were exchanged for.

    Args:
        token: A token that may be used again and again; None: links that open one browser each.
        signed: Who everyone is; None: people say so themselves.
    """

    def __init__(self, token: str | None = None, signed: Signed | None = None) -> None:
        self.fixed = signed
        self._token = token
        self._links: list[str] = []
        self._sessions: dict[str, Session] = {}
        self._lock = Lock()
        self.cookie = f"trigpoint_review_{secrets.token_hex(4)}"

    def new_link(self) -> str:
        """Return a token for one more browser."""
        if self._token is not None:
            return self._token
        with self._lock:
            self._links = [*self._links[-19:], secrets.token_urlsafe(24)]
            return self._links[-1]

    def open(self, token: str) -> tuple[str, Session] | None:
        """Exchange a token for a session and its cookie; None when it is not, or no longer, one."""
        given = token.encode()
        with self._lock:
            known = [self._token] if self._token is not None else self._links
            found = next((one for one in known if hmac.compare_digest(one.encode(), given)), None)
            if found is None:
                return None
            if self._token is None:
                self._links.remove(found)
            key = secrets.token_urlsafe(32)
            self._sessions[key] = session = Session(self.fixed)
            while len(self._sessions) > MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            return key, session

    def of(self, cookies: str) -> Session | None:
        """Return the session of a cookie header."""
        try:
            found = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return None
        return None if found is None else self._sessions.get(found.value)


def signed_as(who: str, role: str) -> Signed:
    """Check how a person signs.

    Raises:
        InputError: the name is empty, long or holds control characters, or there is no such role.
    """
    try:
        return Signed(_WHO.validate_python(who), _ROLE.validate_python(role))
    except ValidationError as error:
        raise InputError(
            f"signed as {who[:80]!r}, {role[:40]!r}: expected a name of 1 to 64 characters, and annotator, manager or expert"
        ) from error


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_served(host: str) -> frozenset[str]:
    """Return the names under which the page answers; bare addresses are added where it is bound to all.

    An address typed as such cannot be another site's, so that every one is good when the page is bound to all of them.
    """
    if is_loopback(host):
        return frozenset({"127.0.0.1", "localhost", "[::1]"})
    own = socket.gethostname()
    return frozenset({f"[{host}]" if ":" in host else host.lower(), own.lower(), socket.getfqdn().lower(), "localhost", "127.0.0.1"})


def origin_of(url: str) -> str:
    """Return scheme, name and port of the address under which a proxy serves the page, as a browser says them.

    Raises:
        InputError: it is no such address, has a path (the page is served at the root alone), or lacks TLS away from this machine.

    >>> origin_of("https://Review.example.org:443/")
    'https://review.example.org'
    """
    wanted = "expected https:// and a name, with a port if need be, as https://review.example.org"
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InputError(f"--public-url {url!r}: {error}; {wanted}") from error
    is_bare = parts.path in ("", "/") and not (parts.query or parts.fragment or "@" in parts.netloc)
    if parts.scheme not in _PORTS or not name or not is_bare or not _NAME.fullmatch(name):
        raise InputError(f"--public-url {url!r}: {wanted}; the page is served at the root of a name, not below a path")
    if parts.scheme == "http" and not is_loopback(name):
        raise InputError(f"--public-url {url!r}: {wanted}: without TLS everyone on the way reads the link and decides in your name")
    shown = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{shown}" + ("" if port in (None, _PORTS[parts.scheme]) else f":{port}")


class Guard:
    """The outermost layer: every request passes it, and every answer gets its headers.

    Args:
        app: What is guarded; finds the session in `scope["state"]["session"]`.
        sessions: The sessions.
        host: The address that the page is bound to.
        port: Its port.
        public: Where a proxy serves it (`origin_of`), if one does.
    """

    def __init__(self, app: ASGIApp, sessions: Sessions, host: str, port: int, public: str | None = None) -> None:
        self._app, self._sessions, self._port = app, sessions, port
        self._names = names_served(host)
        self._public = public
        self._public_hosts = frozenset[str]() if public is None else _hosts_of(public)
        self._is_open = host in ("0.0.0.0", "::")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_encoded(_HEADERS)]}
            await send(message)

        session = self._sessions.of(headers.get("cookie", ""))
        refusal = self._refusal(scope, headers, session)
        if refusal is None:
            body = await _read(receive, _limit(scope["path"]), headers)
            if body is None:
                refusal = _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {_limit(scope['path'])} bytes are taken")
            else:
                state: MutableMapping[str, Any] = scope.setdefault("state", {})
                state["session"] = session
                await self._app(scope, _replayed(body), send_with_headers)
                return
        await _send_refusal(send_with_headers, refusal)

    def _refusal(self, scope: Scope, headers: Mapping[str, str], session: Session | None) -> "_Refusal | None":
        """Why a request is not served, or None."""
        path, changes = str(scope["path"]), scope["method"] not in ("GET", "HEAD")
        if not self._is_served(headers.get("host", "")):
            return _Refusal(HTTPStatus.MISDIRECTED_REQUEST, "the page does not answer to that name; use the link from the terminal")
        if headers.get("sec-fetch-site", "none") == "cross-site" and (changes or path.startswith("/api/")):
            return _Refusal(HTTPStatus.FORBIDDEN, "requests of other sites are not served")
        if changes:
            if not self._is_own(headers.get("origin", "").lower(), headers.get("host", "").lower()):
                return _Refusal(HTTPStatus.FORBIDDEN, "requests of other sites are not served")
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "only JSON is taken")
        if path.startswith("/api/") and not (path == _SESSION and changes):
            if session is None:
                return _Refusal(HTTPStatus.UNAUTHORIZED, "this browser is not signed in; open the link from the terminal")
            if changes and not hmac.compare_digest(headers.get(CSRF_HEADER, "").encode(), session.csrf.encode()):
                return _Refusal(HTTPStatus.FORBIDDEN, "the request does not come from the page; reload it")
        return None

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether the page itself asks: under the name of the proxy, which may pass another on, or under that of this machine."""
        if origin == self._public:
            return True
        return host not in self._public_hosts and origin in [f"{scheme}://{host}" for scheme in _PORTS]

    def _is_served(self, host: str) -> bool:
        if host.lower() in self._public_hosts:
            return True
        name, _, port = host.lower().rpartition(":")
        if port.endswith("]") or not name:  # no port at all
            name, port = host.lower(), "80"
        if port != str(self._port):
            return False
        return name in self._names or (self._is_open and _is_address(name))


def _hosts_of(origin: str) -> frozenset[str]:
    """What a Host header may say of an origin: its port may be left out, or not, when it is the scheme's own."""
    parts = urlsplit(origin)
    return frozenset({parts.netloc} if parts.port else {parts.netloc, f"{parts.netloc}:{_PORTS[parts.scheme]}"})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class _Refusal(NamedTuple):
    status: HTTPStatus
    message: str


def _limit(path: str) -> int:
    return MAX_DRAWING_BYTES if path in _DRAWINGS else MAX_BODY_BYTES


async def _read(receive: Receive, limit: int, headers: Mapping[str, str]) -> bytes | None:
    """The body; None as soon as it is known to be too large, without keeping any more of it."""
    said = headers.get("content-length", "0")
    if not said.isdecimal() or len(said) > 12 or int(said) > limit:
        return None
    parts: list[bytes] = []
    n = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        part: bytes = message.get("body", b"")
        n += len(part)
        if n > limit:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes) -> Receive:
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            return {"type": "http.disconnect"}
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


async def _send_refusal(send: Send, refusal: _Refusal) -> None:
    body = json.dumps({"error": refusal.message}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "cache-control": "no-store", "connection": "close"}
    await send({"type": "http.response.start", "status": int(refusal.status), "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": body})
