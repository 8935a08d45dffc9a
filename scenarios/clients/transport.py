"""The HTTP transport under the openai SDK: builds the request bytes, runs the exchange, hands status back.

The SDK keeps building requests, headers, auth and errors. The stream itself never goes through it: the
exchange of the running greenlet (see `exchanging`) collects bytes and arrivals, and the SDK gets an answer
once the stream has ended. A request that differs from one before only in its body may be sent `again` with
that one's head: the SDK takes half a millisecond for it, as much as thirty streamed tokens cost.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property

import httpx2

from scenarios.clients.access import EngineAccess
from scenarios.clients.dial import WireError
from scenarios.clients.exchange import Exchange
from scenarios.clients.route import Route, proxy_for


@dataclass(frozen=True)
class Head:
    """Request line and headers of a request, but for the length of its body, and where it goes."""

    route: Route
    request_line: bytes
    headers: tuple[tuple[bytes, bytes], ...]

    def request(self, headers: Mapping[str, str], body: bytes) -> bytes:
        """The bytes of a request with `headers` on top of these."""
        lines = self._lines
        if not self._names.isdisjoint(map(str.lower, headers)):
            replaced = {name.lower().encode() for name in headers}
            lines = _header_lines(pair for pair in self.headers if pair[0].lower() not in replaced)
        own = _header_lines((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items())
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        return b"".join((self.request_line, lines, own, length, b"\r\n", body))

    @cached_property
    def _lines(self) -> bytes:
        return _header_lines(self.headers)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name.decode("latin-1").lower() for name, _ in self.headers)


def _header_lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = [b"%s: %s\r\n" % pair for pair in headers]
    if any(b"\r" in line[:-2] or b"\n" in line[:-2] for line in lines):
        raise ValueError("a request header holds a line end")
    return b"".join(lines)


_current: ContextVar["Sending | None"] = ContextVar("sending", default=None)


@dataclass(slots=True)
class Sending:
    """A request about to go through the SDK: what measures it, and the headers that are its own.

    `on_head` gets the head that the SDK built, without those headers, before anything is sent.
    """

    exchange: Exchange
    headers: Mapping[str, str] = field(default_factory=dict)
    on_head: Callable[[Head], None] = lambda _: None


@contextmanager
def sending(this: Sending) -> Iterator[None]:
    """The next request of this greenlet is `this` one."""
    token = _current.set(this)
    try:
        yield
    finally:
        _current.reset(token)


class StampedTransport(httpx2.BaseTransport):
    """One keep-alive connection per request in flight, as many as there are requests."""

    def __init__(self, access: EngineAccess) -> None:
        self._wire = access.wire()
        self._proxies = access.proxies
        self._routes: dict[tuple[str, str, int], Route] = {}

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        this = _current.get() or Sending(Exchange(None))
        exchange = this.exchange
        try:
            route = self._route(request.url)
        except ValueError as error:  # of the proxy
            exchange.failure = ("connect", str(error))
            raise httpx2.TransportError(str(error)) from None
        head = _head(request, route)
        this.on_head(head)
        self.again(head, this.headers, request.read(), exchange)
        if exchange.failure is not None:
            raise httpx2.TransportError(exchange.failure[1])
        response = exchange.response
        if not response.status:
            raise httpx2.RemoteProtocolError(response.error or "the server closed the connection without an answer")
        return httpx2.Response(
            response.status,
            headers={"content-type": response.headers.get("content-type", "")},
            content=exchange.body,
            request=request,
        )

    def again(self, head: Head, headers: Mapping[str, str], body: bytes, exchange: Exchange) -> None:
        """Send a request with that head; what fails below HTTP is kept as the exchange's failure."""
        try:
            exchange.run(self._wire, head.route, head.request(headers, body))
        except WireError as error:
            exchange.failure = (error.error_class, error.text)

    def _route(self, url: httpx2.URL) -> Route:
        port = url.port or (443 if url.scheme == "https" else 80)
        key = (url.scheme, url.host, port)
        route = self._routes.get(key)
        if route is None:
            route = self._routes[key] = Route(*key, proxy_for(*key, self._proxies))
        return route

    def close(self) -> None:
        self._wire.pool.close()


def http_client(
    transport: StampedTransport, base_url: str = "", headers: Mapping[str, str] | None = None
) -> httpx2.Client:
    """The library's client, left to build requests and nothing else."""
    return httpx2.Client(
        base_url=base_url,
        transport=transport,
        trust_env=False,  # the transport knows the proxies; the library would go round it
        timeout=None,  # the exchange keeps the limits
        headers={"Accept-Encoding": "identity", **(headers or {})},  # compression would hold events back
    )


def _head(request: httpx2.Request, route: Route) -> Head:
    target = request.url.raw_path
    lines: list[tuple[bytes, bytes]] = []
    if route.proxy and route.scheme == "http":  # a plain proxy wants the whole URL
        target = str(request.url).encode()
        if route.proxy.authorization:
            lines.append((b"Proxy-Authorization", route.proxy.authorization.encode()))
    lines += [(name, value) for name, value in request.headers.raw if name.lower() != b"content-length"]
    return Head(route, b"%s %s HTTP/1.1\r\n" % (request.method.encode(), target), tuple(lines))
