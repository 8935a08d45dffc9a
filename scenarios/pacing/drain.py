"""A master that drains before it quits.

Locust's `MasterRunner.quit` tells the workers to quit without waiting for requests in flight or for what
they have not reported yet. All ways to end a run lead through it (run time, end of the levels, Ctrl-C,
SIGTERM), so it is the one place to stop first and to wait for the end of the run.
"""

import logging
from collections.abc import Callable

from locust.runners import MasterRunner

logger = logging.getLogger(__name__)


def drain_before_quit(runner: MasterRunner, wait_for_end: Callable[[], None]) -> None:
    """Make `runner.quit` stop the test in an orderly way first; `wait_for_end` blocks until the run is closed."""
    quit_at_once = runner.quit

    def quit_drained() -> None:
        try:
            runner.stop()
            wait_for_end()
        except KeyboardInterrupt:
            logger.warning("Interrupted again: not waiting for the workers any longer")
        quit_at_once()

    runner.quit = quit_drained  # type: ignore[method-assign]  # Locust has no hook between stop and quit
