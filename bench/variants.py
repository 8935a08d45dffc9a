"""The clients that `bench/client.py` compares, each in a process of its own: python bench/variants.py NAME …

They all do the same: so many streams at once, started evenly over one answer's length, request after request
until they are killed. With --seconds a client stops by itself and prints, as JSON, when it saw each token of each
request; with --burn it spends that share of its time on other work, as a busy load generator does.

  bare     Python's epoll and recv, bytes kept and stamped, nothing decoded: what reading costs at all
  ours     the client of the load test, without Locust
  sdk      the openai SDK iterated plainly under gevent
  aiohttp  lines of an aiohttp response, JSON by the standard library, as asyncio benchmarks do it
"""

import argparse
import itertools
import json
import os
import select
import socket
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("NO_PROXY", "*")

PROMPT = "hello " * 300
MAX_TOKENS = 256
BODY = {
    "model": "bench",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [{"role": "user", "content": PROMPT}],
    "max_tokens": MAX_TOKENS,
}
BURN_SLICE_S = 0.005


@dataclass
class Plan:
    """What a variant is asked to do, and what it saw."""

    port: int
    streams: int
    spread_s: float
    seconds: float | None
    burn: float
    start_s: float = field(default_factory=time.perf_counter)
    names: "itertools.count[int]" = field(default_factory=itertools.count)
    arrivals: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def going_on(self) -> bool:
        return self.seconds is None or time.perf_counter() < self.start_s + self.seconds

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def delay_s(self, stream: int) -> float:
        return stream * self.spread_s / self.streams

    def name(self) -> str:
        """An id for a request; none is needed, nor kept, where only CPU is measured."""
        return str(next(self.names)) if self.seconds is not None else ""


def burn(share: float) -> float:
    """Work for a slice of time; gives how long to rest then."""
    until_s = time.perf_counter() + BURN_SLICE_S
    while time.perf_counter() < until_s:
        pass
    return BURN_SLICE_S * (1 - share) / share


def run_bare(plan: Plan) -> None:
    body = json.dumps(BODY).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    poll = select.epoll()
    sockets: dict[int, socket.socket] = {}
    kept: dict[int, list[tuple[float, bytes]]] = {}
    for _ in range(plan.streams):
        sock = socket.create_connection(("127.0.0.1", plan.port))
        sock.setblocking(False)
        poll.register(sock.fileno(), select.EPOLLIN)
        sockets[sock.fileno()] = sock
        kept[sock.fileno()] = []
    starts = [(plan.start_s + plan.delay_s(i), sock) for i, sock in enumerate(sockets.values())]
    while plan.going_on:
        while starts and starts[0][0] <= time.perf_counter():
            starts.pop(0)[1].send(request)
        for fd, _ in poll.poll(0.005 if starts else 1):
            data = sockets[fd].recv(65536)
            kept[fd].append((time.perf_counter(), data))
            if data.endswith(b"0\r\n\r\n"):
                kept[fd] = []
                sockets[fd].send(request)


def run_ours(plan: Plan) -> None:
    import gevent

    from scenarios.clients.call import LLMRequest
    from scenarios.clients.factory import build_client

    client = build_client("chat", plan.base_url, "bench")

    def user(stream: int) -> None:
        gevent.sleep(plan.delay_s(stream))
        while plan.going_on:
            name = plan.name()
            headers = {"x-request-id": name} if name else {}
            call = client.call(LLMRequest(prompt=PROMPT, max_tokens=MAX_TOKENS, extra_headers=headers))
            call.run()
            result = call.result()
            assert result.outcome == "success", result
            if name:
                plan.arrivals[name] = [result.sent_s + ms / 1000 for ms in result.token_arrivals_ms]

    _gevent_users(plan, user)


def run_sdk(plan: Plan) -> None:
    from gevent import monkey

    monkey.patch_all()
    import gevent
    import httpx2
    import openai

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    http_client = httpx2.Client(limits=limits, trust_env=False, timeout=None)
    client = openai.OpenAI(api_key="none", base_url=f"{plan.base_url}/v1", max_retries=0, http_client=http_client)

    def user(stream: int) -> None:
        gevent.sleep(plan.delay_s(stream))
        while plan.going_on:
            name = plan.name()
            seen = []
            body: Any = BODY
            for chunk in client.chat.completions.create(**body, extra_headers={"x-request-id": name} if name else {}):
                if chunk.choices and chunk.choices[0].delta.content:
                    seen.append(time.perf_counter())  # noqa: PERF401  (as people write it)
            if name:
                plan.arrivals[name] = seen

    _gevent_users(plan, user)


def _gevent_users(plan: Plan, user: Any) -> None:
    import gevent

    def burner() -> None:
        while plan.going_on:
            gevent.sleep(burn(plan.burn))

    users = [gevent.spawn(user, stream) for stream in range(plan.streams)]
    if plan.burn:
        users.append(gevent.spawn(burner))
    gevent.joinall(users, raise_error=True)


def run_aiohttp(plan: Plan) -> None:
    import asyncio

    import aiohttp

    async def user(session: aiohttp.ClientSession, stream: int) -> None:
        await asyncio.sleep(plan.delay_s(stream))
        while plan.going_on:
            name = plan.name()
            seen, texts = [], []
            headers = {"x-request-id": name} if name else {}
            async with session.post(f"{plan.base_url}/v1/chat/completions", json=BODY, headers=headers) as response:
                async for line in response.content:
                    data = line.strip()
                    if not data or data == b"data: [DONE]":
                        continue
                    arrived_s = time.perf_counter()
                    choices = json.loads(data.removeprefix(b"data: "))["choices"]
                    if choices and (text := choices[0]["delta"].get("content")):
                        seen.append(arrived_s)
                        texts.append(text)
            if name:
                plan.arrivals[name] = seen

    async def everybody() -> None:
        async def burner() -> None:
            while plan.going_on:  # noqa: ASYNC110  (it works in between)
                await asyncio.sleep(burn(plan.burn))

        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
            others = [burner()] if plan.burn else []
            await asyncio.gather(*(user(session, stream) for stream in range(plan.streams)), *others)

    asyncio.run(everybody())


VARIANTS = {"bare": run_bare, "ours": run_ours, "sdk": run_sdk, "aiohttp": run_aiohttp}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--spread-s", type=float, default=5.2)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--burn", type=float, default=0.0)
    options = vars(parser.parse_args())
    variant = options.pop("variant")
    plan = Plan(**options)
    VARIANTS[variant](plan)
    cpu_s, wall_s = time.process_time(), time.perf_counter() - plan.start_s
    print(json.dumps({"cpu_percent": 100 * cpu_s / wall_s, "arrivals": plan.arrivals}))


if __name__ == "__main__":
    main()
