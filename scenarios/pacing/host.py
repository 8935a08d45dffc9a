"""The open loop of one sending process: follows the levels that the leading side announces.

A Locust user hosts it, so that Locust's way to stop users stops it too.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from gevent.lock import Semaphore

from analysis import schema
from scenarios.clients.call import LLMRequest
from scenarios.pacing.announcement import NO_LEVEL, Announcement, due_times, places
from scenarios.pacing.open_loop import DROPPED, PLANNED, STARTED, Due, OpenLoop, Stretch
from scenarios.recording.clock import Clock, now_s
from scenarios.spec import LoadSpec
from scenarios.workload.planner import Workload
from scenarios.workload.rows import WorkloadEnd

KEPT_LEVELS = 4  # whose counts are told
RECENT_S = 1.0  # within it the boundaries of a phase have come from the leading side

Counts = dict[int, dict[str, int]]

Place = Callable[[float], tuple[int | None, str | None]]


class Sender(Protocol):
    """The user who hosts the open loop: how it makes and sends a request."""

    def next_arrival(self) -> LLMRequest:
        """The next request; WorkloadEnd when there is none."""

    def arrive(self, request: LLMRequest) -> None:
        """Send a request that is due."""


class ArrivalHost:
    """Arrivals of one process in one run."""

    def __init__(self, load: LoadSpec, seed: int, worker: int, clock: Clock, place: Place, workload: Workload) -> None:
        self._load = load
        self._seed = seed
        self._worker = worker
        self._clock = clock
        self._place = place
        self._workload = workload
        self._loop = OpenLoop(self._send, self._next_request, lambda *each: self._recent.append(each))
        self._hosting = Semaphore(1)
        self._sender: Sender | None = None
        self._recent: deque[tuple[str, float]] = deque()  # (what, planned), not placed for good
        self._counts: Counts = {}  # level -> arrivals of its measure phase
        self.workload_end = ""  # why there is nothing more to send

    def serve(self, sender: Sender) -> None:
        """Start requests when they are due, until `halt`; then wait for those in flight. A second host waits its turn."""
        try:
            with self._hosting:
                self._sender = sender
                self._loop.run()
            self._loop.join()
        finally:
            if not self._hosting.locked():
                self._loop.kill()

    def halt(self, sender: Sender) -> None:
        """The host is asked to stop."""
        if sender is self._sender:
            self._loop.halt()

    def announce(self, announced: Announcement) -> None:
        """Keep to a level, or to another share of it, from its instant on."""
        self._loop.follow(
            Stretch(
                due=self._due(announced),
                from_s=self._clock.monotonic_s(announced.from_unix_s),
                level=announced.level,
                max_in_flight=places(self._load, announced, self._worker),
                drop=self._load.when_full == "drop",
            )
        )

    def status(self) -> dict[str, Any]:
        """What level control asks for."""
        while self._recent and self._recent[0][1] < now_s() - RECENT_S:
            self._add(self._counts, *self._recent.popleft())
        counts = {level: dict(each) for level, each in self._counts.items()}
        for what, planned_s in self._recent:
            self._add(counts, what, planned_s)
        due_s = self._loop.next_due_s
        return {
            "serving": self._hosting.locked(),
            "late_s": 0.0 if due_s is None else max(0.0, now_s() - due_s),
            "through_level": self._loop.through_level,
            "arrivals": [[level, *each.values()] for level, each in counts.items()][-KEPT_LEVELS:],
        }

    def oldest_due_unix_s(self) -> float | None:
        """When the next request that has not been started is due, or was, on the master's clock."""
        due_s = self._loop.next_due_s
        return None if due_s is None else self._clock.unix_s(due_s)

    def _due(self, announced: Announcement) -> Due:
        begin_s = self._clock.monotonic_s(announced.begin_unix_s)
        if announced.level == NO_LEVEL:
            return iter(())
        if self._load.over == "trace":
            return self._trace(begin_s)
        return ((begin_s + at_s, None) for at_s in due_times(self._load, self._seed, announced, self._worker))

    def _trace(self, begin_s: float) -> Iterator[tuple[float, LLMRequest | None]]:
        while True:
            try:
                at_s, request = self._workload.next_timed()
            except WorkloadEnd:
                return
            yield begin_s + at_s, request

    def _send(self, request: LLMRequest) -> None:
        assert self._sender is not None
        self._sender.arrive(request)

    def _next_request(self) -> LLMRequest:
        assert self._sender is not None
        try:
            return self._sender.next_arrival()
        except WorkloadEnd as end:
            self.workload_end = str(end)
            raise StopIteration from end

    def _add(self, counts: Counts, what: str, planned_s: float) -> None:
        level, phase = self._place(self._clock.unix_s(planned_s))
        if level is not None and phase == schema.MEASURE:
            counts.setdefault(level, {PLANNED: 0, DROPPED: 0, STARTED: 0})[what] += 1
