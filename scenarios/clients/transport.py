"""The HTTP transport under the openai SDK: builds the request bytes, runs the exchange, hands status back.

The SDK keeps building requests, headers, auth and errors. The stream itself never goes through it: the
exchange of the running greenlet (see `exchanging`) collects bytes and arrivals, and the SDK gets an answer
once the stream has ended. A request that differs from one before only in its body may be sent `again` with
that one's head: the SDK takes half a millisecond for it, as much as thirty streamed tokens cost.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import httpx2

from scenarios.clients.dial import Route, WireError, proxy_for
from scenarios.clients.exchange import Exchange, Head, Wire

OnHead = Callable[[Head], None]

_current: ContextVar[tuple[Exchange, OnHead] | None] = ContextVar("exchange", default=None)


@contextmanager
def exchanging(exchange: Exchange, on_head: OnHead) -> Iterator[None]:
    """The next request of this greenlet is measured by `exchange`; `on_head` gets its head before it is sent."""
    token = _current.set((exchange, on_head))
    try:
        yield
    finally:
        _current.reset(token)


class StampedTransport(httpx2.BaseTransport):
    """One keep-alive connection per request in flight, as many as there are requests."""

    def __init__(self, wire: Wire, *, proxies: Mapping[str, str] | None = None) -> None:
        self._wire = wire
        self._proxies = proxies
        self._routes: dict[tuple[str, str, int], Route] = {}

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange, on_head = _current.get() or (Exchange(None), lambda _: None)
        route = self._route(request.url)
        head = Head(route, _head(request, route))
        on_head(head)
        self.again(head, request.read(), exchange)
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

    def again(self, head: Head, body: bytes, exchange: Exchange) -> None:
        """Send a request; what fails below HTTP is kept as the exchange's failure."""
        length = b"Content-Length: %d\r\n\r\n" % len(body) if body else b"\r\n"
        try:
            exchange.run(self._wire, head.route, head.lines + length + body)
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


def _head(request: httpx2.Request, route: Route) -> bytes:
    """Request line and headers but for the length of the body."""
    target = request.url.raw_path
    lines: list[tuple[bytes, bytes]] = []
    if route.proxy and route.scheme == "http":  # a plain proxy wants the whole URL
        target = str(request.url).encode()
        if route.proxy.authorization:
            lines.append((b"Proxy-Authorization", route.proxy.authorization.encode()))
    lines += [(name, value) for name, value in request.headers.raw if name.lower() != b"content-length"]
    head = b"".join([b"%s: %s\r\n" % line for line in lines])
    return b"%s %s HTTP/1.1\r\n%s" % (request.method.encode(), target, head)
