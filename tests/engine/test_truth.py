"""The truth file against what a client sees, and its completeness."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from time import sleep
from urllib.parse import urlsplit

import pytest

from tests.engine.raw_client import ask, chat, send
from tests.engine.truth_rows import only_row, rows, wait_for_rows


def test_each_token_arrives_right_after_its_truth(start, truth):
    url = start("--truth", str(truth), "--speed", "2").url
    answer = chat(url, max_tokens=60)
    row = only_row(truth)
    lags_s = [seen - true for seen, true in zip(answer.token_arrivals_s, row["token_s"], strict=True)]
    assert min(lags_s) > 0  # the stamp is taken before the write
    assert sorted(lags_s)[30] < 0.001
    assert answer.sent_s < row["received_s"] < row["headers_s"] < row["role_s"] < row["token_s"][0]
    assert row["token_s"] == sorted(row["token_s"])
    assert row["ended_s"] >= row["token_s"][-1]
    assert row["tokens"] == [1] * 60


def test_tokens_come_on_the_models_timeline(start, truth):
    url = start("--truth", str(truth)).url
    chat(url, max_tokens=50)
    row = only_row(truth)
    gaps_ms = [(later - earlier) * 1000 for earlier, later in pairwise(row["due_s"])]
    # step 11.75 + 0.16 for the one sequence + 0.08 per 1,000 tokens of KV cache
    assert gaps_ms == pytest.approx([11.91] * 49, abs=0.02)
    late_ms = [(true - due) * 1000 for true, due in zip(row["token_s"], row["due_s"], strict=True)]
    assert min(late_ms) >= 0
    assert max(late_ms) == pytest.approx(row["late_max_ms"])
    assert sum(late > 2 for late in late_ms) == row["late_tokens"]


def test_every_request_leaves_one_row_whatever_became_of_it(start, truth):
    url = start("--truth", str(truth), "--speed", "20").url
    chat(url, max_tokens=3)
    ask(url, "/v1/chat/completions", b"{", x_request_id="mine")
    ask(url, "/v1/completions", {"prompt": "x", "model": "other"})
    ask(url, "/v1/responses", {"input": "x", "max_output_tokens": 2, "ignore_eos": True})
    ask(url, "/v1/models")
    found = wait_for_rows(truth, 4)
    assert [(row["api"], row["status"], row["outcome"], row["streamed"]) for row in found] == [
        ("chat", 200, "finished", True),
        ("chat", 400, "error", False),
        ("completions", 404, "error", False),
        ("responses", 200, "finished", False),
    ]
    assert found[1]["request_id"] == "mine"
    assert [row["completion_tokens"] for row in found] == [3, 0, 0, 2]
    assert (found[0]["prompt_tokens"], found[0]["finish_reason"]) == (8, "length")


def test_many_requests_at_once_leave_as_many_rows(start, truth):
    url = start("--truth", str(truth), "--speed", "20").url
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda number: chat(url, f"Number {number}", max_tokens=20), range(48)))
    assert {len(answer.token_arrivals_s) for answer in answers} == {20}
    found = wait_for_rows(truth, 48)
    assert [len(row["token_s"]) for row in found] == [20] * 48
    assert len({row["request_id"] for row in found}) == 48


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_engine_writes_the_rows_of_the_requests_it_cuts(start, truth, stop_signal):
    engine = start("--truth", str(truth))
    address = urlsplit(engine.url)
    with closing(socket.create_connection((address.hostname, address.port), timeout=10)) as connection:
        send(connection, "/v1/completions", {"prompt": "x", "stream": True, "max_tokens": 9999, "ignore_eos": True})
        connection.recv(100)
        sleep(0.2)
        os.kill(engine.pid, stop_signal)
        assert engine.wait() == 0
    (row,) = rows(truth)
    assert (row["outcome"], row["error"]) == ("error", "the engine was stopped")
    assert 5 < len(row["token_s"]) < 100
