"""A04 (mlcommons/croissant#959): a manifest and its files disagree; every file concerned is named, names with spaces and umlauts too."""

import hashlib
import json

import pytest

from trigpoint.audit import audit_release

NAMES = {"labels.json": b"{}\n", "patch 1 ä.txt": b"abc", "empty.txt": b"", "日本/ß.bin": b"\x00"}


@pytest.fixture
def folder(tmp_path):
    """A folder whose manifest lists all of NAMES rightly, and one file that does not exist."""
    files = [{"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in NAMES.items()]
    files.append({"path": "gone ö.txt", "bytes": 3, "sha256": "0" * 64})
    for name, data in NAMES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "manifest.json").write_text(
        json.dumps({"files": sorted(files, key=lambda f: f["path"])}, ensure_ascii=False), encoding="utf-8"
    )
    return tmp_path


def named(folder):
    codes = ("file_altered", "file_missing", "file_unlisted")
    return [(f.code, f.file) for f in audit_release(folder).findings if f.code in codes]


def test_case_a04_altered_missing_and_unlisted_files_are_each_named(folder):
    (folder / "labels.json").write_bytes(b"{ }\n")
    (folder / "extra ü 1.bin").write_bytes(b"x")

    assert named(folder) == [("file_altered", "labels.json"), ("file_missing", "gone ö.txt"), ("file_unlisted", "extra ü 1.bin")]


def test_case_a04_files_that_are_right_are_not_named(folder):
    assert named(folder) == [("file_missing", "gone ö.txt")]


def test_case_a04_a_change_that_keeps_the_size_is_named(folder):
    (folder / "patch 1 ä.txt").write_bytes(b"abd")

    assert ("file_altered", "patch 1 ä.txt") in named(folder)
