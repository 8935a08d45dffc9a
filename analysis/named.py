"""Figures of a level by the names that people write: `ttft_p95`, `output_tok_s`, `failed`. For compare and check."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from analysis.intervals import Interval
from analysis.metrics import PERCENTILES, Stats
from analysis.summary import LevelSummary
from analysis.tables import RunError


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: how to find it, its unit, whether more is better, and the name of its interval."""

    name: str
    unit: str
    more_is_better: bool
    value: Callable[[LevelSummary], float | None]
    interval_name: str

    def interval(self, level: LevelSummary) -> Interval | None:
        """Its 95 % interval, where the level is long enough for one."""
        return level.intervals.get(self.interval_name)


def _latency(metric: str, part: str, level: LevelSummary) -> float | None:
    values: Stats = getattr(level.latencies, f"{metric}_ms")
    found: float | None = getattr(values, part)
    return found


def _attribute(name: str, level: LevelSummary) -> float | None:
    found: float | None = getattr(level, name)
    return found


def _failed(level: LevelSummary) -> float | None:
    return 1 - level.counts.success / level.counts.started if level.counts.started else None


def _figures() -> list[Figure]:
    parts = ("mean", *(f"p{p}" for p in PERCENTILES), "max")
    found = [
        Figure(f"{metric}_{part}", "ms", False, partial(_latency, metric, part), f"{metric}_{part}_ms")
        for metric in ("ttft", "ttft_from_plan", "first_answer", "tpot", "itl", "e2e", "e2e_from_plan", "queue")
        for part in parts
    ]
    rates = {
        "output_tok_s": ("tokens/s", "output_tok_s"),
        "total_tok_s": ("tokens/s", "total_tok_s"),
        "requests_s": ("requests/s", "requests_s"),
        "tok_s_per_user": ("tokens/s", "tok_s_per_user"),
        "goodput": ("requests/s", "goodput_requests_s"),
        "slo_attainment": ("", "slo_attainment"),
    }
    found += [Figure(name, unit, True, partial(_attribute, own), own) for name, (unit, own) in rates.items()]
    found.append(Figure("time_to_1000_tokens", "ms", False, partial(_attribute, "time_to_1000_tokens_ms"), ""))
    found.append(Figure("failed", "", False, _failed, ""))
    return found


FIGURES = {figure.name: figure for figure in _figures()}


def figure(name: str) -> Figure:
    """A figure by its name; units may be written, as in ttft_p95_ms."""
    found = FIGURES.get(name) or FIGURES.get(name.removesuffix("_ms")) or FIGURES.get(name.removesuffix("_requests_s"))
    if found is None:
        raise RunError(
            f"{name!r} is no figure; there are for example {', '.join(list(FIGURES)[:3])}, output_tok_s, failed"
        )
    return found
