"""Reads tables that other programs wrote: Locust's own CSV files, results of other benchmarks, spreadsheets.

Cells are found by name (older names too), a row of another width is refused by its line, "N/A" is absent and a
decimal comma is never taken for a thousands separator.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.tables import ABSENT, Damage, RunError, open_text, read_records

# Locust renamed the columns of its files over time.
LOCUST_NAMES = {
    "# requests": "Total Request Count",
    "# failures": "Total Failure Count",
    "Request Count": "Total Request Count",
    "Failure Count": "Total Failure Count",
    "Median response time": "50%",
    "Median Response Time": "50%",
}
TOTAL_ROW = "Aggregated"
POINT = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?([eE][+-]?\d+)?")
COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by column name, what was refused, and how many columns without a title were passed over."""

    header: tuple[str, ...]
    rows: tuple[dict[str, str], ...]
    damages: tuple[Damage, ...]
    untitled: int
    decimal: str

    def numbers(self, column: str) -> list[float]:
        """The values that a column has; absent cells are left out, not 0."""
        if column not in self.header:
            raise RunError(f"no column {column!r}; there are {', '.join(self.header)}")
        return [value for row in self.rows if (value := number(row[column], self.decimal)) is not None]


@dataclass(frozen=True, slots=True)
class LocustTotals:
    """Locust's own counts, from its last whole Aggregated row."""

    requests: int
    failures: int
    leftover_lines: int  # below the Aggregated row: the rest of an older, longer file


def read_foreign(path: Path, old_names: Mapping[str, str] | None = None) -> Table:
    """Read any table with a header; semicolons go with decimal commas."""
    delimiter = _delimiter(path)
    with open_text(path) as file:
        titles = [title.strip() for title in next(csv.reader(file, delimiter=delimiter), [])]
    renamed = [(old_names or {}).get(title, title) for title in titles]
    rows, damages = [], []
    for line, cells, whole in read_records(path, delimiter):
        fault = None if whole else "cut off at the end of the file"
        if len(cells) != len(titles):
            fault = f"{len(cells)} cells for {len(titles)} columns"
        elif any(cell.strip() for cell, title in zip(cells, titles, strict=True) if not title):
            fault = "a value in a column without a title"
        if fault:
            damages.append(Damage(path.name, line, fault))
        else:
            rows.append({title: cell for title, cell in zip(renamed, cells, strict=True) if title})
    named = tuple(title for title in renamed if title)
    decimal = "," if delimiter == ";" else "."
    return Table(named, tuple(rows), tuple(damages), len(titles) - len(named), decimal)


def number(cell: str, decimal: str = ".") -> float | None:
    """A cell as a number; absent is None, and what is no number under this decimal sign is an error."""
    text = cell.strip()
    if text in ABSENT:
        return None
    if decimal == "," and COMMA.fullmatch(text):
        return float(text.replace(".", "").replace(",", "."))
    if decimal == "." and POINT.fullmatch(text):
        return float(text.replace(",", ""))
    raise RunError(f"{cell[:40]!r} is no number with a decimal {'comma' if decimal == ',' else 'point'}")


def locust_totals(path: Path) -> LocustTotals:
    """Requests and failures that Locust counted: of `*_stats.csv`, or of the end of `*_stats_history.csv`.

    Locust rewrites its statistics file in place; what stands below the Aggregated row is of an older version.
    """
    table = read_foreign(path, LOCUST_NAMES)
    missing = {"Name", "Total Request Count", "Total Failure Count"} - set(table.header)
    if missing:
        raise RunError(f"{path.name}: no column {', '.join(sorted(missing))} in its header; is it a file of Locust?")
    totals = [position for position, row in enumerate(table.rows) if row["Name"] == TOTAL_ROW]
    if not totals:
        raise RunError(f"{path.name}: no {TOTAL_ROW} row; Locust may have been writing it, read it again")
    history = "Timestamp" in table.header
    row = table.rows[totals[-1] if history else totals[0]]
    leftover = 0 if history else len(table.rows) - totals[0] - 1 + len(table.damages)
    requests, failures = (number(row[f"Total {kind} Count"]) or 0 for kind in ("Request", "Failure"))
    return LocustTotals(int(requests), int(failures), leftover)


def _delimiter(path: Path) -> str:
    with open_text(path) as file:
        head = file.readline()
    return ";" if head.count(";") > head.count(",") else ","
