"""Events of the Responses API and of Triton's generate_stream → the same `Chunk` as the chat API's."""

from collections.abc import Callable
from typing import Any

import msgspec

from scenarios.clients.payloads import (
    Choice,
    Chunk,
    Delta,
    Function,
    Usage,
    decode_any,
    error_message,
    first_count,
    object_of,
    reason_of,
    text_of,
    usage_of,
)


class _ResponsesEvent(msgspec.Struct, gc=False):
    type: str | None = None
    delta: str | None = None


_decode_responses = msgspec.json.Decoder(_ResponsesEvent).decode

# Only deltas are generated payload; the `.done` events repeat the same text in full.
_RESPONSES_DELTAS: dict[str, Callable[[str], Delta]] = {
    "response.output_text.delta": lambda text: Delta(content=text),
    "response.reasoning_text.delta": lambda text: Delta(reasoning=text),
    "response.reasoning.delta": lambda text: Delta(reasoning=text),
    "response.reasoning_summary_text.delta": lambda text: Delta(reasoning=text),
    "response.refusal.delta": lambda text: Delta(refusal=text),
    "response.function_call_arguments.delta": lambda text: Delta(function_call=Function(arguments=text)),
    "response.mcp_call_arguments.delta": lambda text: Delta(function_call=Function(arguments=text)),
    "response.custom_tool_call_input.delta": lambda text: Delta(function_call=Function(arguments=text)),
    "response.code_interpreter_call_code.delta": lambda text: Delta(function_call=Function(arguments=text)),
}


def responses_chunk(data: bytes) -> Chunk:
    """An event of the Responses API."""
    try:
        event = _decode_responses(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        event = _ResponsesEvent()
    if event.delta is not None and (delta := _RESPONSES_DELTAS.get(event.type or "")):
        return Chunk(choices=[Choice(delta=delta(event.delta))])
    value = object_of(decode_any(data))
    kind = value.get("type")
    if kind == "error" or value.get("error"):
        return Chunk(error_text=error_message(value.get("error") or value), end=True)
    if kind not in ("response.completed", "response.incomplete", "response.failed"):
        return Chunk()
    response = object_of(value.get("response"))
    chunk = Chunk(usage=usage_of(response.get("usage")), end=True)
    if kind == "response.failed":
        chunk.error_text = error_message(response.get("error")) or "response.failed"
    reason = object_of(response.get("incomplete_details")).get("reason") or kind.removeprefix("response.")
    chunk.choices = [Choice(finish_reason=reason_of(reason))]
    return chunk


class _TritonEvent(msgspec.Struct, gc=False):
    text_output: str | None = None
    num_output_tokens: int | None = None
    num_input_tokens: int | None = None
    finish_reason: str | None = None
    error: Any = None


_decode_triton = msgspec.json.Decoder(_TritonEvent).decode


def triton_chunk(data: bytes) -> Chunk:
    """An event of Triton's generate_stream; `num_output_tokens` counts the event, not the request."""
    try:
        event = _decode_triton(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = object_of(decode_any(data))
        event = _TritonEvent(text_of(value.get("text_output")), first_count(value, "num_output_tokens"))
        event.num_input_tokens = first_count(value, "num_input_tokens")
        event.error = value.get("error")
    if event.error:
        return Chunk(error_text=error_message(event.error))
    reason = None if event.finish_reason == "None" else event.finish_reason
    usage = Usage(prompt_tokens=event.num_input_tokens) if event.num_input_tokens is not None else None
    choices = [Choice(text=event.text_output, finish_reason=reason)]
    return Chunk(choices=choices, usage=usage, event_tokens=event.num_output_tokens)


def responses_message(data: bytes) -> Chunk:
    """The whole answer of a Responses API request that was not streamed."""
    value = object_of(decode_any(data))
    chunk = Chunk(usage=usage_of(value.get("usage")))
    if value.get("error"):
        chunk.error_text = error_message(value["error"])
    items = value.get("output")
    parts = [text_of(object_of(item).get("content")) for item in items] if isinstance(items, list) else []
    chunk.choices = [Choice(text="".join(filter(None, parts)), finish_reason=reason_of(value.get("status")))]
    return chunk
