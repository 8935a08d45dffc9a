"""Keeps to a schedule: starts each request when it is due, whether or not the ones before have ended.

A request that cannot start in time is late or dropped, and counted either way. Recording how late each one
was is for the sender: `planned_s` of the request says when it was due.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import gevent
from gevent.event import Event
from gevent.pool import Group

from scenarios.clients.call import LLMRequest
from scenarios.recording.clock import now_s

# Timers fire up to some milliseconds late, so the last bit is passed in turns of the loop: a part of each gap that
# costs little of a core, at high rates too.
MARGIN_SHARE, MARGIN_LEAST_S, MARGIN_MOST_S = 1 / 8, 0.0005, 0.002

PLANNED, DROPPED, STARTED = "planned", "dropped", "started"

Due = Iterator[tuple[float, LLMRequest | None]]
"""Instants on the process' clock, in order; with the request where it belongs to its instant, as in a trace."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What to keep to from an instant on."""

    due: Due
    from_s: float
    level: int = 1
    max_in_flight: int | None = None
    drop: bool = False  # what finds no place is dropped; else it waits for one


class OpenLoop:
    """Starts requests by a schedule, one greenlet each.

    With `max_in_flight` reached, a due request waits for a place and starts late, or is dropped.
    """

    def __init__(
        self,
        send: Callable[[LLMRequest], object],
        next_request: Callable[[], LLMRequest],
        count: Callable[[str, float], None] = lambda _what, _planned_s: None,
    ) -> None:
        """`next_request` may end the stretch with StopIteration; `count` is told PLANNED, DROPPED and STARTED."""
        self._send = send
        self._next_request = next_request
        self._count = count
        self._running = Group()
        self._woken = Event()
        self._halted = False
        self._stretch: Stretch | None = None
        self._upcoming: deque[Stretch] = deque()
        self._due: tuple[float, LLMRequest | None] | None = None  # the next arrival
        self._request: LLMRequest | None = None  # made ahead for it
        self.through_level = 0  # the last level of which nothing more is due
        self.lag_max_s = 0.0  # longest start after the due time without having waited for a place

    def follow(self, stretch: Stretch) -> None:
        """Keep to another schedule from its instant on.

        What waits for a place by then goes on waiting when the level is the same, and is given up otherwise.
        """
        self._upcoming.append(stretch)
        self._woken.set()

    def run(self) -> None:
        """Start requests until `halt`; those in flight go on: `join` or `kill` ends them."""
        self._halted = False
        while not self._halted:
            self._woken.clear()
            due = self._next_due()
            if due is None:
                self._woken.wait()
            elif self._sleep_until(due[0]):
                self._arrived(*due)
                gevent.sleep(0)  # it is sent before the next one's prompt is made
                self._due = None
        while (due := self._next_due()) and due[0] <= now_s():
            self._due = None
            self._count(PLANNED, due[0])  # and missed

    def halt(self) -> None:
        """Start nothing more."""
        self._halted = True
        self._woken.set()

    @property
    def next_due_s(self) -> float | None:
        """When the next request is, or was, due that is not started yet or just being started; None when nothing is."""
        return self._due[0] if self._due else None

    @property
    def in_flight(self) -> int:
        """Requests that run now."""
        return len(self._running)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until no request runs; False when some still do after the timeout."""
        self._running.join(timeout=timeout_s)
        return not self._running

    def kill(self) -> None:
        """End all requests."""
        self._running.kill()

    def _next_due(self) -> tuple[float, LLMRequest | None] | None:
        """The next arrival, with its request at hand, so that making the prompt does not delay it."""
        while True:
            if self._due is None and self._stretch is not None:
                self._take(self._stretch)
            if not self._upcoming or (self._due is not None and self._due[0] < self._upcoming[0].from_s):
                return self._due
            self._stretch, self._due = self._upcoming.popleft(), None

    def _take(self, stretch: Stretch) -> None:
        try:
            self._due = next(stretch.due)
            if self._due[1] is None and self._request is None:
                self._request = self._next_request()
        except StopIteration:
            self.through_level = stretch.level
            self._stretch, self._due = None, None

    def _arrived(self, planned_s: float, request: LLMRequest | None) -> None:
        stretch = self._stretch
        assert stretch is not None
        self._count(PLANNED, planned_s)
        if self._is_full(stretch):
            if stretch.drop:
                self._count(DROPPED, planned_s)
                return
            if not self._wait_for_place(stretch):
                return
        else:
            self.lag_max_s = max(self.lag_max_s, now_s() - planned_s)
        if request is None:
            request, self._request = self._request, None
        assert request is not None
        self._count(STARTED, planned_s)
        greenlet = gevent.Greenlet(self._send, replace(request, planned_s=planned_s))
        self._running.start(greenlet)
        if stretch.max_in_flight is not None:
            greenlet.link(lambda _: self._woken.set())

    def _is_full(self, stretch: Stretch) -> bool:
        return stretch.max_in_flight is not None and len(self._running) >= stretch.max_in_flight

    def _wait_for_place(self, stretch: Stretch) -> bool:
        """Wait for a place; False when another level or the end comes first."""
        while True:
            self._woken.clear()
            new_level = next((each for each in self._upcoming if each.level != stretch.level), None)
            left_s = new_level.from_s - now_s() if new_level else None
            if self._halted or (left_s is not None and left_s <= 0):
                return False
            if not self._is_full(stretch):
                return True
            self._woken.wait(timeout=left_s)

    def _sleep_until(self, instant_s: float) -> bool:
        """Sleep while other greenlets run; False when there is news first."""
        margin_s = min(MARGIN_MOST_S, max(MARGIN_LEAST_S, (instant_s - now_s()) * MARGIN_SHARE))
        while (left_s := instant_s - now_s()) > 0:
            if left_s <= margin_s:
                gevent.sleep(0)
            elif self._woken.wait(timeout=left_s - margin_s):
                return False
        return True
