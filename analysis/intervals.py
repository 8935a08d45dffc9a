"""95 % intervals that do not assume independence: neighbouring requests share batches, queues and moods of the engine.

Means and rates: batch means. The values in their order are cut into `BATCHES` batches; the batches' means are nearly
independent, and Student's t gives the interval. In short runs they are not, so the error is the larger of that and
the one of a first-order autoregression. Percentiles: the share of values at or below the percentile is such a mean;
its error gives an effective sample size, Wilson's interval for the share, and the order statistics at its two ends
(Woodruff 1952). A test measures how often the truth is covered.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analysis.metrics import Floats, percentile
from analysis.token_flow import binned
from analysis.windows import Window

BATCHES = 20
LEAST_PER_BATCH = 2
LEAST_ABOVE, LEAST_INDEPENDENT_ABOVE = 15, 5


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval."""

    low: float
    high: float


def mean_interval(values: Floats) -> Interval | None:
    """Interval of the mean of values in their order of time; None with too few of them."""
    ordered = values[np.isfinite(values)]
    error = batch_error(ordered)
    if error is None:
        return None
    centre, half = float(ordered.mean()), student_t(BATCHES - 1) * error
    return Interval(centre - half, centre + half)


def ratio_interval(sums: Floats, counts: Floats) -> Interval | None:
    """Interval of sum(sums) / sum(counts), such as the mean over the gaps of all requests, in their order of time.

    Gaps of one request are anything but independent, so the batches are made of whole requests.
    """
    if not counts.sum() > 0:
        return None
    ratio = float(sums.sum() / counts.sum())
    error = batch_error((sums - ratio * counts) / counts.mean())
    if error is None:
        return None
    half = student_t(BATCHES - 1) * error
    return Interval(ratio - half, ratio + half)


def percentile_interval(values: Floats, p: float) -> Interval | None:
    """Interval of a percentile of values in their order of time; None with too few of them.

    None too when fewer than `LEAST_ABOVE` values lie above it, or too few of them are independent: nothing would
    bound it from there.
    """
    ordered = values[np.isfinite(values)]
    if len(ordered) < BATCHES * LEAST_PER_BATCH:
        return None
    ranked = np.sort(ordered)
    hits = (ordered <= percentile(ranked, p)).astype(np.float64)
    above = 1 - p / 100
    if len(hits) * above < LEAST_ABOVE - 1e-9 or effective_size(hits, p / 100) * above < LEAST_INDEPENDENT_ABOVE:
        return None
    low, high = share_bounds(hits, p / 100)
    return Interval(percentile(ranked, low * 100), percentile(ranked, high * 100))


def share_interval(hits: Floats) -> Interval | None:
    """Interval of a share (such as SLO attainment) of hits (0 or 1) in their order of time."""
    if len(hits) < BATCHES * LEAST_PER_BATCH:
        return None
    return Interval(*share_bounds(hits, float(hits.mean())))


def rate_interval(unix_s: Floats, weights: Floats, window: Window) -> Interval | None:
    """Interval of a rate over a window, such as tokens per second: its batches are equal stretches of time."""
    if math.isnan(window.seconds):
        return None
    return binned_rate_interval(binned(unix_s, weights, window, BATCHES), window.seconds)


def binned_rate_interval(sums: Floats, seconds: float) -> Interval | None:
    """The same from sums over `BATCHES` equal stretches of time."""
    rates = sums / (seconds / BATCHES)
    if np.count_nonzero(rates) < BATCHES // 2:
        return None
    centre = float(rates.mean())
    half = student_t(BATCHES - 1) * float(rates.std(ddof=1)) / math.sqrt(BATCHES)
    return Interval(max(centre - half, 0.0), centre + half)


def batch_error(values: Floats) -> float | None:
    """Standard error of the mean: the larger of batch means and a first-order autoregression."""
    count = len(values)
    if count < BATCHES * LEAST_PER_BATCH:
        return None
    edges = np.linspace(0, count, BATCHES + 1).round().astype(int)
    means = np.add.reduceat(values, edges[:-1]) / np.diff(edges)
    batches = float(means.std(ddof=1)) / math.sqrt(BATCHES)
    offsets = values - values.mean()
    total = float((offsets**2).sum())
    lag = float((offsets[1:] * offsets[:-1]).sum()) / total if total > 0 else 0.0
    lag = min(max(lag + (1 + 3 * lag) / count, 0.0), 0.99)  # corrected for its bias; never below independence
    return max(batches, math.sqrt(total / (count - 1) / count * (1 + lag) / (1 - lag)))


def effective_size(hits: Floats, share: float) -> float:
    """How many independent values would give the share with the same error."""
    error = batch_error(hits) or 0.0
    spread = share * (1 - share)
    return min(float(len(hits)), spread / error**2) if error > 0 and spread > 0 else float(len(hits))


def share_bounds(hits: Floats, share: float) -> tuple[float, float]:
    """Wilson's bounds of a share with the sample size that independent values of the same error would need."""
    size, spread = effective_size(hits, share), share * (1 - share)
    quantile = student_t(BATCHES - 1)
    square = quantile**2
    centre = (share + square / (2 * size)) / (1 + square / size)
    half = quantile / (1 + square / size) * math.sqrt(spread / size + square / (4 * size**2))
    return max(centre - half, 0.0), min(centre + half, 1.0)


@lru_cache(maxsize=256)
def student_t(degrees: int, confidence: float = 0.95) -> float:
    """The two-sided quantile of Student's t: of 95 % of the distribution its absolute value is below."""
    # the density integrated over the angle, t = sqrt(degrees) * tan(angle): finite and smooth
    angles = (np.arange(200_000) + 0.5) / 200_000 * (math.pi / 2)
    below = np.cumsum(np.cos(angles) ** (degrees - 1))
    angle = float(np.interp(confidence, below / below[-1], angles))
    return math.sqrt(degrees) * math.tan(angle)
