"""The client of Triton's HTTP API: `/v2/models/NAME/generate_stream` over the stamped transport.

Its events carry text or an error and have no end mark: the end is the end of the body.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import gevent.lock
import httpx2
import msgspec

from scenarios.clients.call import LLMRequest, RequestResult, TokenEvent
from scenarios.clients.dial import WireError
from scenarios.clients.exchange import Exchange, Wire
from scenarios.clients.measured import MeasuredCall, without_token_times
from scenarios.clients.outcome import error_text_of
from scenarios.clients.transport import Head, Sending, StampedTransport, sending
from scenarios.clients.triton_model import InvalidInputs, TritonModel, input_values, read_model

API = "triton-generate"


class TritonGenerateClient:
    """One Triton server and model; see `scenarios.clients.call.Client`."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        wire: Wire,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        proxies: Mapping[str, str] | None = None,
        cumulative: bool = False,
    ) -> None:
        self.model = model
        self.cumulative = cumulative
        self.secret = api_key or ""
        self._transport = StampedTransport(wire, proxies=proxies)
        authorization = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx2.Client(
            base_url=base_url.rstrip("/"),
            transport=self._transport,
            trust_env=False,  # the transport knows the proxies; the library would go round it
            timeout=None,  # the exchange keeps the limits
            headers={"Accept-Encoding": "identity", **authorization, **(headers or {})},
        )
        self._heads: dict[str, Head] = {}
        self._known: dict[str, TritonModel] = {}
        self._asking = gevent.lock.RLock()

    def call(self, request: LLMRequest, on_token: Callable[[TokenEvent], None] | None = None) -> "TritonGenerateCall":
        return TritonGenerateCall(self, request, on_token)

    def send(self, model: str, request: LLMRequest, exchange: Exchange) -> None:
        """Run one exchange; those after the first one with a model reuse its head."""
        content = msgspec.json.encode(input_values(self._known_model(model), request))
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


class TritonGenerateCall(MeasuredCall):
    """One request of a `TritonGenerateClient`."""

    def __init__(
        self, client: TritonGenerateClient, request: LLMRequest, on_token: Callable[[TokenEvent], None] | None
    ) -> None:
        self._client = client
        self._request = request
        self._wants_stream = bool(request.extra_body.get("stream", True))
        self._model_name = str(request.extra_body.get("model", client.model))
        super().__init__(
            API, self._model_name, streamed=True, cumulative=client.cumulative, secret=client.secret, on_token=on_token
        )

    def _send(self, exchange: Exchange) -> None:
        try:
            self._client.send(self._model_name, self._request, exchange)
        except InvalidInputs as error:
            exchange.failure = ("invalid_inputs", str(error))
        except WireError as error:
            exchange.failure = (error.error_class, error.text)

    def result(self) -> RequestResult:
        """What is known now."""
        result = super().result()
        return result if self._wants_stream else without_token_times(result)
