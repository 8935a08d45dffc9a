"""Level control of an open loop: announces each level to the workers and keeps the timeline.

Rates go ramp -> warm-up -> measure -> tail as concurrencies do, but by a schedule: a request belongs to the phase
in which it is due, and phases are marked ahead of their begin, so that every process knows where an arrival falls.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, replace
from typing import Protocol

import gevent
from locust.runners import Runner

from analysis import schema
from scenarios.pacing import levels
from scenarios.pacing.announcement import LEVEL, NO_LEVEL, Announcement
from scenarios.recording.clock import Clock, now_s
from scenarios.recording.timeline import Level, Timeline
from scenarios.spec import LoadSpec

logger = logging.getLogger(__name__)

POLL_S = 0.05
LEAD_S = 0.3  # from an announcement to the begin of its schedule
AHEAD_S = 0.15  # from the mark of a phase to its begin
EARLY_S = 0.005  # phases begin so much before the schedule's round instants: clocks are not exact
STATUS_LIMIT_S = 5.0


class Progress(levels.Progress, Protocol):
    """What the workers have told so far."""

    def all_heard_since(self, unix_s: float) -> bool:
        """Whether every worker that lives has told its counts since an instant."""

    def all_through(self, level: int, workers: Collection[int]) -> bool:
        """Whether none of these workers that lives has anything more to start in a level."""

    def idle(self) -> bool:
        """Whether nothing is in flight on any worker that lives."""

    def serving_workers(self) -> list[int]:
        """Workers that live and start requests by announcements."""

    def arrivals(self, level: int) -> tuple[int, int, int]:
        """Arrivals of a level's measure phase: planned, dropped, started."""

    def last_end_unix_s(self) -> float | None:
        """When the last request ended that has ended so far."""


class OpenLevels:
    """Walks through the levels of an open loop and keeps the run's timeline."""

    def __init__(
        self,
        run_id: str,
        load: LoadSpec,
        steps: Iterable[float],
        runner: Runner,
        timeline: Timeline,
        progress: Progress,
        clock: Clock,
    ) -> None:
        self._run_id = run_id
        self._load = load
        self._steps = steps
        self._runner = runner
        self._timeline = timeline
        self._progress = progress
        self._clock = clock
        self._spawned = False
        self._announced: Announcement | None = None
        self.done = False
        self.spawn_rate = 100.0

    @property
    def users(self) -> int:
        """One user for each worker: the host of its open loop."""
        return max(1, getattr(self._runner, "worker_count", 1))

    def on_spawning_complete(self) -> None:
        """Locust has as many users as were asked for."""
        self._spawned = True

    def walk(self) -> None:
        """Run through all levels; ends with `done`."""
        self._wait(lambda: self._spawned)
        self._wait(lambda: len(self._progress.serving_workers()) >= self.users, STATUS_LIMIT_S)
        for requested in self._steps:
            self._level(requested)
        self.done = True

    def _level(self, requested: float) -> None:
        load, timeline = self._load, self._timeline
        begin = self._clock.now_unix_s() + LEAD_S
        level = timeline.begin_level(load.over, requested, begin - EARLY_S)
        logger.info("Level %s: %s %g", level.level, load.over, requested)
        before = self._announced.requested if self._announced and self._announced.level != NO_LEVEL else 0.0
        self._announce(Announcement(self._run_id, level.level, requested, before, begin, begin, self._participants()))
        end = {"rate": self._rate, "trace": self._trace, "batch": self._batch}[load.over](level, begin)
        ended = self._wait(lambda: self._progress.all_ended_before(end), load.tail_s)
        if not ended:
            logger.warning("Level %s: measured requests still run after tail_s = %g s", level.level, load.tail_s)
        if not ended or load.mode == "search":
            self._stop_arrivals(ended)
        self.settle(level)
        timeline.end_level(self._clock.now_unix_s(), complete=ended)

    def settle(self, level: Level) -> None:
        """Note what became of the level's arrivals. Nothing waits any more, so what was not started was missed."""
        planned, dropped, started = self._progress.arrivals(level.level)
        level.planned, level.dropped, level.missed = planned, dropped, planned - dropped - started

    # The phases of a level, up to the end of its measure phase

    def _rate(self, level: Level, begin: float) -> float:
        load, progress = self._load, self._progress
        warm_from = begin + load.ramp_s
        self._wait_until(warm_from)
        self._begin_phase(schema.WARMUP, warm_from)
        measure_from = self._lasts(warm_from, load.warmup_s, load.warmup_requests, progress.finished_count, None)
        self._begin_measure(level, measure_from)
        end = self._lasts(
            measure_from, load.measure_s, load.measure_requests, progress.started_count, load.measure_max_s
        )
        return self._begin_phase(schema.TAIL, end)

    def _trace(self, level: Level, begin: float) -> float:
        self._begin_phase(schema.WARMUP, begin)
        measure_from = begin + self._load.warmup_s
        self._wait_until(measure_from)
        self._begin_measure(level, measure_from)
        self._wait(lambda: self._is_through(level))
        return self._begin_phase(schema.TAIL, self._clock.now_unix_s() + AHEAD_S)

    def _batch(self, level: Level, begin: float) -> float:
        progress = self._progress
        self._begin_phase(schema.WARMUP, begin)
        self._begin_measure(level, begin)
        self._wait(lambda: self._is_through(level) and progress.idle())
        last = progress.last_end_unix_s() or self._clock.now_unix_s()
        return self._begin_phase(schema.TAIL, last + EARLY_S)

    def _begin_measure(self, level: Level, at_unix_s: float) -> None:
        level.workers = len(self._announced.workers) if self._announced else None
        self._begin_phase(schema.MEASURE, at_unix_s)

    def _begin_phase(self, phase: str, at_unix_s: float) -> float:
        self._timeline.begin_phase(phase, at_unix_s - EARLY_S)
        return at_unix_s - EARLY_S

    def _lasts(
        self, begin: float, seconds: float, requests: int, count: Callable[[], int], max_s: float | None
    ) -> float:
        """Wait until both the time and the number of further requests are as good as reached, or the limit is; the end."""
        first = count()
        self._wait_until(begin + seconds)
        if not requests or count() - first >= requests:
            return begin + seconds
        limit_s = None if max_s is None else begin + max_s - AHEAD_S - self._clock.now_unix_s()
        reached = self._wait(lambda: count() - first >= requests, limit_s)
        return self._clock.now_unix_s() + AHEAD_S if reached or max_s is None else begin + max_s

    # Who takes part

    def _participants(self) -> list[int]:
        workers, places = sorted(self._progress.serving_workers()), self._load.max_in_flight
        if self._load.over != "trace" or places is None or places >= len(workers):
            return workers[:places]  # each needs a place
        logger.warning(
            "%s requests may be in flight instead of %s: each worker has rows of its own", len(workers), places
        )
        return workers

    def _is_through(self, level: Level) -> bool:
        return self._announced is not None and self._progress.all_through(level.level, self._announced.workers)

    def _announce(self, announced: Announcement) -> None:
        self._announced = announced
        self._runner.send_message(LEVEL, asdict(announced))

    def _share_anew(self) -> None:
        """A worker is lost, or a new one is there: the rest of a rate level is shared anew.

        Rows of a trace and requests of a batch belong to their worker for good.
        """
        announced = self._announced
        if announced is None or announced.level == NO_LEVEL or self._load.over != "rate":
            return
        workers = self._participants()
        if workers and workers != announced.workers:
            logger.warning("Level %s goes on with workers %s", announced.level, ", ".join(map(str, workers)))
            self._announce(replace(announced, from_unix_s=self._clock.now_unix_s() + LEAD_S, workers=workers))

    def _stop_arrivals(self, drain: bool) -> None:
        """Give up what waits; `drain`: wait also for what is in flight, so that the next level begins with an idle engine."""
        now = self._clock.now_unix_s()
        self._announce(Announcement(self._run_id, NO_LEVEL, 0.0, 0.0, now, now, []))
        self._wait(lambda: self._progress.all_heard_since(now + POLL_S), STATUS_LIMIT_S)
        if drain or self._load.mode == "search":
            self._wait(self._progress.idle, self._load.tail_s)

    # Waiting

    def _wait_until(self, unix_s: float) -> None:
        """Wait until shortly before an instant."""
        self._wait(lambda: self._clock.now_unix_s() >= unix_s - AHEAD_S)

    def _wait(self, reached: Callable[[], bool], limit_s: float | None = None) -> bool:
        begin_s = now_s()
        while not reached():
            if limit_s is not None and now_s() - begin_s >= limit_s:
                return False
            gevent.sleep(POLL_S)
            self._share_anew()
        return True
