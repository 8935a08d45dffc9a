"""Renders `report.html.j2`. Everything that came from the run is escaped: it may hold markup of any kind."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from analysis import plots, text
from analysis.runs import Run
from analysis.summary import LevelSummary, RunSummary

HERE = Path(__file__).parent


def write_page(run: Run, summary: RunSummary, path: Path) -> None:
    """Write the page of a run."""
    path.write_text(render_page(run, summary), encoding="utf-8")


def render_page(run: Run, summary: RunSummary) -> str:
    """The page of a run as text."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"ms": text.ms, "num": text.number, "pct": text.percent}
    data = plots.charts(run, summary) | {"slo": _slo(summary), "best": summary.best_level, "chunked": summary.chunked}
    return environment.get_template("report.html.j2").render(
        s=summary,
        head=_headline_level(summary),
        environment=_environment(summary.info),
        latency_rows=text.latency_rows,
        data=json_for_script(data),
        echarts=_asset("vendor/echarts.min.js"),
        script=_asset("report.js"),
        style=_asset("report.css"),
    )


def json_for_script(data: Any) -> Markup:
    """JSON that can stand inside a script element whatever texts it holds."""
    dumped = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII: no line separators of Unicode
    for character in "<>&":
        dumped = dumped.replace(character, f"\\u{ord(character):04x}")
    return Markup(dumped)  # noqa: S704 escaped just above


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


def _environment(info: dict[str, Any]) -> list[tuple[str, str]]:
    names = ("run_id", "host", "api", "model", "engine", "seed", "platform", "stopped_by", "overrides")
    rows = [(name.replace("_", " "), _plain(info[name])) for name in names if info.get(name) not in (None, "", [])]
    rows += [(f"{name} version", str(version)) for name, version in (info.get("versions") or {}).items()]
    return rows


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
