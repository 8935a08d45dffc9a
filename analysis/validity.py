"""Can the numbers of a level be believed? Each check looks at one kind of evidence and yields what it found.

Checks of the whole run are in `analysis.run_validity`.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis import metrics, schema
from analysis.client import DISPATCH_MS, LATE_MS, ClientHealth
from analysis.open_loop import Schedule
from analysis.runs import Run
from analysis.steady import Steady
from analysis.tails import WorkerSummary
from analysis.verdict import Reason, Severity, Verdict, verdict
from analysis.windows import Level

ACHIEVED_SHARE = 0.95  # of the requested concurrency
NOTICED_AFTER_S = 5.0  # so long after its last heartbeat a worker counts as lost
CPU_SUSPECT, CPU_BOUND = 75.0, 90.0  # percent of one core: one process is one Python thread
LATE_SHARE = 0.05  # of worker-seconds
LAG_PEAK_MS = 200.0
COALESCED_SHARE = 0.2
FAILED_SHARE = 0.05
EARLY_STOP_SHARE = 0.01
BURST_SHARE = 0.05
CACHED_SHARE = 0.01
LENGTH_SHARE = 0.02
NEW_CONNECTION_SHARE = 0.1
DISPATCH_SHARE = 0.05
STEADY_RATE_SHARE = 0.05
UNSENT_SHARE = 0.01
RATE_SHARE = 0.05


def judge_level(
    run: Run,
    level: Level,
    requests: pd.DataFrame,
    achieved: float | None,
    client: ClientHealth,
    schedule: Schedule | None = None,
    output_tok_s: float | None = None,
    steady: Steady | None = None,
    workers: Iterable[WorkerSummary] = (),
) -> Verdict:
    """Verdict on one level from its measured requests and how its client did."""
    good = requests[requests["outcome"] == schema.SUCCESS]
    scenario = run.info.get("scenario") or {}
    workload, load = scenario.get("workload") or {}, scenario.get("load") or {}
    return verdict(
        [
            *_load(level, requests, achieved),
            *_schedule(level, schedule),
            *_client(client),
            *([] if level.mode == "batch" else _late(client, capped=bool(load.get("max_in_flight")))),
            *([] if level.mode == "batch" else _steady(steady, output_tok_s)),
            *_differing(workers),
            *_lost_workers(run.info, level),
            *_outcomes(requests, good),
            *_tokens(good, bool(workload.get("ignore_eos"))),
            *_prompts(good),
            *_enough(good),
        ]
    )


def _load(level: Level, requests: pd.DataFrame, achieved: float | None) -> Iterable[Reason]:
    if achieved is None:
        yield Reason("suspect", "the measure phase never began", "let the run reach its measure phase")
    elif level.requested and level.mode == "concurrency" and achieved < ACHIEVED_SHARE * level.requested:
        yield Reason(
            "suspect",
            f"concurrency {level.requested:g} requested, {achieved:.1f} achieved",
            "look for failures, waiting between requests or a measure phase shorter than one request",
        )
    yield from _arrivals(level, requests)
    if not level.complete:
        yield Reason("suspect", "stopped before the last measured request had ended", "let the level run to its end")
    if level.derived:
        yield Reason(
            "note", "levels.csv does not hold this level; its window is derived", "keep levels.csv with the run"
        )


def _arrivals(level: Level, requests: pd.DataFrame) -> Iterable[Reason]:
    """Open loop: was every arrival sent, and at the rate that was asked for?"""
    unsent = level.dropped + level.missed
    if unsent and unsent > UNSENT_SHARE * (len(requests) + unsent):
        text = f"{unsent} of {len(requests) + unsent} arrivals were not sent: {level.dropped} dropped, {level.missed} missed"
        yield Reason("suspect", text, "allow more requests in flight; the engine does not keep up with this load")
    if level.mode == "rate" and level.requested and level.window.seconds > 0:
        rate = (len(requests) + unsent) / level.window.seconds
        due = level.requested * level.window.seconds
        # a Poisson count wavers by its square root
        if abs(rate / level.requested - 1) > max(RATE_SHARE, 4 / math.sqrt(due)):
            text = f"{level.requested:g} requests/s asked for, {rate:.4g} arrived"
            yield Reason("suspect", text, "use more workers; look whether the schedule was held")


def _schedule(level: Level, schedule: Schedule | None) -> Iterable[Reason]:
    """Open loop: were requests sent as fast as they were due?"""
    if schedule is None or schedule.reached:
        return
    asked = level.requested if level.mode == "rate" and level.requested else schedule.due_s
    lag50, lag99 = schedule.lag_p50_ms or 0.0, schedule.lag_p99_ms or 0.0
    text = (
        f"rate not reached: {asked:.4g} requests/s asked for, {schedule.sent_s:.4g} sent; "
        f"starts lag behind the plan by {lag50:,.0f} ms (p50), {lag99:,.0f} ms (p99)"
    )
    yield Reason(
        "suspect", text, "the system is saturated: latency from the plan grows with time, that from sent does not"
    )


def _client(client: ClientHealth) -> Iterable[Reason]:
    cpu, late, lag = client.busiest_cpu_percent, client.late_seconds_share or 0.0, client.hub_lag_max_ms or 0.0
    if cpu is not None and cpu >= CPU_SUSPECT:
        severity: Severity = "client-bound" if cpu >= CPU_BOUND else "suspect"
        yield Reason(severity, f"a worker used {cpu:.0f} % of its core", "use more workers (--processes, or machines)")
    if late > LATE_SHARE or lag > LAG_PEAK_MS:
        severity = "client-bound" if late > LATE_SHARE else "suspect"
        text = f"workers' event loops were up to {lag:.0f} ms late ({late:.0%} of seconds over {LATE_MS:g} ms)"
        yield Reason(severity, text, "use more workers; take other programs off the load machine")
    if (share := client.coalesced_share or 0.0) > COALESCED_SHARE:
        text = f"{share:.0%} of reads held several segments under one stamp"
        yield Reason("suspect", text, "gaps between tokens are coarse: use more workers")
    if client.callback_stamps_share:
        # bench/triton_grpc.py, median of five runs on two cores
        text = (
            "arrivals over gRPC have no kernel stamps: on a free machine 99 % of them were at most 1 ms late "
            "at 400 responses/s a worker, 2.3 ms at 1,600"
        )
        yield Reason("note", text, "use more workers; generate_stream has kernel stamps")
    if (share := client.new_connection_share or 0.0) > NEW_CONNECTION_SHARE:
        text = f"{share:.0%} of requests opened a connection of their own"
        yield Reason("note", text, "the server may close idle connections; connecting is not part of TTFT here")


def _late(client: ClientHealth, *, capped: bool) -> Iterable[Reason]:
    """Starts behind the plan: the client's fault, or that of the cap on requests in flight."""
    if (share := client.dispatch_late_share or 0.0) > DISPATCH_SHARE:
        most = client.dispatch_lag_max_ms or 0.0
        text = f"{share:.0%} of requests started more than {DISPATCH_MS:g} ms after their plan (up to {most:.0f} ms)"
        if capped:
            advice = "they waited for a place below load.max_in_flight: latency from the plan holds it, from sent not"
            yield Reason("suspect", text, advice)
        else:
            yield Reason("client-bound", text, "use more workers, or allow more requests in flight")


def _steady(steady: Steady | None, output_tok_s: float | None) -> Iterable[Reason]:
    if steady is None or not output_tok_s:
        return
    off = steady.output_tok_s / output_tok_s - 1
    if abs(off) > STEADY_RATE_SHARE:
        text = (
            f"not steady: without its first {steady.trimmed_start_s:.0f} s and last {steady.trimmed_end_s:.0f} s "
            f"the window gives {steady.output_tok_s:,.0f} tokens/s and not {output_tok_s:,.0f}"
        )
        yield Reason("suspect", text, "warm up for longer, and measure for longer")


def _differing(workers: Iterable[WorkerSummary]) -> Iterable[Reason]:
    for worker in workers:
        if worker.differs:
            text = f"worker {worker.worker} measures otherwise than the others: {worker.differs}"
            yield Reason("suspect", text, "look at its machine and its way to the engine")


def _lost_workers(info: Mapping[str, Any], level: Level) -> Iterable[Reason]:
    """Workers that went missing while the level ran: its load was not held until their users were moved."""
    ends = level.tail_end_unix_s if np.isfinite(level.tail_end_unix_s) else level.window.end_unix_s
    for event in info.get("worker_events") or []:
        since_s = event["unix_s"] - level.window.start_unix_s
        if event["event"] == "lost" and level.ramp_start_unix_s <= event["unix_s"] <= ends + NOTICED_AFTER_S:
            text = f"worker {event['worker']} was lost {since_s:.0f} s into the measure phase; the load was not held"
            yield Reason("suspect", text, "its users moved to the others seconds later; run the level again")


def _outcomes(requests: pd.DataFrame, good: pd.DataFrame) -> Iterable[Reason]:
    if not len(requests):
        yield Reason("suspect", "no request was sent in the measure phase", "measure for longer")
        return
    kept = len(metrics.kept(requests))
    lost = 1 - len(good) / kept if kept else 0.0
    if lost >= FAILED_SHARE:
        text = f"{lost:.1%} of requests gave no complete answer; latencies are those of the rest"
        yield Reason("suspect", text, "see the errors; lower the load or raise the limits of the engine")


def _tokens(good: pd.DataFrame, ignore_eos: bool) -> Iterable[Reason]:
    if not len(good):
        return
    estimated = float((good["output_tokens_source"] == schema.ESTIMATED).mean())
    if estimated:
        text = f"output tokens of {estimated:.0%} of answers are estimated from events"
        yield Reason("suspect", text, "let the server send usage, or configure a tokenizer")
    early = float((good["output_tokens"] < good["output_tokens_requested"]).mean())
    if ignore_eos and early > EARLY_STOP_SHARE:
        text = f"{early:.0%} of answers are shorter than asked for although the end token is to be ignored"
        yield Reason("suspect", text, "the engine may not know ignore_eos: lengths differ between runs")
    several = good[good["output_tokens"] >= 2]
    burst = several["token_events"].le(1) | (several["last_token_ms"] - several["first_token_ms"]).le(0)
    if len(several) and burst.mean() > BURST_SHARE:
        text = f"{burst.mean():.0%} of answers came in one burst: no time between their tokens"
        yield Reason("suspect", text, "a proxy may buffer the stream, or streaming is off")


def _prompts(good: pd.DataFrame) -> Iterable[Reason]:
    cached, total = good["cached_tokens"].sum(), good["input_tokens"].sum()
    if total and cached / total > CACHED_SHARE:
        text = f"{cached / total:.0%} of prompt tokens came from the prefix cache"
        yield Reason("suspect", text, "TTFT is that of a warm cache; make prompts unique or switch the cache off")
    both = good[good["input_tokens"].notna() & (good["input_tokens_requested"] > 0)]
    if len(both):
        off = both["input_tokens"].sum() / both["input_tokens_requested"].sum() - 1
        if abs(off) > LENGTH_SHARE:
            text = f"prompts are {abs(off):.0%} {'longer' if off > 0 else 'shorter'} by the server's count than planned"
            yield Reason("suspect", text, "calibrate the prompt length to the server's tokenizer and chat template")


def _enough(good: pd.DataFrame) -> Iterable[Reason]:
    few = [f"p{p}" for p in metrics.PERCENTILES if len(good) < metrics.ENOUGH[p]]
    if len(good) and few:
        text = f"{len(good)} successful requests are too few for {', '.join(few)}"
        yield Reason("note", text, f"measure at least {metrics.ENOUGH[99]} requests for p99")
