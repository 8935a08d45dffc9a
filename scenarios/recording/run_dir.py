"""The run folder: `runs/<time>-<name>/` with run.json and the CSV files of `analysis.schema`.

One writer writes it, whole rows only: a write that fails (a full disk) is rolled back to the last whole
row, said loudly, and its rows are counted as lost. Where rows come from is not its business.
"""

import csv
import io
import json
import logging
import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis import schema
from scenarios.recording.recorder import ROW_COLUMNS, UNKNOWN_COUNT, Record

logger = logging.getLogger(__name__)

FORMULA_STARTS = ("=", "+", "-", "@")

Locate = Callable[[float], tuple[int | None, str | None]]


class RunDir:
    """An open run folder."""

    def __init__(self, runs_dir: Path, name: str) -> None:
        """Create the folder and its files with their headers. OSError when it can't be written."""
        self.path = _new_folder(runs_dir, name)
        self.lost_rows = 0
        self.written_requests = 0
        self.write_error: str | None = None
        self._files = {file: _open_with_header(self.path / file, schema.names(file)) for file in schema.COLUMNS}

    def write_records(self, records: Sequence[Record], locate: Locate) -> None:
        """Append requests and their token rows; `locate` tells level and phase of a time of sending."""
        requests = io.StringIO()
        writer = csv.DictWriter(requests, schema.names(schema.REQUESTS_FILE))
        tokens: list[str] = []
        for record in records:
            row = dict(zip(ROW_COLUMNS, record.row, strict=True))
            row["level"], row["phase"] = locate(row["sent_unix_s"])
            writer.writerow({name: _cell(value) for name, value in row.items()})
            tokens.append(_token_lines(row["request_id"], record))
        if self._append(schema.REQUESTS_FILE, requests.getvalue(), len(records)):
            self.written_requests += len(records)
        self._append(schema.TOKENS_FILE, "".join(tokens), 0)

    def write_rows(self, file: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows to levels.csv or health.csv."""
        lines = io.StringIO()
        writer = csv.DictWriter(lines, schema.names(file))
        written = [writer.writerow({name: _cell(value) for name, value in row.items()}) for row in rows]
        self._append(file, lines.getvalue(), len(written))

    def write_run(self, run: Mapping[str, Any]) -> None:
        """Write run.json, replacing an earlier one at once."""
        temporary = self.path / (schema.RUN_FILE + ".tmp")
        try:
            temporary.write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            temporary.replace(self.path / schema.RUN_FILE)
        except OSError as error:
            self._failed(schema.RUN_FILE, error)

    def close(self) -> None:
        """Close the CSV files."""
        for file in self._files.values():
            file.close()

    def _append(self, name: str, text: str, rows: int) -> bool:
        file = self._files[name]
        whole = file.tell()
        try:
            file.write(text.encode())
            file.flush()
        except OSError as error:
            self.lost_rows += rows
            self._failed(name, error)
            _roll_back(file, whole)
            return False
        return True

    def _failed(self, name: str, error: OSError) -> None:
        self.write_error = f"{self.path / name}: {error.strerror or error}"
        logger.error("CAN'T WRITE %s; rows are being lost. Free some space or stop the run.", self.write_error)


def _new_folder(runs_dir: Path, name: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
    for attempt in range(1, 1000):
        suffix = "" if attempt == 1 else f"-{attempt}"
        folder = runs_dir / f"{stamp}-{slug}{suffix}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{runs_dir}: a thousand runs named {slug} in one second")


def _open_with_header(path: Path, header: Sequence[str]) -> io.FileIO:
    # unbuffered: a batch is one write, and after a failed one nothing is left in a buffer
    file = io.FileIO(path, "w")
    file.write((",".join(header) + "\r\n").encode())
    return file


def _roll_back(file: io.FileIO, whole: int) -> None:
    try:
        file.seek(whole)
        file.truncate()
    except OSError:
        logger.exception("can't cut a half-written row off %s", file.name)


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


def _token_lines(request_id: str, record: Record) -> str:
    arrivals = _unpacked("d", record.arrivals)
    counts = _unpacked("i", record.counts)
    return "".join(
        f"{request_id},{index},{arrival:.3f},{'' if count == UNKNOWN_COUNT else count},{schema.CHANNELS[channel]}\r\n"
        for index, (arrival, count, channel) in enumerate(zip(arrivals, counts, record.channels, strict=True))
    )


def _unpacked(typecode: str, packed: bytes) -> "array[Any]":
    values: array[Any] = array(typecode)
    values.frombytes(packed)
    return values
