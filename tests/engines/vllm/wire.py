"""What went over the wire: a witness that neither of two clients under comparison can bend.

`wire.py PORT FILE` keeps the loopback packets from and to a port with the kernel's receive times, until standard
input closes, and then writes when each streamed completion was asked for and when its events came. It reads once
in a while, so that it takes next to nothing from a small machine. Needs Linux and CAP_NET_RAW.
"""

import json
import re
import select
import socket
import struct
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

READ_EVERY_S = 0.2
BUFFER_BYTES = 256 << 20
SO_TIMESTAMPNS, SO_RCVBUFFORCE, PACKET_IGNORE_OUTGOING = 35, 33, 23  # not in Python's socket module
SOL_PACKET, ETH_P_IP = 263, 0x0800
TIMESPEC = struct.Struct("@qq")
# the start of an event with a token; the last chunk has the usage, and its `choices` are empty
TOKEN_EVENT = re.compile(rb'"choices": ?\[ ?\{')

Packet = tuple[float, int, bool, bytes]  # when, the client's port, whether from the server, payload


def can_see() -> str:
    """Why there is no wire to be seen here; empty where there is one."""
    try:
        open_wire().close()
    except (AttributeError, OSError) as error:
        return f"no packets to be seen here: {error}"
    return ""


def open_wire() -> socket.socket:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    try:
        wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        wire.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        wire.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)  # loopback shows each packet twice
        wire.setblocking(False)
        wire.bind(("lo", ETH_P_IP))
    except OSError:
        wire.close()
        raise
    return wire


def watch(wire: socket.socket, port: int) -> list[Packet]:
    """All packets with payload until standard input closes, in their order."""
    packets: list[Packet] = []
    ended = False
    while not ended:
        ended = bool(select.select([sys.stdin], [], [], READ_EVERY_S)[0])
        while True:
            try:
                data, ancillary, _, _ = wire.recvmsg(1 << 17, 64)
            except BlockingIOError:
                break
            header = (data[0] & 15) * 4
            source, target = struct.unpack_from("!HH", data, header)
            payload = data[header + (data[header + 12] >> 4) * 4 :]
            if port in (source, target) and payload:
                seconds, nanoseconds = TIMESPEC.unpack(ancillary[0][2][: TIMESPEC.size])
                from_server = source == port
                packets.append((seconds + nanoseconds / 1e9, target if from_server else source, from_server, payload))
    return packets


def completions(packets: list[Packet]) -> Iterator[list[float]]:
    """Of each completion: when the last piece of the request was sent, then when each token event came."""
    connections: dict[int, list[Packet]] = defaultdict(list)
    for packet in packets:
        connections[packet[1]].append(packet)
    for conversation in connections.values():
        times_s: list[float] = []
        asking = False
        for at_s, _, from_server, payload in conversation:
            if not from_server and payload.startswith(b"POST "):
                if len(times_s) > 1:
                    yield times_s
                asking, times_s = True, [at_s]
            elif not from_server and asking:
                times_s = [at_s]
            elif from_server and times_s:
                asking = False
                times_s += [at_s] * len(TOKEN_EVENT.findall(payload))
        if len(times_s) > 1:
            yield times_s


if __name__ == "__main__":
    with open_wire() as seen:
        print("watching", flush=True)
        Path(sys.argv[2]).write_text(json.dumps(list(completions(watch(seen, int(sys.argv[1]))))))
