"""What goes into a client and what comes out: one request, one result.

A client turns an `LLMRequest` into a `Call`. `Call.run()` blocks until the stream has ended;
`Call.result()` is valid at any time and says `cut_off` of a call that was ended before its end, so a
caller that puts it into a `finally` loses no request:

    call = client.call(request)
    try:
        call.run()
    finally:
        recorder.finished(call.result())

Outcomes of the server or the network are results, never exceptions. Only what ends the user itself
(GreenletExit, KeyboardInterrupt) passes through `run`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class LLMRequest:
    """One request as the workload planned it.

    `messages` (chat) replaces `prompt`. Lengths are in tokens. `planned_s` is the instant on the
    process' monotonic clock (`time.perf_counter`) set by an open-loop schedule. The sender gives the request up
    after that many tokens, or that long after its start.
    """

    prompt: str = ""
    messages: Sequence[Mapping[str, Any]] | None = None
    max_tokens: int | None = None
    ignore_eos: bool = False
    length_class: str = ""
    input_tokens_requested: int | None = None
    planned_s: float | None = None
    cancel_after_tokens: int | None = None
    cancel_after_ms: float | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    extra_headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One event with generated payload. `tokens` is None where the server does not tell per event."""

    index: int
    arrival_ms: float
    tokens: int | None
    channel: str
    text: str


@dataclass(slots=True)
class RequestResult:
    """What was measured of one request; names, units and meanings as in `analysis.schema`.

    `sent_s` and `started_s` are on the process' monotonic clock (`time.perf_counter`, seconds);
    `sent_s` falls back to `started_s` when nothing could be sent. Everything else in ms is since
    `sent_s`. The three token lists are parallel, one entry per token event.
    """

    api: str
    model: str
    started_s: float
    sent_s: float
    outcome: str
    e2e_ms: float
    error_class: str | None = None
    error_text: str | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    retry_after_s: float | None = None
    connect_ms: float = 0.0
    headers_ms: float | None = None
    first_token_ms: float | None = None
    first_answer_ms: float | None = None
    last_token_ms: float | None = None
    output_tokens: int | None = None
    output_tokens_source: str | None = None
    first_event_tokens: int | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    token_arrivals_ms: list[float] = field(default_factory=list)
    token_counts: list[int | None] = field(default_factory=list)
    token_channels: list[str] = field(default_factory=list)
    text: str = ""
    streamed: bool = True
    stamp: str | None = None
    reads: int = 0
    coalesced_reads: int = 0
    read_lag_max_ms: float | None = None
    response_bytes: int = 0
    connection_reused: bool = False
    stale_retries: int = 0


class Call(Protocol):
    """One request under way."""

    def run(self) -> None:
        """Send it and block until its stream has ended."""

    def result(self) -> RequestResult:
        """What is known now; `cut_off` while the stream has not ended."""


class Client(Protocol):
    """One engine endpoint under one API. Safe to share between all users of a process."""

    def call(self, request: LLMRequest, on_token: Callable[[TokenEvent], None] | None = None) -> Call:
        """Prepare a request; nothing is sent yet. `on_token` asks for live decoding."""

    def close(self) -> None:
        """Close idle connections."""
