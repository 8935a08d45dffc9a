"""Keeps to a schedule: starts each request when it is due, whether or not the ones before have ended.

A request that cannot start in time is late or dropped, and counted either way. Recording how late each one
was is for the sender: `planned_s` of the request says when it was due.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import gevent
from gevent.pool import Group

from scenarios.clients.call import LLMRequest
from scenarios.recording.clock import now_s

SLEEP_MARGIN_S = 0.0005  # timers fire up to a millisecond late; the last bit is passed in turns of the loop


class OpenLoop:
    """Starts requests by a schedule, one greenlet each.

    With `max_in_flight` reached, a due request waits for a place and starts late, or is dropped.
    """

    def __init__(
        self, send: Callable[[float], object], max_in_flight: int | None = None, *, drop: bool = False
    ) -> None:
        self._send = send
        self._max_in_flight = max_in_flight
        self._drop = drop
        self._running = Group()
        self.started = 0
        self.dropped = 0
        self.missed = 0  # due before the end, but still waiting for a place then
        self.lag_max_s = 0.0  # longest start after the due time without having waited for a place

    def run(self, due: Iterable[tuple[float, LLMRequest]], begin_s: float, end_s: float) -> None:
        """Start requests at their seconds after `begin_s`; blocks until `end_s` (both on the process' clock).

        A request is taken from `due` right after the one before it was started, so that making its prompt does
        not delay it. Requests in flight go on; `join` or `kill` ends them.
        """
        for after_s, request in due:
            planned_s = begin_s + after_s
            if planned_s >= end_s:
                break
            _sleep_until(planned_s)
            if self._is_full():
                if self._drop:
                    self.dropped += 1
                    continue
                if not self._wait_for_place(end_s):
                    self.missed += 1
                    continue
            else:
                self.lag_max_s = max(self.lag_max_s, now_s() - planned_s)
            self.started += 1
            self._running.start(gevent.Greenlet(self._send, replace(request, planned_s=planned_s)))
        _sleep_until(end_s)

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

    def _is_full(self) -> bool:
        return self._max_in_flight is not None and len(self._running) >= self._max_in_flight

    def _wait_for_place(self, end_s: float) -> bool:
        while self._is_full():
            left_s = end_s - now_s()
            if left_s <= 0:
                return False
            gevent.wait([*self._running.greenlets], timeout=left_s, count=1)
        return now_s() < end_s


def _sleep_until(instant_s: float) -> None:
    """Sleep while other greenlets run."""
    while (left_s := instant_s - now_s()) > 0:
        gevent.sleep(left_s - SLEEP_MARGIN_S if left_s > SLEEP_MARGIN_S else 0)
