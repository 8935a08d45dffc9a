"""One request and its response on the wire: connection, sending, time-outs, decoding, the instants between.

Everything measured below HTTP's meaning is collected here; `outcome` turns it into a result.
"""

import ssl
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scenarios.clients import stamps
from scenarios.clients.connection import Connection, Pool
from scenarios.clients.dial import WireError, tls_context
from scenarios.clients.response import Response
from scenarios.clients.route import Route
from scenarios.clients.token_events import StreamDecoder

_KEPT_BODY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds; None switches one off.

    `connect_s` covers name lookup, TCP, proxy and TLS. `first_token_s` runs from sent to the first token
    event, `gap_s` between token events, `total_s` from sent to the end mark.
    """

    connect_s: float | None = 10.0
    first_token_s: float | None = 300.0
    gap_s: float | None = 120.0
    total_s: float | None = None

    def next_limit(self, sent_s: float, arrivals_s: Sequence[float]) -> tuple[float | None, str, str]:
        """The instant of the next time-out after `sent_s`, its error class and what it would mean."""
        limits: list[tuple[float, str, str]] = []
        if arrivals_s and self.gap_s is not None:
            limits.append((arrivals_s[-1] + self.gap_s, "timeout_gap", f"no further token for {self.gap_s} s"))
        elif not arrivals_s and self.first_token_s is not None:
            text = f"no token within {self.first_token_s} s"
            limits.append((sent_s + self.first_token_s, "timeout_first_token", text))
        if self.total_s is not None:
            limits.append((sent_s + self.total_s, "timeout_total", f"not ended within {self.total_s} s"))
        return min(limits, default=(None, "", ""))


@dataclass(frozen=True, slots=True)
class Wire:
    """What the requests of one client share."""

    pool: Pool
    timeouts: Timeouts
    verify: bool = True
    ca_file: str | None = None

    def connect(self, route: Route) -> Connection:
        # One context per connection costs 10 ms; they are cached beside the pool.
        context = _tls_contexts.get((self.verify, self.ca_file)) if route.scheme == "https" else None
        if route.scheme == "https" and context is None:
            context = _tls_contexts[self.verify, self.ca_file] = tls_context(verify=self.verify, ca_file=self.ca_file)
        return Connection(route, context, self.timeouts.connect_s)


_tls_contexts: dict[tuple[bool, str | None], ssl.SSLContext] = {}


class Exchange:
    """State of one request on the wire; readable at any time, also after it was broken off."""

    def __init__(self, decoder: StreamDecoder | None, on_tokens: Callable[[], None] | None = None) -> None:
        self.decoder = decoder
        self.started_s = time.perf_counter()
        self.sent_s: float | None = None
        self.end_s: float | None = None
        self.connect_ms = 0.0
        self.reused = False
        self.stale_retries = 0
        self.done = False  # the stream has ended; what may follow is the connection's business
        self.failure: tuple[str, str] | None = None
        self.response = Response()
        self.body = b""  # start of a body that is no event stream
        self._on_tokens = on_tokens
        self._inflate: zlib._Decompress | None = None

    # ------------------------------------------------------------------ the way of a request

    def run(self, wire: Wire, route: Route, request: bytes) -> None:
        """Send `request` and read until its end mark or the end of its message. Raises `WireError`."""
        connection, self.stale_retries = wire.pool.take(route)
        self.reused = connection is not None
        if connection is None:
            connection = self._connect(wire, route)
        try:
            self._converse(connection, wire.timeouts, request)
            if self.reused and self.response.closed and not self.response.reads:
                # The server closed the idle connection while the request was on its way: nothing was answered,
                # so it is sent once more. Its latency starts there; the lost time lies before `sent`.
                connection.close()
                self.stale_retries += 1
                self.reused = False
                connection = self._connect(wire, route)
                self._converse(connection, wire.timeouts, request)
            self.done = True
            connection.release(wire.pool)
        except BaseException:
            if not self.done:
                self.end_s = time.perf_counter()
            connection.close()
            raise
        finally:
            stamps.COUNTERS.reads += self.response.reads
            stamps.COUNTERS.coalesced_reads += self.decoder.coalesced_reads if self.decoder else 0

    def _connect(self, wire: Wire, route: Route) -> Connection:
        start_s = time.perf_counter()
        try:
            return wire.connect(route)
        finally:
            self.end_s = time.perf_counter()
            self.connect_ms = (self.end_s - start_s) * 1000

    def _converse(self, connection: Connection, timeouts: Timeouts, request: bytes) -> None:
        response = self.response = Response(wake_always=self._on_tokens is not None)
        self.sent_s = sent_s = connection.send(request, response, timeouts.first_token_s)
        decoder = self.decoder
        while True:
            connection.wait(self._look_at_s(timeouts, sent_s))
            silent = not response.wake and not connection.read_now()
            self.consume()
            if decoder is not None and decoder.ended:
                self.end_s = decoder.end_s
                return
            if response.complete or response.closed:
                self.end_s = response.end_s
                if decoder is not None and not response.error:
                    decoder.finish(response.end_s)
                return
            limit_s, error_class, text = timeouts.next_limit(sent_s, self._arrivals_s)
            if silent and limit_s is not None and time.perf_counter() >= limit_s:
                raise WireError(error_class, text)

    def _look_at_s(self, timeouts: Timeouts, sent_s: float) -> float | None:
        """When to look for a time-out next. Regular tokens wake nobody, so the first may be there unseen already."""
        limit_s, _, _ = timeouts.next_limit(sent_s, self._arrivals_s)
        if timeouts.gap_s is None or self._arrivals_s:
            return limit_s
        gap_end_s = time.perf_counter() + timeouts.gap_s
        return gap_end_s if limit_s is None else min(limit_s, gap_end_s)

    @property
    def _arrivals_s(self) -> Sequence[float]:
        return self.decoder.arrivals_s if self.decoder else ()

    # ------------------------------------------------------------------ bytes to events

    def consume(self) -> None:
        """Decode what has been read since the last time."""
        response = self.response
        decoder = self.decoder if 200 <= response.status < 300 else None
        pieces, arrived_s = response.take()
        if response.headers.get("content-encoding", "identity") != "identity":
            pieces = [self._inflated(piece) for piece in pieces]
        if decoder is not None:
            decoder.feed_reads(pieces, arrived_s)
        if decoder is None or response.media_type != "text/event-stream":
            room = _KEPT_BODY_BYTES - len(self.body) if self.decoder is not None else None
            self.body += b"".join(pieces)[:room]
        if self._on_tokens is not None:
            self._on_tokens()

    def _inflated(self, data: bytes) -> bytes:
        encoding = self.response.headers["content-encoding"].strip().lower()
        if self._inflate is None:
            if encoding not in ("gzip", "x-gzip", "deflate"):
                raise WireError("protocol_error", f"content-encoding {encoding!r}, though identity was asked for")
            raw_deflate = encoding == "deflate" and data[:1] != b"\x78"
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS if raw_deflate else 32 + zlib.MAX_WBITS)
        try:
            return self._inflate.decompress(data)
        except zlib.error as error:
            raise WireError("protocol_error", f"broken {encoding} data: {error}") from None

    @property
    def cut_in_encoding(self) -> bool:
        """The body ended inside of its gzip or deflate data."""
        return self._inflate is not None and not self._inflate.eof
