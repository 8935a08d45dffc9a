"""What happened when: the phase boundaries of each level, as they come about, on the master's clock.

A request belongs to the level and phase in which it was due, or else sent. Phases of the past never change, so a
request that has ended can be placed at once.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from analysis import schema


@dataclass(slots=True)
class Level:
    """One level of load; the fields are the columns of levels.csv."""

    level: int
    mode: str
    requested: float
    ramp_start_unix_s: float
    users: int | None = None
    workers: int | None = None
    warmup_start_unix_s: float | None = None
    measure_start_unix_s: float | None = None
    measure_end_unix_s: float | None = None
    tail_end_unix_s: float | None = None
    complete: bool = False
    planned: int | None = None  # of an open loop, in the measure phase
    dropped: int | None = None
    missed: int | None = None

    def row(self) -> dict[str, Any]:
        """The level as a row of levels.csv."""
        return asdict(self)


_START_COLUMN = {
    schema.WARMUP: "warmup_start_unix_s",
    schema.MEASURE: "measure_start_unix_s",
    schema.TAIL: "measure_end_unix_s",
}


class Timeline:
    """The levels so far and where an instant falls in them."""

    def __init__(self, on_level_end: Callable[[Level], None], on_change: Callable[[], None] = lambda: None) -> None:
        self.levels: list[Level] = []
        self._on_level_end = on_level_end
        self._on_change = on_change
        self._boundaries: list[float] = []
        self._places: list[tuple[int | None, str | None]] = []
        self.on_boundary: Callable[[], None] = lambda: None

    @property
    def phase(self) -> str | None:
        """The phase that runs now."""
        return self._places[-1][1] if self._places else None

    def begin_level(self, mode: str, requested: float, at_unix_s: float) -> Level:
        """A new level begins with its ramp."""
        level = Level(len(self.levels) + 1, mode, requested, at_unix_s)
        self.levels.append(level)
        self._mark(at_unix_s, level.level, schema.RAMP)
        return level

    def begin_phase(self, phase: str, at_unix_s: float) -> None:
        """The running level enters its next phase."""
        level = self.levels[-1]
        at_unix_s = self._not_before_the_last(at_unix_s)
        setattr(level, _START_COLUMN[phase], at_unix_s)
        self._mark(at_unix_s, level.level, phase)

    def end_level(self, at_unix_s: float, complete: bool) -> None:
        """The running level is over; `complete` when its measured requests have all ended."""
        level = self.levels[-1]
        if level.tail_end_unix_s is not None:
            return
        at_unix_s = self._not_before_the_last(at_unix_s)
        if level.measure_start_unix_s is not None and level.measure_end_unix_s is None:
            level.measure_end_unix_s = at_unix_s
        level.tail_end_unix_s = at_unix_s
        level.complete = complete
        self._mark(at_unix_s, None, None)
        self._on_level_end(level)

    def locate(self, unix_s: float) -> tuple[int | None, str | None]:
        """Level and phase of an instant; None outside of any."""
        index = bisect_right(self._boundaries, unix_s) - 1
        return self._places[index] if index >= 0 else (None, None)

    def boundaries(self) -> list[tuple[float, int | None, str | None]]:
        """Where each phase begins, with its level and name."""
        return [(at, level, phase) for at, (level, phase) in zip(self._boundaries, self._places, strict=True)]

    def _not_before_the_last(self, at_unix_s: float) -> float:
        """Phases are marked ahead in an open loop: one that is broken off before its begin has no length."""
        return max([at_unix_s, *self._boundaries[-1:]])

    def _mark(self, at_unix_s: float, level: int | None, phase: str | None) -> None:
        self._boundaries.append(at_unix_s)
        self._places.append((level, phase))
        self.on_boundary()
        self._on_change()


def replayed(levels: Iterable[Mapping[str, Any]]) -> Timeline:
    """The timeline of an earlier run from its rows of levels; a level that never ended goes on for ever."""
    timeline = Timeline(lambda _level: None)
    for row in levels:
        level = timeline.begin_level(row["mode"], row["requested"], row["ramp_start_unix_s"])
        for name in ("users", "workers", "planned", "dropped", "missed"):
            setattr(level, name, row.get(name))
        for phase, column in _START_COLUMN.items():
            if row[column] is not None:
                timeline.begin_phase(phase, row[column])
        if row["tail_end_unix_s"] is not None:
            timeline.end_level(row["tail_end_unix_s"], row["complete"])
    return timeline
