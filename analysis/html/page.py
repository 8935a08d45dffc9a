"""Renders the pages. Everything that came from a run is escaped: it may hold markup of any kind."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analysis import compare_text, plots, report_tables, text
from analysis.compare import Comparison
from analysis.html.words import translate, words
from analysis.runs import Run
from analysis.summary import LevelSummary, RunSummary

HERE = Path(__file__).parent


def write_page(run: Run, summary: RunSummary, path: Path, language: str = "en") -> None:
    """Write the report page of a run."""
    path.write_text(render_page(run, summary, language), encoding="utf-8")


def render_page(run: Run, summary: RunSummary, language: str = "en") -> str:
    """The report page of a run as text."""
    data = plots.charts(run, summary) | {
        "slo": _slo(summary),
        "best": summary.best_level,
        "chunked": summary.chunked,
        "load": _load_name(summary.levels),
    }
    return _render(
        "report",
        language,
        data,
        s=summary,
        head=_headline_level(summary),
        environment=_environment(summary.info),
        latency_rows=report_tables.latency_rows,
        endless=text.endless,
    )


def write_comparison(firsts: Sequence[RunSummary], comparisons: Sequence[Comparison], path: Path) -> None:
    """Write the page that overlays runs; `firsts` are the first run of each group, in order."""
    names = [comparisons[0].first, *(comparison.other for comparison in comparisons)]
    data = {
        "runs": [
            {"name": name, "levels": [plots.level_point(level) for level in run.levels]}
            for name, run in zip(names, firsts, strict=True)
        ],
        "effects": [asdict(comparison) for comparison in comparisons],
        "slo": _slo(firsts[0]),
    }
    rendered = _render("compare", "en", data, comparisons=comparisons, firsts=firsts, names=names, told=compare_text)
    path.write_text(rendered, encoding="utf-8")


def json_for_script(data: Any) -> Markup:
    """JSON that can stand inside a script element whatever texts it holds."""
    dumped = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII: no line separators of Unicode
    for character in "<>&":
        dumped = dumped.replace(character, f"\\u{ord(character):04x}")
    return Markup(dumped)  # noqa: S704 escaped just above


def _render(name: str, language: str, data: dict[str, Any], **values: Any) -> str:
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"ms": text.ms, "num": text.number, "pct": text.percent}

    def formatted(template: str, *values: object) -> str:
        return translate(template, language).format(*values)

    environment.globals |= {"_": partial(translate, language=language), "f": formatted, "language": language}
    return environment.get_template(f"{name}.html.j2").render(
        data=json_for_script(data | {"words": words(language)}),
        echarts=_asset("vendor/echarts.min.js"),
        core=_asset("charts.js"),
        script=_asset(f"{name}.js"),
        style=_asset("report.css"),
        **values,
    )


def _asset(name: str) -> Markup:
    return Markup((HERE / name).read_text(encoding="utf-8"))  # noqa: S704 our own file


def _slo(summary: RunSummary) -> dict[str, Any] | None:
    if summary.slo is None:
        return None
    share = summary.slo.attainment * 100
    tail = next((f"p{p}" for p in (50, 90, 95, 99) if p >= share), "p99")
    return {"limits": summary.slo.limits(), "tail": tail}


def _headline_level(summary: RunSummary) -> LevelSummary | None:
    """The level whose figures stand on the first screen: the best under the SLO, else that of the most tokens."""
    best = [level for level in summary.levels if level.level == summary.best_level]
    answered = [level for level in summary.levels if level.counts.success]
    return best[0] if best else max(answered, key=lambda level: level.output_tok_s or 0, default=None)


def _load_name(levels: Sequence[LevelSummary]) -> str:
    """What the axis of levels is."""
    modes = {level.mode for level in levels}
    return (
        {"rate": "requests/s", "trace": "speed", "batch": "batch"}.get(modes.pop(), "concurrency")
        if len(modes) == 1
        else "level"
    )


def _environment(info: dict[str, Any]) -> list[tuple[str, str]]:
    names = ("run_id", "host", "api", "model", "engine", "seed", "platform", "stopped_by", "overrides")
    rows = [(name.replace("_", " "), _plain(info[name])) for name in names if info.get(name) not in (None, "", [])]
    rows += [(f"{name} version", str(version)) for name, version in (info.get("versions") or {}).items()]
    return rows


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
