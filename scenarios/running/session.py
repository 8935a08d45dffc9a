"""The sending side of one run in one process: workload, client, recorder, health and shipping.

A worker builds its session from what the master sent with the test start, so it needs no files of its
own. In a local run the session hands its records straight to the run's inbox.
"""

import gc
import logging
import os
import socket
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Protocol

import gevent

from scenarios.clients.access import EngineAccess
from scenarios.clients.call import Client
from scenarios.clients.exchange import Timeouts
from scenarios.clients.factory import build_client
from scenarios.clients.local_tokenizer import CountingClient, load_counter
from scenarios.live.counting import LiveCounter, Place
from scenarios.pacing.host import ArrivalHost
from scenarios.recording.clock import Clock, now_s
from scenarios.recording.health import sample_forever
from scenarios.recording.recorder import Record, Recorder
from scenarios.running.open_files import lift_limit, streams_at_once
from scenarios.spec import EngineSpec, Scenario, ScenarioError
from scenarios.workload.calibration import Calibration
from scenarios.workload.planner import Workload

logger = logging.getLogger(__name__)

STATUS_INTERVAL_S = 0.25
START_LIMIT_S = 10.0
STATUSES_PER_LIVE = 4  # live figures are told once a second


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What every sending process must know of a run; travels with Locust's test start."""

    run_id: str
    host: str
    model: str
    seed: int
    scenario: dict[str, Any]
    workers: int  # data files are split by it
    calibration: dict[str, Any]
    open_loop: bool  # requests are sent when they are due, and not by users one after the other


class Link(Protocol):
    """Where a session's records and counts go: over the wire, or straight into the run."""

    def hello(self, about: dict[str, Any]) -> None:
        """The session joins the run."""

    def started(self, count: int) -> None:
        """So many requests have been started."""

    def record(self, record: Record) -> None:
        """A finished request."""

    def status(self, status: dict[str, Any], health: dict[str, Any] | None) -> None:
        """Counts of now, and once a second the health of the process."""

    def live(self, figures: dict[str, Any]) -> None:
        """What is new for the live views."""

    def finish(self, status: dict[str, Any]) -> None:
        """Nothing more will come; blocks until all of it has arrived, within a limit."""


class Session:
    """One run in one sending process, from its start until all users have stopped."""

    def __init__(self, info: RunInfo, worker: int, client_id: str, clock: Clock, link: Link, place: Place) -> None:
        _spare_the_collector()
        self.info = info
        self.scenario = Scenario.model_validate(info.scenario)
        calibration = Calibration(**info.calibration)
        self.workload = Workload(self.scenario.workload, info.seed, worker, info.workers, calibration)
        self.workload_end = ""  # why there is nothing more to send
        self.live = LiveCounter(clock, place, self.scenario.slo)
        self.recorder = Recorder(worker, clock, self._on_record, link.started)
        self.arrivals: ArrivalHost | None = None
        if info.open_loop:
            self.arrivals = ArrivalHost(self.scenario.load, info.seed, worker, clock, place, self.workload)
        self.user_count = 0
        self._clock = clock
        self._link = link
        self._clients: dict[str, list[Client]] = {}  # by API, one per host
        self._hosts = hosts_of(info.host)
        self._turn = count(worker)  # of the hosts; workers begin at different ones
        self._health: dict[str, Any] | None = None
        unfit = lift_limit(streams_at_once(self.scenario.load, info.workers))
        if unfit:
            logger.error("%s", unfit)
        link.hello({**_about_this_process(worker, client_id), "unfit": unfit or ""})
        self._greenlets = [
            gevent.spawn(sample_forever, worker, clock, lambda: self.recorder.in_flight_count, self._on_health),
            gevent.spawn(self._tell_status),
        ]

    def make_clients(self, api: str) -> list[Client]:
        """The clients of an API, one per host: connections and the SDK are shared by all users of the process."""
        if api not in self._clients:
            self._clients[api] = [build_client_for(self.scenario, api, host, self.info.model) for host in self._hosts]
        return self._clients[api]

    def client(self, api: str, user: int) -> tuple[str, Client]:
        """Host and client of a user's next request; the host is empty where there is only one."""
        clients = self.make_clients(api)
        if len(clients) == 1:
            return "", clients[0]
        turn = user if self.scenario.engine.spread == "per-user" else next(self._turn)
        return self._hosts[turn % len(clients)], clients[turn % len(clients)]

    def finish(self) -> None:
        """All users have stopped: deliver the rest and close the connections."""
        gevent.killall(self._greenlets)
        self._link.live(self.live.take())
        self._link.finish(self._status())
        for client in chain.from_iterable(self._clients.values()):
            client.close()

    def _on_record(self, record: Record) -> None:
        self._link.record(record)
        self.live.ended(record)

    def _on_health(self, row: dict[str, Any]) -> None:
        self._health = row

    def _tell_status(self) -> None:
        for turn in count():
            gevent.sleep(STATUS_INTERVAL_S)
            health, self._health = self._health, None
            self._link.status(self._status(), health)
            if turn % STATUSES_PER_LIVE == 0:
                self._link.live(self.live.take())

    def _status(self) -> dict[str, Any]:
        arrivals = self.arrivals
        oldest = [self.recorder.oldest_started_unix_s(), arrivals.oldest_due_unix_s() if arrivals else None]
        return {
            "at_unix_s": self._clock.now_unix_s(),
            "started": self.recorder.started_count,
            "recorded": self.recorder.recorded_count,
            "in_flight": self.recorder.in_flight_count,
            "oldest_unix_s": min((each for each in oldest if each is not None), default=None),
            "last_end_unix_s": self.recorder.last_end_unix_s(),
            "workload": self.workload.counts(),
            "workload_end": self.workload_end or (arrivals.workload_end if arrivals else ""),
            "clock_offset_ms": self._clock.offset_s * 1000,
            "clock_uncertainty_ms": self._clock.uncertainty_s * 1000,
            "clock_step_ms": self._clock.stepped_s() * 1000,
            **(arrivals.status() if arrivals else {}),
        }


current: Session | None = None
"""The session of the run that goes on in this process; None between runs and on a master."""


def under_way() -> Session:
    """The current session; users may be spawned a moment before their process has taken up the run."""
    limit_s = now_s() + START_LIMIT_S
    while current is None and now_s() < limit_s:
        gevent.sleep(0.01)
    assert current is not None, "users run only inside a run"
    return current


def start(session: Session) -> None:
    """Make a session the process' current one."""
    global current
    current = session


def finish() -> None:
    """End the current session, if there is one."""
    global current
    session, current = current, None
    if session:
        session.finish()


def arrivals_of(run_id: str) -> ArrivalHost | None:
    """The open loop of the current session, if it belongs to that run."""
    return current.arrivals if current and current.info.run_id == run_id else None


def hosts_of(host: str) -> list[str]:
    """The addresses in --host: one, or several replicas with commas between them."""
    return [each.strip() for each in host.split(",") if each.strip()]


def build_client_for(scenario: Scenario, api: str, host: str, model: str) -> Client:
    """A client of an API by the engine section of a scenario."""
    engine = scenario.engine
    client = build_client(api, host, model, engine_access(engine))
    if not engine.tokenizer:
        return client
    try:
        return CountingClient(client, load_counter(engine.tokenizer))
    except ValueError as error:  # the leader has it, this machine has not: counts stay estimated, and say so
        logger.error("%s", error)  # noqa: TRY400  (the text says it all)
        return client


def engine_access(engine: EngineSpec) -> EngineAccess:
    """How an engine is reached by the engine section; `$NAME` in a header is a variable's value."""
    if engine.api_key_env and engine.api_key_env not in os.environ:
        raise ScenarioError(
            [f"engine.api_key_env: the environment has no variable {engine.api_key_env}; export it first"]
        )
    return EngineAccess(
        api_key_env=engine.api_key_env or None,
        timeouts=Timeouts(**engine.timeouts.model_dump()),
        verify=engine.verify_tls,
        ca_file=engine.ca_file or None,
        headers={name: os.path.expandvars(value) for name, value in engine.headers.items()},
        reuse_connections=engine.reuse_connections,
        cumulative=engine.cumulative,
    )


def _spare_the_collector() -> None:
    """What is loaded now stays for good: a full collection need not walk through Locust and the SDK, and so does not
    keep the process from reading for tens of milliseconds.
    """
    gc.collect()
    gc.freeze()


def _about_this_process(worker: int, client_id: str) -> dict[str, Any]:
    return {
        "worker": worker,
        "client_id": client_id,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "cpu_count": os.cpu_count(),
    }
