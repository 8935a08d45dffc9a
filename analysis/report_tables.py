"""The tables of a report about its levels; which of them it has, and in what order, is left to `analysis.report_text`."""

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from analysis.metrics import PERCENTILES, Stats
from analysis.summary import LevelSummary, RunSummary
from analysis.text import NONE, endless, ms, new_table, number, percent

WARM_UP = "warm-up TTFT"  # shown apart: it counts in no other figure
OF_A_PLAN = ("TTFT from plan", "E2E from plan", "dispatch lag")
INTERVAL_NAMES = {"TTFT": "ttft", "TPOT": "tpot", "ITL": "itl", "inter-chunk": "itl", "E2E": "e2e"}
COLOURS = {"valid": "green", "suspect": "yellow", "client-bound": "red", "note": "dim"}


def load_table(summary: RunSummary) -> Table:
    open_loop = any(level.planned is not None for level in summary.levels)
    arrivals = ("planned", "dropped", "missed") if open_loop else ()
    what = "Levels" if open_loop else "Levels (concurrency)"
    table = new_table(
        f"{what} and what became of their measured requests",
        "level", "in flight" if open_loop else "achieved", *arrivals,
        "started", "success", "failed", "empty", "cut off", "verdict",
    )  # fmt: skip
    for level in summary.levels:
        counts = level.counts
        row = [level.label, number(level.achieved_concurrency)]
        row += [number(level.planned, 0), str(level.dropped), str(level.missed)] if open_loop else []
        row += [str(n) for n in (counts.started, counts.success, counts.failure, counts.empty)]
        row.append(f"{counts.cut_off}{f' ({counts.cancelled} planned)' if counts.cancelled else ''}")
        table.add_row(*row, Text(level.verdict.status, style=COLOURS[level.verdict.status]))
    return table


def batch_table(summary: RunSummary) -> Table:
    table = new_table(
        "Offline batch: from the first request to the end of the last one",
        "level", "seconds", "requests/s", "output tokens", "output tok/s", "total tok/s", "in flight",
    )  # fmt: skip
    for level in summary.levels:
        table.add_row(
            level.label,
            number(level.window_s, 2),
            number(level.requests_s, 2),
            number(level.tokens.output_tokens, 0),
            number(level.output_tok_s),
            number(level.total_tok_s),
            number(level.achieved_concurrency),
        )
    return table


def rate_table(summary: RunSummary) -> Table:
    open_loop = any(level.schedule for level in summary.levels)
    table = new_table(
        "Rates over the measure window (± half of the 95 % interval)",
        "level", *(("due/s", "sent/s") if open_loop else ()), "output tok/s", "total tok/s", "req/s", "tok/s/user", "1000 tokens", "SLO met", "goodput/s",
    )  # fmt: skip
    for level in summary.levels:
        thousand, kept = level.time_to_1000_tokens_ms, level.schedule
        table.add_row(
            f"{level.label}{' *' if level.level == summary.best_level else ''}",
            *((number(kept.due_s if kept else None, 2), number(kept.sent_s if kept else None, 2)) if open_loop else ()),
            number(level.output_tok_s) + _plus_minus(level, "output_tok_s"),
            number(level.total_tok_s),
            number(level.requests_s, 2),
            number(level.tok_s_per_user),
            f"{thousand / 1000:.1f} s" if thousand is not None else NONE,
            percent(level.slo_attainment),
            number(level.goodput_requests_s, 2),
        )
    if summary.best_level is not None:
        table.caption = "* highest level that meets the SLO"
        table.caption_justify = "left"
    return table


def latency_rows(level: LevelSummary, chunked: bool) -> list[tuple[str, Stats]]:
    """The latency metrics that a level has, under their names."""
    latencies = level.latencies
    rows = [
        ("TTFT", latencies.ttft_ms),
        ("TTFT from plan", latencies.ttft_from_plan_ms),
        ("TPOT", latencies.tpot_ms),
        ("inter-chunk" if chunked else "ITL", latencies.itl_ms),
        ("E2E", latencies.e2e_ms),
        ("E2E from plan", latencies.e2e_from_plan_ms),
        ("dispatch lag", latencies.queue_ms),
    ]
    if latencies.first_answer_ms.n and latencies.first_answer_ms.mean != latencies.ttft_ms.mean:
        rows.insert(2, ("first answer", latencies.first_answer_ms))
    rows.append((WARM_UP, level.warmup_ttft_ms))
    return [(name, values) for name, values in rows if values.n or name not in (*OF_A_PLAN, WARM_UP)]


def _plus_minus(level: LevelSummary, figure: str) -> str:
    """Half the width of a figure's 95 % interval, for example " ±1.2"; empty where the run is too short for one."""
    interval = level.intervals.get(figure)
    return f" ±{ms((interval.high - interval.low) / 2)}" if interval else ""


def _latency_cells(values: Stats, error: str) -> list[Text]:
    # greyed: with so few values this percentile is the maximum or close to it
    ranks = [Text(ms(getattr(values, f"p{p}")), style="" if values.enough_for(p) else "dim") for p in PERCENTILES]
    return [Text(str(values.n)), Text(ms(values.mean) + error), *ranks, Text(ms(values.max))]


def latency_table(summary: RunSummary) -> Table:
    table = new_table(
        "Latencies of successful requests, ms (nearest rank; grey: too few values)",
        "level", "metric", "n", "mean", "p50", "p90", "p95", "p99", "max", left=2,
    )  # fmt: skip
    for level in summary.levels:
        for position, (name, values) in enumerate(latency_rows(level, summary.chunked)):
            error = _plus_minus(level, f"{INTERVAL_NAMES.get(name)}_mean_ms")
            table.add_row("" if position else level.label, name, *_latency_cells(values, error))
        table.add_section()
    return table


def tail_table(summary: RunSummary) -> Table:
    table = new_table(
        f"Tails (adjusted: all started requests, failures take for ever; stall: a gap over {_stall_limit(summary):g} ms)",
        "level", "longest gap p50", "p99", "max", "stalls/1k tokens", "adjusted TTFT p95", "p99", "fairness", "steady",
    )  # fmt: skip
    for level in summary.levels:
        tail, gap = level.tails, level.tails.longest_gap_ms
        table.add_row(
            level.label,
            *(ms(value) for value in (gap.p50, gap.p99, gap.max)),
            number(tail.stalls_per_1k_tokens, 2),
            *(endless(tail.ttft_adjusted_ms.get(p)) for p in ("p95", "p99")),
            number(tail.fairness, 3),
            f"{level.steady.share:.0%}" if level.steady else NONE,
        )
    return table


def _stall_limit(summary: RunSummary) -> float:
    return summary.levels[0].tails.stall_limit_ms if summary.levels else 0.0


def token_table(summary: RunSummary) -> Table:
    table = new_table(
        "Token audit (successful requests)",
        "level", "counted by", "output", "asked for", "events", "tokens/event", "stopped early", "reasoning", "input vs plan",
    )  # fmt: skip
    for level in summary.levels:
        audit = level.tokens
        table.add_row(
            level.label,
            escape(", ".join(audit.sources)) or NONE,
            *(number(value, 0) for value in (audit.output_tokens, audit.output_tokens_requested, audit.token_events)),
            number(audit.tokens_per_event, 2),
            *(percent(share) for share in (audit.early_stop_share, audit.reasoning_share)),
            f"{audit.input_off_share * 100:+.1f} %" if audit.input_off_share is not None else NONE,
        )
    return table


def class_table(summary: RunSummary) -> Table:
    table = new_table(
        "By length class",
        "level", "class", "started", "success", "input asked", "input", "output",
        "TTFT mean", "TTFT p95", "TPOT mean", "TPOT p95", "E2E p95", "SLO met", left=2,
    )  # fmt: skip
    for level in summary.levels:
        _class_rows(table, level)
        table.add_section()
    return table


def _class_rows(table: Table, level: LevelSummary) -> None:
    for position, part in enumerate(level.classes):
        ttft, tpot, e2e = part.latencies.ttft_ms, part.latencies.tpot_ms, part.latencies.e2e_ms
        table.add_row(
            "" if position else level.label,
            escape(part.name),
            str(part.counts.started),
            str(part.counts.success),
            number(part.input_tokens_requested, 0),
            number(part.input_tokens, 0),
            number(part.output_tokens, 0),
            *(ms(value) for value in (ttft.mean, ttft.p95, tpot.mean, tpot.p95, e2e.p95)),
            percent(part.slo_attainment),
        )


def window_table(summary: RunSummary) -> Table:
    table = new_table(
        "By time",
        "level", "from s", "started", "failed", "tok/s", "TTFT p50", "TTFT p95", "TPOT p50", "TPOT p95", "SLO met",
    )  # fmt: skip
    for level in summary.levels:
        for part in level.windows:
            table.add_row(
                level.label,
                number(part.start_unix_s - level.window.start_unix_s, 0),
                str(part.counts.started),
                str(part.counts.failure),
                number(part.output_tok_s),
                *(ms(value) for value in (part.ttft_ms.p50, part.ttft_ms.p95, part.tpot_ms.p50, part.tpot_ms.p95)),
                percent(part.slo_attainment),
            )
        table.add_section()
    return table
