"""Faults that the engine was told to have."""

from itertools import pairwise

import pytest

from tests.engine.raw_client import ask, chat
from tests.engine.truth_rows import only_row


def test_an_error_comes_instead_of_an_answer(start, truth):
    answer = chat(start("--error-rate", "1", "--truth", str(truth)).url)
    assert (answer.status, answer.json["error"]["type"]) == (500, "InternalServerError")
    row = only_row(truth)
    assert (row["fault"], row["outcome"]) == ("error", "error")


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_engine_says_when_to_come_back(start, status):
    answer = chat(start("--busy-rate", "1", "--busy-status", str(status), "--retry-after", "7").url)
    assert (answer.status, answer.headers["retry-after"]) == (status, "7")
    assert answer.json["error"]["code"] == status


def test_an_error_in_the_middle_is_an_event(start, truth):
    answer = chat(start("--mid-stream-error-rate", "1", "--truth", str(truth)).url, max_tokens=30)
    *tokens, error = answer.chunks
    assert error["error"]["code"] == 500
    assert answer.events[-1][1] == "[DONE]"
    row = only_row(truth)
    assert len(tokens) - 1 == row["completion_tokens"] == len(row["token_s"]) < 30
    assert (row["status"], row["outcome"], row["fault"]) == (200, "error", "mid_stream_error")


def test_an_error_in_the_middle_is_a_status_where_nothing_was_streamed(start):
    url = start("--mid-stream-error-rate", "1").url
    assert ask(url, "/v1/completions", {"prompt": "x", "max_tokens": 9}).status == 500


def test_a_dropped_connection_ends_without_an_end(start, truth):
    answer = chat(start("--drop-rate", "1", "--truth", str(truth)).url, max_tokens=30)
    assert not answer.complete
    assert 0 < len(answer.token_arrivals_s) < 30
    row = only_row(truth)
    assert (row["outcome"], row["fault"], len(row["token_s"])) == ("error", "drop", len(answer.token_arrivals_s))


def test_an_early_end_comes_in_spite_of_ignore_eos(start):
    answer = chat(start("--early-eos-rate", "1").url, max_tokens=30, stream_options={"include_usage": True})
    assert answer.chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert answer.chunks[-1]["usage"]["completion_tokens"] < 30


def test_a_stall_holds_tokens_back_and_lets_them_out_together(start, truth):
    answer = chat(start("--stall-rate", "1", "--stall-ms", "300", "--truth", str(truth)).url, max_tokens=60)
    arrivals_s = answer.token_arrivals_s
    gaps_s = [later - earlier for earlier, later in pairwise(arrivals_s)]
    assert len(arrivals_s) == 60
    assert max(gaps_s) == pytest.approx(0.3, abs=0.05)
    row = only_row(truth)
    assert (row["fault"], row["outcome"], len(row["token_s"])) == ("stall", "finished", 60)


def test_slow_first_bytes_hold_back_even_the_headers(start, truth):
    chat(start("--slow-first-bytes-ms", "200", "--truth", str(truth)).url)
    row = only_row(truth)
    assert row["headers_s"] - row["received_s"] == pytest.approx(0.2, abs=0.02)


def test_a_tail_comes_between_the_last_token_and_the_end_mark(start):
    answer = chat(start("--tail-ms", "200").url, stream_options={"include_usage": True})
    (usage_s, _), (done_s, done) = answer.events[-2:]
    assert done == "[DONE]"
    assert done_s - usage_s == pytest.approx(0.2, abs=0.05)
    assert usage_s - answer.token_arrivals_s[-1] < 0.05


def test_chunks_may_hold_several_tokens_after_the_first(start, truth):
    url = start("--tokens-per-chunk", "4", "--truth", str(truth)).url
    answer = chat(url, max_tokens=10, stream_options={"include_usage": True, "continuous_usage_stats": True})
    usages = [chunk["usage"]["completion_tokens"] for chunk in answer.chunks]
    assert usages == [0, 1, 5, 9, 10, 10]  # role, 1, 4, 4, 1, usage
    assert only_row(truth)["tokens"] == [1, 4, 4, 1]


def test_a_chunk_may_hold_reasoning_and_text(start):
    answer = chat(start("--tokens-per-chunk", "4", "--reasoning-tokens", "3").url, max_tokens=9)
    deltas = [chunk["choices"][0]["delta"] for chunk in answer.chunks[1:]]
    assert [sorted(delta) for delta in deltas] == [["reasoning"], ["content", "reasoning"], ["content"]]


def test_the_role_chunk_may_come_before_the_prompt_is_computed(start, truth):
    start_early, start_late = start("--role-chunk-at-accept", "--truth", str(truth)), start()
    early, late = chat(start_early.url, "word " * 500), chat(start_late.url, "word " * 500)
    for answer, least_s, most_s in ((early, 0.03, 0.2), (late, 0.0, 0.01)):
        assert least_s <= answer.token_arrivals_s[0] - answer.events[0][0] <= most_s
        assert answer.chunks[0]["choices"][0]["delta"]["role"] == "assistant"


def test_faults_strike_by_seed(start):
    def statuses(seed: str) -> list[int]:
        url = start("--busy-rate", "0.5", "--seed", seed, "--speed", "50").url
        return [chat(url, max_tokens=1).status for _ in range(20)]

    first = statuses("1")
    assert set(first) == {200, 503}
    assert statuses("1") == first
    assert statuses("2") != first


def test_all_times_of_faults_are_scaled(start, truth):
    chat(start("--slow-first-bytes-ms", "2000", "--speed", "20", "--truth", str(truth)).url)
    row = only_row(truth)
    assert row["headers_s"] - row["received_s"] == pytest.approx(0.1, abs=0.02)
