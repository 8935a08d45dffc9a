"""Points over time: sliding windows, complete seconds, and rings that do not grow."""

import tracemalloc

import numpy as np
import pytest

from scenarios.live import series
from scenarios.live.buckets import pack
from scenarios.live.figures import Tally
from scenarios.live.series import Series, Window

GAUGES = {"in_flight": 2, "waiting": 0, "queued": 0, "users": 2}


def ended(*ttft_ms: float) -> dict[str, Tally]:
    tally = Tally()
    if ttft_ms:
        tally.add({"counts": {"success": len(ttft_ms)}, "failures": {}, "values": {"ttft_ms": pack(np.array(ttft_ms))}})
    return {"128": tally}


def test_a_window_of_three_seconds_knows_only_what_ended_in_them():
    # one sample at 1 s (100 ms), one at 9 s (300 ms); at 10 s a window of 3 s holds the second only
    window = Window(3)
    window.add(1, ended(100.0))
    window.add(9, ended(300.0))
    assert window.totals(10)["128"].latencies()["ttft_ms"][0] == pytest.approx(300, rel=0.005)


@pytest.mark.parametrize("window_s", [1, 3, 8, 60])
def test_an_empty_window_is_no_data_and_not_zero(window_s):
    window = Window(window_s)
    window.add(1, ended(100.0))
    assert window.totals(100) == {}
    points = Series(window_s)
    assert points.close_second(100.0, ended(), GAUGES)["ttft_ms"] == [None, None, None]


def test_tokens_stand_at_their_second_of_arrival_and_may_be_put_right():
    points = Series()
    points.close_second(100.5, ended(), GAUGES)
    points.close_second(101.5, ended(), GAUGES)
    points.add_tokens(100, 20.0)
    points.add_tokens(101, 30.0)
    points.add_tokens(100, -5.0)
    # at 103.5 s the seconds up to 101 are complete
    assert [point["tok_s"] for point in points.by_second(0, 103.5)] == [15.0, 30.0]
    assert [point["tok_s"] for point in points.by_second(0, 102.5)] == [15.0, None]
    assert [point["t"] for point in points.by_second(100, 103.5)] == [101]


def test_the_rate_of_now_is_over_complete_seconds_since_the_start():
    points = Series()
    assert points.tok_s(100.5) is None
    for second in range(100, 104):
        points.close_second(second + 0.5, ended(), GAUGES)
        points.add_tokens(second, 200.0)
    assert points.tok_s(103.5) == 200.0  # of 100 and 101; 102 and 103 are not all there


def test_fifty_hours_take_the_memory_of_thirty():
    points = Series()
    tracemalloc.start()
    full = 0
    for minute in range(50 * 60):
        now = 60 * minute
        points.add_tokens(now, 1.0)
        points.close_second(now, ended(50.0) if minute % 10 == 0 else {}, GAUGES)
        if minute == 31 * 60:
            full = tracemalloc.get_traced_memory()[0]
    grown = tracemalloc.get_traced_memory()[0] - full
    tracemalloc.stop()
    assert len(points.by_second(-1, now)) == series.SECONDS_KEPT
    assert len(points.by_minute(-1)) == series.MINUTES_KEPT
    assert grown < 100_000
