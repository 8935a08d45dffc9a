"""side_by_side.py VLLM_DIR MODEL_DIR: our load test and `vllm bench serve` against one real vLLM, on the CPU.

Both send the same prompts in a closed loop, in turns and several times, because the machine is noisy; figures
are pooled over the repeats and follow vLLM's definitions (mean TTFT; TPOT = (last - first token) / (n - 1)).
Beside them stands what the server itself measured of the same requests: where a client slows the server down,
as it may on a small machine, both differ. Exit code 1 when requests or tokens differ, or a mean by more than 3 %,
as it is and also relative to the server's own.
"""

import csv
import json
import os
import random
import re
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
NAMES = ("ours", "vllm bench")
PROMPT_WORDS = 48
OUTPUT_TOKENS = 64
TOLERANCE = 0.03
READY_WITHIN_S = 300


# the server's own TTFT and TPOT
HISTOGRAMS = ("vllm:time_to_first_token_seconds", "vllm:request_time_per_output_token_seconds")


@dataclass(slots=True)
class Pooled:
    """What one client measured at one concurrency, over all repeats."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    ttfts_ms: list[float] = field(default_factory=list)
    tpots_ms: list[float] = field(default_factory=list)
    server: dict[str, list[float]] = field(default_factory=lambda: {name: [0.0, 0.0] for name in HISTOGRAMS})

    def means_ms(self) -> tuple[float, float]:
        return mean(self.ttfts_ms), mean(self.tpots_ms)

    def server_means_ms(self) -> tuple[float, ...]:
        return tuple(total_s / count * 1000 for total_s, count in self.server.values())


def main() -> int:
    vllm, model = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    pooled: dict[tuple[str, int], Pooled] = {}
    with tempfile.TemporaryDirectory() as scratch, serving(vllm, model, Path(scratch)) as url:
        for concurrency, requests in REQUESTS.items():
            for repeat in range(REPEATS):
                folder = Path(scratch) / f"{concurrency}-{repeat}"
                folder.mkdir()
                prompts = write_prompts(folder, requests, f"{concurrency}/{repeat}")
                clients = list(zip(NAMES, (ours, theirs), strict=True))
                for name, client in clients if repeat % 2 else reversed(clients):
                    into = pooled.setdefault((name, concurrency), Pooled())
                    before = scrape(url)
                    client(vllm, model, url, folder, prompts, concurrency, into)
                    after = scrape(url)
                    for histogram, taken in into.server.items():
                        for place in (0, 1):
                            taken[place] += after[histogram][place] - before[histogram][place]
    return report(pooled)


def scrape(url: str) -> dict[str, tuple[float, float]]:
    """Sum and count of each histogram."""
    with urllib.request.urlopen(url + "/metrics", timeout=10) as response:
        text = response.read().decode()

    def total(name: str) -> float:
        return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", text, re.MULTILINE))

    return {name: (total(name + "_sum"), total(name + "_count")) for name in HISTOGRAMS}


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
    print(f"\n{'':>11}  {'':<11}{'':>27}{'client':>20}{'server itself':>22}")
    print(
        f"{'concurrency':>11}  {'client':<11}{'requests':>9}{'in':>9}{'out':>9}" + f"{'TTFT ms':>11}{'TPOT ms':>10}" * 2
    )
    for concurrency in REQUESTS:
        one, other = rows = [pooled[name, concurrency] for name in NAMES]
        for name, row in zip(NAMES, rows, strict=True):
            counts = f"{row.requests:>9,}{row.input_tokens:>9,}{row.output_tokens:>9,}"
            times = "".join(f"{ttft:>11.2f}{tpot:>10.3f}" for ttft, tpot in (row.means_ms(), row.server_means_ms()))
            print(f"{concurrency:>11}  {name:<11}{counts}{times}")
        faults += [
            f"concurrency {concurrency}: {count} {getattr(one, count)} and {getattr(other, count)}"
            for count in ("requests", "input_tokens", "output_tokens")
            if getattr(one, count) != getattr(other, count)
        ]
        for place, name in enumerate(("TTFT", "TPOT")):
            off = one.means_ms()[place] / other.means_ms()[place] - 1
            server = one.server_means_ms()[place] / other.server_means_ms()[place] - 1
            print(f"{'':>13}{name}: the clients differ by {off:+.1%}, the server by {server:+.1%}")
            if min(abs(off), abs((1 + off) / (1 + server) - 1)) > TOLERANCE:
                faults.append(
                    f"concurrency {concurrency}: mean {name} differs by {off:+.1%}, the server's by {server:+.1%}"
                )
    print("\n".join(faults) if faults else f"alike: equal counts, means within {TOLERANCE:.0%}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
