"""Turns Locust's events into runs, on the side that leads: a master, or a local process.

Checks come before the start, one `Run` spans one Locust test, the report follows it. Exit codes: 0 ok,
1 SLO missed, 2 usage, 3 run invalid. The workers' side is `scenarios.running.worker`.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import gevent
from flask import Response, jsonify, request
from locust.env import Environment
from locust.runners import LocalRunner, MasterRunner
from locust.web import WebUI

from scenarios.live import start_form
from scenarios.live.view import LiveView
from scenarios.live.watched import Watched
from scenarios.pacing.drain import drain_before_quit
from scenarios.pacing.levels import LevelsShape
from scenarios.pacing.listening import listen_for_levels
from scenarios.recording.clock import Clock
from scenarios.recording.inbox import Inbox
from scenarios.recording.shipping import LocalLink, listen_on_master
from scenarios.running import interrupts, session
from scenarios.running.open_files import lift_limit, streams_at_once
from scenarios.running.practice import Practice
from scenarios.running.preflight import (
    EngineUnreachable,
    NothingToSend,
    calibrate,
    check_tokenizer,
    check_workload,
    model_of_all,
    with_api_of,
)
from scenarios.running.report import exit_code, report
from scenarios.running.run import FINAL_GRACE_S, Run, RunPlan
from scenarios.running.session import Session, hosts_of
from scenarios.spec import Scenario, ScenarioError, load_scenario

logger = logging.getLogger(__name__)

BY_HAND = "manual"  # value of --load; the other one is "scenario"

LAST_RUN_LIMIT_S = 60.0

EXIT_USAGE = 2
EXIT_INVALID = 3


class Leader:
    """The leading side of a Locust process: from init to quitting."""

    def __init__(self, environment: Environment, web_ui: WebUI | None) -> None:
        assert environment.runner is not None
        assert environment.parsed_options is not None
        self._environment = environment
        self._runner = environment.runner
        self._options = environment.parsed_options
        self._headless = web_ui is None
        self._clock = Clock()
        self._practice = Practice()
        self._plan: RunPlan | None = None
        self._run: Run | None = None
        self._closing = False
        self._listen()
        if isinstance(self._runner, LocalRunner):
            listen_for_levels(self._runner, session.arrivals_of)
        interrupts.for_main_only()
        if self._headless:
            # Locust listens to SIGTERM only when a headless run is over: until then it ends the run as Ctrl-C does
            gevent.signal_handler(signal.SIGTERM, os.kill, os.getpid(), signal.SIGINT)
        if isinstance(self._runner, MasterRunner):
            self._options.enable_rebalancing = True  # users of a lost worker go to the others
            drain_before_quit(self._runner, self._await_end)
            listen_on_master(self._runner, self._open_inbox, self._now_unix_s)
        self._given_scenario = self._options.scenario
        self._live = LiveView(environment, web_ui)
        if web_ui is not None and web_ui.app is not None:
            web_ui.app.before_request(self._check_start_form)
            start_form.install(web_ui, self._options, self._given_scenario)

    def prepare(self) -> None:
        """Check scenario and engine before anything starts; ends the process when they can't be used."""
        try:
            scenario = self._load(self._options.scenario)
            self._environment.host = self._practice.host_for(scenario, self._environment.host)
            if self._headless or self._options.autostart:
                self._plan = self._make_plan(scenario, self._options.load)
        except (ScenarioError, NothingToSend) as error:
            self._refuse(str(error), EXIT_USAGE)
        except EngineUnreachable as error:
            self._refuse(str(error), EXIT_INVALID)

    # Before a test

    def _load(self, source: str, overrides: Sequence[str] = ()) -> Scenario:
        scenario = load_scenario(source, [*self._options.scenario_overrides, *overrides])
        check_workload(scenario)
        check_tokenizer(scenario)
        self._check_open_files(scenario)
        return with_api_of(scenario, self._environment.user_classes)

    def _check_open_files(self, scenario: Scenario) -> None:
        """Before the practice engine starts: it inherits the limit. Workers look at their own."""
        users = self._options.num_users if self._headless else None
        fault = lift_limit(users or streams_at_once(scenario.load))
        if fault and isinstance(self._runner, LocalRunner):
            raise ScenarioError([f"load.levels: {fault}"])

    def _make_plan(self, scenario: Scenario, load: str, overrides: Sequence[str] = ()) -> RunPlan:
        host = self._environment.host or ""
        model = model_of_all(hosts_of(host), scenario)
        return RunPlan(
            scenario=scenario,
            overrides=(*self._options.scenario_overrides, *overrides),
            runs_dir=Path(self._options.runs_dir),
            host=host,
            model=model,
            calibration=calibrate(hosts_of(host)[0], model, scenario),
            engine=self._practice.told(host),
            by_hand=load == BY_HAND or (self._headless and self._options.num_users is not None),
        )

    def _check_start_form(self) -> Response | None:
        """The web UI's start form: show faults in the form instead of starting."""
        if request.method != "POST" or not request.path.endswith("/swarm"):
            return None
        self._await_last_run()
        if self._run:
            return None
        if isinstance(self._runner, MasterRunner) and not self._runner.worker_count:
            # Locust would take the start, only log this, and never come back to it
            return self._not_started("No worker has connected yet: start the workers, or wait a moment and try again")
        try:
            source, overrides = start_form.filled_in(request.form, self._given_scenario)
            scenario = self._load(source, overrides)
            host = request.form.get("host") or self._environment.host
            self._environment.host = self._practice.host_for(scenario, host)
            self._plan = self._make_plan(scenario, request.form.get("load", self._options.load), overrides)
        except (ScenarioError, NothingToSend, EngineUnreachable) as error:
            return self._not_started(str(error))
        return None

    def _not_started(self, message: str) -> Response:
        return jsonify({"success": False, "message": message, "host": self._environment.host})

    def _await_last_run(self) -> None:
        """Locust ignores a start while the run before is still being closed and reported."""
        limit_s = time.monotonic() + LAST_RUN_LIMIT_S
        while time.monotonic() < limit_s and (self._closing or (self._runner.shape_greenlet and not self._run)):
            gevent.sleep(0.1)

    def _refuse(self, message: str, code: int) -> None:
        print(message, file=sys.stderr)
        self._practice.stop()
        self._runner.quit()  # workers of ours must not wait for a test that never starts
        sys.exit(code)

    # A test

    def _listen(self) -> None:
        events = self._environment.events
        events.test_start.add_listener(lambda **_: self._on_test_start())
        events.spawning_complete.add_listener(lambda **_: self._on_spawning_complete())
        events.test_stopping.add_listener(lambda **_: self._on_test_stopping())
        events.test_stop.add_listener(lambda **_: self._on_test_stop())
        events.quitting.add_listener(lambda **_: self._on_quitting())
        self._environment.shape_class = LevelsShape(self._tick)
        self._environment.shape_class.runner = self._runner

    def _tick(self) -> tuple[int, float] | None:
        """How many users there should be now; None ends the test."""
        run = self._ensure_run()
        run_time_s = self._options.run_time
        if run_time_s and run.age_s() >= run_time_s:
            run.stopped_by = "run_time"
            return None
        end = run.inbox.workload_end()
        if end and run.inbox.started_count() == run.inbox.finished_count() and run.ends_with_its_workload:
            logger.warning("Nothing more to send: %s", end)
            run.stopped_by = "workload_end"
            return None
        if run.plan.by_hand:
            return self._options.num_users or 1, self._options.spawn_rate or 1
        if run.control.done:
            run.stopped_by = "plan"
            return None
        return run.control.users, run.control.spawn_rate

    def _ensure_run(self) -> Run:
        if self._run is None:
            # a start past the form (class picker without a shape, or a custom one) has no plan yet
            plan = self._plan or self._make_plan(self._load(self._options.scenario), BY_HAND)
            self._run, self._plan = Run(self._environment, plan, self._clock), None
        return self._run

    def _on_test_start(self) -> None:
        run = self._ensure_run()
        self._environment.host = run.plan.host or None  # Locust has put back what stood in the form
        self._live.begin(self._watched(run))
        self._environment.stop_timeout = self._options.stop_timeout or run.plan.scenario.load.stop_timeout_s
        self._options.tokenswarm_run = asdict(run.info)  # Locust sends its options to the workers at the start
        if isinstance(self._runner, LocalRunner):
            worker = self._runner.worker_index
            link = LocalLink(worker, run.inbox)
            session.start(Session(run.info, worker, self._runner.client_id, self._clock, link, run.timeline.locate))
        run.begin()

    def _on_spawning_complete(self) -> None:
        if self._run:
            self._run.control.on_spawning_complete()

    def _on_test_stopping(self) -> None:
        if self._run:
            self._run.stop_starting()

    def _on_test_stop(self) -> None:
        self._closing = True
        try:
            self._close_run()
        finally:
            self._closing = False

    def _close_run(self) -> None:
        run = self._run
        if run is None:
            return
        session.finish()
        run.end()
        self._live.end()
        self._run = None
        summary = report(run.dir.path, printed=self._headless)
        self._environment.process_exit_code = exit_code(run, summary)

    def _watched(self, run: Run) -> Watched:
        plan = run.plan
        return Watched(
            run_id=run.info.run_id,
            run_dir=run.dir,
            scenario=plan.scenario,
            host=plan.host,
            model=plan.model,
            engine=plan.engine,
            by_hand=plan.by_hand,
            timeline=run.timeline,
            inbox=run.inbox,
            user_count=lambda: self._runner.user_count,
            now_unix_s=self._clock.now_unix_s,
        )

    def _await_end(self) -> None:
        if self._run:
            self._run.ended.wait(timeout=(self._environment.stop_timeout or 0.0) + 2 * FINAL_GRACE_S)

    def _open_inbox(self, run_id: str) -> Inbox | None:
        return self._run.inbox if self._run and self._run.info.run_id == run_id else None

    def _now_unix_s(self) -> float:
        return self._clock.now_unix_s()

    def _on_quitting(self) -> None:
        self._runner.stop()
        self._await_end()
        self._practice.stop()
