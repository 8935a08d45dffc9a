"""The data behind the charts: plain lists, thinned so that a page stays small however long the run was.

How a chart looks is left to `analysis/html/report.js`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis import gaps, metrics, schema, windows
from analysis.metrics import Floats
from analysis.runs import Run
from analysis.summary import LevelSummary, RunSummary
from analysis.token_flow import token_flow
from analysis.windows import Level, Mask, Window

ECDF_POINTS = 240
TIMELINE_TICKS = 400
HEAT_TIMES, HEAT_GAPS = 72, 26
FLOW_BINS = 400
LEAST_MS = 0.01  # zero has no place on a logarithmic axis


def charts(run: Run, summary: RunSummary) -> dict[str, Any]:
    """Everything that the page's charts draw."""
    levels = {level.number: level for level in windows.levels(run)}
    masks = {number: windows.measured(run, level) for number, level in levels.items()}
    ecdfs, heatmaps = {}, {}
    for number, level in levels.items():
        good = masks[number] & (run.requests["outcome"] == schema.SUCCESS).to_numpy()
        ordered = gaps.pool(run.token_rows, good).ordered_ms
        ecdfs[str(number)] = distributions(run.requests[good], ordered)
        timed = good & run.requests["sent_unix_s"].notna().to_numpy()
        if timed.sum() < good.sum():
            ordered = gaps.pool(run.token_rows, timed).ordered_ms
        heatmaps[str(number)] = heatmap(run, level, timed, ordered)
        del ordered  # the next level's may be as many
    return {
        "levels": [level_point(level) for level in summary.levels],
        "ecdf": ecdfs,
        "timelines": {str(level.level): timelines(run, masks[level.level]) for level in summary.levels},
        "heatmaps": heatmaps,
        "flow": flow(run, summary, list(levels.values())),
        "windows": [window_points(level) for level in summary.levels if level.windows],
    }


def level_point(level: LevelSummary) -> dict[str, Any]:
    """The figures of a level that appear in charts by level."""
    stats = {
        name: {part: getattr(values, part) for part in ("n", "mean", "p50", "p90", "p95", "p99")}
        for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
        for values in [level.headline_ttft_ms if name == "ttft_ms" else getattr(level.latencies, name)]
    }
    counts = {outcome: getattr(level.counts, outcome) for outcome in schema.OUTCOMES}
    names = ("level", "label", "output_tok_s", "tok_s_per_user", "slo_attainment", "meets_slo")
    intervals = {name: [interval.low, interval.high] for name, interval in level.intervals.items()}
    return stats | counts | {name: getattr(level, name) for name in names} | {"intervals": intervals}


def distributions(requests: pd.DataFrame, ordered_gaps: Floats) -> Mapping[str, list[list[float]]]:
    """ECDF points [ms, share] of each latency metric of successful requests."""
    return {
        "ttft_ms": ecdf(_ordered(metrics.ttft_ms(requests))),
        "tpot_ms": ecdf(_ordered(metrics.tpot_ms(requests))),
        "itl_ms": ecdf(ordered_gaps),
        "e2e_ms": ecdf(_ordered(metrics.e2e_ms(requests))),
    }


def _ordered(column: pd.Series) -> Floats:
    values = np.asarray(column, dtype=np.float64)
    return np.sort(values[np.isfinite(values) & (values >= 0)])


def ecdf(ordered: Floats) -> list[list[float]]:
    """At most `ECDF_POINTS` points of the empirical distribution; the slowest values are all kept."""
    count = len(ordered)
    if not count:
        return []
    spread = np.linspace(0, count - 1, ECDF_POINTS * 3 // 4).round()
    tail = count - 1 - np.unique(np.geomspace(1, count, ECDF_POINTS // 4).round() - 1)
    chosen = np.unique(np.concatenate([spread, tail])).astype(int)
    return [[round(max(float(ordered[i]), LEAST_MS), 3), round((i + 1) / count, 6)] for i in chosen]


def timelines(run: Run, mask: Mask) -> list[dict[str, Any]]:
    """The median, the p99 and the slowest successful request of a level, by end-to-end latency."""
    good = (
        mask & (run.requests["outcome"] == schema.SUCCESS).to_numpy() & run.requests["last_token_ms"].notna().to_numpy()
    )
    rows = np.flatnonzero(good)
    if not len(rows):
        return []
    e2e = run.requests["e2e_ms"].to_numpy()[rows]
    ordered = rows[np.argsort(e2e, kind="stable")]
    ranks = {"median": 50.0, "p99": 99.0, "slowest": 100.0}
    chosen = {name: int(ordered[max(int(np.ceil(rank / 100 * len(ordered))), 1) - 1]) for name, rank in ranks.items()}
    return [timeline(run, name, row) for name, row in chosen.items()]


def timeline(run: Run, name: str, row: int) -> dict[str, Any]:
    """One request: its instants since sent, and the arrivals of its tokens."""
    request = run.requests.iloc[row]
    arrivals = run.token_rows.of(row).arrival_ms
    step = max(1, -(-len(arrivals) // TIMELINE_TICKS))
    return {
        "name": name,
        "request_id": str(request["request_id"]),
        "queue_ms": _absent(request["started_ms"] - request["planned_ms"]),
        "connect_ms": _absent(request["connect_ms"]),
        "first_ms": _absent(request["first_token_ms"]),
        "last_ms": _absent(request["last_token_ms"]),
        "e2e_ms": _absent(request["e2e_ms"]),
        "input_tokens": _absent(request["input_tokens"]),
        "output_tokens": _absent(request["output_tokens"]),
        "length_class": None if pd.isna(request["length_class"]) else str(request["length_class"]),
        "arrivals_ms": [round(float(arrival), 2) for arrival in arrivals[::step]],
    }


def heatmap(run: Run, level: Level, good: Mask, ordered_gaps: Floats) -> dict[str, Any] | None:
    """Gaps between token events of a level, counted by when they ended and (logarithmically) how long they were.

    `good` are its successful requests whose time of sending is known, `ordered_gaps` all their gaps.
    """
    sent = windows.sent_unix_s(run.requests)
    if not len(ordered_gaps) or not level.window.seconds > 0:
        return None

    def blocks() -> Iterator[tuple[Floats, Floats]]:
        for rows in run.token_rows.blocks(good):
            found = gaps.between(rows)
            since = sent[found.code] + found.ended_ms / 1000 - level.window.start_unix_s
            yield since[found.ms >= 0], found.ms[found.ms >= 0]

    last = max((float(since.max()) for since, _ in blocks() if len(since)), default=None)
    if last is None:
        return None
    span = max(last, level.window.seconds) * (1 + 1e-9)
    low, high = max(_low_end(ordered_gaps), LEAST_MS), float(ordered_gaps[-1])
    steps = math.log(max(high, low * 1.5) * 1.001 / low) / HEAT_GAPS
    cells = np.zeros(HEAT_TIMES * HEAT_GAPS, dtype=np.int64)
    for since, ms in blocks():
        x = (np.clip(since, 0, None) * (HEAT_TIMES / span)).astype(np.int64)
        y = (np.log(np.clip(ms, low, None) / low) / steps).astype(np.int64)
        cells += np.bincount(x * HEAT_GAPS + y, minlength=HEAT_TIMES * HEAT_GAPS)
    counts = cells.reshape(HEAT_TIMES, HEAT_GAPS)
    return {
        "times": [f"{span * step / HEAT_TIMES:.3g}" for step in range(HEAT_TIMES)],
        "gaps": [f"{low * math.exp(step * steps):.3g}" for step in range(HEAT_GAPS)],
        "cells": [[int(x), int(y), int(counts[x, y])] for x, y in np.argwhere(counts > 0)],
    }


def _low_end(ordered: Floats) -> float:
    """The shortest gaps but for 1 in 200, which would stretch the axis."""
    place = 0.005 * (len(ordered) - 1)
    below, part = ordered[int(place) :][:2], place % 1
    low, high = float(below[0]), float(below[-1])
    # NumPy's interpolated percentile, which would copy all the gaps
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)


def flow(run: Run, summary: RunSummary, levels: Sequence[Level]) -> dict[str, Any]:
    """Tokens per second and requests in flight over the whole run, with phases and steady parts."""
    sent, ended = windows.sent_unix_s(run.requests), windows.ended_unix_s(run.requests)
    known = np.isfinite(sent) & np.isfinite(ended)
    if not known.any():
        return {"tokens": [], "in_flight": [], "phases": [], "steady": [], "end_s": 1}
    start, end = float(sent[known].min()), float(ended[known].max())
    window = Window(start, max(end, start + 0.001))
    edges = np.linspace(window.start_unix_s, window.end_unix_s, FLOW_BINS + 1)
    width = edges[1] - edges[0]
    rates = token_flow(run).binned(window, FLOW_BINS) / width
    busy = np.diff(_busy_seconds(np.sort(sent[known]), np.sort(ended[known]), edges)) / width
    seconds = np.round(edges[:-1] - start, 2).tolist()
    return {
        "tokens": [[at, round(float(rate), 1)] for at, rate in zip(seconds, rates, strict=True)],
        "in_flight": [[at, round(float(number), 2)] for at, number in zip(seconds, busy, strict=True)],
        "phases": [phase for level in levels for phase in _phases(level, start)],
        "steady": [
            [round(part.start_unix_s - start, 2), round(part.end_unix_s - start, 2)]
            for level in summary.levels
            if level.steady
            for part in [level.steady.window]
        ],
        "end_s": round(end - start, 2),
    }


def _busy_seconds(sent: Floats, ended: Floats, edges: Floats) -> Floats:
    """Request-seconds spent in flight up to each edge: of all sent before it, less what came after their end."""

    def elapsed(instants: Floats) -> Floats:
        sums = np.concatenate([[0.0], np.cumsum(instants - edges[0])])
        before = np.searchsorted(instants, edges)
        total: Floats = before * (edges - edges[0]) - sums[before]
        return total

    return elapsed(sent) - elapsed(ended)


def _phases(level: Level, start: float) -> list[list[Any]]:
    """Name, from, to (seconds since the run began) and label of each phase that took place."""
    bounds = [
        (schema.RAMP, level.ramp_start_unix_s, level.warmup_start_unix_s),
        (schema.WARMUP, level.warmup_start_unix_s, level.window.start_unix_s),
        (schema.MEASURE, level.window.start_unix_s, level.window.end_unix_s),
        (schema.TAIL, level.window.end_unix_s, level.tail_end_unix_s),
    ]
    return [
        [name, round(begin - start, 2), round(end - start, 2), level.label]
        for name, begin, end in bounds
        if end > begin
    ]


def window_points(level: LevelSummary) -> dict[str, Any]:
    """Figures of the slices of a long level, by minutes since its measure phase began."""
    return {
        "label": level.label,
        "minutes": [round((part.start_unix_s - level.window.start_unix_s) / 60, 3) for part in level.windows],
        "ttft_p50": [part.ttft_ms.p50 for part in level.windows],
        "ttft_p95": [part.ttft_ms.p95 for part in level.windows],
        "tpot_p50": [part.tpot_ms.p50 for part in level.windows],
        "tpot_p95": [part.tpot_ms.p95 for part in level.windows],
        "output_tok_s": [part.output_tok_s for part in level.windows],
        "failures": [part.counts.failure for part in level.windows],
    }


def _absent(value: Any) -> float | None:
    return None if pd.isna(value) else round(float(value), 3)
