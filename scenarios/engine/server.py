"""Runs the engine's application on uvicorn, for exact token times.

Three things differ from a plain uvicorn: the application gets the connection's transport, to write a token
without passing through a task; the event loop is asyncio's own, whose transport sends at once (uvloop's
waits for the end of the loop's turn); and its timers are exact to the kernel's, not to a millisecond.
"""

import asyncio
import contextlib
import gc
import logging
import resource
import select
import selectors
import signal
import socket
import sys
from types import FrameType

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from scenarios.engine.app import EngineApp
from scenarios.engine.settings import Settings

BACKLOG = 2048
KEEP_ALIVE_S = 600


def serve(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; raises OSError when the address can't be had."""
    raise_file_limit()
    listener = socket.create_server((settings.host, settings.port), backlog=BACKLOG)
    # Connections inherit it. asyncio sets it only on sockets that name their protocol, which accepted ones do
    # not; without it a first token waits up to 40 ms for the client's delayed acknowledgement of the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # uvicorn sends itself the signal again when it has shut down; the engine then ends as usual.
    signal.signal(signal.SIGINT, _ignore)
    signal.signal(signal.SIGTERM, _ignore)
    gc.freeze()  # what is loaded now stays: the collector need not look at it again and again
    with asyncio.Runner(loop_factory=exact_loop) as runner:
        runner.run(_serve(settings, listener))


async def _serve(settings: Settings, listener: socket.socket) -> None:
    app = EngineApp(settings)
    config = uvicorn.Config(
        app,
        http=TransportProtocol,
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=0,
    )
    server = EngineServer(config)
    model = asyncio.create_task(app.run())
    model.add_done_callback(server.on_model_ended)
    if settings.until_stdin_closes:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), server.stop)
    try:
        await server.serve(sockets=[listener])
        await server.wait_cut_requests()
    finally:
        model.remove_done_callback(server.on_model_ended)
        model.cancel()
        app.close()


class TransportProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with the connection's transport in the request's scope."""

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["extensions"] = {"transport": self.transport}  # type: ignore[dict-item]  # our own extension


class EngineServer(uvicorn.Server):
    """uvicorn's server, which says when it is ready and ends without waiting for its streams."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then print the one line that others wait for."""
        await super().startup(sockets)
        host, port = (sockets or [])[0].getsockname()[:2]
        print(f"engine ready at http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Cut what is running."""
        # Cutting streams is meant here, so what uvicorn says about it is of no use.
        logging.getLogger("uvicorn.error").disabled = True
        await super().shutdown(sockets)

    async def wait_cut_requests(self) -> None:
        """Let the requests that were cut write down their truth."""
        if tasks := list(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=2)

    def on_model_ended(self, _model: asyncio.Task[None]) -> None:
        """The model never ends by itself: without it no request would ever be answered."""
        print("the engine's model has failed", file=sys.stderr)
        self.stop()

    def stop(self) -> None:
        """End the server."""
        self.should_exit = True


class ExactSelector(selectors.EpollSelector):
    """An epoll selector whose time-outs are not rounded up to milliseconds: select() on the epoll itself."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events."""
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def exact_loop() -> asyncio.AbstractEventLoop:
    """An asyncio loop with exact timers (where there is no epoll: asyncio's own)."""
    if not hasattr(selectors, "EpollSelector"):
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(ExactSelector())


def raise_file_limit() -> None:
    """Allow as many connections as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(65536, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """The server has seen the signal."""
