"""Worker side of shipping: records go to a local spool file and, in numbered batches, to the master.

A batch stays in the spool until the master has acknowledged it, and is sent again when that takes too
long. Memory is bounded: it holds the records since the last batch, and the channel at most a window of
batches under way. The read path waits for none of it: batches are made in a greenlet of their own.
"""

import io
import logging
import math
import os
import struct
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gevent
import msgspec

from scenarios.recording.clock import now_s
from scenarios.recording.files import write_whole
from scenarios.recording.recorder import Record

logger = logging.getLogger(__name__)

BATCH = "tokenswarm_batch"
ACK = "tokenswarm_ack"

BATCH_INTERVAL_S = 0.5
BATCH_BYTES = 256 * 1024  # about; one record is never split
RECORD_BYTES = 400  # about, of a row without its tokens
RESEND_AFTER_S = 5.0
WINDOW_BATCHES = 32  # unacknowledged batches under way at a time; the rest waits in the spool

# first in the spool: magic, worker, and how many requests the worker has started: what it loses can be named
SPOOL_HEADER = struct.Struct("<4sIQ")
SPOOL_HEADER_MAGIC = b"TSS1"
# in front of each batch in the spool: magic, number, length and CRC-32 of the payload
SPOOL_FRAME = struct.Struct("<4sIII")
SPOOL_MAGIC = b"TSB1"

Send = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class Batch:
    """Where an unacknowledged batch lies; in memory only when the spool could not be written."""

    offset: int
    length: int
    payload: bytes | None = None
    sent_s: float = -math.inf


class Outbox:
    """Numbered batches of one worker in one run."""

    def __init__(self, run_id: str, worker: int, send: Send, spool_dir: Path | None = None) -> None:
        self._run_id = run_id
        self._worker = worker
        self._send = send
        self._pending: list[Record] = []
        self._unacknowledged: dict[int, Batch] = {}  # by number, in order
        self.batch_count = 0
        folder = spool_dir or Path(tempfile.gettempdir())
        self.spool_path = folder / f"tokenswarm-{run_id}-{worker}.spool"
        self._spool = io.FileIO(os.open(self.spool_path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "r+")
        self._started = 0
        self.on_started(0)

    def on_started(self, count: int) -> None:
        """Note on disk how many requests have been started."""
        self._started = count
        if not self._spool.closed:
            with suppress(OSError):  # a full disk is said when a batch meets it
                os.pwrite(self._spool.fileno(), SPOOL_HEADER.pack(SPOOL_HEADER_MAGIC, self._worker, count), 0)

    def add(self, record: Record) -> None:
        """Take a finished request; it is shipped with the next batch."""
        self._pending.append(record)

    def ship_due(self, resend_after_s: float = RESEND_AFTER_S) -> None:
        """Send what is pending, and again what was not acknowledged in time, as far as the window allows."""
        while self._pending:
            self._make_batch()
        for number, batch in list(self._unacknowledged.items())[:WINDOW_BATCHES]:
            if now_s() - batch.sent_s >= resend_after_s:
                batch.sent_s = now_s()
                self._send_batch(number, batch)

    def run(self) -> None:
        """Ship in intervals, for ever."""
        while True:
            gevent.sleep(BATCH_INTERVAL_S)
            self.ship_due()

    def on_ack(self, number: int) -> None:
        """The master has written a batch."""
        self._unacknowledged.pop(number, None)
        if not self._unacknowledged and not self._spool.closed:
            self._spool.truncate(SPOOL_HEADER.size)

    def finish(self, limit_s: float) -> bool:
        """Ship the rest and wait until all of it is acknowledged; the spool stays when it is not."""
        begin_s = now_s()
        self.ship_due()
        while self._unacknowledged and now_s() - begin_s < limit_s:
            gevent.sleep(0.02)
            self.ship_due(resend_after_s=1.0)
        delivered = not self._unacknowledged
        self._spool.close()
        if delivered:
            self.spool_path.unlink(missing_ok=True)
        else:
            count = len(self._unacknowledged)
            logger.error("%s batches could not be delivered; they are kept in %s", count, self.spool_path)
        return delivered

    def _make_batch(self) -> None:
        count, size = 0, 0
        while count < len(self._pending) and size < BATCH_BYTES:
            record = self._pending[count]
            size += RECORD_BYTES + len(record.arrivals) + len(record.counts) + len(record.channels)
            count += 1
        payload = encode_records(self._pending[:count])
        self._unacknowledged[self.batch_count] = self._spooled(self.batch_count, payload)
        self._pending = self._pending[count:]
        self.batch_count += 1

    def _spooled(self, number: int, payload: bytes) -> Batch:
        frame = SPOOL_FRAME.pack(SPOOL_MAGIC, number, len(payload), zlib.crc32(payload))
        begin = self._spool.seek(max(self._spool.seek(0, os.SEEK_END), SPOOL_HEADER.size))
        try:
            write_whole(self._spool, frame + payload)
        except OSError as error:
            logger.error(  # noqa: TRY400  # the reason is the whole story
                "CAN'T SPOOL to %s: %s; keeping records in memory", self.spool_path, error.strerror
            )
            self._spool.truncate(begin)
            return Batch(0, 0, payload)
        return Batch(begin + len(frame), len(payload))

    def _send_batch(self, number: int, batch: Batch) -> None:
        payload = batch.payload or os.pread(self._spool.fileno(), batch.length, batch.offset)
        self._send(
            BATCH,
            {
                "run_id": self._run_id,
                "worker": self._worker,
                "started": self._started,
                "number": number,
                "crc32": zlib.crc32(payload),
                "payload": payload,
            },
        )


def encode_records(records: list[Record]) -> bytes:
    """Pack records for the wire and the spool."""
    return msgspec.msgpack.encode(records)


def decode_records(payload: bytes) -> list[Record]:
    """The records of one batch; msgspec.DecodeError when it is damaged."""
    return msgspec.msgpack.decode(payload, type=list[Record])
