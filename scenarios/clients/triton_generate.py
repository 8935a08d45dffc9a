"""The client of Triton's HTTP API: `/v2/models/NAME/generate_stream` over the stamped transport.

Its events carry text or an error and have no end mark: the end is the end of the body.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import gevent.lock
import httpx2
import msgspec

from scenarios.clients.access import EngineAccess, bearer
from scenarios.clients.call import LLMRequest, TokenEvent
from scenarios.clients.dial import WireError
from scenarios.clients.exchange import Exchange
from scenarios.clients.measured import MeasuredCall
from scenarios.clients.outcome import error_text_of
from scenarios.clients.transport import Head, Sending, StampedTransport, http_client, sending
from scenarios.clients.triton_model import InvalidInputs, TritonModel, input_values, read_model

API = "triton-generate"


class TritonGenerateClient:
    """One Triton server and model; see `scenarios.clients.call.Client`."""

    def __init__(self, base_url: str, model: str, access: EngineAccess) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"{base_url!r} is no HTTP address: expected http://HOST:8000")
        self._model = model
        self._cumulative = access.cumulative
        self._secret = access.api_key()
        self._transport = StampedTransport(access)
        self._http = http_client(self._transport, base_url.rstrip("/"), {**bearer(self._secret), **access.headers})
        self._heads: dict[str, Head] = {}
        self._known: dict[str, TritonModel] = {}
        self._asking = gevent.lock.RLock()

    def call(self, request: LLMRequest, on_token: Callable[[TokenEvent], None] | None = None) -> MeasuredCall:
        model = str(request.extra_body.get("model", self._model))
        return MeasuredCall(
            API,
            model,
            partial(self._send, model, request),
            streamed=True,
            in_one_piece=not request.extra_body.get("stream", True),
            cumulative=self._cumulative,
            secret=self._secret,
            on_token=on_token,
        )

    def _send(self, model: str, request: LLMRequest, exchange: Exchange) -> None:
        """Run one exchange; those after the first one with a model reuse its head."""
        try:
            content = msgspec.json.encode(input_values(self._known_model(model), request))
        except InvalidInputs as error:
            exchange.failure = ("invalid_inputs", str(error))
            return
        except WireError as error:
            exchange.failure = (error.error_class, error.text)
            return
        if (head := self._heads.get(model)) is not None:
            self._transport.again(head, request.extra_headers, content, exchange)
            return
        first = Sending(exchange, request.extra_headers, lambda head: self._heads.update({model: head}))
        with sending(first), contextlib.suppress(httpx2.HTTPError):  # the exchange knows what failed
            self._http.post(f"/v2/models/{model}/generate_stream", content=content)

    def _known_model(self, name: str) -> TritonModel:
        with self._asking:
            if name not in self._known:
                self._known[name] = self.describe(name)
            return self._known[name]

    # ------------------------------------------------------------------ what the server says of itself

    def is_ready(self) -> bool:
        """Whether the server says that it is ready. Raises `WireError`."""
        try:
            self._ask("GET", "/v2/health/ready")
        except WireError as error:
            if error.error_class in ("http_400", "http_503"):
                return False
            raise
        return True

    def list_models(self) -> list[str]:
        """Names of the models that are loaded. Raises `WireError`."""
        index = self._ask("POST", "/v2/repository/index") or []
        return [each["name"] for each in index if each.get("state", "READY") == "READY"]

    def describe(self, name: str) -> TritonModel:
        """One model. Raises `WireError`."""
        metadata = self._ask("GET", f"/v2/models/{name}")
        try:
            config = self._ask("GET", f"/v2/models/{name}/config")
        except WireError:
            config = None  # not part of KServe's own protocol
        return read_model(metadata, config)

    def _ask(self, method: str, path: str) -> Any:
        exchange = Exchange(None)
        with sending(Sending(exchange)):
            try:
                response = self._http.request(method, path)
            except httpx2.HTTPError as error:
                raise WireError(*(exchange.failure or ("disconnected", str(error)))) from None
        if not response.is_success:
            text = error_text_of(response.content) or f"HTTP {response.status_code}"
            raise WireError(f"http_{response.status_code}", text)
        try:
            return msgspec.json.decode(response.content) if response.content else None
        except msgspec.DecodeError:
            raise WireError("protocol_error", f"{path}: the answer is not JSON; is this a Triton?") from None

    def close(self) -> None:
        self._transport.close()
