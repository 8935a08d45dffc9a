"""What the leading side announces of an open-loop level, and what one sending process makes of it.

The whole schedule follows from the scenario, the seed and the announcement, so each process computes all of it
and takes its share; nothing else has to travel.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from math import inf

import gevent

from scenarios.pacing.arrivals import Stage, schedule, share
from scenarios.spec import LoadSpec

LEVEL = "tokenswarm_level"
NO_LEVEL = 0  # announced to give up what waits and to start nothing more
SKIPPED_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Announcement:
    """One level, or the rest of it for other workers than before."""

    run_id: str
    level: int
    requested: float  # a rate; of a batch its number of requests
    rate_before: float
    begin_unix_s: float  # where the schedule begins, on the master's clock
    from_unix_s: float  # arrivals from here on are shared by these workers
    workers: list[int]


def due_times(load: LoadSpec, seed: int, announced: Announcement, worker: int) -> Iterator[float]:
    """Seconds after the level's begin at which a worker's requests of a rate or a batch are due."""
    if worker not in announced.workers:
        return iter(())
    place, workers = announced.workers.index(worker), len(announced.workers)
    if load.over == "batch":
        return repeat(0.0, part_of(int(announced.requested), place, workers))
    rate = announced.requested
    stages = [Stage(load.ramp_s, announced.rate_before, rate)] if load.ramp_s else []
    whole = schedule([*stages, Stage(inf, rate)], f"{seed}/arrivals/{announced.level}", load.gap_shape)
    return _from(share(whole, place, workers), announced.from_unix_s - announced.begin_unix_s)


def places(load: LoadSpec, announced: Announcement, worker: int) -> int | None:
    """How many requests a worker may have in flight, at least one; None: any number."""
    if load.max_in_flight is None or worker not in announced.workers:
        return load.max_in_flight
    return max(1, part_of(load.max_in_flight, announced.workers.index(worker), len(announced.workers)))


def part_of(total: int, place: int, parts: int) -> int:
    """One of the parts of a total that are equal to within one."""
    return total // parts + (place < total % parts)


def _from(due: Iterable[float], first_s: float) -> Iterator[float]:
    for number, at_s in enumerate(due):
        if at_s >= first_s:
            yield at_s
        elif number % SKIPPED_AT_ONCE == 0:
            gevent.sleep(0)  # hours of a schedule take seconds to pass by
