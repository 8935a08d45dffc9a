"""When tokens arrived, whichever request or phase they belong to: throughput is what came inside a window / its length."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import metrics, schema, windows
from analysis.metrics import Floats
from analysis.runs import Run
from analysis.token_rows import stretches
from analysis.windows import Mask, Window

Events = tuple[NDArray[np.int32], Floats, Floats]  # of each: row number of its request, arrival (Unix s), tokens


@dataclass(frozen=True, slots=True)
class TokenFlow:
    """Token events of requests that count for throughput: when they arrived and how many tokens they stand for.

    Success and cut_off count, in any phase; output of failed requests does not.
    """

    # by request: first and last arrival, NaN where it has none that counts, and its tokens
    first_unix_s: Floats
    last_unix_s: Floats
    tokens: Floats
    spread: bool  # no token rows: each request's tokens were spread evenly from its first to its last token
    events: Callable[[Mask], Iterator[Events]]  # of the chosen requests

    def in_window(self, window: Window) -> float:
        """Tokens that arrived inside the window: of whole requests, and of those that reach over its borders."""
        inside = (self.first_unix_s >= window.start_unix_s) & (self.last_unix_s < window.end_unix_s)
        total = float(self.tokens[inside].sum())
        for _, unix_s, tokens in self.events(self._touching(window) & ~inside):
            total += float(tokens[window.holds(unix_s)].sum())
        return total

    def binned(self, window: Window, bins: int) -> Floats:
        """Tokens that arrived in each of equal stretches of the window."""
        sums = np.zeros(bins)
        for _, unix_s, tokens in self.events(self._touching(window)):
            sums += binned(unix_s, tokens, window, bins)
        return sums

    def _touching(self, window: Window) -> Mask:
        touching: Mask = (self.first_unix_s < window.end_unix_s) & (self.last_unix_s >= window.start_unix_s)
        return touching


def binned(unix_s: Floats, weights: Floats, window: Window, bins: int) -> Floats:
    """Sums of weights by equal stretches of a window."""
    inside = window.holds(unix_s)
    number = ((unix_s[inside] - window.start_unix_s) * (bins / window.seconds)).astype(np.int64)
    sums: Floats = np.bincount(np.minimum(number, bins - 1), weights[inside], bins).astype(np.float64)
    return sums


def token_flow(run: Run) -> TokenFlow:
    """The token events of a run that count for throughput."""
    spread = not len(run.token_rows)

    def events(chosen: Mask) -> Iterator[Events]:
        return _spread_events(run.requests, chosen) if spread else _events(run, chosen)

    count = len(run.requests)
    first, last, tokens = np.full(count, math.nan), np.full(count, math.nan), np.zeros(count)
    for code, unix_s, weights in events(run.requests["outcome"].isin([schema.SUCCESS, schema.CUT_OFF]).to_numpy()):
        starts = np.flatnonzero(np.concatenate([[True], code[1:] != code[:-1]]))
        first[code[starts]] = np.minimum.reduceat(unix_s, starts)
        last[code[starts]] = np.maximum.reduceat(unix_s, starts)
        tokens[code[starts]] = np.add.reduceat(weights, starts)
    return TokenFlow(first, last, tokens, spread, events)


def _events(run: Run, chosen: Mask) -> Iterator[Events]:
    sent = windows.sent_unix_s(run.requests)
    for rows in run.token_rows.blocks(chosen):
        yield rows.code, sent[rows.code] + rows.arrival_ms / 1000, metrics.event_weights(rows, run.requests)


def _spread_events(requests: pd.DataFrame, chosen: Mask) -> Iterator[Events]:
    """Events as if each request's tokens had come evenly."""
    known = chosen & (requests["output_tokens"] >= 1).to_numpy() & requests["first_token_ms"].notna().to_numpy()
    bounds = np.concatenate([[0], np.cumsum(np.where(known, requests["output_tokens"].fillna(0), 0).astype(np.int64))])
    for low, high in stretches(bounds):
        part, code = requests.iloc[low:high][known[low:high]], low + np.flatnonzero(known[low:high]).astype(np.int32)
        if not len(part):
            continue
        counts = part["output_tokens"].astype(int).to_numpy()
        first = windows.sent_unix_s(part) + part["first_token_ms"].to_numpy() / 1000
        last = windows.sent_unix_s(part) + part["last_token_ms"].fillna(part["first_token_ms"]).to_numpy() / 1000
        step = (last - first) / np.maximum(counts - 1, 1)
        position = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        unix_s = np.repeat(first, counts) + position * np.repeat(step, counts)
        yield np.repeat(code, counts), unix_s, np.ones(len(unix_s))
