"""How the load generator itself did while a level was measured: the evidence behind "is it the engine or is it us?"."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.runs import Run
from analysis.windows import Level

LATE_MS = 50.0  # a worker-second in which a timer came later than this is a late one
DISPATCH_MS = 20.0  # a request that starts later than planned by this much is a late one


@dataclass(frozen=True, slots=True)
class ClientHealth:
    """Figures of the workers in a measure window and of their reads; None where nothing was recorded."""

    busiest_cpu_percent: float | None  # mean of the busiest worker; 100 is one core, all that a process can use
    hub_lag_max_ms: float | None
    late_seconds_share: float | None  # worker-seconds with more than LATE_MS of lag
    dispatch_late_share: float | None  # requests that started more than DISPATCH_MS after their plan
    dispatch_lag_max_ms: float | None
    coalesced_share: float | None  # reads in which several segments shared one stamp
    read_lag_max_ms: float | None  # longest from a segment's arrival in the kernel to our read
    kernel_stamps_share: float | None  # requests whose arrivals the kernel stamped
    callback_stamps_share: float | None  # requests whose arrivals gRPC told
    new_connection_share: float | None
    stale_retries: int | None  # kept connections that the server had closed; each was replaced before sending
    memory_max_mb: float | None


def client_health(run: Run, level: Level, requests: pd.DataFrame) -> ClientHealth:
    """The evidence of one level from health.csv and its measured requests."""
    inside = run.health[level.window.holds(run.health["unix_s"].to_numpy())]
    lag, late = inside["hub_lag_ms"].dropna(), metrics.queue_ms(requests).dropna()
    cpu = inside.groupby("worker")["cpu_percent"].mean()
    reads = requests["reads"].sum()
    stamps, reused = requests["stamp"].dropna(), requests["connection_reused"].dropna().astype(bool)
    return ClientHealth(
        busiest_cpu_percent=_most(cpu),
        hub_lag_max_ms=_most(lag),
        late_seconds_share=_share(lag > LATE_MS),
        dispatch_late_share=_share(late > DISPATCH_MS),
        dispatch_lag_max_ms=_most(late),
        coalesced_share=float(requests["coalesced_reads"].sum() / reads) if reads else None,
        read_lag_max_ms=_most(requests["read_lag_max_ms"]),
        kernel_stamps_share=_share(stamps == "kernel"),
        callback_stamps_share=_share(stamps == "callback"),
        new_connection_share=_share(~reused),
        stale_retries=int(requests["stale_retries"].sum()) if requests["stale_retries"].notna().any() else None,
        memory_max_mb=_most(inside["memory_mb"]),
    )


def _most(values: pd.Series) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None


def _share(hits: pd.Series) -> float | None:
    return float(hits.mean()) if len(hits) else None
