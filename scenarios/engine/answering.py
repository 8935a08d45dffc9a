"""One request for text, from its checks to its end mark: admission, streaming or collecting, faults, truth.

The tokens themselves are delivered by `generation`; HTTP routes are the app's.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any

from scenarios.engine import errors
from scenarios.engine.answers import Answer, end_early, plan_answer
from scenarios.engine.errors import RequestError
from scenarios.engine.faults import Fate, draw_fate
from scenarios.engine.generation import Generation
from scenarios.engine.kv_blocks import block_hashes
from scenarios.engine.requests import GenerationRequest
from scenarios.engine.responses_wire import ResponsesWire
from scenarios.engine.runtime import Runtime
from scenarios.engine.scheduler import Sequence
from scenarios.engine.settings import Settings
from scenarios.engine.truth import ERROR, FINISHED, TruthRow
from scenarios.engine.wire import CompletionsWire, Usage

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

EVENT_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8")]


class Answering:
    """One accepted request. Raises the error that the client gets instead of an answer."""

    def __init__(
        self,
        request: GenerationRequest,
        row: TruthRow,
        number: str,
        generator: random.Random,
        settings: Settings,
        runtime: Runtime,
    ) -> None:
        self._request = request
        self._row = row
        self._settings = settings
        self._runtime = runtime
        max_tokens = check_lengths(request, settings.profile.max_model_len)
        self._fate = draw_fate(settings.faults, generator, max_tokens)
        self._refuse()
        self._answer = self._plan(generator, max_tokens)
        make_wire = ResponsesWire if request.api == "responses" else CompletionsWire
        self._wire = make_wire(request, self._answer, settings.model, number, int(time.time()))
        row.streamed = request.stream
        row.prompt_tokens = len(request.prompt)

    async def run(self, transport: asyncio.WriteTransport, receive: Receive, send: Send) -> None:
        """Serve it; returns when the answer has been sent or the client has gone."""
        row, faults, request = self._row, self._settings.faults, self._request
        if faults.slow_first_bytes_ms:
            await self._runtime.wait_model_ms(faults.slow_first_bytes_ms)
        generation = self._generation(transport)
        if request.stream:
            row.status, row.headers_s = 200, perf_counter()
            await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})
            if faults.role_chunk_at_accept:
                generation.open()
        disconnected = asyncio.ensure_future(receive())
        try:
            delay_ms = self._settings.profile.request_delay_ms(self._runtime.running)
            await self._runtime.wait_model_ms(delay_ms, row.received_s)
            self._runtime.start(generation)
            ends: set[asyncio.Future[Any]] = {disconnected, generation.done}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            disconnected.cancel()
            self._runtime.stop(generation)
            self._fill_in(generation)
        if not generation.done.done():
            return  # the client went away, or the connection was dropped on purpose
        if generation.failed:
            await self._fail(send)
        elif request.stream:
            await self._close_stream(send)
        else:
            await self._send_whole(send)

    def _refuse(self) -> None:
        status = self._fate.refuse_status
        if status is None:
            return
        self._row.fault = "error" if status == 500 else "busy"
        if status == 500:
            raise RequestError(500, "EngineCore encountered an issue. See stack trace (above) for the root cause.")
        error = RequestError(status, "The engine is busy; try again later.")
        error.headers.append((b"retry-after", str(self._settings.faults.retry_after_s).encode()))
        raise error

    def _plan(self, generator: random.Random, max_tokens: int) -> Answer:
        request = self._request
        answer = plan_answer(generator, max_tokens, request.min_tokens, request.ignore_eos, request.stop)
        if self._fate.end_at is not None and self._fate.end_at < len(answer.tokens):
            self._row.fault = "early_eos"
            answer = end_early(answer, self._fate.end_at)
        return answer

    def _generation(self, transport: asyncio.WriteTransport) -> Generation:
        request, faults = self._request, self._settings.faults
        tokens = self._answer.tokens
        hashes = block_hashes([*request.prompt, *tokens]) if self._settings.prefix_caching else ()
        return Generation(
            Sequence(len(request.prompt), len(tokens), hashes),
            self._answer,
            self._row,
            transport,
            self._wire if request.stream else None,
            self._fate if self._fate != Fate() else None,
            tokens_per_chunk=faults.tokens_per_chunk,
            reasoning_tokens=faults.reasoning_tokens,
            stall_s=faults.stall_ms / 1000 / self._settings.speed,
            usage_counts=request.continuous_usage,
        )

    def _fill_in(self, generation: Generation) -> None:
        row = self._row
        row.completion_tokens = generation.delivered
        row.reasoning_tokens = min(generation.delivered, self._settings.faults.reasoning_tokens)
        row.preemptions = generation.sequence.preemptions
        row.sum_up_lateness()
        if self._settings.prefix_caching:
            row.cached_tokens = generation.sequence.cached_tokens

    def _usage(self) -> Usage:
        row = self._row
        return Usage(row.prompt_tokens or 0, row.completion_tokens, row.reasoning_tokens, row.cached_tokens)

    async def _fail(self, send: Send) -> None:
        """End with an error: as an event where the stream has begun, else as the response."""
        self._row.outcome, self._row.error = ERROR, "injected"
        error = RequestError(500, "EngineCore encountered an issue. See stack trace (above) for the root cause.")
        if not self._request.stream:
            raise error
        await send({"type": "http.response.body", "body": self._wire.error(error.body), "more_body": True})
        if self._request.api != "responses":
            await send({"type": "http.response.body", "body": self._wire.end_mark(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _close_stream(self, send: Send) -> None:
        for event in self._wire.closing(self._usage()):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        if self._settings.faults.tail_ms:
            await self._runtime.wait_model_ms(self._settings.faults.tail_ms)
        await send({"type": "http.response.body", "body": self._wire.end_mark(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        self._end()

    async def _send_whole(self, send: Send) -> None:
        split = self._settings.faults.reasoning_tokens
        tokens = self._answer.tokens
        body = self._wire.whole(self._usage(), "".join(tokens[:split]), "".join(tokens[split:]))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        self._row.status, self._row.headers_s = 200, perf_counter()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        self._end()

    def _end(self) -> None:
        self._row.ended_s = perf_counter()
        self._row.finish_reason = self._answer.finish_reason
        self._row.outcome = FINISHED


def check_lengths(request: GenerationRequest, max_model_len: int) -> int:
    """How many tokens the answer may have; prompt and answer have to fit into the context."""
    prompt_tokens = len(request.prompt)
    if prompt_tokens >= max_model_len:
        raise errors.prompt_too_long(prompt_tokens, max_model_len)
    room = max_model_len - prompt_tokens
    if request.max_tokens is None:
        return room
    if request.max_tokens > room:
        raise errors.output_too_long(request.max_tokens, prompt_tokens, max_model_len)
    return request.max_tokens
