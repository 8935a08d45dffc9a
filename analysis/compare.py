"""Compares runs: is the load alike, and which figures differ by how much?

Differences are ratios to the first group. With three or more repeats of each the interval comes from the pairs
(interleave the repeats: A B A B ...), else from within the runs. A figure is called better or worse only when its
interval, widened for the number of figures looked at (Bonferroni), leaves out "no change".
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from analysis.intervals import BATCHES, student_t
from analysis.named import FIGURES, Figure, figure
from analysis.summary import ClassSummary, LevelSummary, RunSummary
from analysis.tables import RunError

COMPARED = (
    "ttft_mean", "ttft_p95", "tpot_mean", "tpot_p95", "e2e_mean", "e2e_p95",
    "output_tok_s", "requests_s", "goodput", "time_to_1000_tokens",
)  # fmt: skip
LEAST_PAIRS = 3
LENGTH_SHARE, MIX_SHARE = 0.02, 0.1  # against the plan of a class; of the mix, which varies by chance
# parts of a scenario that make the load; the engine and its host are what one compares
LOAD_KEYS = ("workload", "load", "slo")
GATE = re.compile(r"\s*([a-z0-9_]+)(?:@([0-9.]+))?\s+([+-]\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class Effect:
    """How one figure of a level changed from the first group to another."""

    level: str
    figure: str
    unit: str
    first: float | None
    other: float | None
    change: float | None  # other / first - 1
    low: float | None  # 95 % interval of the change
    high: float | None
    word: str  # better, worse, no difference, unknown


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first group of runs against one other."""

    first: str
    other: str
    pairs: int
    differences: tuple[str, ...]  # in load or validity; empty when the runs may be compared
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """A change that is allowed: "ttft_p95 +5%", or "ttft_p95@8 +5%" at one concurrency only."""

    text: str
    figure: Figure
    level: str | None
    limit: float

    def broken_by(self, effect: Effect) -> bool:
        """Whether an effect is worse than allowed, and not by chance alone."""
        if effect.figure != self.figure.name or effect.change is None or self.level not in (None, effect.level):
            return False
        sign = -1 if self.figure.more_is_better else 1
        if sign * effect.change <= abs(self.limit):
            return False
        bound = effect.high if self.figure.more_is_better else effect.low
        return bound is None or sign * bound > 0


def compare(groups: Sequence[Sequence[RunSummary]]) -> list[Comparison]:
    """The first group of repeats against each of the others."""
    first = groups[0]
    return [
        Comparison(
            first=name_of(first),
            other=name_of(other),
            pairs=min(len(first), len(other)),
            differences=tuple(dict.fromkeys(text for run in (*first[1:], *other) for text in unlike(first[0], run))),
            effects=tuple(effects(first, other)),
        )
        for other in groups[1:]
    ]


def name_of(group: Sequence[RunSummary]) -> str:
    """A group's name: its folder, or the first of them and their number."""
    name = group[0].folder.rstrip("/").rsplit("/", 1)[-1]
    return name if len(group) == 1 else f"{name} and {len(group) - 1} more"


def unlike(first: RunSummary, other: RunSummary) -> list[str]:
    """What stands against comparing two runs, in words."""
    found = _differences("model", first.info.get("model"), other.info.get("model"))
    found += _differences("api", first.info.get("api"), other.info.get("api"))
    scenarios = [run.info.get("scenario") or {} for run in (first, other)]
    for key in LOAD_KEYS:
        found += _differences(key, scenarios[0].get(key), scenarios[1].get(key))
    levels = [[(level.mode, level.label) for level in run.levels] for run in (first, other)]
    if levels[0] != levels[1]:
        found.append(f"levels: {_level_names(levels[0])} / {_level_names(levels[1])}")
    found += _length_differences(first, other)
    for run in (first, other):
        if run.verdict.status != "valid":
            found.append(f"{name_of([run])} is {run.verdict.status}: {run.verdict.reasons[0].text}")
    return found


def effects(first: Sequence[RunSummary], other: Sequence[RunSummary]) -> list[Effect]:
    """The effects at every level that both groups have."""
    labels = [level.label for level in first[0].levels if all(_level(run, level.label) for run in (*first, *other))]
    names = [(label, name) for label in labels for name in COMPARED]
    return [_effect(first, other, label, FIGURES[name], len(names)) for label, name in names]


def parse_gate(text: str) -> Gate:
    """A gate as it is written."""
    matched = GATE.fullmatch(text)
    if not matched:
        raise RunError(f"--gate {text!r}: write it as 'ttft_p95 +5%' or 'output_tok_s@8 -3%'")
    found, limit = figure(matched[1]), float(matched[3]) / 100
    if found.name not in COMPARED:
        raise RunError(f"--gate {text!r}: {found.name} is not compared; there are {', '.join(COMPARED)}")
    if limit * (-1 if found.more_is_better else 1) < 0:
        raise RunError(f"--gate {text!r}: {limit * 100:+g} % would be an improvement; a gate allows some loss")
    return Gate(text.strip(), found, matched[2], limit)


def _effect(
    first: Sequence[RunSummary], other: Sequence[RunSummary], label: str, wanted: Figure, looked_at: int
) -> Effect:
    a, b = ([_level(run, label) for run in group] for group in (first, other))
    values = [[wanted.value(level) for level in levels if level] for levels in (a, b)]
    known = [[value for value in group if value is not None and value > 0] for group in values]
    if not known[0] or not known[1]:
        means = [fmean(group) if group else None for group in known]
        return Effect(label, wanted.name, wanted.unit, means[0], means[1], None, None, None, "unknown")
    pairs = list(zip(*known, strict=False))
    change = fmean(math.log(late / early) for early, late in pairs)
    error, degrees = _pair_error(pairs) if len(pairs) >= LEAST_PAIRS else _run_error(wanted, a, b)
    low = high = None
    word = "unknown"
    if error is not None:
        half = student_t(degrees) * error
        low, high = math.expm1(change - half), math.expm1(change + half)
        wide = student_t(degrees, 1 - 0.05 / looked_at) * error
        gained = change > 0 if wanted.more_is_better else change < 0
        word = "no difference" if abs(change) <= wide else "better" if gained else "worse"
    return Effect(
        label, wanted.name, wanted.unit, fmean(known[0]), fmean(known[1]), math.expm1(change), low, high, word
    )


def _pair_error(pairs: Sequence[tuple[float, float]]) -> tuple[float, int]:
    logs = [math.log(late / early) for early, late in pairs]
    return stdev(logs) / math.sqrt(len(logs)), len(logs) - 1


def _run_error(
    wanted: Figure, a: Sequence[LevelSummary | None], b: Sequence[LevelSummary | None]
) -> tuple[float | None, int]:
    """Standard error of the log ratio from the intervals within the runs; how much runs differ is not in it."""
    variance = 0.0
    for levels in (a, b):
        errors = [relative_error(wanted, level) for level in levels if level]
        if not errors or any(error is None for error in errors):
            return None, 0
        variance += sum(error**2 for error in errors if error is not None) / len(errors) ** 2
    return math.sqrt(variance), BATCHES - 1


def relative_error(wanted: Figure, level: LevelSummary) -> float | None:
    """Standard error of a figure / its value, from its 95 % interval."""
    if wanted.name == "time_to_1000_tokens":  # TTFT + 999 * TPOT
        parts = [(weight, FIGURES[name]) for weight, name in ((1, "ttft_mean"), (999, "tpot_mean"))]
        value = wanted.value(level)
        errors = [relative_error(part, level) for _, part in parts]
        if value is None or None in errors:
            return None
        scaled = [
            weight * (part.value(level) or 0) * (error or 0)
            for (weight, part), error in zip(parts, errors, strict=True)
        ]
        return math.hypot(*scaled) / value
    interval, value = wanted.interval(level), wanted.value(level)
    if interval is None or not value:
        return None
    return (interval.high - interval.low) / 2 / student_t(BATCHES - 1) / value


def _level(run: RunSummary, label: str) -> LevelSummary | None:
    return next((level for level in run.levels if level.label == label), None)


def _differences(path: str, first: Any, other: Any) -> list[str]:
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        keys = dict.fromkeys([*first, *other])
        return [text for key in keys for text in _differences(f"{path}.{key}", first.get(key), other.get(key))]
    return [] if first == other else [f"{path}: {first} / {other}"]


def _level_names(levels: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{label}{'' if mode == 'concurrency' else f' ({mode})'}" for mode, label in levels) or "none"


def _length_differences(first: RunSummary, other: RunSummary) -> list[str]:
    """Lengths by the servers' counts that differ although the plan is the same, by class and in the mix."""
    found = []
    for level in first.levels:
        twin = _level(other, level.label)
        for name in ("input_tokens", "output_tokens"):
            what = f"mean {name.replace('_', ' ')} at {level.label}"
            found += _apart(what, MIX_SHARE, *(_mean_tokens(one, name) for one in (level, twin)))
            classes = [
                {part.name: _of_plan(part, name) for part in one.classes} if one else {} for one in (level, twin)
            ]
            for part, value in classes[0].items():
                found += _apart(f"{what} of plan, class {part}", LENGTH_SHARE, value, classes[1].get(part))
    return found


def _apart(what: str, share: float, first: float | None, other: float | None) -> list[str]:
    return [f"{what}: {first:.4g} / {other:.4g}"] if first and other and abs(other / first - 1) > share else []


def _of_plan(part: ClassSummary, name: str) -> float | None:
    """Mean length / its planned one: what is planned may vary by chance, what becomes of it may not."""
    actual, planned = getattr(part, name), getattr(part, f"{name}_requested")
    return actual / planned if actual and planned else None


def _mean_tokens(level: LevelSummary | None, name: str) -> float | None:
    return getattr(level.tokens, name) / level.tokens.answers if level and level.tokens.answers else None
