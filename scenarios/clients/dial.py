"""From a route to a connected socket: name lookup, TCP, proxy tunnel, TLS handshake. Nothing of HTTP beyond.

Sockets are plain non-blocking ones of the interpreter's C module, whatever gevent has patched: the reader
needs `recvmsg` without a greenlet switch. Waiting goes through gevent.
"""

import errno
import ipaddress
import os
import ssl
from _socket import AI_NUMERICHOST, IPPROTO_TCP, SO_ERROR, SOCK_STREAM, SOL_SOCKET, TCP_NODELAY, getaddrinfo, socket
from socket import gaierror

import gevent
import gevent.socket

from scenarios.clients.route import Proxy, Route

_READ_BYTES = 65536


class WireError(Exception):
    """A failure below HTTP: its class for the record and one line of text."""

    def __init__(self, error_class: str, text: str) -> None:
        super().__init__(text)
        self.error_class = error_class
        self.text = text


def tls_context(*, verify: bool = True, ca_file: str | None = None) -> ssl.SSLContext:
    """One context per client; `ca_file` replaces the system's certificate authorities."""
    context = ssl.create_default_context(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def dial(route: Route, context: ssl.SSLContext | None, timeout_s: float | None) -> tuple[socket, "TLS | None"]:
    """A connected socket, and the TLS layer on it for https. Raises `WireError`."""
    sock: socket | None = None
    try:
        limit = WireError("timeout_connect", f"no connection to {route} within {timeout_s} s")
        with gevent.Timeout(timeout_s, limit):
            hop = route.proxy or route
            sock = _connect(hop.host, hop.port)
            if route.scheme != "https":
                return sock, None
            if route.proxy:
                _open_tunnel(sock, route, route.proxy)
            assert context is not None
            tls = TLS(context, route.host)
            tls.handshake(sock, route)
            return sock, tls
    except BaseException as error:
        if sock is not None:
            sock.close()
        if isinstance(error, OSError):
            raise _as_wire_error(error, f"cannot connect to {route}") from None
        raise


def _as_wire_error(error: OSError, what: str) -> WireError:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return WireError("fd_limit", "no file descriptor left: raise the limit (ulimit -n) or use more workers")
    return WireError("connect", f"{what}: {(error.strerror or str(error)).lower()}")


def _connect(host: str, port: int) -> socket:
    where = f"{host}:{port}"
    try:
        addresses = _resolve(host, port)
    except gaierror as error:
        raise WireError("connect", f"cannot resolve host {host!r}: {error.strerror}") from None
    except UnicodeError:
        raise WireError("connect", f"{host!r} is no host name") from None
    failure = "no address"
    for family, address in addresses:
        sock: socket | None = None
        try:
            sock = socket(family, SOCK_STREAM)
            sock.setblocking(False)
            code = sock.connect_ex(address)
            if code == errno.EINPROGRESS:
                gevent.socket.wait_write(sock.fileno())
                code = sock.getsockopt(SOL_SOCKET, SO_ERROR)
            if code == 0:
                sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
                return sock
            sock.close()
            failure = os.strerror(code).lower()
        except OSError as error:
            if sock is not None:
                sock.close()
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            failure = str(error)
        except BaseException:
            if sock is not None:
                sock.close()
            raise
    raise WireError("connect", f"cannot connect to {where}: {failure}")


def _resolve(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        found = gevent.socket.getaddrinfo(host, port, type=SOCK_STREAM)
    else:
        found = getaddrinfo(host, port, 0, SOCK_STREAM, 0, AI_NUMERICHOST)  # no thread for a literal address
    return [(entry[0], entry[4]) for entry in found]


def _open_tunnel(sock: socket, route: Route, proxy: Proxy) -> None:
    host = f"[{route.host}]" if ":" in route.host else route.host
    lines = [f"CONNECT {host}:{route.port} HTTP/1.1", f"Host: {host}:{route.port}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    send_all(sock, ("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = b""
    while b"\r\n\r\n" not in answer and len(answer) < _READ_BYTES:
        gevent.socket.wait_read(sock.fileno())
        data = sock.recv(_READ_BYTES)
        if not data:
            break
        answer += data
    status = answer.partition(b"\r\n")[0].decode("latin-1")
    if status.split(" ")[1:2] != ["200"]:
        raise WireError("connect", f"the proxy {proxy.host}:{proxy.port} refused the tunnel: {status or 'no answer'}")


def send_all(sock: socket, data: bytes) -> None:
    """Hand `data` to the socket, waiting while its buffer is full."""
    view = memoryview(data)
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            gevent.socket.wait_write(sock.fileno())


class TLS:
    """TLS over memory buffers, so that the one read path with its kernel stamps serves TLS as well."""

    __slots__ = ("_incoming", "_object", "_outgoing")

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def handshake(self, sock: socket, route: Route) -> None:
        """Raises `WireError` of class `tls`."""
        while True:
            try:
                self._object.do_handshake()
                send_all(sock, self._outgoing.read())
                return
            except ssl.SSLWantReadError:
                send_all(sock, self._outgoing.read())
                gevent.socket.wait_read(sock.fileno())
                data = sock.recv(_READ_BYTES)
                if not data:
                    raise WireError("tls", f"{route} closed the connection in the TLS handshake") from None
                self._incoming.write(data)
            except ssl.SSLCertVerificationError as error:
                raise WireError("tls", f"certificate of {route} refused: {error.verify_message}") from None
            except ssl.SSLError as error:
                raise WireError("tls", f"TLS handshake with {route} failed: {error.reason or error}") from None
            except OSError as error:
                raise WireError("tls", f"TLS handshake with {route} failed: {error.strerror or error}") from None

    def encrypt(self, data: bytes) -> bytes:
        self._object.write(data)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes | None:
        """Plain text in `data` (b"" for part of a record); None once the peer has ended TLS. May raise SSLError."""
        self._incoming.write(data)
        parts: list[bytes] = []
        try:
            while self._incoming.pending or self._object.pending():
                part = self._object.read(_READ_BYTES)
                if not part:
                    return b"".join(parts) or None
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            return b"".join(parts) or None
        return b"".join(parts)
