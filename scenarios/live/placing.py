"""Where an instant falls: the master tells its workers level and phase boundaries, so they can sort their figures."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from locust.rpc.protocol import Message
from locust.runners import MasterRunner, WorkerRunner

from scenarios.recording.timeline import Timeline

PLACES = "tokenswarm_places"
KEPT = 16  # requests in flight were not sent before the last few phases

Boundary = tuple[float, int | None, str | None]


class Places:
    """The latest boundaries that the master told."""

    def __init__(self) -> None:
        self._boundaries: Sequence[Boundary] = ()

    def update(self, boundaries: Sequence[Boundary]) -> None:
        """Take a newer list."""
        self._boundaries = boundaries

    def locate(self, unix_s: float) -> tuple[int | None, str | None]:
        """Level and phase of an instant; None outside of any."""
        index = bisect_right(self._boundaries, unix_s, key=lambda boundary: boundary[0]) - 1
        if index < 0:
            return None, None
        _, level, phase = self._boundaries[index]
        return level, phase


def tell_places(runner: MasterRunner, timeline: Timeline) -> None:
    """Send all workers the latest boundaries; told again and again, so that a late worker knows them too."""
    runner.send_message(PLACES, {"places": timeline.boundaries()[-KEPT:]})


def listen_for_places(runner: WorkerRunner) -> Places:
    """What the master tells this worker."""
    places = Places()

    def on_places(msg: Message, **_: Any) -> None:
        places.update(msg.data["places"])

    runner.register_message(PLACES, on_places)
    return places
