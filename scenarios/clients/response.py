"""One HTTP response as it is read: bytes kept, each read's arrival beside them.

The C parser runs in the read callback because it must know where the message ends; it costs a quarter of a
microsecond. Everything else waits until somebody takes the reads. `wake` says that somebody should: the
message or connection ended, or the bytes no longer look like the regular stream, so that an end mark, an
error or a first event is noticed at once while regular tokens disturb nobody.
"""

from bisect import bisect_left

from httptools import HttpParserError, HttpResponseParser

# How regular events begin (see `on_body`) and end: a JSON object and a blank line.
_HEAD_BYTES = 24
_REGULAR_ENDS = (b"}\n\n", b"}\r\n\r\n")
_IRREGULAR = b"\0"


class Response:
    """State of one response; its methods are called by the parser and the connection's read callback."""

    __slots__ = (
        "_discarding",
        "_head",
        "_parser",
        "_pieces",
        "_stamps",
        "body_bytes",
        "closed",
        "complete",
        "end_s",
        "error",
        "headers",
        "headers_s",
        "keep_alive",
        "max_lag_s",
        "parse",
        "reads",
        "status",
        "unstamped_reads",
        "wake",
        "wake_always",
    )

    def __init__(self, *, wake_always: bool = False) -> None:
        self.wake_always = wake_always
        self.wake = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.headers_s: float | None = None
        self.complete = False  # the whole message has been read
        self.closed = False  # the connection ended, cleanly or not
        self.error: str | None = None  # why it ended, or what was wrong with the bytes
        self.keep_alive = False
        self.end_s = 0.0  # arrival of the last read
        self.reads = 0
        self.unstamped_reads = 0
        self.max_lag_s = 0.0
        self.body_bytes = 0
        self._pieces: list[bytes] = []
        self._stamps: list[float] = []
        self._head = _IRREGULAR
        self._discarding = False
        self._parser = HttpResponseParser(self)
        self.parse = self._parser.feed_data

    # ------------------------------------------------------------------ by the read callback

    def not_http(self, error: HttpParserError) -> None:
        """The parser gave up."""
        if not self.complete:  # bytes after the message only cost the connection
            self.error = f"the answer is not HTTP/1.1: {error}"
        self.keep_alive = False
        self.closed = self.wake = True

    def end_of_input(self, now_s: float, error: str | None) -> None:
        """The connection ended. That is a complete message only where nothing else delimits the body."""
        self.end_s = now_s
        self.error = error
        self.closed = self.wake = True
        self.keep_alive = False
        if error is None and self.status and not self.delimited:
            self.complete = True

    # ------------------------------------------------------------------ by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an interim answer: the real head follows
            self.headers.clear()
            return
        self.status = status
        self.headers_s = self.end_s
        if self.headers.get("content-encoding", "identity") != "identity":
            self.wake_always = True

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._stamps.append(self.end_s)
        if not (piece.startswith(self._head) and piece.endswith(_REGULAR_ENDS)):
            self.wake = not self._discarding
            # Events of one stream begin alike ("data: {"id":"chatcmpl-…"); another beginning is news.
            regular = len(piece) >= _HEAD_BYTES and not self.wake_always
            self._head = piece[:_HEAD_BYTES] if regular else _IRREGULAR

    def on_message_complete(self) -> None:
        if not self.status:  # an interim answer
            return
        self.complete = self.wake = True
        self.keep_alive = self._parser.should_keep_alive()

    # ------------------------------------------------------------------ by the request

    @property
    def delimited(self) -> bool:
        """The head says where the body ends; if not, the end of the connection does."""
        return "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def pieces_before(self, instant_s: float) -> int:
        """Pieces of body that were read before an instant and not taken yet: an event each, as a rule."""
        return bisect_left(self._stamps, instant_s)

    def take(self) -> tuple[list[bytes], list[float]]:
        """Pieces of the body read since the last call, and the arrival of each; those of one read share it."""
        pieces, stamps = self._pieces, self._stamps
        self._pieces, self._stamps = [], []
        self.wake = False
        self.body_bytes += sum(map(len, pieces))
        return pieces, stamps

    def discard(self) -> None:
        """Nobody wants the pieces that still come: only the end of the message or connection wakes."""
        self._discarding = True
        self.wake = False
