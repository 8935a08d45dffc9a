"""The live figures of one run on the leading side: merges what the processes tell, and answers the views.

Web page, terminal and Prometheus all read from here. Everything is bounded: rings for what the charts show, full
histograms for the last few levels only, of older ones their rows.
"""

import math
from dataclasses import asdict
from typing import Any

from scenarios.live.figures import LevelFigures, Tally
from scenarios.live.lights import HealthSum, Light, lights
from scenarios.live.progress import progress
from scenarios.live.series import TOKEN_DELAY_S, Point, Series
from scenarios.live.watched import Watched
from scenarios.recording.timeline import Level

FULL_LEVELS = 4
KEPT_ROWS = 200
KEPT_BANDS = 50


class Board:
    """Everything the views show of one run."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.ended = False
        self.stopping = False
        self.levels: dict[int | None, LevelFigures] = {}
        self.old_rows: list[dict[str, Any]] = []  # of levels whose histograms are gone
        self.totals = Tally()  # of the whole run, for counters that never go back
        self._series = Series()
        self._fresh: dict[str, Tally] = {}  # ended since the last point, by length class
        self._health: dict[int, dict[str, Any]] = {}
        self._health_sums: dict[int, HealthSum] = {}
        self._under_way: dict[int, tuple[int, int]] = {}  # worker -> in flight, waiting for their first token
        self._point: Point = {}

    # What comes in

    def add(self, worker: int, health: dict[str, Any] | None, live: dict[str, Any] | None) -> None:
        """A process' health and what is new in its live figures."""
        if health:
            self._add_health(worker, health)
        if not live:
            return
        self._under_way[worker] = (live["in_flight"], live["waiting"])
        for group in live["groups"]:
            self._fresh.setdefault(group["class"], Tally()).add(group)
            self.totals.add(group)
            self._figures(group["level"]).add(group)
        for second, measured, tokens in zip(live["seconds"], live["levels"], live["tokens"], strict=True):
            self._series.add_tokens(second, tokens)
            if measured:
                self._figures(measured).add_measured_tokens(second, tokens)
            if level := self._level_of(second):
                self._figures(level.level).all_tokens += tokens

    def tick(self) -> None:
        """Once a second: the next point of the charts."""
        if level := self.level:
            self._figures(level.level)  # counters of a level begin at zero
        in_flight = sum(in_flight for in_flight, _ in self._under_way.values())
        waiting = sum(waiting for _, waiting in self._under_way.values())
        fresh, self._fresh = self._fresh, {}
        gauges: dict[str, float] = {
            "in_flight": in_flight,
            "waiting": waiting,
            "queued": self._queued(),
            "users": self.watched.user_count(),
        }
        self._point = self._series.close_second(self.watched.now_unix_s(), fresh, gauges)

    def end(self) -> None:
        """The run is over; its figures stay until the next one."""
        self.ended = True
        self._under_way.clear()

    # What is asked

    @property
    def level(self) -> Level | None:
        """The level that runs, or ran last."""
        levels = self.watched.timeline.levels
        return levels[-1] if levels else None

    def measured(self) -> Tally:
        """Requests measured so far in the level that runs."""
        level = self.level
        return self.levels[level.level].measured if level and level.level in self.levels else Tally()

    def now(self) -> dict[str, Any]:
        """The latest point, with the token rate of the last complete seconds."""
        return {**self._point, "tok_s": self._series.tok_s(self.watched.now_unix_s())}

    def progress(self) -> dict[str, Any]:
        """Level, phase and how far they are."""
        return progress(self.watched, self.measured().ended)

    def lights(self) -> list[Light]:
        """Validity lights of the level that runs."""
        level, inbox, scenario = self.level, self.watched.inbox, self.watched.scenario
        requested = level.requested if level and level.mode == "concurrency" else None
        health = self._health_sums.get(level.level) if level else None
        return lights(
            health or HealthSum(),
            self.measured(),
            inbox.workers.values(),
            requested,
            scenario.workload.ignore_eos,
            self.watched.run_dir.write_error,
        )

    def level_rows(self) -> list[dict[str, Any]]:
        """One row per level, the oldest first."""
        complete = math.floor(self.watched.now_unix_s()) - TOKEN_DELAY_S + 1.0
        known = {level.level: level for level in self.watched.timeline.levels[-FULL_LEVELS - 1 :]}
        rows = [f.row(known[n], complete) for n, f in self.levels.items() if n is not None and n in known]
        return [*self.old_rows, *rows]

    def snapshot(self, since: float = 0.0, minutes_since: float = 0.0) -> dict[str, Any]:
        """Everything for the page; points of the charts only after the given instants."""
        watched = self.watched
        slo = watched.scenario.slo
        return {
            "run": {
                "id": watched.run_id,
                "name": watched.scenario.name,
                "host": watched.host,
                "model": watched.model,
                "engine": watched.engine,
                "state": "ended" if self.ended else "stopping" if self.stopping else "running",
            },
            "slo": slo.model_dump() if slo else None,
            "progress": self.progress(),
            "now": self.now(),
            "total": self.totals.row(),
            "started": watched.inbox.started_count(),
            "failures": self.totals.failures,
            "levels": self.level_rows(),
            "bands": self._bands(),
            "lights": [asdict(light) for light in self.lights()],
            "workers": self.worker_rows(),
            "seconds": self._series.by_second(since, watched.now_unix_s()),
            "minutes": self._series.by_minute(minutes_since),
        }

    def worker_rows(self) -> list[dict[str, Any]]:
        """One row per sending process."""
        rows = []
        for state in self.watched.inbox.workers.values():
            health = self._health.get(state.worker, {})
            rows.append(
                {
                    "worker": state.worker,
                    "name": state.client_id,
                    "host": state.host,
                    "cpu_percent": health.get("cpu_percent"),
                    "hub_lag_ms": health.get("hub_lag_ms"),
                    "memory_mb": health.get("memory_mb"),
                    "in_flight": state.in_flight,
                    "started": state.started,
                    "clock_offset_ms": state.clock_offset_ms,
                    "clock_uncertainty_ms": state.clock_uncertainty_ms,
                    "lost": state.lost,
                    "final": state.final,
                }
            )
        return rows

    # Helpers

    def _queued(self) -> float:
        """About how many requests of an open loop are due and not started: how late it is, times its rate."""
        level = self.level
        states = [state for state in self.watched.inbox.workers.values() if state.serving and not state.lost]
        if level is None or self.ended or level.mode != "rate" or not states:
            return 0
        return round(level.requested * sum(state.late_s for state in states) / len(states))

    def _bands(self) -> list[dict[str, Any]]:
        """Measure phases of the last levels, for the charts."""
        return [
            {
                "label": f"{level.requested:g}",
                "measure_start": level.measure_start_unix_s,
                "measure_end": level.measure_end_unix_s,
            }
            for level in self.watched.timeline.levels[-KEPT_BANDS:]
        ]

    def _add_health(self, worker: int, health: dict[str, Any]) -> None:
        self._health[worker] = health
        level, phase = self.watched.timeline.locate(health["unix_s"])
        if level is not None and phase == "measure":
            if level not in self._health_sums:
                self._health_sums = {n: s for n, s in self._health_sums.items() if n > level - FULL_LEVELS}
                self._health_sums[level] = HealthSum()
            self._health_sums[level].add(health)

    def _level_of(self, second: int) -> Level | None:
        for level in reversed(self.watched.timeline.levels[-FULL_LEVELS:]):
            if level.ramp_start_unix_s <= second + 1:
                return level
        return None

    def _figures(self, number: int | None) -> LevelFigures:
        if number not in self.levels:
            newest = max((known for known in self.levels if known is not None), default=0)
            if number is not None and number <= newest - FULL_LEVELS:
                return LevelFigures(number)  # a straggler of a level whose histograms are gone
            self.levels[number] = LevelFigures(number)
            self._drop_old()
        return self.levels[number]

    def _drop_old(self) -> None:
        numbers = sorted(number for number in self.levels if number is not None)
        known = {level.level: level for level in self.watched.timeline.levels}
        for number in numbers[:-FULL_LEVELS]:
            figures = self.levels.pop(number)
            if number in known:
                self.old_rows.append(figures.row(known[number], math.inf))
        del self.old_rows[:-KEPT_ROWS]
