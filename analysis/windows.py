"""Levels and their measure windows: which requests count where. Tokens are `analysis.token_flow`'s."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import schema
from analysis.loads import load_label
from analysis.metrics import Floats
from analysis.runs import Run

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
