"""How fast and how punctual the practice engine is.

Two measurements, both with 100 streams and a cheap client in a process of its own: tokens per second when the
model takes no time at all, and, at 5,000 tokens per second, how late each token is written after the model had
it. Both are read from the engine's truth file.

    python bench/engine.py [--json FILE]
"""

import argparse
import json
import multiprocessing
import os
import selectors
import socket
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import psutil

from analysis import metrics
from scenarios.engine.embedded import start_embedded_engine

STREAMS = 100
LOOK_EVERY_S = 0.005
WANTED_TOKENS_PER_S = 20_000
WANTED_LATE_P99_MS = 2.0

PROFILE = """
name = "bench"
step_ms = {step_ms}
decode_sequence_ms = 0.0
kv_read_ms_per_1k_tokens = 0.0
prefill_ms_per_token = 0.0
request_ms = 0.0
request_ms_per_running = 0.0
max_model_len = 8192
max_num_seqs = 256
max_num_batched_tokens = 8192
prefill_share_tokens = 100000
min_prefill_chunk_tokens = 16
kv_blocks = 100000
"""


def main() -> None:
    """Measure, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    fastest = measure(step_ms=0.01, tokens=1500)
    paced = measure(step_ms=20.0, tokens=250)  # 100 streams x 50 tokens/s
    print(f"{'':24}{'tokens/s':>12}{'late p50 ms':>14}{'late p99 ms':>14}{'engine CPU %':>14}{'us CPU/token':>14}")
    for name, run in (("as fast as it can", fastest), ("paced to 5,000/s", paced)):
        late = f"{run['late_p50_ms']:>14.3f}{run['late_p99_ms']:>14.3f}" if run is paced else f"{'–':>14}{'–':>14}"
        print(
            f"{name:24}{run['tokens_per_s']:>12,.0f}{late}{run['cpu_percent']:>14.0f}{run['cpu_us_per_token']:>14.1f}"
        )
    print(f"wanted: {WANTED_TOKENS_PER_S:,} tokens/s on one core, p99 under {WANTED_LATE_P99_MS:g} ms late at 5,000/s")
    print(f"load average before: {load:.1f} on {os.cpu_count()} cores (lateness needs an idle machine)")
    if options.json:
        options.json.write_text(json.dumps({"load_average": load, "fastest": fastest, "paced": paced}, indent=2) + "\n")


def measure(step_ms: float, tokens: int) -> dict[str, float]:
    """Let the engine answer all streams at once; figures from its truth file."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder, "profile.toml")
        profile.write_text(PROFILE.format(step_ms=step_ms))
        truth = Path(folder, "truth.jsonl")
        engine = start_embedded_engine(["--profile", str(profile), "--truth", str(truth)])
        process = psutil.Process(engine.pid)
        before = process.cpu_times()
        client = multiprocessing.Process(target=drain, args=(engine.url, tokens))
        client.start()
        client.join()
        after = process.cpu_times()
        engine.stop()
        rows = [json.loads(line) for line in truth.read_text().splitlines()]
    if client.exitcode or [row["outcome"] for row in rows] != ["finished"] * STREAMS:
        raise SystemExit("bench/engine.py: not all streams ended well")
    written_s = sorted(instant for row in rows for instant in row["token_s"])
    late_ms = sorted(
        (token_s - due_s) * 1000 for row in rows for token_s, due_s in zip(row["token_s"], row["due_s"], strict=True)
    )
    took_s = written_s[-1] - written_s[0]
    cpu_s = after.user - before.user + after.system - before.system
    return {
        "tokens_per_s": len(written_s) / took_s,
        "late_p50_ms": metrics.percentile(np.asarray(late_ms), 50),
        "late_p99_ms": metrics.percentile(np.asarray(late_ms), 99),
        "late_max_ms": late_ms[-1],
        "cpu_percent": 100 * cpu_s / took_s,
        "cpu_us_per_token": 1e6 * cpu_s / len(written_s),
    }


def drain(url: str, tokens: int) -> None:
    """Ask on all streams at once and throw away what comes, as cheaply as possible.

    It looks every few milliseconds instead of waiting: a waiting reader would be woken by each send, which is paid
    for by the sender and is not the engine's own time.
    """
    address = urlsplit(url)
    body = json.dumps({"prompt": "Go on", "max_tokens": tokens, "ignore_eos": True, "stream": True})
    request = f"POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with selectors.DefaultSelector() as selector:
        streams = [socket.create_connection((address.hostname, address.port)) for _ in range(STREAMS)]
        for stream in streams:
            stream.sendall(request)
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            time.sleep(LOOK_EVERY_S)
            for key, _ in selector.select():
                open_stream = key.fileobj
                assert isinstance(open_stream, socket.socket)
                data = open_stream.recv(1 << 18)
                if not data or data.endswith(b"0\r\n\r\n"):
                    selector.unregister(open_stream)
                    open_stream.close()


if __name__ == "__main__":
    main()
