"""JSON and XML documents from outside, and what holds them: plain files, or one member of a zip archive; all with limits.

Nothing is ever unpacked to a path: of an archive one member is read into memory, after its declared sizes were found small enough, and
no more of it than it declared. XML with a DOCTYPE is refused, so that no entity is ever expanded. Not here: what a document says.
"""

import json
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, NoReturn
from xml.etree import ElementTree

from trigpoint.errors import InputError

MAX_BYTES = 512 << 20
"""Largest document, bytes: it is held in memory whole."""

MAX_MEMBERS = 200_000
"""Most files of an archive."""

MAX_RATIO = 400
"""How many times larger a member may be than its compressed bytes; masks of Label Studio reach a hundred."""

_BLOCK = 1 << 20
_ZIP_MAGIC = b"PK\x03\x04"


class NamedBytes(NamedTuple):
    """A document's name, without folders, and its bytes."""

    name: str
    data: bytes


def read_document(path: Path, endings: Sequence[str], passed_over: Sequence[str] = (), max_bytes: int = MAX_BYTES) -> NamedBytes:
    """Read a file, or of a zip archive the one member with one of some endings.

    Args:
        path: A local file.
        endings: Endings in lower case, such as `.json`.
        passed_over: Names of members that do not count.
        max_bytes: Largest document.

    Raises:
        InputError: it is not there or too large, or an archive without such a member, with several, damaged, encrypted, or larger than it
            says.
    """
    if not path.is_file():
        raise InputError(f"file {str(path)!r} is not there; check its name")
    with path.open("rb") as file:
        is_zip = file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
        size = path.stat().st_size
        if size > max_bytes:
            raise InputError(f"file {str(path)!r} has {size} bytes, at most {max_bytes} are read; export fewer scenes at a time")
        if not is_zip:
            file.seek(0)
            return NamedBytes(path.name, file.read(max_bytes + 1))
    return _member(path, endings, passed_over, max_bytes)


def _member(path: Path, endings: Sequence[str], passed_over: Sequence[str], max_bytes: int) -> NamedBytes:
    name = f"archive {str(path)!r}"
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise InputError(f"{name} holds {len(members)} files, at most {MAX_MEMBERS} are looked at; export fewer scenes at a time")
            found = [
                m for m in members if not m.is_dir() and m.filename.lower().endswith(tuple(endings)) and _name_of(m) not in passed_over
            ]
            if len(found) != 1:
                shown = ", ".join(repr(member.filename[:60]) for member in found[:3])
                raise InputError(f"{name} holds {len(found)} files that end in {' or '.join(endings)} ({shown}), expected one")
            return NamedBytes(_name_of(found[0]), _bytes_of(archive, found[0], name, max_bytes))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise InputError(f"{name} cannot be read: {error}; export it again") from error


def _name_of(member: zipfile.ZipInfo) -> str:
    return PurePosixPath(member.filename).name


def _bytes_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, max_bytes: int) -> bytes:
    what = f"{name}, member {member.filename[:80]!r}"
    if member.file_size > max_bytes or member.file_size > MAX_RATIO * max(member.compress_size, _BLOCK // MAX_RATIO):
        raise InputError(
            f"{what}: it says that it has {member.file_size} bytes, {member.compress_size} compressed; at most {max_bytes} bytes and "
            f"{MAX_RATIO} times the compressed ones are read"
        )
    data = bytearray()
    with archive.open(member) as file:
        while block := file.read(_BLOCK):
            data += block
            if len(data) > member.file_size:
                raise InputError(f"{what}: it is larger than the {member.file_size} bytes that it says; export it again")
    return bytes(data)


def parse_json(document: NamedBytes) -> Any:
    """Read JSON strictly: UTF-8, no NaN, no key twice.

    Raises:
        InputError: it is no such JSON; names the document and the place.
    """
    try:
        return json.loads(document.data.decode("utf-8-sig"), parse_constant=_no_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{document.name!r} is no JSON: {error}; the file is damaged or cut short: export it again") from error


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for k, (key, _) in enumerate(pairs) if key in {name for name, _ in pairs[:k]})
        raise ValueError(f"an object has the key {twice[:40]!r} twice")
    return found


def parse_xml(document: NamedBytes) -> ElementTree.Element:
    """Read XML in UTF-8 without a DOCTYPE.

    Raises:
        InputError: it is no such XML.
    """
    try:
        text = document.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{document.name!r} is not UTF-8 at byte {error.start}; export it again") from error
    if re.search(r"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise InputError(f"{document.name!r} has a DOCTYPE, which may define entities; remove it, the format has none")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"{document.name!r} is no XML: {error}; the file is damaged or cut short: export it again") from error
