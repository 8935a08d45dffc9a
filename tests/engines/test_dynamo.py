"""Against Dynamo's frontend over its mocker: fixed times, and a server that measures the same requests itself."""

import re
from itertools import pairwise
from statistics import mean, median

import pytest

PREFILL_MS = 50.0
DECODE_MS = 10.0
TOKENS = 40
ATTEMPTS = 3  # one quiet moment of a shared machine is enough


def server_mean_ms(before: str, after: str, metric: str) -> float:
    """Mean of what a histogram of the frontend has taken in between two scrapes."""

    def total(scrape: str, part: str) -> float:
        name = f"dynamo_frontend_{metric}_seconds_{part}"
        return sum(float(value) for value in re.findall(rf"^{name}\{{.*\}} (\S+)$", scrape, re.MULTILINE))

    taken = total(after, "count") - total(before, "count")
    assert taken > 0
    return (total(after, "sum") - total(before, "sum")) / taken * 1000


@pytest.mark.parametrize("streams", [1, 16, 64])
def test_times_are_those_that_the_server_measured(dynamo, drive, streams):
    engine = dynamo(PREFILL_MS, DECODE_MS)
    engine.chat(max_tokens=2)  # a server's first request takes longer than it measures
    for _ in range(ATTEMPTS):
        before = engine.get("/metrics")
        results = drive(
            engine,
            streams=streams,
            requests_each=5 if streams == 1 else 2,
            stagger_ms=3,
            max_tokens=TOKENS,
            ignore_eos=True,
        )
        after = engine.get("/metrics")

        assert {result["outcome"] for result in results} == {"success"}
        assert {result["output_tokens"] for result in results} == {TOKENS}
        ttfts_ms = [result["first_token_ms"] for result in results]
        gaps_ms = [late - early for result in results for early, late in pairwise(result["token_arrivals_ms"])]
        ours_ms = (mean(ttfts_ms), mean(gaps_ms), median(gaps_ms))
        theirs_ms = (
            server_mean_ms(before, after, "time_to_first_token"),
            server_mean_ms(before, after, "inter_token_latency"),
            DECODE_MS,
        )
        if ours_ms == pytest.approx(theirs_ms, abs=2):
            return
    assert ours_ms == pytest.approx(theirs_ms, abs=2)


def test_a_lone_stream_shows_the_configured_times(dynamo, drive):
    results = drive(dynamo(PREFILL_MS, DECODE_MS), requests_each=9, max_tokens=TOKENS, ignore_eos=True)
    assert median(result["first_token_ms"] for result in results) == pytest.approx(PREFILL_MS, abs=3)
    e2e_ms = PREFILL_MS + (TOKENS - 1) * DECODE_MS  # 440
    assert median(result["last_token_ms"] for result in results) == pytest.approx(e2e_ms, abs=6)


def test_an_over_long_prompt_is_a_failure_although_it_is_http_200(dynamo, drive):
    (result,) = drive(dynamo(PREFILL_MS, DECODE_MS), prompt="word " * 5000)
    assert (result["http_status"], result["outcome"]) == (200, "failure")
    assert result["error_class"] == "server_error_event"
    assert result["first_token_ms"] is None
    assert result["error_text"]
