"""Reads data files row by row: each worker its own part, none of them more than a row at a time.

Bad rows are counted, the first ones told, and too many of them end the load. What a row means is for
`dataset` and `traces`.
"""

import csv
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

logger = logging.getLogger(__name__)

BAD_ROWS_SHOWN = 3
CHUNK_CHARS = 256 * 1024
MAX_ITEM_CHARS = 64 * 1024 * 1024  # in a JSON list; what is longer is no item, but a broken file
csv.field_size_limit(16 * 1024 * 1024)  # a long document in one cell is fine

Row = TypeVar("Row")
Raw = dict[str, Any] | str  # a row, or what is wrong with it


class WorkloadEnd(Exception):
    """There is nothing more to send; the text says why and what to do about it."""


class BadRow(ValueError):
    """A row that does not have what it needs."""


class LeftOut(Exception):
    """A sound row that cannot be sent, for example because it does not fit into the context."""


class NoMoreRows(Exception):
    """The rest of the file is not asked for."""


class Rows(Generic[Row]):
    """One worker's usable rows of a file. Row i belongs to worker i modulo the number of workers."""

    def __init__(
        self,
        path: str,
        parse: Callable[[dict[str, Any]], Row],
        *,
        worker: int = 0,
        workers: int = 1,
        repeat: bool = False,
        max_bad_rows: int = 100,
    ) -> None:
        self._path = path
        self._parse = parse
        self._part = (worker % workers, workers)
        self._repeat = repeat
        self._max_bad_rows = max_bad_rows
        self._rows = iter(read(path, *self._part))
        self._usable_in_pass = 0
        self.rounds = 0  # begun after the first one
        self.counts: Counter[str] = Counter()  # "usable", and the others by what is wrong with them
        self.bad = 0

    def next(self) -> Row:
        """The next usable row. WorkloadEnd when there is none."""
        while True:
            try:
                for number, raw in self._rows:
                    row = self._checked(number, raw)
                    if row is not None:
                        self._usable_in_pass += 1
                        return row
            except NoMoreRows:
                pass
            self._begin_again()

    def all_counts(self) -> dict[str, int]:
        """Rows of this worker's part so far: usable, bad, left out; and rounds begun after the first."""
        usable = self.counts["usable"]
        left_out = sum(self.counts.values()) - usable - self.bad
        return {"rows_usable": usable, "rows_bad": self.bad, "rows_left_out": left_out, "rounds_again": self.rounds}

    def _checked(self, number: int, raw: Raw) -> Row | None:
        try:
            if isinstance(raw, str):
                raise BadRow(raw)
            row = self._parse(raw)
        except LeftOut as reason:
            self.counts[str(reason)] += self.rounds == 0
            return None
        except BadRow as fault:
            self._note_bad(number, str(fault))
            return None
        self.counts["usable"] += self.rounds == 0
        return row

    def _note_bad(self, number: int, fault: str) -> None:
        if self.rounds:
            return  # counted in the first round
        self.bad += 1
        self.counts[fault.partition(":")[0]] += 1
        if self.bad <= BAD_ROWS_SHOWN:
            logger.warning("%s row %s left out: %s", self._path, number, fault)
        if self.bad > self._max_bad_rows:
            raise WorkloadEnd(
                f"{self._path}: more than max_bad_rows = {self._max_bad_rows} bad rows ({self._summary()})"
            )

    def _begin_again(self) -> None:
        worker, workers = self._part
        if not self._usable_in_pass:
            part = f" for worker {worker} of {workers}" if workers > 1 else ""
            raise WorkloadEnd(f"{self._path}: {self._summary()}{part}")
        if not self._repeat:
            raise WorkloadEnd(
                f"{self._path}: all {self.counts['usable']} rows are sent; repeat = true sends them again"
            )
        self.rounds += 1
        self._usable_in_pass = 0
        self._rows = iter(read(self._path, *self._part))

    def _summary(self) -> str:
        reasons = [f"{count} {reason}" for reason, count in self.counts.items() if reason != "usable"]
        total = sum(self.counts.values())
        return f"usable {self.counts['usable']} of {total}" + (f": {', '.join(reasons)}" if reasons else "")


def read(path: str, worker: int = 0, workers: int = 1) -> Iterator[tuple[int, Raw]]:
    """(number, row) of each row that belongs to a worker; the number is the line, or the place in a JSON list."""
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        return _csv_rows(path, worker, workers)
    if suffix == ".json":
        return _json_list(path, worker, workers)
    return _json_lines(path, worker, workers)


def _json_lines(path: str, worker: int, workers: int) -> Iterator[tuple[int, Raw]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    row = -1
    with open(path, "rb") as file:  # noqa: PTH123 - Path.open is this, a name longer
        for line_number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            row += 1
            if row % workers != worker:
                continue
            try:
                yield line_number, decode(line)
            except msgspec.DecodeError as error:
                yield line_number, f"no JSON object: {error}"


def _csv_rows(path: str, worker: int, workers: int) -> Iterator[tuple[int, Raw]]:
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:  # noqa: PTH123
        reader = csv.DictReader(file, strict=False)
        for row, cells in enumerate(reader):
            if row % workers != worker:
                continue
            if None in cells or None in cells.values():
                yield reader.line_num, f"not {len(reader.fieldnames or ())} cells as in the header"
            else:
                yield reader.line_num, cells


def _json_list(path: str, worker: int, workers: int) -> Iterator[tuple[int, Raw]]:
    """Items of a file that is one long JSON list, read in chunks."""
    decoder = json.JSONDecoder()
    with open(path, encoding="utf-8-sig", errors="replace") as file:  # noqa: PTH123
        text = file.read(CHUNK_CHARS).lstrip()
        if not text.startswith("["):
            yield 1, "no JSON list in the file"
            return
        at, number, chunk = 1, 0, CHUNK_CHARS
        while True:
            at = _skip(text, at)
            if text[at : at + 1] == "]":
                return
            try:
                item, end = decoder.raw_decode(text, at)
                complete = bool(text[end : end + 1])  # a number or an item at the end may go on in the next chunk
            except ValueError:
                complete = False
            if not complete:
                more = file.read(chunk)
                if not more or len(text) - at > MAX_ITEM_CHARS:
                    yield number + 1, "the JSON list is cut off or broken here"
                    return
                text, at, chunk = text[at:] + more, 0, chunk * 2  # a huge item is tried few times
                continue
            at, chunk = end, CHUNK_CHARS
            number += 1
            if (number - 1) % workers == worker:
                yield number, item if isinstance(item, dict) else "no JSON object"


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at
