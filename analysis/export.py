"""Summaries as CSV, Markdown and JSON. One row per level and length class; every column carries its unit."""

import csv
import io
import json
from typing import Any

from analysis import metrics
from analysis.metrics import PERCENTILES, Stats
from analysis.summary import ClassSummary, Counts, Latencies, LevelSummary, RunSummary
from analysis.text import ms, number, percent

LATENCIES = (
    "ttft_ms",
    "ttft_from_plan_ms",
    "first_answer_ms",
    "tpot_ms",
    "itl_ms",
    "e2e_ms",
    "e2e_from_plan_ms",
    "queue_ms",
)
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def to_json(summary: RunSummary) -> str:
    """The whole summary; absent values are null."""
    units = {"units": metrics.UNITS}
    return json.dumps(summary.to_dict() | units, indent=2, ensure_ascii=False, allow_nan=False)


def to_csv(summary: RunSummary) -> str:
    """One row per level (`length_class` empty) and one per length class of it."""
    rows = []
    for level in summary.levels:
        rows.append(_level_row(level))
        rows += [_class_row(level, part) for part in level.classes]
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=_columns(), restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return out.getvalue()


def spreadsheet_safe(text: str) -> str:
    """Text from the engine, quoted where a spreadsheet would run it as a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def to_markdown(summary: RunSummary) -> str:
    """Verdict, answer and the table by level, for an issue or a job summary."""
    lines = [
        f"### {md(summary.name)}: {summary.verdict.status}",
        "",
        f"**{md(summary.answer)}**",
        "",
        *(f"- {reason.severity}: {md(reason.text)}; {md(reason.advice)}" for reason in summary.verdict.reasons),
        "",
        *_md_levels(summary),
    ]
    if summary.errors:
        lines += ["", "| error | text | count |", "|---|---|---:|"]
        lines += [f"| {md(name)} | {md(text)[:120]} | {count} |" for name, text, count in summary.errors[:10]]
    return "\n".join(lines) + "\n"


def _md_levels(summary: RunSummary) -> list[str]:
    titles = [
        "concurrency", "achieved", "started", "success", "TTFT mean / p50 / p95 / p99 ms", "TPOT mean / p50 / p95 / p99 ms",
        "E2E p95 ms", "output tok/s", "req/s", "tok/s/user", "SLO met", "goodput/s", "verdict",
    ]  # fmt: skip
    lines = ["| " + " | ".join(titles) + " |", "|" + "---:|" * (len(titles) - 1) + "---|"]
    for level in summary.levels:
        cells = [
            level.label,
            number(level.achieved_concurrency),
            str(level.counts.started),
            str(level.counts.success),
            _md_stats(level.latencies.ttft_ms),
            _md_stats(level.latencies.tpot_ms),
            ms(level.latencies.e2e_ms.p95),
            number(level.output_tok_s),
            number(level.requests_s, 2),
            number(level.tok_s_per_user),
            percent(level.slo_attainment),
            number(level.goodput_requests_s, 2),
            level.verdict.status,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _md_stats(values: Stats) -> str:
    return " / ".join(ms(value) for value in (values.mean, values.p50, values.p95, values.p99))


def md(text: str) -> str:
    """Text on one line that Markdown and HTML leave alone."""
    flat = " ".join(text.split())
    for character in "\\|<>`*_[]":
        flat = flat.replace(character, f"\\{character}")
    return flat


def _columns() -> list[str]:
    head = ["level", "mode", "requested", "length_class", "achieved_concurrency", "window_s", "verdict"]
    counts = ["planned", "dropped", "missed", "started", "success", "failure", "empty", "cut_off"]
    rates = ["output_tok_s", "total_tok_s", "requests_s", "tok_s_per_user", "time_to_1000_tokens_ms"]
    slo = ["slo_attainment", "meets_slo", "goodput_requests_s"]
    lengths = ["input_tokens_requested", "input_tokens", "output_tokens_requested", "output_tokens"]
    stats = [f"{name.removesuffix('_ms')}_{part}" for name in LATENCIES for part in _stat_names()]
    bounded = ["output_tok_s", "requests_s", "slo_attainment", "goodput_requests_s", "itl_mean_ms"]
    bounded += [
        f"{name}_{part}_ms" for name in ("ttft", "tpot", "e2e") for part in ("mean", *(f"p{p}" for p in PERCENTILES))
    ]
    intervals = [f"{name}_{end}" for name in bounded for end in ("low", "high")]  # 95 %
    return head + counts + rates + slo + lengths + stats + intervals + ["failures"]


def _stat_names() -> list[str]:
    return ["n", "mean_ms", *(f"p{p}_ms" for p in PERCENTILES), "max_ms"]


def _level_row(level: LevelSummary) -> dict[str, Any]:
    own = ("level", "mode", "requested", "planned", "dropped", "missed", "achieved_concurrency", "window_s", "output_tok_s", "total_tok_s", "requests_s",
           "tok_s_per_user", "time_to_1000_tokens_ms", "slo_attainment", "meets_slo", "goodput_requests_s")  # fmt: skip
    row = {name: getattr(level, name) for name in own}
    for name, interval in level.intervals.items():
        row |= {f"{name}_low": interval.low, f"{name}_high": interval.high}
    return row | {"verdict": level.verdict.status} | _count_cells(level.counts) | _latency_cells(level.latencies)


def _class_row(level: LevelSummary, part: ClassSummary) -> dict[str, Any]:
    own = ("input_tokens_requested", "input_tokens", "output_tokens_requested", "output_tokens", "slo_attainment")
    row = {"level": level.level, "requested": level.requested, "length_class": part.name}
    row |= {name: getattr(part, name) for name in own}
    return row | _count_cells(part.counts) | _latency_cells(part.latencies)


def _count_cells(counts: Counts) -> dict[str, Any]:
    cells = {name: getattr(counts, name) for name in ("started", "success", "failure", "empty", "cut_off")}
    return cells | {"failures": " ".join(f"{name}={count}" for name, count in counts.failures.items())}


def _latency_cells(latencies: Latencies) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name in LATENCIES:
        values: Stats = getattr(latencies, name)
        short = name.removesuffix("_ms")
        cells[f"{short}_n"] = values.n
        for part in ("mean", *(f"p{p}" for p in PERCENTILES), "max"):
            cells[f"{short}_{part}_ms"] = getattr(values, part)
    return cells


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return spreadsheet_safe(str(value))
