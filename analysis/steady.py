"""Finds the steady part of a level's measure window, so that a late warm-up or an early drain is seen.

Method: segmented least squares. The token rate in `BINS` bins is fitted by a trend, a constant and a trend; the two
borders with the least squared error, each paid for by the Bayesian information criterion, bound the steady part.
An end is trimmed only where what it loses differs clearly from what stays.
"""

import math
from dataclasses import dataclass

import numpy as np

from analysis.metrics import Floats
from analysis.token_flow import TokenFlow
from analysis.windows import Window

METHOD = "segmented least squares on the token rate"
BINS = 100
LEAST_TRIMMED = 5  # bins: a shorter end is a burst, and costs the figures little
LEAST_BINS = 20  # with fewer tokens than bins there is no rate to look at
CLEAR_ERRORS, CLEAR_SHARE = 4.0, 0.05  # a trimmed end differs by this many standard errors and this share


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady part of a measure window."""

    window: Window
    share: float  # of the measure window
    trimmed_start_s: float
    trimmed_end_s: float
    output_tok_s: float
    method: str = METHOD


def find_steady(flow: TokenFlow, window: Window) -> Steady | None:
    """The steady part of a window; None when there are too few tokens to tell."""
    if math.isnan(window.seconds):
        return None
    counts = flow.binned(window, BINS)
    if np.count_nonzero(counts) < LEAST_BINS:
        return None
    start, end = steady_bins(counts)
    width = window.seconds / BINS
    part = Window(window.start_unix_s + start * width, window.start_unix_s + end * width)
    return Steady(
        window=part,
        share=(end - start) / BINS,
        trimmed_start_s=part.start_unix_s - window.start_unix_s,
        trimmed_end_s=window.end_unix_s - part.end_unix_s,
        output_tok_s=flow.in_window(part) / part.seconds,
    )


def steady_bins(values: Floats) -> tuple[int, int]:
    """First and one past the last bin of the steady stretch."""
    start, end = _least_error(values)
    steady = values[start:end]
    return (
        start if _differs(values[:start], steady) else 0,
        end if _differs(values[end:], steady) else len(values),
    )


def _least_error(values: Floats) -> tuple[int, int]:
    count = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    squares = np.concatenate([[0.0], np.cumsum(values**2)])
    starts, ends = np.meshgrid(np.arange(count), np.arange(1, count + 1), indexing="ij")
    size = np.maximum(ends - starts, 1)
    constant = (squares[ends] - squares[starts]) - (sums[ends] - sums[starts]) ** 2 / size
    noise = float(np.median(np.abs(np.diff(values))) / 0.954) ** 2 or 1e-9  # of single bins, whatever the trend
    cost = 3 * noise * math.log(count)  # two for a trend, one for its border
    head = np.array([_trend_error(values[:start]) + (cost if start else 0) for start in range(count)])
    tail = np.array([_trend_error(values[end:]) + (cost if end < count else 0) for end in range(1, count + 1)])
    score = np.where(ends - starts >= count // 2, constant + head[starts] + tail[ends - 1], np.inf)
    start, end = np.unravel_index(int(np.argmin(score)), score.shape)
    return int(start), int(end) + 1


def _trend_error(values: Floats) -> float:
    """Squared error that a straight line leaves."""
    if len(values) < 3:
        return 0.0
    time = np.arange(len(values)) - (len(values) - 1) / 2
    offsets = values - values.mean()
    return float((offsets**2).sum() - (time * offsets).sum() ** 2 / (time**2).sum())


def _differs(trimmed: Floats, steady: Floats) -> bool:
    if len(trimmed) < LEAST_TRIMMED:
        return False
    mean, gap = steady.mean(), abs(trimmed.mean() - steady.mean())
    offsets = steady - mean
    lag = max(0.0, float((offsets[1:] * offsets[:-1]).sum() / max((offsets**2).sum(), 1e-12)))
    error = steady.std(ddof=1) * math.sqrt((1 / len(trimmed) + 1 / len(steady)) * (1 + lag) / (1 - min(lag, 0.99)))
    return bool(gap > CLEAR_ERRORS * error and gap > CLEAR_SHARE * mean)
