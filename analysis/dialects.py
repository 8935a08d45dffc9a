"""The same raw run under the definitions of other tools, and why their numbers differ.

A dialect is a set of rules; each rule has our choice and those of the tools. `explain` turns one rule at a time from
ours to a tool's and says what that does to each figure. What the record does not hold (the text for a tool's own
tokenizer, an empty role chunk) is said in `beyond`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import pandas as pd

from analysis import gaps, metrics, schema, windows
from analysis.metrics import Floats
from analysis.runs import Run
from analysis.tables import RunError
from analysis.token_flow import token_flow
from analysis.windows import Level, Mask


@dataclass(frozen=True, slots=True)
class Rules:
    """How a tool defines what it prints; the defaults are ours."""

    start: Literal["sent", "called", "planned"] = "sent"  # where latencies begin; `called`: connecting is part of them
    end: Literal["last token", "end mark"] = "end mark"  # where the end-to-end latency ends
    decode_end: Literal["last token", "end mark"] = "last token"  # where the time of TPOT ends
    tpot: Literal["after the first event", "n - 1", "n, TTFT included", "none"] = "after the first event"
    itl: Literal["pooled gaps", "mean per request", "mean per request, weighted by gaps"] = "pooled gaps"
    tokens: Literal["usage", "usage, else as requested"] = "usage"
    percentile: Literal["nearest rank", "interpolated"] = "nearest rank"
    rate: Literal["arrivals in the window", "finished over first send to last end"] = "arrivals in the window"


@dataclass(frozen=True, slots=True)
class Dialect:
    """A tool's rules, and what of it the record can not show."""

    name: str
    rules: Rules
    beyond: str = ""


OURS = Dialect("tokenswarm", Rules())
SPAN: Literal["finished over first send to last end"] = "finished over first send to last end"
DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        OURS,
        Dialect(
            "vllm",
            Rules(start="called", end="last token", tpot="n - 1", percentile="interpolated", rate=SPAN),
            "takes an empty role chunk for the first token; without usage it counts with its own tokenizer",
        ),
        Dialect(
            "genai-perf",
            Rules(end="last token", tpot="none", itl="mean per request", percentile="interpolated", rate=SPAN),
            "counts output tokens with its own tokenizer",
        ),
        Dialect(
            "aiperf",
            Rules(end="last token", tpot="none", itl="mean per request", percentile="interpolated", rate=SPAN),
            "counts output tokens with its own tokenizer unless told to use the server's",
        ),
        Dialect(
            "guidellm",
            Rules(tpot="n, TTFT included", itl="mean per request, weighted by gaps", rate=SPAN),
            "stamps with the wall clock, which may be stepped",
        ),
        Dialect(
            "sglang",
            Rules(
                start="called",
                decode_end="end mark",
                tpot="n - 1",
                tokens="usage, else as requested",
                percentile="interpolated",
                rate=SPAN,
            ),
            "opens a connection for every request",
        ),
        Dialect(
            "mlperf",
            Rules(start="planned", tpot="n - 1", decode_end="end mark", rate=SPAN),
            "the server scenario begins at the schedule; offline runs have no TTFT",
        ),
    )
}

FIGURES = (
    "ttft_mean",
    "ttft_p99",
    "tpot_mean",
    "itl_mean",
    "itl_p99",
    "e2e_mean",
    "e2e_p99",
    "output_tok_s",
    "requests_s",
)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A level's figures in one dialect; latencies in ms, rates per second. None where the tool has no such figure."""

    dialect: str
    figures: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """What one rule of a tool does to one figure."""

    dialect: str
    figure: str
    rule: str  # "end: last token, not end mark"
    ours: float | None
    theirs: float | None


def find(name: str) -> Dialect:
    """A dialect by its name."""
    if name not in DIALECTS:
        raise RunError(f"--dialect {name}: there are {', '.join(DIALECTS)}")
    return DIALECTS[name]


def speak(run: Run, level: Level, dialect: Dialect) -> Spoken:
    """The figures of a level under a dialect's rules."""
    rules = dialect.rules
    good = windows.measured(run, level) & (run.requests["outcome"] == schema.SUCCESS).to_numpy()
    requests = run.requests[good]
    begin = {"sent": None, "called": "started_ms", "planned": "planned_ms"}[rules.start]
    shift = requests[begin].fillna(0.0) if begin else 0.0
    ttft = requests["first_token_ms"] - shift
    end = requests["e2e_ms"] if rules.end == "end mark" else requests["last_token_ms"]
    itl, weights = _itl(run, good, rules)
    columns: dict[str, tuple[Floats, Floats | None]] = {
        "ttft": (np.asarray(ttft), None),
        "tpot": (np.asarray(_tpot(requests, rules)), None),
        "itl": (itl, weights),
        "e2e": (np.asarray(end - shift), None),
    }
    values: dict[str, float | None] = {}
    for name in FIGURES:
        metric, _, part = name.partition("_")
        if metric in columns:
            values[name] = _statistic(*columns[metric], part, rules)
    output, finished = _rates(run, level, requests, end, rules)
    return Spoken(dialect.name, values | {"output_tok_s": output, "requests_s": finished})


def explain(run: Run, level: Level) -> tuple[list[Spoken], list[Difference]]:
    """The figures of a level in every dialect, and which rule moves which figure by how much."""
    spoken = [speak(run, level, dialect) for dialect in DIALECTS.values()]
    ours = spoken[0].figures
    found = []
    for dialect in DIALECTS.values():
        for field in fields(Rules):
            choice, theirs = getattr(OURS.rules, field.name), getattr(dialect.rules, field.name)
            if choice == theirs:
                continue
            turned = speak(run, level, Dialect(dialect.name, replace(OURS.rules, **{field.name: theirs})))
            rule = f"{field.name.replace('_', ' ')}: {theirs}, not {choice}"
            for name, value in turned.figures.items():
                if value != ours[name] and not _close(value, ours[name]):
                    found.append(Difference(dialect.name, name, rule, ours[name], value))
    return spoken, found


def output_tokens(requests: pd.DataFrame, rules: Rules) -> pd.Series:
    """Output tokens of each request under a rule."""
    if rules.tokens == "usage":
        return requests["output_tokens"]
    asked = requests["output_tokens_requested"].fillna(requests["output_tokens"])
    return requests["output_tokens"].where(requests["output_tokens_source"] != schema.ESTIMATED, asked)


def _tpot(requests: pd.DataFrame, rules: Rules) -> pd.Series:
    tokens = output_tokens(requests, rules)
    end = requests["e2e_ms"] if rules.decode_end == "end mark" else requests["last_token_ms"]
    if rules.tpot == "none":
        return tokens * np.nan
    if rules.tpot == "n, TTFT included":
        return requests["last_token_ms"] / tokens.where(tokens >= 1)
    if rules.tpot == "n - 1":
        return (end - requests["first_token_ms"]) / (tokens - 1).where(tokens > 1)
    return metrics.tpot_ms(requests.assign(output_tokens=tokens, last_token_ms=end))


def _itl(run: Run, good: Mask, rules: Rules) -> tuple[Floats, Floats | None]:
    if rules.itl == "pooled gaps":
        return gaps.itl_ms(run.token_rows, good), None
    requests = run.requests[good]
    tokens = output_tokens(requests, rules)
    later = (tokens - 1).where(tokens > 1)
    means = np.asarray((requests["last_token_ms"] - requests["first_token_ms"]) / later, dtype=np.float64)
    return means, np.asarray(later.fillna(0.0), dtype=np.float64) if "weighted" in rules.itl else None


def _statistic(values: Floats, weights: Floats | None, part: str, rules: Rules) -> float | None:
    known = np.isfinite(values)
    chosen = values[known]
    if not len(chosen):
        return None
    if part == "mean":
        return float(np.average(chosen, weights=None if weights is None else weights[known]))
    p = float(part.removeprefix("p"))
    if weights is not None:
        order = np.argsort(chosen)
        below = np.cumsum(weights[known][order])
        return float(chosen[order][np.searchsorted(below, p / 100 * below[-1])])
    return (
        float(np.percentile(chosen, p))
        if rules.percentile == "interpolated"
        else metrics.percentile(np.sort(chosen), p)
    )


def _rates(
    run: Run, level: Level, requests: pd.DataFrame, end: pd.Series, rules: Rules
) -> tuple[float | None, float | None]:
    if rules.rate == OURS.rules.rate:
        seconds = level.window.seconds
        if not seconds > 0:
            return None, None
        ends = windows.ended_unix_s(run.requests[run.requests["outcome"] == schema.SUCCESS])
        return token_flow(run).in_window(level.window) / seconds, int(level.window.holds(ends).sum()) / seconds
    sent = windows.sent_unix_s(requests)
    ended = sent + np.asarray(end) / 1000
    if not np.isfinite(ended).any():
        return None, None
    span = float(np.nanmax(ended) - np.nanmin(sent))
    if not span > 0:
        return None, None
    return float(output_tokens(requests, rules).sum()) / span, len(requests) / span


def _close(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and abs(a - b) <= 1e-3 * abs(b)
