"""Answers recorded from real engines, byte for byte, replayed to the client: whole, and cut into small pieces.

What stands in the table was counted in the recordings by hand. `events` are events with payload: vLLM sends an empty
one where a token is only half a character, so there are fewer of them than tokens.
"""

from pathlib import Path
from typing import Any

import gevent
import pytest

from scenarios.clients.call import LLMRequest, RequestResult
from scenarios.clients.factory import build_client
from tests.support.scripted_server import Answer, ScriptedServer, Seen

WIRE = Path(__file__).parents[1] / "wire"

# recording: events, output tokens (None: no usage sent), prompt tokens, finish reason
STREAMS: dict[str, tuple[int, int | None, int | None, str]] = {
    "dynamo/chat_ignore_eos": (8, 8, 11, "length"),
    "dynamo/chat_logprobs_n2": (2, 2, 11, "length"),
    "dynamo/chat_stream": (6, None, None, "length"),
    "dynamo/chat_stream_usage": (6, 6, 11, "length"),
    "dynamo/chat_stream_usage_continuous": (3, 3, 11, "length"),
    "dynamo/completions_ignore_eos_200": (200, 200, 4, "length"),
    "dynamo/completions_stream": (6, 6, 4, "length"),
    "dynamo/stop_string": (50, 50, 4, "length"),
    "llamacpp/chat_ignore_eos": (8, 8, 11, "length"),
    "llamacpp/chat_logprobs_n2": (4, 4, 11, "length"),  # two choices, each with a usage event of its own
    "llamacpp/chat_stream": (6, None, None, "length"),
    "llamacpp/chat_stream_usage": (6, 6, 11, "length"),
    "llamacpp/chat_stream_usage_continuous": (3, 3, 11, "length"),
    "llamacpp/completions_ignore_eos_200": (200, 200, 4, "length"),
    "llamacpp/completions_stream": (6, 6, 4, "length"),
    "llamacpp/err_unknown_model": (6, None, None, "length"),  # it takes any model name
    "llamacpp/stop_string": (3, 3, 4, "stop"),
    "vllm/chat_ignore_eos": (7, 8, 11, "length"),
    "vllm/chat_logprobs_n2": (4, 4, 11, "length"),
    "vllm/chat_stream": (5, None, None, "length"),
    "vllm/chat_stream_usage": (5, 6, 11, "length"),
    "vllm/chat_stream_usage_continuous": (3, 3, 11, "length"),
    "vllm/completions_ignore_eos_200": (185, 200, 4, "length"),
    "vllm/completions_stream": (5, 6, 4, "length"),
    "vllm/stop_string": (2, 2, 4, "stop"),
    "vllm-reasoning/chat_ignore_eos": (6, 8, 11, "length"),
    "vllm-reasoning/chat_logprobs_n2": (2, 4, 11, "length"),
    "vllm-reasoning/chat_stream": (5, None, None, "length"),
    "vllm-reasoning/chat_stream_usage": (5, 6, 11, "length"),
    "vllm-reasoning/chat_stream_usage_continuous": (2, 3, 11, "length"),
    "vllm-reasoning/completions_ignore_eos_200": (200, 200, 4, "length"),
    "vllm-reasoning/completions_stream": (6, 6, 4, "length"),
    "vllm-reasoning/stop_string": (3, 3, 4, "stop"),
}

# recording: error class, start of the engine's own words
FAILURES = {
    "dynamo/disconnect_mid_stream": ("truncated_stream", "the connection was closed in the middle"),
    "dynamo/err_bad_type": ("http_400", "Failed to deserialize the JSON body into the target type: invalid type"),
    "dynamo/err_malformed_json": ("http_400", "Failed to deserialize the JSON body"),
    "dynamo/err_too_long_prompt": ("server_error_event", "Internal server error"),
    "dynamo/err_unknown_model": ("http_404", "Model not found"),
    "llamacpp/disconnect_mid_stream": ("truncated_stream", "the connection was closed in the middle"),
    "llamacpp/err_bad_type": ("http_400", "Field 'temperature': [json.exception.type_error.302]"),
    "llamacpp/err_malformed_json": ("http_400", "[json.exception.parse_error.101]"),
    "llamacpp/err_too_long_prompt": ("http_400", "request (8199 tokens) exceeds the available context size"),
    "vllm/disconnect_mid_stream": ("truncated_stream", "the connection was closed in the middle"),
    "vllm/err_bad_type": ("http_400", "1 validation error: {'type': 'float_parsing'"),
    "vllm/err_malformed_json": ("http_400", "1 validation error: {'type': 'json_invalid'"),
    "vllm/err_too_long_prompt": ("http_400", "This model's maximum context length is 1024 tokens."),
    "vllm/err_unknown_model": ("http_404", "The model `nope` does not exist."),
    "vllm-reasoning/disconnect_mid_stream": ("truncated_stream", "the connection was closed in the middle"),
    "vllm-reasoning/err_unknown_model": ("http_404", "The model `nope` does not exist."),
}


def replay(seen: Seen) -> Answer:
    """The recording named as the model, in pieces of the size that the request asks for."""
    data = (WIRE / f"{seen.json['model']}.raw").read_bytes()
    size = seen.json["max_tokens"]
    return Answer([(0.2 if start else 0, data[start : start + size]) for start in range(0, len(data), size)], raw=True)


@pytest.fixture(scope="module", params=[100_000, 97], ids=["whole", "in-pieces"])
def results(request: pytest.FixtureRequest) -> dict[str, RequestResult]:
    with ScriptedServer(replay) as server:
        clients = {api: build_client(api, server.url, "") for api in ("chat", "completions")}

        def measure(name: str) -> RequestResult:
            of_completions = any(word in name for word in ("completions", "stop_string", "disconnect"))
            planned = LLMRequest(prompt="x", max_tokens=request.param, extra_body={"model": name})
            call = clients["completions" if of_completions else "chat"].call(planned)
            call.run()
            return call.result()

        jobs = {name: gevent.spawn(measure, name) for name in (*STREAMS, *FAILURES)}
        gevent.joinall(jobs.values(), raise_error=True)
    return {name: job.value for name, job in jobs.items()}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_of_engines_are_counted_by_their_usage(name: str, results: dict[str, RequestResult]) -> None:
    events, output, prompt, finish = STREAMS[name]
    result = results[name]
    assert result.outcome == "success", result.error_text
    assert len(result.token_arrivals_ms) == len(result.token_channels) == len(result.token_counts) == events
    expected: tuple[Any, ...] = (output, "usage") if output is not None else (events, "estimated")
    assert (result.output_tokens, result.output_tokens_source) == expected
    assert (result.input_tokens, result.finish_reason) == (prompt, finish)


@pytest.mark.parametrize("name", FAILURES)
def test_failures_of_engines_keep_their_words(name: str, results: dict[str, RequestResult]) -> None:
    error_class, words = FAILURES[name]
    result = results[name]
    assert (result.outcome, result.error_class) == ("failure", error_class)
    assert result.error_text is not None
    assert result.error_text.startswith(words)


def test_reasoning_is_a_channel_of_its_own(results: dict[str, RequestResult]) -> None:
    result = results["vllm-reasoning/chat_ignore_eos"]
    assert result.token_channels == ["reasoning"] * 5 + ["answer"]
    assert result.text == " is"
    assert result.first_answer_ms == result.last_token_ms
    assert result.reasoning_tokens == 5


def test_running_usage_tells_the_tokens_of_each_event(results: dict[str, RequestResult]) -> None:
    assert results["vllm/chat_stream_usage_continuous"].token_counts == [1, 1, 1]
    assert results["vllm-reasoning/chat_stream_usage_continuous"].token_counts == [2, 1]
    assert results["vllm-reasoning/chat_stream_usage_continuous"].first_event_tokens == 2
