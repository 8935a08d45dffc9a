"""The sending side of the live figures: attribution by arrival, provisional counts, bounds and cost."""

import random
import time
from array import array
from typing import Any

import numpy as np
import pytest

from scenarios.live.buckets import Histogram
from scenarios.live.counting import MAX_CLASSES, OTHER, LiveCounter
from scenarios.recording.clock import Clock
from scenarios.recording.recorder import ROW_COLUMNS, Record
from scenarios.spec.scenario import SloSpec


class FixedClock(Clock):
    """A clock that stands where the test puts it; the monotonic one is 1000 s behind."""

    def __init__(self, unix_s: float) -> None:
        super().__init__()
        self.at = unix_s

    def now_unix_s(self) -> float:
        return self.at

    def monotonic_s(self, unix_s: float) -> float:
        return unix_s - 1000


class Streaming:
    """A call under way whose events arrived at these monotonic instants."""

    def __init__(self, arrivals_s: list[float]) -> None:
        self.arrivals_s = arrivals_s

    def events_before(self, monotonic_s: float) -> int:
        return sum(arrival < monotonic_s for arrival in self.arrivals_s)


def measuring(_unix_s: float) -> tuple[int, str]:
    return 1, "measure"


def record(request_id: str, sent_unix_s: float, arrivals_ms: list[float], **changes: Any) -> Record:
    row = dict.fromkeys(ROW_COLUMNS) | {
        "request_id": request_id,
        "sent_unix_s": sent_unix_s,
        "outcome": "success",
        "length_class": "128",
        "first_token_ms": arrivals_ms[0] if arrivals_ms else None,
        "last_token_ms": arrivals_ms[-1] if arrivals_ms else None,
        "e2e_ms": (arrivals_ms[-1] if arrivals_ms else 0.0) + 1,
        "output_tokens": len(arrivals_ms),
        "output_tokens_requested": len(arrivals_ms),
        "output_tokens_source": "usage",
        "token_events": len(arrivals_ms),
        **changes,
    }
    counts = array("i", [-1] * len(arrivals_ms)).tobytes()
    return Record(
        [row[name] for name in ROW_COLUMNS], array("d", arrivals_ms).tobytes(), counts, bytes(len(arrivals_ms))
    )


def tokens(message: dict[str, Any]) -> dict[int, float]:
    assert set(message["levels"]) <= {1}
    return dict(zip(message["seconds"], message["tokens"], strict=True))


def percentile(message: dict[str, Any], metric: str, p: float) -> float | None:
    histogram = Histogram()
    for group in message["groups"]:
        histogram.add(group["values"][metric])
    return histogram.percentiles_ms([p])[0]


def test_tokens_count_in_the_second_in_which_they_arrived():
    counter = LiveCounter(FixedClock(60.0), measuring, None)
    # sent at 50.5: tokens at 50.6, 51.0, 51.4, 52.5
    counter.ended(record("0-1", 50.5, [100.0, 500.0, 900.0, 2000.0]))
    assert tokens(counter.take()) == {50: 1.0, 51: 2.0, 52: 1.0}


def test_a_second_in_which_the_measure_phase_begins_is_shared_out_by_token():
    def from_51_on(unix_s: float) -> tuple[int, str]:
        return 1, "measure" if unix_s >= 51.45 else "warmup"

    counter = LiveCounter(FixedClock(60.0), from_51_on, None)
    # tokens at 50.6, 51.0, 51.4, 51.5, 52.5
    counter.ended(record("0-1", 50.5, [100.0, 500.0, 900.0, 1000.0, 2000.0]))
    message = counter.take()
    found = dict(zip(zip(message["seconds"], message["levels"], strict=True), message["tokens"], strict=True))
    assert found == {(50, 0): 1.0, (51, 0): 2.0, (51, 1): 1.0, (52, 1): 1.0}


def test_an_event_of_several_tokens_counts_as_many():
    counter = LiveCounter(FixedClock(60.0), measuring, None)
    counter.ended(record("0-1", 50.0, [100.0, 1100.0], output_tokens=10))
    assert tokens(counter.take()) == {50: 5.0, 51: 5.0}


def test_latencies_are_those_of_successes_by_level_phase_and_class():
    counter = LiveCounter(FixedClock(60.0), measuring, None)
    counter.ended(record("0-1", 50.0, [100.0, 150.0, 250.0]))
    counter.ended(record("0-2", 50.0, [900.0, 901.0], outcome="failure", error_class="http_500"))
    message = counter.take()
    (group,) = message["groups"]
    assert (group["level"], group["measured"], group["class"]) == (1, True, "128")
    assert group["counts"]["success"] == 1
    assert group["failures"] == {"http_500": 1}
    assert percentile(message, "ttft_ms", 50) == pytest.approx(100, rel=0.005)
    assert percentile(message, "tpot_ms", 50) == pytest.approx(75, rel=0.005)  # (250 - 100) / 2
    assert percentile(message, "itl_ms", 99) == pytest.approx(100, rel=0.005)
    assert tokens(message) == {50: 3.0}  # output of a failure is no throughput


def test_a_request_in_flight_counts_meanwhile_and_is_put_right_at_its_end():
    clock = FixedClock(50.2)
    counter = LiveCounter(clock, measuring, None)
    # sent at 50.0; the first piece is a role chunk and no token, then tokens at 50.5, 51.2 and 51.4
    counter.started("0-1", Streaming([-949.9, -949.5, -948.8, -948.6]))
    clock.at = 52.1
    message = counter.take()
    assert tokens(message) == {50: 2.0, 51: 2.0}
    assert (message["in_flight"], message["waiting"]) == (1, 0)
    clock.at = 53.0
    counter.ended(record("0-1", 50.0, [500.0, 1200.0, 1400.0]))
    message = counter.take()
    assert tokens(message) == {50: -1.0, 51: 0.0}  # the role chunk was no token
    assert message["in_flight"] == 0


def test_who_has_no_token_yet_is_waiting():
    counter = LiveCounter(FixedClock(50.0), measuring, None)
    counter.started("0-1", Streaming([]))
    counter.started("0-2", object())  # a client that can't be asked
    message = counter.take()
    assert (message["in_flight"], message["waiting"]) == (2, 1)


def test_tokens_of_a_request_that_fails_in_the_end_are_taken_back():
    clock = FixedClock(50.0)
    counter = LiveCounter(clock, measuring, None)
    counter.started("0-1", Streaming([-949.5]))
    clock.at = 51.0
    assert tokens(counter.take()) == {50: 1.0}
    counter.ended(record("0-1", 50.0, [500.0], outcome="failure", error_class="truncated_stream"))
    assert tokens(counter.take()) == {50: -1.0}


def test_classes_that_come_from_outside_are_bounded():
    counter = LiveCounter(FixedClock(60.0), measuring, None)
    for number in range(100):
        counter.ended(record(f"0-{number}", 50.0, [100.0], length_class=f"class {number}"))
    names = {group["class"] for group in counter.take()["groups"]}
    assert len(names) == MAX_CLASSES + 1
    assert OTHER in names


@pytest.mark.parametrize(("ttft_ms", "tpot_ms", "met"), [(100.0, 25.0, 1), (99.0, 25.0, 0), (100.0, 24.0, 0)])
def test_the_slo_is_met_within_every_limit(ttft_ms, tpot_ms, met):
    counter = LiveCounter(FixedClock(60.0), measuring, SloSpec(ttft_ms=ttft_ms, tpot_ms=tpot_ms))
    counter.ended(record("0-1", 50.0, [100.0, 125.0, 150.0]))  # TTFT 100, TPOT 25
    assert counter.take()["groups"][0]["counts"].get("slo_met", 0) == met


def test_live_figures_cost_less_than_half_a_microsecond_per_token():
    drawn = random.Random(2)
    counter = LiveCounter(Clock(), measuring, SloSpec(ttft_ms=100))
    arrivals = np.cumsum([100 + drawn.uniform(9, 15) for _ in range(128)]).tolist()
    records = [record(f"0-{number}", 1e9, arrivals) for number in range(200)]

    def once() -> float:
        begin = time.process_time()
        for each in records:
            counter.started(each.request_id, None)
            counter.ended(each)
        counter.take()
        return time.process_time() - begin

    once()
    cost_us = min(once() for _ in range(5)) / (200 * 128) * 1e6
    assert cost_us < 0.5, cost_us
