"""One HTTP response as it is read: bytes kept, each read's arrival beside them.

The C parser runs in the read callback because it must know where the message ends; it costs a quarter of a
microsecond. Everything else waits until somebody takes the reads. `wake` says that somebody should: the
message or connection ended, or the bytes no longer look like the regular stream, so that an end mark, an
error or a first event is noticed at once while regular tokens disturb nobody.
"""

from httptools import HttpParserError, HttpResponseParser

Read = tuple[bytes, float]  # body bytes of one socket read, their arrival

# How regular events begin (see `on_body`) and end: a JSON object and a blank line.
_HEAD_BYTES = 24
_REGULAR_ENDS = (b"}\n\n", b"}\r\n\r\n")
_IRREGULAR = b"\0"


class Response:
    """State of one response; its methods are called by the parser and the connection's read callback."""

    __slots__ = (
        "_discard",
        "_head",
        "_parser",
        "_piece_ends",
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
        "max_age_s",
        "reads",
        "received_bytes",
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
        self.max_age_s = 0.0
        self.received_bytes = 0
        self.body_bytes = 0
        self._pieces: list[bytes] = []
        self._piece_ends: list[int] = []
        self._stamps: list[float] = []
        self._head = _IRREGULAR
        self._discard = False
        self._parser = HttpResponseParser(self)

    # ------------------------------------------------------------------ by the read callback

    def feed(self, data: bytes, arrived_s: float) -> None:
        """Take what one read returned."""
        self.reads += 1
        self.received_bytes += len(data)
        self.end_s = arrived_s
        known = len(self._pieces)
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            if not self.complete:  # bytes after the message only cost the connection
                self.error = f"the answer is not HTTP/1.1: {error}"
            self.keep_alive = False
            self.closed = self.wake = True
        if self.headers_s is None and self.status:
            self.headers_s = arrived_s
        if len(self._pieces) != known:
            self._piece_ends.append(len(self._pieces))
            self._stamps.append(arrived_s)
            if self.wake_always:
                self.wake = True

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
        if self.headers.get("content-encoding", "identity") != "identity":
            self.wake_always = True

    def on_body(self, piece: bytes) -> None:
        if self._discard:
            return
        self._pieces.append(piece)
        self.body_bytes += len(piece)
        if not (piece.startswith(self._head) and piece.endswith(_REGULAR_ENDS)):
            # Events of one stream begin alike ("data: {"id":"chatcmpl-…"); another beginning is news.
            self._head = piece[:_HEAD_BYTES] if len(piece) >= _HEAD_BYTES else _IRREGULAR
            self.wake = True

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

    def take(self) -> list[Read]:
        """Body bytes read since the last call, one entry per socket read."""
        pieces, ends, stamps = self._pieces, self._piece_ends, self._stamps
        self._pieces, self._piece_ends, self._stamps = [], [], []
        self.wake = False
        start = 0
        reads: list[Read] = []
        for end, stamp in zip(ends, stamps, strict=True):
            reads.append((pieces[start] if end == start + 1 else b"".join(pieces[start:end]), stamp))
            start = end
        return reads

    def discard(self) -> None:
        """What still comes is only read away."""
        self._discard = True
        self.wake = self.wake_always = False
