"""Asks an engine how many tokens a request's prompt has: /tokenize, as vLLM has it.

The request is counted as it would be sent, with its chat template. Engines without that, or that count bare
text only, are told apart by their answer.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from scenarios.clients.access import DEFAULT_ACCESS, OPENAI_KEY, EngineAccess, bearer
from scenarios.clients.call import LLMRequest
from scenarios.clients.transport import StampedTransport, http_client

TEMPLATE_KEYS = ("tools", "chat_template", "chat_template_kwargs")  # of a body: they change the prompt's length


@contextmanager
def prompt_counter(
    base_url: str, *, api: str, model: str, access: EngineAccess = DEFAULT_ACCESS
) -> Iterator[Callable[[LLMRequest], int | None]]:
    """Gives a function that counts a request's prompt; None from it: this engine does not tell."""
    headers = {**bearer(access.api_key(OPENAI_KEY)), **access.headers}
    url = base_url.rstrip("/").removesuffix("/v1") + "/tokenize"
    with http_client(StampedTransport(access), headers=headers) as client:

        def count(request: LLMRequest) -> int | None:
            try:
                response = client.post(url, json=_body(api, model, request))
                answer = response.json() if response.is_success else None
            except (httpx2.HTTPError, ValueError):
                return None
            tokens = answer.get("count") if isinstance(answer, dict) else None
            return tokens if isinstance(tokens, int) and tokens > 0 else None

        yield count


def _body(api: str, model: str, request: LLMRequest) -> dict[str, Any]:
    if api == "completions":
        return {"model": model, "prompt": request.prompt}
    messages = request.messages or [{"role": "user", "content": request.prompt}]
    template = {key: request.extra_body[key] for key in TEMPLATE_KEYS if key in request.extra_body}
    return {"model": model, "messages": messages, **template}
