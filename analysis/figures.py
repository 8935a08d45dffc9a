"""Computes the summary of a run; its levels are left to `analysis.level_figures`."""

import math
from datetime import UTC, datetime, tzinfo

import numpy as np
import pandas as pd

from analysis import answers, metrics, run_validity, schema, slo, windows
from analysis.level_figures import count_outcomes, summarise_level
from analysis.runs import Run
from analysis.slo import Slo
from analysis.summary import RunSummary
from analysis.token_flow import token_flow

CHUNKED_TOKENS_PER_EVENT = 1.05  # above, gaps are between chunks and not between tokens


def summarise(run: Run, objective: Slo | None = None) -> RunSummary:
    """All figures of a run; `objective` replaces the SLO of its scenario."""
    scenario, search = run.info.get("scenario") or {}, run.info.get("search")
    objective = objective or slo.from_scenario(scenario)
    flow = token_flow(run)
    window_s = (scenario.get("report") or {}).get("window_s")
    levels = tuple(summarise_level(run, level, flow, objective, window_s) for level in windows.levels(run))
    best = answers.found_by_search(levels, search) or answers.best_under_slo(levels)
    started, ended = _bounds(run)
    per_event = metrics.tokens_per_event(run.requests)
    return RunSummary(
        schema_version=schema.SCHEMA_VERSION,
        run_id=str(run.info.get("run_id") or run.path.name),
        name=run.name,
        folder=str(run.path),
        started=iso(started),
        ended=iso(ended),
        duration_s=ended - started if ended > started else None,
        info=run.info,
        slo=objective,
        verdict=run_validity.judge_run(run, [level.verdict for level in levels]),
        answer=answers.of_search(search, objective) or answers.of_levels(levels, best, objective),
        best_level=best.level if best else None,
        chunked=per_event is not None and per_event > CHUNKED_TOKENS_PER_EVENT,
        spread_tokens=flow.spread,
        counts=count_outcomes(run.requests),
        errors=_errors(run.requests),
        damages=tuple(f"{damage.file} line {damage.line}: {damage.reason}" for damage in run.damages[:50]),
        invalid=run.invalid,
        levels=levels,
    )


def iso(unix_s: float, zone: tzinfo = UTC) -> str | None:
    """An instant with its zone, for example 2026-01-31T12:00:00Z."""
    if not math.isfinite(unix_s):
        return None
    return datetime.fromtimestamp(unix_s, zone).isoformat(timespec="seconds").replace("+00:00", "Z")


def _errors(requests: pd.DataFrame) -> tuple[tuple[str, str, int], ...]:
    failed = requests[requests["outcome"] == schema.FAILURE]
    groups = failed.fillna({"error_class": "unknown", "error_text": ""}).groupby(["error_class", "error_text"]).size()
    top = groups.sort_values(ascending=False).head(50)
    rows = top.reset_index(name="count").to_dict("records")
    return tuple((str(row["error_class"]), str(row["error_text"]), int(row["count"])) for row in rows)


def _bounds(run: Run) -> tuple[float, float]:
    start, end = run.info.get("started_unix_s"), run.info.get("ended_unix_s")
    sent = run.requests["sent_unix_s"]
    ended = windows.ended_unix_s(run.requests)
    first = float(start) if isinstance(start, (int, float)) else float(sent.min()) if sent.notna().any() else math.nan
    if isinstance(end, (int, float)):
        return first, float(end)
    return first, float(np.nanmax(ended)) if np.isfinite(ended).any() else math.nan
