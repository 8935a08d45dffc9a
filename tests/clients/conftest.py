"""What several files of client tests share."""

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def proxy_that_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment names a proxy for everything. It listens, and has had no connection when the test is over."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        for scheme in ("http", "https", "all", "grpc"):
            for variable in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
                monkeypatch.setenv(variable, f"http://127.0.0.1:{listener.getsockname()[1]}")
        for variable in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
            monkeypatch.delenv(variable, raising=False)
        yield
        with pytest.raises(BlockingIOError):
            listener.accept()
