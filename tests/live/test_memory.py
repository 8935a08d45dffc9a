"""Memory levels off: rings fill up and old points are thinned out. A run of days, scaled down to a minute."""

import json
import time

import psutil
import pytest

from scenarios.live.series import SECONDS_KEPT
from tests.support.locust_run import wait_for

# Locust keeps a point every 5 s, the live view one every second: here both every 0.01 s, so that 20 s are
# hours of the one and half an hour of the other.
FAST_CLOCK = """
import locust.stats
from scenarios.live import view
from scenarios.users import LLMUser

locust.stats.HISTORY_STATS_INTERVAL_SEC = 0.01
view.TICK_S = 0.01

class ChatUser(LLMUser):
    api = "chat"
"""
HISTORY_KEPT = 1000  # of Locust's own points; its module can't be imported here
GROWTH_LIMIT_MB = 5


def memory_mb(process):
    """Resident memory of each process of a tree, the largest first."""
    return [each.memory_info().rss / 2**20 for each in (process, *process.children(recursive=True))]


@pytest.mark.slow
def test_master_and_workers_level_off_and_history_has_a_limit(web_locust, tmp_path):
    locustfile = tmp_path / "fast_clock.py"
    locustfile.write_text(FAST_CLOCK)
    settings = {
        "load.levels": "8",
        "load.measure_s": "170",
        "workload.output.tokens": "64",
        "engine.practice": json.dumps(["--speed", "3"]),
    }
    with web_locust("--processes", "2", locustfile=locustfile, settings=settings) as locust:
        (master,) = [each for each in psutil.Process().children() if locust.url.rpartition(":")[2] in each.cmdline()]
        assert locust.start()["success"]
        wait_for(lambda: len(locust.data()["seconds"]) == SECONDS_KEPT, limit_s=60)
        time.sleep(3)
        before = memory_mb(master)
        time.sleep(12)
        after = memory_mb(master)
        assert len(before) == len(after) >= 3
        grown = [late - early for early, late in zip(before, after, strict=True)]
        assert max(grown) <= GROWTH_LIMIT_MB, (before, after)
        assert len(locust.data()["seconds"]) == SECONDS_KEPT
        assert HISTORY_KEPT / 2 <= len(locust.template_args()["history"]) <= HISTORY_KEPT + 1
        assert locust.data()["now"]["tok_s"] > 300
