"""A loopback HTTP/1.1 server that plays scripted answers at precise times and records what it saw.

In a test:  `with ScriptedServer(answer) as server: … server.url, server.requests, server.peak_in_flight`
Alone:      `python -m tests.support.scripted_server tests/cases/sse.yaml` serves the case that a request names
            as its model and prints its port.

It frames and times by itself on asyncio, in a thread, so that it shares no code with what it tests.
"""

import asyncio
import json
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

EVENT_STREAM = {"Content-Type": "text/event-stream"}

FIN = "fin"  # end the message properly, then close
ABORT = "abort"  # close without the last chunk
RESET = "reset"  # as abort, with a TCP reset

Step = tuple[float, bytes | str]  # wait so many ms after the step before, then send the bytes or close


@dataclass(frozen=True)
class Answer:
    """One scripted answer. With `raw` the script's bytes are sent as they are, head and framing included."""

    script: Sequence[Step] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: EVENT_STREAM)
    framing: str = "chunked"  # chunked, close or content-length
    raw: bool = False
    head_delay_ms: float = 0.0


@dataclass
class Seen:
    """One request as it arrived; `connection` counts connections from 1.

    `late_ms` is how late the server was with a step of its answer, at most: on a busy machine a test allows for it.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    connection: int
    at_s: float  # time.perf_counter of its last byte
    late_ms: float = 0.0

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answers = Answer | Sequence[Answer] | Callable[[Seen], Answer]


def event(**fields: Any) -> bytes:
    """One SSE event."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def chat_event(content: str | None = None, finish_reason: str | None = None, **delta: Any) -> bytes:
    """A chat chunk with one choice."""
    if content is not None:
        delta["content"] = content
    return event(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason}])


DONE = b"data: [DONE]\n\n"


def chat_stream(ttft_ms: float = 100, gap_ms: float = 50, tokens: int = 10, done_ms: float = 0) -> Answer:
    """Tokens at `ttft_ms` and every `gap_ms` after it, then finish, usage and the end mark."""
    script: list[Step] = [(ttft_ms if i == 0 else gap_ms, chat_event(f" t{i}")) for i in range(tokens)]
    usage = {"prompt_tokens": 12, "completion_tokens": tokens, "total_tokens": 12 + tokens}
    script += [(done_ms, chat_event(finish_reason="stop")), (0, event(choices=[], usage=usage)), (0, DONE)]
    return Answer(script)


def json_answer(status: int, value: Any, **headers: str) -> Answer:
    """A whole JSON body."""
    body = json.dumps(value).encode()
    return Answer([(0, body)], status, {"Content-Type": "application/json", **headers}, "content-length")


def from_case(repro: Mapping[str, Any], framing: str | None = None) -> Answer:
    """The answer that a case of kind `sse` describes."""
    response = repro.get("response") or {}
    return Answer(
        [(delay, _step_data(data)) for delay, data in repro["script"]],
        response.get("status", 200),
        {**EVENT_STREAM, **response.get("headers", {})},
        framing or response.get("framing", "chunked"),
    )


def _step_data(data: Any) -> bytes | str:
    if isinstance(data, str):
        return data.encode()
    if "hex" in data:
        return bytes.fromhex(data["hex"])
    if "concat" in data:
        return b"".join(
            part["fill"].encode() * part["n"] if isinstance(part, Mapping) else part.encode() for part in data["concat"]
        )
    return str(data["close"])


class ScriptedServer:
    """Context manager; `answers` is one answer for all requests, one after the other, or chosen by a function."""

    def __init__(
        self,
        answers: Answers,
        *,
        tls: ssl.SSLContext | None = None,
        accept_delay_s: float = 0.0,
        idle_close_s: float | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.requests: list[Seen] = []
        self.connections = 0
        self.in_flight = 0
        self.peak_in_flight = 0
        self._answers = answers
        self._tasks: set[asyncio.Task[None]] = set()
        self._tls = tls
        self._accept_delay_s = accept_delay_s
        self._idle_close_s = idle_close_s
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=1024)
        self._listener.setblocking(False)
        self.host, self.port = self._listener.getsockname()[:2]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True, name="scripted-server")

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._listener.close()

    def refuse(self) -> None:
        """Stop listening: further connections are refused. For a script's own function, which runs in the loop."""
        self._accepting.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    # ------------------------------------------------------------------ server

    def _serve(self) -> None:
        try:
            self._accepting = self._spawn(self._accept())
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._end_tasks())
            self._loop.close()

    async def _end_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # transports close one turn of the loop later

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)  # the loop itself keeps only weak references
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self) -> None:
        while True:
            sock, _ = await self._loop.sock_accept(self._listener)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio leaves it out for accepted sockets
            self.connections += 1
            self._spawn(self._converse(sock, self.connections))

    async def _converse(self, sock: socket.socket, number: int) -> None:
        if self._accept_delay_s:
            await asyncio.sleep(self._accept_delay_s)
        writer: asyncio.StreamWriter | None = None
        try:
            reader = asyncio.StreamReader(limit=1 << 26)
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, sock, ssl=self._tls)
            writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
            keep_alive = True
            while keep_alive:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self._idle_close_s)
                seen = await self._request(head, reader, number)
                keep_alive = await self._counted(seen, writer)
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client went away, or was idle for too long
        finally:
            if writer is not None:
                writer.close()
            else:
                sock.close()

    async def _request(self, head: bytes, reader: asyncio.StreamReader, number: int) -> Seen:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        seen = Seen(method, target, headers, body, number, time.perf_counter())
        self.requests.append(seen)
        return seen

    async def _counted(self, seen: Seen, writer: asyncio.StreamWriter) -> bool:
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        try:
            return await self._play(self._choose(seen), seen, writer)
        finally:
            self.in_flight -= 1

    def _choose(self, seen: Seen) -> Answer:
        if isinstance(self._answers, Answer):
            return self._answers
        if callable(self._answers):
            return self._answers(seen)
        return self._answers[min(len(self.requests), len(self._answers)) - 1]

    async def _play(self, answer: Answer, seen: Seen, writer: asyncio.StreamWriter) -> bool:
        """Send the answer; True if the connection may take another request."""
        due_s = self._loop.time() + answer.head_delay_ms / 1000
        await asyncio.sleep(due_s - self._loop.time())
        if not answer.raw:
            writer.write(_head(answer))
        for delay_ms, data in answer.script:
            due_s += delay_ms / 1000
            await asyncio.sleep(due_s - self._loop.time())
            seen.late_ms = max(seen.late_ms, (self._loop.time() - due_s) * 1000)
            if isinstance(data, str):
                return await _close(data, answer, writer)
            writer.write(
                b"%x\r\n%s\r\n" % (len(data), data) if answer.framing == "chunked" and not answer.raw else data
            )
            await writer.drain()
        if answer.framing == "chunked" and not answer.raw:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return answer.framing != "close" and not answer.raw


def _head(answer: Answer) -> bytes:
    headers = dict(answer.headers)
    if answer.framing == "chunked":
        headers["Transfer-Encoding"] = "chunked"
    elif answer.framing == "content-length":
        headers["Content-Length"] = str(sum(len(data) for _, data in answer.script if isinstance(data, bytes)))
    else:
        headers["Connection"] = "close"
    lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _close(how: str, answer: Answer, writer: asyncio.StreamWriter) -> bool:
    if how == FIN and answer.framing == "chunked" and not answer.raw:
        writer.write(b"0\r\n\r\n")
    if how == RESET:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    return False


def main(cases_file: str) -> None:
    """Serve the cases of a file until standard input ends."""
    import yaml

    cases = {case["id"]: case["repro"] for case in yaml.safe_load(Path(cases_file).read_text())}
    with ScriptedServer(lambda seen: from_case(cases[seen.json["model"]])) as server:
        print(server.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
