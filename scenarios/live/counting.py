"""Live figures in a sending process: what each ended request adds, and what long answers bring meanwhile.

Streams are decoded after they have ended, so a token's figures are added at its request's end, in one go and
under the second of its arrival. For requests in flight the transport's read stamps are looked at once a
second: each piece of body counts as a token for the time being, and at the request's end the true count takes
its place. Nothing here runs per token.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from analysis import schema
from scenarios.live.buckets import Packed, pack
from scenarios.recording.clock import Clock
from scenarios.recording.recorder import ROW_COLUMNS, UNKNOWN_COUNT, Record, placed_unix_s
from scenarios.spec.scenario import SloSpec

METRICS = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
MAX_CLASSES = 16
MAX_ERROR_CLASSES = 32
OTHER = "other"

TokenPlace = tuple[int, int]  # second of arrival, and the level in whose measure phase it lies, 0 for none
Place = Callable[[float], tuple[int | None, str | None]]
Floats = NDArray[np.float64]


class Underway(Protocol):
    """What is asked of a call whose stream has not ended."""

    def events_before(self, monotonic_s: float) -> int:
        """About how many token events arrived before an instant."""


class _Peek:
    """A request in flight as far as it has been counted."""

    __slots__ = ("call", "events", "given")

    def __init__(self, call: Any) -> None:
        self.call: Underway | None = call if hasattr(call, "events_before") else None
        self.events = 0
        self.given: dict[TokenPlace, float] = {}


class _Group:
    """What ended since the last message, for one level, phase and length class."""

    __slots__ = ("counts", "failures", "gaps_ms", "values")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.values: dict[str, list[float]] = {metric: [] for metric in ("ttft_ms", "tpot_ms", "e2e_ms")}
        self.gaps_ms: list[Floats] = []

    def packed(self) -> dict[str, Packed]:
        """All latencies as histograms."""
        packed = {metric: pack(np.array(values)) for metric, values in self.values.items() if values}
        return {**packed, "itl_ms": pack(np.concatenate(self.gaps_ms))} if self.gaps_ms else packed


class LiveCounter:
    """Counts for the live view; `take` gives what is new since the last time."""

    def __init__(self, clock: Clock, place: Place, slo: SloSpec | None) -> None:
        self._clock = clock
        self._place = place
        self._slo = slo
        self._peeks: dict[str, _Peek] = {}
        self._groups: dict[tuple[int | None, bool, str], _Group] = {}
        self._tokens: dict[TokenPlace, float] = {}
        self._classes: set[str] = set()
        self._error_classes: set[str] = set()
        self._known_tokens = 0.0  # of ended requests, and their events: how many tokens an event stands for
        self._known_events = 0
        self._seen_up_to = math.floor(clock.now_unix_s())

    def started(self, request_id: str, call: Any) -> None:
        """A request is about to be sent."""
        self._peeks[request_id] = _Peek(call)

    def ended(self, record: Record) -> None:
        """A request has ended: take its figures in, in place of what was counted meanwhile."""
        row = dict(zip(ROW_COLUMNS, record.row, strict=True))
        peek = self._peeks.pop(row["request_id"], None)
        for place, given in peek.given.items() if peek else ():
            self._add(place, -given)
        arrivals: Floats = np.frombuffer(record.arrivals)
        if row["outcome"] in (schema.SUCCESS, schema.CUT_OFF) and len(arrivals):
            self._add_tokens(row, arrivals, np.frombuffer(record.counts, dtype=np.intc))
        level, phase = self._place(placed_unix_s(row))
        name = _bounded(row["length_class"] or "", self._classes, MAX_CLASSES)
        group = self._groups.setdefault((level, phase == schema.MEASURE, name), _Group())
        self._add_outcome(group, row)
        if row["outcome"] == schema.SUCCESS:
            self._add_latencies(group, row, arrivals)

    def take(self) -> dict[str, Any]:
        """A small message with everything new: counts, histograms, and tokens by second of arrival."""
        now_unix_s = self._clock.now_unix_s()
        waiting = self._count_underway(math.floor(now_unix_s))
        groups, self._groups = self._groups, {}
        tokens, self._tokens = self._tokens, {}
        return {
            "at_unix_s": now_unix_s,
            "in_flight": len(self._peeks),
            "waiting": waiting,
            "seconds": [second for second, _ in tokens],
            "levels": [level for _, level in tokens],
            "tokens": list(tokens.values()),
            "groups": [
                {
                    "level": level,
                    "measured": measured,
                    "class": name,
                    "counts": group.counts,
                    "failures": group.failures,
                    "values": group.packed(),
                }
                for (level, measured, name), group in groups.items()
            ],
        }

    def _add_tokens(self, row: dict[str, Any], arrivals_ms: Floats, counts: NDArray[np.intc]) -> None:
        output_tokens = row["output_tokens"] or len(arrivals_ms)
        self._known_tokens += output_tokens
        self._known_events += len(arrivals_ms)
        weights = np.where(counts == UNKNOWN_COUNT, output_tokens / len(arrivals_ms), counts)
        unix_s = row["sent_unix_s"] + arrivals_ms / 1000
        second, level = math.floor(unix_s[0]), self._measured_level(unix_s[0])
        if unix_s[-1] < second + 1 and self._measured_level(unix_s[-1]) == level:  # the quick way for short answers
            self._add((second, level), float(weights.sum()))
            return
        seconds = np.floor(unix_s).astype(np.int64)
        first = int(seconds[0])
        for second, tokens in enumerate(np.bincount(np.maximum(seconds - first, 0), weights).tolist(), first):
            if not tokens:
                continue
            level = self._measured_level(second)
            if level == self._measured_level(second + 1):
                self._add((second, level), tokens)
                continue
            inside = seconds == second  # the measure phase begins or ends within this second
            for at, weight in zip(unix_s[inside].tolist(), weights[inside].tolist(), strict=True):
                self._add((second, self._measured_level(at)), weight)

    def _add(self, place: TokenPlace, tokens: float) -> None:
        self._tokens[place] = self._tokens.get(place, 0.0) + tokens

    def _measured_level(self, unix_s: float) -> int:
        level, phase = self._place(unix_s)
        return level if level is not None and phase == schema.MEASURE else 0

    def _add_outcome(self, group: _Group, row: dict[str, Any]) -> None:
        counts, outcome = group.counts, row["outcome"]
        counts[outcome] = counts.get(outcome, 0) + 1
        if outcome == schema.FAILURE:
            name = _bounded(row["error_class"] or "unknown", self._error_classes, MAX_ERROR_CLASSES)
            group.failures[name] = group.failures.get(name, 0) + 1
        elif row["error_class"] == schema.CANCELLED:
            counts[schema.CANCELLED] = counts.get(schema.CANCELLED, 0) + 1
        elif outcome == schema.SUCCESS:
            short = (row["output_tokens"] or 0) < (row["output_tokens_requested"] or 0)
            for name, holds in (
                ("estimated", row["output_tokens_source"] == schema.ESTIMATED),
                ("short", short),
                ("slo_met", self._meets_slo(row)),
            ):
                if holds:
                    counts[name] = counts.get(name, 0) + 1
            counts["output_tokens"] = counts.get("output_tokens", 0) + (row["output_tokens"] or 0)

    def _add_latencies(self, group: _Group, row: dict[str, Any], arrivals_ms: Floats) -> None:
        values = group.values
        for metric, value in (
            ("ttft_ms", row["first_token_ms"]),
            ("tpot_ms", tpot_ms(row)),
            ("e2e_ms", row["e2e_ms"]),
        ):
            if value is not None:
                values[metric].append(value)
        if len(arrivals_ms) > 1:
            group.gaps_ms.append(arrivals_ms[1:] - arrivals_ms[:-1])

    def _meets_slo(self, row: dict[str, Any]) -> bool:
        slo = self._slo
        if slo is None:
            return False
        waited = -(row["planned_ms"] or 0.0)
        ttft, tpot = row["first_token_ms"], tpot_ms(row)
        return (
            (slo.ttft_ms is None or (ttft is not None and ttft + waited <= slo.ttft_ms))
            and (slo.tpot_ms is None or tpot is None or tpot <= slo.tpot_ms)
            and (slo.e2e_ms is None or row["e2e_ms"] + waited <= slo.e2e_ms)
        )

    def _count_underway(self, now_second: int) -> int:
        """Count what requests in flight have received in the seconds that are over; how many have nothing yet."""
        tokens_per_event = self._known_tokens / self._known_events if self._known_events else 1.0
        # after a long pause only the last seconds are told apart: nobody reads further back
        first = max(self._seen_up_to, now_second - 60)
        ends = [
            ((second, self._measured_level(second + 0.5)), self._clock.monotonic_s(second + 1))
            for second in range(first, now_second)
        ]
        waiting = 0
        for peek in self._peeks.values():
            if peek.call is None:
                continue
            for place, end_s in ends:
                events = peek.call.events_before(end_s)
                if events > peek.events:
                    tokens = (events - peek.events) * tokens_per_event
                    peek.given[place] = tokens
                    self._add(place, tokens)
                    peek.events = events
            if not peek.events and not peek.call.events_before(math.inf):
                waiting += 1
        self._seen_up_to = now_second
        return waiting


def tpot_ms(row: dict[str, Any]) -> float | None:
    """(last token - first token) / (output tokens - tokens in the first event, 1 if unknown); None if undefined."""
    if row["first_token_ms"] is None or (row["output_tokens"] or 0) < 2 or row["token_events"] < 2:
        return None
    later = row["output_tokens"] - max(row["first_event_tokens"] or 1, 1)
    span = row["last_token_ms"] - row["first_token_ms"]
    return float(span / later) if later >= 1 and span > 0 else None


def _bounded(name: str, known: set[str], limit: int) -> str:
    """The name, or "other" once there are too many: what comes from outside must not make the view grow."""
    if name in known:
        return name
    if len(known) >= limit:
        return OTHER
    known.add(name)
    return name
