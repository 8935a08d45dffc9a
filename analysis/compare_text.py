"""A comparison on a terminal, as Markdown and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from analysis.compare import Comparison, Effect
from analysis.export import md
from analysis.text import NONE, ms, new_table, number

STYLES = {"better": "green", "worse": "red", "no difference": "dim", "unknown": "dim"}
MARK = "UNLIKE LOAD: these runs were compared although they differ"


def render(comparisons: Sequence[Comparison]) -> RenderableType:
    """All comparisons as one rich renderable."""
    parts: list[RenderableType] = []
    for comparison in comparisons:
        parts.append(Text(f"{comparison.other} against {comparison.first}", style="bold"))
        if comparison.differences:
            parts.append(Text("\n  ".join([MARK, *comparison.differences]), style="yellow"))
        parts += [Text(headline(comparison), style="bold"), _table(comparison)]
    return Group(*parts)


def headline(comparison: Comparison) -> str:
    """A comparison in one sentence."""
    changed = [effect for effect in comparison.effects if effect.word in ("better", "worse")]
    basis = f"{comparison.pairs} pairs" if comparison.pairs > 1 else "one run each: how much runs differ is not known"
    if not changed:
        return f"No difference was found ({basis})."
    counts = {word: sum(effect.word == word for effect in changed) for word in ("better", "worse")}
    strongest = max(changed, key=lambda effect: abs(effect.change or 0))
    told = " and ".join(f"{count} {word}" for word, count in counts.items() if count)
    where = f"{strongest.figure} at {strongest.level} {change_text(strongest)}"
    return f"{told} of {len(comparison.effects)} figures ({basis}); most: {where}."


def change_text(effect: Effect) -> str:
    """For example "+3.1 % (+2.0 to +4.2)"."""
    if effect.change is None:
        return NONE
    bounds = "" if effect.low is None or effect.high is None else f" ({effect.low:+.1%} to {effect.high:+.1%})"
    return f"{effect.change:+.1%}{bounds}"


def value_text(value: float | None, unit: str) -> str:
    """A figure in its unit."""
    return ms(value) if unit == "ms" else number(value, 2)


def to_markdown(comparisons: Sequence[Comparison]) -> str:
    """Tables for an issue or a job summary."""
    lines = []
    for comparison in comparisons:
        lines += [f"### {md(comparison.other)} against {md(comparison.first)}", ""]
        if comparison.differences:
            lines += [f"> **{MARK}**", *(f"> - {md(text)}" for text in comparison.differences), ""]
        lines += [f"**{md(headline(comparison))}**", "", "| level | figure | first | other | change (95 %) | |"]
        lines += ["|---:|---|---:|---:|---:|---|"]
        for effect in comparison.effects:
            values = [value_text(value, effect.unit) for value in (effect.first, effect.other)]
            cells = [effect.level, _figure_text(effect), *values, change_text(effect), effect.word]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def to_json(comparisons: Sequence[Comparison]) -> str:
    """The comparisons as they are; shares and not percent."""
    data: list[dict[str, Any]] = [asdict(comparison) for comparison in comparisons]
    return json.dumps({"comparisons": data}, indent=2, ensure_ascii=False, allow_nan=False)


def _figure_text(effect: Effect) -> str:
    return f"{effect.figure} {effect.unit}".strip()


def _table(comparison: Comparison) -> RenderableType:
    table = new_table(
        "", "level", "figure", escape(comparison.first), escape(comparison.other), "change (95 %)", "", left=2
    )
    level = None
    for effect in comparison.effects:
        if level not in (None, effect.level):
            table.add_section()
        table.add_row(
            "" if level == effect.level else effect.level,
            _figure_text(effect),
            value_text(effect.first, effect.unit),
            value_text(effect.other, effect.unit),
            Text(change_text(effect), style=STYLES[effect.word]),
            Text(effect.word, style=STYLES[effect.word]),
        )
        level = effect.level
    return table
