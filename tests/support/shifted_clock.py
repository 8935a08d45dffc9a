"""Starts Locust in a process whose wall clock is wrong: `python shifted_clock.py AHEAD_S STEP_S WHEN -f ...`.

The clock is AHEAD_S ahead, and set by STEP_S when the file WHEN appears. The kernel's receive stamps would move
along on such a machine, so their reader keeps comparing them with the true clock.
"""

import sys
import time
from pathlib import Path

LOOK_AGAIN_S = 0.05


class WrongClock:
    """A wall clock that is ahead, and is set once."""

    def __init__(self, ahead_s: float, step_s: float, when: Path) -> None:
        self._true_time = time.time
        self._ahead_s, self._step_s, self._when = ahead_s, step_s, when
        self._looked_s = 0.0

    def time(self) -> float:
        """What this machine takes for Unix seconds."""
        if self._step_s and time.monotonic() - self._looked_s > LOOK_AGAIN_S:
            self._looked_s = time.monotonic()
            if self._when.exists():
                self._ahead_s, self._step_s = self._ahead_s + self._step_s, 0.0
        return self._true_time() + self._ahead_s


def main() -> None:
    """Shift the clock, then be Locust."""
    import locust.main

    import scenarios.clients.stamps  # noqa: F401  # keeps the true clock: it compares kernel stamps with it

    time.time = WrongClock(float(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])).time
    sys.argv[:4] = ["locust"]
    locust.main.main()


if __name__ == "__main__":
    main()
