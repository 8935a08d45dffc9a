"""The OpenAI Responses API on the wire: named events, a sequence number on each, and no [DONE].

The same methods as `wire.CompletionsWire`.
"""

from typing import Any

import msgspec

from scenarios.engine.answers import Answer
from scenarios.engine.requests import GenerationRequest
from scenarios.engine.wire import Usage


class ResponsesWire:
    """The events and the whole answer of one request to /v1/responses."""

    def __init__(self, _request: GenerationRequest, answer: Answer, model: str, number: str, created: int) -> None:
        self._answer = answer
        self._identity = {"id": f"resp_{number}", "object": "response", "created_at": created, "model": model}
        self._message_id = f"msg_{number}"
        self._reasoning_id = f"rs_{number}"
        self._sequence_number = 0
        self._reasoning = ""
        self._text = ""
        self._message_open = False

    def opening(self) -> bytes:
        """The events before the first token."""
        response = {**self._identity, "status": "in_progress", "output": []}
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def chunk(self, text: str, reasoning: str, _completion_tokens: int, _last: bool) -> bytes:
        """The events of one or more tokens; nothing for an end token without text."""
        events = b""
        if reasoning:
            if not self._reasoning:
                events += self._event("response.output_item.added", output_index=0, item=self._reasoning_item())
            self._reasoning += reasoning
            events += self._event(
                "response.reasoning_text.delta",
                item_id=self._reasoning_id,
                output_index=0,
                content_index=0,
                delta=reasoning,
            )
        if text:
            if not self._message_open:
                events += self._open_message()
            self._text += text
            events += self._event("response.output_text.delta", **self._place(), delta=text, logprobs=[])
        return events

    def closing(self, usage: Usage) -> list[bytes]:
        """The events after the last token, before the end mark."""
        self._usage = usage
        if not self._message_open:
            return []
        index = self._place()["output_index"]
        return [
            self._event("response.output_text.done", **self._place(), text=self._text, logprobs=[]),
            self._event("response.content_part.done", **self._place(), part=_text_part(self._text)),
            self._event("response.output_item.done", output_index=index, item=self._message("completed")),
        ]

    def error(self, body: dict[str, Any]) -> bytes:
        """An error in the middle of the stream."""
        return self._event("error", code=str(body["error"]["code"]), message=body["error"]["message"], param=None)

    def end_mark(self) -> bytes:
        """The event after which nothing comes."""
        return self._event("response.completed", response=self._response(self._usage))

    def whole(self, usage: Usage, reasoning: str, text: str) -> bytes:
        """The answer to a request that does not stream."""
        self._reasoning, self._text, self._message_open = reasoning, text, bool(text)
        return msgspec.json.encode(self._response(usage))

    def _response(self, usage: Usage) -> dict[str, Any]:
        cut = self._answer.finish_reason == "length"
        output = [self._reasoning_item()] if self._reasoning else []
        if self._message_open:
            output.append(self._message("completed"))
        return {
            **self._identity,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": output,
            "usage": {
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
                "output_tokens": usage.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            },
        }

    def _open_message(self) -> bytes:
        self._message_open = True
        index = self._place()["output_index"]
        item = self._event("response.output_item.added", output_index=index, item=self._message("in_progress"))
        return item + self._event("response.content_part.added", **self._place(), part=_text_part(""))

    def _message(self, status: str) -> dict[str, Any]:
        content = [_text_part(self._text)] if self._text else []
        return {"type": "message", "id": self._message_id, "role": "assistant", "status": status, "content": content}

    def _reasoning_item(self) -> dict[str, Any]:
        content = [{"type": "reasoning_text", "text": self._reasoning}] if self._reasoning else []
        return {"type": "reasoning", "id": self._reasoning_id, "summary": [], "content": content}

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._message_id, "output_index": 1 if self._reasoning else 0, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> bytes:
        data = msgspec.json.encode({"type": kind, "sequence_number": self._sequence_number, **fields})
        self._sequence_number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
