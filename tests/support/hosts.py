"""Several hosts on one machine: network namespaces with veth, joined by two bridges and a slow, lossy wire.

    near hosts -- bridge "near" == slow wire == bridge "far" -- far hosts

The wire is `tc netem` where the kernel has it, else `slow_wire.py`. Everything, bridges included, lives in
namespaces of its own; the machine's own network is not touched. Needs root.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PREFIX = f"tokenswarm-{os.getpid()}-"
WIRE = Path(__file__).parent / "slow_wire.py"


def why_not() -> str | None:
    """Why this machine can't make such hosts; None when it can."""
    if sys.platform != "linux":
        return "network namespaces are Linux'"
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    if not shutil.which("ip") and not _installed_iproute2():
        return "no `ip`: apt install iproute2"
    tried = subprocess.run(["ip", "netns", "add", PREFIX + "try"], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"ip netns add: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", PREFIX + "try"], check=True)
    return None


def _installed_iproute2() -> bool:
    if not shutil.which("apt-get"):
        return False
    subprocess.run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", "iproute2"], capture_output=True)
    return shutil.which("ip") is not None


@dataclass(frozen=True, slots=True)
class Host:
    """One host: run a command on it by putting `at` in front."""

    name: str
    address: str

    @property
    def at(self) -> list[str]:
        """Prefix of a command line."""
        return ["ip", "netns", "exec", PREFIX + self.name]


def plug(host: Host, connected: bool) -> None:
    """Pull a host's cable at the switch, or put it back: packets get lost without anybody being told."""
    _ip("-n", PREFIX + "switch", "link", "set", "dev", host.name, "up" if connected else "down")


@contextmanager
def hosts(near: Sequence[str], far: Sequence[str], delay_ms: float, loss: float) -> Iterator[dict[str, Host]]:
    """Hosts by name on both ends of a wire that delays each way by `delay_ms` and loses a share of `loss`."""
    _remove_abandoned()
    names = [*near, *far]
    made = {name: Host(name, f"10.77.0.{number}") for number, name in enumerate(names, 1)}
    wire: subprocess.Popen[bytes] | None = None
    try:
        _ip("netns", "add", PREFIX + "switch")
        for bridge in ("near", "far"):
            _ip("-n", PREFIX + "switch", "link", "add", "name", "b-" + bridge, "type", "bridge")
            _ip("-n", PREFIX + "switch", "link", "set", "dev", "b-" + bridge, "up")
        for host in made.values():
            _connect(host, "b-near" if host.name in near else "b-far")
        wire = _wire(delay_ms, loss)
        yield made
    finally:
        if wire:
            wire.kill()
            wire.wait()
        for name in (*names, "switch"):
            _remove(PREFIX + name)


def _connect(host: Host, bridge: str) -> None:
    own, switch = PREFIX + host.name, PREFIX + "switch"
    _ip("netns", "add", own)
    _ip("-n", switch, "link", "add", "name", host.name, "type", "veth", "peer", "name", "eth0", "netns", own)
    _ip("-n", switch, "link", "set", "dev", host.name, "master", bridge, "up")
    _ip("-n", own, "addr", "add", host.address + "/24", "dev", "eth0")
    _ip("-n", own, "link", "set", "dev", "eth0", "up")
    _ip("-n", own, "link", "set", "dev", "lo", "up")
    # after a cut, TCP tries again within seconds and not after half a minute (Linux 6.15 and later)
    quick = ["sh", "-c", "echo 2000 > /proc/sys/net/ipv4/tcp_rto_max_ms"]
    subprocess.run(["ip", "netns", "exec", own, *quick], capture_output=True)


def _wire(delay_ms: float, loss: float) -> subprocess.Popen[bytes] | None:
    """Join the bridges; the process that carries the frames where the kernel does not."""
    switch, ends = PREFIX + "switch", ("w-near", "w-far")
    _ip("-n", switch, "link", "add", "name", ends[0], "type", "veth", "peer", "name", ends[1])
    netem = ["netem", "delay", f"{delay_ms}ms", "loss", f"{loss:.2%}"]
    in_kernel = [
        subprocess.run(["tc", "-n", switch, "qdisc", "add", "dev", end, "root", *netem], capture_output=True).returncode
        for end in ends
    ] == [0, 0]
    if not in_kernel:
        _ip("-n", switch, "link", "del", ends[0])
        for end in ends:
            _ip("-n", switch, "tuntap", "add", end, "mode", "tap")
    for end in ends:
        _ip("-n", switch, "link", "set", "dev", end, "master", end.replace("w-", "b-"), "up")
    if in_kernel:
        return None
    line = [sys.executable, str(WIRE), *ends, str(delay_ms / 1000), str(loss)]
    return subprocess.Popen(["ip", "netns", "exec", switch, *line])


def _remove(namespace: str) -> None:
    """End what still runs in a namespace, then remove it with all its devices."""
    left = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True)
    for pid in left.stdout.split():
        subprocess.run(["kill", "-9", pid], capture_output=True)
    if left.stdout:
        time.sleep(0.1)
    subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


def _remove_abandoned() -> None:
    """Namespaces of test processes that were killed before they could clean up."""
    for path in Path("/run/netns").glob("tokenswarm-*"):
        pid = path.name.split("-")[1]
        if not Path("/proc", pid).exists():
            _remove(path.name)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
