"""Token rows in compact columns: appended once, read in stretches; in memory while few, in temporary files beyond."""

import os
import tempfile
import weakref
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.tables import RunError

IN_MEMORY_BYTES = 64 << 20  # of each column; a longer one goes on in a temporary file

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """A stretch of token rows."""

    code: NDArray[np.int32]  # the row number in `requests`; -1 when requests.csv lacks the request
    index: NDArray[np.int32]
    arrival_ms: NDArray[np.float64]
    tokens: NDArray[np.float32]  # NaN where the event's count is unknown
    channel: NDArray[np.int8]  # the number in `schema.CHANNELS`; -1 for none

    def take(self, chosen: NDArray[np.intp] | Mask) -> "Rows":
        """Those at the chosen places."""
        return Rows(*(getattr(self, name)[chosen] for name in TYPES))

    def key(self) -> NDArray[np.int64]:
        """What the rows are ordered by: request, then index."""
        return (self.code.astype(np.int64) << 32) + self.index


TYPES: dict[str, type[np.generic]] = {
    "code": np.int32,
    "index": np.int32,
    "arrival_ms": np.float64,
    "tokens": np.float32,
    "channel": np.int8,
}


class Spool:
    """Token rows that are appended once and read in stretches."""

    def __init__(self) -> None:
        folder = _disk_folder()
        self._files = {
            name: tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES, dir=folder)  # noqa: SIM115 closed below
            for name in TYPES
        }
        self._rows = 0
        for file in self._files.values():
            weakref.finalize(self, file.close)

    def append(self, rows: Rows) -> tuple[int, int]:
        """Add rows; gives the stretch in which they lie now."""
        start = self._rows
        try:
            for name, dtype in TYPES.items():
                self._files[name].seek(start * np.dtype(dtype).itemsize)
                self._files[name].write(np.ascontiguousarray(getattr(rows, name)).tobytes())
        except OSError as error:
            folder = _disk_folder() or tempfile.gettempdir()
            raise RunError(f"{folder}: {error.strerror} for the token rows; set TMPDIR to a folder with room") from None
        self._rows += len(rows.code)
        return start, self._rows

    def column(self, name: str, start: int, stop: int) -> NDArray[np.generic]:
        """One column of a stretch."""
        size = np.dtype(TYPES[name]).itemsize
        self._files[name].seek(start * size)
        return np.frombuffer(self._files[name].read((stop - start) * size), dtype=TYPES[name])

    def read(self, start: int, stop: int) -> Rows:
        """All columns of a stretch."""
        return Rows(*(self.column(name, start, stop) for name in TYPES))  # type: ignore[arg-type]  # as in TYPES


def _disk_folder() -> str | None:
    """Where temporary files lie on a disk: /tmp may lie in memory, /var/tmp must not. None: Python's own choice."""
    chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return "/var/tmp" if not chosen and os.access("/var/tmp", os.W_OK) else None  # noqa: S108 its files have no name
