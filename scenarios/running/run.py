"""One run on the master (or in a local process): run folder, level control, inbox, and the end of it.

`Run.begin` at Locust's test start, `Run.end` at its test stop, whichever way the stop came about.
"""

import logging
import platform
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import gevent
from gevent.event import Event
from locust.env import Environment
from locust.runners import MasterRunner, Runner

from analysis import schema
from scenarios.pacing.levels import LevelControl
from scenarios.pacing.open_levels import OpenLevels
from scenarios.pacing.rebalance import rebalance_if_due
from scenarios.pacing.steps import search_of, search_row, steps
from scenarios.recording.clock import Clock, now_s
from scenarios.recording.inbox import Inbox
from scenarios.recording.run_dir import RunDir
from scenarios.recording.timeline import Level, Timeline
from scenarios.running.judging import attained
from scenarios.running.session import RunInfo
from scenarios.spec import Scenario
from scenarios.workload.calibration import Calibration

logger = logging.getLogger(__name__)

FINAL_GRACE_S = 15.0  # on top of the stop time-out, for the last batches of the workers
ROLL_CALL_INTERVAL_S = 0.5
CLOCK_WARNING_MS = 1000.0
CLOCK_STEP_WARNING_MS = 50.0
RECORDED_PACKAGES = ("tokenswarm", "locust", "openai", "httpx2", "gevent", "httptools")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is started with."""

    scenario: Scenario
    overrides: tuple[str, ...]
    runs_dir: Path
    host: str
    model: str
    engine: str
    calibration: Calibration
    by_hand: bool  # users are set by hand instead of by the scenario's levels


class Run:
    """A run under way."""

    def __init__(self, environment: Environment, plan: RunPlan, clock: Clock) -> None:
        assert environment.runner is not None
        self.plan = plan
        self.dir = RunDir(
            plan.runs_dir,
            plan.scenario.name,
            rotate_bytes=plan.scenario.recording.rotate_mb * 1_000_000,
            compress=plan.scenario.recording.compress,
        )
        self.info = RunInfo(
            run_id=self.dir.path.name,
            host=plan.host,
            model=plan.model,
            seed=plan.scenario.seed,
            scenario=plan.scenario.model_dump(mode="json"),
            workers=max(1, getattr(environment.runner, "worker_count", 1)),
            calibration=asdict(plan.calibration),
            open_loop=plan.scenario.load.open_loop and not plan.by_hand,
        )
        # run.json is kept up to date, so that a master that is killed leaves what it knew
        self.timeline = Timeline(self._on_level_end, lambda: self._write_run(ended=False))
        self.inbox = Inbox(self.dir, self.timeline, clock.now_unix_s)
        self._clock = clock
        self.search = None if plan.by_hand else search_of(plan.scenario)
        self.control = self._control(environment.runner)
        self._unsettled: Level | None = None
        self._ending = False
        self._walk_failed = False
        self.stopped_by = "user"
        self.ended = Event()
        self._runner = environment.runner
        self._begin_s = now_s()
        self._started_unix_s = clock.unix_s(self._begin_s)
        self._versions = {package: version(package) for package in RECORDED_PACKAGES}
        self._greenlets = [gevent.spawn(self.inbox.write_forever)]
        self._walk: gevent.Greenlet | None = None
        self._write_run(ended=False)

    def begin(self) -> None:
        """Locust's test has started: walk through the levels."""
        logger.info("Run folder: %s", self.dir.path)
        control = self.control
        walk = control.walk_by_hand if isinstance(control, LevelControl) and self.plan.by_hand else control.walk
        self._walk = gevent.spawn(walk)
        self._walk.link_exception(self._on_walk_failed)
        if isinstance(self._runner, MasterRunner):
            self._greenlets.append(gevent.spawn(self._call_roll_forever, self._runner))

    def stop_starting(self) -> None:
        """Nothing new is started from now on: a measured window ends here, not when the stop time-out is over."""
        if self._walk:
            self._walk.kill()
        if self.timeline.phase == schema.MEASURE:
            self.timeline.begin_phase(schema.TAIL, self._clock.now_unix_s())

    def end(self) -> None:
        """Locust's test has stopped: wait for the workers' last words, reconcile, close the files."""
        self.stop_starting()
        gevent.killall(self._greenlets[1:])  # the roll call; the writer goes on
        self._ending = True
        if self.timeline.levels:
            # a workload that is used up ends the run once its last request has ended
            self.timeline.end_level(self._clock.now_unix_s(), complete=self.stopped_by == "workload_end")
        if isinstance(self._runner, MasterRunner):
            self._await_workers(self._runner)
        self._settle_last_level()
        self.inbox.drain()
        gevent.killall(self._greenlets)
        self._write_run(ended=True)
        for warning in self._warnings():
            logger.warning(warning)
        self.dir.close()
        self._say_the_count()
        self.ended.set()

    def age_s(self) -> float:
        """Seconds since the start."""
        return now_s() - self._begin_s

    @property
    def valid(self) -> bool:
        """Nothing lost, something measured, and no planned level left out unless a run time said so."""
        reconciliation = self.inbox.reconciliation()
        measured = [level for level in self.timeline.levels if level.measure_start_unix_s is not None]
        if (
            not measured
            or reconciliation["missing"]
            or reconciliation["unheard"]
            or self.dir.write_error
            or self._walk_failed
        ):
            return False
        if self.search is not None and self.search.next_level() is not None:
            return False  # it has no answer
        return self.plan.by_hand or self.stopped_by in ("plan", "run_time", "workload_end")

    @property
    def ends_with_its_workload(self) -> bool:
        """A dataset that is used up ends the run; a trace and a batch end by their own plan."""
        return self.plan.scenario.load.over in ("concurrency", "rate") or self.plan.by_hand

    def _control(self, runner: Runner) -> LevelControl | OpenLevels:
        load = self.plan.scenario.load
        walked = steps(self.plan.scenario, self.search, self._attained)
        if self.info.open_loop:
            return OpenLevels(self.info.run_id, load, walked, runner, self.timeline, self.inbox, self._clock)
        return LevelControl(load, walked, runner, self.timeline, self.inbox, self._clock)

    def _attained(self) -> tuple[int, int] | None:
        return attained(self.dir.path, self.inbox, len(self.timeline.levels))

    def _on_walk_failed(self, failed: gevent.Greenlet) -> None:
        logger.critical("Level control has failed, the run ends here: %r", failed.exception)
        self._walk_failed = self.control.done = True

    def _on_level_end(self, level: Level) -> None:
        if self._ending and isinstance(self.control, OpenLevels):
            self._unsettled = level  # what became of its arrivals, the workers' last word will tell
        else:
            self.dir.write_rows(schema.LEVELS_FILE, [level.row()])

    def _settle_last_level(self) -> None:
        if self._unsettled and isinstance(self.control, OpenLevels):
            self.control.settle(self._unsettled)
            self.dir.write_rows(schema.LEVELS_FILE, [self._unsettled.row()])

    def _await_workers(self, runner: MasterRunner) -> None:
        stop_timeout_s = runner.environment.stop_timeout or 0.0
        limit_s = time.monotonic() + stop_timeout_s + FINAL_GRACE_S
        while time.monotonic() < limit_s:
            self._call_roll(runner)
            if all(state.final or state.lost for state in self.inbox.workers.values()):
                return
            gevent.sleep(0.05)
        for state in self.inbox.workers.values():
            if not state.final:
                state.lost = True
                logger.error("Worker %s (%s) did not deliver its last batch in time", state.worker, state.client_id)

    def _call_roll(self, runner: MasterRunner) -> None:
        self.inbox.on_roll_call({client.id for client in runner.clients.missing})

    def _call_roll_forever(self, runner: MasterRunner) -> None:
        while True:
            gevent.sleep(ROLL_CALL_INTERVAL_S)
            self._call_roll(runner)
            rebalance_if_due(runner)

    def _say_the_count(self) -> None:
        counts = self.inbox.reconciliation()
        for worker in counts["unheard"]:
            logger.error("Worker %s is lost with what it had not sent: tokenswarm recover %s", worker, self.dir.path)
        if counts["missing"]:
            logger.error("%(missing)s of %(started)s requests have no row: see reconciliation in run.json", counts)
        logger.info("%s requests started, %s recorded in %s", counts["started"], counts["recorded"], self.dir.path)

    def _warnings(self) -> list[str]:
        warnings = [self.dir.write_error] if self.dir.write_error else []
        for state in self.inbox.workers.values():
            if state.unfit:
                warnings.append(f"worker {state.worker} ({state.host}): {state.unfit}")
            if abs(state.clock_offset_ms) > CLOCK_WARNING_MS:
                ahead_s = -state.clock_offset_ms / 1000
                warnings.append(
                    f"worker {state.worker} ({state.host}): clock {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'}"
                    f" the master's, corrected to ± {state.clock_uncertainty_ms:.1f} ms"
                )
            if abs(state.clock_step_ms) > CLOCK_STEP_WARNING_MS:
                warnings.append(
                    f"worker {state.worker} ({state.host}): its wall clock moved by {state.clock_step_ms / 1000:+.3f} s during"
                    " the run; times follow the monotonic clock and are not touched"
                )
        return warnings

    def _write_run(self, ended: bool) -> None:
        plan = self.plan
        self.dir.write_run(
            {
                "schema_version": schema.SCHEMA_VERSION,
                "run_id": self.info.run_id,
                "name": plan.scenario.name,
                "started_unix_s": self._started_unix_s,
                "started": _iso(self._started_unix_s),
                "ended_unix_s": self._clock.now_unix_s() if ended else None,
                "finished": ended,
                "stopped_by": self.stopped_by if ended else None,
                "host": plan.host,
                "api": plan.scenario.engine.api,
                "model": plan.model,
                "engine": plan.engine,
                "seed": plan.scenario.seed,
                "scenario": self.info.scenario,
                "calibration": self.info.calibration,
                "overrides": list(plan.overrides),
                "by_hand": plan.by_hand,
                "versions": self._versions,
                "python": platform.python_version(),
                "platform": platform.platform(),
                "worker_events": self.inbox.worker_events,
                "workers": [state.row() for state in self.inbox.workers.values()],
                "levels": [level.row() for level in self.timeline.levels],
                "search": search_row(self.search, plan.scenario.load.over),
                "reconciliation": self.inbox.reconciliation(),
                "warnings": self._warnings(),
            }
        )


def _iso(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
