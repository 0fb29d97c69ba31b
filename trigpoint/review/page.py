"""The review page: a small web application over a `Board`, for browsers on this machine.

    app = make_app(Board(desk), Sessions(), "127.0.0.1", port)

Everything that is asked for is looked up by its id; nothing from a request becomes a path. Not here: who may ask
(`trigpoint.review.page_guard`), what there is (`trigpoint.review.page_board`), what is drawn (`static/`).
"""

import json
from http import HTTPStatus
from importlib.resources import files
from threading import Lock
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from trigpoint.errors import InputError, TrigpointError
from trigpoint.identity import digest_bytes
from trigpoint.records.base import Record
from trigpoint.review.ledger import ConflictError
from trigpoint.review.page_board import Board, ContradictedError, checked_json
from trigpoint.review.page_desk import Picture
from trigpoint.review.page_guard import Guard, Session, Sessions, signed_as
from trigpoint.review.page_intents import Intent

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_KEPT_PICTURES = 16


class Opening(Record):
    """What a browser gives for a session."""

    token: Annotated[str, Field(max_length=200)]


class Signing(Record):
    """How a person signs."""

    who: Annotated[str, Field(max_length=200)]
    role: Annotated[str, Field(max_length=40)]


class TextToCheck(Record):
    """A sentence that is being written."""

    item_id: Annotated[str, Field(max_length=64)]
    text: Annotated[str, Field(max_length=1000)]


async def _body(request: Request) -> bytes:
    return await request.body()


Body = Annotated[bytes, Depends(_body)]


def make_app(board: Board, sessions: Sessions, host: str, port: int, public: str | None = None) -> ASGIApp:
    """Return the application, guarded.

    Args:
        board: What there is to decide about.
        sessions: Who may.
        host: The address that it will be bound to.
        port: The port.
        public: Where a proxy serves it (`trigpoint.review.page_guard.origin_of`), if one does.
    """
    page = _Page(board, sessions)
    app = FastAPI(title="trigpoint review", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_api_route("/", page.index, methods=["GET"])
    app.add_api_route("/static/{name}", page.static, methods=["GET"])
    app.add_api_route("/api/session", page.open_session, methods=["POST"])
    app.add_api_route("/api/session", page.session, methods=["GET"])
    app.add_api_route("/api/sign", page.sign, methods=["POST"])
    app.add_api_route("/api/link", page.link, methods=["POST"])
    app.add_api_route("/api/desk", page.desk, methods=["GET"])
    app.add_api_route("/api/queue", page.queue, methods=["GET"])
    app.add_api_route("/api/scenes/{scene_id}/outlines", page.outlines, methods=["GET"])
    app.add_api_route("/api/scenes/{scene_id}/picture", page.picture, methods=["GET"])
    app.add_api_route("/api/items/{item_id}", page.item, methods=["GET"])
    app.add_api_route("/api/items/{item_id}/vertices", page.vertices, methods=["GET"])
    app.add_api_route("/api/check", page.check, methods=["POST"])
    app.add_api_route("/api/preview", page.preview, methods=["POST"])
    app.add_api_route("/api/decisions", page.decide, methods=["POST"])
    for kind in (HTTPException, RequestValidationError, ValidationError, KeyError, TrigpointError, Exception):
        app.add_exception_handler(kind, _refused)
    return Guard(app, sessions, host, port, public)


def _refused(_request: Request, error: Exception) -> Response:
    """Say what is wrong, without a traceback; that of a fault is in the server's own log."""
    if isinstance(error, HTTPException):
        return _json({"error": str(error.detail)}, error.status_code)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return _json({"error": f"{where}: {first['msg']}" if where else first["msg"]}, HTTPStatus.UNPROCESSABLE_ENTITY)
    if isinstance(error, KeyError | RequestValidationError):
        return _json({"error": "there is no such thing here; reload the page"}, HTTPStatus.NOT_FOUND)
    if isinstance(error, ContradictedError):
        return _json({"error": str(error), "check": checked_json(error.checked)}, HTTPStatus.UNPROCESSABLE_ENTITY)
    if isinstance(error, InputError):
        return _json({"error": str(error)}, HTTPStatus.UNPROCESSABLE_ENTITY)
    if isinstance(error, TrigpointError):
        return _json({"error": str(error)}, HTTPStatus.SERVICE_UNAVAILABLE)
    return _json({"error": "this is a fault in trigpoint; the terminal says more"}, HTTPStatus.INTERNAL_SERVER_ERROR)


def _json(value: Any, status: int = HTTPStatus.OK) -> Response:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(data, status, media_type="application/json", headers={"cache-control": "no-store"})


def _tagged(request: Request, data: bytes, media_type: str, etag: str, kept: str = "no-cache") -> Response:
    headers = {"etag": f'"{etag}"', "cache-control": kept}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(data, media_type=media_type, headers=headers)


class _Page:
    """The routes."""

    def __init__(self, board: Board, sessions: Sessions) -> None:
        self._board, self._sessions = board, sessions
        folder = files("trigpoint.review").joinpath("static")
        self._files = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}
        self._etags = {name: digest_bytes(data)[:32] for name, data in self._files.items()}
        self._pictures: dict[str, tuple[Picture, str]] = {}
        self._drawing = Lock()

    # the page itself

    async def index(self, request: Request) -> Response:
        """The page."""
        return await self.static(request, "index.html")

    async def static(self, request: Request, name: str) -> Response:
        """One of its files."""
        data = self._files.get(name)
        if data is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such file")
        return _tagged(request, data, f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8", self._etags[name])

    # who is there

    def open_session(self, request: Request, body: Body) -> Response:
        """Exchange a token for a cookie."""
        opened = self._sessions.open(Opening.model_validate_json(body).token)
        if opened is None:
            raise HTTPException(HTTPStatus.UNAUTHORIZED, "this link was used already, or is of an earlier start")
        key, session = opened
        response = self._told(session)
        is_secure = request.headers["origin"].lower().startswith("https://")  # the guard knows it as ours
        response.set_cookie(self._sessions.cookie, key, path="/", httponly=True, samesite="strict", secure=is_secure)
        return response

    def session(self, request: Request) -> Response:
        """Say who is signed in."""
        return self._told(_session(request))

    def _told(self, session: Session) -> Response:
        signed = session.signed
        who = {"who": None, "role": None} if signed is None else signed._asdict()
        return _json({**who, "csrf": session.csrf, "fixed": self._sessions.fixed is not None})

    def sign(self, request: Request, body: Body) -> Response:
        """Take a person's name and role."""
        session, said = _session(request), Signing.model_validate_json(body)
        if self._sessions.fixed is not None:
            raise InputError("the name was given when the page was started; start it without --who to sign in here")
        session.signed = signed_as(said.who, said.role)
        return self._told(session)

    def link(self, body: Body) -> Response:
        """Make a link for one more browser."""
        return _json({"token": self._sessions.new_link()})

    # what there is

    def desk(self) -> Response:
        """Release, scenes, taxonomy and policies."""
        desk = self._board.desk
        taxonomy = desk.taxonomy
        names = {one.id: (one.noun if one.axis == taxonomy.axes[0].id else one.phrase) or one.id for one in taxonomy.categories}
        categories = [
            {
                "id": one.id,
                "axis": one.axis,
                "name": names[one.id],
                "also": list(dict.fromkeys((*one.names, *one.other_names))),
                "path": [names[name] for name in reversed(taxonomy.ancestors(one.id)[1:])],
                "countable": one.countable,
            }
            for one in taxonomy.categories
        ]
        rules = {"mask": desk.review, "sentence": desk.review.rule_for_sentences}
        policies = {
            name: {"policy": rule.policy, "groups": [list(group) for group in rule.groups], "rounds": rule.n_rounds}
            for name, rule in rules.items()
        }
        return _json(
            {
                "name": desk.name,
                "title": desk.title,
                "axes": [axis.to_json() for axis in taxonomy.axes],
                "categories": categories,
                "policies": policies,
                "note": desk.review.note,
                "scenes": [scene._asdict() for scene in desk.scenes],
            }
        )

    def queue(self, since: str = "") -> Response:
        """Rows of the queue, or those that changed."""
        self._board.refresh()
        return _json(self._board.rows(since[:64]))

    def outlines(self, request: Request, scene_id: str) -> Response:
        """Outlines of everything in a scene."""
        found = self._board.outlines(scene_id)
        data = json.dumps(found["outlines"], separators=(",", ":")).encode()
        return _tagged(request, data, "application/json", found["etag"])

    def picture(self, request: Request, scene_id: str) -> Response:
        """The picture of a scene, which never changes."""
        if scene_id not in self._board.scenes:
            raise KeyError(scene_id)
        with self._drawing:
            if scene_id not in self._pictures:
                while len(self._pictures) >= _KEPT_PICTURES:
                    del self._pictures[next(iter(self._pictures))]
                picture = self._board.desk.picture(scene_id)
                self._pictures[scene_id] = (picture, digest_bytes(picture.data)[:32])
            picture, etag = self._pictures[scene_id]
        return _tagged(request, picture.data, picture.media_type, etag, "private, max-age=3600")

    def item(self, item_id: str) -> Response:
        """One item with its history."""
        return _json(self._board.detail(item_id))

    def vertices(self, item_id: str) -> Response:
        """The outline of a mask that people move."""
        return _json(self._board.vertices(item_id))

    # what people do

    def check(self, body: Body) -> Response:
        """Hold a sentence against the scene while it is being written."""
        said = TextToCheck.model_validate_json(body)
        self._board.state(said.item_id)
        return _json(checked_json(self._board.check(said.item_id, said.text)))

    def preview(self, body: Body) -> Response:
        """Say which pixels a drawing would store."""
        return _json(self._board.preview(Intent.model_validate_json(body)))

    def decide(self, request: Request, body: Body) -> Response:
        """Write a decision."""
        intent, signed = Intent.model_validate_json(body), _session(request).signed
        if signed is None or (intent.who, intent.role) != signed:
            is_signed = "nobody" if signed is None else f"{signed.who} ({signed.role})"
            raise InputError(
                f"it was decided by {intent.who} ({intent.role}), and {is_signed} is signed in; sign in as {intent.who} to send it"
            )
        try:
            written = self._board.decide(intent)
        except ConflictError as error:
            return _json({"error": str(error), "item": self._now(intent.item_id)}, HTTPStatus.CONFLICT)
        rows = self._board.rows_of(written.touched)
        outlines = [self._now(row["id"]) for row in rows if not row.get("gone")]
        return _json({"decision_id": written.decision.decision_id, "is_new": written.is_new, "rows": rows, "items": outlines})

    def _now(self, item_id: str | None) -> dict[str, Any] | None:
        try:
            return None if item_id is None else self._board.detail(item_id)
        except KeyError:
            return None


def _session(request: Request) -> Session:
    session: Session | None = request.scope["state"]["session"]
    if session is None:
        raise HTTPException(HTTPStatus.UNAUTHORIZED, "this browser is not signed in; open the link from the terminal")
    return session
