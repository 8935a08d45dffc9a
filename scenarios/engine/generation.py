"""One request being answered: turns the scheduler's tokens into chunks and hands them to the socket.

A chunk is made while its step runs (`next_chunk`) and written when the step ends (`deliver`), so that at the
end of a step nothing is left to do but to stamp and to send. Headers, usage and end marks are the app's.
"""

import asyncio
from time import perf_counter
from typing import Protocol

from scenarios.engine.answers import Answer
from scenarios.engine.faults import Fate
from scenarios.engine.scheduler import Sequence
from scenarios.engine.truth import ERROR, TruthRow


class ChunkWire(Protocol):
    """What makes the events: `wire.CompletionsWire` or `responses_wire.ResponsesWire`."""

    def opening(self) -> bytes: ...
    def chunk(self, text: str, reasoning: str, completion_tokens: int, last: bool, /) -> bytes: ...


class Generation:
    """The answer to one request on its way to the client. Without a wire it is collected, not streamed."""

    __slots__ = (
        "_answer",
        "_chunk_tokens",
        "_fate",
        "_held",
        "_opening",
        "_planned",
        "_reasoning",
        "_reasoning_tokens",
        "_stall_s",
        "_text",
        "_tokens_per_chunk",
        "_transport",
        "_unsent",
        "_usage_counts",
        "_wire",
        "delivered",
        "done",
        "failed",
        "row",
        "sequence",
    )

    def __init__(
        self,
        sequence: Sequence,
        answer: Answer,
        row: TruthRow,
        transport: asyncio.WriteTransport,
        wire: ChunkWire | None,
        fate: Fate | None = None,
        tokens_per_chunk: int = 1,
        reasoning_tokens: int = 0,
        stall_s: float = 0.0,
        usage_counts: bool = False,
    ) -> None:
        self.sequence = sequence
        self.row = row
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.delivered = 0  # tokens that came out of the model
        self.failed = False  # an error event has to end the stream
        self._answer = answer
        self._transport = transport
        self._wire = wire
        self._fate = fate
        self._tokens_per_chunk = tokens_per_chunk
        self._reasoning_tokens = reasoning_tokens
        self._stall_s = stall_s
        self._usage_counts = usage_counts
        self._opening = framed(wire.opening()) if wire else b""
        self._planned = 0  # tokens taken from the answer
        self._unsent = 0  # of them, those not in a chunk yet
        self._text = ""
        self._reasoning = ""
        self._chunk_tokens = 0  # tokens in the chunk made last that count as a token event
        self._held: list[tuple[bytes, int]] | None = None  # chunks held back by a stall

    def open(self) -> None:
        """Send what comes before the first token."""
        if self._opening:
            self.row.role_s = perf_counter()
            self._transport.write(self._opening)
            self._opening = b""

    def next_chunk(self) -> bytes:
        """Take the next token; the bytes to send with it, or none while the chunk isn't full."""
        text = self._answer.tokens[self._planned]
        if self._planned < self._reasoning_tokens:
            self._reasoning += text
        else:
            self._text += text
        self._planned += 1
        self._unsent += 1
        last = self._planned == len(self._answer.tokens)
        if self._wire is None or not (last or self._planned == 1 or self._unsent >= self._tokens_per_chunk):
            return b""
        data = self._wire.chunk(self._text, self._reasoning, self._planned, last)
        self._chunk_tokens = self._unsent if self._text or self._reasoning or self._usage_counts else 0
        self._text = self._reasoning = ""
        self._unsent = 0
        return framed(data) if data else b""

    def deliver(self, chunk: bytes, due_s: float) -> None:
        """The token is there: send its chunk. `due_s` is when the model had it."""
        self.delivered += 1
        if self._held is not None:
            self._held.append((chunk, self._chunk_tokens))
        elif chunk and not self._transport.is_closing():
            if self._opening:
                self.open()
            self._send(chunk, self._chunk_tokens, due_s)
        if self._fate is not None:
            self._strike(self._fate)
        if self.delivered == len(self._answer.tokens) and self._held is None:
            self._finish()

    def _send(self, chunk: bytes, tokens: int, due_s: float) -> None:
        now_s = perf_counter()
        self._transport.write(chunk)
        if tokens:
            row = self.row
            row.token_s.append(now_s)
            row.due_s.append(due_s)
            row.tokens.append(tokens)

    def _strike(self, fate: Fate) -> None:
        """Let the faults happen that are due after this token."""
        if self.done.done():
            return
        if self.delivered == fate.stall_at:
            self.row.fault = "stall"
            self._held = []
            asyncio.get_running_loop().call_later(self._stall_s, self._release)
        if self.delivered == fate.error_at:
            self.row.fault = "mid_stream_error"
            self.failed = True
            self._finish()
        if self.delivered == fate.drop_at:
            self.row.fault = "drop"
            self.row.outcome = ERROR
            self._transport.abort()

    def _release(self) -> None:
        """The stall is over: send what was held back."""
        held, self._held = self._held or [], None
        now_s = perf_counter()
        for chunk, tokens in held:
            if chunk and not self._transport.is_closing():
                self._send(chunk, tokens, now_s)
        if self.delivered == len(self._answer.tokens):
            self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


def framed(data: bytes) -> bytes:
    """One chunk of HTTP's chunked transfer coding."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
