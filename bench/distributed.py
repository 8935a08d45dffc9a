"""What it costs to collect records from many workers, on both sides.

Workers here: one and two Locust workers stream from one server; CPU per token of each, shipping included.
Shipping: what a worker pays to record, spool and send, beside the stream itself.
Master: batches of 200 workers, as they come off the wire, into one run folder: at full speed, then for a while at
100,000 tokens/s with 200 workers' counts and health, while memory is watched.

    python bench/distributed.py [--json FILE] [--seconds N] [--minutes N]
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gevent
import psutil
from locust.rpc.protocol import Message

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.client import RAMP_S, SCENARIO, free_port, sent_tokens, started, token_server  # noqa: E402
from scenarios.clients.call import LLMRequest, RequestResult  # noqa: E402
from scenarios.recording.clock import Clock  # noqa: E402
from scenarios.recording.inbox import Inbox  # noqa: E402
from scenarios.recording.outbox import ACK, BATCH, Outbox, encode_records  # noqa: E402
from scenarios.recording.recorder import Record, Recorder  # noqa: E402
from scenarios.recording.run_dir import RunDir  # noqa: E402
from scenarios.recording.timeline import Timeline  # noqa: E402

WORKERS = 200
TOKENS = 256  # of a request
PER_BATCH = 2  # requests: what 500 tokens/s of a worker make in half a second
STREAMS = 256
PACE = 100_000  # tokens/s
WANTED_US, WANTED_TOKENS_PER_S, WANTED_GROWTH_MB = 1.0, 100_000, 10.0


def main() -> None:
    """Measure, print tables, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of the runs with real workers")
    parser.add_argument("--minutes", type=float, default=0.25, help="length of the feed at 100,000 tokens/s")
    options = parser.parse_args()
    figures: dict[str, Any] = {"shipping": measure_shipping(), "burst": measure_burst()}
    figures["feed"] = measure_feed(options.minutes * 60)
    figures["workers"] = {count: measure_workers(count, options.seconds) for count in (1, 2)}
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def show(figures: dict[str, Any]) -> None:
    """The figures as tables."""
    shipping, burst, feed = figures["shipping"], figures["burst"], figures["feed"]
    print(f"Worker, µs of CPU per token (answers of {TOKENS} tokens)")
    print(
        f"  record {shipping['record_us']:.3f}, spool and send {shipping['ship_us']:.3f}, wanted < {WANTED_US:g} in all"
    )
    print(f"\nMaster, batches of {WORKERS} workers into one run folder")
    print(f"{'':26}{'tokens/s':>12}{'CPU %':>8}{'tokens/s per core':>20}{'memory MB':>12}{'growth MB':>12}")
    print(f"{'  as fast as it can':26}{burst['tokens_per_s']:>12,.0f}{burst['cpu_percent']:>8.0f}"
          f"{burst['per_core']:>20,.0f}{'–':>12}{'–':>12}")  # fmt: skip
    paced = f"  paced, {feed['seconds']:.0f} s"
    print(f"{paced:26}{feed['tokens_per_s']:>12,.0f}{feed['cpu_percent']:>8.0f}"
          f"{feed['per_core']:>20,.0f}{feed['memory_mb']:>12.0f}{feed['growth_mb']:>12.1f}")  # fmt: skip
    print(f"  wanted: {WANTED_TOKENS_PER_S:,} tokens/s per core, growth under {WANTED_GROWTH_MB:g} MB")
    print(f"\nWorkers on this machine, {STREAMS} streams of 50 tokens/s")
    print(f"{'':10}{'tokens/s':>12}{'CPU % of each':>16}{'µs per token':>14}{'master CPU %':>14}")
    for count, run in figures["workers"].items():
        each = " ".join(f"{cpu:.0f}" for cpu in run["cpu_percent"])
        print(
            f"  {count:<8}{run['tokens_per_s']:>12,.0f}{each:>16}{run['us_per_token']:>14.1f}{run['master_cpu_percent']:>14.0f}"
        )


# ---------------------------------------------------------------- a worker's side


def measure_shipping() -> dict[str, float]:
    """CPU of recording and of shipping, per token."""
    requests = 2000
    kept: list[Record] = []
    recorder = Recorder(0, Clock(), kept.append)
    record_s = cpu_of(lambda: record(recorder, requests))
    with tempfile.TemporaryDirectory() as folder:
        outbox = Outbox("bench", 0, lambda kind, data: Message(kind, data, "worker").serialize(), Path(folder))

        def ship() -> None:
            for number, each in enumerate(kept):
                outbox.on_started(number)
                outbox.add(each)
                if number % PER_BATCH:
                    outbox.ship_due()
                    outbox.on_ack(outbox.batch_count - 1)

        ship_s = cpu_of(ship)
        outbox.finish(0.0)
    tokens = requests * TOKENS
    return {"record_us": record_s / tokens * 1e6, "ship_us": ship_s / tokens * 1e6}


def record(recorder: Recorder, requests: int) -> None:
    """Let a recorder record finished requests."""
    request = LLMRequest(prompt="p", max_tokens=TOKENS, length_class="512", input_tokens_requested=512)
    result = RequestResult(
        api="chat", model="bench", started_s=1.0, sent_s=1.0, outcome="success", first_token_ms=100.0,
        last_token_ms=100.0 + 20.0 * TOKENS, e2e_ms=105.0 + 20.0 * TOKENS, output_tokens=TOKENS, output_tokens_source="usage",
        token_arrivals_ms=[100.123 + 20.0 * n for n in range(TOKENS)], token_counts=[1] * TOKENS,
        token_channels=["answer"] * TOKENS,
    )  # fmt: skip
    for _ in range(requests):
        recorder.finished(recorder.started(), 1, request, result)


def cpu_of(work: Callable[[], None]) -> float:
    """CPU seconds of some work."""
    gc.collect()
    begin_s = time.process_time()
    work()
    return time.process_time() - begin_s


# ---------------------------------------------------------------- the master's side


class Master:
    """An inbox that writes a run folder, fed with messages as they come off the wire."""

    def __init__(self, folder: Path) -> None:
        self.run_dir = RunDir(folder, "bench")
        timeline = Timeline(lambda _level: None)
        timeline.begin_level("concurrency", STREAMS, 0.0)
        self.inbox = Inbox(self.run_dir, timeline, time.time)
        self.writer = gevent.spawn(self.inbox.write_forever)
        self.payloads: list[bytes] = []
        self.numbers = [0] * WORKERS
        for worker in range(WORKERS):
            self.inbox.on_hello({"worker": worker, "client_id": f"bench_{worker}"})
            kept: list[Record] = []
            record(Recorder(worker, Clock(), kept.append), PER_BATCH)
            self.payloads.append(encode_records(kept))

    def batch(self, worker: int) -> bytes:
        """The next batch of a worker as it comes off the wire."""
        payload, number = self.payloads[worker], self.numbers[worker]
        self.numbers[worker] += 1
        data = {"run_id": "bench", "worker": worker, "number": number, "crc32": zlib.crc32(payload), "payload": payload}
        message: bytes = Message(BATCH, data, f"bench_{worker}").serialize()
        return message

    def take(self, message: bytes) -> None:
        """What the master does with a batch."""
        data = Message.unserialize(message).data

        def acknowledge() -> None:
            Message(ACK, {"run_id": "bench", "number": data["number"]}, "bench").serialize()

        self.inbox.on_batch(data["worker"], data["number"], data["crc32"], data["payload"], acknowledge)

    def take_counts(self, worker: int) -> None:
        """A worker's counts, and its health once a second."""
        health = {"unix_s": time.time(), "worker": worker, "cpu_percent": 50.0, "hub_lag_ms": 1.0, "reads": 500}
        started = self.numbers[worker] * PER_BATCH
        status = {"at_unix_s": time.time(), "started": started, "recorded": started, "in_flight": 10}
        self.inbox.on_status(worker, status, health)


def measure_burst() -> dict[str, float]:
    """How much the master takes when there is always more."""
    cpu_s, wall_s, tokens = 0.0, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        master = Master(Path(folder))
        for _ in range(10):
            messages = [master.batch(worker) for worker in range(WORKERS)]
            begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
            for message in messages:
                master.take(message)
            master.inbox.drain()
            cpu_s += time.process_time() - begin_cpu_s
            wall_s += time.perf_counter() - begin_s
            tokens += WORKERS * PER_BATCH * TOKENS
        master.writer.kill()
        master.run_dir.close()
    return {"tokens_per_s": tokens / wall_s, "cpu_percent": cpu_s / wall_s * 100, "per_core": tokens / cpu_s}


def measure_feed(seconds: float) -> dict[str, float]:
    """CPU and memory of a master that takes 100,000 tokens/s for a while."""
    process = psutil.Process()
    memory_mb: list[float] = []
    slices_per_s = 10
    batches = round(PACE / slices_per_s / (PER_BATCH * TOKENS))
    with tempfile.TemporaryDirectory() as folder:
        master = Master(Path(folder))
        begin_s, begin_cpu_s, turn = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - begin_s < seconds:
            for step in range(batches):
                master.take(master.batch((turn * batches + step) % WORKERS))
                gevent.sleep(0)  # as after each message: the writer has its turn
            for step in range(WORKERS // slices_per_s):
                master.take_counts((turn * WORKERS // slices_per_s + step) % WORKERS)
            turn += 1
            memory_mb.append(process.memory_info().rss / 1e6)
            gevent.sleep(max(0.0, begin_s + turn / slices_per_s - time.perf_counter()))
        master.inbox.drain()
        cpu_s, wall_s = time.process_time() - begin_cpu_s, time.perf_counter() - begin_s
        master.writer.kill()
        master.run_dir.close()
    tokens = turn * batches * PER_BATCH * TOKENS
    tenth = len(memory_mb) // 10
    settled, end = (statistics.median(part) for part in (memory_mb[2 * tenth : 3 * tenth], memory_mb[-tenth:]))
    return {
        "seconds": wall_s,
        "tokens_per_s": tokens / wall_s,
        "cpu_percent": cpu_s / wall_s * 100,
        "per_core": tokens / cpu_s,
        "memory_mb": max(memory_mb),
        "growth_mb": end - settled,  # caches and buffers have their size after a fifth of the time
    }


# ---------------------------------------------------------------- workers on this machine


def measure_workers(count: int, seconds: float) -> dict[str, Any]:
    """Real workers under a real master: CPU of each over some seconds, per token that was sent meanwhile."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    locust = [sys.executable, "-m", "locust", "-f", "locustfiles/openai_chat.py"]
    port = str(free_port())
    with tempfile.TemporaryDirectory() as folder, token_server() as engine, ExitStack() as stack:
        scenario = Path(folder, "bench.toml")
        scenario.write_text(SCENARIO.format(streams=STREAMS, measure_s=seconds + 30))
        to = ["--scenario", str(scenario), "--runs-dir", folder, "-H", f"http://127.0.0.1:{engine}", "--headless"]
        bind = ["--master-bind-host", "127.0.0.1", "--master-bind-port", port, "--expect-workers", str(count)]
        line = [*locust, "--worker", "--master-host", "127.0.0.1", "--master-port", port]
        master = psutil.Process(stack.enter_context(started([*locust, *to, "--master", *bind], **quiet)).pid)
        workers = [psutil.Process(stack.enter_context(started(line, **quiet)).pid) for _ in range(count)]
        wait_for_run(Path(folder))
        time.sleep(RAMP_S)
        begin_s, tokens = time.perf_counter(), sent_tokens(engine)
        before = [cpu_s_of(process) for process in (master, *workers)]
        time.sleep(seconds)
        used = [cpu_s_of(process) - since for process, since in zip((master, *workers), before, strict=True)]
        wall_s, tokens = time.perf_counter() - begin_s, sent_tokens(engine) - tokens
    return {
        "tokens_per_s": tokens / wall_s,
        "cpu_percent": [cpu_s / wall_s * 100 for cpu_s in used[1:]],
        "us_per_token": sum(used[1:]) / tokens * 1e6,
        "master_cpu_percent": used[0] / wall_s * 100,
    }


def wait_for_run(folder: Path) -> None:
    """Wait until a run has begun."""
    deadline_s = time.perf_counter() + 60
    while not list(folder.glob("*/run.json")):
        if time.perf_counter() > deadline_s:
            raise SystemExit("bench/distributed.py: no run began within 60 s; start one by hand to see why")
        time.sleep(0.1)


def cpu_s_of(process: psutil.Process) -> float:
    """CPU seconds that a process has used."""
    times = process.cpu_times()
    return times.user + times.system


if __name__ == "__main__":
    main()
