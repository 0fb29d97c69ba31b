"""Lists of perceptual hashes of other data sets' images. Not here: what a hash is (`trigpoint.imagery.phash`)."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from trigpoint.errors import InputError
from trigpoint.imagery.phash import hash_from_text

COLUMN = "phash"
"""Key or column that holds the hash in JSON Lines and CSV."""


def read_hashes(path: Path) -> list[int]:
    """Read a list of hashes, each 16 hex digits.

    `.txt`: one a line. `.jsonl`: a string a line, or an object with `phash` (a string, or a list of them). `.csv`: the column `phash`.
    Empty lines are skipped.

    Raises:
        InputError: the file cannot be read, is of another kind, or a line holds no hash; names the line.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(_texts(path, file))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"hash list {path}: cannot be read as text ({error})") from error
    found: list[int] = []
    for number, text in lines:
        try:
            found.append(hash_from_text(text))
        except InputError as error:
            raise InputError(f"hash list {path}, line {number}: {error}") from error
    return found


def _texts(path: Path, file: Any) -> Iterator[tuple[int, str]]:
    match path.suffix.lower():
        case ".txt":
            yield from ((number, line.strip()) for number, line in enumerate(file, start=1) if line.strip())
        case ".jsonl":
            for number, line in enumerate(file, start=1):
                yield from ((number, text) for text in _of_json(path, number, line))
        case ".csv":
            rows = csv.DictReader(file)
            if COLUMN not in (rows.fieldnames or ()):
                raise InputError(f"hash list {path}: columns are {list(rows.fieldnames or ())}, expected {COLUMN!r} among them")
            yield from ((rows.line_num, (row[COLUMN] or "").strip()) for row in rows)
        case suffix:
            raise InputError(f"hash list {path}: the suffix is {suffix!r}, expected .txt, .jsonl or .csv")


def _of_json(path: Path, number: int, line: str) -> list[str]:
    if not line.strip():
        return []
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise InputError(f"hash list {path}, line {number}: not JSON ({error})") from error
    if isinstance(value, dict):
        value = cast(dict[str, Any], value).get(COLUMN)
    return [str(text) for text in cast(list[Any], value)] if isinstance(value, list) else [str(value)]
