"""A slow and lossy wire between two tap devices, for kernels without `tc netem`.

    python slow_wire.py TAP_A TAP_B DELAY_S LOSS

Every frame is passed on DELAY_S later, except for a share of LOSS.
"""

import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time
from itertools import count

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000


def attached(name: str) -> int:
    """A descriptor of an existing tap device."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def carry(one: int, other: int, delay_s: float, loss: float) -> None:
    """Carry frames both ways, for ever."""
    chance = random.Random(1)
    under_way: list[tuple[float, int, int, bytes]] = []  # due, number, to, frame
    numbers = count()
    while True:
        wait_s = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        readable, _, _ = select.select([one, other], [], [], wait_s)
        for tap in readable:
            frame = os.read(tap, 65536)
            if chance.random() >= loss:
                to = other if tap == one else one
                heapq.heappush(under_way, (time.monotonic() + delay_s, next(numbers), to, frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, to, frame = heapq.heappop(under_way)
            os.write(to, frame)


if __name__ == "__main__":
    carry(attached(sys.argv[1]), attached(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
