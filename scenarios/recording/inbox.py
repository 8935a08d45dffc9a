"""Master side of shipping: what each worker has told, and the one writer of the run folder.

Handlers of messages only note and enqueue; a greenlet writes. A batch that comes twice is dropped, a
damaged one is not acknowledged (so it comes again), and at the end each worker's own counts are compared
with what was written: started = recorded, per worker.
"""

import logging
import zlib
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from typing import Any

import gevent
import msgspec
from gevent.queue import Queue

from analysis import schema
from scenarios.recording.outbox import decode_records
from scenarios.recording.recorder import Record
from scenarios.recording.run_dir import RunDir
from scenarios.recording.timeline import Timeline

logger = logging.getLogger(__name__)


class Numbers:
    """The numbers of a worker's batches so far, small however long the run is: all below one, and a few above."""

    def __init__(self) -> None:
        self._below = 0
        self._above: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number < self._below or number in self._above

    def __len__(self) -> int:
        return self._below + len(self._above)

    def add(self, number: int) -> None:
        """Take a number in."""
        self._above.add(number)
        while self._below in self._above:
            self._above.remove(self._below)
            self._below += 1


@dataclass(slots=True)
class WorkerState:
    """One worker as the master knows it; written to run.json."""

    worker: int
    client_id: str
    host: str = ""
    pid: int = 0
    cpu_count: int | None = None
    clock_offset_ms: float = 0.0
    clock_uncertainty_ms: float = 0.0
    clock_step_ms: float = 0.0  # how far its wall clock was set, or has drifted, during the run
    started: int = 0
    recorded: int = 0  # by the worker's own count
    written: int = 0  # rows written here
    final: bool = False  # its last word has come
    lost: bool = False
    at_unix_s: float = 0.0  # of its last status
    oldest_unix_s: float | None = None
    in_flight: int = 0
    workload: dict[str, int] = field(default_factory=dict)  # lengths drawn, rows read, and what was wrong with them
    workload_end: str = ""  # why it has nothing more to send
    unfit: str = ""  # why this process can't carry its share of the load
    # of an open loop
    serving: bool = False  # starts requests by announcements
    through_level: int = 0  # the last level of which it has nothing more to start
    arrivals: list[list[int]] = field(default_factory=list)  # of the last levels: number, planned, dropped, started
    late_s: float = 0.0  # how long the next request has been due
    last_end_unix_s: float | None = None
    batches: Numbers = field(default_factory=Numbers)  # those written
    queued: set[int] = field(default_factory=set)  # those that wait to be written

    def row(self) -> dict[str, Any]:
        """The worker as an entry of run.json."""
        state = asdict(self)
        state["batches"] = len(self.batches)
        for name in ("queued", "oldest_unix_s", "last_end_unix_s", "serving", "through_level", "arrivals", "late_s"):
            del state[name]  # of the moment
        return state


class Inbox:
    """Everything that workers tell about one run."""

    def __init__(self, run_dir: RunDir, timeline: Timeline, now_unix_s: Callable[[], float]) -> None:
        self._now_unix_s = now_unix_s
        self._run_dir = run_dir
        self._timeline = timeline
        self._queue: Queue[tuple[WorkerState, list[Record], Callable[[bool], None]]] = Queue()
        self._writing = False
        self.workers: dict[int, WorkerState] = {}
        self.worker_events: list[dict[str, Any]] = []
        self.duplicate_batches = 0
        self.damaged_batches = 0
        self.on_health: Callable[[int, dict[str, Any]], None] = _unseen  # the live views look on
        self.on_live: Callable[[int, dict[str, Any]], None] = _unseen

    def on_hello(self, data: dict[str, Any]) -> None:
        """A worker joins the run."""
        state = WorkerState(**data)
        self.workers[state.worker] = state
        self._note(state, "joined", self._now_unix_s())

    def on_roll_call(self, missing: set[str]) -> None:
        """Which workers send no heartbeat now, by their client id: they are lost until they come back."""
        for state in self.workers.values():
            lost = state.client_id in missing and not state.final
            if lost != state.lost and not state.final:
                state.lost = lost
                self._note(state, "lost" if lost else "came back", self._now_unix_s())

    def _note(self, state: WorkerState, what: str, unix_s: float) -> None:
        self.worker_events.append({"unix_s": unix_s, "worker": state.worker, "event": what})
        level = logging.ERROR if what == "lost" else logging.INFO
        logger.log(level, "Worker %s (%s) %s", state.worker, state.client_id, what)

    def on_status(self, worker: int, status: dict[str, Any], health: dict[str, Any] | None) -> None:
        """A worker's counts of now, and once a second its health."""
        state = self.workers[worker]
        for name, value in status.items():
            setattr(state, name, value)
        if status.get("final"):
            state.lost = False  # it may have stalled before
            self._note(state, "delivered its last batch", self._now_unix_s())
        if health:
            self._run_dir.write_rows(schema.HEALTH_FILE, [health])
            self.on_health(worker, health)

    def on_started(self, worker: int, count: int) -> None:
        """How many requests a worker has started, told with each batch: its last status may be older."""
        state = self.workers[worker]
        state.started = max(state.started, count)

    def on_batch(self, worker: int, number: int, crc32: int, payload: bytes, acknowledge: Callable[[], None]) -> None:
        """A batch of records; acknowledged once it is written."""
        state = self.workers[worker]
        if number in state.batches or number in state.queued:
            self.duplicate_batches += 1
            if number in state.batches:
                acknowledge()
            return
        try:
            records = decode_records(payload) if zlib.crc32(payload) == crc32 else None
        except msgspec.DecodeError:
            records = None
        if records is None:
            self.damaged_batches += 1
            logger.error("Batch %s of worker %s came damaged; waiting for it to be sent again", number, worker)
            return
        state.queued.add(number)

        def settle(written: bool) -> None:
            state.queued.remove(number)
            if written:  # else it stays in the worker's spool and comes again
                state.batches.add(number)
                acknowledge()

        self._queue.put((state, records, settle))

    def on_local(self, worker: int, record: Record) -> None:
        """A record of a user in this very process."""
        self._queue.put((self.workers[worker], [record], _nothing))

    def write_forever(self) -> None:
        """Write what is queued, until killed."""
        while True:
            state, records, settle = self._queue.get()
            self._writing = True
            written = self._run_dir.write_records(records, self._timeline.locate)
            state.written += len(records) if written else 0
            settle(written)
            self._writing = False
            gevent.sleep(0)

    def drain(self) -> None:
        """Wait until the queue is written."""
        while not self._queue.empty() or self._writing:
            gevent.sleep(0.01)

    def workload_end(self) -> str:
        """Why no worker has anything more to send; empty while one has."""
        ends = [state.workload_end for state in self.workers.values() if not state.lost]
        return ends[0] if ends and all(ends) else ""

    # What level control asks for

    def started_count(self) -> int:
        """Requests started on all workers."""
        return sum(state.started for state in self.workers.values())

    def finished_count(self) -> int:
        """Requests ended on all workers."""
        return sum(state.recorded for state in self.workers.values())

    def all_ended_before(self, unix_s: float) -> bool:
        """Whether every request due or started before an instant has ended, on every worker that is not lost."""
        return all(
            state.at_unix_s > unix_s and (state.oldest_unix_s is None or state.oldest_unix_s >= unix_s)
            for state in self.workers.values()
            if not state.lost
        )

    def all_heard_since(self, unix_s: float) -> bool:
        """Whether every worker that is not lost has told its counts since an instant."""
        return all(state.at_unix_s > unix_s for state in self._living())

    def all_through(self, level: int, workers: Collection[int]) -> bool:
        """Whether none of these workers that is not lost has anything more to start in a level."""
        return all(state.through_level >= level for state in self._living() if state.worker in workers)

    def all_written(self) -> bool:
        """Whether every record that a worker has told of is on disk, except those of lost workers."""
        return all(state.written >= state.recorded for state in self._living())

    def idle(self) -> bool:
        """Whether nothing is in flight on any worker that is not lost."""
        return not any(state.in_flight for state in self._living())

    def serving_workers(self) -> list[int]:
        """Workers that are not lost and start requests by announcements."""
        return [state.worker for state in self._living() if state.serving]

    def arrivals(self, level: int) -> tuple[int, int, int]:
        """Arrivals of an open-loop level's measure phase: planned, dropped, started."""
        told = [counts for state in self.workers.values() for number, *counts in state.arrivals if number == level]
        planned, dropped, started = (sum(each) for each in zip(*told, strict=True)) if told else (0, 0, 0)
        return planned, dropped, started

    def last_end_unix_s(self) -> float | None:
        """When the last request ended that has ended so far."""
        ends = (state.last_end_unix_s for state in self.workers.values())
        return max((end for end in ends if end is not None), default=None)

    def _living(self) -> list[WorkerState]:
        return [state for state in self.workers.values() if not state.lost]

    def reconciliation(self) -> dict[str, Any]:
        """Whether every request started has its row: in total and, for a worker where not, by its index."""
        started = self.started_count()
        written = sum(state.written for state in self.workers.values())
        short = {s.worker: s.started - s.written for s in self.workers.values() if s.started != s.written}
        return {
            "started": started,
            "recorded": written,
            "missing": started - written,
            "missing_by_worker": {str(worker): count for worker, count in short.items()},
            # what these started after their last word only their spools know: see `tokenswarm recover`
            "unheard": {str(s.worker): s.at_unix_s for s in self.workers.values() if s.lost and not s.final},
            "duplicates": self.duplicate_batches,
            "damaged": self.damaged_batches,
        }


def _nothing(_written: bool) -> None:
    """A local record needs no acknowledgement, and does not come again."""


def _unseen(_worker: int, _figures: dict[str, Any]) -> None:
    """Nobody looks on."""
