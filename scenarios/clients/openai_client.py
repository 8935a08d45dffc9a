"""The client of OpenAI-compatible engines: chat, completions and responses through the openai SDK.

The SDK builds request and auth and runs on our transport with its retries off: a retry inside the library
would show one slow success where the engine gave two failures. `/v1` is added to a base URL that lacks it.
"""

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import httpx2
import msgspec
import openai

from scenarios.clients.call import LLMRequest, TokenEvent
from scenarios.clients.exchange import Exchange, Wire
from scenarios.clients.measured import MeasuredCall
from scenarios.clients.transport import Head, Sending, StampedTransport, sending

API_PATHS = {"chat": "/chat/completions", "completions": "/completions", "responses": "/responses"}

# The SDK wants a key even where the engine needs none.
_NO_KEY = "none"


def openai_base_url(base_url: str) -> str:
    """`http://gpu:8000` → `http://gpu:8000/v1`."""
    base_url = base_url.rstrip("/")
    return base_url if base_url.endswith("/v1") else base_url + "/v1"


class _Prepared(Exception):
    """The head is built; the request goes no further."""


class OpenAIClient:
    """One engine endpoint under one API; see `scenarios.clients.call.Client`."""

    def __init__(
        self,
        *,
        api: str,
        base_url: str,
        model: str,
        wire: Wire,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        proxies: Mapping[str, str] | None = None,
        cumulative: bool = False,
    ) -> None:
        self.api = api
        self.model = model
        self.cumulative = cumulative
        self.secret = api_key or ""
        self._head: Head | None = None
        self._transport = StampedTransport(wire, proxies=proxies)
        http_client = httpx2.Client(
            transport=self._transport,
            trust_env=False,  # the transport knows the proxies; the library would go round it
            headers={"Accept-Encoding": "identity"},  # compression would hold events back
        )
        self._sdk = openai.OpenAI(
            api_key=api_key or _NO_KEY,
            base_url=openai_base_url(base_url),
            max_retries=0,
            timeout=None,  # the exchange keeps the limits
            default_headers=dict(headers or {}),
            http_client=http_client,
        )

    def call(self, request: LLMRequest, on_token: Callable[[TokenEvent], None] | None = None) -> "OpenAICall":
        return OpenAICall(self, request, on_token)

    def send(self, request: LLMRequest, body: Mapping[str, Any], exchange: Exchange) -> None:
        """Run one exchange. The SDK builds the first request; those after it reuse its head."""
        content = msgspec.json.encode(body)
        if self._head is not None:
            self._transport.again(self._head, request.extra_headers, content, exchange)
            return
        first = Sending(exchange, request.extra_headers, self._keep_head)
        with sending(first), contextlib.suppress(openai.APIError):  # the exchange knows what failed
            self._sdk.post(API_PATHS[self.api], content=content, cast_to=httpx2.Response)

    def prepare(self) -> None:
        """Let the SDK build the head now, which takes it tens of milliseconds; nothing is sent."""

        def keep(head: Head) -> None:
            self._head = head
            raise _Prepared

        # what else is wrong, the first request tells
        with sending(Sending(Exchange(None), {}, keep)), contextlib.suppress(Exception):
            self._sdk.post(API_PATHS[self.api], content=b"{}", cast_to=httpx2.Response)

    def _keep_head(self, head: Head) -> None:
        self._head = head

    def list_models(self) -> list[str]:
        return [model.id for model in self._sdk.models.list().data]

    def close(self) -> None:
        self._transport.close()


class OpenAICall(MeasuredCall):
    """One request of an `OpenAIClient`."""

    def __init__(
        self, client: OpenAIClient, request: LLMRequest, on_token: Callable[[TokenEvent], None] | None
    ) -> None:
        self._client = client
        self._request = request
        self._body = request_body(client.api, client.model, request)
        super().__init__(
            client.api,
            str(self._body.get("model", client.model)),
            streamed=bool(self._body.get("stream")),
            cumulative=client.cumulative,
            secret=client.secret,
            on_token=on_token,
        )

    def _send(self, exchange: Exchange) -> None:
        self._client.send(self._request, self._body, exchange)


def request_body(api: str, model: str, request: LLMRequest) -> dict[str, Any]:
    """The JSON body; what `extra_body` names wins, and None in it removes a field."""
    body: dict[str, Any] = {"model": model, "stream": True}
    messages = request.messages
    if api == "chat":
        body["messages"] = messages if messages is not None else [{"role": "user", "content": request.prompt}]
        body["max_tokens"] = request.max_tokens
    elif api == "completions":
        body["prompt"] = request.prompt
        body["max_tokens"] = request.max_tokens
    else:
        body["input"] = messages if messages is not None else request.prompt
        body["max_output_tokens"] = request.max_tokens
    if api != "responses":
        body["stream_options"] = {"include_usage": True}
    if request.ignore_eos:
        body["ignore_eos"] = True
    body.update(request.extra_body)
    if not body.get("stream"):
        body.pop("stream_options", None)
    return {name: value for name, value in body.items() if value is not None}


def api_key_from(variable: str | None) -> str | None:
    """The key in the named environment variable, else in OPENAI_API_KEY; None where none is set."""
    if variable and variable not in os.environ:
        raise ValueError(f"environment variable {variable} is not set; it was named as the one with the API key")
    return os.environ.get(variable or "OPENAI_API_KEY") or None
