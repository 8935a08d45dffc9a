"""The decoder of one stream: bytes and their arrival times in, token events and token counts out.

A token event is an event with generated payload on any channel; once a server sends running usage, it is an
event by which `completion_tokens` grows. Role, usage, ping, comment, filter and end marks never count. All
arrivals are instants on the process' monotonic clock; what the request's outcome is, `outcome` says.
"""

import itertools
from collections.abc import Callable

from analysis.schema import ANSWER
from scenarios.clients import other_payloads, payloads, sse
from scenarios.clients.generated import other_channel, told_tokens
from scenarios.clients.payloads import Choice, Chunk
from scenarios.clients.regular import plain_text, regular_chunks
from scenarios.clients.usage import TokenCount, UsageCounter

_PARSERS: dict[str, Callable[[bytes], Chunk]] = {
    "chat": payloads.chat_chunk,
    "completions": payloads.chat_chunk,
    "responses": other_payloads.responses_chunk,
    "triton-generate": other_payloads.triton_chunk,
    "triton-grpc": other_payloads.triton_chunk,  # parsed from gRPC messages before; `take` gets them
}

_FEW = 8  # pieces; below that the short cut for many does not pay

# Reasons by which a server says in an orderly way that it failed.
_FAILED_REASONS = ("error", "abort")


class StreamDecoder:
    """Feed it reads in order; the state may be read at any time."""

    def __init__(self, api: str, *, cumulative: bool = False, keep_event_texts: bool = False) -> None:
        self.arrivals_s: list[float] = []
        self.counts: list[int | None] = []
        self.channels: list[str] = []
        self.event_texts: list[str] = []  # only filled for live listeners
        self.first_answer_s: float | None = None
        self.finish_reason: str | None = None
        self.error_text: str | None = None
        self.malformed: str | None = None
        self.ended = False
        self.end_s = 0.0
        self.events = 0
        self.coalesced_reads = 0
        self._api = api
        self._parse = _PARSERS[api]
        self._sse = sse.EventDecoder()
        self._cumulative = cumulative
        self._keep_event_texts = keep_event_texts
        self._coalesced_s = 0.0
        self._plain = False
        self._seen: dict[tuple[int, str], str] = {}
        self._first_choice: int | None = None
        self._texts: list[str] = []
        self._usage = UsageCounter(sums_events=api.startswith("triton"))

    @property
    def text(self) -> str:
        """Answer text of the first choice."""
        return "".join(self._texts)

    def feed(self, data: bytes, arrived_s: float) -> None:
        """Take bytes in order; the events that they complete arrived with them."""
        for kind, payload in self._sse.feed(data):
            if self.ended:
                break
            self._event(kind, payload, arrived_s)

    def feed_reads(self, pieces: list[bytes], arrived_s: list[float]) -> None:
        """Take many pieces at once, each with its arrival: the same result as `feed` for each, at a fraction."""
        done = 0
        while done < len(pieces) and not self._plain:
            self.feed(pieces[done], arrived_s[done])
            done += 1
        if len(pieces) - done > _FEW:
            # the last piece is usually the irregular one because of which the reads were taken
            done += self._feed_regular(pieces[done:-1], arrived_s[done:-1])
        for piece, instant_s in zip(pieces[done:], arrived_s[done:], strict=True):
            self.feed(piece, instant_s)

    def _feed_regular(self, pieces: list[bytes], arrived_s: list[float]) -> int:
        """Decode pieces of exactly one event each with one call of the JSON decoder; 0 if they are not like that."""
        chunks = regular_chunks(pieces) if self._sse.between_events else []
        texts = list(itertools.takewhile(bool, map(plain_text, chunks, itertools.repeat(self._first_choice))))
        plain = len(texts)
        self.events += plain
        self._texts += texts
        self._token_events(texts, arrived_s[:plain])
        for i in range(plain, len(chunks)):
            if self.ended:
                break
            chunk = chunks[i]
            if chunk.choices is None or chunk.error:
                self.feed(pieces[i], arrived_s[i])
            else:
                self.take(chunk, arrived_s[i])
        return len(chunks)

    def finish(self, arrived_s: float) -> None:
        """End of the body; `arrived_s` is the arrival of its last bytes."""
        for kind, payload in self._sse.finish():
            if not self.ended:
                self._event(kind, payload, arrived_s)

    def feed_message(self, body: bytes) -> None:
        """The whole JSON body of an answer that was not streamed: text and counts, but no token events."""
        try:
            chunk = payloads.chat_chunk(body) if self._api != "responses" else other_payloads.responses_message(body)
        except payloads.NotJSON as error:
            self.malformed = f"the answer is not JSON: {error}"
            return
        self.events += 1
        self.error_text = chunk.error_text
        for choice in chunk.choices or ():
            self._usage.finished(choice)
            if self.finish_reason is None:
                self.finish_reason = choice.finish_reason or "stop"
                self._texts.append((choice.message.content if choice.message else choice.text) or "")
        if chunk.usage is not None:
            self._usage.final(chunk.usage)

    # ------------------------------------------------------------------ one event

    def _event(self, kind: bytes, payload: bytes, arrived_s: float) -> None:
        if payload == sse.DONE:
            self._end(arrived_s)
            return
        if kind == b"error":
            self._fail(payloads.error_text(payload), arrived_s)
            return
        try:
            chunk = self._parse(payload)
        except payloads.NotJSON as error:
            self.malformed = f"an event is not JSON: {error}"
            self._end(arrived_s)
            return
        self.take(chunk, arrived_s)

    def take(self, chunk: Chunk, arrived_s: float) -> None:
        """Take one event that is parsed already."""
        self.events += 1
        if chunk.error_text is not None:
            self._fail(chunk.error_text, arrived_s)
            return
        self._chunk(chunk, arrived_s)
        if chunk.end:
            self._end(arrived_s)

    def _chunk(self, chunk: Chunk, arrived_s: float) -> None:
        choices = chunk.choices
        if not choices:
            if chunk.usage is not None:
                self._usage.final(chunk.usage)
            return
        channel, text = self._payload(choices[0])
        for choice in choices[1:]:
            more, more_text = self._payload(choice)
            if more and channel != ANSWER:
                channel, text = more, more_text
        tokens = told_tokens(chunk)
        is_token = bool(channel or tokens)
        if chunk.usage is not None or self._usage.running is None:
            grown = self._usage.grown(chunk.usage, choices[0], has_payload=is_token)
            if grown is not None:
                is_token = grown > 0
                tokens = grown or None
        if is_token:
            self._token_event(channel, text, tokens, arrived_s)
        elif channel == ANSWER and self.first_answer_s is None and self.arrivals_s:
            self.first_answer_s = arrived_s  # text that the server had held back until now
        for choice in choices:
            if choice.finish_reason:
                self._finish_choice(choice, arrived_s)

    def _token_events(self, texts: list[str], arrived_s: list[float]) -> None:
        """Token events of plain answer text."""
        if len({*self.arrivals_s[-1:], *arrived_s}) <= len(arrived_s):  # some share a read
            for text, instant_s in zip(texts, arrived_s, strict=True):
                self._token_event(ANSWER, text, None, instant_s)
            return
        self.arrivals_s += arrived_s
        self.counts += [None] * len(texts)
        self.channels += [ANSWER] * len(texts)
        if self._keep_event_texts:
            self.event_texts += texts

    def _token_event(self, channel: str, text: str, tokens: int | None, arrived_s: float) -> None:
        if channel == ANSWER and self.first_answer_s is None:
            self.first_answer_s = arrived_s
            self._plain = self._usage.running is False and not self._cumulative and self._parse is payloads.chat_chunk
        arrivals_s = self.arrivals_s
        if arrivals_s and arrivals_s[-1] == arrived_s and arrived_s != self._coalesced_s:
            self.coalesced_reads += 1
            self._coalesced_s = arrived_s
        arrivals_s.append(arrived_s)
        self.counts.append(tokens)
        self.channels.append(channel or (self.channels[-1] if self.channels else ANSWER))
        if self._keep_event_texts:
            self.event_texts.append(text)

    def _payload(self, choice: Choice) -> tuple[str, str]:
        """Channel and text of what the choice adds; ("", "") if it adds nothing."""
        delta = choice.delta
        text = choice.text if delta is None else delta.content
        if text:
            channel = ANSWER
        elif delta is not None:
            channel, text = other_channel(delta)
        else:
            return "", ""
        if self._cumulative and text:
            key = (choice.index or 0, channel)
            seen = self._seen.get(key, "")
            self._seen[key] = text
            if len(text) <= len(seen):
                return "", ""
            text = text[len(seen) :]
        if channel == ANSWER:
            if self._first_choice is None:
                self._first_choice = choice.index
            if choice.index == self._first_choice:
                self._texts.append(text)
        return channel, text

    def _finish_choice(self, choice: Choice, arrived_s: float) -> None:
        self._usage.finished(choice)
        if self.finish_reason is None or not choice.index:
            self.finish_reason = choice.finish_reason
        if choice.finish_reason in _FAILED_REASONS:
            self._fail(f"finish_reason {choice.finish_reason}", arrived_s)

    def _fail(self, text: str, arrived_s: float) -> None:
        self.error_text = text or "error event without a message"
        self._end(arrived_s)

    def _end(self, arrived_s: float) -> None:
        self.ended = True
        self.end_s = arrived_s

    def token_count(self) -> TokenCount:
        """The server's final count, else its last running one, else the number of token events."""
        return self._usage.count(self.counts)

    def event_counts(self) -> list[int | None]:
        """Tokens per token event, all unknown where they contradict the server's own sum."""
        return self._usage.checked(self.counts)
