"""Validity lights: what stands against the numbers while they come in, and why.

The limits are those of the final report's verdict (`analysis.validity`), a test holds them together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis import schema
from scenarios.live.figures import Tally
from scenarios.recording.inbox import WorkerState

OK, NOTE, SUSPECT, BOUND = "ok", "note", "suspect", "client-bound"

ACHIEVED_SHARE = 0.95
CPU_SUSPECT, CPU_BOUND = 75.0, 90.0
LATE_MS, LATE_SHARE, LAG_PEAK_MS = 50.0, 0.05, 200.0
COALESCED_SHARE = 0.2
FAILED_SHARE = 0.05
EARLY_STOP_SHARE = 0.01
CLOCK_UNCERTAINTY_MS = 10.0
ENOUGH_FOR_P95 = 20


@dataclass(frozen=True, slots=True)
class Light:
    """One light: its name, its colour and the reason in words."""

    name: str
    status: str
    reason: str


class HealthSum:
    """The workers' health in one level's measure phase, as sums: a run of days needs no more memory."""

    def __init__(self) -> None:
        self.seconds = 0
        self.late_seconds = 0
        self.lag_peak_ms = 0.0
        self.reads = 0
        self.coalesced_reads = 0
        self.in_flight: dict[int, tuple[float, int]] = {}  # worker -> (sum, seconds)
        self.cpu: dict[int, tuple[float, int]] = {}

    def add(self, health: Mapping[str, Any]) -> None:
        """One worker's second."""
        worker = health["worker"]
        self.seconds += 1
        self.late_seconds += health["hub_lag_ms"] > LATE_MS
        self.lag_peak_ms = max(self.lag_peak_ms, health["hub_lag_ms"])
        self.reads += health["reads"]
        self.coalesced_reads += health["coalesced_reads"]
        for sums, value in ((self.in_flight, health["in_flight"]), (self.cpu, health["cpu_percent"])):
            total, seconds = sums.get(worker, (0.0, 0))
            sums[worker] = (total + value, seconds + 1)

    def busiest_cpu(self) -> float:
        """Mean CPU of the busiest worker in percent of a core."""
        return max((total / seconds for total, seconds in self.cpu.values()), default=0.0)

    def achieved(self) -> float:
        """Requests in flight over all workers, on average."""
        return sum(total / seconds for total, seconds in self.in_flight.values())


def lights(
    health: HealthSum,
    measured: Tally,
    workers: Iterable[WorkerState],
    requested: float | None,
    ignore_eos: bool,
    write_error: str | None,
) -> list[Light]:
    """All lights of the level that runs or ran last; `requested` is None where nothing is asked for."""
    states = list(workers)
    return [
        _load(health, requested),
        _cpu(health),
        _lag(health),
        _reads(health),
        _failures(measured),
        _tokens(measured, ignore_eos),
        _records(states, write_error),
        _clocks(states),
        _enough(measured),
    ]


def _load(health: HealthSum, requested: float | None) -> Light:
    name = "load held"
    if requested is None or not health.seconds:
        return Light(name, OK, "nothing measured yet" if not health.seconds else "no concurrency is asked for")
    achieved = health.achieved()
    text = f"{requested:g} requested, {achieved:.1f} in flight on average"
    return Light(name, SUSPECT if achieved < ACHIEVED_SHARE * requested else OK, text)


def _cpu(health: HealthSum) -> Light:
    cpu = health.busiest_cpu()
    status = BOUND if cpu >= CPU_BOUND else SUSPECT if cpu >= CPU_SUSPECT else OK
    advice = "; use more workers" if status != OK else ""
    return Light("generator CPU", status, f"busiest worker used {cpu:.0f} % of its core{advice}")


def _lag(health: HealthSum) -> Light:
    late = health.late_seconds / health.seconds if health.seconds else 0.0
    status = BOUND if late > LATE_SHARE else SUSPECT if health.lag_peak_ms > LAG_PEAK_MS else OK
    text = f"event loops up to {health.lag_peak_ms:.0f} ms late, {late:.0%} of seconds over {LATE_MS:g} ms"
    return Light("event loop", status, text)


def _reads(health: HealthSum) -> Light:
    share = health.coalesced_reads / health.reads if health.reads else 0.0
    text = f"{share:.0%} of reads held several tokens under one stamp"
    return Light("stamps", SUSPECT if share > COALESCED_SHARE else OK, text)


def _failures(measured: Tally) -> Light:
    ended = measured.kept
    lost = 1 - measured.counts.get(schema.SUCCESS, 0) / ended if ended else 0.0
    text = f"{lost:.1%} of {ended} requests without success"
    return Light("failures", SUSPECT if lost >= FAILED_SHARE else OK, text)


def _tokens(measured: Tally, ignore_eos: bool) -> Light:
    success = measured.counts.get(schema.SUCCESS, 0)
    estimated = measured.counts.get("estimated", 0) / success if success else 0.0
    short = measured.counts.get("short", 0) / success if success else 0.0
    if estimated:
        return Light("token counts", SUSPECT, f"{estimated:.0%} of answers have estimated token counts")
    if ignore_eos and short > EARLY_STOP_SHARE:
        return Light("token counts", SUSPECT, f"{short:.0%} of answers are shorter than asked for")
    return Light("token counts", OK, "counted by the server")


def _records(states: list[WorkerState], write_error: str | None) -> Light:
    lost = [state.client_id or str(state.worker) for state in states if state.lost]
    if write_error:
        return Light("records", SUSPECT, f"can't write {write_error}")
    if lost:
        return Light("records", SUSPECT, f"workers lost: {', '.join(lost[:5])}")
    return Light("records", OK, f"{len(states)} of {len(states)} workers report")


def _clocks(states: list[WorkerState]) -> Light:
    unsure = max((state.clock_uncertainty_ms for state in states), default=0.0)
    text = f"workers' clocks are known to within {unsure:.1f} ms"
    return Light("clocks", NOTE if unsure > CLOCK_UNCERTAINTY_MS else OK, text)


def _enough(measured: Tally) -> Light:
    success = measured.counts.get(schema.SUCCESS, 0)
    text = f"{success} successful requests" + (f", {ENOUGH_FOR_P95} make a p95" if success < ENOUGH_FOR_P95 else "")
    return Light("sample", NOTE if success < ENOUGH_FOR_P95 else OK, text)
