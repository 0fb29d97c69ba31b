"""The ledger's file: durable, shared, never two decisions for one."""

import contextlib
import multiprocessing
from pathlib import Path

import pytest

from storage.ledger import LedgerFile
from trigpoint.records.review import Decision
from trigpoint.review.ledger import ConflictError


def accept(item: str, who: str = "ada", previous: str | None = None) -> Decision:
    about = {"item_id": item, "kind": "mask", "scene_id": "s-1", "version": "0" * 64}
    return Decision.model_validate({**about, "action": "accept", "who": who, "role": "annotator", "previous": previous})


def test_what_is_written_is_there_for_everyone(tmp_path: Path) -> None:
    mine, yours = LedgerFile(tmp_path), LedgerFile(tmp_path)
    assert mine.append(accept("i-1"))
    assert not mine.append(accept("i-1"))
    newest = yours.refresh().newest("i-1")
    assert newest == accept("i-1")
    assert yours.time_of[newest.decision_id].endswith("+00:00")
    assert [record["item_id"] for record in LedgerFile(tmp_path).records()] == ["i-1"]


def test_someone_who_did_not_see_the_newest_is_told_so(tmp_path: Path) -> None:
    mine, yours = LedgerFile(tmp_path), LedgerFile(tmp_path)
    mine.append(accept("i-1", "ada"))
    with pytest.raises(ConflictError, match="ada"):
        yours.append(accept("i-1", "bo"))
    assert yours.append(accept("i-1", "bo", previous=accept("i-1", "ada").decision_id))
    assert len(mine.refresh()) == 2


def _decide(folder: Path, who: str) -> int:
    ledger, done = LedgerFile(folder), 0
    for k in range(20):
        with contextlib.suppress(ConflictError):
            done += ledger.append(accept(f"i-{k}", who))
    return done


def test_four_processes_decide_each_item_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        done = pool.starmap(_decide, [(tmp_path, who) for who in ("ada", "bo", "cy", "dee")])
    assert sum(done) == 20
    assert len(LedgerFile(tmp_path).refresh()) == 20


def test_a_half_written_or_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path)
    ledger.append(accept("i-1"))
    ledger.append(accept("i-2"))
    ledger.close()
    text = ledger.path.read_text().splitlines(keepends=True)
    ledger.path.write_text(text[0].replace("i-1", "i-7") + text[1] + text[1][:40])
    again = LedgerFile(tmp_path)
    assert [one.item_id for one in (again.ledger.newest("i-1"), again.ledger.newest("i-2")) if one] == ["i-2"]
    assert "1: its bytes do not have its sha256" in again.damaged[0]
    again.append(accept("i-3"))
    assert len(LedgerFile(tmp_path).refresh()) == 2


def test_a_file_that_is_replaced_is_read_anew_and_written_to(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path)
    ledger.append(accept("i-1"))
    other = LedgerFile(tmp_path / "elsewhere")
    other.append(accept("i-2"))
    other.path.replace(ledger.path)  # as `git checkout` does
    assert ledger.append(accept("i-3"))
    assert {one.newest(name) is not None for one in (ledger.refresh(), LedgerFile(tmp_path).ledger) for name in ("i-2", "i-3")} == {True}
    assert ledger.refresh().newest("i-1") is None


def test_a_file_that_is_cut_or_deleted_is_read_anew(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path)
    ledger.append(accept("i-1"))
    ledger.append(accept("i-2"))
    lines = ledger.path.read_text().splitlines(keepends=True)
    with ledger.path.open("r+") as file:  # the same file, shorter
        file.truncate(len(lines[0]))
    assert len(ledger.refresh()) == 1
    ledger.path.unlink()
    assert ledger.append(accept("i-3"))
    assert len(LedgerFile(tmp_path).ledger) == 1
