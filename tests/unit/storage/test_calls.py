"""The record of calls: durable, shared by processes, never a crash for what a killed one left."""

import hashlib
import json
import logging
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from storage.calls import CallRecord, open_record
from trigpoint.errors import ArtefactError
from trigpoint.identity import digest_json
from trigpoint.records.calls import BatchNoted, CallAnswered, CallAsked, Spent

FORK = multiprocessing.get_context("fork")


def key(n: int) -> str:
    return digest_json(n)


def asked(n: int, ask_id: str = "", **more: Any) -> CallAsked:
    settled = {"model": "m", "prompt": "p.v1", "prompt_sha256": key(99), "answer": "Form", "inputs": {"category": "school"}, "images": ()}
    own = {"key": key(n), "ask_id": ask_id or f"ask-{n}", "budget_id": "b", "parameters": {}, "tokens": 100}
    return CallAsked.model_validate({**settled, **own, **more})


def answered(n: int, ask_id: str = "", **more: Any) -> CallAnswered:
    own = {"key": key(n), "ask_id": ask_id or f"ask-{n}", "budget_id": "b", "outcome": "answered", "attempts": 1}
    return CallAnswered.model_validate({**own, "text": f"text {n}", "tokens_in": 30, "tokens_out": 5, **more})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "calls"


def test_what_is_written_is_found_by_another_reader(folder: Path) -> None:
    record, other = CallRecord(folder), CallRecord(folder)

    record.append(asked(1))
    record.append(answered(1, text="ça va \u2028 \ufffd"))

    assert other.find(key(1)) == answered(1, text="ça va \u2028 \ufffd")
    assert other.find(key(2)) is None
    assert other.ask("ask-1") == asked(1)
    assert other.ask("ask-2") is None
    assert [line for _, line in CallRecord(folder).lines()] == [asked(1), answered(1, text="ça va \u2028 \ufffd")]


def test_the_first_answer_counts_and_a_failure_only_without_one(folder: Path) -> None:
    record = CallRecord(folder)
    for line in (
        answered(1, outcome="failed", text="", error="away", tokens_in=0, tokens_out=0),
        answered(1, "b"),
        answered(1, "c", text="other"),
    ):
        record.append(line)
        found = record.find(key(1))
        assert found is not None

    assert found.ask_id == "b"
    record.append(answered(2, outcome="failed", error="one"))
    record.append(answered(2, outcome="failed", error="two"))
    failure = record.find(key(2))
    assert failure is not None
    assert failure.error == "two"


def test_a_budget_knows_what_is_paid_and_what_is_open(folder: Path) -> None:
    record = CallRecord(folder)
    record.append(asked(1, cost=0.5))
    record.append(asked(2, cost=0.25))
    record.append(asked(3, "other budget", budget_id="c"))

    assert record.spent("b") == Spent(unsettled_tokens=200, unsettled_cost=0.75, n_unsettled=2)
    record.append(answered(1, cost=0.125))
    record.append(answered(2, outcome="failed", tokens_in=0, tokens_out=0))
    assert record.spent("b") == Spent(tokens=35, cost=0.125, n_calls=1)
    assert CallRecord(folder).spent("b") == record.spent("b")
    assert record.spent("nobody") == Spent()


def test_an_answer_settles_every_time_that_its_call_was_asked(folder: Path) -> None:
    record = CallRecord(folder)
    record.append(asked(1, "killed"))
    record.append(asked(1, "again"))

    record.append(answered(1, "again"))

    assert record.spent("b").n_unsettled == 0


def test_a_call_that_does_not_fit_is_not_written(folder: Path) -> None:
    record = CallRecord(folder)

    assert record.append_if(asked(1), lambda spent: spent.unsettled_tokens < 100)
    assert not record.append_if(asked(2), lambda spent: spent.unsettled_tokens < 100)

    assert record.spent("b").n_unsettled == 1
    assert record.ask("ask-2") is None


def test_a_half_written_last_line_is_passed_over_and_cut_off(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    CallRecord(folder).append(answered(1))
    path = folder / "calls.jsonl"
    whole = path.read_bytes()
    for rest in (whole[:1], whole[:20], whole[:80], whole[:-1], whole[:80] + b"x" * 5000):
        path.write_bytes(whole + rest)

        record = CallRecord(folder)
        assert record.find(key(1)) == answered(1)
        assert record.damaged == []
        record.append(answered(2))

        assert CallRecord(folder).find(key(2)) == answered(2)
        assert path.read_bytes().startswith(whole)
        assert path.read_bytes().count(b"\n") == 2
        assert path.read_bytes().endswith(b"}\n")
    assert "half-written" in caplog.text


def test_damaged_lines_are_named_and_the_others_are_used(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    record = CallRecord(folder)
    for n in (1, 2, 3, 4):
        record.append(answered(n))
    path = folder / "calls.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"text 2", b"text 7")
    lines[2] = b"\x00" * 40 + b"\n"
    path.write_bytes(b"".join(lines))

    with caplog.at_level(logging.WARNING):
        damaged = CallRecord(folder)

    assert [(line.number, line.reason) for line in damaged.damaged] == [
        (2, "its bytes do not have its sha256"),
        (3, "not a line of a record of calls"),
    ]
    assert f"{path}:2" in caplog.text
    assert damaged.find(key(2)) is None
    assert damaged.find(key(4)) == answered(4)
    assert [line for _, line in damaged.lines()] == [answered(1), answered(4)]


def test_a_line_that_is_damaged_after_it_was_read_is_an_error_that_names_it(folder: Path) -> None:
    record = CallRecord(folder)
    record.append(answered(1))
    path = folder / "calls.jsonl"
    path.write_bytes(path.read_bytes().replace(b"text 1", b"text 7"))

    with pytest.raises(ArtefactError, match="line at byte 0"):
        record.find(key(1))


def test_the_newest_line_of_a_batch_counts(folder: Path) -> None:
    record = CallRecord(folder)
    noted = BatchNoted(token="t", state="planned", endpoint="/v1/responses", asks={key(1): "ask-1"})
    record.append(noted)
    record.append(noted.model_copy(update={"state": "submitted", "batch_id": "batch-1"}))

    assert [(batch.state, batch.batch_id) for batch in CallRecord(folder).batches()] == [("submitted", "batch-1")]


def test_times_stand_beside_the_lines_and_not_in_them(folder: Path) -> None:
    record = CallRecord(folder)
    record.append(answered(1))

    [(at, line)] = record.lines()

    assert at.endswith("+00:00")
    assert "at" not in line.to_json()
    assert json.loads((folder / "calls.jsonl").read_text())["body"]["at"] == at


def _write_many(folder: Path, first: int) -> None:
    record = CallRecord(folder)
    for n in range(first, first + 25):
        record.append(answered(n, text="x" * (n * 13 % 500)))


def test_processes_and_threads_write_at_once_without_losing_or_mixing_lines(folder: Path) -> None:
    processes = [FORK.Process(target=_write_many, args=(folder, 100 * p)) for p in range(3)]
    threads = [threading.Thread(target=_write_many, args=(folder, 100 * t)) for t in range(3, 5)]
    for each in (*processes, *threads):
        each.start()
    for each in (*processes, *threads):
        each.join()

    record = CallRecord(folder)
    assert record.damaged == []
    assert record.spent("b").n_calls == 125
    assert all(record.find(key(100 * p + k)) for p in range(5) for k in range(25))


def _claim_and_hang(folder: Path, ready: Any) -> None:
    with CallRecord(folder).claim(key(5)):
        ready.set()
        time.sleep(60)


def test_a_claim_keeps_other_processes_out_until_its_own_is_killed(folder: Path) -> None:
    record = CallRecord(folder)
    ready = FORK.Event()
    holder = FORK.Process(target=_claim_and_hang, args=(folder, ready))
    holder.start()
    assert ready.wait(10)
    entered = threading.Event()

    def enter() -> None:
        with record.claim(key(5)):
            entered.set()

    waiting = threading.Thread(target=enter)
    waiting.start()
    with record.claim(key(6)):
        assert not entered.wait(0.2)
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()

    assert entered.wait(10)
    waiting.join()


def test_a_claim_keeps_other_threads_out(folder: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(n: int) -> None:
        with CallRecord(folder).claim(key(7)):
            inside.append(n)
            most.append(len(inside))
            time.sleep(0.01)
            inside.remove(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert most == [1] * 6


def test_a_full_disk_is_an_error_that_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = CallRecord(folder)
    record.append(answered(1))
    whole = os.pwrite

    def short(file: int, data: bytes, offset: int) -> int:
        return whole(file, data[:50], offset)

    monkeypatch.setattr(os, "pwrite", short)
    with pytest.raises(ArtefactError, match="wrote 50 of"):
        record.append(answered(2))
    monkeypatch.undo()

    record.append(answered(3))
    assert CallRecord(folder).damaged == []
    assert CallRecord(folder).find(key(3)) == answered(3)


def test_the_form_of_a_line_is_what_it_was_before(folder: Path) -> None:
    """A paid answer must stay readable: the bytes of a line are spelled out here, apart from the code that writes them."""
    body = json.dumps({"at": "2026-01-02T03:04:05.678+00:00", "line": answered(1).to_json()}, separators=(",", ":"))
    line = f'{{"sha256":"{hashlib.sha256(body.encode()).hexdigest()}","body":{body}}}\n'
    folder.mkdir()
    (folder / "calls.jsonl").write_text(line)

    record = CallRecord(folder)
    record.append(answered(2))

    assert next(record.lines()) == ("2026-01-02T03:04:05.678+00:00", answered(1))
    first, second = (folder / "calls.jsonl").read_text().splitlines()
    assert f"{first}\n" == line
    written = json.dumps({"at": json.loads(second)["body"]["at"], "line": answered(2).to_json()}, separators=(",", ":"))
    assert second == f'{{"sha256":"{hashlib.sha256(written.encode()).hexdigest()}","body":{written}}}'


def test_a_line_with_good_bytes_and_another_form_is_named_and_passed_over(folder: Path) -> None:
    record = CallRecord(folder)
    record.append(answered(1))
    for body in ('{"line":{"line":"answered"}}', '{"at":"x","line":{"line":"later"}}', "[]"):
        with (folder / "calls.jsonl").open("a") as file:
            file.write(f'{{"sha256":"{hashlib.sha256(body.encode()).hexdigest()}","body":{body}}}\n')

    again = CallRecord(folder)

    assert [line.number for line in again.damaged] == [2, 3, 4]
    assert all("not a line of this version" in line.reason for line in again.damaged)
    assert [line for _, line in again.lines()] == [answered(1)]


def test_a_record_that_was_deleted_is_opened_anew(folder: Path) -> None:
    record = open_record(folder)
    record.append(answered(1))
    assert open_record(folder) is record
    (folder / "calls.jsonl").unlink()

    assert open_record(folder).find(key(1)) is None
