"""The HTTP transport under the openai SDK: builds the request bytes, runs the exchange, hands status back.

The SDK keeps building requests, headers, auth and errors. The stream itself never goes through it: the
exchange of the running greenlet (see `exchanging`) collects bytes and arrivals, and the SDK gets an answer
with an empty body once the stream has ended.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import httpx2

from scenarios.clients.dial import Route, WireError, proxy_for
from scenarios.clients.exchange import Exchange, Wire

_current: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


@contextmanager
def exchanging(exchange: Exchange) -> Iterator[None]:
    """The next request of this greenlet is measured by `exchange`."""
    token = _current.set(exchange)
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
        exchange = _current.get() or Exchange(None)
        try:
            route = self._route(request.url)
            exchange.run(self._wire, route, _request_bytes(request, route))
        except WireError as error:
            exchange.failure = (error.error_class, error.text)
            raise httpx2.TransportError(error.text) from error
        response = exchange.response
        if not response.status:
            raise httpx2.RemoteProtocolError(response.error or "the server closed the connection without an answer")
        return httpx2.Response(
            response.status,
            headers={"content-type": response.headers.get("content-type", "")},
            content=exchange.body,
            request=request,
        )

    def _route(self, url: httpx2.URL) -> Route:
        port = url.port or (443 if url.scheme == "https" else 80)
        key = (url.scheme, url.host, port)
        route = self._routes.get(key)
        if route is None:
            route = self._routes[key] = Route(*key, proxy_for(*key, self._proxies))
        return route

    def close(self) -> None:
        self._wire.pool.close()


def _request_bytes(request: httpx2.Request, route: Route) -> bytes:
    target = request.url.raw_path
    extra = b""
    if route.proxy and route.scheme == "http":  # a plain proxy wants the whole URL
        target = str(request.url).encode()
        if route.proxy.authorization:
            extra = b"Proxy-Authorization: " + route.proxy.authorization.encode() + b"\r\n"
    headers = b"".join([b"%s: %s\r\n" % pair for pair in request.headers.raw])
    return b"%s %s HTTP/1.1\r\n%s%s\r\n%s" % (request.method.encode(), target, headers, extra, request.read())
