import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from storage import digests
from storage.digests import CHECKOUT, code_digest, list_code, source_digest
from trigpoint.errors import ConfigError, InputError


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "tasks/__init__.py": "",
        "tasks/boxes.py": (
            '"""Doc."""\nfrom trigpoint.boxes import hbb\nfrom storage import artefacts\nimport numpy\n\n\n'
            "def run():\n    return hbb.make(1)\n"
        ),
        "storage/__init__.py": "",
        "storage/artefacts.py": "def put():\n    import trigpoint.late\n\n    return trigpoint.late\n",
        "trigpoint/__init__.py": "VERSION = 1\n",
        "trigpoint/late.py": "A = 1\n",
        "trigpoint/unused.py": "A = 1\n",
        "trigpoint/boxes/__init__.py": "",
        "trigpoint/boxes/hbb.py": "from ..geometry.outlines import trace\nfrom . import calipers\n\n\ndef make(x):\n    return trace(x)\n",
        "trigpoint/boxes/calipers.py": "B = 2\n",
        "trigpoint/geometry/__init__.py": "",
        "trigpoint/geometry/outlines.py": 'LIMIT = 3\n"""A limit."""\n\n\ndef trace(x):\n    """Trace."""\n    return x + LIMIT\n',
        "flows/__init__.py": "",
        "flows/build.py": "A = 1\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def digest(checkout: Path, *data_files: Path) -> str:
    return code_digest("tasks.boxes", data_files, ["numpy"], root=checkout)


def edit(checkout: Path, name: str, old: str, new: str) -> None:
    path = checkout / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns + 1_000_000))


def test_everything_first_party_that_is_imported_counts_and_nothing_else(checkout: Path) -> None:
    assert list_code("tasks.boxes", root=checkout) == [
        "storage",
        "storage.artefacts",
        "tasks",
        "tasks.boxes",
        "trigpoint",
        "trigpoint.boxes",
        "trigpoint.boxes.calipers",
        "trigpoint.boxes.hbb",
        "trigpoint.geometry",
        "trigpoint.geometry.outlines",
        "trigpoint.late",
    ]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("tasks/boxes.py", "def run():\n    return", "# why\n\ndef run():  # because\n    return"),
        ("tasks/boxes.py", "Doc.", "Another text."),
        ("trigpoint/geometry/outlines.py", "Trace.", "Trace it."),
        ("trigpoint/geometry/outlines.py", "A limit.", "A limit, px."),
        ("trigpoint/geometry/outlines.py", "x + LIMIT", "(x +\n        LIMIT)"),
        ("trigpoint/unused.py", "A = 1", "A = 2"),
        ("flows/build.py", "A = 1", "A = 2"),
    ],
    ids=["comments", "docstring", "docstring of a function", "note", "layout", "unused", "flow"],
)
def test_what_changes_no_result_changes_no_digest(checkout: Path, name: str, old: str, new: str) -> None:
    before = digest(checkout)

    edit(checkout, name, old, new)

    assert digest(checkout) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("tasks/boxes.py", "make(1)", "make(2)"),
        ("trigpoint/geometry/outlines.py", "LIMIT = 3", "LIMIT = 4"),
        ("trigpoint/boxes/calipers.py", "B = 2", "B = 3"),
        ("trigpoint/late.py", "A = 1", "A = 2"),
        ("trigpoint/__init__.py", "VERSION = 1", "VERSION = 2"),
    ],
    ids=["itself", "two imports away", "from a package", "inside a function", "package"],
)
def test_what_may_change_a_result_changes_the_digest(checkout: Path, name: str, old: str, new: str) -> None:
    before = digest(checkout)

    edit(checkout, name, old, new)

    assert digest(checkout) != before


def test_data_files_count_by_name_and_bytes_not_by_folder(checkout: Path) -> None:
    first, second = checkout / "a" / "p.v1.md", checkout / "b" / "p.v1.md"
    for path in (first, second):
        path.parent.mkdir()
        path.write_text("text")

    assert digest(checkout, first) == digest(checkout, second) != digest(checkout)
    second.write_text("other")
    assert digest(checkout, first) != digest(checkout, second)


def test_versions_of_libraries_count(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(checkout)

    digests._library_version.cache_clear()
    monkeypatch.setattr(digests.metadata, "version", lambda name: "999")

    assert digest(checkout) != before
    digests._library_version.cache_clear()


def test_things_that_are_not_there_are_named(checkout: Path) -> None:
    with pytest.raises(ConfigError, match=r"module 'tasks\.none' is not in"):
        code_digest("tasks.none", [], [], root=checkout)
    with pytest.raises(ConfigError, match="module 'numpy' is not in"):
        code_digest("numpy", [], [], root=checkout)
    with pytest.raises(ConfigError, match=r"none\.md' cannot be read"):
        digest(checkout, checkout / "none.md")
    with pytest.raises(ConfigError, match="library 'no-such-library' is not installed"):
        code_digest("tasks.boxes", [], ["no-such-library"], root=checkout)
    (checkout / "trigpoint/late.py").write_text("def (:\n")
    with pytest.raises(ConfigError, match=r"late\.py' is not Python"):
        digest(checkout)


def test_real_module_is_covered_with_its_imports() -> None:
    assert {"storage.rasters", "storage.digests", "trigpoint.errors", "trigpoint.imagery.patch"} <= set(
        list_code("storage.rasters", CHECKOUT)
    )
    assert len(code_digest("storage.rasters", [], ["rasterio"])) == 64


# ------------------------------------------------------------------------------------------- source files


def settled(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    return path


def test_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = settled(tmp_path / "a.tif", b"x" * 3_000_000)

    expected = hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert source_digest(path) == expected
    assert source_digest(path, tmp_path / "cache.json") == expected
    assert source_digest(path, tmp_path / "cache.json") == expected


def test_known_file_is_not_read_again_and_a_changed_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = settled(tmp_path / "a.tif", b"one"), tmp_path / "cache.json"
    first = source_digest(path, cache)

    with monkeypatch.context() as patch:
        patch.setattr(digests, "digest_file", lambda path: pytest.fail("read again"))
        assert source_digest(path, cache) == first
    replaced = settled(tmp_path / "b.tif", b"two")
    os.utime(replaced, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    replaced.replace(path)

    assert source_digest(path, cache) == hashlib.sha256(b"two").hexdigest()


def test_file_written_just_now_is_not_remembered(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(b"one")

    source_digest(tmp_path / "a.tif", tmp_path / "cache.json")

    assert not (tmp_path / "cache.json").exists()


@pytest.mark.parametrize("broken", [b"", b'{"a', b"[]", b"\xff"])
def test_broken_cache_is_begun_anew(tmp_path: Path, broken: bytes) -> None:
    path, cache = settled(tmp_path / "a.tif", b"one"), tmp_path / "cache.json"
    cache.write_bytes(broken)

    assert source_digest(path, cache) == hashlib.sha256(b"one").hexdigest()
    assert list(json.loads(cache.read_bytes())) == [str(path)]


def test_missing_file_is_named(tmp_path: Path) -> None:
    for cache in (None, tmp_path / "cache.json"):
        with pytest.raises(InputError, match=r"none\.tif' cannot be read"):
            source_digest(tmp_path / "none.tif", cache)
