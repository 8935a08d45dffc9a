"""Validity lights: the same limits as the final report's verdict."""

import pytest

from analysis import client, metrics, run_validity, validity
from scenarios.live import lights
from scenarios.live.figures import Tally
from scenarios.live.lights import HealthSum
from scenarios.recording.inbox import WorkerState

VERDICTS = (validity, run_validity, client)
SHARED = [
    "ACHIEVED_SHARE",
    "CPU_SUSPECT",
    "CPU_BOUND",
    "LATE_MS",
    "LATE_SHARE",
    "LAG_PEAK_MS",
    "COALESCED_SHARE",
    "FAILED_SHARE",
    "EARLY_STOP_SHARE",
    "CLOCK_UNCERTAINTY_MS",
]


@pytest.mark.parametrize("name", SHARED)
def test_a_limit_is_that_of_the_report(name):
    (limit,) = {getattr(module, name) for module in VERDICTS if hasattr(module, name)}
    assert getattr(lights, name) == limit


def test_a_p95_needs_as_many_requests_as_in_the_report():
    assert metrics.ENOUGH[95] == lights.ENOUGH_FOR_P95


def shown(*, cpu=10.0, lag=1.0, in_flight=4, reads=100, coalesced=0, requested=4.0, counts=None, lost=False):
    health = HealthSum()
    for worker in (0, 1):
        health.add(
            {
                "worker": worker,
                "cpu_percent": cpu,
                "hub_lag_ms": lag,
                "reads": reads,
                "coalesced_reads": coalesced,
                "in_flight": in_flight / 2,
            }
        )
    measured = Tally()
    measured.counts = {"success": 100} if counts is None else counts
    workers = [WorkerState(0, "one"), WorkerState(1, "two", lost=lost)]
    return {light.name: light for light in lights.lights(health, measured, workers, requested, True, None)}


def test_all_is_well():
    assert {light.status for light in shown().values()} == {"ok"}


@pytest.mark.parametrize(
    ("trouble", "name", "status", "reason"),
    [
        ({"cpu": 80}, "generator CPU", "suspect", "80 %"),
        ({"cpu": 95}, "generator CPU", "client-bound", "use more workers"),
        ({"lag": 60}, "event loop", "client-bound", "60 ms"),
        ({"in_flight": 3}, "load held", "suspect", "4 requested, 3.0 in flight"),
        ({"coalesced": 30}, "stamps", "suspect", "30%"),
        ({"counts": {"success": 90, "failure": 10}}, "failures", "suspect", "10.0%"),
        ({"counts": {"success": 100, "estimated": 100}}, "token counts", "suspect", "estimated"),
        ({"counts": {"success": 100, "short": 5}}, "token counts", "suspect", "shorter"),
        ({"counts": {"success": 5}}, "sample", "note", "20 make a p95"),
        ({"lost": True}, "records", "suspect", "two"),
    ],
)
def test_a_light_says_what_is_wrong(trouble, name, status, reason):
    light = shown(**trouble)[name]
    assert light.status == status
    assert reason in light.reason
