"""Which levels a run walks through: those of the scenario, or one after the other as a search asks for them."""

from collections.abc import Callable, Iterable, Iterator

from scenarios.pacing.search import Search
from scenarios.spec import Scenario

Judge = Callable[[], tuple[int, int]]
"""Of the level that has just ended: how many of its planned requests met the SLO, and how many there were."""


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


def _searched(search: Search, judge: Judge) -> Iterator[float]:
    while (level := search.next_level()) is not None:
        yield level
        search.record(level, *judge())
