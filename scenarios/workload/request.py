"""Turns a planned text into an `LLMRequest`: what all sources of requests have in common."""

from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.clients.call import LLMRequest
from scenarios.spec import WorkloadSpec


def build_request(
    spec: WorkloadSpec,
    *,
    text: str = "",
    messages: Sequence[Mapping[str, Any]] | None = None,
    max_tokens: int,
    length_class: str,
    input_tokens: int | None = None,
    extra_body: Mapping[str, Any] | None = None,
) -> LLMRequest:
    """Request with the scenario's system prompt and body; the row's own body keys win."""
    system = spec.system_prompt
    if messages is not None:
        if system and not any(message.get("role") == "system" for message in messages):
            messages = [_system(system), *messages]
        text = text or "\n\n".join(str(message.get("content") or "") for message in messages)
    elif system:
        messages = [_system(system), {"role": "user", "content": text}]
        text = f"{system}\n\n{text}"
    return LLMRequest(
        prompt=text,
        messages=messages,
        max_tokens=max_tokens,
        ignore_eos=spec.ignore_eos,
        length_class=length_class,
        input_tokens_requested=input_tokens,
        extra_body={**spec.extra_body, **extra_body} if extra_body else spec.extra_body,
    )


def _system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}
