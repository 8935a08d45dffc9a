"""How far a run is: level, phase, the share of the phase that is over, and when it will probably end."""

from typing import Any

from analysis import schema
from scenarios.live.watched import Watched
from scenarios.recording.timeline import Level
from scenarios.spec import LoadSpec

PHASE_NAMES = {schema.RAMP: "ramp", schema.WARMUP: "warm-up", schema.MEASURE: "measure", schema.TAIL: "tail"}


def progress(watched: Watched, measured_ended: int) -> dict[str, Any]:
    """Where the run stands now."""
    timeline, load = watched.timeline, watched.scenario.load
    if not timeline.levels:
        return {"level": None, "levels": _planned(watched), "phase": None, "share": None, "eta_s": None}
    level = timeline.levels[-1]
    over = level.tail_end_unix_s is not None
    begun = _phase_start(level)
    seconds = 0.0 if over else max(0.0, watched.now_unix_s() - begun)  # a phase may be marked ahead of its begin
    length = _length_s(load, timeline.phase)
    share = min(1.0, seconds / length) if length and not watched.by_hand else None
    if share is not None and timeline.phase == schema.MEASURE and load.measure_requests:
        share = min(share, measured_ended / load.measure_requests)
    return {
        "level": level.level,
        "levels": _planned(watched),
        "mode": level.mode,
        "requested": level.requested,
        "phase": None if over else PHASE_NAMES.get(timeline.phase or "", timeline.phase),
        "phase_s": seconds,
        "share": share,
        "eta_s": _eta_s(watched, seconds),
    }


def _planned(watched: Watched) -> int | None:
    """How many levels there will be; None where nobody knows yet."""
    load = watched.scenario.load
    if watched.by_hand:
        return None
    return {"concurrency": len(load.levels), "rate": len(load.rates), "trace": 1, "batch": 1}.get(load.mode)


def _phase_start(level: Level) -> float:
    starts = (
        level.measure_end_unix_s,
        level.measure_start_unix_s,
        level.warmup_start_unix_s,
        level.ramp_start_unix_s,
    )
    return next(start for start in starts if start is not None)


def _length_s(load: LoadSpec, phase: str | None) -> float | None:
    """Planned length of a phase; how long the tail takes is up to the requests."""
    return {schema.RAMP: load.ramp_s, schema.WARMUP: load.warmup_s, schema.MEASURE: load.measure_s}.get(phase or "")


def _eta_s(watched: Watched, phase_s: float) -> float | None:
    """Seconds until the end by the planned times of the phases, without the tails."""
    planned, load, timeline = _planned(watched), watched.scenario.load, watched.timeline
    if planned is None or load.mode in ("trace", "batch"):
        return None
    level_s = load.ramp_s + load.warmup_s + load.measure_s
    left = (planned - len(timeline.levels)) * level_s
    phases = (schema.RAMP, schema.WARMUP, schema.MEASURE)
    if timeline.phase in phases:
        here = phases.index(timeline.phase)
        left += max(0.0, (_length_s(load, timeline.phase) or 0.0) - phase_s)
        left += sum(_length_s(load, phase) or 0.0 for phase in phases[here + 1 :])
    return left
