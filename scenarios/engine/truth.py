"""The ground truth: for each request, when each of its tokens was handed to the socket.

Instants are `time.perf_counter()` seconds: the machine's monotonic clock, the same one for every process of
a Linux machine, so a client's own stamps can be compared with them. One JSON line per request, written when
it ends, whatever became of it.
"""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

FINISHED = "finished"  # all of it was sent
ERROR = "error"  # an error was sent, or the engine cut the connection
DISCONNECTED = "disconnected"  # the client went away

LATE_MS = 2.0


@dataclass(slots=True)
class TruthRow:
    """One request as the engine saw it. Absent is null.

    `token_s` has one entry per chunk with generated text (with running usage: per chunk by which the usage
    grows); `tokens` says how many tokens are in it and `due_s` when the model had it, so that the difference
    of the two instants is how late the engine was with it (a stall moves what is due). An end token without text
    counts in `completion_tokens` only.
    """

    request_id: str  # the client's x-request-id, else the engine's own
    api: str
    received_s: float
    streamed: bool = False
    status: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    headers_s: float | None = None
    role_s: float | None = None
    token_s: list[float] = field(default_factory=list)
    due_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    ended_s: float | None = None
    finish_reason: str | None = None
    outcome: str = DISCONNECTED
    fault: str | None = None  # the injected fault that struck, or the latest of them
    error: str | None = None
    late_tokens: int = 0  # entries of `token_s` that were over 2 ms late
    late_max_ms: float = 0.0
    preemptions: int = 0

    def sum_up_lateness(self) -> None:
        """Fill in how late the tokens were."""
        late_s = [token_s - due_s for token_s, due_s in zip(self.token_s, self.due_s, strict=True)]
        self.late_tokens = sum(late * 1000 > LATE_MS for late in late_s)
        self.late_max_ms = max(late_s, default=0.0) * 1000


class TruthFile:
    """Where the rows go; without a path, nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("wb", buffering=0) if path else None

    def write(self, row: TruthRow) -> None:
        """Write one row; it is with the kernel when this returns."""
        if self._file:
            self._file.write(msgspec.json.encode(row) + b"\n")

    def close(self) -> None:
        """No more rows come."""
        if self._file:
            self._file.close()
