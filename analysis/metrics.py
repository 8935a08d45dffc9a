"""The metrics of a request and the statistics over many: one function per term, its docstring the formula.

They take the columns of requests.csv and tokens.csv as `analysis.load` gives them. An undefined value is NaN
and stays out of every statistic; windows and levels are left to `analysis.windows` and `analysis.summary`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import schema
from analysis.spool import Rows

Floats = NDArray[np.float64]

PERCENTILES = (50, 90, 95, 99)
# Requests below which a percentile is little more than the maximum: 1 / (1 - p).
ENOUGH = {50: 2, 90: 10, 95: 20, 99: 100}

UNITS = {
    "ttft": "ms",
    "ttft_from_plan": "ms",
    "first_answer": "ms",
    "tpot": "ms",
    "itl": "ms",
    "e2e": "ms",
    "e2e_from_plan": "ms",
    "queue": "ms",
    "time_to_1000_tokens": "ms",
    "output_throughput": "tokens/s",
    "total_throughput": "tokens/s",
    "decode_speed": "tokens/s",
    "request_throughput": "requests/s",
    "goodput": "requests/s",
}


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics over the defined values of one metric; all None when there is none."""

    n: int
    mean: float | None
    min: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None
    std: float | None  # sample standard deviation (n - 1)
    invalid: int = 0  # negative or not finite: refused

    def enough_for(self, p: int) -> bool:
        """Whether there are enough values for this percentile to mean something."""
        return self.n >= ENOUGH[p]


def rank(count: int, p: float) -> int:
    """Nearest rank of a percentile among `count` sorted values: ceil(p/100 * n), from 1."""
    # round() first: 0.95 * 20 is a little above 19 in floating point and must not become 20
    return max(math.ceil(round(p / 100 * count, 9)), 1)


def percentile(ordered: Floats, p: float) -> float:
    """The element at the nearest rank of the sorted values."""
    return float(ordered[rank(len(ordered), p) - 1])


def stats(values: Iterable[float] | pd.Series | Floats) -> Stats:
    """Mean, extremes and nearest-rank percentiles of the raw values; absent ones are left out, not counted as 0."""
    raw = np.asarray(values if isinstance(values, (pd.Series, np.ndarray)) else list(values), dtype=np.float64)
    present = raw[~np.isnan(raw)]
    good = np.sort(present[np.isfinite(present) & (present >= 0)])
    return stats_of_ordered(good, len(present) - len(good))


def stats_of_ordered(good: Floats, invalid: int = 0) -> Stats:
    """The same of values that are sorted and sound already; `invalid` ones were refused."""
    if not len(good):
        return Stats(0, None, None, None, None, None, None, None, None, invalid)
    p50, p90, p95, p99 = (percentile(good, p) for p in PERCENTILES)
    mean = float(good.mean())
    std = math.sqrt(_square_sum(good, mean) / (len(good) - 1)) if len(good) > 1 else None
    return Stats(len(good), mean, float(good[0]), p50, p90, p95, p99, float(good[-1]), std, invalid)


def _square_sum(values: Floats, mean: float) -> float:
    """Sum of squared offsets from the mean, by halves so that no copy of many values is made."""
    if len(values) > 1 << 20:
        half = len(values) // 16 * 8  # as NumPy halves a sum: not one digit differs
        return _square_sum(values[:half], mean) + _square_sum(values[half:], mean)
    offsets = values - mean
    return float((offsets * offsets).sum())


def kept(requests: pd.DataFrame) -> pd.DataFrame:
    """Requests that were not given up on purpose: those can neither meet nor miss anything."""
    return requests[requests["error_class"] != schema.CANCELLED]


def ttft_ms(requests: pd.DataFrame) -> pd.Series:
    """Time to first token: first token event on any channel - sent."""
    return requests["first_token_ms"]


def ttft_from_plan_ms(requests: pd.DataFrame) -> pd.Series:
    """TTFT as the open-loop user sees it: first token event - planned."""
    return requests["first_token_ms"] - requests["planned_ms"]


def first_answer_ms(requests: pd.DataFrame) -> pd.Series:
    """First token event with answer text (after any reasoning) - sent."""
    return requests["first_answer_ms"]


def tpot_ms(requests: pd.DataFrame) -> pd.Series:
    """Time per output token: (last token - first token) / (output tokens - tokens in the first event, 1 if unknown).

    Absent with fewer than two tokens or token events, and when both instants coincide.
    """
    first_event = requests["first_event_tokens"].where(requests["first_event_tokens"] >= 1, 1)
    later = requests["output_tokens"] - first_event
    span = requests["last_token_ms"] - requests["first_token_ms"]
    defined = (requests["output_tokens"] >= 2) & (requests["token_events"] >= 2) & (later >= 1) & (span > 0)
    return (span / later.where(defined)).where(defined)


def e2e_ms(requests: pd.DataFrame) -> pd.Series:
    """End-to-end latency: end mark (or end of the body) - sent."""
    return requests["e2e_ms"]


def e2e_from_plan_ms(requests: pd.DataFrame) -> pd.Series:
    """End-to-end latency as the open-loop user sees it: end mark - planned."""
    return requests["e2e_ms"] - requests["planned_ms"]


def queue_ms(requests: pd.DataFrame) -> pd.Series:
    """Waiting in the client: started - planned."""
    return requests["started_ms"] - requests["planned_ms"]


def decode_tok_s(requests: pd.DataFrame) -> pd.Series:
    """Tokens per second that one user sees while the answer streams: 1000 / TPOT."""
    return 1000 / tpot_ms(requests)


def tokens_over_e2e_s(requests: pd.DataFrame) -> pd.Series:
    """Output tokens per second over the whole request, waiting included: output tokens / E2E latency."""
    return requests["output_tokens"] / (requests["e2e_ms"] / 1000)


def steady_requests_s(ended_unix_s: Floats) -> float | None:
    """Requests per second between the first and the last end, (n - 1) / (last - first): the first fill is left out."""
    ends = ended_unix_s[np.isfinite(ended_unix_s)]
    span = float(ends.max() - ends.min()) if len(ends) > 1 else 0.0
    return (len(ends) - 1) / span if span > 0 else None


def time_to_1000_tokens_ms(ttft: float | None, tpot: float | None) -> float | None:
    """TTFT + 999 * TPOT: what a long answer costs, so that a TTFT win paid with TPOT is seen."""
    return None if ttft is None or tpot is None else ttft + 999 * tpot


def event_weights(rows: Rows, requests: pd.DataFrame) -> Floats:
    """Tokens that each event stands for: its own count, else output tokens / token events of its request, else 1."""
    share = (requests["output_tokens"] / requests["token_events"].where(requests["token_events"] > 0)).fillna(1.0)
    own = rows.tokens.astype(np.float64)
    weights: Floats = np.where(np.isnan(own), share.to_numpy()[rows.code], own)
    return weights


def tokens_per_event(requests: pd.DataFrame) -> float | None:
    """Output tokens / token events over requests whose tokens were counted by the server or a tokenizer."""
    counted = requests[(requests["output_tokens_source"] != schema.ESTIMATED) & (requests["token_events"] > 0)]
    events = counted["token_events"].sum()
    return float(counted["output_tokens"].sum() / events) if events else None
