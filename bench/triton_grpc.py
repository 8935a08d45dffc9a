"""What a gRPC response of Triton costs, and how late it is stamped: our client, and tritonclient as people use it.

Streams of 50 responses/s come from the scripted gRPC server of the tests, which notes when it hands over each one,
on the clock that the clients read too; the server's own way to its socket is part of the error. CPU is the client's
process, from the first request on.

    python bench/triton_grpc.py [--json FILE] [--streams 8,32]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from analysis import metrics

ROOT = Path(__file__).parents[1]
NAMES = {"ours": "Tokenswarm under gevent", "tritonclient": "tritonclient, callbacks in threads"}
TTFT_MS, GAP_MS, TOKENS = 100, 20, 500
MODEL = f"fixed-{TTFT_MS}-{GAP_MS}-{TOKENS}"
SPREAD_S = TTFT_MS / 1000  # starts are spread, so that responses are too


def main() -> None:
    """Measure, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--streams", default="8,32")
    options = parser.parse_args()
    print(
        f"{'':36}{'responses/s':>12}{'µs/response':>13}{'late p50':>10}{'p99':>9}{'max ms':>9}{'TTFT p50':>10}{'p99':>9}"
    )
    rows = []
    for streams in map(int, options.streams.split(",")):
        for client, name in NAMES.items():
            row = measure(client, streams)
            late, ttft = row["late_ms"], row["ttft_ms"]
            print(
                f"{name:36}{row['responses_s']:>12,.0f}{row['us_per_response']:>13.0f}{late['p50']:>10.2f}{late['p99']:>9.2f}"
                f"{late['max']:>9.2f}{ttft['p50']:>10.2f}{ttft['p99']:>9.2f}"
            )
            rows.append(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


def measure(client: str, streams: int) -> dict[str, Any]:
    """One client with so many streams at once, one answer each."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "*"}
    serve = [sys.executable, "-m", "tests.support.scripted_grpc"]
    with subprocess.Popen(serve, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        port = int(server.stdout.readline())
        ask = [sys.executable, __file__, client, str(port), str(streams)]
        seen = json.loads(subprocess.run(ask, env=environment, capture_output=True, check=True).stdout)
        truth: dict[str, list[float]] = json.loads(server.communicate()[0])["sent_s"]
    late_ms, first_ms = [], []
    for name, arrivals_s in seen["arrivals_s"].items():
        errors = [(arrived_s - sent_s) * 1000 for arrived_s, sent_s in zip(arrivals_s, truth[name], strict=True)]
        late_ms += errors
        first_ms.append(errors[0])
    responses = streams * TOKENS
    return {
        "client": client,
        "streams": streams,
        "responses_s": responses / seen["wall_s"],
        "us_per_response": seen["cpu_s"] / responses * 1e6,
        "late_ms": spread(late_ms),
        "ttft_ms": spread(first_ms),
    }


def spread(errors: list[float]) -> dict[str, float]:
    """Nearest-rank percentiles."""
    ordered = np.sort(errors)
    return {name: metrics.percentile(ordered, p) for name, p in (("p50", 50), ("p99", 99), ("max", 100))}


def run_ours(port: int, streams: int) -> None:
    from gevent import monkey

    monkey.patch_all()
    import gevent

    from scenarios.clients.call import LLMRequest
    from scenarios.clients.factory import build_client

    client = build_client("triton-grpc", f"grpc://127.0.0.1:{port}", MODEL)
    arrivals_s = {}
    before = spent()

    def ask(number: int) -> None:
        gevent.sleep(number * SPREAD_S / streams)
        name = f"request-{number}"
        call = client.call(LLMRequest(prompt="hi", max_tokens=TOKENS, extra_headers={"X-Request-Id": name}))
        call.run()
        result = call.result()
        assert result.outcome == "success", result
        arrivals_s[name] = [result.sent_s + ms / 1000 for ms in result.token_arrivals_ms]

    gevent.joinall([gevent.spawn(ask, number) for number in range(streams)], raise_error=True)
    tell(before, arrivals_s)


def run_tritonclient(port: int, streams: int) -> None:
    import threading

    import tritonclient.grpc as triton

    arrivals_s: dict[str, list[float]] = {}
    before = spent()

    def ask(number: int) -> None:
        time.sleep(number * SPREAD_S / streams)
        stamps: list[float] = []
        ended = threading.Event()

        def on_response(result: Any, error: Any) -> None:
            arrived_s = time.perf_counter()
            if error is not None:  # of the stream's end, which is cancelled below
                return
            stamps.append(arrived_s)
            result.as_numpy("text_output")
            if result.get_response().parameters["triton_final_response"].bool_param:
                ended.set()

        text = triton.InferInput("text_input", [1], "BYTES")
        text.set_data_from_numpy(np.array([b"hi"], dtype=np.object_))
        name = f"request-{number}"
        client = triton.InferenceServerClient(f"127.0.0.1:{port}")
        client.start_stream(on_response)
        client.async_stream_infer(MODEL, [text], request_id=name)
        ended.wait()
        client.stop_stream(cancel_requests=True)
        arrivals_s[name] = stamps

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell(before, arrivals_s)


def spent() -> tuple[float, float]:
    """CPU time of this process and time that has passed, in seconds."""
    return time.process_time(), time.perf_counter()


def tell(before: tuple[float, float], arrivals_s: dict[str, list[float]]) -> None:
    cpu_s, wall_s = (now - then for now, then in zip(spent(), before, strict=True))
    print(json.dumps({"cpu_s": cpu_s, "wall_s": wall_s, "arrivals_s": arrivals_s}))


CLIENTS = {"ours": run_ours, "tritonclient": run_tritonclient}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in CLIENTS:
        CLIENTS[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
