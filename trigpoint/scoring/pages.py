"""Tables of a report, once: as Markdown to paste into a paper, and for the terminal. Not here: what they hold.

Shares are printed in per cent with one decimal; what is undefined as –.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

UNDEFINED = "–"
"""How an undefined value is printed."""

_MANY_COLUMNS = 8
"""Tables with more columns than this stand closer together, to fit a terminal of 80."""


class Sheet(NamedTuple):
    """A table with its caption.

    Attributes:
        columns: Headings. rows: Cells as text, one per column.
        n_left: Columns from the left that hold words; the others hold numbers and stand right.
        notes: Lines below the table.
        is_long: For files alone, not for the terminal.
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    n_left: int = 1
    notes: tuple[str, ...] = ()
    is_long: bool = False


def percent(value: float | None) -> str:
    """Print a share in per cent.

    >>> percent(0.7412), percent(None)
    ('74.1', '–')
    """
    return UNDEFINED if value is None else f"{100 * value:.1f}"


def number(value: float | None, decimals: int = 2) -> str:
    """Print a number that is no share, such as a correlation."""
    return UNDEFINED if value is None else f"{value:.{decimals}f}"


def to_markdown(title: str, lead: Iterable[str], sheets: Iterable[Sheet]) -> str:
    """Lay out a page of Markdown."""
    lines = [f"# {_cell(title)}", ""]
    for text in lead:
        lines += [text, ""]
    for sheet in sheets:
        lines += [f"## {_cell(sheet.title)}", ""]
        if sheet.rows:
            lines += [*table_lines(sheet), ""]
        lines += [f"- {_line(note)}" for note in sheet.notes]
        lines += [""] if sheet.notes else []
    return "\n".join(lines).rstrip("\n") + "\n"


def table_lines(sheet: Sheet) -> list[str]:
    """Lay out a table that has rows as lines of Markdown, without its title and notes."""
    rule = ["---"] * sheet.n_left + ["---:"] * (len(sheet.columns) - sheet.n_left)
    return [
        f"| {' | '.join(map(_cell, sheet.columns))} |",
        f"|{'|'.join(rule)}|",
        *(f"| {' | '.join(map(_cell, row))} |" for row in sheet.rows),
    ]


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def to_console(lead: Iterable[str], sheets: Iterable[Sheet]) -> Group:
    """Lay out a page for the terminal; text is never read as markup."""
    parts: list[RenderableType] = [Text(text) for text in lead]
    for sheet in sheets:
        if sheet.is_long:
            continue
        parts += [Text(""), Text(sheet.title, style="bold")]
        parts += [_table(sheet)] if sheet.rows else []
        parts += [Padding(Text(_line(note)), (0, 0, 0, 2)) for note in sheet.notes]
    return Group(*parts)


def _table(sheet: Sheet) -> Table:
    gap = 0 if len(sheet.columns) > _MANY_COLUMNS else 1
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, gap))
    for k, column in enumerate(sheet.columns):
        is_left = k < sheet.n_left
        # numbers and names are never broken, however narrow the terminal; headings may be
        width = max(len(row[k]) for row in sheet.rows)
        table.add_column(Text(column), justify="left" if is_left else "right", overflow="fold", no_wrap=is_left, min_width=width)
    for row in sheet.rows:
        table.add_row(*map(Text, row))
    return table


def turn(sheet: Sheet) -> Sheet:
    """Swap rows and columns, so that a wide table of few rows fits a terminal."""
    columns = (sheet.columns[0], *(row[0] for row in sheet.rows))
    rows = tuple((name, *(row[k] for row in sheet.rows)) for k, name in enumerate(sheet.columns) if k)
    return sheet._replace(columns=columns, rows=rows)


def group_reasons(reasons: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Turn (what, why) into one line per reason, in order of first mention."""
    found: dict[str, list[str]] = {}
    for what, why in reasons:
        names = found.setdefault(why, [])
        if what not in names:
            names.append(what)
    return tuple(f"{', '.join(names)}: {why}" for why, names in found.items())


def keep_defined(
    columns: Sequence[str], rows: Sequence[Sequence[str]], n_kept: int = 1
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Take out the columns that no row defines; the first `n_kept` stay."""
    kept = [k for k in range(len(columns)) if k < n_kept or any(row[k] != UNDEFINED for row in rows)]
    return tuple(columns[k] for k in kept), tuple(tuple(row[k] for k in kept) for row in rows)
