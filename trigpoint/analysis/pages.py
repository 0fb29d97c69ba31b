"""Tables of numbers, once: printed for people, as JSON, Markdown and CSV. Not here: what they hold, plots (`trigpoint.analysis.plots`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Group

from trigpoint.scoring.pages import UNDEFINED, Sheet, to_console, to_markdown
from trigpoint.spreadsheets import csv_text_guarded


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        key: Its name in JSON and CSV. heading: For people. decimals: Of numbers that are not whole.
    """

    key: str
    heading: str
    decimals: int = 2


class DataTable(NamedTuple):
    """A table of values, not yet printed.

    Attributes:
        name: Key in JSON, file name of the CSV. title: For people.
        rows: Values, one per column; None where undefined.
        n_left: Columns from the left that hold words. notes: What a reader must know.
        is_long: For files alone, not for the terminal.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    n_left: int = 1
    notes: tuple[str, ...] = ()
    is_long: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return `{title, rows: [{column: value}], notes}`."""
        keys = [column.key for column in self.columns]
        return {"title": self.title, "rows": [dict(zip(keys, row, strict=True)) for row in self.rows], "notes": list(self.notes)}

    def to_csv(self) -> str:
        """Return the values with a line of column names; undefined is empty, and names that look like formulas are guarded."""
        return csv_text_guarded([column.key for column in self.columns], self.rows)

    def to_sheet(self) -> Sheet:
        """Return the table as people read it."""
        headings = tuple(column.heading for column in self.columns)
        rows = tuple(tuple(_show(value, column) for value, column in zip(row, self.columns, strict=True)) for row in self.rows)
        return Sheet(self.title, headings, rows, self.n_left, self.notes, self.is_long)


def _show(value: Any, column: Column) -> str:
    if value is None:
        return UNDEFINED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.{column.decimals}f}" if isinstance(value, float) else str(value)


class Page(NamedTuple):
    """Tables under one title."""

    title: str
    lead: tuple[str, ...]
    tables: tuple[DataTable, ...]

    def table(self, name: str) -> DataTable:
        """Return a table by its name."""
        return next(table for table in self.tables if table.name == name)

    def to_json(self) -> dict[str, Any]:
        """Return all tables as plain JSON values; undefined is null."""
        return {"title": self.title, "lead": list(self.lead), **{table.name: table.to_json() for table in self.tables}}

    def to_markdown(self) -> str:
        """Return a page of Markdown."""
        return to_markdown(self.title, self.lead, [table.to_sheet() for table in self.tables])

    def to_table(self) -> Group:
        """Return the page for the terminal."""
        return to_console([self.title, *self.lead], [table.to_sheet() for table in self.tables])

    def write_csv(self, folder: Path) -> list[Path]:
        """Write one CSV per table that has rows; returns their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for table in self.tables:
            if table.rows:
                path = folder / f"{table.name}.csv"
                path.write_text(table.to_csv(), encoding="utf-8", newline="")
                written.append(path)
        return written


def columns(*said: Sequence[Any]) -> tuple[Column, ...]:
    """Make columns from (key, heading[, decimals])."""
    return tuple(Column(*one) for one in said)
