"""Merges spools of lost workers into a run folder.

Only rows that are not there yet are added, each in the level and phase in which it was sent. Every file is
replaced as a whole, so nothing is ever half written, and a second time changes nothing.
"""

import csv
import gzip
import io
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import schema
from scenarios.recording.files import lock_if_free, write_run_file, write_whole
from scenarios.recording.recorder import Record
from scenarios.recording.rows import lines_of, request_lines, token_lines
from scenarios.recording.spool import Spool, read_spool, spool_files
from scenarios.recording.timeline import replayed

NAMED_IDS = 10  # of missing requests, per worker


class CannotMergeError(Exception):
    """Why nothing can be merged, and what to do."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What one spool has added to the run."""

    spool: Spool
    requests: int
    token_rows: int


def merge(run: Path, spool_dir: Path) -> tuple[list[Merged], dict[str, Any]]:
    """Merge all spools of a run in a folder; gives what each has added, and run.json as it is then."""
    info = _run_info(run)
    spools = [read_spool(path) for path in spool_files(spool_dir, info["run_id"])]
    if not spools:
        raise CannotMergeError(
            f"{spool_dir}: no spool file of run {info['run_id']} (tokenswarm-{info['run_id']}-WORKER.spool). "
            "A worker that delivered everything leaves none."
        )
    with io.FileIO(run / schema.REQUESTS_FILE, "r+") as requests_file:
        if not lock_if_free(requests_file):
            raise CannotMergeError(f"{run}: the run still goes on; wait for its end")
        merged, written = _merge_rows(run, info, spools)
        if not info["finished"]:
            _close_open_level(run, info)
        after = _after_merging(info, spools, merged, written)
        if after != info:
            write_run_file(run, after)
    return merged, after


def _run_info(run: Path) -> dict[str, Any]:
    try:
        info: dict[str, Any] = json.loads((run / schema.RUN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CannotMergeError(f"{run}: no readable {schema.RUN_FILE} ({error}); name the folder of one run") from error
    for file in (schema.REQUESTS_FILE, schema.TOKENS_FILE, schema.LEVELS_FILE):
        with (run / file).open(encoding="utf-8", newline="") as lines:
            if next(csv.reader(lines), None) != schema.names(file):
                raise CannotMergeError(f"{run / file}: its columns are those of another version; recover with that")
    return info


def _merge_rows(run: Path, info: dict[str, Any], spools: list[Spool]) -> tuple[list[Merged], set[str]]:
    """Add the missing rows to requests.csv and tokens.csv; gives all request ids there are then."""
    written = {row[0] for row in _whole_rows(run / schema.REQUESTS_FILE)}
    spooled = {record.request_id for spool in spools for record in spool.records}
    token_rows = Counter(row[0] for part in _token_parts(run) for row in _whole_rows(part) if row[0] in spooled)
    locate = replayed(info["levels"]).locate
    requests: list[Record] = []
    tokens: list[str] = []
    merged: list[Merged] = []
    for spool in spools:
        before = len(requests), len(tokens)
        for record in spool.records:
            request_id = record.request_id
            if request_id not in written:
                written.add(request_id)
                requests.append(record)
            if token_rows[request_id] < len(record.channels):
                tokens.append(token_lines(record, first=token_rows[request_id]))
                token_rows[request_id] = len(record.channels)
        rows = sum(text.count("\n") for text in tokens[before[1] :])
        merged.append(Merged(spool, len(requests) - before[0], rows))
    # tokens first: a request that has a row has its tokens, even when this is ended in between
    _append(run / schema.TOKENS_FILE, "".join(tokens))
    _append(run / schema.REQUESTS_FILE, request_lines(requests, locate))
    return merged, written


def _token_parts(run: Path) -> list[Path]:
    """tokens.csv and the parts that were full before it; of one that was just being compressed, the whole one."""
    current = run / schema.TOKENS_FILE
    full = sorted(run.glob(f"{current.stem}.????.csv"))
    packed = sorted(run.glob(f"{current.stem}.????.csv.gz"))
    return [*(path for path in packed if path.with_suffix("") not in full), *full, current]


def _whole_rows(path: Path) -> Iterable[list[str]]:
    """Rows of a CSV file, without its header and without a last row that was cut by a kill."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace", newline="") as lines:
        next(lines, None)
        yield from csv.reader(line for line in lines if line.endswith("\n"))


def _append(path: Path, text: str) -> None:
    """Replace a CSV file by itself and some more rows; a row cut in half at its end goes."""
    whole = _whole_length(path)
    if not text and whole == path.stat().st_size:
        return
    temporary = path.with_name(path.name + ".tmp")
    shutil.copyfile(path, temporary)
    with io.FileIO(temporary, "r+") as file:
        file.truncate(whole)
        file.seek(whole)
        write_whole(file, text.encode())
    temporary.replace(path)


def _whole_length(path: Path) -> int:
    """Length of a file up to the end of its last whole row."""
    with path.open("rb") as file:
        end = file.seek(0, io.SEEK_END)
        while end:
            begin = max(0, end - 65536)
            file.seek(begin)
            if (last := file.read(end - begin).rfind(b"\n")) >= 0:
                return begin + last + 1
            end = begin
    return 0


def _close_open_level(run: Path, info: dict[str, Any]) -> None:
    """The level in which the master was killed gets its row: it ends, incomplete, at the last sign of life."""
    if not info["levels"] or info["levels"][-1]["tail_end_unix_s"] is not None:
        return
    columns = schema.names(schema.REQUESTS_FILE)
    sent, last = columns.index("sent_unix_s"), columns.index("e2e_ms")
    ends = (
        float(row[sent]) + float(row[last] or 0) / 1000 for row in _whole_rows(run / schema.REQUESTS_FILE) if row[sent]
    )
    timeline = replayed(info["levels"])
    timeline.end_level(max(ends, default=info["levels"][-1]["ramp_start_unix_s"]), complete=False)
    rows = lines_of(schema.LEVELS_FILE, (level.row() for level in timeline.levels))
    text = ",".join(schema.names(schema.LEVELS_FILE)) + "\r\n" + rows
    path = run / schema.LEVELS_FILE
    if path.read_bytes() != text.encode():
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_bytes(text.encode())
        temporary.replace(path)


def _after_merging(
    info: dict[str, Any], spools: list[Spool], merged: list[Merged], written: set[str]
) -> dict[str, Any]:
    """run.json with the counts of what is there now, by the workers' own numbering of their requests."""
    numbers: dict[int, set[int]] = {}
    for request_id in written:
        sender, _, number = request_id.partition("-")
        numbers.setdefault(int(sender), set()).add(int(number))
    started = {worker["worker"]: worker["started"] for worker in info["workers"]}
    for worker, found in [*((s.worker, {s.started}) for s in spools), *numbers.items()]:
        started[worker] = max(started.get(worker, 0), *found)
    missing = {
        worker: [f"{worker}-{n}" for n in range(1, count + 1) if n not in numbers.get(worker, ())]
        for worker, count in sorted(started.items())
    }
    workers = [
        {**worker, "started": started[worker["worker"]], "written": len(numbers.get(worker["worker"], ()))}
        for worker in info["workers"]
    ]
    return {
        **info,
        "workers": workers,
        "reconciliation": {
            **info["reconciliation"],
            "started": sum(started.values()),
            "recorded": len(written),
            "missing": sum(map(len, missing.values())),
            "missing_by_worker": {str(worker): len(ids) for worker, ids in missing.items() if ids},
            "unheard": {
                worker: unix_s
                for worker, unix_s in info["reconciliation"].get("unheard", {}).items()
                if int(worker) not in {spool.worker for spool in spools}
            },
            "missing_requests": {str(worker): ids[:NAMED_IDS] for worker, ids in missing.items() if ids},
        },
        "recovered": [
            *info.get("recovered", []),
            *(
                {
                    "unix_s": time.time(),
                    "worker": one.spool.worker,
                    "spool": one.spool.path.name,
                    "requests": one.requests,
                    "token_rows": one.token_rows,
                    "damaged_batches": one.spool.damaged_batches,
                    "cut_bytes": one.spool.cut_bytes,
                }
                for one in merged
                if one.requests or one.token_rows
            ),
        ],
    }
