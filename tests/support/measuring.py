"""Requests sent by the load test's client from within a test, and what was measured of them."""

from typing import Any

import gevent

from scenarios.clients.access import EngineAccess
from scenarios.clients.call import LLMRequest, RequestResult
from scenarios.clients.exchange import Timeouts
from scenarios.clients.factory import build_client
from tests.support.scripted_server import ScriptedServer, chat_stream

QUICK = chat_stream(ttft_ms=20, gap_ms=5, tokens=4)
SOON = Timeouts(connect_s=5, first_token_s=5, gap_s=5, total_s=None)


def measure(url: str, *, request: LLMRequest | None = None, times: int = 1, **options: Any) -> list[RequestResult]:
    client = build_client("chat", url, "m", EngineAccess(**{"timeouts": SOON, "proxies": {}, **options}))
    results = []
    for _ in range(times):
        call = client.call(request or LLMRequest(prompt="x", max_tokens=4))
        call.run()
        results.append(call.result())
    client.close()
    return results


def many(url: str, users: int, each: int = 1, pause_s: float = 0, **options: Any) -> list[RequestResult]:
    """So many users at once over one client."""
    client = build_client("chat", url, "m", EngineAccess(proxies={}, **options))
    results = []

    def user() -> None:
        for _ in range(each):
            call = client.call(LLMRequest(prompt="x"))
            call.run()
            results.append(call.result())
            gevent.sleep(pause_s)

    gevent.joinall([gevent.spawn(user) for _ in range(users)], raise_error=True)
    client.close()
    return results


def lateness_ms(server: ScriptedServer, results: list[RequestResult]) -> float:
    """How long the server, on a busy machine, took to see a request and was late with its answer, at most."""
    sent_s = sorted(r.sent_s for r in results)
    seen_s = sorted(seen.at_s for seen in server.requests)
    to_see_ms = max((seen - sent) * 1000 for seen, sent in zip(seen_s, sent_s, strict=True))
    return to_see_ms + max(seen.late_ms for seen in server.requests)
