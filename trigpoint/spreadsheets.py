"""CSV for people's spreadsheets. Not here: tables for people to read (`trigpoint.scoring.pages`), reading CSV (`storage.vectors`)."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

FORMULA_STARTS = "=+-@\t\r"
"""First characters that make a spreadsheet run a cell."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def csv_text_guarded(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""Return CSV text whose cells no spreadsheet runs as a formula.

    A text that begins with `=`, `+`, `-`, `@`, TAB or CR gets an apostrophe in front, unless it is a plain number; numbers
    and other values are written as they are, None as an empty cell; lines end in CR LF. Names are exact in Parquet and JSON.

    Source: RFC 4180.

    >>> csv_text_guarded(["id", "name"], [[-5, "=1+1"], [2, "-5.5"], [None, "-"]])
    "id,name\r\n-5,'=1+1\r\n2,-5.5\r\n,'-\r\n"
    """
    sink = io.StringIO()
    writer = csv.writer(sink)
    writer.writerow([_guard(cell) for cell in header])
    writer.writerows([_guard(cell) for cell in row] for row in rows)
    return sink.getvalue()


def _guard(cell: Any) -> Any:
    if isinstance(cell, str) and cell[:1] and cell[0] in FORMULA_STARTS and not _NUMBER.fullmatch(cell):
        return "'" + cell
    return cell
