"""Computes the summary of a run.

Latency statistics are over the successful measured requests; rates are over the measure window.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

import numpy as np
import pandas as pd

from analysis import gaps, intervals, metrics, run_validity, schema, slo, steady, tails, tokens, validity, windows
from analysis.client import client_health
from analysis.intervals import Interval
from analysis.metrics import Stats
from analysis.open_loop import schedule_of
from analysis.runs import Run
from analysis.slo import Slo
from analysis.summary import ClassSummary, Counts, Latencies, LevelSummary, RunSummary, WindowSummary
from analysis.tails import Tails
from analysis.windows import Level, Mask, TokenFlow, Window

MOST_SLICES = 2000
CHUNKED_TOKENS_PER_EVENT = 1.05  # above, gaps are between chunks and not between tokens


def summarise(run: Run, objective: Slo | None = None) -> RunSummary:
    """All figures of a run; `objective` replaces the SLO of its scenario."""
    scenario = run.info.get("scenario") or {}
    objective = objective or slo.from_scenario(scenario)
    flow = windows.token_flow(run)
    window_s = (scenario.get("report") or {}).get("window_s")
    levels = tuple(_level(run, level, flow, objective, window_s) for level in windows.levels(run))
    best = _found(levels, run.info.get("search")) or _best(levels)
    started, ended = _bounds(run)
    per_event = metrics.tokens_per_event(run.requests)
    return RunSummary(
        schema_version=schema.SCHEMA_VERSION,
        run_id=str(run.info.get("run_id") or run.path.name),
        name=run.name,
        folder=str(run.path),
        started=iso(started),
        ended=iso(ended),
        duration_s=ended - started if ended > started else None,
        info=run.info,
        slo=objective,
        verdict=run_validity.judge_run(run, [level.verdict for level in levels]),
        answer=search_answer(run.info.get("search"), objective) or answer(levels, best, objective),
        best_level=best.level if best else None,
        chunked=per_event is not None and per_event > CHUNKED_TOKENS_PER_EVENT,
        spread_tokens=flow.spread,
        counts=_counts(run.requests),
        errors=_errors(run.requests),
        damages=tuple(f"{damage.file} line {damage.line}: {damage.reason}" for damage in run.damages[:50]),
        invalid=run.invalid,
        levels=levels,
    )


def search_answer(search: Mapping[str, Any] | None, objective: Slo | None) -> str | None:
    """What a search has found, in one sentence; None where there was none."""
    if not search or not search.get("tried") or objective is None:
        return None
    tried, unit = search["tried"], "concurrent requests" if search["over"] == "concurrency" else "requests/s"
    runs = sum(len(each["runs"]) for each in tried)
    if search["level"] is None:
        text = f"Not even {tried[0]['level']:g} {unit} keep {objective.text()}"
    else:
        text = f"The highest load that keeps {objective.text()} is {search['level']:g} {unit}"
        text += ", the highest that was to be tried" if search["at_limit"] else ""
    unfinished = "" if search["finished"] else "; the search did not come to its end"
    return f"{text} (confidence {search['confidence']:.0%}, {runs} runs of {len(tried)} levels{unfinished})."


def _found(levels: tuple[LevelSummary, ...], search: Mapping[str, Any] | None) -> LevelSummary | None:
    """The level that a search has answered with: its best run."""
    runs = [level for level in levels if search and level.requested == search.get("level")]
    return max(runs, key=lambda level: level.slo_attainment or 0.0, default=None)


def answer(levels: tuple[LevelSummary, ...], best: LevelSummary | None, objective: Slo | None) -> str:
    """The run in one sentence."""
    if not any(level.counts.success for level in levels):
        return "No request succeeded: there is nothing to measure but the errors."
    if objective is None:
        top = max(levels, key=lambda level: level.output_tok_s or 0)
        return f"Highest throughput {top.output_tok_s or 0:,.0f} output tokens/s at {top.load}; no SLO was set."
    if best is None:
        return f"No level meets the SLO {objective.text()}."
    failed_below = [level.label for level in levels if not level.meets_slo and _load_of(level) < _load_of(best)]
    load = f"{best.label} concurrent requests" if best.mode == "concurrency" else best.load
    text = f"Up to {load} under {objective.text()}: {best.output_tok_s or 0:,.0f} output tokens/s."
    return f"{text} (Missed at {', '.join(failed_below)}, which is lower: look there.)" if failed_below else text


def iso(unix_s: float, zone: tzinfo = UTC) -> str | None:
    """An instant with its zone, for example 2026-01-31T12:00:00Z."""
    if not math.isfinite(unix_s):
        return None
    return datetime.fromtimestamp(unix_s, zone).isoformat(timespec="seconds").replace("+00:00", "Z")


def _level(run: Run, level: Level, flow: TokenFlow, objective: Slo | None, window_s: float | None) -> LevelSummary:
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
        counts=_counts(requests),
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


def _counts(requests: pd.DataFrame) -> Counts:
    found = requests["outcome"].value_counts()
    failed = requests.loc[requests["outcome"] == schema.FAILURE, "error_class"].fillna("unknown").value_counts()
    known = {outcome: int(found.get(outcome, 0)) for outcome in schema.OUTCOMES}
    return Counts(
        started=len(requests),
        cancelled=len(requests) - len(metrics.kept(requests)),
        failures={str(name): int(count) for name, count in failed.items()},
        **known,
    )


def _errors(requests: pd.DataFrame) -> tuple[tuple[str, str, int], ...]:
    failed = requests[requests["outcome"] == schema.FAILURE]
    groups = failed.fillna({"error_class": "unknown", "error_text": ""}).groupby(["error_class", "error_text"]).size()
    top = groups.sort_values(ascending=False).head(50)
    rows = top.reset_index(name="count").to_dict("records")
    return tuple((str(row["error_class"]), str(row["error_text"]), int(row["count"])) for row in rows)


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
        counts=_counts(requests),
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
                counts=_counts(requests),
                ttft_ms=metrics.stats(metrics.ttft_ms(good)),
                tpot_ms=metrics.stats(metrics.tpot_ms(good)),
                e2e_ms=metrics.stats(metrics.e2e_ms(good)),
                output_tok_s=_rate(flow.in_window(part), part),
                slo_attainment=slo.attained(requests, 0, objective).share if objective else None,
            )
        )
    return tuple(slices)


def _rate(amount: float, window: Window) -> float | None:
    return None if math.isnan(window.seconds) else amount / window.seconds


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


def _best(levels: tuple[LevelSummary, ...]) -> LevelSummary | None:
    return max((level for level in levels if level.meets_slo), key=_load_of, default=None)


def _load_of(level: LevelSummary) -> float:
    return level.requested if level.requested is not None else float(level.level)


def _bounds(run: Run) -> tuple[float, float]:
    start, end = run.info.get("started_unix_s"), run.info.get("ended_unix_s")
    sent = run.requests["sent_unix_s"]
    ended = windows.ended_unix_s(run.requests)
    first = float(start) if isinstance(start, (int, float)) else float(sent.min()) if sent.notna().any() else math.nan
    if isinstance(end, (int, float)):
        return first, float(end)
    return first, float(np.nanmax(ended)) if np.isfinite(ended).any() else math.nan


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
