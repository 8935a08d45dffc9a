"""The engine's /metrics under vLLM's names.

Counts are plain numbers, kept per step and per request; Prometheus' client writes them down when asked.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from scenarios.engine.scheduler import Scheduler, Step
from scenarios.engine.truth import ERROR, FINISHED, TruthRow

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_TTFT_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
_ITL_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_E2E_S = (0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0)


class Histogram:
    """Counts by upper bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, so many times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def family(self, name: str, text: str, labels: dict[str, str]) -> HistogramMetricFamily:
        """The histogram as Prometheus has it: cumulative."""
        buckets: list[tuple[str, float]] = []
        below = 0
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            below += count
            buckets.append((bound, below))
        family = HistogramMetricFamily(name, text, labels=list(labels))
        family.add_metric(list(labels.values()), buckets, self._sum)
        return family


class Metrics:
    """What one engine has done so far."""

    def __init__(self, model: str, scheduler: Scheduler) -> None:
        self._labels = {"engine": "0", "model_name": model}
        self._scheduler = scheduler
        self._preemptions = 0
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._finished = {"stop": 0, "length": 0, "abort": 0, "error": 0}
        self._ttft = Histogram(_TTFT_S)
        self._itl = Histogram(_ITL_S)
        self._tpot = Histogram(_ITL_S)
        self._e2e = Histogram(_E2E_S)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def count_step(self, step: Step, duration_s: float) -> None:
        """A step has ended."""
        self._preemptions += step.preemptions
        self._generation_tokens += len(step.emitted)
        if step.prefill_tokens:
            self._prompt_tokens += sum(sequence.prompt_tokens for sequence in step.emitted if sequence.emitted == 1)
        if step.decodes:
            # All that decoded waited for this one step.
            self._itl.observe(duration_s, step.decodes)

    def count_request(self, row: TruthRow) -> None:
        """A request that was let in has ended."""
        if row.outcome != FINISHED:
            self._finished["error" if row.outcome == ERROR else "abort"] += 1
            return
        self._finished[row.finish_reason or "stop"] += 1
        if row.ended_s is not None:
            self._e2e.observe(row.ended_s - row.received_s)
        if row.token_s:
            self._ttft.observe(row.token_s[0] - row.received_s)
            if row.completion_tokens > 1:
                self._tpot.observe((row.token_s[-1] - row.token_s[0]) / (row.completion_tokens - 1))

    def exposition(self) -> bytes:
        """The text of /metrics."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Called by Prometheus' client."""
        scheduler = self._scheduler
        running, waiting = len(scheduler.running), len(scheduler.waiting)
        yield self._gauge("num_requests_running", "Requests in the batch.", running)
        yield self._gauge("num_requests_waiting", "Requests in the queue.", waiting)
        yield self._gauge(
            "kv_cache_usage_perc", "KV cache in use, 1 = all.", scheduler.pool.used / scheduler.pool.blocks
        )
        yield self._counter("num_preemptions", "Sequences that had to recompute.", self._preemptions)
        yield self._counter("prefix_cache_queries", "Prompt tokens looked up.", scheduler.prefix_queries)
        yield self._counter("prefix_cache_hits", "Prompt tokens found.", scheduler.prefix_hits)
        yield self._counter("prompt_tokens", "Prompt tokens computed, or found in the cache.", self._prompt_tokens)
        yield self._counter("generation_tokens", "Generated tokens.", self._generation_tokens)
        success = CounterMetricFamily(
            "vllm:request_success", "Ended requests.", labels=[*self._labels, "finished_reason"]
        )
        for reason, count in self._finished.items():
            success.add_metric([*self._labels.values(), reason], count)
        yield success
        for name, text, histogram in (
            ("time_to_first_token_seconds", "From receipt to the first token.", self._ttft),
            ("inter_token_latency_seconds", "Between two tokens.", self._itl),
            ("request_time_per_output_token_seconds", "Per token after the first, by request.", self._tpot),
            ("e2e_request_latency_seconds", "From receipt to the end.", self._e2e),
        ):
            yield histogram.family(f"vllm:{name}", text, self._labels)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family
