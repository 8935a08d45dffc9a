"""A bare HTTP client that stamps each event at its arrival: what the engine's truth is compared with."""

import json
import socket
from contextlib import closing
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes  # chunked coding taken off
    sent_s: float
    events: list[tuple[float, str]] = field(default_factory=list)  # arrival and data of each event
    complete: bool = True  # the body ended properly

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def chunks(self) -> list[Any]:
        """The JSON of all events but [DONE]."""
        return [json.loads(data) for _, data in self.events if data != "[DONE]"]

    @property
    def text(self) -> str:
        return "".join(token_text(chunk) for chunk in self.chunks)

    @property
    def token_arrivals_s(self) -> list[float]:
        return [at_s for at_s, data in self.events if data != "[DONE]" and token_text(json.loads(data))]


def token_text(chunk: dict[str, Any]) -> str:
    """Generated text of one chunk, reasoning included."""
    if chunk.get("type") == "response.output_text.delta":
        return str(chunk["delta"])
    choice = (chunk.get("choices") or [{}])[0]
    delta = choice.get("delta", {})
    return (delta.get("reasoning") or "") + (delta.get("content") or choice.get("text") or "")


def ask(url: str, path: str, body: dict[str, Any] | bytes | None = None, **headers: str) -> Answer:
    """Send one request on a new connection and read its answer to the end."""
    address = urlsplit(url)
    with closing(socket.create_connection((address.hostname, address.port), timeout=20)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return exchange(connection, path, body, **headers)


def chat(url: str, prompt: str = "Hello", **fields: Any) -> Answer:
    """Stream a chat completion."""
    body = {"messages": [{"role": "user", "content": prompt}], "stream": True, "ignore_eos": True, "max_tokens": 8}
    return ask(url, "/v1/chat/completions", {**body, **fields})


def exchange(
    connection: socket.socket, path: str, body: dict[str, Any] | bytes | None = None, **headers: str
) -> Answer:
    """Send one request on an open connection and read its answer to the end."""
    sent_s = send(connection, path, body, **headers)
    data, arrivals = b"", []
    while not _ended(data):
        try:
            read = connection.recv(1 << 16)
        except ConnectionResetError:
            read = b""
        if not read:
            break
        data += read
        arrivals.append((perf_counter(), len(data)))
    return _answer(data, arrivals, sent_s)


def send(connection: socket.socket, path: str, body: dict[str, Any] | bytes | None = None, **headers: str) -> float:
    """Send one request; the instant before that."""
    content = json.dumps(body).encode() if isinstance(body, dict) else body or b""
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "Host: test", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    sent_s = perf_counter()
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + content)
    return sent_s


def _ended(data: bytes) -> bool:
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        return False
    if b"chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
    return bool(length) and len(body) >= int(length)


def _answer(data: bytes, arrivals: list[tuple[float, int]], sent_s: float) -> Answer:
    head, _, raw = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    answer = Answer(int(status.split()[1]), headers, raw, sent_s, complete=_ended(data))
    if headers.get("transfer-encoding") == "chunked":
        _read_chunks(answer, raw, len(head) + 4, arrivals)
    return answer


def _read_chunks(answer: Answer, raw: bytes, offset: int, arrivals: list[tuple[float, int]]) -> None:
    """Take the chunked coding off; each chunk of the engine holds whole events."""
    answer.body, position = b"", 0
    while position < len(raw):
        line_end = raw.index(b"\r\n", position)
        size = int(raw[position:line_end], 16)
        content = raw[line_end + 2 : line_end + 2 + size]
        position = line_end + 2 + size + 2
        arrived_s = next((at_s for at_s, seen in arrivals if seen >= offset + position - 2), arrivals[-1][0])
        answer.body += content
        for event in content.decode().split("\n\n"):
            data = [line.removeprefix("data: ") for line in event.split("\n") if line.startswith("data: ")]
            answer.events += [(arrived_s, item) for item in data]
