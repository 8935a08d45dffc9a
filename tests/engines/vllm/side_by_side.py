"""side_by_side.py VLLM_DIR MODEL_DIR: our load test and `vllm bench serve` against one real vLLM, on the CPU.

Both send the same prompts in a closed loop, in turns and several times, because the machine is noisy; figures
are pooled over the repeats and follow vLLM's definitions (mean TTFT; TPOT = (last - first token) / (n - 1)).
Exit code 1 when requests or tokens differ, or a mean by more than 3 %.
"""

import csv
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WORDS = (ROOT / "scenarios" / "workload" / "words_en.txt").read_text().split()

REQUESTS = {1: 30, 8: 120, 32: 320}  # by concurrency
REPEATS = 3
PROMPT_WORDS = 48
OUTPUT_TOKENS = 64
TOLERANCE = 0.03
READY_WITHIN_S = 300


@dataclass(slots=True)
class Pooled:
    """What one client measured at one concurrency, over all repeats."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    ttfts_ms: list[float] = field(default_factory=list)
    tpots_ms: list[float] = field(default_factory=list)


def main() -> int:
    vllm, model = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    pooled: dict[tuple[str, int], Pooled] = {}
    with tempfile.TemporaryDirectory() as scratch, serving(vllm, model, Path(scratch)) as url:
        for concurrency, requests in REQUESTS.items():
            for repeat in range(REPEATS):
                folder = Path(scratch) / f"{concurrency}-{repeat}"
                folder.mkdir()
                prompts = write_prompts(folder, requests, f"{concurrency}/{repeat}")
                clients = [("ours", ours), ("vllm bench", theirs)]
                for name, client in clients if repeat % 2 else reversed(clients):
                    into = pooled.setdefault((name, concurrency), Pooled())
                    client(vllm, model, url, folder, prompts, concurrency, into)
    return report(pooled)


def write_prompts(folder: Path, count: int, seed: str) -> Path:
    draw = random.Random(seed)
    file = folder / "prompts.jsonl"
    lines = [json.dumps({"prompt": " ".join(draw.choices(WORDS, k=PROMPT_WORDS))}) for _ in range(count)]
    file.write_text("\n".join(lines) + "\n")
    return file


def ours(_vllm: Path, _model: Path, url: str, folder: Path, prompts: Path, concurrency: int, into: Pooled) -> None:
    settings = {"load.levels": concurrency, "workload.dataset.file": prompts}
    command = [sys.executable, "-m", "locust", "-f", ROOT / "locustfiles" / "openai_completions.py", "--headless"]
    command += ["--only-summary", "--scenario", HERE / "side_by_side.toml", "-H", url]
    call([*command, *(f"--set={key}={value}" for key, value in settings.items())], folder, allowed=(0, 3))
    (run,) = (folder / "runs").iterdir()
    with (run / "requests.csv").open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            assert row["outcome"] == "success", row
            tokens, first, last = int(row["output_tokens"]), float(row["first_token_ms"]), float(row["last_token_ms"])
            into.requests += 1
            into.input_tokens += int(row["input_tokens"])
            into.output_tokens += tokens
            into.ttfts_ms.append(first)
            into.tpots_ms.append((last - first) / (tokens - 1))


def theirs(vllm: Path, model: Path, url: str, folder: Path, prompts: Path, concurrency: int, into: Pooled) -> None:
    count = len(prompts.read_text().splitlines())
    command = [vllm / "venv" / "bin" / "vllm", "bench", "serve", "--backend", "openai", "--base-url", url]
    command += ["--endpoint", "/v1/completions", "--model", "known", "--tokenizer", model, "--temperature", 0]
    command += ["--dataset-name", "custom", "--dataset-path", prompts, "--disable-shuffle", "--skip-chat-template"]
    command += ["--custom-output-len", OUTPUT_TOKENS, "--num-prompts", count, "--max-concurrency", concurrency]
    command += [
        "--ignore-eos",
        "--save-result",
        "--save-detailed",
        "--result-dir",
        folder,
        "--result-filename",
        "r.json",
    ]
    call(command, folder)
    result = json.loads((folder / "r.json").read_text())
    into.requests += result["completed"]
    into.input_tokens += result["total_input_tokens"]
    into.output_tokens += result["total_output_tokens"]
    into.ttfts_ms += [ttft_s * 1000 for ttft_s in result["ttfts"]]
    # `itls` are the gaps between chunks: their sum is the time from the first token to the last
    into.tpots_ms += [
        sum(gaps_s) * 1000 / (tokens - 1) for gaps_s, tokens in zip(result["itls"], result["output_lens"], strict=True)
    ]


def call(command: list[object], folder: Path, allowed: tuple[int, ...] = (0,)) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **OFFLINE}
    ended = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode not in allowed:
        sys.exit(f"{' '.join(map(str, command))}\n{ended.stdout[-2000:]}{ended.stderr[-3000:]}")


OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
SERVER = {**OFFLINE, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}


@contextmanager
def serving(vllm: Path, model: Path, scratch: Path) -> Iterator[str]:
    """The real server, without its prefix cache: the second client must not profit from the first one."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [vllm / "venv" / "bin" / "vllm", "serve", model, "--served-model-name", "known", "--port", port]
    command += ["--host", "127.0.0.1", "--max-model-len", 1024, "--max-num-seqs", 64, "--enforce-eager"]
    command += ["--no-enable-prefix-caching"]
    url = f"http://127.0.0.1:{port}"
    print(f"--> starting vLLM at {url}", flush=True)
    with (scratch / "server.log").open("w") as log:
        server = subprocess.Popen(
            list(map(str, command)), env={**os.environ, **SERVER}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_until_ready(url, server, scratch / "server.log")
            yield url
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGTERM)
                server.wait(timeout=60)


def wait_until_ready(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < give_up_s and server.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    sys.exit(f"vLLM did not get ready: {errors_of(log)}")


def errors_of(log: Path) -> str:
    lines = log.read_text().splitlines()
    return "\n".join([line for line in lines if "Error" in line][:10] or lines[-10:])


def report(pooled: dict[tuple[str, int], Pooled]) -> int:
    """Print both tables side by side; the exit code."""
    faults = []
    print(f"\n{'concurrency':>11}  {'client':<11}{'requests':>9}{'in':>9}{'out':>9}{'TTFT ms':>10}{'TPOT ms':>10}")
    for concurrency in REQUESTS:
        rows = {name: pooled[name, concurrency] for name in ("ours", "vllm bench")}
        for name, row in rows.items():
            counts = f"{row.requests:>9,}{row.input_tokens:>9,}{row.output_tokens:>9,}"
            print(f"{concurrency:>11}  {name:<11}{counts}{mean(row.ttfts_ms):>10.2f}{mean(row.tpots_ms):>10.3f}")
        one, other = rows.values()
        ttft, tpot = mean(one.ttfts_ms) / mean(other.ttfts_ms) - 1, mean(one.tpots_ms) / mean(other.tpots_ms) - 1
        print(f"{'':>11}  {'difference':<11}{'':>27}{ttft:>10.1%}{tpot:>10.1%}")
        faults += [
            f"concurrency {concurrency}: {count} {getattr(one, count)} and {getattr(other, count)}"
            for count in ("requests", "input_tokens", "output_tokens")
            if getattr(one, count) != getattr(other, count)
        ]
        faults += [
            f"concurrency {concurrency}: mean {name} differs by {off:.1%}"
            for name, off in (("TTFT", ttft), ("TPOT", tpot))
            if abs(off) > TOLERANCE
        ]
    print("\n".join(faults) if faults else f"alike: equal counts, means within {TOLERANCE:.0%}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
