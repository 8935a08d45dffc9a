"""A running engine, asked over real sockets."""

import http.client
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from time import perf_counter, sleep
from urllib.parse import urlsplit

import pytest

from scenarios.engine.tokenizer import tokenize
from tests.engine.raw_client import ask, chat, exchange, send


def ask_chat(url: str, **fields):
    return ask(url, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello there"}], **fields})


def test_the_text_of_a_stream_counts_as_many_tokens_as_its_usage(url):
    answer = chat(url, max_tokens=50, stream_options={"include_usage": True})
    assert answer.chunks[-1]["usage"] == {"prompt_tokens": 8, "total_tokens": 58, "completion_tokens": 50}
    assert len(tokenize(answer.text)) == len(answer.token_arrivals_s) == 50


def test_an_answer_that_does_not_stream_comes_whole(url):
    answer = ask_chat(url, max_tokens=5, ignore_eos=True)
    choice = answer.json["choices"][0]
    assert (answer.status, answer.json["object"], choice["finish_reason"]) == (200, "chat.completion", "length")
    assert len(tokenize(choice["message"]["content"])) == answer.json["usage"]["completion_tokens"] == 5


def test_completions_answer_text_and_token_ids(url):
    for prompt in ("one two three", [11, 12, 13]):
        answer = ask(url, "/v1/completions", {"prompt": prompt, "ignore_eos": True})
        # the default of this API is 16 tokens
        assert answer.json["usage"] == {"prompt_tokens": 3, "total_tokens": 19, "completion_tokens": 16}


def test_max_completion_tokens_goes_before_max_tokens(url):
    answer = ask_chat(url, max_tokens=50, max_completion_tokens=4, ignore_eos=True)
    assert answer.json["usage"]["completion_tokens"] == 4


def test_without_ignore_eos_answers_end_by_themselves(url):
    answer = chat(url, max_tokens=4000, ignore_eos=False, stream_options={"include_usage": True})
    last_choice = answer.chunks[-2]["choices"][0]
    assert (last_choice["finish_reason"], last_choice["delta"]) == ("stop", {"content": ""})
    # the end token counts, though it has no text
    assert answer.chunks[-1]["usage"]["completion_tokens"] == len(tokenize(answer.text)) + 1


def test_prompt_and_answer_have_to_fit_into_the_context(url):
    answer = ask_chat(url, max_tokens=16384)
    assert answer.status == 400
    assert (
        "you requested 16384 output tokens and your prompt contains 9 input tokens" in answer.json["error"]["message"]
    )


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"min_tokens": 9, "max_tokens": 5}, "min_tokens"),
        ({"n": 2}, "n"),
        ({"stream_options": {"include_usage": True}}, "body.stream_options"),
        ({"messages": []}, "body.messages"),
        ({"messages": "x"}, "body.messages"),
        ({"stop": 5}, "body.stop"),
    ],
)
def test_a_bad_field_is_refused_by_its_name(url, fields, param):
    answer = ask_chat(url, **fields)
    assert (answer.status, answer.json["error"]["param"]) == (400, param)


def test_small_routes_answer(url):
    assert (ask(url, "/health").status, ask(url, "/health").body) == (200, b"")
    card = ask(url, "/v1/models").json["data"][0]
    assert (card["id"], card["max_model_len"]) == ("practice-8b", 16384)
    tokens = ask(url, "/tokenize", {"prompt": "Hi you", "return_token_strs": True}).json
    assert (tokens["count"], len(tokens["tokens"]), tokens["token_strs"]) == (2, 2, ["Hi", " you"])
    assert ask(url, "/tokenize", {"messages": [{"role": "user", "content": "Hi"}]}).json["count"] == 8
    assert ask(url, "/nothing").status == 404
    assert ask(url, "/v1/chat/completions").status == 405


def test_the_prompt_counts_as_the_tokenizer_counts_it(url):
    messages = [{"role": "user", "content": "Count me, 12345 times!"}]
    counted = ask(url, "/tokenize", {"messages": messages}).json["count"]
    answer = ask(url, "/v1/chat/completions", {"messages": messages, "max_tokens": 1})
    assert answer.json["usage"]["prompt_tokens"] == counted


def test_a_connection_serves_many_requests(url):
    address = urlsplit(url)
    with closing(http.client.HTTPConnection(str(address.hostname), address.port)) as connection:
        for _ in range(3):
            connection.request("POST", "/v1/completions", b'{"prompt": "x", "stream": true, "max_tokens": 3}')
            assert connection.getresponse().read().endswith(b"data: [DONE]\n\n")
            first = connection.sock
        assert connection.sock is first


def test_a_key_is_asked_for_when_one_is_set(start, monkeypatch):
    monkeypatch.setenv("PRACTICE_KEY", "sesame")
    url = start("--api-key-env", "PRACTICE_KEY", "--speed", "20").url
    assert ask(url, "/v1/models").status == 401
    assert ask_chat(url).json == {"error": "Unauthorized"}
    assert ask(url, "/v1/models", authorization="Bearer sesame").status == 200
    assert ask(url, "/health").status == 200


def test_metrics_have_vllms_names_and_count_what_was_done(start):
    url = start("--speed", "20").url
    chat(url, max_tokens=20)
    text = ask(url, "/metrics").body.decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    labels = '{engine="0",model_name="practice-8b"}'
    assert float(values["vllm:generation_tokens_total" + labels]) == 20
    assert float(values["vllm:prompt_tokens_total" + labels]) == 8
    assert float(values["vllm:num_requests_running" + labels]) == 0
    assert float(values["vllm:time_to_first_token_seconds_count" + labels]) == 1
    assert float(values["vllm:inter_token_latency_seconds_count" + labels]) == 19
    # 19 steps of about 12 ms at speed 20
    assert float(values["vllm:inter_token_latency_seconds_sum" + labels]) == pytest.approx(19 * 0.012 / 20, rel=0.1)
    finished = 'vllm:request_success_total{engine="0",finished_reason="length",model_name="practice-8b"}'
    assert float(values[finished]) == 1


def test_a_repeated_prompt_is_found_in_the_prefix_cache(start):
    url = start("--prefix-caching", "--speed", "20").url
    prompt = " ".join(["word"] * 100)
    cached = []
    for _ in range(2):
        usage = ask(url, "/v1/completions", {"prompt": prompt, "max_tokens": 2}).json["usage"]
        cached.append(usage["prompt_tokens_details"]["cached_tokens"])
    assert cached == [0, 96]  # 6 full blocks of 16


def test_when_a_client_goes_its_answer_is_generated_no_further(start, truth: Path):
    url = start("--truth", str(truth)).url
    address = urlsplit(url)
    with closing(socket.create_connection((address.hostname, address.port))) as connection:
        send(connection, "/v1/completions", {"prompt": "x", "stream": True, "max_tokens": 5000, "ignore_eos": True})
        connection.recv(100)
    for _ in range(100):
        if truth.read_text():
            break
        sleep(0.02)
    assert '"outcome":"disconnected"' in truth.read_text()
    running = [line for line in ask(url, "/metrics").body.decode().splitlines() if "requests_running{" in line]
    assert running[0].endswith(" 0.0")


def test_600_streams_run_at_once(start):
    url = start("--speed", "50").url
    address = urlsplit(url)
    body = {"prompt": "x", "stream": True, "max_tokens": 20, "ignore_eos": True}
    with ExitStack() as stack, ThreadPoolExecutor(20) as pool:
        connections = [
            stack.enter_context(closing(socket.create_connection((address.hostname, address.port), timeout=30)))
            for _ in range(600)
        ]
        answers = list(pool.map(lambda connection: exchange(connection, "/v1/completions", body), connections))
    assert [len(answer.token_arrivals_s) for answer in answers] == [20] * 600


def test_speed_divides_the_models_times(start):
    url = start("--speed", "2").url
    begin_s = perf_counter()
    answer = chat(url, max_tokens=41)
    assert perf_counter() - begin_s >= 40 * 0.0117 / 2
    gaps_s = answer.token_arrivals_s[-1] - answer.token_arrivals_s[0]
    # 40 steps of 11.9 ms at speed 2
    assert gaps_s == pytest.approx(40 * 0.0119 / 2, rel=0.1)
