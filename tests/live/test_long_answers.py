"""Long answers are seen while they stream, not only when they have ended."""

import time

import pytest

from tests.support.locust_run import wait_for
from tests.support.scripted_server import Answer, ScriptedServer, Seen, chat_stream, json_answer

MODELS = json_answer(
    200, {"object": "list", "data": [{"id": "slow", "object": "model", "owned_by": "us", "created": 0}]}
)
SLOW = chat_stream(ttft_ms=100, gap_ms=100, tokens=600)  # a minute each


def answer(seen: Seen) -> Answer:
    if seen.method == "GET":
        return MODELS
    return (
        SLOW if seen.target.endswith("/chat/completions") else json_answer(404, {"error": {"message": "no such path"}})
    )


@pytest.mark.slow
def test_twenty_users_with_ten_tokens_a_second_are_200_tokens_a_second_before_any_has_finished(web_locust):
    settings = {"load.levels": "20", "load.measure_s": "60", "load.ramp_s": "0", "workload.output.tokens": "600"}
    with (
        ScriptedServer(answer) as server,
        web_locust("-H", server.url, "--processes", "2", settings=settings) as locust,
    ):
        begin_s = time.monotonic()
        assert locust.start()["success"]
        wait_for(lambda: server.in_flight == 20)
        time.sleep(max(0.0, begin_s + 10 - time.monotonic()))
        data = locust.data()
        assert data["now"]["in_flight"] == 20
        assert data["now"]["waiting"] == 0
        assert data["now"]["tok_s"] == pytest.approx(200, abs=10)
        assert data["total"]["ended"] == 0
        by_second = [point["tok_s"] for point in data["seconds"] if point["tok_s"] is not None][-5:]
        assert by_second == [pytest.approx(200, abs=20)] * 5  # each second by itself: no sawtooth
