"""The LLM section at the end of Locust's HTML report: levels, length classes and failures as plain tables."""

from typing import Any

from markupsafe import Markup

from scenarios.live.board import Board

LATENCIES = (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"), ("ITL", "itl_ms"), ("E2E", "e2e_ms"))

_STYLE = """
#llm{font:14px/1.5 Roboto,system-ui,sans-serif;max-width:1480px;margin:0 auto 4rem;padding:0 24px;color:%(ink)s}
#llm h2{font-size:1.25rem;font-weight:500;margin:0 0 .5rem}#llm p{color:%(soft)s;margin:.2rem 0 1rem}
#llm table{border-collapse:collapse;width:100%%;font-variant-numeric:tabular-nums}
#llm th,#llm td{padding:6px 10px;text-align:right;border-bottom:1px solid %(line)s;white-space:nowrap}
#llm th:first-child,#llm td:first-child,#llm .text{text-align:left}#llm thead th{font-weight:500;color:%(soft)s}
#llm .class td{color:%(soft)s}#llm .class td:first-child{padding-left:2rem}
"""
_LIGHT = {"ink": "#1b1f24", "soft": "#5b6472", "line": "#e2e6ec"}
_DARK = {"ink": "#e8ebf0", "soft": "#a3adbb", "line": "#3a414c"}


def section_html(board: Board, dark: bool = False) -> Markup:
    """The section; every text is escaped."""
    watched = board.watched
    slo = watched.scenario.slo
    head = Markup("<tr><th>level</th><th>ended</th><th>failed</th><th>output tok/s</th>{}<th>SLO met</th></tr>").format(
        Markup("").join(Markup("<th>{} p50</th><th>p95</th><th>p99</th>").format(name) for name, _ in LATENCIES)
    )
    body = Markup("").join(_level_rows(row) for row in board.level_rows())
    limits = (
        ", ".join(f"{key} ≤ {value:g}" for key, value in slo.model_dump(exclude_none=True).items()) if slo else "none"
    )
    return Markup(
        '<style>{}</style><section id="llm"><h2>LLM metrics</h2>'
        "<p>{} · {} · {} · SLO: {}<br>Measured requests by level and length class; latencies in ms over successes, "
        "from histograms with 0.5 % error. The full report is report.html in {}.</p>"
        "<table><thead>{}</thead><tbody>{}</tbody></table>{}</section>"
    ).format(
        Markup(_STYLE % (_DARK if dark else _LIGHT)),  # noqa: S704 ours
        watched.scenario.name,
        watched.model,
        watched.host,
        limits,
        watched.run_dir.path,
        head,
        body,
        _failures(board.totals.failures),
    )


def _level_rows(row: dict[str, Any]) -> Markup:
    name = f"{row['mode']} {row['requested']:g}"
    rows = [_row(name, row, row["tok_s"], "")]
    rows += [_row(f"prompt {part}", tally, None, "class") for part, tally in row["classes"].items() if part]
    return Markup("").join(rows)


def _row(name: str, row: dict[str, Any], tok_s: float | None, kind: str) -> Markup:
    cells = Markup("").join(Markup("<td>{}</td>").format(_ms(value)) for _, key in LATENCIES for value in row[key])
    share = "–" if row["slo_share"] is None else f"{row['slo_share']:.1%}"
    return Markup('<tr class="{}"><td>{}</td><td>{}</td><td>{}</td><td>{}</td>{}<td>{}</td></tr>').format(
        kind, name, row["ended"], row["failed"], "–" if tok_s is None else f"{tok_s:,.0f}", cells, share
    )


def _failures(failures: dict[str, int]) -> Markup:
    if not failures:
        return Markup()
    items = Markup("").join(
        Markup('<tr><td class="text">{}</td><td>{}</td></tr>').format(name, count) for name, count in failures.items()
    )
    return Markup("<h2>Failures by class</h2><table><tbody>{}</tbody></table>").format(items)


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
