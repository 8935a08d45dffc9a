"""The recorder of one process that sends requests: every request started leaves exactly one record.

It keeps what is in flight, turns a finished `RequestResult` into a row of requests.csv and its packed
token rows, and hands both to a sink. What becomes of them (shipping, files) is not its business.
"""

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis import schema
from scenarios.clients.call import LLMRequest, RequestResult
from scenarios.recording.clock import Clock, now_s

ERROR_TEXT_LIMIT = 500

# Columns that only the master knows: it assigns them from the time of sending.
MASTER_COLUMNS = ("level", "phase")
ROW_COLUMNS = tuple(name for name in schema.names(schema.REQUESTS_FILE) if name not in MASTER_COLUMNS)
_RESULT_COLUMNS = tuple(name for name in ROW_COLUMNS if name in RequestResult.__dataclass_fields__)
_CHANNEL_CODES = {channel: code for code, channel in enumerate(schema.CHANNELS)}
_REQUEST_ID = ROW_COLUMNS.index("request_id")
UNKNOWN_COUNT = -1


def placed_unix_s(row: Mapping[str, Any]) -> float:
    """The instant that decides to which level and phase a request belongs: when it was due, else sent."""
    sent_unix_s: float = row["sent_unix_s"]
    return sent_unix_s if row["planned_ms"] is None else sent_unix_s + row["planned_ms"] / 1000


@dataclass(frozen=True, slots=True)
class Record:
    """One request: its row in the order of ROW_COLUMNS and its token rows as packed arrays.

    arrivals: float64, ms since sent; counts: int32, UNKNOWN_COUNT for absent; channels: one byte each,
    the index in `schema.CHANNELS`.
    """

    row: list[Any]
    arrivals: bytes
    counts: bytes
    channels: bytes

    @property
    def request_id(self) -> str:
        """Which request it is."""
        found = self.row[_REQUEST_ID]
        assert isinstance(found, str)
        return found


class Recorder:
    """Requests in flight and counts of one process; hands each finished request to `sink`."""

    def __init__(
        self,
        worker: int,
        clock: Clock,
        sink: Callable[[Record], None],
        on_started: Callable[[int], None] = lambda _count: None,
    ) -> None:
        self._worker = worker
        self._clock = clock
        self._sink = sink
        self._on_started = on_started
        self._in_flight: dict[str, float] = {}  # request id -> started, in the order of starting
        self._last_end_s: float | None = None
        self.started_count = 0
        self.recorded_count = 0

    @property
    def in_flight_count(self) -> int:
        """Requests started and not recorded yet."""
        return len(self._in_flight)

    def oldest_started_unix_s(self) -> float | None:
        """When the oldest request in flight was due, or else started, on the master's clock."""
        for started_s in self._in_flight.values():
            return self._clock.unix_s(started_s)
        return None

    def last_end_unix_s(self) -> float | None:
        """When the last request ended, on the master's clock."""
        return None if self._last_end_s is None else self._clock.unix_s(self._last_end_s)

    def started(self, planned_s: float | None = None) -> str:
        """Count a request as started and give it its id. Call it right before the client does anything."""
        self.started_count += 1
        self._on_started(self.started_count)
        request_id = f"{self._worker}-{self.started_count}"
        self._in_flight[request_id] = now_s() if planned_s is None else planned_s
        return request_id

    def finished(self, request_id: str, user: int, request: LLMRequest, result: RequestResult, host: str = "") -> None:
        """Record what became of a started request."""
        del self._in_flight[request_id]
        self._last_end_s = max(self._last_end_s or 0.0, result.sent_s + result.e2e_ms / 1000)
        self._sink(self._record(request_id, user, request, result, host))
        self.recorded_count += 1

    def _record(self, request_id: str, user: int, request: LLMRequest, result: RequestResult, host: str) -> Record:
        values = {name: getattr(result, name) for name in _RESULT_COLUMNS}
        values.update(
            request_id=request_id,
            worker=self._worker,
            user=user,
            host=host,
            length_class=request.length_class,
            input_tokens_requested=request.input_tokens_requested,
            output_tokens_requested=request.max_tokens,
            sent_unix_s=self._clock.unix_s(result.sent_s),
            planned_ms=None if request.planned_s is None else (request.planned_s - result.sent_s) * 1000,
            started_ms=(result.started_s - result.sent_s) * 1000,
            token_events=len(result.token_arrivals_ms),
        )
        if result.error_text:
            values["error_text"] = result.error_text[:ERROR_TEXT_LIMIT]
        counts = [UNKNOWN_COUNT if count is None else count for count in result.token_counts]
        return Record(
            row=[values[name] for name in ROW_COLUMNS],
            arrivals=array("d", result.token_arrivals_ms).tobytes(),
            counts=array("i", counts).tobytes(),
            channels=bytes(map(_CHANNEL_CODES.__getitem__, result.token_channels)),
        )
