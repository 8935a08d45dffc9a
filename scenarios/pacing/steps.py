"""Which levels a run walks through: those of the scenario, or one after the other as a search asks for them."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scenarios.pacing.search import Search
from scenarios.spec import Scenario

logger = logging.getLogger(__name__)

Judge = Callable[[], tuple[int, int] | None]
"""Of the level that has just ended: how many of its requests met the SLO, and how many there were; None: nobody knows."""


def steps(scenario: Scenario, search: Search | None, judge: Judge) -> Iterable[float]:
    """The loads of the levels, in order: concurrencies, rates, a trace's speed or the size of a batch."""
    load = scenario.load
    if search is not None:
        return _searched(search, judge)
    if load.mode == "rate":
        return load.rates
    if load.mode == "batch":
        return (float(load.requests or 0),)
    if load.mode == "trace":
        return (scenario.workload.trace.speed if scenario.workload.trace else 1.0,)
    return load.levels


def search_of(scenario: Scenario) -> Search | None:
    """The scenario's search; None where it names its levels."""
    spec, slo = scenario.load.search, scenario.slo
    if scenario.load.mode != "search" or spec is None or slo is None:
        return None
    return Search(
        slo.attainment,
        spec.start,
        spec.lowest,
        spec.highest,
        whole=spec.over == "concurrency",
        resolution=spec.resolution,
        sure=spec.sure,
        min_runs=spec.min_runs,
        max_runs=spec.max_runs,
    )


def search_row(search: Search | None, over: str) -> dict[str, Any] | None:
    """A search as an entry of run.json: its answer as far as it is known, and all levels tried."""
    if search is None:
        return None
    answer = search.answer()
    return {
        "over": over,
        "level": answer.level,
        "confidence": round(answer.confidence, 4),
        "at_limit": answer.at_limit,
        "finished": bool(search.tried()) and search.next_level() is None,
        "tried": [{"level": each.level, "share": each.share(), "runs": each.runs} for each in search.tried()],
    }


def _searched(search: Search, judge: Judge) -> Iterator[float]:
    while (level := search.next_level()) is not None:
        yield level
        outcome = judge()
        if outcome is None:
            return
        search.record(level, *outcome)
        logger.info("At %g %s of %s requests met the SLO", level, *outcome)
