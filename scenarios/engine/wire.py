"""Chat and text completions on the wire, byte for byte in vLLM's manner.

Each function or method gives the data of one server-sent event; HTTP framing is the caller's. Chunks are put
together from prepared pieces, because they are made for each token. The text is the engine's own and needs
no JSON escapes. The Responses API, which has another manner, is in `responses_wire`.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from scenarios.engine.answers import Answer
from scenarios.engine.requests import GenerationRequest

FINGERPRINT = "practice-engine"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one request. `cached_tokens` is None where prefix caching is off."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cached_tokens: int | None

    def as_json(self) -> dict[str, Any]:
        """The `usage` object of chat and completions."""
        usage: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
        }
        if self.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
        if self.reasoning_tokens:
            usage["completion_tokens_details"] = {"reasoning_tokens": self.reasoning_tokens}
        return usage


class CompletionsWire:
    """The events and the whole answer of one request to /v1/chat/completions or /v1/completions."""

    def __init__(self, request: GenerationRequest, answer: Answer, model: str, number: str, created: int) -> None:
        self._chat = request.api == "chat"
        self._answer = answer
        self._usage = request.include_usage
        self._running_usage = request.continuous_usage
        self._prompt_tokens = len(request.prompt)
        identity = {
            "id": ("chatcmpl-" if self._chat else "cmpl-") + number,
            "object": "chat.completion.chunk" if self._chat else "text_completion",
            "created": created,
            "model": model,
        }
        self._identity = identity
        start = b"data: " + msgspec.json.encode(identity)[:-1]
        self._head = start + b',"choices":[{"index":0,' + (b'"delta":{' if self._chat else b'"text":"')
        self._bare_head = start + b',"choices":[]'
        if self._chat:
            self._middle = b'},"logprobs":null,"finish_reason":null,"token_ids":null}]'
        else:
            self._middle = (
                b'","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]'
            )

    def opening(self) -> bytes:
        """The chunk before the first token: the role. Completions have none."""
        if not self._chat:
            return b""
        return (
            self._head
            + b'"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
            + self._usage_now(0)
            + b',"prompt_token_ids":null,"prompt_text":null}\n\n'
        )

    def chunk(self, text: str, reasoning: str, completion_tokens: int, last: bool) -> bytes:
        """The chunk of one or more tokens; `completion_tokens` is their number so far."""
        if not self._chat:
            payload = (reasoning + text).encode()
        elif not reasoning:
            payload = b'"content":"%b"' % text.encode()
        elif not text:
            payload = b'"reasoning":"%b"' % reasoning.encode()
        else:
            payload = b'"content":"%b","reasoning":"%b"' % (text.encode(), reasoning.encode())
        end = self._finish() if last else self._middle
        if self._running_usage:
            end += self._usage_now(completion_tokens)
        return b"%b%b%b}\n\n" % (self._head, payload, end)

    def closing(self, usage: Usage) -> list[bytes]:
        """The events after the last token, before [DONE]."""
        if not self._usage:
            return []
        fingerprint = b',"system_fingerprint":"%b"}\n\n' % FINGERPRINT.encode()
        return [self._bare_head + b',"usage":' + msgspec.json.encode(usage.as_json()) + fingerprint]

    def error(self, body: dict[str, Any]) -> bytes:
        """An error in the middle of the stream."""
        return b"data: " + msgspec.json.encode(body) + b"\n\n"

    def end_mark(self) -> bytes:
        """The event after which nothing comes."""
        return DONE

    def whole(self, usage: Usage, reasoning: str, text: str) -> bytes:
        """The answer to a request that does not stream."""
        end = {"logprobs": None, "finish_reason": self._answer.finish_reason, "stop_reason": self._answer.stop_reason}
        choice: dict[str, Any]
        if self._chat:
            message: dict[str, Any] = {
                "role": "assistant",
                "content": text,
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "tool_calls": [],
                "reasoning": reasoning or None,
            }
            choice = {"index": 0, "message": message, **end, "token_ids": None}
        else:
            choice = {"index": 0, "text": reasoning + text, **end, "token_ids": None}
        kind = "chat.completion" if self._chat else "text_completion"
        answer = {**self._identity, "object": kind, "choices": [choice], "usage": usage.as_json()}
        return msgspec.json.encode({**answer, "system_fingerprint": FINGERPRINT})

    def _finish(self) -> bytes:
        reason = msgspec.json.encode(self._answer.finish_reason)
        stop = msgspec.json.encode(self._answer.stop_reason)
        if self._chat:
            end = b'},"logprobs":null,"finish_reason":%b,"stop_reason":%b,"token_ids":null}]' % (reason, stop)
        else:
            end = (
                b'","logprobs":null,"finish_reason":%b,"stop_reason":%b,"prompt_token_ids":null,"token_ids":null}]'
                % (reason, stop)
            )
        # vLLM puts the fingerprint on the last event with JSON: this one, unless a usage event follows.
        return end if self._usage else end + b',"system_fingerprint":"%b"' % FINGERPRINT.encode()

    def _usage_now(self, completion_tokens: int) -> bytes:
        if not self._running_usage:
            return b""
        prompt_tokens = self._prompt_tokens
        usage = b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d' % (
            prompt_tokens,
            prompt_tokens + completion_tokens,
            completion_tokens,
        )
        return usage + (b',"completion_tokens_details":null}' if self._chat else b"}")
