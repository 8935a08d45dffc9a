"""How well the load generator itself is: CPU, event loop lag, reads and memory, once a second."""

from collections.abc import Callable
from typing import Any

import gevent
import psutil

from scenarios.clients.stamps import COUNTERS
from scenarios.recording.clock import Clock, now_s

PROBE_INTERVAL_S = 0.05
PERIOD_S = 1.0


def sample_forever(
    worker: int, clock: Clock, in_flight: Callable[[], int], sink: Callable[[dict[str, Any]], None]
) -> None:
    """Hand one row of health.csv a second to `sink`, for ever."""
    process = psutil.Process()
    process.cpu_percent()
    reads, coalesced = COUNTERS.reads, COUNTERS.coalesced_reads
    while True:
        lag_s = _longest_timer_delay_s(PERIOD_S)
        sink(
            {
                "unix_s": clock.now_unix_s(),
                "worker": worker,
                "cpu_percent": process.cpu_percent(),
                "hub_lag_ms": lag_s * 1000,
                "reads": COUNTERS.reads - reads,
                "coalesced_reads": COUNTERS.coalesced_reads - coalesced,
                "in_flight": in_flight(),
                "memory_mb": process.memory_info().rss / 1e6,
            }
        )
        reads, coalesced = COUNTERS.reads, COUNTERS.coalesced_reads


def _longest_timer_delay_s(period_s: float) -> float:
    begin_s = now_s()
    longest_s = 0.0
    while (asked_s := now_s()) - begin_s < period_s:
        gevent.sleep(PROBE_INTERVAL_S)
        longest_s = max(longest_s, now_s() - asked_s - PROBE_INTERVAL_S)
    return longest_s
