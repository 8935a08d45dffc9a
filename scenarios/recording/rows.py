"""Records as the text of CSV rows: cells, whole lines, columns by their names in `analysis.schema`."""

import csv
import io
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from analysis import schema
from scenarios.recording.recorder import ROW_COLUMNS, UNKNOWN_COUNT, Record, placed_unix_s

FORMULA_STARTS = ("=", "+", "-", "@")

Locate = Callable[[float], tuple[int | None, str | None]]
"""Tells level and phase of an instant."""


def request_lines(records: Sequence[Record], locate: Locate) -> str:
    """Rows of requests.csv."""
    rows = []
    for record in records:
        row = dict(zip(ROW_COLUMNS, record.row, strict=True))
        row["level"], row["phase"] = locate(placed_unix_s(row))
        rows.append(row)
    return lines_of(schema.REQUESTS_FILE, rows)


def token_lines(record: Record, first: int = 0) -> str:
    """Rows of tokens.csv of one request, from a token event on."""
    arrivals = _unpacked("d", record.arrivals)[first:]
    counts = _unpacked("i", record.counts)[first:]
    request_id = record.request_id
    return "".join(
        f"{request_id},{index},{arrival:.3f},{'' if count == UNKNOWN_COUNT else count},{schema.CHANNELS[channel]}\r\n"
        for index, (arrival, count, channel) in enumerate(
            zip(arrivals, counts, record.channels[first:], strict=True), start=first
        )
    )


def lines_of(file: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows of any of the run's CSV files."""
    lines = io.StringIO()
    writer = csv.DictWriter(lines, schema.names(file))
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return lines.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # microseconds of a time in ms, and of Unix seconds
        return f"{value:.6f}".rstrip("0").rstrip(".") if value >= 1e8 else f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, str):
        # words of an engine: one line each, and never a formula for a spreadsheet
        text = " ".join(value.split())
        return f"'{text}" if text.startswith(FORMULA_STARTS) else text
    return value


def _unpacked(typecode: str, packed: bytes) -> "array[Any]":
    values: array[Any] = array(typecode)
    values.frombytes(packed)
    return values
