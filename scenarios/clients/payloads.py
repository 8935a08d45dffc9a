"""One event's data → a `Chunk`: the few fields that measuring needs, whatever API they come from.

Regular events take one pass of a typed JSON decoder that skips everything else. An event of another shape
(null or missing anywhere, content as a list of parts, numbers as strings …) is decoded once more without
types and picked apart with care. What a chunk means for the request is `token_events`' business.
"""

from typing import Any

import msgspec


class Function(msgspec.Struct, gc=False):
    """Name and arguments of a tool call, or a fragment of them."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct, gc=False):
    """One tool call's fragment."""

    function: Function | None = None


class Delta(msgspec.Struct, gc=False):
    """What one event adds to a choice."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None


class Choice(msgspec.Struct, gc=False):
    """One choice of an event: `delta` when streamed as chat, `text` as completions, else `message`."""

    index: int | None = 0
    delta: Delta | None = None
    text: str | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None


class TokenDetails(msgspec.Struct, gc=False):
    """Parts of a token count."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    """The server's token counts, under the names of the chat API."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: TokenDetails | None = None
    completion_tokens_details: TokenDetails | None = None


class Chunk(msgspec.Struct, gc=False):
    """One event. `error_text` is set for an error event, `end` for the API's own end mark."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: Any = None
    error_text: str | None = msgspec.field(default=None, name="$error_text")
    end: bool = msgspec.field(default=False, name="$end")
    event_tokens: int | None = msgspec.field(default=None, name="$event_tokens")


_decode_chunk = msgspec.json.Decoder(Chunk).decode
_decode_chunks = msgspec.json.Decoder(list[Chunk]).decode


class NotJSON(ValueError):
    """An event's data is no JSON at all."""


def decode_any(data: bytes) -> Any:
    """Untyped JSON; broken UTF-8 inside of strings is replaced, not refused."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.json.decode(data.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        raise NotJSON(data[:200].decode("utf-8", "replace")) from None


def error_message(value: Any) -> str:
    """The message in an error value of any shape, "" when there is none."""
    if isinstance(value, dict):
        for key in ("message", "error", "detail", "msg", "code", "type"):
            if message := error_message(value.get(key)):
                return message
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, map(error_message, value)))
    return "" if value is None or isinstance(value, bool) else str(value)


def error_text(data: bytes) -> str:
    """The message in the data of an error event; the data itself where it is no JSON."""
    try:
        return error_message(decode_any(data))
    except NotJSON:
        return data.decode("utf-8", "replace")


def chat_chunk(data: bytes) -> Chunk:
    """An event of the chat or completions API."""
    try:
        chunk = _decode_chunk(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _tolerant_chunk(decode_any(data))
    if not chunk.error and chunk.choices is not None:
        return chunk
    return _tolerant_chunk(decode_any(data))


def chat_chunks(array: bytes) -> list[Chunk]:
    """Many events as one JSON array, for speed; [] where any of them is of no regular type.

    Those without choices, or with an error, still want to be looked at by `chat_chunk`.
    """
    try:
        return _decode_chunks(array)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _tolerant_chunk(value: Any) -> Chunk:
    if not isinstance(value, dict):
        return Chunk()
    chunk = Chunk(usage=usage_of(value.get("usage")))
    error = value.get("error")
    if error:
        chunk.error_text = error_message(error) or msgspec.json.encode(error).decode()
    elif value.get("object") == "error" or value.get("type") == "error":
        chunk.error_text = error_message(value)
    choices = value.get("choices")
    if isinstance(choices, list):
        chunk.choices = [_choice(choice) for choice in choices if isinstance(choice, dict)]
    elif "text" in value:  # bare {"text": …}, as native generate endpoints stream it
        chunk.choices = [Choice(text=text_of(value["text"]))]
        meta = object_of(value.get("meta_info"))
        chunk.usage = chunk.usage or usage_of(meta)
        chunk.choices[0].finish_reason = reason_of(meta.get("finish_reason"))
    return chunk


def _choice(value: dict[str, Any]) -> Choice:
    token_ids = value.get("token_ids")
    return Choice(
        index=count_of(value.get("index")) or 0,
        delta=_delta(value.get("delta")),
        text=text_of(value.get("text")),
        message=_delta(value.get("message")),
        finish_reason=reason_of(value.get("finish_reason")),
        token_ids=token_ids if isinstance(token_ids, list) else None,
    )


def _delta(value: Any) -> Delta | None:
    if not isinstance(value, dict):
        return None
    tool_calls = value.get("tool_calls")
    return Delta(
        content=text_of(value.get("content")),
        reasoning=text_of(value.get("reasoning")),
        reasoning_content=text_of(value.get("reasoning_content")),
        refusal=text_of(value.get("refusal")),
        tool_calls=[_tool_call(call) for call in tool_calls] if isinstance(tool_calls, list) else None,
        function_call=_function(value.get("function_call")),
    )


def _tool_call(value: Any) -> ToolCall:
    return ToolCall(function=_function(object_of(value).get("function")))


def _function(value: Any) -> Function | None:
    if not isinstance(value, dict):
        return None
    arguments = value.get("arguments")
    if arguments and not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    return Function(name=text_of(value.get("name")), arguments=arguments or None)


def text_of(value: Any) -> str | None:
    """Text of a string or of a list of parts such as {"type": "text", "text": …}."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(filter(None, map(text_of, value)))
    if isinstance(value, dict):
        return text_of(value.get("text"))
    return None


def reason_of(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("type")
    return value if isinstance(value, str) else None


def usage_of(value: Any) -> Usage | None:
    """Token counts under the names of the chat API or of the Responses API."""
    if not isinstance(value, dict):
        return None

    def details(*keys: str) -> TokenDetails:
        found = next((d for key in keys if isinstance(d := value.get(key), dict)), {})
        return TokenDetails(count_of(found.get("cached_tokens")), count_of(found.get("reasoning_tokens")))

    return Usage(
        first_count(value, "prompt_tokens", "input_tokens"),
        first_count(value, "completion_tokens", "output_tokens"),
        details("prompt_tokens_details", "input_tokens_details"),
        details("completion_tokens_details", "output_tokens_details"),
    )


def first_count(value: dict[str, Any], *keys: str) -> int | None:
    return next((count for key in keys if (count := count_of(value.get(key))) is not None), None)


def count_of(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:12])
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e12 else None


def object_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
