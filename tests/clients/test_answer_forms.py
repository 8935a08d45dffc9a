"""Encodings, keys and headers, and answers that are no stream of tokens."""

import gzip
import zlib
from dataclasses import replace

import pytest

from scenarios.clients.access import EngineAccess
from scenarios.clients.call import LLMRequest
from scenarios.clients.factory import build_client, list_models
from scenarios.clients.stamps import COUNTERS
from tests.support.measuring import QUICK, measure
from tests.support.scripted_server import (
    DONE,
    Answer,
    ScriptedServer,
    chat_event,
    chat_stream,
    event,
    json_answer,
)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_identity_is_asked_for_and_compression_decoded_step_by_step(encoding: str) -> None:
    plain = chat_stream(100, 50, 5)

    def packed(cut: bool) -> Answer:
        packer = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
        script: list[tuple[float, bytes | str]] = []
        for delay, data in plain.script:
            assert isinstance(data, bytes)
            script.append((delay, packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)))
        script = script[:3] if cut else [*script, (0, packer.flush())]
        return Answer(script, headers={**plain.headers, "Content-Encoding": encoding})

    with ScriptedServer([packed(cut=False), packed(cut=True)]) as server:
        whole, cut = measure(server.url, times=2)
    assert server.requests[0].headers["accept-encoding"] == "identity"
    assert (whole.outcome, whole.output_tokens, whole.text) == ("success", 5, " t0 t1 t2 t3 t4")
    assert whole.first_token_ms == pytest.approx(100, abs=25 + server.requests[0].late_ms)
    assert (cut.outcome, cut.error_class) == ("failure", "truncated_stream")
    assert len(cut.token_arrivals_ms) == 3


def test_broken_or_unknown_compression_is_a_protocol_error() -> None:
    broken = gzip.compress(chat_event("a"))[:10] + b"garbage" * 20
    answers = [
        Answer([(0, broken)], headers={"Content-Type": "text/event-stream", "Content-Encoding": encoding})
        for encoding in ("gzip", "br")
    ]
    with ScriptedServer(answers) as server:
        results = measure(server.url, times=2)
    assert [r.error_class for r in results] == ["protocol_error", "protocol_error"]


def test_the_key_is_sent_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_KEY", "s3cr3t-value-1")
    refusal = json_answer(401, {"error": {"message": "Incorrect API key provided: s3cr3t-value-1, or sk-abcdef123456"}})
    with ScriptedServer(refusal) as server:
        result = measure(server.url, api_key_env="ENGINE_KEY")[0]
    assert server.requests[0].headers["authorization"] == "Bearer s3cr3t-value-1"
    assert result.error_text == "Incorrect API key provided: ***, or sk-***"
    with pytest.raises(ValueError, match="environment variable NO_SUCH_KEY is not set"):
        build_client("chat", "http://x", "m", EngineAccess(api_key_env="NO_SUCH_KEY"))


def test_an_answer_that_was_not_to_be_streamed() -> None:
    message = {
        "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 2},
    }
    with ScriptedServer(json_answer(200, message)) as server:
        asked = measure(server.url, request=LLMRequest(prompt="x", extra_body={"stream": False}))[0]
        unasked = measure(server.url)[0]
    assert "stream_options" not in server.requests[0].json
    assert (asked.outcome, asked.streamed, asked.text, asked.output_tokens) == ("success", False, "hello", 2)
    assert (asked.first_token_ms, asked.token_arrivals_ms) == (None, [])
    assert (unasked.outcome, unasked.error_class) == ("failure", "not_an_event_stream")


def test_an_orderly_end_without_a_token_is_empty() -> None:
    usage = event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 0})
    with ScriptedServer(
        Answer([(5, chat_event(role="assistant")), (0, chat_event(finish_reason="stop")), (0, usage), (0, DONE)])
    ) as s:
        result = measure(s.url)[0]
    assert (result.outcome, result.error_class, result.output_tokens) == ("empty", None, 0)


def test_headers_of_a_request_replace_those_of_the_client() -> None:
    with ScriptedServer(QUICK) as server:
        client = build_client("chat", server.url, "m", EngineAccess(headers={"X-Team": "a", "X-All": "1"}))
        for headers in ({}, {"x-team": "b", "X-Request-Id": "7"}, {}):
            client.call(LLMRequest(prompt="x", extra_headers=headers)).run()
        with pytest.raises(ValueError, match="line end"):
            client.call(LLMRequest(prompt="x", extra_headers={"X-Bad": "a\r\nb: c"})).run()
        client.close()
    assert [r.headers["x-team"] for r in server.requests] == ["a", "b", "a"]
    assert [r.headers.get("x-request-id") for r in server.requests] == [None, "7", None]
    assert [r.headers["x-all"] for r in server.requests] == ["1", "1", "1"]


def test_paths_are_under_v1_whether_the_address_says_so_or_not() -> None:
    models = json_answer(
        200, {"object": "list", "data": [{"id": "a", "object": "model", "created": 1, "owned_by": "x"}]}
    )
    with ScriptedServer(lambda seen: models if seen.method == "GET" else QUICK) as server:
        for url in (server.url, f"{server.url}/", f"{server.url}/v1", f"{server.url}/v1/"):
            measure(url)
            assert list_models(url) == ["a"]
    assert {seen.target for seen in server.requests} == {"/v1/chat/completions", "/v1/models"}


def test_sizes_and_reads_are_counted() -> None:
    before = replace(COUNTERS)
    one_burst = Answer([(10, b"".join(data for _, data in QUICK.script if isinstance(data, bytes)))])
    with ScriptedServer([QUICK, one_burst]) as server:
        paced, burst = measure(server.url, times=2)
    assert paced.response_bytes == burst.response_bytes == sum(len(data) for _, data in QUICK.script)
    assert burst.coalesced_reads == 1  # what came in one write has one arrival
    assert len(set(burst.token_arrivals_ms)) == 1
    assert COUNTERS.reads - before.reads == paced.reads + burst.reads
    assert COUNTERS.coalesced_reads - before.coalesced_reads == paced.coalesced_reads + 1
