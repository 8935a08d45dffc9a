"""Builds small run folders, cell by cell, so that every expected number can be worked out by hand."""

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from analysis import schema

T0 = 1_800_000_000.0  # start of every built run, Unix seconds


class RunBuilder:
    """A run folder in the making; everything is written by `write`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.info: dict[str, Any] = {
            "schema_version": 1,
            "run_id": "test-run",
            "name": "test",
            "started_unix_s": T0 - 10,
            "ended_unix_s": T0 + 1000,
            "model": "toy",
            "api": "chat",
            "scenario": {"name": "test", "load": {"warmup_s": 5}},
            "workers": [],
        }
        self.rows: dict[str, list[dict[str, Any]]] = {file: [] for file in schema.COLUMNS}

    def slo(self, **limits: float) -> None:
        """Set the scenario's limits."""
        self.info["scenario"]["slo"] = limits

    def level(self, number: int = 1, requested: float = 1, start_s: float = 0, end_s: float = 10, **cells: Any) -> None:
        """A level that measures from `start_s` to `end_s` after T0."""
        row = {
            "level": number,
            "mode": "concurrency",
            "requested": requested,
            "users": int(requested),
            "workers": 1,
            "ramp_start_unix_s": T0 + start_s - 2,
            "warmup_start_unix_s": T0 + start_s - 1,
            "measure_start_unix_s": T0 + start_s,
            "measure_end_unix_s": T0 + end_s,
            "tail_end_unix_s": T0 + end_s + 1,
            "complete": "true",
        }
        self.rows[schema.LEVELS_FILE].append(row | cells)

    def request(
        self,
        sent_s: float = 0,
        tokens_at_ms: Sequence[float] = (),
        level: int = 1,
        event_tokens: Sequence[int] | None = None,
        **cells: Any,
    ) -> str:
        """A request sent `sent_s` after T0 whose token events arrive at the given instants; one token each."""
        request_id = str(cells.get("request_id", f"0-{len(self.rows[schema.REQUESTS_FILE])}"))
        arrivals = list(tokens_at_ms)
        row = {
            "request_id": request_id,
            "worker": 0,
            "user": 0,
            "level": level,
            "phase": "measure",
            "api": "chat",
            "model": "toy",
            "sent_unix_s": f"{T0 + sent_s:.6f}",
            "first_token_ms": arrivals[0] if arrivals else "",
            "first_answer_ms": arrivals[0] if arrivals else "",
            "last_token_ms": arrivals[-1] if arrivals else "",
            "e2e_ms": arrivals[-1] if arrivals else 1,
            "token_events": len(arrivals),
            "output_tokens": sum(event_tokens) if event_tokens else len(arrivals) or "",
            "output_tokens_source": "usage" if arrivals else "",
            "outcome": "success" if arrivals else "failure",
            "stamp": "read",
            "reads": len(arrivals),
            "coalesced_reads": 0,
            "stale_retries": 0,
        }
        self.rows[schema.REQUESTS_FILE].append(row | cells)
        for index, arrival in enumerate(arrivals):
            tokens = event_tokens[index] if event_tokens else ""
            cells_of = {"request_id": request_id, "index": index, "arrival_ms": arrival, "tokens": tokens}
            self.rows[schema.TOKENS_FILE].append(cells_of | {"channel": "answer"})
        return request_id

    def health(self, at_s: float, worker: int = 0, **cells: Any) -> None:
        """One second of a worker."""
        row = {
            "unix_s": T0 + at_s,
            "worker": worker,
            "cpu_percent": 5,
            "hub_lag_ms": 1,
            "in_flight": 1,
            "memory_mb": 100,
        }
        self.rows[schema.HEALTH_FILE].append(row | cells)

    def write(self) -> Path:
        """Write the folder and say where."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / schema.RUN_FILE).write_text(json.dumps(self.info), encoding="utf-8")
        for file, rows in self.rows.items():
            with (self.folder / file).open("w", encoding="utf-8", newline="") as out:
                writer = csv.DictWriter(out, schema.names(file), restval="", lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        return self.folder


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., RunBuilder]:
    """`build("name")` begins a run folder of that name."""
    return lambda name="run": RunBuilder(tmp_path / name)
