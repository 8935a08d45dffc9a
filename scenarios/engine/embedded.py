"""Starts the practice engine as a child process, for runs without a host.

The engine gets a session of its own, so the terminal's Ctrl-C goes to the run, which still has requests to
finish; and it watches its standard input, so it ends when the starting process ends, however that happens.
"""

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from typing import IO

READY = "engine ready at "
START_TIMEOUT_S = 15.0
STOP_TIMEOUT_S = 5.0


class EngineStartError(Exception):
    """The engine didn't come up; the text says why."""


class EmbeddedEngine:
    """A running practice engine."""

    def __init__(self, process: "subprocess.Popen[bytes]", url: str) -> None:
        self.url = url
        self.pid = process.pid
        self._process = process
        self._owner = os.getpid()

    def stop(self) -> None:
        """End it and wait for that. In a forked child of the starter it does nothing."""
        if os.getpid() == self._owner:
            _end(self._process)

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait until it has ended by itself; its exit code."""
        return self._process.wait(timeout_s)


def start_embedded_engine(arguments: Sequence[str] = ()) -> EmbeddedEngine:
    """Start an engine on a free loopback port, with the engine command's options, and wait until it serves."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scenarios.engine", "--port", "0", "--until-stdin-closes", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None  # a pipe was asked for
    line = _first_line(process.stdout)
    if not line.startswith(READY):
        # An engine that has closed its output is about to end; one that is silent has to be ended.
        why = "did not start; its own message stands above" if line == "" and _has_ended(process) else "is not ready"
        _end(process)
        raise EngineStartError(
            f"the practice engine {why} (waited up to {START_TIMEOUT_S:g} s, exit code {process.returncode}). "
            "Try `tokenswarm engine` by itself, or give --host."
        )
    return EmbeddedEngine(process, line.removeprefix(READY).strip())


def _first_line(stream: IO[bytes]) -> str:
    """The engine's first line; empty if it ended or said nothing in time."""
    ready, _, _ = select.select([stream], [], [], START_TIMEOUT_S)
    return stream.readline().decode() if ready else ""


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    with contextlib.suppress(OSError):
        if process.stdin:
            process.stdin.close()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()
