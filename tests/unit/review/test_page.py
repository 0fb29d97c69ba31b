"""The review page's server: what it shows, what it takes, and what it refuses."""

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.review_desk import MadeUpDesk, served
from trigpoint.errors import InputError
from trigpoint.masks.crops import crop_of_record
from trigpoint.records.review import MaskValue
from trigpoint.review.page import make_app
from trigpoint.review.page_board import Board
from trigpoint.review.page_guard import (
    CSRF_HEADER,
    MAX_BODY_BYTES,
    MAX_DRAWING_BYTES,
    Sessions,
    Signed,
    is_loopback,
    names_served,
    origin_of,
)

PORT = 8123
BASE = f"http://127.0.0.1:{PORT}"


class Browser:
    """One signed-in browser."""

    def __init__(self, app: Any, sessions: Sessions, who: str = "ada", role: str = "annotator") -> None:
        self.who, self.role = who, role
        self.http = TestClient(app, base_url=BASE, raise_server_exceptions=False, headers={"origin": BASE})
        opened = self.http.post("/api/session", json={"token": sessions.new_link()})
        assert opened.status_code == 200
        self.csrf = opened.json()["csrf"]
        if sessions.fixed is None:
            assert self.post("/api/sign", {"who": who, "role": role}).status_code == 200

    def get(self, path: str, **more: Any) -> Any:
        return self.http.get(path, **more)

    def post(self, path: str, body: Any, **headers: str) -> Any:
        return self.http.post(path, json=body, headers={CSRF_HEADER: self.csrf, **headers})

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in self.get("/api/queue").json()["rows"]}

    def row(self, kind: str = "mask", k: int = 0) -> dict[str, Any]:
        return [row for row in self.rows().values() if row["kind"] == kind][k]

    def intent(self, row: dict[str, Any], action: str, **more: Any) -> dict[str, Any]:
        said = {"who": self.who, "role": self.role, "action": action, "scene_id": row["scene"], "item_id": row["id"]}
        return {**said, "version": row["version"], "previous": row["newest"], **more}

    def decide(self, row: dict[str, Any], action: str, **more: Any) -> Any:
        return self.post("/api/decisions", self.intent(row, action, **more))


class Page:
    """A page, its desk and its browsers."""

    def __init__(
        self, folder: Path, signed: Signed | None = None, token: str | None = None, public: str | None = None, **more: Any
    ) -> None:
        self.desk = MadeUpDesk(folder, **more)
        self.sessions = Sessions(token, signed)
        self.board = Board(self.desk)
        self.app = make_app(self.board, self.sessions, "127.0.0.1", PORT, public)

    def browser(self, who: str = "ada", role: str = "annotator") -> Browser:
        return Browser(self.app, self.sessions, who, role)

    @property
    def decisions(self) -> list[dict[str, Any]]:
        return list(self.desk.ledger.records())


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    made = Page(tmp_path)
    yield made
    made.desk.ledger.close()


# what it shows


def test_the_page_and_its_files_are_served_with_a_strict_policy_and_no_inline_script(page: Page) -> None:
    http = TestClient(page.app, base_url=BASE)

    index = http.get("/")
    script = http.get("/static/main.js")

    assert index.status_code == script.status_code == 200
    policy = index.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert index.text.count("<script") == 1
    assert "http" not in index.text.replace("http://www.w3.org", "")  # nothing is loaded from elsewhere
    assert script.headers["content-type"].startswith("text/javascript")
    assert http.get("/static/main.js", headers={"if-none-match": script.headers["etag"]}).status_code == 304


def test_no_script_of_the_page_sets_markup(page: Page) -> None:
    import trigpoint.review

    for path in (Path(trigpoint.review.__file__).parent / "static").glob("*.js"):
        text = path.read_text(encoding="utf-8")
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert forbidden not in text, (path.name, forbidden)


def test_the_queue_has_every_item_and_only_changes_afterwards(page: Page) -> None:
    ada = page.browser()
    whole = ada.get("/api/queue").json()

    ada.decide(ada.row(), "accept")
    later = ada.get("/api/queue", params={"since": whole["mark"]}).json()

    assert whole["whole"]
    assert len(whole["rows"]) == len(page.desk.items) == 38
    assert not later["whole"]
    assert [(row["status"], row["people"]) for row in later["rows"]] == [("approved", ["ada"])]
    assert ada.get("/api/queue", params={"since": "another:3"}).json()["whole"]


def test_outlines_are_whole_numbers_that_give_the_mask_back(page: Page) -> None:
    ada = page.browser()
    item = page.desk.items[0]
    assert isinstance(item.value, MaskValue)

    answer = ada.get(f"/api/scenes/{item.scene_id}/outlines")
    outline = next(one for one in answer.json() if one["id"] == item.item_id)

    crop = crop_of_record(item.value.mask, 240, 240)
    [[x, y, dx, dy, back]] = outline["rings"]
    assert outline["area_px"] == crop.area_px
    assert (abs(dx) * abs(dy), dx + back) == (crop.area_px, 0)
    assert x in (crop.col_off, crop.col_off + crop.mask.shape[1])
    assert y in (crop.row_off, crop.row_off + crop.mask.shape[0])
    again = ada.get(f"/api/scenes/{item.scene_id}/outlines", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304


def test_a_picture_has_an_etag(page: Page) -> None:
    ada = page.browser()
    path = f"/api/scenes/{page.desk.scenes[0].scene_id}/picture"

    picture = ada.get(path)

    assert picture.headers["content-type"] == "image/jpeg"
    assert ada.get(path, headers={"if-none-match": picture.headers["etag"]}).status_code == 304


# deciding


def test_a_decision_is_written_with_its_author_and_comes_back_in_the_history(page: Page) -> None:
    asha = page.browser("asha", "manager")
    row = asha.row()

    answer = asha.decide(row, "return", reason="The outline is off")

    assert answer.status_code == 200
    [written] = page.decisions
    assert (written["who"], written["role"], written["action"], written["reason"]) == ("asha", "manager", "return", "The outline is off")
    detail = asha.get(f"/api/items/{row['id']}").json()
    assert detail["row"]["status"] == "returned"
    assert [(event["who"], event["action"]) for event in detail["history"]] == [("asha", "return")]
    assert detail["history"][0]["at"] == written["decided_at"]


def test_the_same_request_sent_again_counts_once(page: Page) -> None:
    ada = page.browser()
    row = ada.row()
    drawn = {"before": [], "after": [[[10, 10], [30, 10], [30, 30]]]}
    requests = [ada.intent(row, "edit", drawn=drawn), ada.intent(row, "edit", drawn=drawn)]

    first, second = (ada.post("/api/decisions", request) for request in requests)

    assert (first.status_code, second.status_code) == (200, 200)
    assert (first.json()["is_new"], second.json()["is_new"]) == (True, False)
    assert first.json()["decision_id"] == second.json()["decision_id"]
    assert len(page.decisions) == 1


def test_the_second_of_two_people_is_told_who_was_faster_and_nothing_is_written(page: Page) -> None:
    ada, ben = page.browser("ada"), page.browser("ben", "manager")
    row = ada.row()
    assert ben.decide(row, "reject", reason="Nothing is there").status_code == 200

    answer = ada.decide(row, "accept")

    assert answer.status_code == 409
    assert "ben (manager) decided to reject it" in answer.json()["error"]
    assert answer.json()["item"]["row"]["status"] == "rejected"
    assert len(page.decisions) == 1
    assert ada.decide(answer.json()["item"]["row"], "accept").status_code == 200


def test_an_edit_stores_the_pixels_that_the_preview_showed(page: Page) -> None:
    ada = page.browser()
    row = ada.row()
    rings = ada.get(f"/api/items/{row['id']}/vertices").json()["rings"]
    moved = [[[x + 3 if k == 0 else x, y] for k, (x, y) in enumerate(ring)] for ring in rings]
    intent = ada.intent(row, "edit", drawn={"before": rings, "after": moved})

    [preview] = ada.post("/api/preview", intent).json()
    answer = ada.post("/api/decisions", intent).json()

    assert answer["items"][0]["outline"]["rings"] == preview["rings"]
    stored = page.decisions[0]["after"]["mask"]
    state = page.board.state(row["id"])
    assert isinstance(state.value, MaskValue)
    assert state.value.mask.to_json() == stored
    assert crop_of_record(state.value.mask, 240, 240).area_px == preview["area_px"]


def test_an_edit_that_changes_nothing_is_refused(page: Page) -> None:
    ada = page.browser()
    row = ada.row()
    rings = ada.get(f"/api/items/{row['id']}/vertices").json()["rings"]

    answer = ada.decide(row, "edit", drawn={"before": rings, "after": rings})

    assert answer.status_code == 422
    assert "nothing is changed" in answer.json()["error"]


def test_a_split_gives_every_pixel_to_one_piece_and_undo_brings_the_mask_back(page: Page) -> None:
    ada = page.browser()
    row = ada.row()
    x0, y0, *_ = page.board.outlines(row["scene"])["outlines"][0]["rings"][0]
    area = ada.get(f"/api/items/{row['id']}").json()["value"]["area_px"]
    box = ada.get(f"/api/items/{row['id']}").json()["outline"]["rings"][0]
    middle = box[1] + abs(box[3]) / 2.0 + 0.3 if box[3] > 0 else box[1] - abs(box[3]) / 2.0

    answer = ada.decide(row, "split", line=[[0, middle], [240, middle]])

    assert answer.status_code == 200, (answer.json(), x0, y0)
    pieces = [item for item in answer.json()["items"] if item["fate"] == "here"]
    assert len(pieces) == 2
    assert sum(item["value"]["area_px"] for item in pieces) == area
    gone = ada.rows()[row["id"]]
    assert gone["status"] == "gone"
    undone = ada.decide(gone, "undo", undoes=answer.json()["decision_id"])
    assert undone.status_code == 200
    assert ada.rows()[row["id"]]["status"] == "waiting"
    assert not {item["row"]["id"] for item in pieces} & set(ada.rows())


def test_a_merge_takes_the_neighbours_and_a_conflict_on_one_of_them_stops_it(page: Page) -> None:
    ada, ben = page.browser("ada"), page.browser("ben")
    rows = [row for row in ada.rows().values() if row["kind"] == "mask"][:3]
    seen = [{"item_id": row["id"], "version": row["version"], "previous": row["newest"]} for row in rows[1:]]
    ben.decide(rows[2], "accept")

    refused = ada.decide(rows[0], "merge", merged=seen)
    merged = ada.decide(rows[0], "merge", merged=seen[:1])

    assert refused.status_code == 409
    assert "ben" in refused.json()["error"]
    assert merged.status_code == 200
    assert ada.rows()[rows[1]["id"]]["status"] == "gone"


def test_what_cannot_be_told_apart_stays_so_until_a_person_says_otherwise(tmp_path: Path) -> None:
    page = Page(tmp_path, inseparable=[(0, 0), (0, 1), (0, 2), (1, 1)])
    ada = page.browser()
    scene = page.desk.scenes[0].scene_id
    ids = [item.item_id for item in page.desk.items if item.scene_id == scene and item.kind == "mask"]

    def row_of(k: int) -> dict[str, Any]:
        return ada.rows()[ids[k]]

    def merged(first: int, second: int) -> Any:
        other = row_of(second)
        seen = [{"item_id": other["id"], "version": other["version"], "previous": other["newest"]}]
        return ada.decide(row_of(first), "merge", merged=seen).json()["rows"][0]["separable"]

    assert [row_of(k)["separable"] for k in range(5)] == [False, False, False, True, True]

    edited = ada.decide(row_of(0), "edit", category=["tree"]).json()["rows"][0]
    assert (edited["label"], edited["separable"]) == ("tree", False)
    rings = ada.get(f"/api/items/{ids[0]}/vertices").json()["rings"]
    moved = [[[x + 3 if k == 0 else x, y] for k, (x, y) in enumerate(ring)] for ring in rings]
    assert ada.decide(row_of(0), "edit", drawn={"before": rings, "after": moved}).json()["rows"][0]["separable"] is False
    assert merged(1, 2) is False
    assert merged(5, 4) is False  # one of the two cannot
    assert merged(6, 7) is True
    [_, top], *_ = ada.get(f"/api/items/{ids[0]}/vertices").json()["rings"][0]
    split = ada.decide(row_of(0), "split", line=[[0, top + 9.5], [240, top + 9.5]]).json()
    assert [item["row"]["separable"] for item in split["items"] if item["fate"] == "here"] == [False, False]

    told_apart = ada.decide(row_of(1), "edit", separable=True).json()
    assert told_apart["rows"][0]["separable"] is True
    assert told_apart["items"][0]["history"][-1]["changes"] == {"separable": [False, True]}
    assert ada.decide(row_of(1), "edit", separable=True).status_code == 422  # nothing is changed
    said = {"who": "ada", "role": "annotator", "action": "add", "scene_id": scene, "category": ["tree"], "separable": False}
    drawn = ada.post("/api/decisions", {**said, "drawn": {"after": [[[5, 5], [25, 5], [25, 21], [5, 21]]]}})
    assert drawn.json()["rows"][0]["separable"] is False
    page.desk.ledger.close()


def test_a_new_mask_is_an_item_and_undo_takes_it_away(page: Page) -> None:
    ada = page.browser()
    scene = page.desk.scenes[0].scene_id
    said = {"who": "ada", "role": "annotator", "action": "add", "scene_id": scene, "category": ["tree"]}

    answer = ada.post("/api/decisions", {**said, "drawn": {"after": [[[5, 5], [25, 5], [25, 21], [5, 21]]]}})

    assert answer.status_code == 200
    [item] = answer.json()["items"]
    assert (item["value"]["area_px"], item["row"]["label"]) == (20 * 16, "tree")
    undone = ada.decide(item["row"], "undo", undoes=answer.json()["decision_id"])
    assert undone.json()["rows"] == [{"id": item["row"]["id"], "scene": scene, "gone": True, "stamp": page.board.stamp}]
    again = ada.post("/api/decisions", {**said, "drawn": {"after": [[[5, 5], [25, 5], [25, 21], [5, 21]]]}}).json()
    assert (again["is_new"], again["rows"][0]["id"]) == (True, item["row"]["id"])
    assert "gone" not in again["rows"][0]
    twice = ada.post("/api/decisions", {**said, "drawn": {"after": [[[5, 5], [25, 5], [25, 21], [5, 21]]]}}).json()
    assert twice["is_new"] is False


@pytest.mark.parametrize(
    ("drawn", "said"),
    [
        ({"after": [[[300, 300], [320, 300], [320, 320]]]}, "nothing is changed"),
        ({"mask": {"origin_px": [0, 0], "size_px": [2, 2], "runs": [1, 9]}}, "runs sum to"),
        ({"mask": {"origin_px": [239, 0], "size_px": [2, 2], "runs": [0, 4]}}, "outside the scene"),
        ({"mask": {"origin_px": [0, 0], "size_px": [2, 2], "runs": [4]}}, "no pixel"),
        ({"after": [[[0, 0], [1, 1]]]}, "at least 3"),
        ({"after": [[[0, 0], [1e9, 1], [3, 3]]]}, "less than or equal"),
    ],
    ids=["outside", "wrong sum", "window outside", "empty", "two points", "far away"],
)
def test_a_drawing_that_is_none_is_refused(page: Page, drawn: dict[str, Any], said: str) -> None:
    ada = page.browser()

    answer = ada.decide(ada.row(), "edit", drawn=drawn)

    assert answer.status_code == 422
    assert said in answer.json()["error"]
    assert page.decisions == []


# sentences


def test_a_contradicted_text_cannot_be_saved_and_says_why(page: Page) -> None:
    ada = page.browser()
    row = ada.row("referring")

    answer = ada.decide(row, "edit", text="the wrong buildings")

    assert answer.status_code == 422
    assert "41.0°" in answer.json()["error"]
    assert answer.json()["check"]["verdict"] == "contradicted"
    assert page.decisions == []


def test_an_undecidable_text_can_be_accepted_and_an_edited_one_is_checked_once(page: Page) -> None:
    ada = page.browser()
    row = ada.row("referring")
    assert row["doubt"] == "undecidable"

    assert ada.post("/api/check", {"item_id": row["id"], "text": "the  buildings east"}).json()["verdict"] == "supported"
    edited = ada.decide(row, "edit", text="the buildings  east").json()
    n = page.desk.n_checks
    ada.rows()

    assert edited["items"][0]["value"]["text"] == "the buildings east"
    assert edited["rows"][0]["doubt"] == "supported"
    assert page.desk.n_checks == n == 1
    other = ada.row("referring", 1)
    assert ada.decide(other, "accept").json()["rows"][0]["status"] == "approved"


def test_what_the_ground_cannot_decide_waits_even_where_the_policy_asks_for_nobody(tmp_path: Path) -> None:
    page = Page(tmp_path, review={"policy": "none"})
    ada = page.browser()

    assert ada.row("referring")["status"] == "waiting"
    assert ada.row("vocabulary")["status"] == "approved"
    assert ada.decide(ada.row("referring"), "accept").json()["rows"][0]["status"] == "approved"
    page.desk.ledger.close()


# who may


def test_a_link_works_once_and_a_given_token_always(page: Page, tmp_path: Path) -> None:
    http = TestClient(page.app, base_url=BASE, headers={"origin": BASE})
    token = page.sessions.new_link()

    assert [http.post("/api/session", json={"token": token}).status_code for _ in range(2)] == [200, 401]
    fixed = Sessions("a token of many characters")
    assert [fixed.open("a token of many characters") is not None for _ in range(2)] == [True, True]
    assert fixed.open("another token") is None


def test_the_cookie_is_for_this_site_alone_and_no_script_reads_it(page: Page) -> None:
    http = TestClient(page.app, base_url=BASE, headers={"origin": BASE})

    cookie = http.post("/api/session", json={"token": page.sessions.new_link()}).headers["set-cookie"]

    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


@pytest.mark.parametrize(
    "path", ["/api/desk", "/api/queue", "/api/session", "/api/items/x", "/api/scenes/x/picture", "/api/scenes/x/outlines"]
)
def test_nothing_is_told_without_a_session(page: Page, path: str) -> None:
    answer = TestClient(page.app, base_url=BASE).get(path)

    assert answer.status_code == 401
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("path", ["/api/sign", "/api/link", "/api/check", "/api/preview", "/api/decisions"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"csrf": ""}, 403),
        ({"csrf": "guessed"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"http://evil.example:{PORT}", "host": f"evil.example:{PORT}"}, 421),
        ({"host": "127.0.0.1:9999"}, 421),
        ({"host": f"127.0.0.1.evil.example:{PORT}"}, 421),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "text/plain"}, 415),
    ],
    ids=[
        "no csrf",
        "guessed csrf",
        "other origin",
        "null origin",
        "rebound name",
        "other port",
        "longer name",
        "cross-site",
        "form",
        "plain",
    ],
)
def test_a_forged_post_changes_nothing(page: Page, path: str, headers: dict[str, str], status: int) -> None:
    ada = page.browser()
    csrf = {CSRF_HEADER: headers.get("csrf", ada.csrf)}
    said = {"content-type": "application/json", **csrf, **{name: value for name, value in headers.items() if name != "csrf"}}

    answer = ada.http.post(path, content=json.dumps(ada.intent(ada.row(), "accept")), headers=said)

    assert answer.status_code == status
    assert page.decisions == []


def test_a_form_of_another_site_changes_nothing(page: Page) -> None:
    ada = page.browser()

    answer = ada.http.post("/api/decisions", data={"action": "accept"}, headers={"origin": "https://evil.example"})

    assert answer.status_code == 403
    assert page.decisions == []


def test_reading_is_refused_under_another_name(page: Page) -> None:
    ada = page.browser()

    assert ada.get("/api/queue", headers={"host": f"evil.example:{PORT}"}).status_code == 421
    assert ada.get("/", headers={"host": f"evil.example:{PORT}"}).status_code == 421
    assert ada.get("/api/queue", headers={"host": f"localhost:{PORT}"}).status_code == 200


PUBLIC = "https://review.example.org"


@pytest.mark.parametrize(
    "passed_on", ["review.example.org", "review.example.org:443", f"127.0.0.1:{PORT}"], ids=["kept", "port", "changed"]
)
def test_behind_a_proxy_the_page_works_under_the_public_name(tmp_path: Path, passed_on: str) -> None:
    page = Page(tmp_path, public=PUBLIC)
    http = TestClient(page.app, base_url=BASE, headers={"host": passed_on, "origin": PUBLIC})

    opened = http.post("/api/session", json={"token": page.sessions.new_link()})

    assert opened.status_code == 200
    cookie = opened.headers["set-cookie"]
    assert "Secure" in cookie
    headers = {CSRF_HEADER: opened.json()["csrf"], "cookie": cookie.partition(";")[0]}
    assert http.post("/api/sign", json={"who": "ada", "role": "expert"}, headers=headers).status_code == 200
    row = http.get("/api/queue", headers=headers).json()["rows"][0]
    said = {"who": "ada", "role": "expert", "action": "accept", "scene_id": row["scene"], "item_id": row["id"], "version": row["version"]}
    for origin in ("https://evil.example", "http://review.example.org", "https://review.example.org.evil.example", "https://[", "null", ""):
        assert http.post("/api/decisions", json=said, headers={**headers, "origin": origin}).status_code == 403
    assert http.get("/api/queue", headers={**headers, "host": "evil.example"}).status_code == 421
    assert page.decisions == []
    assert http.post("/api/decisions", json=said, headers=headers).status_code == 200
    page.desk.ledger.close()


def test_without_a_public_name_the_cookie_is_for_plain_http_and_the_name_is_none_of_ours(tmp_path: Path) -> None:
    page = Page(tmp_path, public=PUBLIC)
    http = TestClient(page.app, base_url=BASE, headers={"origin": BASE})

    cookie = http.post("/api/session", json={"token": page.sessions.new_link()}).headers["set-cookie"]

    assert "Secure" not in cookie  # opened on this machine, beside the proxy
    plain = TestClient(make_app(page.board, page.sessions, "127.0.0.1", PORT), base_url=BASE)
    assert plain.get("/", headers={"host": "review.example.org"}).status_code == 421
    page.desk.ledger.close()


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://review.example.org", "https://review.example.org"),
        ("HTTPS://Review.Example.org:443/", "https://review.example.org"),
        ("https://review.example.org:8443", "https://review.example.org:8443"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]"),
        ("http://localhost:8080", "http://localhost:8080"),
    ],
)
def test_a_public_address_is_said_as_browsers_say_it(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("review.example.org", "expected https:// and a name"),
        ("https://review.example.org/trigpoint", "not below a path"),
        ("https://ada:secret@review.example.org", "expected https:// and a name"),
        ("https://review.example.org:port", "expected https:// and a name"),
        ("https://review.example.org?x=1", "expected https:// and a name"),
        ("https://evil example", "expected https:// and a name"),
        ("http://review.example.org", "without TLS"),
        ("javascript:alert(1)", "expected https:// and a name"),
        ("", "expected https:// and a name"),
    ],
)
def test_a_public_address_that_cannot_be_served_is_refused(url: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        origin_of(url)


@pytest.mark.parametrize(("method", "path"), [("put", "/api/decisions"), ("delete", "/api/items/x"), ("post", "/"), ("patch", "/api/desk")])
def test_another_method_is_refused(page: Page, method: str, path: str) -> None:
    ada = page.browser()

    answer = ada.http.request(method, path, json={}, headers={CSRF_HEADER: ada.csrf})

    assert answer.status_code == 405
    assert page.decisions == []


@pytest.mark.parametrize(
    "name",
    ["../../../../etc/passwd", "..%2f..%2fpage.py", "%2e%2e/%2e%2e/page.py", "..\\page.py", "/etc/passwd", "", "nothing.js", "%00main.js"],
)
def test_no_path_leads_out(page: Page, name: str) -> None:
    ada = page.browser()

    for path in (f"/static/{name}", f"/api/scenes/{name}/picture", f"/api/items/{name}", f"/api/scenes/{name}/outlines"):
        answer = ada.get(path)
        assert answer.status_code in (404, 405), path
        assert "root:" not in answer.text
        assert "import" not in answer.text


def test_a_decision_is_taken_only_from_who_is_signed_in(page: Page) -> None:
    ada = page.browser("ada")
    row = ada.row()

    answer = ada.post("/api/decisions", {**ada.intent(row, "accept"), "who": "ben"})

    assert answer.status_code == 422
    assert "sign in as ben" in answer.json()["error"]
    assert page.decisions == []


def test_a_given_name_cannot_be_changed(tmp_path: Path) -> None:
    page = Page(tmp_path, signed=Signed("ada", "expert"))
    ada = page.browser("ada", "expert")

    assert ada.get("/api/session").json()["who"] == "ada"
    assert ada.post("/api/sign", {"who": "ben", "role": "manager"}).status_code == 422
    assert ada.decide(ada.row(), "accept").status_code == 200
    page.desk.ledger.close()


@pytest.mark.parametrize("who", ["", " ada", "a\nb", "x" * 65, "\x1b[31m"])
def test_a_name_that_is_none_is_refused(page: Page, who: str) -> None:
    assert page.browser().post("/api/sign", {"who": who, "role": "manager"}).status_code == 422


# sizes and shapes


def test_a_large_body_is_refused_before_it_is_read(page: Page) -> None:
    ada = page.browser()

    announced = ada.http.post(
        "/api/decisions", content=b"{}", headers={CSRF_HEADER: ada.csrf, "content-type": "application/json", "content-length": str(2 << 30)}
    )
    sent = ada.http.post(
        "/api/sign", content=b" " * (MAX_BODY_BYTES + 1), headers={CSRF_HEADER: ada.csrf, "content-type": "application/json"}
    )

    assert (announced.status_code, sent.status_code) == (413, 413)


@pytest.mark.parametrize("is_chunked", [False, True], ids=["announced", "chunked"])
def test_an_upload_of_two_gigabytes_is_answered_at_once_and_cut_off(tmp_path: Path, is_chunked: bool) -> None:
    desk = MadeUpDesk(tmp_path)
    with served(desk) as page:
        host = page.url.removeprefix("http://")
        name, _, port = host.partition(":")
        key, session = page.sessions.open(page.sessions.new_link()) or ("", None)
        assert session is not None
        length = "transfer-encoding: chunked" if is_chunked else f"content-length: {2 << 30}"
        head = [
            "POST /api/decisions HTTP/1.1", f"host: {host}", f"origin: {page.url}", "content-type: application/json",
            f"cookie: {page.sessions.cookie}={key}", f"{CSRF_HEADER}: {session.csrf}", length, "", "",
        ]  # fmt: skip
        block = b"x" * (1 << 16)
        n_sent, answer = 0, b""
        with socket.create_connection((name, int(port)), timeout=10) as line:
            line.sendall("\r\n".join(head).encode())
            line.settimeout(0.2)
            while n_sent < 4 * MAX_DRAWING_BYTES and not answer:
                try:
                    line.sendall(b"%x\r\n%s\r\n" % (len(block), block) if is_chunked else block)
                    n_sent += len(block)
                except (TimeoutError, ConnectionError):
                    break
                line.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    answer = line.recv(4096)
                line.settimeout(5)
            if not answer:
                answer = line.recv(4096)

        assert answer.startswith(b"HTTP/1.1 413")
        assert n_sent <= 2 * MAX_DRAWING_BYTES  # the limit, and what the buffers of both sockets hold
    desk.ledger.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b"\xff\xfe",
        b"null",
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"[" * 100_000,
        b'{"who":"ada","evil":1}',
        b'{"round":NaN}',
        b"1e999",
    ],
    ids=["empty", "half", "no UTF-8", "null", "deep", "deeper", "unknown key", "NaN", "infinite"],
)
def test_json_that_is_none_of_ours_is_refused_without_a_traceback(page: Page, body: bytes) -> None:
    ada = page.browser()

    answer = ada.http.post("/api/decisions", content=body, headers={CSRF_HEADER: ada.csrf, "content-type": "application/json"})

    assert answer.status_code == 422
    assert "Traceback" not in answer.text
    assert len(answer.text) < 500


def test_a_fault_is_told_without_a_traceback(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = page.browser()
    monkeypatch.setattr(page.board, "rows", lambda since="": 1 / 0)

    answer = ada.get("/api/queue")

    assert answer.status_code == 500
    assert answer.json() == {"error": "this is a fault in trigpoint; the terminal says more"}


def test_scripts_in_names_reasons_and_titles_stay_text(tmp_path: Path) -> None:
    evil = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>'
    page = Page(tmp_path, title=evil)
    ada = page.browser(evil[:64])
    row = ada.row()

    ada.decide(row, "return", reason=evil)

    for path in ("/api/desk", f"/api/items/{row['id']}", "/api/queue"):
        answer = ada.get(path)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert ada.get(f"/api/items/{row['id']}").json()["history"][0]["reason"] == evil
    assert evil not in ada.get("/").text
    page.desk.ledger.close()


# policies


def test_a_manager_and_an_annotator_must_both_accept(tmp_path: Path) -> None:
    page = Page(tmp_path, review={"policy": "annotator+manager"})
    ada, mia = page.browser("ada", "annotator"), page.browser("mia", "manager")

    first = ada.decide(ada.row(), "accept").json()["rows"][0]
    second = mia.decide(first, "accept").json()["rows"][0]

    assert (first["status"], first["waits"]) == ("waiting", ["manager"])
    assert second["status"] == "approved"
    page.desk.ledger.close()


# addresses


@pytest.mark.parametrize(
    ("host", "said"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("192.168.1.4", False)]
)
def test_only_this_machine_is_loopback(host: str, said: bool) -> None:
    assert is_loopback(host) is said
    assert ("127.0.0.1" in names_served(host)) or not said


# the guide


def test_the_guide_has_every_key_and_no_other() -> None:
    root = Path(__file__).parents[3]
    script = (root / "trigpoint" / "review" / "static" / "keys.js").read_text(encoding="utf-8")
    guide = (root / "docs" / "review.md").read_text(encoding="utf-8")

    keys = [
        (re.findall(r'"([^"]+)"', shown), does) for shown, does in re.findall(r'shown: \[((?:"[^"]+"(?:, )?)+)\], does: "([^"]+)"', script)
    ]
    rows = [
        (re.findall(r"`([^`]+)`", cells), does.strip())
        for cells, does in re.findall(r"^\| ((?:`[^`]+` ?)+) \| (.+) \|$", guide.partition("\n## Keys\n")[2], re.MULTILINE)
    ]

    assert len(keys) > 30
    assert rows == keys
