"""The run folder: `runs/<time>-<name>/` with run.json and the CSV files of `analysis.schema`.

One writer writes it, whole rows only: a write that fails (a full disk) is rolled back to the last whole
row and said loudly; whether its rows come again is not its business, nor where they come from. A full
tokens.csv becomes tokens.0001.csv and so on, the older rows in the lower numbers.
"""

import io
import logging
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis import schema
from scenarios.recording.files import lock_if_free, write_run_file, write_whole
from scenarios.recording.recorder import Record
from scenarios.recording.rows import Locate, lines_of, request_lines, token_lines

logger = logging.getLogger(__name__)

ROTATE_BYTES = 256_000_000

# In a process of its own: compressing takes seconds in which this one must write on. Whole or not there.
GZIP = """
import gzip, os, shutil, sys
full = sys.argv[1]
with open(full, "rb") as source, gzip.open(full + ".gz.tmp", "wb", compresslevel=6) as packed:
    shutil.copyfileobj(source, packed, 1 << 20)
os.replace(full + ".gz.tmp", full + ".gz")
os.remove(full)
"""


class RunDir:
    """An open run folder."""

    def __init__(self, runs_dir: Path, name: str, *, rotate_bytes: int = ROTATE_BYTES, compress: bool = False) -> None:
        """Create the folder and its files with their headers. OSError when it can't be written."""
        self.path = _new_folder(runs_dir, name)
        self.written_requests = 0
        self.write_error: str | None = None
        self._files = {file: _open_with_header(self.path / file, schema.names(file)) for file in schema.COLUMNS}
        lock_if_free(self._files[schema.REQUESTS_FILE])
        self._rotate_bytes = rotate_bytes
        self._compress = compress
        self._parts = 0
        self._compressing: list[subprocess.Popen[bytes]] = []

    def write_records(self, records: Sequence[Record], locate: Locate) -> bool:
        """Append requests and their token rows, or nothing; `locate` tells level and phase of an instant."""
        tokens = self._files[schema.TOKENS_FILE]
        whole = tokens.tell()
        if not self._append(schema.TOKENS_FILE, "".join(map(token_lines, records))):
            return False
        if not self._append(schema.REQUESTS_FILE, request_lines(records, locate)):
            _roll_back(tokens, whole)
            return False
        self.written_requests += len(records)
        if tokens.tell() >= self._rotate_bytes:
            self._rotate_tokens()
        return True

    def write_rows(self, file: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows to levels.csv or health.csv."""
        self._append(file, lines_of(file, rows))

    def write_run(self, run: Mapping[str, Any]) -> None:
        """Write run.json, replacing an earlier one at once."""
        try:
            write_run_file(self.path, run)
        except OSError as error:
            self._failed(schema.RUN_FILE, error)

    def close(self) -> None:
        """Close the CSV files."""
        for file in self._files.values():
            file.close()
        for process in self._compressing:
            process.wait()

    def _rotate_tokens(self) -> None:
        path = self.path / schema.TOKENS_FILE
        full = path.with_suffix(f".{self._parts + 1:04d}.csv")
        try:
            path.rename(full)
            opened = _open_with_header(path, schema.names(schema.TOKENS_FILE))
        except OSError as error:  # the full file goes on; nothing is lost
            logger.warning("can't begin a new %s: %s", path, error.strerror)
            if full.exists():
                full.rename(path)
            return
        self._files[schema.TOKENS_FILE].close()
        self._files[schema.TOKENS_FILE] = opened
        self._parts += 1
        if self._compress:
            self._compressing = [process for process in self._compressing if process.poll() is None]
            self._compressing.append(subprocess.Popen([sys.executable, "-c", GZIP, str(full)]))

    def _append(self, name: str, text: str) -> bool:
        file = self._files[name]
        whole = file.tell()
        try:
            write_whole(file, text.encode())
        except OSError as error:
            self._failed(name, error)
            _roll_back(file, whole)
            return False
        return True

    def _failed(self, name: str, error: OSError) -> None:
        self.write_error = f"{self.path / name}: {error.strerror or error}"
        logger.error("CAN'T WRITE %s. Free some space or stop the run.", self.write_error)


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
