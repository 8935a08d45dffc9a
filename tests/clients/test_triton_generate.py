"""The generate_stream client against what a real Triton sent: its captured answers, event by event."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.clients.access import EngineAccess
from scenarios.clients.call import LLMRequest, RequestResult
from scenarios.clients.factory import build_client
from tests.support.scripted_server import Answer, ScriptedServer, Seen, event, json_answer

WIRE = Path(__file__).parents[1] / "wire" / "triton"

# metadata as Triton gives it, cut to what matters
VLLM = {
    "inputs": {"text_input": "BYTES", "stream": "BOOL", "sampling_parameters": "BYTES", "return_finish_reason": "BOOL"},
    "shape": [1],
}
TENSORRT_LLM = {
    "inputs": {"text_input": "BYTES", "max_tokens": "INT32", "stream": "BOOL", "min_tokens": "INT32", "top_p": "FP32"},
    "shape": [-1, 1],
}


def metadata_of(interface) -> dict[str, object]:
    inputs = [{"name": n, "datatype": d, "shape": interface["shape"]} for n, d in interface["inputs"].items()]
    return {"name": "m", "inputs": inputs, "outputs": [{"name": "text_output", "datatype": "BYTES", "shape": [-1]}]}


def config_of(interface) -> dict[str, object]:
    required = ("text_input", "max_tokens")
    return {
        "input": [{"name": name, "optional": name not in required} for name in interface["inputs"]],
        "model_transaction_policy": {"decoupled": True},
    }


def captured(name: str) -> Answer:
    """An answer as it was captured, its events 20 ms apart."""
    head, _, body = (WIRE / f"{name}.txt").read_bytes().partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if line.startswith("Content-Type"))
    events = [each + b"\n\n" for each in body.split(b"\n\n") if each] if b"event-stream" in head else [body]
    return Answer([(20, each) for each in events], int(status.split()[1]), headers)


def answering(stream: Answer, interface) -> Callable[[Seen], Answer]:
    answers = {
        "/v2/models/m": json_answer(200, metadata_of(interface)),
        "/v2/models/m/config": json_answer(200, config_of(interface)),
        "/v2/models/m/generate_stream": stream,
    }
    return lambda seen: answers.get(seen.target) or json_answer(404, {"error": "unknown"})


def measure(stream: Answer, interface, **fields) -> tuple[RequestResult, ScriptedServer]:
    cumulative = fields.pop("cumulative", False)
    with ScriptedServer(answering(stream, interface)) as server:
        client = build_client("triton-generate", server.url, "m", EngineAccess(cumulative=cumulative))
        call = client.call(LLMRequest(**{"prompt": "hello world", "max_tokens": 4, **fields}))
        call.run()
        client.close()
    return call.result(), server


@pytest.mark.parametrize(
    ("name", "interface", "tokens", "source", "input_tokens", "reason"),
    [
        ("http_generate_stream_vllm", VLLM, 4, "usage", 2, "length"),
        ("http_generate_stream_trtllm_bls", TENSORRT_LLM, 4, "usage", None, None),
        ("http_generate_stream_ensemble", TENSORRT_LLM, 4, "estimated", None, None),
    ],
)
def test_a_captured_stream_is_a_success_with_its_counts(name, interface, tokens, source, input_tokens, reason):
    result, _ = measure(captured(name), interface)
    assert (result.outcome, result.text) == ("success", " tok0 tok1 tok2 tok3")
    assert (result.output_tokens, result.output_tokens_source) == (tokens, source)
    assert (result.input_tokens, result.finish_reason) == (input_tokens, reason)
    assert result.token_arrivals_ms == pytest.approx([20, 40, 60, 80], abs=10)
    assert result.stamp == "kernel"


@pytest.mark.parametrize(
    ("name", "error_class", "events", "said"),
    [
        ("http_err_mid_stream", "server_error_event", 2, "injected after 2 tokens"),
        ("http_err_too_long", "http_400", 0, "exceeds context 2048"),
        ("http_err_missing_input", "http_400", 0, "not 'NoneType'"),
        ("http_err_malformed", "http_500", 0, "failed to parse the request JSON"),
    ],
)
def test_a_captured_error_is_a_failure_in_the_servers_words(name, error_class, events, said):
    result, _ = measure(captured(name), VLLM)
    assert (result.outcome, result.error_class, len(result.token_arrivals_ms)) == ("failure", error_class, events)
    assert said in (result.error_text or "")


def test_whole_texts_in_each_event_are_taken_apart():
    texts = [" a", " a b", " a b c"]
    stream = Answer([(20, event(model_name="m", text_output=text)) for text in texts])
    result, _ = measure(stream, TENSORRT_LLM, cumulative=True)
    assert (result.text, result.output_tokens, len(result.token_arrivals_ms)) == (" a b c", 3, 3)


def test_the_body_has_the_inputs_of_vllms_interface():
    extra = {"temperature": 0.5, "return_finish_reason": None}
    _, server = measure(captured("http_generate_stream_vllm"), VLLM, ignore_eos=True, extra_body=extra)
    body = server.requests[-1].json
    assert json.loads(body.pop("sampling_parameters")) == {"max_tokens": 4, "ignore_eos": True, "temperature": 0.5}
    assert body == {"text_input": "hello world", "stream": True}


def test_the_body_has_the_inputs_of_tensorrt_llms_interface():
    _, server = measure(
        captured("http_generate_stream_ensemble"), TENSORRT_LLM, ignore_eos=True, extra_body={"top_p": 1}
    )
    assert server.requests[-1].json == {
        "text_input": "hello world",
        "stream": True,
        "max_tokens": 4,
        "min_tokens": 4,  # what this interface has for ignore_eos
        "top_p": 1,
    }


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"max_tokens": None}, "input max_tokens (INT32) is missing: give it in workload.extra_body"),
        ({"extra_body": {"top_p": "0.9"}}, "input top_p is FP32, found '0.9'"),
        ({"extra_body": {"min_tokens": 2.5}}, "input min_tokens is INT32, found 2.5"),
        ({"extra_body": {"min_tokens": True}}, "input min_tokens is INT32, found True"),
        ({"extra_body": {"top_p": [0.1, 0.2]}}, "input top_p takes 1 values, found 2"),
        ({"extra_body": {"top_q": 1}}, "there is no input top_q"),
    ],
)
def test_inputs_that_do_not_fit_are_told_with_what_the_model_has(fields, said):
    result, server = measure(captured("http_generate_stream_ensemble"), TENSORRT_LLM, **fields)
    assert (result.outcome, result.error_class) == ("failure", "invalid_inputs")
    assert said in (result.error_text or "")
    assert "its inputs are text_input (BYTES [-1, 1], required), max_tokens" in (result.error_text or "")
    assert not any(seen.target.endswith("generate_stream") for seen in server.requests)
