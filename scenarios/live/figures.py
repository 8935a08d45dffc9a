"""Merged live figures: tallies of outcomes and latencies, by level and length class."""

from typing import Any

from analysis import schema
from scenarios.live.buckets import Histogram
from scenarios.live.counting import METRICS
from scenarios.recording.timeline import Level

PERCENTS = (50, 95, 99)
FAILURE_CLASSES = 32
RECENT_SECONDS = 10


class Tally:
    """Outcomes and latencies of some requests."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.histograms = {metric: Histogram() for metric in METRICS}

    def add(self, group: dict[str, Any]) -> None:
        """Merge a group of a worker's message."""
        _sum_up(self.counts, group["counts"])
        _sum_up(self.failures, group["failures"], FAILURE_CLASSES)
        for metric, packed in group["values"].items():
            self.histograms[metric].add(packed)

    def merge(self, other: "Tally") -> None:
        """Merge another tally."""
        _sum_up(self.counts, other.counts)
        _sum_up(self.failures, other.failures, FAILURE_CLASSES)
        for metric, histogram in other.histograms.items():
            self.histograms[metric].merge(histogram)

    @property
    def kept(self) -> int:
        """Requests that have ended and were not given up on purpose."""
        return self.ended - self.counts.get(schema.CANCELLED, 0)

    @property
    def ended(self) -> int:
        """Requests that have ended, whatever became of them."""
        return sum(self.counts.get(outcome, 0) for outcome in schema.OUTCOMES)

    def latencies(self) -> dict[str, list[float | None]]:
        """p50, p95 and p99 of each metric in ms."""
        return {metric: histogram.percentiles_ms(PERCENTS) for metric, histogram in self.histograms.items()}

    def row(self) -> dict[str, Any]:
        """The tally as the page shows it."""
        success, ended = self.counts.get(schema.SUCCESS, 0), self.ended
        return {
            "ended": ended,
            "success": success,
            "failed": self.counts.get(schema.FAILURE, 0),
            "empty": self.counts.get(schema.EMPTY, 0),
            "cut_off": self.counts.get(schema.CUT_OFF, 0),
            "slo_share": self.counts.get("slo_met", 0) / self.kept if self.kept else None,
            **self.latencies(),
        }


class LevelFigures:
    """One level: all its requests, and those sent in its measure phase as a whole and by length class."""

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.all = Tally()
        self.measured = Tally()
        self.classes: dict[str, Tally] = {}
        self.all_tokens = 0.0
        self._measured_tokens = 0.0
        self._recent_tokens: dict[int, float] = {}  # of seconds that may not be complete yet

    def add(self, group: dict[str, Any]) -> None:
        """Merge a group of this level."""
        self.all.add(group)
        if group["measured"]:
            self.measured.add(group)
            self.classes.setdefault(group["class"], Tally()).add(group)

    def add_measured_tokens(self, second: int, tokens: float) -> None:
        """Tokens that arrived in a second of the measure phase."""
        self._measured_tokens += tokens
        self._recent_tokens[second] = self._recent_tokens.get(second, 0.0) + tokens
        for old in sorted(self._recent_tokens)[:-RECENT_SECONDS]:
            del self._recent_tokens[old]

    def row(self, level: Level, complete_up_to_s: float) -> dict[str, Any]:
        """The level as the page shows it; token seconds count up to the last complete one."""
        seconds = 0.0
        if level.measure_start_unix_s is not None:
            end = min(level.measure_end_unix_s or complete_up_to_s, complete_up_to_s)
            seconds = end - level.measure_start_unix_s
        tokens = self._measured_tokens - sum(n for s, n in self._recent_tokens.items() if s >= complete_up_to_s)
        return {
            "level": self.number,
            "mode": level.mode,
            "requested": level.requested,
            "complete": level.complete,
            "over": level.tail_end_unix_s is not None,
            "tok_s": max(0.0, tokens) / seconds if seconds >= 1 else None,
            **self.measured.row(),
            "classes": {name: tally.row() for name, tally in sorted(self.classes.items(), key=_class_order)},
        }


def _class_order(item: tuple[str, Tally]) -> tuple[float, str]:
    digits = "".join(filter(str.isdigit, item[0]))
    return (float(digits) if digits else float("inf"), item[0])


def _sum_up(into: dict[str, int], counts: dict[str, int], limit: int | None = None) -> None:
    for name, count in counts.items():
        key = name if limit is None or name in into or len(into) < limit else "other"
        into[key] = into.get(key, 0) + count
