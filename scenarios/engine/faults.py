"""Faults on purpose: what a real engine or the network does to some requests, drawn by seed.

Everything that happens to a request is drawn when it arrives, from the engine's seed and the request's
number, so a run can be repeated.
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Faults:
    """What to inject. Rates are shares of requests; times are at speed 1."""

    error_rate: float = 0.0  # HTTP 500 instead of an answer
    busy_rate: float = 0.0  # refused with `busy_status` and Retry-After
    busy_status: int = 503
    retry_after_s: int = 1
    mid_stream_error_rate: float = 0.0  # an error event after some tokens, then [DONE]
    drop_rate: float = 0.0  # the connection is closed after some tokens
    early_eos_rate: float = 0.0  # the answer ends after some tokens, although ignore_eos was asked for
    stall_rate: float = 0.0  # tokens are held back for `stall_ms`, then come at once
    stall_ms: float = 1000.0
    slow_first_bytes_ms: float = 0.0  # every response, headers included, starts so much later
    tail_ms: float = 0.0  # every stream waits so long between its last token and its end mark
    tokens_per_chunk: int = 1  # the first token comes alone, then so many in a chunk
    reasoning_tokens: int = 0  # the first tokens of each answer are reasoning
    role_chunk_at_accept: bool = False  # the role chunk comes at once, not with the first token


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens to one request. Token numbers count from 1; None means that it does not happen."""

    refuse_status: int | None = None
    end_at: int | None = None
    error_at: int | None = None
    drop_at: int | None = None
    stall_at: int | None = None


def draw_fate(faults: Faults, generator: random.Random, max_tokens: int) -> Fate:
    """Draw what happens to a request of at most so many tokens."""

    def token_if(rate: float) -> int | None:
        # Both numbers are drawn in any case: one fault must not change where another strikes.
        hit, at = generator.random() < rate, generator.randint(1, max(1, max_tokens - 1))
        return at if hit else None

    busy = generator.random() < faults.busy_rate
    error = generator.random() < faults.error_rate
    return Fate(
        refuse_status=faults.busy_status if busy else 500 if error else None,
        end_at=token_if(faults.early_eos_rate),
        error_at=token_if(faults.mid_stream_error_rate),
        drop_at=token_if(faults.drop_rate),
        stall_at=token_if(faults.stall_rate),
    )
