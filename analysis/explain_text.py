"""The dialects of a run side by side on a terminal and as JSON, with the reasons for each difference."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.text import Text

from analysis.dialects import DIALECTS, FIGURES, OURS, Difference, Spoken
from analysis.text import NONE, ms, new_table, number

TITLES = {"output_tok_s": "tok/s", "requests_s": "req/s"}


def figure_text(name: str, value: float | None) -> str:
    """A figure in its unit: latencies in ms, rates per second."""
    return number(value, 2) if name in TITLES else ms(value)


def spoken_table(title: str, rows: Sequence[tuple[str, Spoken]]) -> RenderableType:
    """Figures of levels or dialects, one row each."""
    table = new_table(
        title, "", *(TITLES.get(name) or name.replace("_", " ").replace("ttft", "TTFT") for name in FIGURES)
    )
    for name, spoken in rows:
        table.add_row(name, *(figure_text(figure, spoken.figures[figure]) for figure in FIGURES))
    return table


def render(levels: Sequence[tuple[str, Sequence[Spoken], Sequence[Difference]]]) -> RenderableType:
    """Every level: all dialects, and below them what moves which figure."""
    parts: list[RenderableType] = []
    for label, spoken, differences in levels:
        parts.append(
            spoken_table(f"Concurrency {label} in the terms of each tool (ms, per s)", [(s.dialect, s) for s in spoken])
        )
        parts.append(_reasons(differences))
    beyond = [f"  {dialect.name}: {dialect.beyond}" for dialect in DIALECTS.values() if dialect.beyond]
    parts.append(Text("\n".join(["Not in the record, so not redone here:", *beyond]), style="dim"))
    return Group(*parts)


def to_json(levels: Sequence[tuple[str, Sequence[Spoken], Sequence[Difference]]]) -> str:
    """The same for programs."""
    data = [
        {"level": label, "dialects": [asdict(s) for s in spoken], "differences": [asdict(d) for d in differences]}
        for label, spoken, differences in levels
    ]
    return json.dumps({"levels": data}, indent=2, allow_nan=False)


def _reasons(differences: Sequence[Difference]) -> RenderableType:
    if not differences:
        return Text("All rules give the same figures here.")
    table = new_table("What one rule alone does", "rule", "tools", "figure", OURS.name, "theirs", left=3)
    grouped: dict[tuple[str, str, float | None, float | None], list[str]] = {}
    for one in differences:
        grouped.setdefault((one.rule, one.figure, one.ours, one.theirs), []).append(one.dialect)
    previous = None
    for (rule, figure, ours, theirs), tools in grouped.items():
        table.add_row(
            "" if rule == previous else rule,
            ", ".join(tools),
            figure,
            figure_text(figure, ours),
            figure_text(figure, theirs) if theirs is not None else f"{NONE} (has none)",
        )
        previous = rule
    return table
