"""What a run has found out, in one sentence: which load keeps the SLO, or the most that was served."""

from collections.abc import Mapping
from typing import Any

from analysis.slo import Slo
from analysis.summary import LevelSummary


def best_under_slo(levels: tuple[LevelSummary, ...]) -> LevelSummary | None:
    """The highest level that meets the SLO."""
    return max((level for level in levels if level.meets_slo), key=_load_of, default=None)


def found_by_search(levels: tuple[LevelSummary, ...], search: Mapping[str, Any] | None) -> LevelSummary | None:
    """The level that a search has answered with: its best run."""
    runs = [level for level in levels if search and level.requested == search.get("level")]
    return max(runs, key=lambda level: level.slo_attainment or 0.0, default=None)


def of_search(search: Mapping[str, Any] | None, objective: Slo | None) -> str | None:
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


def of_levels(levels: tuple[LevelSummary, ...], best: LevelSummary | None, objective: Slo | None) -> str:
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


def _load_of(level: LevelSummary) -> float:
    return level.requested if level.requested is not None else float(level.level)
