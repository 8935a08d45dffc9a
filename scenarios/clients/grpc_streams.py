"""gRPC on gevent's event loop: the channels of one client, and streams of one request on them.

gRPC's threads are greenlets here, so importing this switches gRPC over for the whole process: import it only
in the process that sends, never before a fork. A response is stamped in its deserializer, the first Python
code that sees it; its bytes are parsed later. One stream carries one request, so responses of two requests
can't mix, and a channel has a connection of its own with so few streams that no server's limit is met.
"""

import time
from collections.abc import Callable, Sequence

import gevent
import grpc
import grpc.experimental.gevent
from gevent import monkey
from gevent.lock import RLock
from tritonclient.grpc import service_pb2, service_pb2_grpc

from scenarios.clients.dial import WireError

if not monkey.is_module_patched("threading"):
    raise ImportError("gRPC is measured on gevent's event loop: call gevent.monkey.patch_all() first, as Locust does")
grpc.experimental.gevent.init_gevent()

SERVICE = "/inference.GRPCInferenceService/"

# Servers allow 100 streams per connection as a rule. Far fewer, because the events of a channel wait for each other:
# each one's way through gevent's thread pool takes about 0.1 ms.
STREAMS_PER_CHANNEL = 8
# A stream that does not end by itself after its last response is cancelled; ending it at once would reset it.
LINGER_S = 0.2

_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # else all channels of the process share one connection
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]

Metadata = Sequence[tuple[str, str]]


def fault_of(error: grpc.RpcError) -> WireError:
    """`grpc_<status>`, with a hint where the status alone does not say what to do."""
    status = error.code()
    text = error.details() or str(status)
    if hint := _HINTS.get(status):
        text = f"{text} (hint: {hint})"
    return WireError(f"grpc_{status.name.lower()}", text)


_HINTS = {
    grpc.StatusCode.UNIMPLEMENTED: "a model that is decoupled needs streaming (ModelStreamInfer); "
    "does this port speak Triton's gRPC, and does the server stream?",
    grpc.StatusCode.UNAUTHENTICATED: "name the variable that holds the key as engine.api_key_env",
}


class Lane:
    """One channel: a connection and the streams on it."""

    def __init__(
        self, target: str, credentials: grpc.ChannelCredentials | None, options: list[tuple[str, int]]
    ) -> None:
        self.streams = 0
        self.connected = False
        self.broken = False
        self._connecting = RLock()
        self._fault: WireError | None = None
        if credentials is None:
            self.channel = grpc.insecure_channel(target, options)
        else:
            self.channel = grpc.secure_channel(target, credentials, options)
        self.service = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.stream_infer = self.channel.stream_stream(
            SERVICE + "ModelStreamInfer",
            request_serializer=Stream.hand_over,
            response_deserializer=_stamped,
        )

    def connect(self, timeout_s: float | None, metadata: Metadata) -> None:
        """Make the connection, if it is not there: one small call that any server answers. Raises `WireError`."""
        with self._connecting:
            if self._fault is None and not self.connected:
                self._fault = self._try(timeout_s, metadata)
            if self._fault is not None:
                raise self._fault  # to all who waited for this connection
            self.connected = True

    def _try(self, timeout_s: float | None, metadata: Metadata) -> WireError | None:
        try:
            self.service.ServerLive(service_pb2.ServerLiveRequest(), timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                return WireError("connect", error.details() or "no connection")
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                return WireError("timeout_connect", f"no connection within {timeout_s} s")
        return None  # any other refusal came from a server: the connection stands


class Lanes:
    """The channels of one client; as many as the streams under way need."""

    def __init__(self, target: str, credentials: grpc.ChannelCredentials | None, *, keeps: bool, proxied: bool) -> None:
        self._target = target
        self._credentials = credentials
        self._keeps = keeps
        self._options = [*_OPTIONS, ("grpc.enable_http_proxy", int(proxied))]
        self._lanes: list[Lane] = []

    def take(self) -> Lane:
        """A channel with room for a stream; give it back with `release`."""
        usable = [lane for lane in self._lanes if not lane.broken and lane.streams < STREAMS_PER_CHANNEL]
        if self._keeps and usable:
            lane = usable[0]
        else:
            lane = Lane(self._target, self._credentials, self._options)
            self._lanes.append(lane)
        lane.streams += 1
        return lane

    def release(self, lane: Lane, *, broken: bool = False) -> None:
        """A broken channel takes no further streams, so that the next one does not wait for its back-off."""
        lane.streams -= 1
        lane.broken = lane.broken or broken
        if not lane.streams and (lane.broken or not self._keeps) and lane in self._lanes:
            self._lanes.remove(lane)
            lane.channel.close()

    def close(self) -> None:
        """Close all channels; what is under way on them ends as cancelled."""
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            lane.channel.close()


class Stream:
    """One request and its responses. `on_response` gets each one's arrival and bytes, in a greenlet of the stream."""

    def __init__(
        self,
        lanes: Lanes,
        lane: Lane,
        message: bytes,
        metadata: Metadata,
        on_response: Callable[[float, bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self.sent_s: float | None = None
        self.end_s: float | None = None
        self.fault: WireError | None = None
        self._lanes = lanes
        self._lane = lane
        self._message = message
        self._on_response = on_response
        self._on_end = on_end
        self._lingering: gevent.Greenlet | None = None
        self._call = lane.stream_infer(iter((self,)), metadata=metadata)
        gevent.spawn(self._receive)

    def hand_over(self) -> bytes:
        """The request's bytes; gRPC asks for them right before it writes them."""
        self.sent_s = time.perf_counter()
        return self._message

    def _receive(self) -> None:
        try:
            for arrived_s, data in self._call:
                self._on_response(arrived_s, data)
        except grpc.RpcError as error:
            self.fault = fault_of(error)
        finally:
            self.end_s = time.perf_counter()
            if self._lingering is not None:
                self._lingering.kill(block=False)
            broken = self.fault is not None and self.fault.error_class == "grpc_unavailable"
            self._lanes.release(self._lane, broken=broken)
            self._on_end()

    def let_end(self) -> None:
        """Nothing more is wanted: the server has a moment to end the stream."""
        if self.end_s is None and self._lingering is None:
            self._lingering = gevent.spawn_later(LINGER_S, self._call.cancel)

    def cancel(self) -> None:
        """End it now; the server learns of it."""
        self._call.cancel()


def _stamped(data: bytes) -> tuple[float, bytes]:
    return time.perf_counter(), data
