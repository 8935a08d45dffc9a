"""One process' clock: durations from the monotonic clock, instants on the master's wall clock.

The wall clock is read once per process. Every instant is the monotonic clock plus that anchor plus the
measured offset to the master, so a wall clock that is set during a run moves nothing.
"""

import time

now_s = time.perf_counter
"""The process' monotonic clock in seconds; every duration comes from it."""


class Clock:
    """Converts instants of the monotonic clock to Unix seconds on the master's clock."""

    def __init__(self) -> None:
        self._unix_minus_monotonic_s = time.time() - now_s()
        self.offset_s = 0.0  # master's clock minus ours
        self.uncertainty_s = 0.0  # half the best round trip; 0 in the master's own process

    def unix_s(self, monotonic_s: float) -> float:
        """Unix seconds on the master's clock of an instant on this process' monotonic clock."""
        return monotonic_s + self._unix_minus_monotonic_s + self.offset_s

    def monotonic_s(self, unix_s: float) -> float:
        """The instant on this process' monotonic clock of Unix seconds on the master's clock."""
        return unix_s - self._unix_minus_monotonic_s - self.offset_s

    def stepped_s(self) -> float:
        """How far the wall clock has moved against the monotonic one since the start: it was set, or drifts."""
        return time.time() - (now_s() + self._unix_minus_monotonic_s)

    def now_unix_s(self) -> float:
        """Now, on the master's clock."""
        return self.unix_s(now_s())


class OffsetEstimate:
    """Offset to the master from two-way exchanges: the exchange with the shortest round trip is the best.

    The answer of the master lies somewhere within the round trip, so half of it bounds the error.
    The best exchange is kept for a while only, since clocks drift.
    """

    KEPT_EXCHANGES = 8

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._exchanges: list[tuple[float, float]] = []  # (half round trip, offset), the newest last

    def add(self, asked_s: float, master_unix_s: float, answered_s: float) -> None:
        """Add one exchange: monotonic instants of question and answer, the master's clock between them."""
        half_round_trip_s = (answered_s - asked_s) / 2
        own_unix_s = self._clock.unix_s(asked_s + half_round_trip_s) - self._clock.offset_s
        self._exchanges.append((half_round_trip_s, master_unix_s - own_unix_s))
        del self._exchanges[: -self.KEPT_EXCHANGES]
        self._clock.uncertainty_s, self._clock.offset_s = min(self._exchanges)
