"""The token audit: who counted the tokens, and do the counts agree? Throughput stands and falls with it."""

from dataclasses import dataclass

import pandas as pd

from analysis import metrics, schema


@dataclass(frozen=True, slots=True)
class TokenAudit:
    """Sums over the successful measured requests of a level."""

    answers: int
    sources: dict[str, int]  # answers by who counted their output tokens
    output_tokens: float
    output_tokens_requested: float
    token_events: float
    tokens_per_event: float | None
    events_differ_share: float | None  # answers whose counted tokens are not their number of events
    early_stop_share: float | None  # answers shorter than asked for
    reasoning_share: float | None  # of output tokens, where usage tells
    input_tokens: float
    input_tokens_requested: float
    input_off_share: float | None  # server's count / planned - 1
    cached_share: float | None  # of prompt tokens
    finish_reasons: dict[str, int]


def audit(good: pd.DataFrame) -> TokenAudit:
    """The audit of successful requests."""
    counted = good[good["output_tokens_source"] != schema.ESTIMATED]
    asked = good[good["output_tokens_requested"].notna() & good["output_tokens"].notna()]
    planned = good[good["input_tokens"].notna() & (good["input_tokens_requested"] > 0)]
    reasoned = good[good["reasoning_tokens"].notna()]
    cached = good[good["cached_tokens"].notna()]
    return TokenAudit(
        answers=len(good),
        sources=_counts(good["output_tokens_source"]),
        output_tokens=float(good["output_tokens"].sum()),
        output_tokens_requested=float(good["output_tokens_requested"].sum()),
        token_events=float(good["token_events"].sum()),
        tokens_per_event=metrics.tokens_per_event(good),
        events_differ_share=_share((counted["output_tokens"] != counted["token_events"]).sum(), len(counted)),
        early_stop_share=_share((asked["output_tokens"] < asked["output_tokens_requested"]).sum(), len(asked)),
        reasoning_share=_share(reasoned["reasoning_tokens"].sum(), reasoned["output_tokens"].sum()),
        input_tokens=float(good["input_tokens"].sum()),
        input_tokens_requested=float(good["input_tokens_requested"].sum()),
        input_off_share=off_share(planned["input_tokens"].sum(), planned["input_tokens_requested"].sum()),
        cached_share=_share(cached["cached_tokens"].sum(), cached["input_tokens"].sum()),
        finish_reasons=_counts(good["finish_reason"]),
    )


def off_share(actual: float, planned: float) -> float | None:
    """How far the server's count of prompt tokens is from the plan: actual / planned - 1."""
    return float(actual / planned - 1) if planned else None


def _counts(column: pd.Series) -> dict[str, int]:
    return {str(name): int(count) for name, count in column.fillna("unknown").value_counts().items()}


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None
