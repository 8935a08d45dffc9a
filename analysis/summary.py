"""The shape of a summarised run: a `RunSummary` with a `LevelSummary` for each level. Data only.

Everything a report shows is here; how it is computed is left to `analysis.figures`, how it looks to the reports.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from analysis.client import ClientHealth
from analysis.intervals import Interval
from analysis.loads import load_label, load_text
from analysis.metrics import Stats
from analysis.open_loop import Schedule
from analysis.slo import Slo
from analysis.steady import Steady
from analysis.tails import Tails
from analysis.tokens import TokenAudit
from analysis.verdict import Verdict
from analysis.windows import Window


@dataclass(frozen=True, slots=True)
class Latencies:
    """The latency metrics of a group of requests, in ms (see `analysis.metrics`)."""

    ttft_ms: Stats
    ttft_from_plan_ms: Stats
    first_answer_ms: Stats
    tpot_ms: Stats
    itl_ms: Stats
    e2e_ms: Stats
    e2e_from_plan_ms: Stats
    queue_ms: Stats


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the started requests; the four outcomes sum up to `started`."""

    started: int
    success: int
    failure: int
    empty: int
    cut_off: int
    cancelled: int  # of `cut_off`: on purpose, as the scenario asked for
    failures: dict[str, int]  # by error class, most frequent first


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """The measured requests of one length class of a level."""

    name: str
    counts: Counts
    latencies: Latencies
    input_tokens_requested: float | None  # means
    input_tokens: float | None
    output_tokens_requested: float | None
    output_tokens: float | None
    slo_attainment: float | None


@dataclass(frozen=True, slots=True)
class WindowSummary:
    """A slice of a long level, for drift."""

    start_unix_s: float
    seconds: float
    counts: Counts
    ttft_ms: Stats
    tpot_ms: Stats
    e2e_ms: Stats
    output_tok_s: float | None
    slo_attainment: float | None


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """One level: load, outcomes, latencies, rates, SLO and verdict."""

    level: int
    mode: str
    requested: float | None
    achieved_concurrency: float | None
    users: int | None
    planned: int | None  # open loop: arrivals that were due; `dropped` and `missed` of them were not sent
    dropped: int
    missed: int
    schedule: Schedule | None  # how an open loop's was kept
    window: Window
    window_s: float | None
    verdict: Verdict
    client: ClientHealth  # how the load generator did meanwhile
    counts: Counts
    latencies: Latencies
    warmup_ttft_ms: Stats  # of the ramp and the warm-up, which count nowhere else
    output_tok_s: float | None
    total_tok_s: float | None
    requests_s: float | None
    tok_s_per_user: float | None  # 1000 / mean TPOT
    time_to_1000_tokens_ms: float | None
    tokens_per_event: float | None
    slo_attainment: float | None
    meets_slo: bool | None
    goodput_requests_s: float | None
    intervals: dict[str, Interval]  # 95 %, by figure: "ttft_p95_ms", "output_tok_s", ...
    steady: Steady | None  # the steady part of the measure window
    tokens: TokenAudit
    tails: Tails
    classes: tuple[ClassSummary, ...]
    windows: tuple[WindowSummary, ...]

    @property
    def label(self) -> str:
        """How a table names the level: "8", or "5/s" in an open loop."""
        return load_label(self.mode, self.requested, self.level)

    @property
    def load(self) -> str:
        """How a sentence names it: "concurrency 8" or "5 requests/s"."""
        return load_text(self.mode, self.requested, self.level)

    @property
    def headline_ttft_ms(self) -> Stats:
        """TTFT as a user sees it: in an open loop from the plan, so that waiting in the client is not left out."""
        from_plan = self.latencies.ttft_from_plan_ms
        return from_plan if from_plan.n else self.latencies.ttft_ms


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything a report shows of one run."""

    schema_version: int
    run_id: str
    name: str
    folder: str
    started: str | None
    ended: str | None
    duration_s: float | None
    info: dict[str, Any]
    slo: Slo | None
    verdict: Verdict
    answer: str
    best_level: int | None
    chunked: bool  # events carry several tokens: ITL is an inter-chunk latency
    spread_tokens: bool
    counts: Counts  # all requests of the run, whatever their phase
    errors: tuple[tuple[str, str, int], ...]  # class, text, count; most frequent first
    damages: tuple[str, ...]
    invalid: dict[str, int]
    levels: tuple[LevelSummary, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists for JSON; an absent value is None, never NaN."""
        cleaned: dict[str, Any] = _without_nan(asdict(self))
        return cleaned


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value
