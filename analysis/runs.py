"""Reads a run folder into DataFrames: `analysis.load("runs/...")`.

Every column of `analysis.schema` is there, absent where the file lacks it. Numbers are float64 with NaN for an
absent value; `tokens.request_id` is categorical and its codes are the row numbers in `requests`. Rows that are
damaged or repeated, and durations that can not be true, are refused and counted. Computes no metric.
"""

import json
import math
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import schema
from analysis.tables import Damage, RunError, empty, read_table
from analysis.token_rows import MOST, TokenRows, read_token_rows

# Instants of a request since it was sent: none can be negative, infinite or later than the run's end.
DURATIONS = ("connect_ms", "headers_ms", "first_token_ms", "first_answer_ms", "last_token_ms", "e2e_ms")
COUNTS = ("token_events", "first_event_tokens", "output_tokens", "input_tokens", "cached_tokens", "reasoning_tokens")
CLOCK_SLACK_S = 60.0  # a request may end a little after the run's end was noted
MOST_TOKENS = 1e7  # of one request
LATEST_UNIX_S = 1e11  # the year 5138
EARLIEST_UNIX_S = 1e9  # anything before is a monotonic reading or a missing stamp, not a wall clock time


@dataclass(frozen=True, slots=True)
class Run:
    """One run folder as read."""

    path: Path
    info: dict[str, Any]
    requests: pd.DataFrame
    token_rows: TokenRows
    levels: pd.DataFrame
    health: pd.DataFrame
    damages: tuple[Damage, ...]
    invalid: dict[str, int]
    duplicates: int
    orphan_tokens: int

    @property
    def tokens(self) -> pd.DataFrame:
        """The token rows as a DataFrame, made when first asked for: about 25 bytes a row."""
        return self.token_rows.frame

    @property
    def name(self) -> str:
        """Name of the run, by its folder where run.json does not tell."""
        return str(self.info.get("name") or self.path.name)


def find_run(name: str | Path, runs: Path = Path("runs")) -> Path:
    """The folder of a run, given as a path, as a name under `runs/` or as "latest"."""
    if str(name) == "latest":
        folders = [folder for folder in sorted(runs.glob("*")) if find_files(folder, schema.REQUESTS_FILE)]
        if not folders:
            raise RunError(f"{runs}/: no run yet; start one, or name a run folder")
        return folders[-1]
    for folder in (Path(name), runs / name):
        if folder.is_dir():
            return folder
    raise RunError(f"{name}: no such run folder; give its path, its name under {runs}/, or latest")


def load(run_dir: str | Path, *, with_tokens: bool = True) -> Run:
    """Read a run folder. Only requests.csv has to be there. Without its tokens it is read in a fraction of the time."""
    path = find_run(run_dir)
    damages: list[Damage] = []
    info = _read_info(path / schema.RUN_FILE, damages)
    if not find_files(path, schema.REQUESTS_FILE):
        raise RunError(f"{path}: holds no {schema.REQUESTS_FILE}; is it a run folder?")
    requests = read_file(path, schema.REQUESTS_FILE, ("request_id", "outcome"), damages)
    requests, duplicates = _without_duplicates(requests)
    files = find_files(path, schema.TOKENS_FILE) if with_tokens else []
    token_rows, orphans = read_token_rows(files, pd.Index(requests["request_id"]), damages)
    levels = read_file(path, schema.LEVELS_FILE, ("level",), damages)
    invalid = refuse_invalid(requests, _run_seconds(info))
    return Run(
        path=path,
        info=info,
        requests=requests,
        token_rows=token_rows,
        levels=levels,
        health=read_file(path, schema.HEALTH_FILE, ("unix_s",), damages),
        damages=tuple(damages),
        invalid=invalid,
        duplicates=duplicates,
        orphan_tokens=orphans,
    )


def refuse_invalid(requests: pd.DataFrame, run_s: float = math.inf) -> dict[str, int]:
    """Blank values that can not be true (negative, infinite, longer than the run) and count them by column."""
    invalid: dict[str, int] = {}

    def blank(name: str, wrong: pd.Series) -> None:
        if count := int(wrong.sum()):
            requests.loc[wrong, name] = np.nan
            invalid[name] = count

    for name in DURATIONS:
        blank(name, (requests[name] < 0) | (requests[name] > min((run_s + CLOCK_SLACK_S) * 1000, MOST)))
    for name in COUNTS:
        blank(name, (requests[name] < 0) | (requests[name] > MOST_TOKENS))
    blank("sent_unix_s", (requests["sent_unix_s"] < EARLIEST_UNIX_S) | (requests["sent_unix_s"] > LATEST_UNIX_S))
    blank("last_token_ms", requests["last_token_ms"] < requests["first_token_ms"])
    return invalid


def _read_info(path: Path, damages: list[Damage]) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        info = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        damages.append(
            Damage(path.name, getattr(error, "lineno", 1), "not readable as JSON; the run may have been killed")
        )
        return {}
    return info if isinstance(info, dict) else {}


def _run_seconds(info: dict[str, Any]) -> float:
    start, end = info.get("started_unix_s"), info.get("ended_unix_s")
    if isinstance(start, (int, float)) and isinstance(end, (int, float)) and end > start:
        return float(end - start)
    return math.inf


def find_files(path: Path, file: str) -> list[Path]:
    """The parts of a file of a run, the oldest rows first, each compressed with gzip or not; empty ones are left out.

    A long file goes on in parts: tokens.0001.csv, tokens.0002.csv, ... and the newest rows in tokens.csv. A Parquet
    file stands for all of them while none is newer; where pyarrow is missing, only if there is no other.
    """
    stem, suffix = file.rsplit(".", 1)
    part = re.compile(rf"{re.escape(stem)}\.([0-9]+)\.{suffix}(\.gz)?")
    numbered: dict[int, Path] = {}
    # reversed: a plain file hides its archive, which may be half-written
    for found in sorted(path.glob(f"{stem}.*"), reverse=True) if path.is_dir() else ():
        if (match := part.fullmatch(found.name)) and found.stat().st_size:
            numbered[int(match[1])] = found
    parts = [numbered[number] for number in sorted(numbered)]
    newest = [found for found in (path / file, path / f"{file}.gz") if found.exists() and found.stat().st_size]
    parts += newest[:1]
    packed = path / f"{stem}.parquet"
    if not packed.exists() or (parts and find_spec("pyarrow") is None):
        return parts
    written_ns = packed.stat().st_mtime_ns
    return parts if any(part.stat().st_mtime_ns > written_ns for part in parts) else [packed]


def read_file(path: Path, file: str, required: tuple[str, ...], damages: list[Damage]) -> pd.DataFrame:
    """All good rows of a file of a run; damaged ones are added to `damages`."""
    frames = []
    for part in find_files(path, file):
        frame, refused = read_table(part, schema.COLUMNS[file], required)
        frames.append(frame)
        damages += refused
    filled = [frame for frame in frames if len(frame)] or frames[:1]
    return pd.concat(filled, ignore_index=True) if filled else empty(schema.COLUMNS[file])


def _without_duplicates(requests: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    repeated = requests["request_id"].duplicated()
    if not repeated.any():
        return requests, 0
    return requests[~repeated].reset_index(drop=True), int(repeated.sum())
