"""Reads the spool file that a worker left: what it had not delivered, and how many requests it had started."""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from scenarios.recording.outbox import SPOOL_FRAME, SPOOL_HEADER, SPOOL_HEADER_MAGIC, SPOOL_MAGIC, decode_records
from scenarios.recording.recorder import Record

# Hours of a run would not fit into memory; its undelivered rest does, unless a frame's length is damaged.
FRAME_LIMIT_BYTES = 1 << 30


class SpoolError(ValueError):
    """A file that is no spool."""


@dataclass(frozen=True, slots=True)
class Spool:
    """One worker's spool: the records of its whole batches, and what of it can't be read."""

    path: Path
    worker: int
    started: int
    records: list[Record]
    damaged_batches: int
    cut_bytes: int  # of a last batch that was being written, or whatever lies behind an unreadable frame


def spool_files(folder: Path, run_id: str) -> list[Path]:
    """The spool files of a run, by worker."""
    pattern = re.compile(rf"tokenswarm-{re.escape(run_id)}-(\d+)\.spool")
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := pattern.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def read_spool(path: Path) -> Spool:
    """Everything whole in a spool file; OSError or SpoolError when there is nothing to read."""
    data = path.read_bytes()
    try:
        magic, worker, started = SPOOL_HEADER.unpack_from(data)
    except struct.error:
        magic = b""
    if magic != SPOOL_HEADER_MAGIC:
        raise SpoolError(f"{path}: not a spool file of this version (it does not begin with TSS1)")
    records: list[Record] = []
    damaged, end = 0, SPOOL_HEADER.size
    for offset, payload, crc32 in _frames(data):
        end = offset
        try:
            batch = decode_records(payload) if zlib.crc32(payload) == crc32 else None
        except msgspec.DecodeError:
            batch = None
        damaged += batch is None
        records += batch or []
    return Spool(path, worker, started, records, damaged, len(data) - end)


def _frames(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Each whole frame: where it ends, its payload and its checksum."""
    offset = SPOOL_HEADER.size
    while offset + SPOOL_FRAME.size <= len(data):
        magic, _number, length, crc32 = SPOOL_FRAME.unpack_from(data, offset)
        begin = offset + SPOOL_FRAME.size
        if magic != SPOOL_MAGIC or length > FRAME_LIMIT_BYTES or begin + length > len(data):
            return
        offset = begin + length
        yield offset, data[begin:offset], crc32
