"""Reads a CSV file by its header: whole rows only, and every row that is refused is named.

The quick way is pandas' C parser with strict types. When it stumbles (a row of another width, a cell that is
no number, a cut last row) the file is read once more with care: good rows are copied, damaged ones counted.
What the columns mean is left to `analysis.schema`.
"""

import csv
import gzip
import io
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import pandas as pd

from analysis.schema import Column

# What other programs write for "no value". In text columns only an empty cell is absent.
ABSENT = ["", "N/A", "n/a", "NA", "NaN", "nan", "NULL", "null", "None"]
CHUNK_ROWS = 1_000_000
csv.field_size_limit(1 << 26)  # an error text may be long

T = TypeVar("T")


class RunError(Exception):
    """A run or a file of it that can not be read; the text says what, where and what to do."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One row that was refused."""

    file: str
    line: int
    reason: str


class _Unclean(ValueError):
    """The quick reader met something that needs the careful one."""


def read_table(
    path: Path, columns: Sequence[Column], required: Iterable[str] = ()
) -> tuple[pd.DataFrame, list[Damage]]:
    """All good rows of a file; columns that it lacks are absent, columns we do not know are passed over."""
    parts, damages = read_chunks(path, columns, required, lambda frame: frame)
    return (pd.concat(parts, ignore_index=True) if parts else empty(columns)), damages


def read_chunks(
    path: Path,
    columns: Sequence[Column],
    required: Iterable[str],
    reduce: Callable[[pd.DataFrame], T],
    texts: str = "str",
) -> tuple[list[T], list[Damage]]:
    """`reduce` of each `CHUNK_ROWS` good rows, so that a long file never lies in memory as a whole.

    `texts` is the type of text columns; "category" is far quicker where few texts repeat in many rows.
    """
    if path.suffix == ".parquet":
        from analysis import parquet

        return parquet.read_chunks(path, columns, required, reduce, texts)
    header = read_header(path)
    known = [column for column in columns if column.name in header]
    missing = [name for name in required if name not in header]
    if missing:
        raise RunError(_header_fault(path, header, missing))
    try:
        if len(set(header)) != len(header) or "" in header or not _ends_with_newline(path):
            raise _Unclean
        with open_text(path) as file:
            return [reduce(complete(frame, columns)) for frame in _quick(file, known, header[-1], texts)], []
    except (ValueError, pd.errors.ParserError, EOFError, OSError):
        copy, damages = _clean_copy(path, known, header)
        with copy:
            return [reduce(complete(frame, columns)) for frame in _quick(copy, known, None, texts)], damages


def empty(columns: Sequence[Column]) -> pd.DataFrame:
    """A frame of these columns without rows."""
    return pd.DataFrame({column.name: pd.Series(dtype=_dtype(column)) for column in columns})


def open_text(path: Path) -> IO[str]:
    """A CSV file, compressed or not, without a byte order mark."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return path.open(encoding="utf-8-sig", errors="replace", newline="")


def read_header(path: Path) -> list[str]:
    """Titles of the columns, in the order of the file."""
    with open_text(path) as file:
        return [title.strip() for title in next(csv.reader(file), [])]


def _header_fault(path: Path, header: list[str], missing: list[str]) -> str:
    if len(header) == 1 and ";" in header[0]:
        return f"{path.name}: separated by semicolons, numbers may have decimal commas; save it with commas and points"
    return (
        f"{path.name}: no column {', '.join(missing)} in its header ({', '.join(header[:6])}, ...); is it a run file?"
    )


def _dtype(column: Column, texts: str = "str") -> str:
    if column.type == "bool":
        return "str"
    return "float64" if column.type in ("int", "float") else texts


def _quick(file: IO[str], known: Sequence[Column], last: str | None, texts: str) -> Iterator[pd.DataFrame]:
    """Chunks by the strict C parser; a `last` title asks for a value in the last cell of every row."""
    names = [column.name for column in known]
    reader = pd.read_csv(
        file,
        usecols=names if last is None or last in names else [*names, last],
        dtype={column.name: _dtype(column, texts) for column in known},
        na_values={column.name: ABSENT if _dtype(column) == "float64" else [""] for column in known},
        keep_default_na=False,
        chunksize=CHUNK_ROWS,
    )
    with reader:
        for frame in reader:
            if not isinstance(frame.index, pd.RangeIndex):
                raise _Unclean  # rows wider than the header: pandas made an index of their first cells
            if last is not None and frame[last].isna().any():
                raise _Unclean  # maybe a row that ends early
            yield frame


def complete(frame: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """The frame with every column of the schema, absent where the file had none."""
    done = {}
    for column in columns:
        if column.name not in frame:
            done[column.name] = pd.Series(math.nan, index=frame.index, dtype=_dtype(column))
        elif column.type == "bool":
            done[column.name] = (
                frame[column.name].str.lower().map({"true": True, "1": True, "false": False, "0": False})
            )
        else:
            done[column.name] = frame[column.name]
    return pd.DataFrame(done)


def _ends_with_newline(path: Path) -> bool:
    if path.suffix == ".gz":
        return True  # a cut archive raises EOFError instead
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"\n", b"\r")


def _clean_copy(path: Path, known: Sequence[Column], header: list[str]) -> tuple[IO[str], list[Damage]]:
    """A temporary file with the whole rows only, and the damaged ones."""
    copy = tempfile.TemporaryFile("w+", encoding="utf-8", newline="")  # noqa: SIM115 closed by its reader
    writer = csv.writer(copy)
    positions = [(header.index(column.name), column) for column in known]
    writer.writerow([column.name for column in known])
    damages = []
    for line, row, whole in read_records(path):
        fault = _row_fault(row, header, positions) if whole else "cut off at the end of the file"
        if fault:
            damages.append(Damage(path.name, line, fault))
        else:
            writer.writerow([row[index] for index, _ in positions])
    copy.seek(0)
    return copy, damages


def read_records(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str], bool]]:
    """Rows below the header with the line on which they start; the last is not whole without its line break."""
    whole_end = _ends_with_newline(path)
    with open_text(path) as file:
        reader = csv.reader(file, delimiter=delimiter)
        line, pending = 1, None
        try:
            for row in reader:
                if pending:
                    yield *pending, True
                pending = (line, row) if row and line > 1 else None
                line = reader.line_num + 1
        except (csv.Error, EOFError):
            whole_end = False
        if pending:
            yield *pending, whole_end


def _row_fault(row: list[str], header: list[str], positions: list[tuple[int, Column]]) -> str | None:
    if len(row) != len(header):
        return f"{len(row)} cells for {len(header)} columns"
    for index, title in enumerate(header):
        if not title and row[index].strip():
            return f"a value in column {index + 1}, which has no title"
    for index, column in positions:
        cell = row[index].strip()
        if column.type in ("int", "float") and cell not in ABSENT and not _is_number(cell):
            return f"{column.name} is no number: {cell[:40]!r}"
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python reads 1_000, no CSV means it
