"""Open files: each stream is a socket, so a process' limit on them has to be above its streams at once."""

import resource
from math import ceil, inf

from scenarios.spec import LoadSpec

BESIDE_STREAMS = 128  # the run's files, Locust's own sockets, libraries
UNBOUNDED = 4096  # streams of an open loop without a cap, as far as a worker can have so many: who knows?


def streams_at_once(load: LoadSpec, workers: int = 1) -> int:
    """The most streams that one of the workers has open, as far as the scenario tells."""
    if load.mode == "concurrency":
        return ceil(max(load.levels) / workers)
    if cap := load.max_in_flight or load.requests:
        return ceil(cap / workers)
    possible = _number(resource.getrlimit(resource.RLIMIT_NOFILE)[1]) - BESIDE_STREAMS
    return int(max(1, min(UNBOUNDED, possible)))


def lift_limit(streams: int) -> str | None:
    """Allow this process so many streams; the fault where the system does not let it.

    Locust lifts the limit to 10,000 or not at all; this lifts it as far as it has to.
    """
    needed = streams + BESIDE_STREAMS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _number(soft) >= needed:
        return None
    if _number(hard) >= needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        return None
    return (
        f"{streams} streams at once need {needed} open files, and this process may have {hard}: "
        f"raise its limit (ulimit -Hn {needed}), use more workers or lower levels"
    )


def _number(limit: int) -> float:
    return inf if limit == resource.RLIM_INFINITY else limit
