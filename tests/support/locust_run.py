"""Starts real Locust processes on the suite's locustfiles and reads the run folder they leave."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHAT = ROOT / "locustfiles" / "openai_chat.py"

# short phases, so that a run takes seconds
QUICK = {
    "load.levels": "2",
    "load.ramp_s": "0",
    "load.warmup_s": "0.3",
    "load.measure_s": "2",
    "load.stop_timeout_s": "2",
    "workload.inputs": "32:1",
    "workload.output.tokens": "20",
}


@dataclass(frozen=True, slots=True)
class Finished:
    """A Locust process that has ended."""

    code: int
    output: str
    folder: Path  # where it ran

    @property
    def run_dir(self) -> Path:
        """The one run folder."""
        (found,) = (self.folder / "runs").iterdir()
        return found

    @property
    def run(self) -> dict[str, Any]:
        """run.json."""
        loaded: dict[str, Any] = json.loads((self.run_dir / "run.json").read_text())
        return loaded

    def rows(self, file: str) -> list[dict[str, str]]:
        """Rows of one of the run's CSV files."""
        with (self.run_dir / file).open(newline="", encoding="utf-8") as lines:
            return list(csv.DictReader(lines))


def command(*arguments: str, locustfile: Path = CHAT, settings: Mapping[str, str | None] | None = None) -> list[str]:
    """A `locust` command line; `settings` go on top of QUICK as --set, None takes one of QUICK away."""
    if "--processes" in arguments and "--master-bind-port" not in arguments:
        arguments = (*arguments, *own_master())
    chosen = {**QUICK, **(settings or {})}
    overrides = [f"--set={key}={value}" for key, value in chosen.items() if value is not None]
    return [sys.executable, "-m", "locust", "-f", str(locustfile), *arguments, *overrides]


def own_master() -> list[str]:
    """Options of a master that meets no other one on this machine."""
    port = str(free_port())
    return ["--master-bind-host", "127.0.0.1", "--master-bind-port", port, "--master-port", port]


@contextmanager
def started(folder: Path, line: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own; the whole group is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    log = (folder / f"log-{time.monotonic_ns()}.txt").open("w+")
    process = subprocess.Popen(
        line,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=log,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def output_of(folder: Path) -> str:
    """What all processes started in a folder have printed."""
    return "\n".join(path.read_text() for path in sorted(folder.glob("log-*.txt")))


def finish(process: subprocess.Popen[str], folder: Path, limit_s: float = 60) -> Finished:
    """Wait for the end of a started process."""
    try:
        code = process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"still running after {limit_s} s:\n{output_of(folder)}") from error
    return Finished(code, output_of(folder), folder)


def run(
    folder: Path, *arguments: str, limit_s: float = 60, settings: Mapping[str, str | None] | None = None, **more: Any
) -> Finished:
    """A whole headless run."""
    with started(folder, command("--headless", *arguments, settings=settings, **more)) as process:
        return finish(process, folder, limit_s)


def outcomes(rows: list[dict[str, str]]) -> dict[str, int]:
    """Rows of requests.csv by what became of them."""
    return dict(Counter(row["outcome"] for row in rows))


def wait_for(condition: Callable[[], Any], limit_s: float = 20) -> Any:
    """The first true value of a condition."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"did not come true within {limit_s} s")


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
