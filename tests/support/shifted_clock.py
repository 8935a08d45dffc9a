"""Starts Locust in a process whose wall clock is wrong: `python shifted_clock.py AHEAD_S STEP_S AFTER_S -f ...`.

The clock is AHEAD_S ahead; AFTER_S after the start it jumps by STEP_S. The kernel's receive stamps would move
along on such a machine, so their reader keeps comparing them with the true clock.
"""

import sys
import time
import types


def main() -> None:
    """Shift the clock, then be Locust."""
    ahead_s, step_s, after_s = map(float, sys.argv[1:4])
    true_time, begin_s = time.time, time.monotonic()
    unshifted = types.SimpleNamespace(**vars(time))
    time.time = lambda: true_time() + ahead_s + (step_s if time.monotonic() - begin_s >= after_s else 0.0)
    sys.argv[:4] = ["locust"]
    import locust.main

    import scenarios.clients.stamps

    scenarios.clients.stamps.time = unshifted
    locust.main.main()


if __name__ == "__main__":
    main()
