"""Server-sent events: bytes in, complete events out, by the WHATWG standard on bytes.

Lines end with LF, CR or CR LF, split anywhere between reads; one optional blank after the colon; several
data lines join with LF; comments, `id:` and `retry:` are skipped; one leading BOM is dropped. An event is
complete at its blank line, so the read that brings that line's first end byte is the event's arrival.
Knows nothing of JSON, time or what an event means.
"""

import re
from collections.abc import Iterator

Event = tuple[bytes, bytes]  # (event type or b"", data)

DONE = b"[DONE]"

# The atomic groups keep CR LF from being taken for two line ends.
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class EventDecoder:
    """Keeps the unfinished end of what it was fed. The same bytes give the same events however split."""

    __slots__ = ("_first", "_pieces", "_skip_lf")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._first = True
        self._skip_lf = False

    @property
    def between_events(self) -> bool:
        """Nothing is left over from before that could change what the next bytes mean."""
        return not (self._pieces or self._first or self._skip_lf)

    def feed(self, data: bytes) -> list[Event]:
        """Events completed by `data`, oldest first."""
        if (  # nearly always: exactly one event of one line, nothing left over from before
            data.find(b"\n") == len(data) - 2
            and data.startswith(b"data: ")
            and data.endswith(b"\n\n")
            and b"\r" not in data
            and self.between_events
        ):
            return [(b"", data[6:-2])] if len(data) > 8 else []
        if self._skip_lf and data.startswith(b"\n"):
            data = data[1:]  # second half of a CR LF: its line ended with the read before
            self._skip_lf = False
        has_cr = b"\r" in data
        if not has_cr and b"\n" not in data:  # nothing ends here; joining would make big events quadratic
            if data:
                self._pieces.append(data)
                self._skip_lf = False
            return []
        self._skip_lf = has_cr and data.endswith(b"\r")
        if self._pieces:
            data = b"".join((*self._pieces, data))
            has_cr = has_cr or b"\r" in data
            self._pieces = []
        blocks = _BLANK_LINE.split(data) if has_cr else data.split(b"\n\n")
        if rest := blocks.pop():
            self._pieces = [rest]
        return list(self._events(blocks))

    def finish(self) -> list[Event]:
        """At the end of input an unfinished event is dropped, but for a lone end mark."""
        events = list(self._events([b"".join(self._pieces)]))
        self._pieces = []
        return events if events and events[0][1] == DONE else []

    def _events(self, blocks: list[bytes]) -> Iterator[Event]:
        if self._first and blocks:
            self._first = False
            blocks[0] = blocks[0].removeprefix(_BOM)
        for block in blocks:
            if event := _parse_block(block):
                yield event


def _parse_block(block: bytes) -> Event | None:
    kind = b""
    data: list[bytes] = []
    for line in _LINE_END.split(block):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            kind = value
        elif name == b"error":  # older llama.cpp servers send errors in a field of that name
            kind, data = b"error", [value]
    joined = b"\n".join(data)
    return (kind, joined) if joined else None
