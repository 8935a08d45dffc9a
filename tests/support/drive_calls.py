"""Sends calls by the load test's client in a process that gevent has patched, and prints the results as JSON.

Reads one JSON object from standard input: `url`, `api`, and `calls`, each with `model`, `count` (at once),
`requests_each` (in a row), `after_s` (start), `timeouts`, `cumulative`, `kill_after_s` and the fields of an `LLMRequest`.
"""

from gevent import monkey

monkey.patch_all()

import json
import sys
from dataclasses import asdict
from typing import Any

import gevent

from scenarios.clients.access import EngineAccess
from scenarios.clients.call import LLMRequest
from scenarios.clients.exchange import Timeouts
from scenarios.clients.factory import build_client


def main() -> None:
    job = json.load(sys.stdin)
    clients = []
    greenlets = []
    results: list[dict[str, Any]] = []

    def run(client: Any, name: str, number: int, request: LLMRequest, requests_each: int) -> None:
        for _ in range(requests_each):
            call = client.call(request)
            try:
                call.run()
            finally:
                results.append({"name": name, "number": number, **asdict(call.result())})

    for call in job["calls"]:
        access = EngineAccess(
            timeouts=Timeouts(**{"connect_s": 5.0, "total_s": 20.0, **call.get("timeouts", {})}),
            cumulative=call.get("cumulative", False),
            **job.get("options", {}),
        )
        client = build_client(job.get("api", "triton-grpc"), job["url"], call["model"], access)
        clients.append(client)
        for number in range(call.get("count", 1)):
            fields = {"prompt": "hi", **call.get("request", {})}
            fields["extra_headers"] = {"X-Request-Id": f"{call['model']}-{number}", **fields.get("extra_headers", {})}
            begun = gevent.spawn_later(
                call.get("after_s", 0),
                run,
                client,
                call["model"],
                number,
                LLMRequest(**fields),
                call.get("requests_each", 1),
            )
            greenlets.append(begun)
            if "kill_after_s" in call:
                gevent.spawn_later(call["kill_after_s"], begun.kill)
    gevent.joinall(greenlets, raise_error=True)
    for client in clients:
        client.close()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
