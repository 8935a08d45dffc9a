"""Stop with drain: nothing new is started, what is in flight may end, then the run is closed in order.

Locust's own stop gives requests its stop time-out; this one gives them the time that a level's tail may take.
Workers were told the time-out at the start, so they are told the longer one first.
"""

from typing import Any

import gevent
from locust.env import Environment
from locust.rpc.protocol import Message
from locust.runners import MasterRunner, WorkerRunner

from scenarios.live.board import Board

DRAIN = "tokenswarm_drain"


def stop_with_drain(environment: Environment, board: Board) -> None:
    """Begin to stop; returns at once, while the run ends in its own time."""
    runner = environment.runner
    if board.stopping or runner is None:
        return
    board.stopping = True
    limit_s = max(environment.stop_timeout or 0.0, board.watched.scenario.load.tail_s)
    environment.stop_timeout = limit_s
    if isinstance(runner, MasterRunner):
        runner.send_message(DRAIN, {"stop_timeout_s": limit_s})
    gevent.spawn(runner.stop)


def listen_for_drain(runner: WorkerRunner) -> None:
    """Let the master lengthen this worker's stop time-out."""

    def on_drain(msg: Message, **_: Any) -> None:
        runner.environment.stop_timeout = msg.data["stop_timeout_s"]

    runner.register_message(DRAIN, on_drain)
