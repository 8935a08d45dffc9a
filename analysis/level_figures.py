"""Computes the figures of one level; those of the run as a whole are left to `analysis.figures`.

Latency statistics are over the successful measured requests; rates are over the measure window.
"""

import math

import numpy as np
import pandas as pd

from analysis import gaps, intervals, metrics, schema, slo, steady, tails, tokens, validity, windows
from analysis.client import client_health
from analysis.intervals import Interval
from analysis.metrics import Stats
from analysis.open_loop import schedule_of
from analysis.runs import Run
from analysis.slo import Slo
from analysis.summary import ClassSummary, Counts, Latencies, LevelSummary, WindowSummary
from analysis.tails import Tails
from analysis.token_flow import TokenFlow
from analysis.windows import Level, Mask, Window

MOST_SLICES = 2000


def summarise_level(
    run: Run, level: Level, flow: TokenFlow, objective: Slo | None, window_s: float | None
) -> LevelSummary:
    """All figures of a level; `window_s` cuts it into windows of that length."""
    mask = windows.measured(run, level)
    requests = run.requests[mask]
    achieved = windows.achieved_concurrency(run.requests, level.window)
    stall_ms = ((run.info.get("scenario") or {}).get("report") or {}).get("stall_ms") or tails.STALL_MS
    latencies, tail, itl_interval = _of_gaps(run, mask, stall_ms, level.dropped + level.missed)
    met = slo.meets(requests, objective) if objective else None
    # an arrival that was never sent is a miss like a failure
    attainment = slo.attained(requests, level.dropped + level.missed, objective).share if objective else None
    output, total = _token_rates(run.requests, flow, level.window)
    good = requests[requests["outcome"] == schema.SUCCESS]
    part = steady.find_steady(flow, level.window)
    client = client_health(run, level, requests)
    kept = schedule_of(run, level, requests)
    return LevelSummary(
        level=level.number,
        mode=level.mode,
        requested=level.requested,
        achieved_concurrency=achieved,
        users=level.users,
        planned=level.planned,
        dropped=level.dropped,
        missed=level.missed,
        schedule=kept,
        window=level.window,
        window_s=_known(level.window.seconds),
        verdict=validity.judge_level(run, level, requests, achieved, client, kept, output, part, tail.workers),
        client=client,
        counts=count_outcomes(requests),
        latencies=latencies,
        warmup_ttft_ms=_warmup_ttft_ms(run, level),
        output_tok_s=output,
        total_tok_s=total,
        requests_s=_request_rate(run.requests, level.window),
        tok_s_per_user=1000 / latencies.tpot_ms.mean if latencies.tpot_ms.mean else None,
        time_to_1000_tokens_ms=metrics.time_to_1000_tokens_ms(latencies.ttft_ms.mean, latencies.tpot_ms.mean),
        tokens_per_event=metrics.tokens_per_event(requests),
        slo_attainment=attainment,
        meets_slo=attainment >= objective.attainment if objective and attainment is not None else None,
        goodput_requests_s=_rate(int(met.sum()), level.window) if met is not None else None,
        intervals=_intervals(run.requests, requests, flow, level.window, met) | itl_interval,
        steady=part,
        tokens=tokens.audit(good),
        tails=tail,
        classes=_classes(run, mask, objective),
        windows=_slices(run, level, mask, flow, objective, window_s),
    )


def count_outcomes(requests: pd.DataFrame) -> Counts:
    """How many requests ended how."""
    found = requests["outcome"].value_counts()
    failed = requests.loc[requests["outcome"] == schema.FAILURE, "error_class"].fillna("unknown").value_counts()
    known = {outcome: int(found.get(outcome, 0)) for outcome in schema.OUTCOMES}
    return Counts(
        started=len(requests),
        cancelled=len(requests) - len(metrics.kept(requests)),
        failures={str(name): int(count) for name, count in failed.items()},
        **known,
    )


def _intervals(
    every: pd.DataFrame, requests: pd.DataFrame, flow: TokenFlow, window: Window, met: Mask | None
) -> dict[str, Interval]:
    """The 95 % intervals of the headline figures that the run is long enough for."""
    order = np.argsort(windows.sent_unix_s(requests), kind="stable")
    ordered = requests.iloc[order]
    good = ordered[ordered["outcome"] == schema.SUCCESS]
    found: dict[str, Interval | None] = {"output_tok_s": None}
    if not math.isnan(window.seconds):
        sums = flow.binned(window, intervals.BATCHES)
        found["output_tok_s"] = intervals.binned_rate_interval(sums, window.seconds)
    for name, metric in (("ttft", metrics.ttft_ms), ("tpot", metrics.tpot_ms), ("e2e", metrics.e2e_ms)):
        values = np.asarray(metric(good), dtype=np.float64)
        found[f"{name}_mean_ms"] = intervals.mean_interval(values)
        for p in metrics.PERCENTILES:
            found[f"{name}_p{p}_ms"] = intervals.percentile_interval(values, p)
    ends = windows.ended_unix_s(every[every["outcome"] == schema.SUCCESS])
    found["requests_s"] = intervals.rate_interval(ends, np.ones(len(ends)), window)
    if met is not None:
        found["slo_attainment"] = intervals.share_interval(met[order].astype(np.float64))
        sent = windows.sent_unix_s(requests)[met]
        found["goodput_requests_s"] = intervals.rate_interval(sent, np.ones(len(sent)), window)
    return {name: interval for name, interval in found.items() if interval is not None}


def _of_gaps(run: Run, mask: Mask, stall_ms: float, unsent: int) -> tuple[Latencies, Tails, dict[str, Interval]]:
    """What needs all gaps of a level; they are let go afterwards, for there may be many."""
    good = mask & (run.requests["outcome"] == schema.SUCCESS).to_numpy()
    pool = gaps.pool(run.token_rows, good)
    latencies = _latencies(run.requests[good], metrics.stats_of_ordered(pool.ordered_ms, pool.refused))
    order = np.argsort(windows.sent_unix_s(run.requests)[pool.code], kind="stable")
    interval = intervals.ratio_interval(pool.sum_ms[order], pool.count[order])
    found = {"itl_mean_ms": interval} if interval else {}
    return latencies, tails.tails(run, mask, pool, stall_ms, unsent), found


def _latencies(requests: pd.DataFrame, itl_ms: Stats) -> Latencies:
    """Latencies of successful requests."""
    return Latencies(
        ttft_ms=metrics.stats(metrics.ttft_ms(requests)),
        ttft_from_plan_ms=metrics.stats(metrics.ttft_from_plan_ms(requests)),
        first_answer_ms=metrics.stats(metrics.first_answer_ms(requests)),
        tpot_ms=metrics.stats(metrics.tpot_ms(requests)),
        itl_ms=itl_ms,
        e2e_ms=metrics.stats(metrics.e2e_ms(requests)),
        e2e_from_plan_ms=metrics.stats(metrics.e2e_from_plan_ms(requests)),
        queue_ms=metrics.stats(metrics.queue_ms(requests)),
    )


def _warmup_ttft_ms(run: Run, level: Level) -> Stats:
    requests = run.requests[windows.before_measured(run, level)]
    return metrics.stats(metrics.ttft_ms(requests[requests["outcome"] == schema.SUCCESS]))


def _classes(run: Run, mask: Mask, objective: Slo | None) -> tuple[ClassSummary, ...]:
    column = run.requests["length_class"]
    names = sorted(column[mask].dropna().unique(), key=_class_order)
    return tuple(_class(run, mask & (column == name).to_numpy(), str(name), objective) for name in names)


def _class(run: Run, mask: Mask, name: str, objective: Slo | None) -> ClassSummary:
    requests = run.requests[mask]
    good = requests[requests["outcome"] == schema.SUCCESS]
    pool = gaps.pool(run.token_rows, mask & (run.requests["outcome"] == schema.SUCCESS).to_numpy())
    return ClassSummary(
        name=name,
        counts=count_outcomes(requests),
        latencies=_latencies(good, metrics.stats_of_ordered(pool.ordered_ms, pool.refused)),
        input_tokens_requested=_known(good["input_tokens_requested"].mean()),
        input_tokens=_known(good["input_tokens"].mean()),
        output_tokens_requested=_known(good["output_tokens_requested"].mean()),
        output_tokens=_known(good["output_tokens"].mean()),
        slo_attainment=slo.attained(requests, 0, objective).share if objective else None,
    )


def _class_order(name: str) -> tuple[float, str]:
    digits = "".join(character for character in str(name) if character.isdigit())
    return (float(digits) if digits else math.inf, str(name))


def _slices(
    run: Run, level: Level, mask: Mask, flow: TokenFlow, objective: Slo | None, window_s: float | None
) -> tuple[WindowSummary, ...]:
    """A level cut into equal windows; a request belongs to the one in which it was sent."""
    if not window_s or not window_s < level.window.seconds <= MOST_SLICES * window_s:
        return ()
    slices = []
    for number in range(math.ceil(round(level.window.seconds / window_s, 9))):
        start = level.window.start_unix_s + number * window_s
        part = Window(start, min(start + window_s, level.window.end_unix_s))
        requests = run.requests[mask & part.holds(windows.sent_unix_s(run.requests))]
        good = requests[requests["outcome"] == schema.SUCCESS]
        slices.append(
            WindowSummary(
                start_unix_s=start,
                seconds=part.seconds,
                counts=count_outcomes(requests),
                ttft_ms=metrics.stats(metrics.ttft_ms(good)),
                tpot_ms=metrics.stats(metrics.tpot_ms(good)),
                e2e_ms=metrics.stats(metrics.e2e_ms(good)),
                output_tok_s=_rate(flow.in_window(part), part),
                slo_attainment=slo.attained(requests, 0, objective).share if objective else None,
            )
        )
    return tuple(slices)


def _token_rates(requests: pd.DataFrame, flow: TokenFlow, window: Window) -> tuple[float | None, float | None]:
    """Output tokens, and output + prompt tokens, per second; a prompt counts when its first token arrives."""
    output = _rate(flow.in_window(window), window)
    counts = requests["outcome"].isin([schema.SUCCESS, schema.CUT_OFF])
    first = np.asarray(requests["sent_unix_s"] + requests["first_token_ms"] / 1000)
    prompts = requests["input_tokens"].fillna(requests["input_tokens_requested"])
    read = _rate(float(prompts[counts & window.holds(first)].sum()), window)
    return output, None if output is None or read is None else output + read


def _request_rate(requests: pd.DataFrame, window: Window) -> float | None:
    """Successes that ended inside the window per second."""
    good = requests[requests["outcome"] == schema.SUCCESS]
    return _rate(int(window.holds(windows.ended_unix_s(good)).sum()), window)


def _rate(amount: float, window: Window) -> float | None:
    return None if math.isnan(window.seconds) else amount / window.seconds


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
