"""What the live views are given of a run: facts that stay, and the parts that move."""

from collections.abc import Callable
from dataclasses import dataclass, field

from scenarios.recording.inbox import Inbox
from scenarios.recording.run_dir import RunDir
from scenarios.recording.timeline import Timeline
from scenarios.spec import Scenario


@dataclass(frozen=True, slots=True)
class Watched:
    """A run to look at. `user_count` is Locust's, over all workers."""

    run_id: str
    run_dir: RunDir
    scenario: Scenario
    host: str
    model: str
    engine: str
    by_hand: bool
    timeline: Timeline
    inbox: Inbox
    user_count: Callable[[], int] = field(repr=False)
    now_unix_s: Callable[[], float] = field(repr=False)
