"""The client of Triton's gRPC API: decoupled models over ModelStreamInfer, by the definitions of all clients.

Kernel stamps can't be had under gRPC: see `scenarios.clients.grpc_streams` for what stands in for them.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gevent
import grpc
from gevent.event import Event
from gevent.lock import RLock
from tritonclient.grpc import service_pb2

from analysis.schema import CUT_OFF, EMPTY, FAILURE, STAMP_CALLBACK, SUCCESS
from scenarios.clients import outcome, stamps
from scenarios.clients.access import EngineAccess, bearer
from scenarios.clients.call import LLMRequest, RequestResult, TokenEvent
from scenarios.clients.dial import WireError
from scenarios.clients.grpc_models import described
from scenarios.clients.grpc_streams import Lane, Lanes, Metadata, Stream, fault_of
from scenarios.clients.measured import report_tokens, result_of, without_token_times
from scenarios.clients.route import Route, is_loopback
from scenarios.clients.token_events import StreamDecoder
from scenarios.clients.triton_model import InvalidInputs, TritonModel, input_values
from scenarios.clients.triton_responses import Responses
from scenarios.clients.triton_tensors import encode_request

API = "triton-grpc"
DEFAULT_PORT = 8001
GRACE_S = 0.005


def grpc_route(address: str) -> Route:
    """`grpc://host:8001`, `grpcs://…` or plain `host:8001` → where that leads; the scheme is http or https."""
    url = urlsplit(address if "://" in address else f"grpc://{address}")
    if url.scheme not in ("grpc", "grpcs", "http", "https") or not url.hostname:
        raise ValueError(f"{address!r} is no gRPC address: expected grpc://HOST:{DEFAULT_PORT} or grpcs://HOST:PORT")
    return Route("https" if url.scheme in ("grpcs", "https") else "http", url.hostname, url.port or DEFAULT_PORT)


class TritonGrpcClient:
    """One Triton server and model; see `scenarios.clients.call.Client`."""

    def __init__(self, base_url: str, model: str, access: EngineAccess) -> None:
        route = grpc_route(base_url)
        tls = route.scheme == "https"
        if tls and not access.verify:
            raise ValueError("gRPC can't go without checking certificates: name the server's with engine.ca_file")
        roots = Path(access.ca_file).read_bytes() if access.ca_file else None
        credentials = grpc.ssl_channel_credentials(roots) if tls else None
        # gRPC knows the environment's proxies only: any others mean that it may use those
        proxied = bool(access.proxies) if access.proxies is not None else not is_loopback(route.host)
        self.model = model
        self.timeouts = access.timeouts
        self.cumulative = access.cumulative
        self.secret = access.api_key()
        self.lanes = Lanes(str(route), credentials, keeps=access.reuse_connections, proxied=proxied)
        self._headers = {**access.headers, **bearer(self.secret)}
        self._known: dict[str, TritonModel] = {}
        self._asking = RLock()
        self.numbers = count(1)

    def call(self, request: LLMRequest, on_token: Callable[[TokenEvent], None] | None = None) -> "TritonGrpcCall":
        return TritonGrpcCall(self, request, on_token)

    def metadata(self, extra: Mapping[str, str] | None = None) -> Metadata:
        return [(name.lower(), value) for name, value in {**self._headers, **(extra or {})}.items()]

    def known_model(self, name: str, lane: Lane) -> TritonModel:
        """A model by the server's metadata, asked for once. Raises `WireError`."""
        with self._asking:
            if name not in self._known:
                self._known[name] = self.describe(name, lane)
            return self._known[name]

    def describe(self, name: str, lane: Lane | None = None) -> TritonModel:
        """One model; a server without such a call is taken for vLLM's interface. Raises `WireError`."""
        return described(name, partial(self._unary, connected=lane))

    def is_ready(self) -> bool:
        """Whether the server says that it is ready. Raises `WireError`."""
        ready: bool = self._unary("ServerReady", service_pb2.ServerReadyRequest()).ready
        return ready

    def list_models(self) -> list[str]:
        """Names of the models that are loaded. Raises `WireError`."""
        index = self._unary("RepositoryIndex", service_pb2.RepositoryIndexRequest(ready=True))
        return [each.name for each in index.models]

    def _unary(self, method: str, message: Any, connected: Lane | None = None) -> Any:
        timeout_s, metadata = self.timeouts.connect_s, self.metadata()
        lane = connected or self.lanes.take()
        try:
            lane.connect(timeout_s, metadata)
            return getattr(lane.service, method)(message, timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            raise fault_of(error) from None
        finally:
            if connected is None:
                self.lanes.release(lane, broken=not lane.connected)

    def close(self) -> None:
        self.lanes.close()


class TritonGrpcCall:
    """One request of a `TritonGrpcClient`; see `scenarios.clients.call.Call`."""

    def __init__(
        self, client: TritonGrpcClient, request: LLMRequest, on_token: Callable[[TokenEvent], None] | None
    ) -> None:
        self._client = client
        self._request = request
        self._model = str(request.extra_body.get("model", client.model))
        self._on_token = on_token
        self._id = request.extra_headers.get("X-Request-Id") or f"request-{next(client.numbers)}"
        self._streamed = bool(request.extra_body.get("stream", True))
        decoder = StreamDecoder(API, cumulative=client.cumulative, keep_event_texts=on_token is not None)
        self._wake = Event()
        self._responses = Responses(self._id, decoder, self._wake.set)
        self._stream: Stream | None = None
        self._started_s = time.perf_counter()
        self._end_s: float | None = None
        self._failure: tuple[str, str] | None = None
        self._finished = False
        self._reported = 0
        self._connect_ms = 0.0
        self._reused = False

    def run(self) -> None:
        """Send the request and block until its stream has ended; faults of server and network are results."""
        self._started_s = time.perf_counter()
        try:
            self._converse()
        except WireError as fault:
            self._failure = (fault.error_class, fault.text)
        except InvalidInputs as error:
            self._failure = ("invalid_inputs", str(error))
        finally:
            self._end_s = self._responses.end_s or time.perf_counter()
            stamps.COUNTERS.reads += self._responses.count
            if self._stream is not None:
                if self._responses.complete:
                    self._stream.let_end()
                else:
                    self._stream.cancel()
        self._finished = True

    def _converse(self) -> None:
        client = self._client
        metadata = client.metadata(self._request.extra_headers)
        lane = client.lanes.take()
        try:
            self._connect(lane, metadata)
            model = client.known_model(self._model, lane)
            message = encode_request(model, input_values(model, self._request), self._id)
        except BaseException:
            client.lanes.release(lane, broken=not lane.connected)
            raise
        self._stream = Stream(client.lanes, lane, message, metadata, self._on_response, self._wake.set)
        self._await_end(self._stream)

    def _connect(self, lane: Lane, metadata: Metadata) -> None:
        self._reused = lane.connected
        if not self._reused:
            begin_s = time.perf_counter()
            try:
                lane.connect(self._client.timeouts.connect_s, metadata)
            finally:
                self._connect_ms = (time.perf_counter() - begin_s) * 1000

    def _await_end(self, stream: Stream) -> None:
        timeouts, arrivals_s = self._client.timeouts, self._responses.decoder.arrivals_s
        begin_s = time.perf_counter()
        while True:
            limit_s, error_class, text = timeouts.next_limit(stream.sent_s or begin_s, arrivals_s)
            if not self._wake.wait(None if limit_s is None else max(0.0, limit_s - time.perf_counter())):
                gevent.sleep(GRACE_S)  # a busy process must not take responses that wait for a silent server
            self._wake.clear()
            if self._responses.end_s is not None:
                return
            if stream.end_s is not None:
                self._responses.finish(stream.end_s, stream.fault)
                return
            now_s = time.perf_counter()
            if limit_s is not None and now_s >= limit_s == timeouts.next_limit(stream.sent_s or begin_s, arrivals_s)[0]:
                raise WireError(error_class, text)

    def _on_response(self, arrived_s: float, data: bytes) -> None:
        self._responses.feed(arrived_s, data)
        if self._on_token is not None and self._stream is not None and self._stream.sent_s is not None:
            decoder = self._responses.decoder
            self._reported = report_tokens(decoder, self._stream.sent_s, self._reported, self._on_token)

    def events_before(self, instant_s: float) -> int:
        """How many token events arrived before an instant: for the live view of a long answer."""
        return bisect_left(self._responses.decoder.arrivals_s, instant_s)

    def result(self) -> RequestResult:
        """What is known now."""
        stream, responses = self._stream, self._responses
        result = result_of(
            responses.decoder,
            self._judge(),
            api=API,
            model=self._model,
            started_s=self._started_s,
            sent_s=stream.sent_s if stream is not None else None,
            end_s=self._end_s,
            secret=self._client.secret,
        )
        result.connect_ms = self._connect_ms
        result.connection_reused = self._reused
        result.stamp = STAMP_CALLBACK if responses.count else None
        result.reads = responses.count
        result.response_bytes = responses.bytes
        return result if self._streamed else without_token_times(result)

    def _judge(self) -> outcome.Verdict:
        decoder = self._responses.decoder
        if self._failure is not None:
            return (FAILURE, *self._failure)
        if not self._finished:
            return CUT_OFF, None, None
        if decoder.error_text is not None:
            return FAILURE, "server_error_event", decoder.error_text
        if decoder.malformed is not None:
            return FAILURE, "protocol_error", decoder.malformed
        return (SUCCESS if decoder.arrivals_s else EMPTY), None, None
