"""What the charts show: points over time in rings of a fixed size.

The last quarter of an hour by seconds, and a day and more by minutes; a run of any length takes the same memory.
Latencies of a point are over the requests that ended in a sliding window, tokens are those that arrived in the
point's own time. A window without a value has no latency: None, never 0.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from scenarios.live.figures import Tally

WINDOW_S = 10
SECONDS_KEPT = 900
MINUTE_S = 60
MINUTES_KEPT = 1800  # 30 hours
TOKEN_DELAY_S = 2  # workers tell once a second: until then a second's tokens are not all there

GAUGES = ("in_flight", "waiting", "queued", "users")

Point = dict[str, Any]
ByClass = Mapping[str, Tally]


class Window:
    """A sliding window over what ended in each second, by length class."""

    def __init__(self, window_s: int) -> None:
        self._window_s = window_s
        self._parts: deque[tuple[float, ByClass]] = deque()

    def add(self, second: float, ended: ByClass) -> None:
        """What ended in a second; seconds come in order."""
        self._parts.append((second, ended))

    def totals(self, now_s: float) -> dict[str, Tally]:
        """Everything that ended in the window up to now, by length class."""
        while self._parts and self._parts[0][0] <= now_s - self._window_s:
            self._parts.popleft()
        totals: dict[str, Tally] = {}
        for _, ended in self._parts:
            for name, tally in ended.items():
                totals.setdefault(name, Tally()).merge(tally)
        return totals


class Series:
    """The points of one run."""

    def __init__(self, window_s: int = WINDOW_S) -> None:
        self._window_s = window_s
        self._window = Window(window_s)
        self._minute: dict[str, Tally] = {}
        self._minute_points: list[Point] = []
        self._minute_start = 0
        self._tokens: dict[int, float] = {}
        self._seconds: deque[Point] = deque(maxlen=SECONDS_KEPT)
        self._minutes: deque[Point] = deque(maxlen=MINUTES_KEPT)
        self._first: int | None = None

    def add_tokens(self, second: int, tokens: float) -> None:
        """Tokens that arrived in a second; less than nothing where a provisional count is put right."""
        self._tokens[second] = self._tokens.get(second, 0.0) + tokens

    def close_second(self, now_unix_s: float, ended: ByClass, gauges: Mapping[str, float]) -> Point:
        """A point of now: what ended since the last one, and how much is under way."""
        second = math.floor(now_unix_s)
        if self._first is None:
            self._first = self._minute_start = second - 1
        self._window.add(second, ended)
        point = {
            "t": second,
            **gauges,
            **_figures(self._window.totals(second), min(self._window_s, second - self._first)),
        }
        self._seconds.append(point)
        for name, tally in ended.items():
            self._minute.setdefault(name, Tally()).merge(tally)
        self._minute_points.append(point)
        if second - self._minute_start >= MINUTE_S:
            self._close_minute(second)
        for old in [known for known in self._tokens if known < second - SECONDS_KEPT]:
            del self._tokens[old]
        return point

    def tok_s(self, now_unix_s: float, window_s: int = 5) -> float | None:
        """Tokens per second over the last complete seconds; None before the first."""
        last = math.floor(now_unix_s) - TOKEN_DELAY_S
        first = last + 1 if self._first is None else max(last - window_s + 1, self._first + 1)
        known = [self._tokens.get(second, 0.0) for second in range(first, last + 1)]
        return max(0.0, sum(known) / len(known)) if known else None

    def by_second(self, since: float, now_unix_s: float) -> list[Point]:
        """The newest points; the tokens of a second may still change while its requests are under way."""
        complete = math.floor(now_unix_s) - TOKEN_DELAY_S
        return [
            {**point, "tok_s": max(0.0, self._tokens.get(point["t"], 0.0)) if point["t"] <= complete else None}
            for point in self._seconds
            if point["t"] > since
        ]

    def by_minute(self, since: float) -> list[Point]:
        """The points of the long view."""
        return [point for point in self._minutes if point["t"] > since]

    def _close_minute(self, second: int) -> None:
        points, minute, start = self._minute_points, self._minute, self._minute_start
        self._minute_points, self._minute, self._minute_start = [], {}, second
        seconds = second - start
        # a minute's tokens: those of the seconds that were complete when it ended
        tokens = sum(self._tokens.get(s, 0.0) for s in range(start - TOKEN_DELAY_S, second - TOKEN_DELAY_S))
        gauges = {name: _mean(point[name] for point in points) for name in GAUGES}
        self._minutes.append({"t": second, "tok_s": max(0.0, tokens / seconds), **gauges, **_figures(minute, seconds)})


def _figures(by_class: ByClass, seconds: float) -> Point:
    total = Tally()
    for tally in by_class.values():
        total.merge(tally)
    return {
        "req_s": total.ended / seconds,
        "fail_s": total.counts.get("failure", 0) / seconds,
        **total.latencies(),
        "classes": {
            name: {metric: tally.histograms[metric].percentiles_ms([95])[0] for metric in ("ttft_ms", "tpot_ms")}
            for name, tally in by_class.items()
        },
    }


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)
