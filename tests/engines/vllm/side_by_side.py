"""side_by_side.py VLLM_DIR MODEL_DIR: our load test and `vllm bench serve` against one real vLLM, on the CPU.

Both send the same prompts in a closed loop, in turns and several times, because machines are noisy; means are
pooled and follow vLLM's definitions. The server has its own cores and the clients theirs, where there are two:
vLLM polls, and starves a client beside it for up to 0.3 s. Where both differ, it is told why by two witnesses: what went over
the wire (`wire.py`), and what the server says of itself.

Exit code 1 when requests or tokens differ, or a mean by more than 3 % without both witnesses saying that ours is right.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from tests.engines.vllm import wire
from tests.engines.vllm.clients import ROOT, Told, ours, theirs
from tests.engines.vllm.server import scrape, serving

REQUESTS = {1: 20, 8: 80, 32: 192}  # of one pass, by concurrency
REPEATS = 6
NAMES = ("ours", "vllm bench")
PROMPT_WORDS = 48
TOLERANCE = 0.03
METRICS = ("TTFT", "TPOT")
WITNESSES = ("client", "wire", "server itself")
WORDS = (ROOT / "scenarios" / "workload" / "words_en.txt").read_text().split()


class Pass(NamedTuple):
    """One client, once: its counts, and mean TTFT and TPOT in ms by each witness; empty where there is no wire."""

    told: Told
    means: dict[str, tuple[float, float]]


def main() -> int:
    vllm, model = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    if blind := wire.can_see():
        print(f"--> without the wire as a witness: {blind}")
    passes: dict[tuple[str, int], list[Pass]] = defaultdict(list)
    server_cores, client_cores = share_cores()
    os.sched_setaffinity(0, server_cores)
    with tempfile.TemporaryDirectory() as scratch, serving(vllm, model, Path(scratch)) as url:
        os.sched_setaffinity(0, client_cores)

        def one_pass(name: str, concurrency: int, requests: int, seed: str) -> Pass:
            folder = Path(tempfile.mkdtemp(dir=scratch))
            prompts = write_prompts(folder, requests, seed)
            before = scrape(url)
            with watching(url, folder, seen=not blind) as wire_file:
                if name == "ours":
                    told = ours(url, folder, prompts, concurrency)
                else:
                    told = theirs(vllm, model, url, folder, prompts, concurrency)
            server = [(b[0] - a[0]) / (b[1] - a[1]) * 1000 for a, b in zip(before, scrape(url), strict=True)]
            means = {"client": (told.ttft_ms, told.tpot_ms), "server itself": (server[0], server[1])}
            return Pass(told, means if blind else means | {"wire": wire_means(wire_file)})

        for name in NAMES:
            one_pass(name, 8, 64, "warm-up")
        for concurrency, requests in REQUESTS.items():
            print(f"--> concurrency {concurrency}: {REPEATS} passes of {requests} requests by each", flush=True)
            for repeat in range(REPEATS):
                for name in NAMES if repeat % 2 else reversed(NAMES):
                    passes[name, concurrency].append(one_pass(name, concurrency, requests, f"{concurrency}/{repeat}"))
    return report(passes)


def share_cores() -> tuple[set[int], set[int]]:
    """Cores for the server and for the clients: one for them, the rest for it."""
    cores = sorted(os.sched_getaffinity(0))
    return (set(cores[:-1]), set(cores[-1:])) if len(cores) > 1 else (set(cores), set(cores))


def write_prompts(folder: Path, count: int, seed: str) -> Path:
    draw = random.Random(seed)
    file = folder / "prompts.jsonl"
    lines = [json.dumps({"prompt": " ".join(draw.choices(WORDS, k=PROMPT_WORDS))}) for _ in range(count)]
    file.write_text("\n".join(lines) + "\n")
    return file


@contextmanager
def watching(url: str, folder: Path, *, seen: bool) -> Iterator[Path]:
    file = folder / "wire.json"
    if not seen:
        yield file
        return
    command = [sys.executable, wire.__file__, url.rpartition(":")[2], str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as watcher:
        assert watcher.stdin
        assert watcher.stdout
        watcher.stdout.readline()
        yield file
        watcher.stdin.close()
    assert watcher.returncode == 0


def wire_means(file: Path) -> tuple[float, float]:
    """Mean TTFT and TPOT in ms; the first of a completion's times is when it was asked for."""
    completions = json.loads(file.read_text())
    ttft_s = mean(times_s[1] - times_s[0] for times_s in completions)
    tpot_s = mean((times_s[-1] - times_s[1]) / (len(times_s) - 2) for times_s in completions)
    return ttft_s * 1000, tpot_s * 1000


def report(passes: dict[tuple[str, int], list[Pass]]) -> int:
    """Print both tables side by side, and what became of each comparison; the exit code."""
    witnesses = [name for name in WITNESSES if name in passes[NAMES[0], 1][0].means]
    print(f"\n{'':>24}{'':>27}" + "".join(f"{name:>22}" for name in witnesses))
    columns = f"{'requests':>9}{'in':>9}{'out':>9}" + f"{'TTFT ms':>12}{'TPOT ms':>10}" * len(witnesses)
    print(f"{'concurrency':>11}  {'client':<11}{columns}")
    faults = []
    for concurrency in REQUESTS:
        pooled = {name: pool(passes[name, concurrency]) for name in NAMES}
        for name, (counts, means) in pooled.items():
            row = "".join(f"{count:>9,}" for count in counts)
            row += "".join(f"{means[witness][0]:>12.2f}{means[witness][1]:>10.3f}" for witness in witnesses)
            print(f"{concurrency:>11}  {name:<11}{row}")
        (counts, our_means), (their_counts, their_means) = pooled.values()
        if counts != their_counts:
            faults.append(f"concurrency {concurrency}: requests, tokens in and out {counts} and {their_counts}")
        for place, metric in enumerate(METRICS):
            one, other = ({w: means[w][place] for w in witnesses} for means in (our_means, their_means))
            alike, text = judge(one, other)
            print(f"{'':>13}{metric}: {text}")
            if not alike:
                faults.append(f"concurrency {concurrency}: {metric}: {text}")
    print(
        "\n" + ("\n".join(faults) if faults else "equal counts; means alike, or both witnesses say that ours are right")
    )
    return 1 if faults else 0


def pool(passes: list[Pass]) -> tuple[tuple[int, ...], dict[str, tuple[float, float]]]:
    """Sums of the counts and means over passes of equal size."""
    counts = tuple(sum(counted) for counted in zip(*((one.told[:3]) for one in passes), strict=True))
    means = {
        witness: (mean(one.means[witness][0] for one in passes), mean(one.means[witness][1] for one in passes))
        for witness in passes[0].means
    }
    return counts, means


def judge(one: dict[str, float], other: dict[str, float]) -> tuple[bool, str]:
    """Whether a mean is alike, or differs for a known reason; and the reasons in words.

    Known is that ours is what went over the wire, and that the wire differs as much as the server says of itself.
    """
    apart = one["client"] / other["client"] - 1
    text = f"ours is {apart:+.1%} beside theirs"
    if "wire" not in one:
        return abs(apart) <= TOLERANCE, text
    off, their_off = (each["client"] / each["wire"] - 1 for each in (one, other))
    sent, served = (one[witness] / other[witness] for witness in ("wire", "server itself"))
    text += (
        f": over the wire {sent - 1:+.1%} (the server says {served - 1:+.1%}),"
        f" ours reads {off:+.1%} of it, theirs {their_off:+.1%}"
    )
    explained = abs(off) <= TOLERANCE and abs(sent / served - 1) <= TOLERANCE
    return abs(apart) <= TOLERANCE or explained, text


if __name__ == "__main__":
    sys.exit(main())
