"""Brings the announcements of levels over Locust's channel, or within a local process, to the open loop."""

from collections.abc import Callable

from locust.env import Environment
from locust.rpc.protocol import Message
from locust.runners import Runner

from scenarios.pacing.announcement import LEVEL, Announcement
from scenarios.pacing.host import ArrivalHost


def listen_for_levels(runner: Runner, host: Callable[[str], ArrivalHost | None]) -> None:
    """Route announcements to the host of their run; `host` gives None for a run that does not go on here."""

    def on_level(environment: Environment, msg: Message) -> None:  # noqa: ARG001  # Locust passes both by name
        announced = Announcement(**msg.data)
        if found := host(announced.run_id):
            found.announce(announced)

    runner.register_message(LEVEL, on_level)
