"""A Locust master and its workers as processes of their own, against an engine that remembers every request.

The engine's memory is the truth: it knows each request by the id in its X-Request-Id header.
"""

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.support.locust_run import CHAT, Finished, command, finish, free_port, output_of, started, wait_for
from tests.support.scripted_server import Answer, ScriptedServer, Seen, chat_stream, json_answer

MODELS = json_answer(200, {"object": "list", "data": [{"id": "m", "object": "model"}]})
NOT_THERE = json_answer(404, {"error": {"message": "not here"}})


# phases last as long as they say, and nothing is said about an SLO
PLAIN = {
    "load.warmup_requests": "0",
    "load.measure_requests": "0",
    "load.measure_max_s": "3600",
    "slo.ttft_ms": "60000",
    "slo.tpot_ms": "60000",
    "slo.attainment": "0.01",
}


def engine(answer: Answer | Callable[[Seen], Answer] | None = None, **more: Any) -> ScriptedServer:
    """A scripted engine: lists one model, gives load-test requests the answer and anything else a 404."""
    answer = answer or chat_stream(ttft_ms=50, gap_ms=20, tokens=10)

    def choose(seen: Seen) -> Answer:
        if seen.target.endswith("/models"):
            return MODELS
        if "x-request-id" not in seen.headers:
            return NOT_THERE
        return answer(seen) if callable(answer) else answer

    return ScriptedServer(choose, **more)


def calls(server: ScriptedServer) -> list[Seen]:
    """The requests of load tests, in the order in which they came."""
    return [seen for seen in list(server.requests) if "x-request-id" in seen.headers]


def seen_ids(server: ScriptedServer, run_id: str) -> list[str]:
    """Ids of a run's requests that reached the engine."""
    prefix = run_id + "-"
    ids = [seen.headers["x-request-id"] for seen in calls(server)]
    return [text.removeprefix(prefix) for text in ids if text.startswith(prefix)]


def recorded_ids(run_dir: Path) -> list[str]:
    """Ids in requests.csv."""
    with (run_dir / "requests.csv").open(newline="", encoding="utf-8") as lines:
        return [row["request_id"] for row in csv.DictReader(lines)]


def run_info(run_dir: Path) -> dict[str, Any]:
    """run.json as it is now."""
    loaded: dict[str, Any] = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    return loaded


def assert_each_request_has_its_row(server: ScriptedServer, run_dir: Path) -> None:
    """Every request that the engine saw is recorded, once; what it did not see was never sent."""
    info = run_info(run_dir)
    recorded, seen = recorded_ids(run_dir), seen_ids(server, info["run_id"])
    assert len(recorded) == len(set(recorded)), "rows twice"
    assert len(seen) == len(set(seen)), "sent twice"
    assert seen, "the engine saw nothing"
    assert set(seen) <= set(recorded), f"no row for {sorted(set(seen) - set(recorded))}"
    counts = info["reconciliation"]
    assert (counts["started"], counts["missing"]) == (len(recorded), 0), counts


@dataclass
class Swarm:
    """A master with its workers."""

    folder: Path
    master_port: int
    master: subprocess.Popen[str]
    _stack: ExitStack
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def add_worker(self, *launcher: str) -> subprocess.Popen[str]:
        """One more worker, with a temporary folder of its own, as on a machine of its own."""
        folder = self.worker_folder(len(self.workers))
        worker = worker_process(folder, self.master_port, *launcher)
        self.workers.append(self._stack.enter_context(worker))
        return self.workers[-1]

    def worker_folder(self, number: int) -> Path:
        """Where a worker runs; its spool lies in `tmp` there."""
        return self.folder / f"worker{number}"

    @property
    def run_dir(self) -> Path:
        """The run folder, once there is one."""
        found: Path = wait_for(lambda: next(iter(sorted((self.folder / "runs").glob("*"))), None))
        return found

    def index_of(self, process: subprocess.Popen[str]) -> int:
        """The index that the master gave to a worker."""
        index: list[int] = wait_for(
            lambda: [w["worker"] for w in run_info(self.run_dir)["workers"] if w["pid"] == process.pid]
        )
        return index[0]

    def wait_for_phase(self, phase: str, level: int = 1, limit_s: float = 30) -> None:
        """Wait until a level has entered a phase, by run.json."""
        column = {"warmup": "warmup_start_unix_s", "measure": "measure_start_unix_s", "tail": "measure_end_unix_s"}

        def entered() -> bool:
            assert self.master.poll() is None, output_of(self.folder)
            try:
                levels = run_info(self.run_dir)["levels"]
            except FileNotFoundError:
                return False
            return len(levels) >= level and levels[level - 1][column[phase]] is not None

        wait_for(entered, limit_s)

    def finish(self, limit_s: float = 60) -> Finished:
        """Wait for the master's end, and for that of the workers."""
        finished = finish(self.master, self.folder, limit_s)
        for worker in self.workers:
            worker.wait(timeout=20)
        return finished


def worker_process(
    folder: Path, master_port: int, *launcher: str, master: str = "127.0.0.1", at: Sequence[str] = ()
) -> AbstractContextManager[subprocess.Popen[str]]:
    """A worker, as a context; it is started by a script `launcher`, or on another host with `at` in front."""
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    address = ["--worker", "--master-host", master, "--master-port", str(master_port)]
    line = [sys.executable, "-m", "locust", "-f", str(CHAT), *address]
    if launcher:
        line = [sys.executable, *launcher, *line[3:]]
    return started(folder, [*at, *line], TMPDIR=str(folder / "tmp"))


@contextmanager
def swarm(
    folder: Path,
    url: str,
    *arguments: str,
    workers: int = 2,
    expect: int | None = None,
    settings: Mapping[str, str | None] | None = None,
) -> Iterator[Swarm]:
    """Start a headless master and its workers; it waits for `expect` workers where some are added later."""
    port = free_port()
    bind = ["--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", str(port)]
    bind += ["--expect-workers", str(expect or workers), "-H", url]
    line = command("--headless", *bind, *arguments, settings={**PLAIN, **(settings or {})})
    with ExitStack() as stack:
        master = stack.enter_context(started(folder, line))
        made = Swarm(folder, port, master, stack)
        for _ in range(workers):
            made.add_worker()
        yield made


def gone(pids: list[int], limit_s: float = 10) -> bool:
    """Whether processes end within a time; one that only waits to be reaped has ended."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if not any(_runs(pid) for pid in pids):
            return True
        time.sleep(0.1)
    return False


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
