"""What the client costs per streamed token, and how far its arrival times are from the truth.

CPU: each client of `bench/variants.py`, and the real thing (a Locust worker that runs locustfiles/openai_chat.py
with recording on), streams 50 tokens/s on 64 and on 512 connections from the same server; CPU time of its process
is read from outside over the same number of seconds. Error: the same server notes when it hands each token to the
socket, on the clock that the clients read too.

    python bench/client.py [--json FILE] [--seconds N] [--streams 64,512]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import analysis
from analysis import metrics

ROOT = Path(__file__).parents[1]
RAMP_S = 6.0  # starts are spread over 5.2 s, the length of one answer
RATE_LIMIT_S = 30.0  # by then the client must have all streams
FULL_RATE = 0.95  # share of the wanted tokens/s; below it server or client had too little of the machine
TOKENS_PER_STREAM_S = 49.2  # 256 in 100 + 255 x 20 ms
COLUMNS = ("bare", "locust", "sdk", "aiohttp")
NAMES = {
    "bare": "(a) bare epoll + recv loop",
    "locust": "(b) Tokenswarm in a Locust worker",
    "sdk": "(c) openai SDK under gevent",
    "aiohttp": "(d) aiohttp",
}
ERROR_NAMES = {
    "locust": "Locust worker, {streams} streams",
    "ours": "Tokenswarm's client alone",
    "sdk": "openai SDK, gevent",
}
ERROR_STREAMS = 64
BURNS = (0.0, 0.22, 0.52, 0.82)  # on top of about 8 % for reading: idle, 30, 60 and 90 % CPU

SCENARIO = """
name = "bench"
[workload]
inputs = [{{ tokens = 400 }}]
output = {{ tokens = 256 }}
ignore_eos = true
[load]
mode = "concurrency"
levels = [{streams}]
ramp_s = 5.2
warmup_s = 2.0
measure_s = {measure_s}
tail_s = 10.0
"""


def main() -> None:
    """Measure, print two tables, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measurement")
    parser.add_argument("--streams", default="64,512")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    cost = {}
    print(f"CPU µs per streamed token, 50 tokens/s per stream (load of the machine before: {load:.1f})")
    print(f"{'':36}" + "".join(f"{streams + ' streams':>14}" for streams in options.streams.split(",")))
    for streams in map(int, options.streams.split(",")):
        cost[streams] = {variant: measure_cost(variant, streams, options.seconds) for variant in COLUMNS}
    for variant in COLUMNS:
        print(f"{NAMES[variant]:36}" + "".join(f"{cost[n][variant]['us_per_token']:>14.1f}" for n in cost))
    slow = [
        f"{NAMES[v][:3]} at {n} streams: {cost[n][v]['tokens_per_s']:,.0f} of {n * TOKENS_PER_STREAM_S:,.0f} tokens/s"
        for n in cost
        for v in COLUMNS
        if cost[n][v]["tokens_per_s"] < FULL_RATE * n * TOKENS_PER_STREAM_S
    ]
    if slow:
        print("  too little of the machine, or too slow a client, so that these say less: " + "; ".join(slow))
    for other, wanted in (("bare", 2.0), ("sdk", 0.15), ("aiohttp", 0.6)):
        ratios = [cost[n]["locust"]["us_per_token"] / cost[n][other]["us_per_token"] for n in cost]
        print(f"  (b) / {NAMES[other][:3]}, wanted <= {wanted:<15}" + "".join(f"{ratio:>14.2f}" for ratio in ratios))
    errors = [measure_worker_error(streams, options.seconds) for streams in cost]
    errors += [measure_error(variant, share, options.seconds) for variant in ("ours", "sdk") for share in BURNS]
    print(
        f"\nError against the server's own times, ms, streams of 50 tokens/s; {ERROR_STREAMS} where nothing else is said"
    )
    print(f"{'':36}{'client CPU %':>14}{'arrival p50':>14}{'p99':>9}{'max':>9}{'TTFT p50':>12}{'p99':>9}{'max':>9}")
    for row in errors:
        name = ERROR_NAMES[row["variant"]].format(**row)
        arrival, ttft = row["arrival_ms"], row["ttft_ms"]
        print(
            f"{name:36}{row['cpu_percent']:>14.0f}{arrival['p50']:>14.3f}{arrival['p99']:>9.3f}{arrival['max']:>9.3f}"
            f"{ttft['p50']:>12.3f}{ttft['p99']:>9.3f}{ttft['max']:>9.3f}"
        )
    if options.json:
        result = {"load_before": load, "us_per_token": cost, "error": errors}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def measure_cost(variant: str, streams: int, seconds: float) -> dict[str, float]:
    """CPU of the client's process per token that the server sent meanwhile."""
    with token_server() as port, client(variant, port, streams, seconds) as pid:
        time.sleep(RAMP_S)
        wait_for_full_rate(port, streams)
        process = psutil.Process(pid)
        cpu, tokens, start_s = process.cpu_times(), sent_tokens(port), time.perf_counter()
        time.sleep(seconds)
        after, tokens, wall_s = process.cpu_times(), sent_tokens(port) - tokens, time.perf_counter() - start_s
    cpu_s = after.user + after.system - cpu.user - cpu.system
    return {
        "us_per_token": cpu_s / tokens * 1e6,
        "tokens_per_s": tokens / wall_s,
        "cpu_percent": cpu_s / wall_s * 100,
    }


def measure_error(variant: str, share: float, seconds: float) -> dict[str, Any]:
    """Arrivals as the client saw them minus the times at which the server sent."""
    arguments = ["--streams", str(ERROR_STREAMS), "--seconds", str(RAMP_S + seconds), "--burn", str(share)]
    with token_server() as port:
        done = subprocess.run(variant_command(variant, port, *arguments), capture_output=True, text=True, check=True)
        truth: dict[str, list[float]] = json.loads(get(port, "/truth"))
    seen = json.loads(done.stdout)
    arrival_ms, ttft_ms = [], []
    for name, arrivals_s in seen["arrivals"].items():
        errors = [(a - t) * 1000 for a, t in zip(arrivals_s, truth[name], strict=True)]
        arrival_ms += errors
        ttft_ms.append(errors[0])
    return {
        "variant": variant,
        "burn": share,
        "cpu_percent": seen["cpu_percent"],
        "arrival_ms": spread(arrival_ms),
        "ttft_ms": spread(ttft_ms),
    }


def measure_worker_error(streams: int, seconds: float) -> dict[str, Any]:
    """The same from the CSV files of a whole run: Locust, live view, recording and all."""
    with token_server() as port, tempfile.TemporaryDirectory() as folder:
        with locust_run(port, streams, seconds, folder) as (master, worker):
            process = psutil.Process(worker.pid)
            time.sleep(RAMP_S)
            cpu, start_s = process.cpu_times(), time.perf_counter()
            time.sleep(seconds)
            after, wall_s = process.cpu_times(), time.perf_counter() - start_s
            master.wait(timeout=RATE_LIMIT_S)
        offset_s = float(get(port, "/offset"))
        truth: dict[str, list[float]] = json.loads(get(port, "/truth"))
        (run_dir,) = Path(folder).glob("*/")
        run = analysis.load(str(run_dir))
    good = run.requests[(run.requests["phase"] == "measure") & (run.requests["outcome"] == "success")]
    tokens = run.tokens.merge(good[["request_id", "sent_unix_s"]], on="request_id")
    arrivals_s = tokens["sent_unix_s"] - offset_s + tokens["arrival_ms"] / 1000
    arrival_ms, ttft_ms = [], []
    for name, seen_s in arrivals_s.groupby(tokens["request_id"]):
        sent_s = truth[f"{run.info['run_id']}-{name}".lower()]  # the server has read its headers in lower case
        errors = [(a - t) * 1000 for a, t in zip(seen_s, sent_s, strict=True)]
        arrival_ms += errors
        ttft_ms.append(errors[0])
    return {
        "variant": "locust",
        "streams": streams,
        "cpu_percent": (after.user + after.system - cpu.user - cpu.system) / wall_s * 100,
        "arrival_ms": spread(arrival_ms),
        "ttft_ms": spread(ttft_ms),
    }


def spread(errors: list[float]) -> dict[str, float]:
    """Nearest-rank percentiles of the errors' size."""
    ordered = np.sort(np.abs(errors))
    return {name: metrics.percentile(ordered, p) for name, p in (("p50", 50), ("p99", 99), ("max", 100))}


@contextmanager
def token_server() -> Iterator[int]:
    with started([sys.executable, "bench/token_server.py"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


@contextmanager
def client(variant: str, port: int, streams: int, seconds: float) -> Iterator[int]:
    """A client at work; its process id."""
    if variant != "locust":
        with started(variant_command(variant, port, "--streams", str(streams))) as process:
            yield process.pid
        return
    with tempfile.TemporaryDirectory() as folder, locust_run(port, streams, seconds + 60, folder) as (_, worker):
        yield worker.pid


@contextmanager
def locust_run(
    port: int, streams: int, measure_s: float, folder: str
) -> Iterator[tuple["subprocess.Popen[bytes]", "subprocess.Popen[bytes]"]]:
    """A whole run under way: its master and its one worker, which has sent something."""
    scenario = Path(folder) / "bench.toml"
    scenario.write_text(SCENARIO.format(streams=streams, measure_s=measure_s))
    common = ["--headless", "--scenario", str(scenario), "--runs-dir", folder, "-H", f"http://127.0.0.1:{port}"]
    locust = [sys.executable, "-m", "locust", "-f", "locustfiles/openai_chat.py"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    bind = ["--master-bind-host", "127.0.0.1", "--master-bind-port", str(free_port())]
    to = ["--master-host", "127.0.0.1", "--master-port", bind[-1]]
    with (
        started([*locust, *common, "--master", "--expect-workers", "1", *bind], **quiet) as master,
        started([*locust, "--worker", *to], **quiet) as worker,
    ):
        wait_for_tokens(port)
        yield master, worker


def wait_for_full_rate(port: int, streams: int) -> None:
    deadline_s = time.perf_counter() + RATE_LIMIT_S
    while time.perf_counter() < deadline_s:
        before = sent_tokens(port)
        time.sleep(1.0)
        if sent_tokens(port) - before >= FULL_RATE * streams * TOKENS_PER_STREAM_S:
            return


def wait_for_tokens(port: int) -> None:
    deadline_s = time.perf_counter() + 30
    while not sent_tokens(port):
        if time.perf_counter() > deadline_s:
            raise SystemExit("bench/client.py: the Locust run sent no request within 30 s; start it by hand to see why")
        time.sleep(0.1)


def variant_command(variant: str, port: int, *arguments: str) -> list[str]:
    return [sys.executable, "bench/variants.py", variant, "--port", str(port), *arguments]


@contextmanager
def started(command: list[str], **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "*"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def sent_tokens(port: int) -> int:
    return int(get(port, "/count"))


def get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
        body: bytes = response.read()
        return body


if __name__ == "__main__":
    main()
