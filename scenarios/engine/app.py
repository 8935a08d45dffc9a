"""The engine's HTTP API: routes, checks and the life of one request, as an ASGI application.

Token chunks go straight to the connection's transport (see `server`), everything else through ASGI.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any

import msgspec

from scenarios.engine import errors, metrics, requests, tokenizer
from scenarios.engine.answering import Answering
from scenarios.engine.errors import RequestError
from scenarios.engine.runtime import Runtime
from scenarios.engine.scheduler import Scheduler
from scenarios.engine.settings import Settings
from scenarios.engine.truth import ERROR, TruthFile, TruthRow

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = [(b"content-type", b"application/json")]

GENERATION_PATHS = {
    "/v1/chat/completions": ("chat", requests.read_chat),
    "/v1/completions": ("completions", requests.read_completions),
    "/v1/responses": ("responses", requests.read_responses),
}


class EngineApp:
    """The application. `run()` has to run beside it: it is the model."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._started_unix_s = int(time.time())
        scheduler = Scheduler(settings.profile, settings.prefix_caching)
        self._metrics = metrics.Metrics(settings.model, scheduler)
        self._runtime = Runtime(scheduler, settings.speed, self._metrics)
        self._truth = TruthFile(settings.truth)
        self._requests = 0

    async def run(self) -> None:
        """Run the model, for ever."""
        await self._runtime.run()

    def close(self) -> None:
        """All requests have ended."""
        self._truth.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request."""
        received_s = perf_counter()
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path in GENERATION_PATHS:
            await self._generate(scope, receive, send, received_s)
            return
        try:
            status, content_type, body = await self._look_up(scope, path, receive)
        except RequestError as error:
            status, content_type, body = error.status, b"application/json", msgspec.json.encode(error.body)
        await respond(send, status, body, [(b"content-type", content_type)])

    async def _look_up(self, scope: Scope, path: str, receive: Receive) -> tuple[int, bytes, bytes]:
        """The small routes: status, content type and body."""
        method = scope["method"]
        if (method, path) == ("GET", "/health"):
            return 200, b"text/plain", b""
        if (method, path) == ("GET", "/metrics"):
            return 200, metrics.CONTENT_TYPE, self._metrics.exposition()
        if (method, path) == ("GET", "/v1/models"):
            self._check_key(scope)
            return 200, b"application/json", msgspec.json.encode({"object": "list", "data": [self._model_card()]})
        if (method, path) == ("POST", "/tokenize"):
            return 200, b"application/json", msgspec.json.encode(self._tokenize(await read_body(receive)))
        raise RequestError(404, "Not Found")

    def _model_card(self) -> dict[str, Any]:
        model = self._settings.model
        return {
            "id": model,
            "object": "model",
            "created": self._started_unix_s,
            "owned_by": "tokenswarm",
            "root": model,
            "parent": None,
            "max_model_len": self._settings.profile.max_model_len,
        }

    def _tokenize(self, body: bytes) -> dict[str, Any]:
        tokens, model, spelled = requests.read_tokenize(body)
        self._check_model(model)
        return {
            "count": len(tokens),
            "max_model_len": self._settings.profile.max_model_len,
            "tokens": tokenizer.token_ids(tokens),
            "token_strs": tokens if spelled else None,
        }

    async def _generate(self, scope: Scope, receive: Receive, send: Send, received_s: float) -> None:
        """A request for text: whatever becomes of it, it leaves one row of truth."""
        self._requests += 1
        api, read = GENERATION_PATHS[scope["path"]]
        number = f"{self._requests:016x}"
        row = TruthRow(header(scope, b"x-request-id") or number, api, received_s)
        try:
            if scope["method"] != "POST":
                raise RequestError(405, "Method Not Allowed")
            self._check_key(scope)
            request = read(await read_body(receive))
            self._check_model(request.model)
            generator = random.Random(f"{self._settings.seed}/{self._requests}")
            answering = Answering(request, row, number, generator, self._settings, self._runtime)
            await answering.run(scope["extensions"]["transport"], receive, send)
        except RequestError as error:
            row.status, row.outcome, row.error = error.status, ERROR, str(error)
            await respond(send, error.status, msgspec.json.encode(error.body), JSON + error.headers)
        except asyncio.CancelledError:
            row.outcome, row.error = ERROR, "the engine was stopped"
            raise
        finally:
            row.ended_s = row.ended_s or perf_counter()
            self._truth.write(row)
            if row.prompt_tokens is not None:
                self._metrics.count_request(row)

    def _check_key(self, scope: Scope) -> None:
        key = self._settings.api_key
        if key is not None and header(scope, b"authorization") != f"Bearer {key}":
            raise errors.unauthorized()

    def _check_model(self, model: str | None) -> None:
        if model is not None and model != self._settings.model:
            raise errors.unknown_model(model, self._settings.model)


def header(scope: Scope, name: bytes) -> str | None:
    """A request header by its lower-case name."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value).decode("latin-1")
    return None


async def read_body(receive: Receive) -> bytes:
    """The whole body of a request."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(400, "The client went away before its request was complete.")
        body += bytes(message.get("body", b""))
        if not message.get("more_body", False):
            return body


async def respond(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """Send a whole response."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})
