"""What the report of a long run costs, and how often its intervals hold the truth.

A made run of 10 million token rows in four levels is read and reported, HTML page included, in a process of its own:
time, CPU and peak memory. Then 1,000 made runs, in which each request remembers the one before, tell the share of
95 % intervals that cover the true mean or percentile.

    python bench/report.py [--rows N] [--runs N] [--json FILE]
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis import intervals, schema
from analysis.intervals import Interval

TOKENS = 250  # of each request
TEMPLATES = 200  # requests differ by one of so many lists of arrivals
LEVELS, SECONDS = 4, 1000
WANTED_S, WANTED_MB = 20.0, 1500  # for 10 million rows
REPORT = "import sys; from analysis.report import write_report; write_report(sys.argv[1])"
REQUESTS_HEADER = (
    "request_id,worker,level,phase,outcome,sent_unix_s,first_token_ms,last_token_ms,e2e_ms,token_events,"
    "output_tokens,output_tokens_source\n"
)


def main() -> None:
    """Measure, print tables, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000, help="token rows of the made run; 0: none is made")
    parser.add_argument("--runs", type=int, default=1000, help="made runs for the coverage; 0: none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    figures: dict[str, Any] = {"load_average": os.getloadavg()[0]}
    if options.rows:
        figures["report"] = cost = measure(options.rows)
        print(f"{'token rows':>14}{'seconds':>10}{'CPU s':>10}{'peak MB':>10}{'tokens.csv MB':>16}")
        print(
            f"{cost['rows']:>14,}{cost['wall_s']:>10.1f}{cost['cpu_s']:>10.1f}{cost['peak_mb']:>10,.0f}"
            f"{cost['file_mb']:>16,.0f}"
        )
        print(f"wanted for 10,000,000: under {WANTED_S:g} s and {WANTED_MB:,} MB")
    if options.runs:
        figures["coverage"] = shares = coverages(options.runs)
        print(f"\nshare of {options.runs:,} runs whose 95 % interval covers the truth (wanted: 93 to 97 %)")
        for name, share in shares.items():
            print(f"  {name:28}{share:>8.1%}")
    print(f"load average before: {figures['load_average']:.1f} on {os.cpu_count()} cores")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def measure(rows: int) -> dict[str, float]:
    """Report on a made run; the figures are the child's own."""
    with tempfile.TemporaryDirectory() as folder:
        make_run(Path(folder), rows // TOKENS)
        size = (Path(folder) / schema.TOKENS_FILE).stat().st_size
        began = time.perf_counter()
        child = subprocess.Popen([sys.executable, "-c", REPORT, folder], cwd=Path(__file__).parents[1])
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit("bench/report.py: the report failed")
    return {
        "rows": rows // TOKENS * TOKENS,
        "wall_s": wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
        "file_mb": size / 1e6,
    }


def make_run(folder: Path, requests: int) -> None:
    """Two workers' requests in four levels; only the columns that the metrics need."""
    random = np.random.default_rng(1)
    gaps = random.gamma(4, 4, (TEMPLATES, TOKENS))
    every = np.cumsum(gaps, axis=1).round(3).tolist()
    texts = ["".join(f"\0,{at},{ms},1,answer\n" for at, ms in enumerate(arrivals)) for arrivals in every]
    with (
        (folder / schema.REQUESTS_FILE).open("w") as rows,
        (folder / schema.TOKENS_FILE).open("w") as tokens,
    ):
        rows.write(REQUESTS_HEADER)
        tokens.write(",".join(schema.names(schema.TOKENS_FILE)) + "\n")
        for number, template in enumerate(random.integers(0, TEMPLATES, requests).tolist()):
            name, arrivals = f"{number % 2}-{number}", every[template]
            first, last = arrivals[0], arrivals[-1]
            sent = f"{1_800_000_000 + number * SECONDS / requests:.6f}"
            rows.write(
                f"{name},{number % 2},{1 + number * LEVELS // requests},measure,success,{sent},{first},{last},{last},"
                f"{TOKENS},{TOKENS},usage\n"
            )
            tokens.write(texts[template].replace("\0", name))


def coverages(runs: int) -> dict[str, float]:
    """Share of the intervals that hold the truth, by figure and by how much a request remembers of the one before."""
    shares = {}
    for memory in (0.0, 0.6, 0.8):
        series = autocorrelated(runs, 1000, memory)
        latency = 100 * np.exp(0.5 * series)  # skewed, as latencies are
        shares[f"mean, memory {memory:g}"] = coverage(map(intervals.mean_interval, latency), 100 * math.exp(0.125))
        for p in (50, 95):
            found = (intervals.percentile_interval(run, p) for run in latency)
            truth = 100 * math.exp(0.5 * NormalDist().inv_cdf(p / 100))
            shares[f"p{p}, memory {memory:g}"] = coverage(found, truth)
        shares[f"mean ITL, memory {memory:g}"] = itl_coverage(np.exp(0.3 * series), 20 * math.exp(0.045))
    return shares


def itl_coverage(speeds: NDArray[np.float64], truth: float) -> float:
    """Requests of 1 to 200 gaps, exponential with a mean of 20 ms times the request's own speed."""
    random = np.random.default_rng(7)
    counts = random.integers(1, 201, speeds.shape).astype(np.float64)
    sums = random.gamma(counts, 20 * speeds)  # the sum of `counts` exponential gaps
    return coverage(map(intervals.ratio_interval, sums, counts), truth)


def coverage(found: Any, truth: float) -> float:
    """Share of intervals that hold the truth; one that is not given does not count."""
    given: list[Interval] = [interval for interval in found if interval is not None]
    return sum(interval.low <= truth <= interval.high for interval in given) / len(given) if given else math.nan


def autocorrelated(runs: int, length: int, memory: float) -> NDArray[np.float64]:
    """Series of standard normal values in which each remembers a share of the one before, one row per run."""
    noise = np.random.default_rng(1).normal(size=(runs, length + 100))
    for position in range(1, length + 100):
        noise[:, position] = memory * noise[:, position - 1] + math.sqrt(1 - memory**2) * noise[:, position]
    return np.ascontiguousarray(noise[:, 100:])


if __name__ == "__main__":
    main()
