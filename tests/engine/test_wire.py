"""The engine speaks as vLLM 0.32 was recorded to speak: the same keys in the same order, event by event.

The files in `vllm/` are recorded responses of a real vLLM server.
"""

import json
from pathlib import Path

import pytest

from tests.engine.raw_client import Answer, ask, token_text

RECORDED = Path(__file__).parent / "vllm"


def recorded_events(name: str) -> list[str]:
    lines = (RECORDED / name).read_text().splitlines()
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def shape(event: str) -> object:
    """An event with all values but the keys, null and finish reasons taken out."""
    return event if event == "[DONE]" else _shape(json.loads(event))


def _shape(value: object, key: str = "") -> object:
    if isinstance(value, dict):
        return [(name, _shape(item, name)) for name, item in value.items()]
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return value if value is None or key in ("object", "finish_reason", "role", "index") else type(value).__name__


def stream(url: str, path: str, **fields: object) -> Answer:
    prompt: dict[str, object] = {"messages": [{"role": "user", "content": "Go on"}]}
    if path == "/v1/completions":
        prompt = {"prompt": "Go on"}
    return ask(url, path, {**prompt, "stream": True, "ignore_eos": True, **fields})


def shapes(answer: Answer) -> list[object]:
    return [shape(data) for _, data in answer.events]


USAGE = {"include_usage": True}


@pytest.mark.parametrize(
    ("recorded", "path", "fields"),
    [
        ("chat_stream.raw", "/v1/chat/completions", {"max_tokens": 6}),
        ("chat_stream_usage.raw", "/v1/chat/completions", {"max_tokens": 6, "stream_options": USAGE}),
        (
            "chat_stream_usage_continuous.raw",
            "/v1/chat/completions",
            {"max_tokens": 3, "stream_options": {**USAGE, "continuous_usage_stats": True}},
        ),
        ("completions_stream.raw", "/v1/completions", {"max_tokens": 6, "stream_options": USAGE}),
    ],
)
def test_a_stream_has_vllms_events(url, recorded, path, fields):
    answer = stream(url, path, **fields)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert shapes(answer) == [shape(event) for event in recorded_events(recorded)]


def test_running_usage_of_completions_has_vllms_keys(url):
    answer = stream(
        url, "/v1/completions", max_tokens=2, stream_options={"include_usage": True, "continuous_usage_stats": True}
    )
    recorded = [json.loads(event) for event in recorded_events("completions_continuous.txt")[1:-1]]
    assert [list(chunk) for chunk in answer.chunks[:2]] == [list(recorded[0])] * 2
    assert [chunk["usage"]["completion_tokens"] for chunk in answer.chunks[:2]] == [1, 2]
    assert list(answer.chunks[0]["usage"]) == list(recorded[0]["usage"])


def test_reasoning_has_vllms_field_and_usage(start):
    answer = stream(
        start("--speed", "20", "--reasoning-tokens", "5").url,
        "/v1/chat/completions",
        max_tokens=6,
        stream_options=USAGE,
    )
    recorded = [shape(event) for event in recorded_events("chat_reasoning_usage.raw")]
    # role, five tokens of reasoning; the recorded answer ended with the sixth, ours has one token of text
    assert shapes(answer)[:5] == recorded[:5]
    assert shapes(answer)[-2:] == recorded[-2:]
    assert answer.chunks[-1]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 5}


def test_a_stop_string_ends_the_stream_as_vllms_does(url):
    answer = stream(url, "/v1/completions", max_tokens=50, stop=["e"], stream_options=USAGE)
    recorded = [shape(event) for event in recorded_events("stop_string.raw")]
    assert shapes(answer)[-3:] == recorded[-3:]
    assert answer.chunks[-2]["choices"][0]["stop_reason"] == "e"
    assert "e" not in answer.text


@pytest.mark.parametrize(
    ("recorded", "body"),
    [
        ("err_malformed_json.raw", b'{"messages": '),
        ("err_bad_type.raw", {"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}),
        ("err_too_long_prompt.raw", {"messages": [{"role": "user", "content": "x " * 17000}]}),
        ("err_unknown_model.raw", {"messages": [{"role": "user", "content": "x"}], "model": "nope"}),
    ],
)
def test_an_error_has_vllms_status_and_body(url, recorded, body):
    head, _, vllm_body = (RECORDED / recorded).read_text().partition("\n\n")
    answer = ask(url, "/v1/chat/completions", body)
    assert answer.status == int(head.split()[1])
    assert list(answer.json["error"]) == list(json.loads(vllm_body)["error"])
    for key in ("type", "code"):
        assert answer.json["error"][key] == json.loads(vllm_body)["error"][key]


def test_the_responses_api_counts_its_events_and_ends_with_the_usage(url):
    answer = ask(url, "/v1/responses", {"input": "Go on", "max_output_tokens": 4, "ignore_eos": True, "stream": True})
    kinds = [chunk["type"] for chunk in answer.chunks]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 4,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [chunk["sequence_number"] for chunk in answer.chunks] == list(range(len(kinds)))
    assert answer.body.startswith(b"event: response.created\ndata: {")
    assert b"[DONE]" not in answer.body
    response = answer.chunks[-1]["response"]
    assert (response["usage"]["input_tokens"], response["usage"]["output_tokens"]) == (9, 4)
    assert response["output"][0]["content"][0]["text"] == answer.text


def test_only_chunks_with_text_carry_tokens(url):
    answer = stream(url, "/v1/chat/completions", max_tokens=7)
    assert [bool(token_text(chunk)) for chunk in answer.chunks] == [False] + [True] * 7
