"""The workers' side of Locust's events: one `Session` spans one Locust test.

A worker ends its users, delivers its records and only then leaves, whether the master says stop, its own
terminal says Ctrl-C or somebody sends SIGTERM.
"""

import logging
import os
import signal
import sys

import gevent
from locust.env import Environment
from locust.runners import STATE_RUNNING, STATE_SPAWNING, WorkerRunner

from scenarios.live.placing import listen_for_places
from scenarios.live.stopping import listen_for_drain
from scenarios.pacing.listening import listen_for_levels
from scenarios.recording.clock import Clock
from scenarios.recording.shipping import DELIVERY_LIMIT_S, WireLink, listen_on_worker
from scenarios.running import interrupts, session
from scenarios.running.session import RunInfo, Session

logger = logging.getLogger(__name__)

MASTER_GRACE_S = 30.0  # after Ctrl-C, for the master to end the run in order

# With --processes Locust forks its workers after the locustfile is loaded; asked later, a parent may be gone already.
_LOADED_BY_PID = os.getpid()


class Worker:
    """The sending side of a Locust worker: from init to quitting."""

    def __init__(self, environment: Environment) -> None:
        assert isinstance(environment.runner, WorkerRunner)
        assert environment.parsed_options is not None
        self._environment = environment
        self._runner = environment.runner
        self._options = environment.parsed_options
        self._link: WireLink | None = None
        self._delivery: gevent.Greenlet | None = None
        events = environment.events
        events.test_start.add_listener(lambda **_: self._on_test_start())
        events.test_stop.add_listener(lambda **_: self._on_test_stop())
        events.quitting.add_listener(lambda **_: self._on_quitting())
        listen_on_worker(self._runner, lambda: self._link)
        self._places = listen_for_places(self._runner)
        listen_for_drain(self._runner)
        listen_for_levels(self._runner, session.arrivals_of)
        if self._options.processes:
            gevent.signal_handler(signal.SIGINT, self._on_sigint)
            gevent.spawn(self._end_with_master, _LOADED_BY_PID)
        else:
            interrupts.for_main_only()
        if self._runner.worker_state in (STATE_SPAWNING, STATE_RUNNING):
            # a worker is connected before Locust's init: the master may have started a test already
            self._on_test_start()

    def _on_test_start(self) -> None:
        self._await_delivery()
        info = RunInfo(**self._options.tokenswarm_run)
        clock = Clock()
        self._link = WireLink(self._runner, info.run_id, clock)
        worker, client_id = self._runner.worker_index, self._runner.client_id
        session.start(Session(info, worker, client_id, clock, self._link, self._places.locate))

    def _on_test_stop(self) -> None:
        # in a greenlet of its own: this one must go on to receive the master's acknowledgements
        self._delivery = gevent.spawn(session.finish)
        # Locust would now read no message for as long as the stop time-out; the next start sets it again
        self._environment.stop_timeout = 0.0

    def _on_quitting(self) -> None:
        self._runner.last_received_spawn_timestamp = sys.maxsize  # users that the master still sends would be lost
        self._runner.stop()
        self._await_delivery()

    def _await_delivery(self) -> None:
        if self._delivery is not None:
            self._delivery.join(timeout=DELIVERY_LIMIT_S)

    def _end_with_master(self, master_pid: int) -> None:
        """A master that was killed can't say quit: its children end by themselves, with what they have on disk."""
        while os.getppid() == master_pid:
            gevent.sleep(1.0)
        logger.error("The master is gone")
        os.kill(os.getpid(), signal.SIGTERM)

    def _on_sigint(self) -> None:
        """Ctrl-C reaches every process of the terminal; with --processes it is the master who ends the run."""
        grace_s = MASTER_GRACE_S + (self._environment.stop_timeout or 0.0) if session.current else 0.0
        gevent.spawn_later(grace_s, os.kill, os.getpid(), signal.SIGTERM)
