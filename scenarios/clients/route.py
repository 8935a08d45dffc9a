"""Where a connection leads, and through which proxy. Making it is `dial`'s business."""

import base64
import ipaddress
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; `authorization` is a ready header value or empty."""

    host: str
    port: int
    authorization: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a connection leads; connections of equal routes can stand in for each other."""

    scheme: str
    host: str
    port: int
    proxy: Proxy | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        via = f" through proxy {self.proxy.host}:{self.proxy.port}" if self.proxy else ""
        return f"{host}:{self.port}{via}"


def proxy_for(scheme: str, host: str, port: int, proxies: Mapping[str, str] | None) -> Proxy | None:
    """The proxy of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, or of `proxies` by scheme where given.

    This machine itself is never asked through a proxy of the environment: the practice engine answers there.
    Raises `ValueError` for a proxy that can't be used.
    """
    if proxies is None:
        if is_loopback(host):
            return None
        proxies = urllib.request.getproxies_environment()
        bypass = getattr(urllib.request, "proxy_bypass_environment")  # noqa: B009  (typeshed lacks it)
        if bypass(host) or bypass(f"{host}:{port}"):
            return None
    address = proxies.get(scheme) or proxies.get("all")
    if not address:
        return None
    try:
        url = urllib.parse.urlsplit(address if "://" in address else f"http://{address}")
        proxy_port = url.port or 80
    except ValueError:  # its text may quote a password
        raise ValueError(f"the proxy for {scheme} is no address: expected http://HOST:PORT") from None
    if url.scheme != "http" or not url.hostname:
        raise ValueError(f"proxy {url.scheme}://{url.hostname}: only http:// proxies are supported")
    authorization = ""
    if url.username:
        user = urllib.parse.unquote(url.username) + ":" + urllib.parse.unquote(url.password or "")
        authorization = "Basic " + base64.b64encode(user.encode()).decode()
    return Proxy(url.hostname, proxy_port, authorization)


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own: localhost, 127.0.0.0/8 or ::1."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
