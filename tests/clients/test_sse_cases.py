"""Every stream fault of `tests/cases/sse.yaml`, played by a scripted server to the client of the load test.

All cases run at once, each variant over one client, so that the whole table takes as long as its longest case.
"""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import gevent
import pytest
import yaml

from scenarios.clients.access import EngineAccess
from scenarios.clients.call import LLMRequest, RequestResult
from scenarios.clients.factory import build_client
from tests.support.scripted_server import ScriptedServer, from_case

CASES = {
    case["id"]: case["repro"] for case in yaml.safe_load((Path(__file__).parents[1] / "cases/sse.yaml").read_text())
}
APIS = ("chat", "completions", "responses")

Results = dict[str, tuple[RequestResult, float]]  # by case: what was measured, how late server and test were (ms)

MAX_LATE_MS = 10.0
MAX_ROUNDS = 6

# name: framing (None: the case's own), keep-alive
VARIANTS: dict[str, tuple[str | None, bool]] = {
    "keep-alive": (None, True),
    "one-connection-each": (None, False),
    "close-delimited": ("close", True),
    "content-length": ("content-length", True),
    "live": (None, True),
}


def allowed(repro: dict[str, Any], variant: str) -> bool:
    """A chunked end without [DONE] says more than a closed connection does; all else may be framed either way."""
    return (
        variant not in ("close-delimited", "content-length")
        or repro.get("response", {}).get("framing", "chunked") == "chunked"
    )


@pytest.fixture(scope="module", params=VARIANTS)
def results(request: pytest.FixtureRequest) -> Results:
    framing, reuse = VARIANTS[request.param]
    cases = {name: repro for name, repro in CASES.items() if allowed(repro, request.param)}
    access = EngineAccess(reuse_connections=reuse)
    with ScriptedServer(lambda seen: from_case(cases[seen.json["model"]], framing)) as server:
        clients = {api: build_client(api, server.url, "", access) for api in APIS}
        on_token = (lambda _: None) if request.param == "live" else None

        def measure(name: str) -> None:
            client = clients[cases[name].get("dialect", "chat")]
            call = client.call(LLMRequest(prompt="x", extra_body={"model": name}), on_token)
            call.run()
            measured[name] = call.result()

        measured: dict[str, RequestResult] = {}
        results: Results = {}
        for _ in range(MAX_ROUNDS):  # a case that the machine was too busy to play as it is written is played again
            jobs = [gevent.spawn(measure, name) for name in cases if results.get(name, (None, 1e9))[1] > MAX_LATE_MS]
            own_late_ms = longest_wait_ms(jobs)
            gevent.joinall(jobs, raise_error=True)
            for seen in server.requests[-len(jobs) :] if jobs else ():
                name = seen.json["model"]
                # the server's clock starts when it has seen the request
                late_ms = own_late_ms + seen.late_ms + (seen.at_s - measured[name].sent_s) * 1000
                if name not in results or late_ms < results[name][1]:
                    results[name] = measured[name], late_ms
        for client in clients.values():
            client.close()
    return results


def longest_wait_ms(jobs: list[gevent.Greenlet]) -> float:
    """How late this process was, at most, while the jobs ran: the end of a connection has no kernel stamp."""
    longest_ms = 0.0
    while not all(job.dead for job in jobs):
        before_s = time.perf_counter()
        gevent.sleep(0.005)
        longest_ms = max(longest_ms, (time.perf_counter() - before_s) * 1000 - 5)
    return longest_ms


@pytest.mark.parametrize("name", CASES)
def test_measured_as_the_case_says(name: str, results: Results) -> None:
    if name not in results:
        pytest.skip("the case has a framing of its own")
    result, late_ms = results[name]
    expect = dict(CASES[name]["expect"])
    tolerance_ms = expect.pop("tol_ms") + late_ms
    measured = probe_view(result)
    for key, right in expect.items():
        if key.endswith("_ms") and right is not None:
            assert measured[key] == pytest.approx(right, abs=tolerance_ms), key
        else:
            assert measured[key] == right, key


def probe_view(r: RequestResult) -> dict[str, Any]:
    """The measured request under the cases' names; TPOT by its definition."""
    arrivals = r.token_arrivals_ms
    tokens = r.output_tokens if r.output_tokens_source != "estimated" else None
    tpot_ms = None
    if tokens is not None and tokens > 1 and len(arrivals) > 1 and arrivals[-1] > arrivals[0]:
        tpot_ms = (arrivals[-1] - arrivals[0]) / (tokens - 1)
    return {
        "outcome": r.outcome,
        "error_class": r.error_class,
        "ttft_ms": r.first_token_ms,
        "first_answer_ms": r.first_answer_ms,
        "last_token_ms": r.last_token_ms,
        "e2e_ms": r.e2e_ms,
        "gaps_ms": [b - a for a, b in pairwise(arrivals)],
        "tpot_ms": tpot_ms,
        "output_tokens": tokens,
        "input_tokens": r.input_tokens,
        "text": r.text,
        "partial_events": len(arrivals),
        "counted_output_tokens": tokens if r.outcome == "success" else 0,
    }
