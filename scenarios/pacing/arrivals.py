"""When requests of an open loop are due: absolute schedules, the same on every worker, each taking its share.

All by seed and without a look at the clock; keeping to the schedule is `scenarios.pacing.open_loop`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from random import Random
from typing import TypeVar

Due = TypeVar("Due")


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of time with one rate, or with a rate that changes evenly to another one."""

    length_s: float
    rate: float
    end_rate: float | None = None

    @property
    def arrivals(self) -> float:
        """Expected number of arrivals in it."""
        return self.length_s * (self.rate + self._last_rate) / 2

    @property
    def _last_rate(self) -> float:
        return self.rate if self.end_rate is None else self.end_rate

    def instant(self, arrivals: float) -> float:
        """Seconds into the stage at which so many arrivals are expected: rate · t + slope · t² / 2 = arrivals."""
        slope = (self._last_rate - self.rate) / self.length_s
        root = math.sqrt(max(0.0, self.rate**2 + 2 * slope * arrivals))
        return 2 * arrivals / (self.rate + root) if arrivals else 0.0


def schedule(stages: Sequence[Stage], seed: str, burstiness: float | None = 1.0) -> Iterator[float]:
    """Seconds from the start at which requests are due, over all stages.

    `burstiness` is the shape of gamma-distributed gaps: 1 is Poisson, below 1 comes in bursts, above 1 is
    more regular; None has all gaps alike. The number of arrivals is not forced to the expected one, which
    would make a Poisson process something else.
    """
    begin_s, begin_arrivals, pending = 0.0, 0.0, unit_arrivals(seed, burstiness)
    due = next(pending)
    for stage in stages:
        while due < begin_arrivals + stage.arrivals:
            yield begin_s + stage.instant(due - begin_arrivals)
            due = next(pending)
        begin_s += stage.length_s
        begin_arrivals += stage.arrivals


def unit_arrivals(seed: str, burstiness: float | None) -> Iterator[float]:
    """Arrivals at a rate of 1 per second, without end."""
    if burstiness is None:
        yield from map(float, count())
        return
    rng = Random(seed)
    at = 0.0
    while True:
        at += rng.expovariate(1.0) if burstiness == 1.0 else rng.gammavariate(burstiness, 1.0 / burstiness)
        yield at


def share(due: Iterator[Due], worker: int, workers: int) -> Iterator[Due]:
    """One worker's part of a schedule, by index: the parts of all workers are the whole, exactly."""
    return islice(due, worker, None, workers)
