"""When bytes arrived: the kernel's receive time of a segment, on the process' monotonic clock.

Linux stamps each received segment (SO_TIMESTAMPNS) and hands the stamp over with the data, so an arrival
time stays right however late this process gets round to the read. The stamp is on the realtime clock; its
age is taken at the read and subtracted from the monotonic clock there, so a clock step can bend nothing.
Where there is no stamp (another system, the odd first segment) the caller falls back to the time of the
read. A read that joins several segments carries only the last one's stamp: see `COUNTERS.coalesced_reads`.
"""

import struct
import sys
from _socket import CMSG_SPACE, SOL_SOCKET, socket
from dataclasses import dataclass
from time import perf_counter
from time import time as unix_time

# Not in Python's socket module; the value of every Linux platform Python has wheels for.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")  # of 64-bit systems; elsewhere there are no kernel stamps
_unpack = _TIMESPEC.unpack

# Room for one timestamp in recvmsg's ancillary data; 0 switches ancillary data off.
_HAS_STAMPS = sys.platform == "linux" and sys.maxsize > 2**32
ANCILLARY_BYTES = CMSG_SPACE(_TIMESPEC.size) if _HAS_STAMPS else 0

# An age outside of this is a stepped clock, not a late read.
_MAX_AGE_S = 60.0

# Both clocks are read within a fraction of this, unless the process is interrupted between them.
_MAX_BETWEEN_CLOCKS_S = 20e-6


@dataclass(slots=True)
class Counters:
    """Sums since the start of the process over all ended requests; sample and subtract for rates.

    `coalesced_reads` are reads in which more than one token event completed: its events share one stamp.
    A busy client causes them, but so does a server or proxy that writes several events at once.
    """

    reads: int = 0
    coalesced_reads: int = 0


COUNTERS = Counters()

_keeper_fd: int | None = None


def enable_stamps(sock: socket) -> bool:
    """Ask the kernel for receive stamps on `sock`; False where it has none."""
    global _keeper_fd
    if not ANCILLARY_BYTES:
        return False
    try:
        if _keeper_fd is None:
            # Linux starts stamping some time after the first socket of the machine asks for it. One socket
            # that asks for as long as the process lives keeps it on, so that no first segment comes without.
            keeper = socket()
            keeper.setsockopt(SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            _keeper_fd = keeper.detach()
        sock.setsockopt(SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def arrival_s(ancillary: list[tuple[int, int, bytes]], read_s: float) -> float | None:
    """When the kernel received what was read at `read_s`, on the same clock; None without a usable stamp."""
    now_s, unix_s = read_s, unix_time()
    if perf_counter() - read_s > _MAX_BETWEEN_CLOCKS_S:
        now_s, unix_s = _both_clocks()  # the process lost its CPU between the two clocks: together they would lie
    if not ancillary:
        return None
    seconds, nanoseconds = _unpack(ancillary[0][2])  # nothing else was asked for
    age_s: float = unix_s - seconds - nanoseconds * 1e-9
    return now_s - age_s if -0.001 < age_s < _MAX_AGE_S else None


def _both_clocks() -> tuple[float, float]:
    """Monotonic and realtime clock as of the same instant."""
    now_s, unix_s = perf_counter(), unix_time()
    for _ in range(10):
        if perf_counter() - now_s < _MAX_BETWEEN_CLOCKS_S:
            break
        now_s, unix_s = perf_counter(), unix_time()
    return now_s, unix_s
