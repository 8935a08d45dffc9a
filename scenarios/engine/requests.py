"""Request bodies: read, checked and reduced to what the engine needs to know.

Unknown fields are ignored, as vLLM does. What is wrong is raised as the error that the client gets.
"""

import re
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from scenarios.engine import errors
from scenarios.engine.tokenizer import content_text, tokenize, tokenize_chat

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One request for text, whatever API it came by. `max_tokens` is None where none was given."""

    api: str  # chat, completions or responses
    model: str | None
    prompt: list[str]  # tokens
    max_tokens: int | None
    min_tokens: int
    ignore_eos: bool
    stop: tuple[str, ...]
    stream: bool
    include_usage: bool
    continuous_usage: bool


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Body(msgspec.Struct, kw_only=True):
    model: str | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None


class _ChatBody(_Body, kw_only=True):
    messages: list[dict[str, Any]]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


class _CompletionsBody(_Body, kw_only=True):
    prompt: str | list[str | int]
    max_tokens: int | None = 16


class _ResponsesBody(_Body, kw_only=True):
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: int | None = None


class _TokenizeBody(msgspec.Struct, kw_only=True):
    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    return_token_strs: bool | None = None


def read_chat(body: bytes) -> GenerationRequest:
    """Read the body of /v1/chat/completions."""
    fields = _decode(body, _ChatBody)
    if not fields.messages:
        raise errors.invalid_field("messages", "at least one message is needed")
    max_tokens = fields.max_tokens if fields.max_completion_tokens is None else fields.max_completion_tokens
    return _request("chat", fields, tokenize_chat(fields.messages), max_tokens)


def read_completions(body: bytes) -> GenerationRequest:
    """Read the body of /v1/completions; the prompt may be text or token ids."""
    fields = _decode(body, _CompletionsBody)
    prompt = fields.prompt
    if isinstance(prompt, list):
        if all(isinstance(item, int) for item in prompt):
            return _request("completions", fields, [str(item) for item in prompt], fields.max_tokens)
        if len(prompt) != 1 or not isinstance(prompt[0], str):
            raise errors.invalid_field("prompt", "one prompt per request is served here")
        prompt = prompt[0]
    return _request("completions", fields, tokenize(prompt), fields.max_tokens)


def read_responses(body: bytes) -> GenerationRequest:
    """Read the body of /v1/responses."""
    fields = _decode(body, _ResponsesBody)
    messages: list[dict[str, Any]] = [{"content": fields.instructions}] if fields.instructions else []
    messages += [{"content": fields.input}] if isinstance(fields.input, str) else fields.input
    return _request("responses", fields, tokenize_chat(messages), fields.max_output_tokens)


def read_tokenize(body: bytes) -> tuple[list[str], str | None, bool]:
    """Read the body of /tokenize: the tokens of its prompt or messages, the model, and whether to spell them out."""
    fields = _decode(body, _TokenizeBody)
    if fields.messages is not None:
        tokens = tokenize_chat(fields.messages)
    elif fields.prompt is not None:
        tokens = tokenize(content_text(fields.prompt))
    else:
        raise errors.invalid_field("prompt", "a prompt or messages are needed")
    return tokens, fields.model, bool(fields.return_token_strs)


def _request(api: str, fields: _Body, prompt: list[str], max_tokens: int | None) -> GenerationRequest:
    options = fields.stream_options or _StreamOptions()
    min_tokens = fields.min_tokens or 0
    if fields.stream_options and not fields.stream:
        raise errors.invalid_field("stream_options", "Stream options can only be defined when `stream=True`.")
    if fields.n not in (None, 1):
        raise errors.RequestError(400, "n must be 1: this engine gives one answer per request.", "n")
    if max_tokens is not None and max_tokens < 1:
        raise errors.RequestError(400, f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens")
    if min_tokens < 0 or (max_tokens is not None and min_tokens > max_tokens):
        raise errors.RequestError(
            400, f"min_tokens must be between 0 and max_tokens={max_tokens}, got {min_tokens}.", "min_tokens"
        )
    if not prompt:
        raise errors.RequestError(400, "The prompt cannot be empty.", "prompt")
    stop = (fields.stop,) if isinstance(fields.stop, str) else tuple(fields.stop or ())
    return GenerationRequest(
        api=api,
        model=fields.model,
        prompt=prompt,
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        ignore_eos=bool(fields.ignore_eos),
        stop=tuple(string for string in stop if string),
        stream=bool(fields.stream),
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.continuous_usage_stats),
    )


def _decode(body: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        missing = re.search(r"missing required field `(\w+)`", message)
        field = missing[1] if missing else path.strip("`.")
        raise errors.invalid_field(field, message) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        position = re.search(r"\(byte (\d+)\)", str(error))
        raise errors.malformed_json(f".{position[1]}" if position else "", str(error)) from None
