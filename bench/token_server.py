"""A server that streams chat tokens at exact times and remembers when it sent each: truth for the client bench.

It does no more than a yardstick must: one process, one epoll loop, answers of a fixed number of tokens, each a
chunk of the size and form that vLLM writes. `GET /truth` gives, by the request's `x-request-id`, the monotonic
times (time.perf_counter, the same clock in every process of the machine) at which each token went into its socket;
`GET /count` gives the number of tokens sent, `GET /offset` what is to be added to such a time for one since 1970.
"""

import argparse
import heapq
import json
import select
import socket
import time

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nserver: bench\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(choices: str, extra: str = "") -> bytes:
    text = (
        'data: {"id":"chatcmpl-9877d68c97d1855b","object":"chat.completion.chunk","created":1795959068,'
        f'"model":"bench","choices":[{choices}]{extra}}}\n\n'
    )
    return chunk(text.encode())


ROLE = event('{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}')
TOKEN = event('{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null,"token_ids":null}')


def tail(tokens: int) -> bytes:
    finish = event('{"index":0,"delta":{},"logprobs":null,"finish_reason":"length","stop_reason":null}')
    usage = f',"usage":{{"prompt_tokens":11,"total_tokens":{11 + tokens},"completion_tokens":{tokens}}}'
    return finish + event("", usage) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class TokenServer:
    """State of the loop: open connections, streams by their next due time, the truth so far."""

    def __init__(self, tokens: int, ttft_s: float, gap_s: float) -> None:
        self.tokens, self.ttft_s, self.gap_s = tokens, ttft_s, gap_s
        self.tail = tail(tokens)
        self.truth: dict[str, list[float]] = {}
        self.sent = 0
        self.due: list[tuple[float, int, int, str]] = []  # when, connection, index of the token, request id
        self.connections: dict[int, socket.socket] = {}
        self.unread: dict[int, bytes] = {}
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.listener.setblocking(False)
        self.poll = select.epoll()
        self.poll.register(self.listener.fileno(), select.EPOLLIN)

    def serve(self) -> None:
        while True:
            wait_s = max(0.0, self.due[0][0] - time.perf_counter()) if self.due else 1.0
            for fd, _ in self.poll.poll(wait_s):
                if fd == self.listener.fileno():
                    self.accept()
                else:
                    self.read(fd)
            now_s = time.perf_counter()
            while self.due and self.due[0][0] <= now_s:
                self.send_token(*heapq.heappop(self.due))

    def accept(self) -> None:
        sock, _ = self.listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections[sock.fileno()] = sock
        self.poll.register(sock.fileno(), select.EPOLLIN)

    def read(self, fd: int) -> None:
        try:
            data = self.connections[fd].recv(1 << 18)
        except OSError:
            data = b""
        if not data:
            self.poll.unregister(fd)
            self.connections.pop(fd).close()
            self.unread.pop(fd, None)
            return
        request = self.unread.pop(fd, b"") + data
        head, end, body = request.partition(b"\r\n\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        if not end or len(body) < int(headers.get(b"content-length", 0)):
            self.unread[fd] = request
        elif head.startswith(b"POST"):
            self.connections[fd].send(HEAD + ROLE)
            name = headers.get(b"x-request-id", b"").decode()
            heapq.heappush(self.due, (time.perf_counter() + self.ttft_s, fd, 0, name))
        else:
            models = {"object": "list", "data": [{"id": "bench", "object": "model"}]}
            offset_s = time.time() - time.perf_counter()
            known = {b"/truth": self.truth, b"/count": self.sent, b"/offset": offset_s}
            answer = json.dumps(known.get(head.split(b" ", 2)[1], models)).encode()
            self.connections[fd].setblocking(True)
            self.connections[fd].sendall(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
                + answer
            )
            self.connections[fd].setblocking(False)

    def send_token(self, due_s: float, fd: int, index: int, name: str) -> None:
        if (sock := self.connections.get(fd)) is None:
            return
        self.sent += 1
        if name:
            self.truth.setdefault(name, []).append(time.perf_counter())
        try:
            sock.send(TOKEN if index < self.tokens - 1 else TOKEN + self.tail)
        except OSError:
            return
        if index < self.tokens - 1:
            heapq.heappush(self.due, (due_s + self.gap_s, fd, index + 1, name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--ttft-ms", type=float, default=100)
    parser.add_argument("--gap-ms", type=float, default=20)
    options = parser.parse_args()
    server = TokenServer(options.tokens, options.ttft_ms / 1000, options.gap_ms / 1000)
    print(server.listener.getsockname()[1], flush=True)
    server.serve()


if __name__ == "__main__":
    main()
