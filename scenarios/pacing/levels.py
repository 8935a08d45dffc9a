"""Level control: a sweep over concurrency levels in one Locust run.

Each level goes ramp -> warm-up -> measure -> tail. In the tail the load is held until the last request
sent in the measure phase has ended, so long requests are neither lost nor measured under a falling load.
A greenlet walks through the levels; Locust's own shape loop asks it once a second how many users there
should be, so that users, workers and the web UI stay Locust's.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

import gevent
from locust.runners import Runner
from locust.shape import LoadTestShape

from analysis import schema
from scenarios.recording.clock import Clock, now_s
from scenarios.recording.timeline import Timeline
from scenarios.spec import LoadSpec

logger = logging.getLogger(__name__)

POLL_S = 0.05
SPAWN_LIMIT_S = 30.0  # on top of the ramp
MANUAL = "manual"


class Progress(Protocol):
    """Counts over all workers, as far as they have told."""

    def finished_count(self) -> int:
        """Requests that have ended."""

    def started_count(self) -> int:
        """Requests started."""

    def all_ended_before(self, unix_s: float) -> bool:
        """Whether every request due or started before an instant has ended, on every worker that lives."""


class LevelControl:
    """Walks through the levels of a run and keeps its timeline."""

    def __init__(
        self,
        load: LoadSpec,
        steps: Iterable[float],
        runner: Runner,
        timeline: Timeline,
        progress: Progress,
        clock: Clock,
    ) -> None:
        self._load = load
        self._steps = steps
        self._runner = runner
        self._timeline = timeline
        self._progress = progress
        self._clock = clock
        self._spawned = False
        self.done = False
        self.users = 0
        self.spawn_rate = 1.0
        self._ask_for(load.levels[0] if load.search is None else int(load.search.start))

    def walk(self) -> None:
        """Run through all levels; ends with `done`."""
        for concurrency in self._steps:
            self._level(int(concurrency))
        self.done = True

    def walk_by_hand(self) -> None:
        """Users are set by hand: each user count that Locust reaches is a level, measured until the next one."""
        users = 0
        while True:
            # Locust also spawns when it moves users between workers: that is no new level
            self._wait(lambda: self._spawned and self._runner.target_user_count != users)  # noqa: B023  # waited for here
            users = self._runner.target_user_count
            now = self._clock.now_unix_s()
            if self._timeline.levels:
                self._timeline.end_level(now, complete=False)
            self._timeline.begin_level(MANUAL, users, now)
            self._begin_warmup()
            self._begin_measure()

    def on_spawning_complete(self) -> None:
        """Locust has as many users as were asked for."""
        self._spawned = True

    def _level(self, concurrency: int) -> None:
        load = self._load
        self._ask_for(concurrency)
        level = self._timeline.begin_level("concurrency", concurrency, self._clock.now_unix_s())
        of = "" if load.mode == "search" else f" of {len(load.levels)}"
        logger.info("Level %s%s: concurrency %s", level.level, of, concurrency)
        # Locust waits for the workers' word for a second only
        if not self._wait(lambda: self._spawned and self._runner.user_count >= self.users, load.ramp_s + SPAWN_LIMIT_S):
            logger.warning("Level %s begins with %s users of %s", level.level, self._runner.user_count, self.users)
        self._begin_warmup()
        self._begin_measure()
        self._lasts_until(load.measure_s, load.measure_requests, self._progress.started_count, load.measure_max_s)
        measure_end = self._clock.now_unix_s()
        self._timeline.begin_phase(schema.TAIL, measure_end)
        ended = self._wait(lambda: self._progress.all_ended_before(measure_end), load.tail_s)
        if not ended:
            logger.warning("Level %s: measured requests still run after tail_s = %g s", concurrency, load.tail_s)
        self._timeline.end_level(self._clock.now_unix_s(), complete=ended)

    def _ask_for(self, users: int) -> None:
        """Ask Locust for a number of users; with as many as there are, nothing needs to be spawned."""
        if users != self.users:
            change = abs(users - self.users)
            self.spawn_rate = change / self._load.ramp_s if self._load.ramp_s else float(change)
            self.users, self._spawned = users, False

    def _begin_warmup(self) -> None:
        self._timeline.begin_phase(schema.WARMUP, self._clock.now_unix_s())
        self._lasts_until(self._load.warmup_s, self._load.warmup_requests, self._progress.finished_count, None)

    def _begin_measure(self) -> None:
        level = self._timeline.levels[-1]
        level.users = self._runner.user_count
        level.workers = getattr(self._runner, "worker_count", 1)
        self._timeline.begin_phase(schema.MEASURE, self._clock.now_unix_s())

    def _lasts_until(self, seconds: float, requests: int, count: Callable[[], int], max_s: float | None) -> None:
        """Wait until both the time and the number of further requests are reached, or the limit is."""
        first, begin_s = count(), now_s()
        self._wait(lambda: now_s() - begin_s >= seconds and count() - first >= requests, max_s)

    def _wait(self, reached: Callable[[], bool], limit_s: float | None = None) -> bool:
        begin_s = now_s()
        while not reached():
            if limit_s is not None and now_s() - begin_s >= limit_s:
                return False
            gevent.sleep(POLL_S)
        return True


class LevelsShape(LoadTestShape):
    """What Locust's shape loop asks: the control's users, or those set by hand; None ends the run."""

    use_common_options = True

    def __init__(self, tick: Callable[[], tuple[int, float] | None]) -> None:
        super().__init__()
        self._tick = tick

    def tick(self) -> tuple[int, float] | None:
        """Users and spawn rate of now."""
        return self._tick()
