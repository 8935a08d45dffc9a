"""The service level objective: per-request limits, and who meets them.

A level meets the SLO when the share of its started measured requests that meet every limit is at least `attainment`.
A failure, an empty answer and a cut-off request are misses.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import metrics, schema
from analysis.tables import RunError
from analysis.windows import Mask

LIMITS = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "e2e_ms": "E2E"}
DEFAULT_ATTAINMENT = 0.95


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits for each request; None is no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    attainment: float = DEFAULT_ATTAINMENT

    def limits(self) -> dict[str, float]:
        """The limits that are set, by metric."""
        return {name: limit for name in LIMITS if (limit := getattr(self, name)) is not None}

    def text(self) -> str:
        """For example "TTFT < 500 ms, TPOT < 50 ms for 95 % of requests"."""
        limits = ", ".join(f"{LIMITS[name]} ≤ {limit:g} ms" for name, limit in self.limits().items())
        return f"{limits} for {self.attainment * 100:g} % of requests"


def from_scenario(scenario: Mapping[str, Any]) -> Slo | None:
    """The SLO of a run's scenario; None when it sets no limit."""
    table = scenario.get("slo") or {}
    values = {name: float(table[name]) for name in LIMITS if table.get(name) is not None}
    if not values:
        return None
    attainment = table.get("attainment")
    return Slo(**values, attainment=DEFAULT_ATTAINMENT if attainment is None else float(attainment))


def parse(text: str) -> Slo:
    """An SLO written as "ttft_ms=500,tpot_ms=50,attainment=0.99"."""
    values: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if name.strip() not in (*LIMITS, "attainment") or not number > 0 or math.isinf(number):
            raise RunError(f"--slo: {part!r} is not of the form ttft_ms=500 ({', '.join(LIMITS)} or attainment)")
        values[name.strip()] = number
    if not values.keys() & LIMITS.keys() or values.get("attainment", 1) > 1:
        raise RunError(f"--slo {text!r}: needs a limit, for example ttft_ms=500,tpot_ms=50,attainment=0.95")
    return Slo(**values)


@dataclass(frozen=True, slots=True)
class Attained:
    """How many of the requests that a level was to send met every limit; one that was never sent is a miss."""

    met: int
    due: int

    @property
    def share(self) -> float | None:
        """Their share; None where there was nothing to send."""
        return self.met / self.due if self.due else None


def attained(requests: pd.DataFrame, unsent: int, slo: Slo) -> Attained:
    """Attainment of a level's measured requests beside `unsent` arrivals; planned cancellations do not count."""
    return Attained(int(meets(requests, slo).sum()), len(metrics.kept(requests)) + unsent)


def meets(requests: pd.DataFrame, slo: Slo) -> Mask:
    """Which requests are a success within every limit; a TPOT that a short answer does not have is no miss."""
    good = (requests["outcome"] == schema.SUCCESS).to_numpy()
    if slo.ttft_ms is not None:
        ttft = metrics.ttft_from_plan_ms(requests).fillna(metrics.ttft_ms(requests))
        good = good & (ttft <= slo.ttft_ms).to_numpy()
    if slo.tpot_ms is not None:
        tpot = metrics.tpot_ms(requests)
        good = good & (tpot.isna() | (tpot <= slo.tpot_ms)).to_numpy()
    if slo.e2e_ms is not None:
        e2e = metrics.e2e_from_plan_ms(requests).fillna(metrics.e2e_ms(requests))
        good = good & (e2e <= slo.e2e_ms).to_numpy()
    mask: Mask = np.asarray(good, dtype=bool)
    return mask
