"""The report on a terminal: verdict and answer first, then load, latencies, tails, token audit and classes."""

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from analysis import report_tables as tables
from analysis.report_tables import COLOURS
from analysis.summary import Counts, RunSummary
from analysis.text import NONE, new_table, print_rendered
from analysis.verdict import Verdict


def print_summary(summary: RunSummary, console: Console | None = None) -> None:
    """Print the report; a pipe gets a fixed width and no colours."""
    print_rendered(render(summary), console or Console())


def render(summary: RunSummary) -> RenderableType:
    """The whole report as one rich renderable."""
    parts: list[RenderableType] = [_heading(summary), _verdict_text("Run", summary.verdict)]
    parts += [_verdict_text(f"Level {level.label}", level.verdict) for level in summary.levels if level.verdict.reasons]
    parts += [Text(summary.answer, style="bold"), tables.load_table(summary)]
    parts.append(tables.batch_table(summary) if _is_batch(summary) else tables.rate_table(summary))
    if _is_batch(summary):
        parts.append(tables.token_table(summary))
    elif any(level.counts.success for level in summary.levels):
        parts += [tables.latency_table(summary), tables.tail_table(summary), tables.token_table(summary)]
        if any(len(level.classes) > 1 for level in summary.levels):
            parts.append(tables.class_table(summary))
    if any(level.windows for level in summary.levels):
        parts.append(tables.window_table(summary))
    if summary.errors:
        parts.append(_error_table(summary))
    return Group(*parts)


def _is_batch(summary: RunSummary) -> bool:
    """Whether everything was sent at once: only the throughput counts then."""
    return bool(summary.levels) and all(level.mode == "batch" for level in summary.levels)


def _heading(summary: RunSummary) -> Text:
    info = summary.info
    parts = [info.get("model"), info.get("api"), info.get("host"), info.get("engine")]
    place = " · ".join(str(part) for part in parts if part)
    when = f"{summary.started or NONE} to {summary.ended or NONE}"
    return Text.assemble(
        (summary.name, "bold"), f"  {place}\n{when} · {summary.folder}\n{_what_became_of(summary.counts)}"
    )


def _what_became_of(counts: Counts) -> str:
    """All requests of a run by their outcome, whatever their phase."""
    failures = ", ".join(f"{count} {name}" for name, count in counts.failures.items())
    failed = f"{counts.failure} failed{f' ({failures})' if failures else ''}"
    return (
        f"{counts.started} requests started: {counts.success} succeeded, {failed}, {counts.empty} empty, "
        f"{counts.cut_off} cut off{f' ({counts.cancelled} as planned)' if counts.cancelled else ''}"
    )


def _verdict_text(what: str, verdict: Verdict) -> Text:
    text = Text.assemble(f"{what}: ", (verdict.status, f"bold {COLOURS[verdict.status]}"))
    for reason in verdict.reasons:
        text.append(f"\n  {reason.severity}: {reason.text}; {reason.advice}", style=COLOURS[reason.severity])
    return text


def _error_table(summary: RunSummary) -> Table:
    table = new_table("Errors (all phases)", "class", "text", "count", left=2)
    for name, text, count in summary.errors[:10]:
        shown = text.replace("\n", " ⏎ ")
        table.add_row(escape(name), escape(shown if len(shown) <= 90 else shown[:89] + "…"), str(count))
    return table
