"""Documents from outside: limits, archives that lie, entities."""

import json
import struct
import zipfile
from pathlib import Path

import pytest

from storage.documents import NamedBytes, parse_json, parse_xml, read_document
from trigpoint.errors import InputError


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def test_a_plain_file_and_the_one_member_of_an_archive(tmp_path: Path) -> None:
    plain = tmp_path / "a.json"
    plain.write_bytes(b"{}")
    packed = archive(tmp_path / "b.zip", {"images/a.png": b"x" * 100, "deep/annotations.XML": b"<a/>", "readme.txt": b""})

    assert read_document(plain, (".json",)) == NamedBytes("a.json", b"{}")
    assert read_document(packed, (".json", ".xml")) == NamedBytes("annotations.XML", b"<a/>")


@pytest.mark.parametrize(("members", "n"), [({"a.txt": b""}, 0), ({"a.xml": b"", "b.json": b""}, 2)])
def test_an_archive_without_a_document_or_with_several(tmp_path: Path, members: dict[str, bytes], n: int) -> None:
    with pytest.raises(InputError, match=f"holds {n} files that end in"):
        read_document(archive(tmp_path / "a.zip", members), (".json", ".xml"))


def test_members_that_do_not_count_are_passed_over(tmp_path: Path) -> None:
    packed = archive(tmp_path / "a.zip", {"out/tasks.json": b"[]", "out/export.json": b"{}"})

    assert read_document(packed, (".json",), passed_over=("export.json",)).name == "tasks.json"


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = archive(tmp_path / "bomb.zip", {"tasks.json": b"0" * (64 << 20)})
    assert bomb.stat().st_size < 100_000

    with pytest.raises(InputError, match=r"'tasks\.json': it says that it has 67108864 bytes"):
        read_document(bomb, (".json",))


def test_an_archive_whose_member_says_it_has_two_gigabytes(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"tasks.json": b"[]"})
    data = bytearray(path.read_bytes())
    central = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, central + 24, 0x7FFF_FFFF)
    path.write_bytes(data)

    with pytest.raises(InputError, match="it says that it has 2147483647 bytes"):
        read_document(path, (".json",))


def test_an_archive_that_holds_more_than_it_says(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"tasks.json": b"[" + b" " * 100_000 + b"]"})
    data = bytearray(path.read_bytes())
    central = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, central + 24, 10)
    path.write_bytes(data)

    with pytest.raises(InputError, match=r"a\.zip"):
        read_document(path, (".json",))


def test_names_that_lead_out_of_an_archive_are_names_only(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"../../../etc/cron.d/tasks.json": b"[]"})

    assert read_document(path, (".json",)) == NamedBytes("tasks.json", b"[]")
    assert [p.name for p in tmp_path.iterdir()] == ["a.zip"]


def test_damaged_encrypted_missing_and_large_files_are_named(tmp_path: Path) -> None:
    good = archive(tmp_path / "a.zip", {"tasks.json": json.dumps(list(range(1000))).encode()}).read_bytes()
    damaged = {"cut": good[: len(good) // 2], "torn": good[:60] + b"????" + good[64:]}
    for name, data in damaged.items():
        (tmp_path / f"{name}.zip").write_bytes(data)
        with pytest.raises(InputError, match="cannot be read"):
            read_document(tmp_path / f"{name}.zip", (".json",))
    with pytest.raises(InputError, match="is not there"):
        read_document(tmp_path / "none.json", (".json",))
    with pytest.raises(InputError, match="at most 10 are read"):
        read_document(tmp_path / "a.zip", (".json",), max_bytes=10)


@pytest.mark.parametrize("text", ["{", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, "1" * 5000, "\ufeff{"])
def test_what_is_no_strict_json_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"'x\.json' is no JSON"):
        parse_json(NamedBytes("x.json", text.encode()))


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(InputError, match="is no JSON"):
        parse_json(NamedBytes("x.json", b'"\xff"'))
    with pytest.raises(InputError, match="is not UTF-8 at byte 3"):
        parse_xml(NamedBytes("x.xml", b"<a>\xff</a>"))


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>',
        '<?xml version="1.0"?><!doctype a SYSTEM "http://example.org/x.dtd"><a/>',
        '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
    ],
)
def test_xml_with_a_doctype_is_refused_before_any_parser_sees_it(text: str) -> None:
    with pytest.raises(InputError, match="has a DOCTYPE"):
        parse_xml(NamedBytes("x.xml", text.encode()))


@pytest.mark.parametrize("text", ["<a>", "", "<a>&e;</a>", "<a/><b/>"])
def test_what_is_no_xml_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no XML"):
        parse_xml(NamedBytes("x.xml", text.encode()))
    assert parse_xml(NamedBytes("x.xml", "\ufeff<a b='&lt;!DOCTYPE'/>".encode())).get("b") == "<!DOCTYPE"
