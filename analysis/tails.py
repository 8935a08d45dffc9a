"""What averages hide: stalls, failures at the tail, unequal service, a worker that differs."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import metrics, schema
from analysis.gaps import Pool
from analysis.metrics import PERCENTILES, Floats, Stats
from analysis.runs import Run
from analysis.windows import Mask

STALL_MS = 200.0  # a reader notices a pause of this length
WORKER_SHARE, WORKER_ERRORS = 0.1, 4.0  # a worker differs by this share and this many standard errors
LEAST_PER_WORKER = 10


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """What one worker measured of a level."""

    worker: int
    requests: int
    success: int
    ttft_p50_ms: float | None
    tpot_p50_ms: float | None
    differs: str | None  # in which metric and by how much from the others


@dataclass(frozen=True, slots=True)
class Tails:
    """The tails of a level's measured requests."""

    longest_gap_ms: Stats  # the longest gap of each request
    stall_limit_ms: float
    stalls_per_1k_tokens: float | None  # gaps over the limit per 1000 output tokens
    # percentiles over all started requests, those without a complete answer as +inf; null in JSON is +inf
    ttft_adjusted_ms: dict[str, float]
    e2e_adjusted_ms: dict[str, float]
    fairness: float | None  # Jain's index of decode speeds: 1 = all alike, 1/n = one gets all
    workers: tuple[WorkerSummary, ...]


def tails(run: Run, mask: Mask, gaps: Pool, stall_ms: float = STALL_MS, unsent: int = 0) -> Tails:
    """Tails of the requests in `mask`; `gaps` are those of the successful ones, `unsent` arrivals were due as well."""
    requests = run.requests[mask]
    good = mask & (run.requests["outcome"] == schema.SUCCESS).to_numpy()
    output = run.requests["output_tokens"].to_numpy()[good]
    stalls = len(gaps.ordered_ms) - int(np.searchsorted(gaps.ordered_ms, stall_ms, side="right"))
    return Tails(
        longest_gap_ms=metrics.stats(gaps.longest_ms),
        stall_limit_ms=stall_ms,
        stalls_per_1k_tokens=1000 * (stalls / float(np.nansum(output))) if np.nansum(output) else None,
        ttft_adjusted_ms=adjusted(requests, metrics.ttft_ms(requests), unsent),
        e2e_adjusted_ms=adjusted(metrics.kept(requests), metrics.e2e_ms(metrics.kept(requests)), unsent),
        fairness=jain(np.asarray(metrics.decode_tok_s(run.requests[good]))),
        workers=workers(requests),
    )


def adjusted(requests: pd.DataFrame, values: pd.Series, unsent: int = 0) -> dict[str, float]:
    """Percentiles over all started requests where every one that never came that far takes for ever.

    A first token that was seen counts although the request was cut off later: leaving it out would favour the quick.
    """
    if not len(requests) + unsent:
        return {}
    outcomes = [schema.SUCCESS, schema.CUT_OFF] if values.name == "first_token_ms" else [schema.SUCCESS]
    reached = requests["outcome"].isin(outcomes) & values.notna()
    ordered = np.sort(values[reached].to_numpy(dtype=np.float64))
    count = len(requests) + unsent
    ranks = {p: metrics.rank(count, p) for p in PERCENTILES}
    return {f"p{p}": float(ordered[rank - 1]) if rank <= len(ordered) else math.inf for p, rank in ranks.items()}


def jain(values: Floats) -> float | None:
    """Jain's fairness index: (sum of x)^2 / (n * sum of x^2)."""
    known = values[np.isfinite(values)]
    square = float((known**2).sum())
    return float(known.sum() ** 2 / (len(known) * square)) if square else None


def workers(requests: pd.DataFrame) -> tuple[WorkerSummary, ...]:
    """Each worker's share of the requests, and whether its medians differ from that of the middle worker."""
    good = requests[requests["outcome"] == schema.SUCCESS]
    groups = {number: good[good["worker"] == number] for number in sorted(requests["worker"].dropna().unique())}
    texts: dict[float, list[str]] = {number: [] for number in groups}
    for name, metric in (("TTFT", metrics.ttft_ms), ("TPOT", metrics.tpot_ms)):
        values = {number: np.asarray(metric(group).dropna(), dtype=np.float64) for number, group in groups.items()}
        for number, text in _differing(name, values).items():
            texts[number].append(text)
    return tuple(
        WorkerSummary(
            worker=int(number),
            requests=int((requests["worker"] == number).sum()),
            success=len(group),
            ttft_p50_ms=metrics.stats(metrics.ttft_ms(group)).p50,
            tpot_p50_ms=metrics.stats(metrics.tpot_ms(group)).p50,
            differs=", ".join(texts[number]) or None,
        )
        for number, group in groups.items()
    )


def _differing(name: str, values: dict[float, Floats]) -> dict[float, str]:
    """Workers whose median is clearly off that of the middle worker, and by how much."""
    enough = {number: own for number, own in values.items() if len(own) >= LEAST_PER_WORKER}
    if len(enough) < 2:
        return {}
    medians = {number: float(np.median(own)) for number, own in enough.items()}
    middle = sorted(medians, key=lambda number: medians[number])[(len(medians) - 1) // 2]
    found = {}
    for number, own in enough.items():
        gap = medians[number] - medians[middle]
        error = math.hypot(_median_error(own), _median_error(enough[middle]))
        if abs(gap) > max(WORKER_SHARE * medians[middle], WORKER_ERRORS * error):
            found[number] = f"{name} {gap / medians[middle]:+.0%}"
    return found


def _median_error(values: Floats) -> float:
    """Standard error of the median of about normal values, from their quartiles."""
    low, high = np.percentile(values, [25, 75])
    return float(1.2533 * 0.7413 * (high - low) / math.sqrt(len(values)))
