"""Searches the highest level that meets the SLO: doubling until one fails, then halving the gap.

Pure: it is told how each level went and says which one to run next. Levels are concurrencies, or rates.
One run of a level is a sample, so the two levels at the border are repeated, all runs of a level are pooled,
and a border that moves by that is searched on.
"""

import math
from dataclasses import dataclass, field
from statistics import NormalDist


@dataclass(slots=True)
class Tried:
    """All runs of one level so far: of how many measured requests did how many meet every limit."""

    level: float
    runs: list[tuple[int, int]] = field(default_factory=list)  # (met, started)

    def share(self) -> float:
        """Share of requests that met the SLO, over all runs."""
        started = sum(n for _, n in self.runs)
        return sum(met for met, _ in self.runs) / started if started else 0.0

    def confidence(self, attainment: float) -> float:
        """How sure it is on which side of the attainment the level lies: 0.5 not at all, 1 quite.

        Score test on the pooled share, as if requests were independent; they are not, so the share of runs that
        say the same alone bounds it.
        """
        started = sum(n for _, n in self.runs)
        if not started:
            return 0.5
        deviation = math.sqrt(attainment * (1 - attainment) / started) or 1e-9
        certainty = NormalDist().cdf(abs(self.share() - attainment) / deviation)
        passes = self.share() >= attainment
        agreeing = sum((met >= attainment * n) == passes for met, n in self.runs) / len(self.runs)
        return min(certainty, agreeing)


@dataclass(frozen=True, slots=True)
class Answer:
    """Highest level that meets the SLO; None if not even the lowest does. `at_limit`: higher ones were not tried."""

    level: float | None
    confidence: float
    at_limit: bool


class Search:
    """One search. Ask `next_level`, run it, tell `record`, until `next_level` is None."""

    def __init__(
        self,
        attainment: float,
        start: float,
        lowest: float,
        highest: float,
        *,
        whole: bool = True,
        resolution: float = 0.05,
        sure: float = 0.95,
        min_runs: int = 2,
        max_runs: int = 4,
    ) -> None:
        """`whole`: levels are whole numbers and found to 1; else found to a `resolution` relative to the level.

        The levels at the border are run at least `min_runs` times, and up to `max_runs` while it is not `sure`.
        """
        self._attainment = attainment
        self._start = start
        self._lowest = lowest
        self._highest = highest
        self._whole = whole
        self._resolution = resolution
        self._sure = sure
        self._min_runs = min_runs
        self._max_runs = max_runs
        self._tried: dict[float, Tried] = {}

    def record(self, level: float, met: int, started: int) -> None:
        """A run of a level has ended: `met` of `started` measured requests met every limit."""
        self._tried.setdefault(level, Tried(level)).runs.append((met, started))

    def next_level(self) -> float | None:
        """The level to run next; None when the answer is there."""
        if not self._tried:
            return self._start
        passed, failed = self._border()
        if failed is None:
            assert passed is not None
            return self._repeated(passed) if passed >= self._highest else min(self._highest, passed * 2)
        if passed is None:
            return self._repeated(failed) if failed <= self._lowest else max(self._lowest, self._middle(0, failed))
        middle = self._middle(passed, failed)
        if middle not in (passed, failed):
            return middle
        return self._repeated(passed) or self._repeated(failed)

    def answer(self) -> Answer:
        """What is known now."""
        passed, failed = self._border()
        border = [self._tried[level] for level in (passed, failed) if level is not None]
        confidence = min((each.confidence(self._attainment) for each in border), default=0.5)
        return Answer(passed, confidence, at_limit=failed is None)

    def tried(self) -> list[Tried]:
        """All levels run, from the lowest."""
        return [self._tried[level] for level in sorted(self._tried)]

    def _border(self) -> tuple[float | None, float | None]:
        """The lowest level that fails, and the highest below it that passes."""
        failed = min((each.level for each in self._tried.values() if not self._passes(each)), default=None)
        below = [each.level for each in self._tried.values() if failed is None or each.level < failed]
        return max(below, default=None), failed

    def _passes(self, tried: Tried) -> bool:
        return tried.share() >= self._attainment

    def _repeated(self, level: float) -> float | None:
        tried = self._tried[level]
        if len(tried.runs) < self._min_runs:
            return level
        unsure = tried.confidence(self._attainment) < self._sure
        return level if unsure and len(tried.runs) < self._max_runs else None

    def _middle(self, low: float, high: float) -> float:
        """A level between two; one of them when they are close enough."""
        if self._whole:
            return (low + high) // 2 if high - low > 1 else low
        middle = float(f"{(low + high) / 2:.3g}")
        return middle if high - low > self._resolution * high else low
