"""A connection that reads by a libev watcher: stamp first, parse next, wake the request only when needed.

The watcher's callback runs in gevent's hub for every readable socket and does the least that is right:
recvmsg, arrival, HTTP parser. The request's greenlet sleeps meanwhile. Idle connections wait in a `Pool`
without any limit on their number: a limit would make requests wait and book the wait as latency.
"""

import ssl
from _socket import MSG_PEEK
from collections.abc import Callable
from time import perf_counter
from typing import Any

import gevent.socket
from gevent.hub import Waiter, get_hub
from httptools import HttpParserError

from scenarios.clients.dial import WireError, dial
from scenarios.clients.response import Response
from scenarios.clients.route import Route
from scenarios.clients.stamps import ANCILLARY_BYTES, arrival_s, enable_stamps

_READ_BYTES = 65536
_LIBEV_READ = 1

# After an end mark the rest of the message is read away: so long while the request waits, so that the user's
# next one finds the connection free, and so long behind its back, before the connection is closed instead.
_DRAIN_WAIT_S = 0.1
_DRAIN_S = 5.0
_DRAIN_READS = 1000


class Connection:
    """One socket, for one request at a time."""

    __slots__ = ("_after_drain", "_drain_timer", "_io", "_recvmsg", "_sock", "_tls", "_waiter", "response", "route")

    def __init__(self, route: Route, context: ssl.SSLContext | None, timeout_s: float | None) -> None:
        self.route = route
        self._sock, self._tls = dial(route, context, timeout_s)
        enable_stamps(self._sock)
        self._recvmsg = self._sock.recvmsg
        self._io = get_hub().loop.io(self._sock.fileno(), _LIBEV_READ)
        self._waiter: Waiter | None = None
        self._after_drain: Callable[[], None] | None = None
        self._drain_timer: Any = None  # a libev timer
        self.response = Response()

    # ------------------------------------------------------------------ one request

    def send(self, request: bytes, response: Response, wait_s: float | None) -> float:
        """Send a request whose answer goes to `response`; returns the instant of sending.

        That is the entry of the send call that took the last byte: before it the server cannot have the whole
        request, and whatever delays this process afterwards is not booked as time before sending.
        """
        self.response = response
        self._io.start(self._on_readable)
        view = memoryview(self._tls.encrypt(request) if self._tls else request)
        while True:
            sent_s = perf_counter()
            try:
                view = view[self._sock.send(view) :]
                if not view:
                    return sent_s
            except BlockingIOError:
                limit = WireError("timeout_first_token", f"the server took no more request bytes for {wait_s} s")
                gevent.socket.wait_write(self._sock.fileno(), wait_s, limit)
            except OSError:
                return sent_s  # closed by the peer: what it has answered, if anything, the reads will tell

    def wait(self, until_s: float | None) -> None:
        """Sleep until the response wants attention or the instant has passed."""
        if self.response.wake:
            return
        waiter = self._waiter = Waiter()
        timer = None
        if until_s is not None:
            timer = get_hub().loop.timer(max(0.0, until_s - perf_counter()))
            timer.start(waiter.switch, None)
        try:
            waiter.get()
        finally:
            self._waiter = None
            if timer is not None:
                timer.stop()
                timer.close()

    def read_now(self) -> bool:
        """One read outside of the event loop: a busy process must not take unread tokens for a silent server."""
        reads = self.response.reads
        self._on_readable()
        return self.response.reads > reads or self.response.closed

    def _on_readable(self) -> None:
        response = self.response
        try:
            data, ancillary, _, _ = self._recvmsg(_READ_BYTES, ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._ended(error.strerror or str(error))
            return
        read_s = perf_counter()
        if not data:
            self._ended(None)
            return
        arrived_s = arrival_s(ancillary, read_s)
        if arrived_s is None:
            arrived_s = read_s
            response.unstamped_reads += 1
        elif read_s - arrived_s > response.max_lag_s:
            response.max_lag_s = read_s - arrived_s
        response.reads += 1
        response.end_s = arrived_s
        if self._tls is not None:
            data = self._decrypted(data)
        try:
            response.parse(data)
        except HttpParserError as error:
            response.not_http(error)
        if response.wake and self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            waiter.switch(None)
        elif self._after_drain is not None and (response.complete or response.reads > _DRAIN_READS):
            self._after_drain()

    def _decrypted(self, data: bytes) -> bytes:
        assert self._tls is not None
        try:
            plain = self._tls.decrypt(data)
        except ssl.SSLError as error:
            self.response.end_of_input(self.response.end_s, f"TLS: {error.reason or error}")
            return b""
        if plain is None:
            self.response.end_of_input(self.response.end_s, None)
        return plain or b""

    def _ended(self, error: str | None) -> None:
        self._io.stop()
        self.response.end_of_input(perf_counter(), error)
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            waiter.switch(None)
        elif self._after_drain is not None:
            self._after_drain()

    # ------------------------------------------------------------------ between requests

    def release(self, pool: "Pool") -> None:
        """The request is done with this connection: reuse it, drain it first, or close it."""
        response = self.response
        if not response.complete and not response.closed and pool.keeps:
            response.discard()
            self.wait(perf_counter() + _DRAIN_WAIT_S)
        if response.complete or response.closed or not pool.keeps:
            self._keep_or_close(pool)
        else:
            self._drain(pool)

    def _keep_or_close(self, pool: "Pool") -> None:
        response = self.response
        if response.complete and response.keep_alive and not response.closed and pool.keeps:
            self._io.stop()
            pool.put(self)
        else:
            self.close()

    def _stop_drain(self) -> None:
        if self._after_drain is not None:
            self._after_drain = None
            self._drain_timer.stop()
            self._drain_timer.close()

    def _drain(self, pool: "Pool") -> None:
        def drained() -> None:
            pool.draining.discard(self)
            self._stop_drain()
            self._keep_or_close(pool)

        pool.draining.add(self)
        self._after_drain = drained
        self._drain_timer = get_hub().loop.timer(_DRAIN_S)
        self._drain_timer.start(drained)

    def is_open(self) -> bool:
        """Whether an idle connection can take a request: the peer has neither closed it nor sent anything."""
        try:
            data = self._sock.recv(_READ_BYTES, 0 if self._tls else MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data or self._tls is None:
            return False
        try:
            return self._tls.decrypt(data) == b""  # a session ticket, say
        except ssl.SSLError:
            return False

    def close(self) -> None:
        if self._sock.fileno() < 0:
            return
        self._stop_drain()
        self._io.stop()
        self._io.close()
        self._sock.close()


class Pool:
    """Idle connections by route, the most recently used first."""

    def __init__(self, *, keeps: bool = True) -> None:
        self.keeps = keeps
        self.draining: set[Connection] = set()
        self._idle: dict[Route, list[Connection]] = {}

    def take(self, route: Route) -> tuple[Connection | None, int]:
        """An idle connection, and how many were found closed on the way to it."""
        stale = 0
        idle = self._idle.get(route, [])
        while idle:
            connection = idle.pop()
            if connection.is_open():
                return connection, stale
            connection.close()
            stale += 1
        return None, stale

    def put(self, connection: Connection) -> None:
        self._idle.setdefault(connection.route, []).append(connection)

    def close(self) -> None:
        self.keeps = False
        while self.draining:
            self.draining.pop().close()
        for idle in self._idle.values():
            while idle:
                idle.pop().close()
