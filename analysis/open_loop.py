"""An open loop's schedule and what became of it: was the rate reached, and how far behind the plan did starts fall?"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import metrics, windows
from analysis.runs import Run
from analysis.windows import Level

REACHED_SHARE = 0.95  # of the arrivals that were due


@dataclass(frozen=True, slots=True)
class Schedule:
    """A level's arrivals beside the starts that came of them."""

    due: int  # in the measure phase: sent, dropped and missed
    unsent: int
    due_s: float  # per second of the measure phase
    sent_s: float  # requests sent inside of it, whenever they were due
    lag_p50_ms: float | None  # start after plan
    lag_p99_ms: float | None

    @property
    def reached(self) -> bool:
        """Whether requests were sent as fast as they were due; chance aside, which moves a few over the borders."""
        slack = max((1 - REACHED_SHARE) * self.due_s, 3.0 * self.due_s / max(self.due, 1))
        return self.sent_s >= self.due_s - slack


def schedule_of(run: Run, level: Level, requests: pd.DataFrame) -> Schedule | None:
    """How the schedule of a level was kept; None in a closed loop and of a batch, which is all due at once."""
    if level.planned is None or level.mode == "batch" or math.isnan(level.window.seconds):
        return None
    unsent = level.dropped + level.missed
    sent = int(level.window.holds(windows.sent_unix_s(run.requests)).sum())
    lag = np.sort(np.asarray(metrics.queue_ms(requests).dropna(), dtype=np.float64))
    return Schedule(
        due=len(requests) + unsent,
        unsent=unsent,
        due_s=(len(requests) + unsent) / level.window.seconds,
        sent_s=sent / level.window.seconds,
        lag_p50_ms=metrics.percentile(lag, 50) if len(lag) else None,
        lag_p99_ms=metrics.percentile(lag, 99) if len(lag) else None,
    )
