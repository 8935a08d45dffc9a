"""The live figures in Prometheus' text format: on the web UI's port, or on a port of its own for headless runs.

Names and units follow Prometheus' customs: seconds, `_total` for counters. The number of series is bounded: one
run, its last few levels, so many classes of errors and workers.
"""

from collections.abc import Callable, Iterator

from gevent.pywsgi import WSGIServer
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from analysis import schema
from scenarios.live.board import Board
from scenarios.live.buckets import Histogram
from scenarios.live.figures import LevelFigures

PREFIX = "tokenswarm_"
MAX_WORKERS = 200
# Upper bounds in ms, each about 1.5 to 2.5 times the one before.
_SHORT_MS = (1, 2, 3, 5, 7.5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)
_LONG_MS = (5, 10, 20, 35, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10000, 20000, 60000)
BOUNDS_MS = {
    "ttft_ms": _LONG_MS,
    "tpot_ms": _SHORT_MS,
    "itl_ms": _SHORT_MS,
    "e2e_ms": (*_LONG_MS, 120000, 300000, 600000),
}
MEANINGS = {
    "ttft_ms": "Time from sending a request to its first token",
    "tpot_ms": "Time per output token after the first",
    "itl_ms": "Gaps between successive token events",
    "e2e_ms": "Time from sending a request to the end of its answer",
}


def registry_of(board: Callable[[], Board | None]) -> CollectorRegistry:
    """A registry that asks the current board at each scrape; empty while there is none."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_BoardCollector(board))
    return registry


def serve(registry: CollectorRegistry, address: str) -> WSGIServer:
    """Serve /metrics on PORT or HOST:PORT; loopback where no host is given."""
    host, _, port = address.rpartition(":")
    server = WSGIServer((host or "127.0.0.1", int(port)), make_wsgi_app(registry), log=None)
    server.start()
    return server


class _BoardCollector(Collector):
    def __init__(self, board: Callable[[], Board | None]) -> None:
        self._board = board
        self._run_id = ""
        self._tokens: dict[str, float] = {}

    def collect(self) -> Iterator[Metric]:
        board = self._board()
        if board is None:
            return
        run = board.watched.run_id
        if run != self._run_id:
            self._run_id, self._tokens = run, {}
        levels = {str(number or 0): figures for number, figures in board.levels.items()}
        for metric in BOUNDS_MS:
            yield _histograms(metric, run, levels)
        yield from _requests(run, levels)
        yield self._output_tokens(run, levels)
        yield from _gauges(board, run)
        yield from _workers(board, run)

    def _output_tokens(self, run: str, levels: dict[str, LevelFigures]) -> Metric:
        """By time of arrival. A provisional count may be put right downwards; a counter must not follow."""
        family = CounterMetricFamily(f"{PREFIX}output_tokens", "Output tokens that arrived", labels=("run", "level"))
        for level, figures in levels.items():
            self._tokens[level] = max(self._tokens.get(level, 0.0), figures.all_tokens)
            family.add_metric((run, level), self._tokens[level])
        return family


def _histograms(metric: str, run: str, levels: dict[str, LevelFigures]) -> Metric:
    name = f"{PREFIX}{metric.removesuffix('_ms')}_seconds"
    family = HistogramMetricFamily(name, f"{MEANINGS[metric]}, of successes", labels=("run", "level"))
    for level, figures in levels.items():
        histogram: Histogram = figures.all.histograms[metric]
        bounds = BOUNDS_MS[metric]
        buckets: list[tuple[str, float]] = [
            (f"{bound / 1000:g}", float(count))
            for bound, count in zip(bounds, histogram.counts_up_to(bounds), strict=True)
        ]
        family.add_metric((run, level), [*buckets, ("+Inf", float(histogram.n))], histogram.sum_ms / 1000)
    return family


def _requests(run: str, levels: dict[str, LevelFigures]) -> Iterator[Metric]:
    ended = CounterMetricFamily(f"{PREFIX}requests", "Requests that ended", labels=("run", "level", "outcome"))
    failed = CounterMetricFamily(f"{PREFIX}failures", "Failed requests by class", labels=("run", "level", "class"))
    met = CounterMetricFamily(f"{PREFIX}slo_met", "Requests within every limit of the SLO", labels=("run", "level"))
    for level, figures in levels.items():
        for outcome in schema.OUTCOMES:
            ended.add_metric((run, level, outcome), figures.all.counts.get(outcome, 0))
        for name, count in figures.all.failures.items():
            failed.add_metric((run, level, name), count)
        met.add_metric((run, level), figures.all.counts.get("slo_met", 0))
    yield from (ended, failed, met)


def _gauges(board: Board, run: str) -> Iterator[Metric]:
    now, level = board.now(), board.level
    values = {
        "requests_in_flight": ("Requests in flight", now.get("in_flight")),
        "requests_waiting": ("Requests in flight that wait for their first token", now.get("waiting")),
        "requests_queued": ("Requests of an open loop that are due and not started", now.get("queued")),
        "users": ("Users of the load generator", now.get("users")),
        "level": ("Number of the level that runs, from 1", level.level if level else None),
        "requested_load": ("Requested concurrency or rate of the level", level.requested if level else None),
        "workers": ("Sending processes that are not lost", sum(not row["lost"] for row in board.worker_rows())),
    }
    for name, (meaning, value) in values.items():
        family = GaugeMetricFamily(PREFIX + name, meaning, labels=("run",))
        if value is not None:
            family.add_metric((run,), value)
        yield family
    lights = GaugeMetricFamily(f"{PREFIX}validity", "1: nothing stands against the numbers", labels=("run", "check"))
    for light in board.lights():
        lights.add_metric((run, light.name), float(light.status in ("ok", "note")))
    yield lights


def _workers(board: Board, run: str) -> Iterator[Metric]:
    families = {
        "cpu_percent": GaugeMetricFamily(
            f"{PREFIX}worker_cpu_ratio", "CPU of a sending process, 1 = one core", labels=("run", "worker")
        ),
        "hub_lag_ms": GaugeMetricFamily(
            f"{PREFIX}worker_lag_seconds", "Longest delay of a timer in a process", labels=("run", "worker")
        ),
        "memory_mb": GaugeMetricFamily(
            f"{PREFIX}worker_memory_bytes", "Resident memory of a process", labels=("run", "worker")
        ),
    }
    scales = {"cpu_percent": 0.01, "hub_lag_ms": 0.001, "memory_mb": 1e6}
    for row in board.worker_rows()[:MAX_WORKERS]:
        for name, family in families.items():
            if row[name] is not None:
                family.add_metric((run, str(row["worker"])), row[name] * scales[name])
    yield from families.values()
