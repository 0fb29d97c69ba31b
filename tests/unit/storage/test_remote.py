import email.utils
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.remote import Manners, Snapshots, Web, expect_digest
from tests.web_server import Reply, Served, serving
from trigpoint.errors import FetchError
from trigpoint.identity import digest_bytes

NOW = 1_700_000_000.0


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        yield server


def web(waits: list[float], **manners: object) -> Web:
    kept = Manners(**{"timeout_s": 5.0, "attempts": 3, "backoff_s": 1.0, "max_wait_s": 30.0, **manners})  # type: ignore[arg-type]
    return Web(kept, sleep=waits.append, now=lambda: NOW)


def test_a_busy_server_is_given_the_time_it_asks_for(served: Served) -> None:
    date = email.utils.formatdate(NOW + 12, usegmt=True)
    url = served.put("/a", Reply(b"slow down", 429, {"Retry-After": "7"}), Reply(b"", 503, {"Retry-After": date}), Reply(b"good"))
    waits: list[float] = []

    assert web(waits).get(url).content == b"good"
    assert waits == [7.0, 12.0]
    assert {asked.headers["user-agent"] for asked in served.asked} == {"trigpoint"}


def test_without_a_wish_of_the_server_waits_double(served: Served) -> None:
    url = served.put("/a", Reply(b"", 504), Reply(drop=True), Reply(b"good"))
    waits: list[float] = []

    assert web(waits).get(url).content == b"good"
    assert waits == [1.0, 2.0]


def test_a_server_that_stays_busy_is_left_alone(served: Served) -> None:
    url = served.put("/a", Reply(b"rate limited", 429))
    waits: list[float] = []

    with pytest.raises(FetchError, match=r"busy \(429: 'rate limited'\) after 3 attempts; try again later"):
        web(waits).get(url)
    assert len(served.asked) == 3


def test_a_longer_wait_than_allowed_is_not_waited(served: Served) -> None:
    url = served.put("/a", Reply(b"", 429, {"Retry-After": "3600"}))
    waits: list[float] = []

    with pytest.raises(FetchError, match="asks to wait 3600 s, more than run"):
        web(waits).get(url)
    assert waits == []
    assert len(served.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_a_refusal_is_not_asked_again(served: Served, status: int) -> None:
    url = served.put("/a", Reply(b"no <b>such</b> thing", status))

    with pytest.raises(FetchError, match=f"the server says {status}: 'no <b>such</b> thing'"):
        web([]).get(url + "?key=secret")
    assert len(served.asked) == 1


def test_a_message_never_shows_the_query_of_a_url(served: Served) -> None:
    url = served.put("/a", Reply(b"", 500))

    with pytest.raises(FetchError) as told:
        web([]).get(url + "?key=secret")
    assert "secret" not in str(told.value)


def test_an_answer_has_a_size_limit(served: Served) -> None:
    url = served.put("/a", Reply(b"x" * 5000))

    with pytest.raises(FetchError, match="more than 1000 bytes"):
        web([], max_bytes=1000).get(url)


def test_circles_of_redirects_and_other_schemes_are_refused(served: Served) -> None:
    circle = served.put("/a", Reply(b"", 302, {"Location": "/a"}))
    file = served.put("/b", Reply(b"", 302, {"Location": "file:///etc/passwd"}))

    for url in (circle, file):
        with pytest.raises(FetchError, match="check the URL"):
            web([]).get(url)


def test_nobody_there_is_told_after_the_last_attempt() -> None:
    waits: list[float] = []

    with pytest.raises(FetchError, match="no answer after 3 attempts"):
        web(waits).get("http://127.0.0.1:9/a")
    assert waits == [1.0, 2.0]


def test_requests_of_a_process_go_one_after_the_other(served: Served) -> None:
    url = served.put("/a", Reply(b"x" * 100_000))
    threads = [threading.Thread(target=web([]).get, args=(url,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(served.asked) == 6
    assert served.most_at_once == 1


def test_an_interval_is_kept_between_requests(served: Served) -> None:
    url = served.put("/a", Reply(b"x"))
    waits: list[float] = []
    client = Web(Manners(interval_s=2.0), sleep=waits.append, clock=lambda: 10.0)
    client.get(url)
    client.get(url)

    assert waits == [2.0]


def test_a_snapshot_is_found_by_what_was_asked_and_only_while_whole(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    saved = snapshots.save({"q": 1}, b"answer", ".json", {"acquired": "2024"})

    assert saved.path.name == digest_bytes(b"answer") + ".json"
    assert snapshots.find({"q": 1}) == saved
    assert snapshots.find({"q": 2}) is None
    saved.path.write_bytes(b"answex")
    assert snapshots.find({"q": 1}) is None
    assert snapshots.save({"q": 1}, b"answer", ".json", {"acquired": "2024"}) == saved
    assert snapshots.find({"q": 1}) == saved


def test_a_pinned_digest_must_match(tmp_path: Path) -> None:
    saved = Snapshots(tmp_path).save({}, b"answer", ".json")

    assert expect_digest(saved, None, "x") == expect_digest(saved, saved.sha256, "x") == saved
    with pytest.raises(FetchError, match=r"sources\.a\.pois\.0: what was fetched has the SHA-256 .* expected 0{64} \(key sha256\)"):
        expect_digest(saved, "0" * 64, "sources.a.pois.0")


def test_secrets_of_a_url_come_from_the_environment_and_are_shown_nowhere(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    url = served.put("/a", Reply(b"key s3cr3t is not valid", 403))
    monkeypatch.setenv("TILE_KEY", "s3cr3t")

    with pytest.raises(FetchError) as told:
        web([]).get(url + "?key=${TILE_KEY}")
    assert served.asked[0].path == "/a?key=s3cr3t"
    assert "s3cr3t" not in str(told.value) and "key *** is not valid" in str(told.value)
    monkeypatch.delenv("TILE_KEY")
    with pytest.raises(FetchError, match="the environment variable 'TILE_KEY' is not set"):
        web([]).get(url + "?key=${TILE_KEY}")


def test_whoever_watches_is_told_of_waits_and_of_what_came(served: Served) -> None:
    url = served.put("/a", Reply(b"busy", 429, {"Retry-After": "7"}), Reply(b"x" * 1_500_000))
    said: list[str] = []
    time_s = [100.0]

    def wait(seconds: float) -> None:
        time_s[0] += seconds

    watched = Web(Manners(), sleep=wait, clock=lambda: time_s[0], tell=said.append)

    watched.get(url)

    assert time_s == [107.0]
    assert said == ["the server is busy (429); waiting 7 s", "2 requests, 1.5 MB so far"]
    assert watched.traffic == "2 requests, 1.5 MB"
