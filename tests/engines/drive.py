"""Sends requests through the load test's own client, in a gevent-patched process of its own.

Called with one JSON object of `Job`'s fields; prints the results as JSON lines, in the order of their ends.
"""

from gevent import monkey

monkey.patch_all()

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

import gevent

from scenarios.clients.access import EngineAccess
from scenarios.clients.call import LLMRequest
from scenarios.clients.exchange import Timeouts
from scenarios.clients.factory import build_client


@dataclass(frozen=True, slots=True)
class Job:
    """`streams` requests at any time, each sending `requests_each` in a row.

    The streams start `stagger_ms` apart: what waits before a server reads it is on no server's clock.
    """

    url: str
    model: str
    streams: int = 1
    requests_each: int = 1
    stagger_ms: float = 0.0
    prompt: str = "hi"
    max_tokens: int = 40
    ignore_eos: bool = False
    api: str = "chat"
    extra_body: dict[str, Any] = field(default_factory=dict)


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    client = build_client(job.api, job.url, job.model, EngineAccess(timeouts=Timeouts(total_s=30)))
    request = LLMRequest(
        prompt=job.prompt, max_tokens=job.max_tokens, ignore_eos=job.ignore_eos, extra_body=job.extra_body
    )

    def stream(index: int) -> None:
        gevent.sleep(index * job.stagger_ms / 1000)
        for _ in range(job.requests_each):
            call = client.call(request)
            call.run()
            print(json.dumps(asdict(call.result())))

    gevent.joinall([gevent.spawn(stream, index) for index in range(job.streams)], raise_error=True)
    client.close()


if __name__ == "__main__":
    main()
