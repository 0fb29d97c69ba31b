from pathlib import Path

import pytest

from storage.hashes import read_hashes
from trigpoint.errors import InputError

ONE, TWO = "0123456789abcdef", "FEDCBA9876543210"
BOTH = [int(ONE, 16), int(TWO, 16)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("h.txt", f"{ONE}\n\n {TWO} \r\n"),
        ("h.jsonl", f'"{ONE}"\n{{"phash": "{TWO}", "name": "x"}}\n'),
        ("h.jsonl", f'{{"phash": ["{ONE}", "{TWO}"]}}\n'),
        ("h.csv", f"name,phash\na,{ONE}\nb,{TWO}\n"),
    ],
)
def test_hashes_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    assert read_hashes(tmp_path / name) == BOTH


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("h.txt", f"{ONE}\nnothing\n", "line 2: hash 'nothing'"),
        ("h.jsonl", f'"{ONE}"\n{{"hash": "{TWO}"}}\n', "line 2: hash 'None'"),
        ("h.jsonl", "{\n", "line 1: not JSON"),
        ("h.csv", "name\na\n", "expected 'phash' among them"),
        ("h.csv", "name,phash\na,\n", "line 2: hash ''"),
        ("h.bin", "x", "expected .txt, .jsonl or .csv"),
    ],
)
def test_a_bad_list_is_told_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(InputError, match=message):
        read_hashes(tmp_path / name)


def test_a_missing_list_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_hashes(tmp_path / "gone.txt")
