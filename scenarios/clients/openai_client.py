"""The client of OpenAI-compatible engines: chat, completions and responses through the openai SDK.

The SDK builds request and auth and runs on our transport with its retries off: a retry inside the library
would show one slow success where the engine gave two failures. `/v1` is added to a base URL that lacks it.
"""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import httpx2
import msgspec
import openai

from scenarios.clients.access import OPENAI_KEY, EngineAccess
from scenarios.clients.call import LLMRequest, TokenEvent
from scenarios.clients.exchange import Exchange
from scenarios.clients.measured import MeasuredCall
from scenarios.clients.transport import Head, Sending, StampedTransport, http_client, sending

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

    def __init__(self, api: str, base_url: str, model: str, access: EngineAccess) -> None:
        self._api = api
        self._model = model
        self._cumulative = access.cumulative
        self._secret = access.api_key(OPENAI_KEY)
        self._head: Head | None = None
        self._transport = StampedTransport(access)
        self._sdk = openai.OpenAI(
            api_key=self._secret or _NO_KEY,
            base_url=openai_base_url(base_url),
            max_retries=0,
            timeout=None,  # the exchange keeps the limits
            default_headers=dict(access.headers),
            http_client=http_client(self._transport),
        )

    def call(self, request: LLMRequest, on_token: Callable[[TokenEvent], None] | None = None) -> MeasuredCall:
        body = request_body(self._api, self._model, request)
        return MeasuredCall(
            self._api,
            str(body.get("model", self._model)),
            partial(self._send, request, body),
            streamed=bool(body.get("stream")),
            cumulative=self._cumulative,
            secret=self._secret,
            on_token=on_token,
        )

    def _send(self, request: LLMRequest, body: Mapping[str, Any], exchange: Exchange) -> None:
        """Run one exchange. The SDK builds the first request; those after it reuse its head."""
        content = msgspec.json.encode(body)
        if self._head is not None:
            self._transport.again(self._head, request.extra_headers, content, exchange)
            return
        first = Sending(exchange, request.extra_headers, self._keep_head)
        with sending(first), contextlib.suppress(openai.APIError):  # the exchange knows what failed
            self._sdk.post(API_PATHS[self._api], content=content, cast_to=httpx2.Response)

    def prepare(self) -> None:
        """Let the SDK build the head now, which takes it tens of milliseconds; nothing is sent."""

        def keep(head: Head) -> None:
            self._head = head
            raise _Prepared

        # what else is wrong, the first request tells
        with sending(Sending(Exchange(None), {}, keep)), contextlib.suppress(Exception):
            self._sdk.post(API_PATHS[self._api], content=b"{}", cast_to=httpx2.Response)

    def _keep_head(self, head: Head) -> None:
        self._head = head

    def list_models(self) -> list[str]:
        return [model.id for model in self._sdk.models.list().data]

    def close(self) -> None:
        self._transport.close()


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
