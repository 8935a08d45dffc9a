"""Links between the sessions and the run: over Locust's channel from a worker, or straight in one process.

Messages carry the run id; what belongs to another run (a stale worker) is dropped and said once.
"""

import logging
from collections.abc import Callable
from typing import Any

import gevent
from gevent.event import Event
from locust.exception import RPCError
from locust.rpc.protocol import Message
from locust.runners import MasterRunner, WorkerRunner

from scenarios.recording.clock import Clock, OffsetEstimate, now_s
from scenarios.recording.inbox import Inbox
from scenarios.recording.outbox import ACK, BATCH, Outbox
from scenarios.recording.recorder import Record

logger = logging.getLogger(__name__)

HELLO = "tokenswarm_hello"
STATUS = "tokenswarm_status"
FINAL = "tokenswarm_final"
LIVE = "tokenswarm_live"
CLOCK = "tokenswarm_clock"
ABANDON = "tokenswarm_abandon"

FIRST_CLOCK_EXCHANGES = 5
CLOCK_INTERVAL_S = 10.0
DELIVERY_LIMIT_S = 10.0


class LocalLink:
    """The session lives in the run's own process."""

    def __init__(self, worker: int, inbox: Inbox) -> None:
        self._worker = worker
        self._inbox = inbox

    def hello(self, about: dict[str, Any]) -> None:
        """Join the run."""
        self._inbox.on_hello(about)

    def started(self, count: int) -> None:
        """Counts of this very process need no note."""

    def record(self, record: Record) -> None:
        """Hand a record to the writer."""
        self._inbox.on_local(self._worker, record)

    def status(self, status: dict[str, Any], health: dict[str, Any] | None) -> None:
        """Hand over the counts of now."""
        self._inbox.on_status(self._worker, status, health)

    def live(self, figures: dict[str, Any]) -> None:
        """Hand over what is new for the live views."""
        self._inbox.on_live(self._worker, figures)

    def finish(self, status: dict[str, Any]) -> None:
        """Nothing is under way in one process."""
        self._inbox.on_status(self._worker, {**status, "final": True}, None)


class WireLink:
    """The session lives in a worker: records go through its outbox, the rest as small messages."""

    def __init__(self, runner: WorkerRunner, run_id: str, clock: Clock) -> None:
        self._runner = runner
        self.run_id = run_id
        self._clock = clock
        self._estimate = OffsetEstimate(clock)
        self._exchanged = Event()
        self._outbox = Outbox(run_id, runner.worker_index, self._send_or_leave)
        self._greenlets: list[gevent.Greenlet] = []
        self._abandoned = False

    def hello(self, about: dict[str, Any]) -> None:
        """Join the run."""
        self._send(HELLO, {"about": about})
        self._greenlets = [gevent.spawn(self._outbox.run), gevent.spawn(self._compare_clocks_forever)]

    def started(self, count: int) -> None:
        """Note how many requests were started, for the case that this process is killed."""
        self._outbox.on_started(count)

    def record(self, record: Record) -> None:
        """Put a record into the outbox."""
        self._outbox.add(record)

    def status(self, status: dict[str, Any], health: dict[str, Any] | None) -> None:
        """Tell the counts of now."""
        self._send(STATUS, {"status": status, "health": health})

    def live(self, figures: dict[str, Any]) -> None:
        """Tell what is new for the live views."""
        self._send(LIVE, {"figures": figures})

    def finish(self, status: dict[str, Any]) -> None:
        """Deliver the last batches, then say that nothing more will come."""
        gevent.killall(self._greenlets)
        self._outbox.finish(0.0 if self._abandoned else DELIVERY_LIMIT_S)
        self._send(FINAL, {"status": status})

    def abandon(self) -> None:
        """Nobody takes the records of this run any more: they stay on disk."""
        self._abandoned = True

    def on_ack(self, number: int) -> None:
        """The master has written a batch."""
        self._outbox.on_ack(number)

    def on_clock(self, asked_s: float, master_unix_s: float) -> None:
        """The master's answer to a comparison of clocks."""
        self._estimate.add(asked_s, master_unix_s, now_s())
        self._exchanged.set()

    def _compare_clocks_forever(self) -> None:
        exchanges = 0
        while True:
            self._exchanged.clear()
            self._send(CLOCK, {"asked_s": now_s()})
            self._exchanged.wait(timeout=CLOCK_INTERVAL_S)
            exchanges += 1
            if exchanges >= FIRST_CLOCK_EXCHANGES:
                gevent.sleep(CLOCK_INTERVAL_S)

    def _send(self, kind: str, data: dict[str, Any]) -> None:
        self._send_or_leave(kind, {"run_id": self.run_id, "worker": self._runner.worker_index, **data})

    def _send_or_leave(self, kind: str, data: dict[str, Any]) -> None:
        """While the channel is broken nothing goes out: batches wait in the spool, counts are told again anyway."""
        try:
            self._runner.send_message(kind, data)
        except RPCError as error:
            logger.warning("Can't reach the master now (%s): %s", kind, error)


def listen_on_worker(runner: WorkerRunner, link: Callable[[], WireLink | None]) -> None:
    """Route the master's answers to the link of the run that goes on."""

    def current(data: dict[str, Any]) -> WireLink | None:
        found = link()
        return found if found is not None and found.run_id == data["run_id"] else None

    def on_ack(msg: Message, **_: Any) -> None:
        if found := current(msg.data):
            found.on_ack(msg.data["number"])

    def on_clock(msg: Message, **_: Any) -> None:
        if found := current(msg.data):
            found.on_clock(msg.data["asked_s"], msg.data["master_unix_s"])

    def on_abandon(msg: Message, **_: Any) -> None:
        if found := current(msg.data):
            found.abandon()
            logger.warning("The master knows nothing of run %s: stopping its users", msg.data["run_id"])
            runner.handle_message(Message("stop", None, runner.client_id))

    runner.register_message(ACK, on_ack)
    runner.register_message(CLOCK, on_clock)
    runner.register_message(ABANDON, on_abandon, concurrent=True)


def listen_on_master(
    runner: MasterRunner, inbox: Callable[[str], Inbox | None], now_unix_s: Callable[[], float]
) -> None:
    """Route the workers' messages to the inbox of their run; `inbox` gives None for a run that is not open."""
    strangers: set[tuple[str, str]] = set()

    def routed(handle: Callable[[Inbox, Message], None]) -> Callable[..., None]:
        def on_message(msg: Message, **_: Any) -> None:
            run_id = msg.data["run_id"]
            found = inbox(run_id)
            if found is not None:
                handle(found, msg)
            elif (msg.node_id, run_id) not in strangers:
                strangers.add((msg.node_id, run_id))
                logger.warning("Worker %s sends for run %s, which is not open here", msg.node_id, run_id)
                runner.send_message(ABANDON, {"run_id": run_id}, msg.node_id)

        return on_message

    def on_batch(found: Inbox, msg: Message) -> None:
        data = msg.data

        def acknowledge() -> None:
            runner.send_message(ACK, {"run_id": data["run_id"], "number": data["number"]}, msg.node_id)

        found.on_started(data["worker"], data["started"])
        found.on_batch(data["worker"], data["number"], data["crc32"], data["payload"], acknowledge)

    def on_status(found: Inbox, msg: Message) -> None:
        found.on_status(msg.data["worker"], msg.data["status"], msg.data["health"])

    def on_final(found: Inbox, msg: Message) -> None:
        found.on_status(msg.data["worker"], {**msg.data["status"], "final": True}, None)

    def on_clock(msg: Message, **_: Any) -> None:
        answer = {**msg.data, "master_unix_s": now_unix_s()}
        runner.send_message(CLOCK, answer, msg.node_id)

    runner.register_message(HELLO, routed(lambda found, msg: found.on_hello(msg.data["about"])))
    runner.register_message(BATCH, routed(on_batch))
    runner.register_message(STATUS, routed(on_status))
    runner.register_message(LIVE, routed(lambda found, msg: found.on_live(msg.data["worker"], msg.data["figures"])))
    runner.register_message(FINAL, routed(on_final))
    runner.register_message(CLOCK, on_clock)
