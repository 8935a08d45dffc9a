"""A long run is read and reported in bounded time and memory. `REQUESTS = 40_000` makes the 10 million rows."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from analysis import schema

ROOT = Path(__file__).parents[2]
REQUESTS, TOKENS = 4_000, 250
# The imports alone take 110 MB, more or less by the versions of pandas and pyarrow: what counts is the growth since
# then. The kernel's VmHWM and not getrusage's maximum, for that one starts at the size of the process that forked.
MEASURE = """
import sys
from pathlib import Path
from analysis.report import write_report

def megabytes(line):
    return int(Path("/proc/self/status").read_text().split(f"{line}:")[1].split()[0]) // 1024

imported = megabytes("VmRSS")
found = write_report(sys.argv[1])
print(sum(level.latencies.itl_ms.n for level in found.levels), megabytes("VmHWM") - imported)
"""


def write_big(folder):
    """Two workers' requests in four levels; only the columns that the metrics need."""
    random, names = np.random.default_rng(1), schema.names(schema.TOKENS_FILE)
    with (folder / "requests.csv").open("w") as requests, (folder / "tokens.csv").open("w") as tokens:
        requests.write(
            "request_id,worker,level,phase,outcome,sent_unix_s,first_token_ms,last_token_ms,e2e_ms,token_events,"
            "output_tokens,output_tokens_source\n"
        )
        tokens.write(",".join(names) + "\n")
        for number in range(REQUESTS):
            arrivals = np.cumsum(random.gamma(4, 4, TOKENS)).round(3).tolist()
            name, last = f"{number % 2}-{number}", arrivals[-1]
            sent = f"{1_800_000_000 + number * 100 / REQUESTS:.6f}"
            requests.write(
                f"{name},{number % 2},{1 + number * 4 // REQUESTS},measure,success,{sent},{arrivals[0]},{last},{last},"
                f"{TOKENS},{TOKENS},usage\n"
            )
            tokens.write("".join(f"{name},{index},{arrival},1,answer\n" for index, arrival in enumerate(arrivals)))


def test_a_million_token_rows_take_seconds_and_little_memory(tmp_path):
    write_big(tmp_path)
    began = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    gaps, growth_mb = map(int, ran.stdout.split())
    assert gaps == REQUESTS * (TOKENS - 1)
    assert growth_mb < 170  # 129 to 132, with 1 to 64 threads
    assert time.perf_counter() - began < 20  # 3 s on a free machine
    assert (tmp_path / "report.html").stat().st_size < 3_000_000
