"""Asks an engine how many tokens a request's prompt has: /tokenize, as vLLM has it.

The request is counted as it would be sent, with its chat template. Engines without that, or that count bare
text only, are told apart by their answer.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2

from scenarios.clients.call import LLMRequest
from scenarios.clients.dial import tls_context
from scenarios.clients.openai_client import api_key_from

TEMPLATE_KEYS = ("tools", "chat_template", "chat_template_kwargs")  # of a body: they change the prompt's length


@contextmanager
def prompt_counter(
    base_url: str,
    *,
    api: str,
    model: str,
    api_key_env: str | None = None,
    verify: bool = True,
    ca_file: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 5.0,
) -> Iterator[Callable[[LLMRequest], int | None]]:
    """Gives a function that counts a request's prompt; None from it: this engine does not tell."""
    key = api_key_from(api_key_env)
    authorization = {"Authorization": f"Bearer {key}"} if key else {}
    url = base_url.rstrip("/").removesuffix("/v1") + "/tokenize"
    tls = tls_context(verify=verify, ca_file=ca_file)
    with httpx2.Client(verify=tls, timeout=timeout_s, headers={**authorization, **(headers or {})}) as client:

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
