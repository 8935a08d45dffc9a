"""Levels and their measure windows: which requests and tokens count where.

Rates are over the window: what arrived inside [start, end) / its length, whichever request or phase it belongs to.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import metrics, schema
from analysis.loads import load_label
from analysis.metrics import Floats
from analysis.runs import Run
from analysis.token_rows import stretches

Mask = NDArray[np.bool_]
LONGEST_S = 366 * 86_400.0  # a longer window is damage


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of wall clock time, [start, end), on the master's clock."""

    start_unix_s: float
    end_unix_s: float

    @property
    def seconds(self) -> float:
        """Its length; NaN when it never began."""
        seconds = self.end_unix_s - self.start_unix_s
        return seconds if 0 < seconds < LONGEST_S else math.nan

    def holds(self, unix_s: Floats) -> Mask:
        """Which instants lie inside."""
        inside: Mask = (unix_s >= self.start_unix_s) & (unix_s < self.end_unix_s)
        return inside


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the load with its phases, as levels.csv has it."""

    number: int
    mode: str
    requested: float | None
    users: int | None
    workers: int | None
    planned: int | None  # open loop: arrivals that were due, and what became of those that were not sent
    dropped: int
    missed: int
    window: Window
    ramp_start_unix_s: float
    warmup_start_unix_s: float
    tail_end_unix_s: float
    complete: bool
    derived: bool  # levels.csv lacks it: the window is what the measured requests span

    @property
    def label(self) -> str:
        """Its load for a table: "8", "5/s", ..."""
        return load_label(self.mode, self.requested, self.number)


def levels(run: Run) -> list[Level]:
    """The levels of a run in their order; those that only the requests know are derived from them."""
    known = {level.number: level for level in map(_level, run.levels.to_dict("records")) if level}
    for number in sorted(set(run.requests["level"].dropna().astype(int)) - set(known)):
        known[number] = _derived(run.requests, number)
    if not known and len(run.requests):
        known[1] = _derived(run.requests, None)
    return [known[number] for number in sorted(known)]


def measured(run: Run, level: Level) -> Mask:
    """Requests that count for a level: sent inside its measure phase."""
    requests = run.requests
    if requests["level"].isna().all():
        return np.ones(len(requests), dtype=bool)
    mask: Mask = ((requests["level"] == level.number) & (requests["phase"] == schema.MEASURE)).to_numpy()
    return mask


def before_measured(run: Run, level: Level) -> Mask:
    """Requests of a level's ramp and warm-up."""
    requests = run.requests
    mask: Mask = ((requests["level"] == level.number) & requests["phase"].isin((schema.RAMP, schema.WARMUP))).to_numpy()
    return mask


def sent_unix_s(requests: pd.DataFrame) -> Floats:
    """When each request was sent."""
    return np.asarray(requests["sent_unix_s"], dtype=np.float64)


def ended_unix_s(requests: pd.DataFrame) -> Floats:
    """When each request ended; of one without an end, its last sign of life."""
    last = requests["e2e_ms"].fillna(requests["last_token_ms"]).fillna(requests["first_token_ms"]).fillna(0.0)
    return np.asarray(requests["sent_unix_s"] + last / 1000, dtype=np.float64)


def achieved_concurrency(requests: pd.DataFrame, window: Window) -> float | None:
    """Requests in flight, averaged over the time of the window: sum of their overlaps with it / its length."""
    if math.isnan(window.seconds):
        return None
    start = np.maximum(sent_unix_s(requests), window.start_unix_s)
    end = np.minimum(ended_unix_s(requests), window.end_unix_s)
    return float(np.nansum(np.maximum(end - start, 0)) / window.seconds)


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
    sent = sent_unix_s(run.requests)
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
        first = sent_unix_s(part) + part["first_token_ms"].to_numpy() / 1000
        last = sent_unix_s(part) + part["last_token_ms"].fillna(part["first_token_ms"]).to_numpy() / 1000
        step = (last - first) / np.maximum(counts - 1, 1)
        position = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        unix_s = np.repeat(first, counts) + position * np.repeat(step, counts)
        yield np.repeat(code, counts), unix_s, np.ones(len(unix_s))


def _level(row: Mapping[Hashable, Any]) -> Level | None:
    number = _float(row["level"])
    if math.isnan(number):
        return None
    return Level(
        number=int(number),
        mode=str(row["mode"]) if isinstance(row["mode"], str) else "concurrency",
        requested=_or_none(row["requested"]),
        users=_int_or_none(row["users"]),
        workers=_int_or_none(row["workers"]),
        planned=_int_or_none(row["planned"]),
        dropped=_int_or_none(row["dropped"]) or 0,
        missed=_int_or_none(row["missed"]) or 0,
        window=Window(_float(row["measure_start_unix_s"]), _float(row["measure_end_unix_s"])),
        ramp_start_unix_s=_float(row["ramp_start_unix_s"]),
        warmup_start_unix_s=_float(row["warmup_start_unix_s"]),
        tail_end_unix_s=_float(row["tail_end_unix_s"]),
        complete=row["complete"] is not False,
        derived=False,
    )


def _derived(requests: pd.DataFrame, number: int | None) -> Level:
    mine = (
        requests if number is None else requests[(requests["level"] == number) & (requests["phase"] == schema.MEASURE)]
    )
    start = float(mine["sent_unix_s"].min()) if len(mine) else math.nan
    end = float(np.nanmax(ended_unix_s(mine))) if mine["sent_unix_s"].notna().any() else math.nan
    return Level(
        number=number or 1,
        mode="concurrency",
        requested=None,
        users=None,
        workers=None,
        planned=None,
        dropped=0,
        missed=0,
        window=Window(start, end),
        ramp_start_unix_s=math.nan,
        warmup_start_unix_s=math.nan,
        tail_end_unix_s=end,
        complete=True,
        derived=True,
    )


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _or_none(value: object) -> float | None:
    number = _float(value)
    return None if math.isnan(number) else number


def _int_or_none(value: object) -> int | None:
    number = _float(value)
    return None if math.isnan(number) else int(number)
