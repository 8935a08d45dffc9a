"""The responses of one gRPC stream: which are our request's, what they say, and whether they ended properly.

Responses are taken by request id. The end is the response with `triton_final_response`, else, where a server
has no such mark, the end of its stream with status OK.
"""

from collections.abc import Callable

from scenarios.clients.dial import WireError
from scenarios.clients.token_events import StreamDecoder
from scenarios.clients.triton_tensors import MalformedResponse, Response, decode_response


class Responses:
    """Feed it arrivals in order; `on_progress` is told of the first token and of the end."""

    def __init__(self, request_id: str, decoder: StreamDecoder, on_progress: Callable[[], None]) -> None:
        self.decoder = decoder
        self.count = 0
        self.bytes = 0
        self.end_s: float | None = None
        self.complete = False  # a proper end was seen
        self._id = request_id
        self._on_progress = on_progress
        self._says_final: bool | None = None  # whether the server marks its last response; None: not known yet
        self._foreign: dict[str, list[tuple[float, Response]]] | None = {}  # by other ids, until ours is seen

    def feed(self, arrived_s: float, data: bytes) -> None:
        """Take one response; those after the end are passed over."""
        self.count += 1
        self.bytes += len(data)
        if self.end_s is not None:
            return
        try:
            response = decode_response(data)
        except MalformedResponse as error:
            self.decoder.malformed = str(error)
            self._end(arrived_s)
            return
        if response.request_id in ("", self._id):
            self._foreign = None  # the server echoes ids: other ones are other requests'
            self._take(arrived_s, response)
        elif self._foreign is not None:
            self._foreign.setdefault(response.request_id, []).append((arrived_s, response))
            if response.final and len(self._foreign) == 1:
                self._adopt()

    def finish(self, end_s: float, fault: WireError | None) -> None:
        """The stream has ended, with `fault` or with status OK. Raises `WireError` unless that was a proper end."""
        self._adopt()
        if self.end_s is not None:
            return
        self.end_s = end_s
        if fault is not None:
            raise fault
        if self._says_final is False:
            raise WireError("truncated_stream", "the stream ended without a response marked as the last one")
        if not self.decoder.events:
            raise WireError("no_events", "the stream ended without any response")
        self.complete = True

    def _adopt(self) -> None:
        """A server that never echoes ids: where one id is all there is in a stream of one request, it is ours."""
        if self._foreign and len(self._foreign) == 1:
            (responses,) = self._foreign.values()
            self._foreign = None
            for arrived_s, response in responses:
                self._take(arrived_s, response)

    def _take(self, arrived_s: float, response: Response) -> None:
        if response.final is not None:
            self._says_final = response.final
        self.decoder.take(response.chunk, arrived_s)
        if len(self.decoder.arrivals_s) == 1:
            self._on_progress()  # from here on the limit between tokens counts
        if response.final or self.decoder.ended:
            self.complete = True
            self._end(arrived_s)

    def _end(self, arrived_s: float) -> None:
        self.end_s = arrived_s
        self._on_progress()
