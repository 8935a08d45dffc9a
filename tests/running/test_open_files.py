"""How many files a process needs, by its share of the load."""

import subprocess
import sys

from scenarios.running.open_files import streams_at_once
from scenarios.spec import LoadSpec
from tests.support.locust_run import ROOT


def lifted(soft: int, hard: int, streams: int) -> list[str]:
    """Soft limit and fault after asking for so many streams under these limits."""
    code = (
        "import resource; from scenarios.running.open_files import lift_limit; "
        f"print(lift_limit({streams})); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    line = ["bash", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"', "run", sys.executable, "-c", code]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_workers_share_the_highest_level():
    assert streams_at_once(LoadSpec(levels=(8, 500, 64)), workers=4) == 125


def test_a_cap_counts_where_there_is_one():
    assert streams_at_once(LoadSpec(mode="rate", rates=(2.0,), max_in_flight=30), workers=4) == 8
    assert streams_at_once(LoadSpec(mode="batch", requests=1000)) == 1000


def test_the_limit_is_lifted_as_far_as_it_has_to():
    assert lifted(soft=256, hard=1000, streams=500) == ["None", "628"]
    assert lifted(soft=900, hard=1000, streams=500) == ["None", "900"]


def test_what_the_system_does_not_allow_is_a_fault_that_says_what_to_do():
    fault, limit = lifted(soft=256, hard=600, streams=500)
    assert fault.startswith("500 streams at once need 628 open files, and this process may have 600: raise its limit")
    assert limit == "256"
