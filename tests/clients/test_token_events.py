"""Token events, usage and outcomes of single events, worked out by hand."""

from typing import Any

import msgspec
import pytest

from scenarios.clients.outcome import normal_form, retry_after_s, tidy
from scenarios.clients.token_events import StreamDecoder


def decoded(*events: Any, api: str = "chat", cumulative: bool = False) -> StreamDecoder:
    """Each event arrives one second after the one before, from 1."""
    decoder = StreamDecoder(api, cumulative=cumulative)
    for second, event in enumerate(events, start=1):
        data = event if isinstance(event, bytes) else msgspec.json.encode(event)
        decoder.feed(b"data: " + data + b"\n\n", float(second))
    decoder.finish(float(len(events)))
    return decoder


def chat(content: Any = None, usage: Any = None, finish: Any = None, index: int = 0, **delta: Any) -> dict[str, Any]:
    chunk: dict[str, Any] = {
        "choices": [{"index": index, "delta": {"content": content, **delta}, "finish_reason": finish}]
    }
    return chunk if usage is None else {**chunk, "usage": {"prompt_tokens": 5, "completion_tokens": usage}}


@pytest.mark.parametrize(
    ("delta", "channel"),
    [
        ({"content": "a"}, "answer"),
        ({"content": [{"type": "text", "text": "a"}]}, "answer"),  # a list of parts
        ({"content": "a", "reasoning": "b"}, "answer"),  # both in one event: the answer has begun
        ({"reasoning": "a"}, "reasoning"),
        ({"reasoning_content": "a"}, "reasoning"),
        ({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}, "tool_call"),
        ({"tool_calls": [{"index": 0, "function": {"arguments": {"a": 1}}}]}, "tool_call"),  # no string
        ({"function_call": {"arguments": "{"}}, "tool_call"),
        ({"refusal": "no"}, "refusal"),
    ],
)
def test_payload_on_any_channel_is_a_token_event(delta: dict[str, Any], channel: str) -> None:
    decoder = decoded({"choices": [{"index": 0, "delta": delta}]})
    assert (decoder.arrivals_s, decoder.channels) == ([1.0], [channel])


@pytest.mark.parametrize(
    "event",
    [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": []}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "x", "function": None}]}}]},
        {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": None, "reasoning": None}}]},
        {"choices": None, "usage": None},
        {"choices": [None]},
        {"choices": {}},
        {"prompt_filter_results": []},
        [],
        None,
        1.5,
        "text",
    ],
)
def test_nothing_else_is_a_token_event_or_an_error(event: Any) -> None:
    decoder = decoded(event)
    assert decoder.arrivals_s == []
    assert (decoder.error_text, decoder.malformed, decoder.ended) == (None, None, False)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"error": {"message": "boom", "code": 500}}, "boom"),
        ({"error": "CUDA out of memory"}, "CUDA out of memory"),
        ({"error": {"code": 500}}, "500"),
        ({"object": "error", "message": "old vLLM", "code": 400}, "old vLLM"),
        ({"error": {"detail": [{"msg": "a"}, {"msg": "b"}]}}, "a; b"),
    ],
)
def test_the_words_of_an_error_event(event: Any, text: str) -> None:
    decoder = decoded(chat("a"), event, chat("late"))
    assert (decoder.error_text, decoder.end_s, len(decoder.arrivals_s)) == (text, 2.0, 1)


def test_an_event_of_type_error_is_an_error_whatever_its_data() -> None:
    decoder = StreamDecoder("chat")
    decoder.feed(b"event: error\ndata: worker died\n\n", 1.0)
    assert decoder.error_text == "worker died"
    decoder = StreamDecoder("chat")
    decoder.feed(b'error: {"code":500,"message":"slot unavailable"}\n\n', 1.0)
    assert decoder.error_text == "slot unavailable"


def test_running_usage_decides_even_where_text_is_empty_or_held_back() -> None:
    # token 2 is half a character, token 3 completes it; the last event only flushes text
    decoder = decoded(chat("", usage=0), chat("a", usage=1), chat("", usage=2), chat("é", usage=3), chat("!", usage=3))
    assert (decoder.arrivals_s, decoder.counts) == ([2.0, 3.0, 4.0], [1, 1, 1])
    assert decoder.text == "aé!"
    assert (decoder.token_count().output, decoder.token_count().source) == (3, "running_usage")


def test_usage_that_never_grows_while_text_comes_is_no_running_usage() -> None:
    decoder = decoded(chat("a", usage=0), chat("b", usage=0), chat(None, finish="stop", usage=2))
    assert decoder.arrivals_s[:2] == [1.0, 2.0]
    assert (decoder.token_count().output, decoder.token_count().source) == (2, "usage")


def test_usage_with_the_finish_only_is_final_not_running() -> None:
    decoder = decoded(chat("a"), chat("b"), chat(None, finish="stop", usage=2))
    assert (decoder.arrivals_s, decoder.counts) == ([1.0, 2.0], [None, None])
    assert (decoder.token_count().output, decoder.token_count().source, decoder.token_count().input) == (2, "usage", 5)


def test_running_usage_of_two_choices_is_counted_by_choice() -> None:
    decoder = decoded(
        chat("a", usage=1), chat("x", usage=1, index=1), chat("b", usage=2), chat("y", usage=2, index=1, finish="stop"),
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 4}},
    )  # fmt: skip
    assert (decoder.event_counts(), decoder.token_count().output, decoder.text) == ([1, 1, 1, 1], 4, "ab")


def test_a_total_over_two_choices_leaves_the_events_own_counts_unknown() -> None:
    decoder = decoded(
        chat("a", usage=1), chat("x", usage=2, index=1), chat("b", usage=3),
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}},
    )  # fmt: skip
    assert (decoder.event_counts(), decoder.token_count().output) == ([None, None, None], 3)


def test_token_ids_tell_how_many_tokens_an_event_has() -> None:
    events = [{"choices": [{"index": 0, "text": "a b c", "token_ids": [1, 2, 3]}]}]
    assert decoded(*events, api="completions").counts == [3]


def test_numbers_as_strings_and_floats_are_numbers() -> None:
    decoder = decoded(chat("a"), {"choices": [], "usage": {"prompt_tokens": "12", "completion_tokens": 3.0}})
    assert (decoder.token_count().input, decoder.token_count().output) == (12, 3)


def test_cumulative_text_counts_what_is_new() -> None:
    texts = ["The", "The quick", "The quick", "The quick fox"]
    for key, api in (("text", "chat"), ("text_output", "triton-generate")):
        decoder = decoded(*({key: text} for text in texts), api=api, cumulative=True)
        assert (decoder.arrivals_s, decoder.text) == ([1.0, 2.0, 4.0], "The quick fox")
    decoder = decoded(*(chat(text) for text in texts), cumulative=True)
    assert (decoder.arrivals_s, decoder.text) == ([1.0, 2.0, 4.0], "The quick fox")


def test_the_responses_api_ends_with_its_own_events() -> None:
    def delta(kind: str, text: str) -> dict[str, str]:
        return {"type": f"response.{kind}.delta", "delta": text}

    usage = {"input_tokens": 9, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 1}}
    end = {
        "type": "response.incomplete",
        "response": {"incomplete_details": {"reason": "max_output_tokens"}, "usage": usage},
    }
    decoder = decoded(
        {"type": "response.created", "response": {}}, delta("reasoning_text", "hm"), delta("output_text", "a"),
        delta("function_call_arguments", "{"), {"type": "response.output_text.done", "text": "a"}, end, api="responses",
    )  # fmt: skip
    assert (decoder.arrivals_s, decoder.channels) == ([2.0, 3.0, 4.0], ["reasoning", "answer", "tool_call"])
    assert (decoder.ended, decoder.end_s, decoder.finish_reason) == (True, 6.0, "max_output_tokens")
    assert (decoder.token_count().output, decoder.token_count().reasoning) == (5, 1)
    failed = {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "boom"}}}
    assert decoded(failed, api="responses").error_text == "boom"
    assert decoded({"type": "error", "message": "rate"}, api="responses").error_text == "rate"


def test_like_errors_have_one_normal_form() -> None:
    a = "This model's maximum context length is 4,096 tokens, but request chatcmpl-1a2b needs 5000 (http://h:1/v1)"
    b = "This model's maximum context length is 8192 tokens, but request chatcmpl-ffee needs 9001 (http://g:2/v1)"
    assert normal_form(a) == normal_form(b)
    assert normal_form(a) == "This model's maximum context length is N tokens, but request ID needs N (URL"
    assert normal_form("out of memory") != normal_form("out of time")


def test_error_texts_are_one_bounded_line_without_keys() -> None:
    assert tidy("a\n  b\tBearer abcdef123", "") == "a b Bearer ***"
    assert tidy("key topsecret!", "topsecret!") == "key ***"
    assert tidy(None) is None
    assert len(tidy("x" * 2000) or "") == 500


def test_retry_after_in_seconds_or_as_a_date() -> None:
    assert retry_after_s("120") == 120
    assert retry_after_s("-3") == 0
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert retry_after_s("soon") is None
    assert retry_after_s("inf") is None
    assert retry_after_s(None) is None


def test_running_usage_may_begin_after_the_role_event() -> None:
    decoder = decoded(chat("", role="assistant"), chat("a", usage=1), chat("", usage=2))
    assert (decoder.arrivals_s, decoder.counts) == ([2.0, 3.0], [1, 1])
