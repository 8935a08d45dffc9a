"""How a level of a search went: asked of the analysis, so that there is one definition of the SLO.

In a process of its own, as the report is. It reads what is on disk, so the level's rows are waited for.
"""

import json
import logging
import subprocess
import sys
from pathlib import Path

import gevent

from scenarios.recording.clock import now_s
from scenarios.recording.inbox import Inbox

logger = logging.getLogger(__name__)

WRITTEN_WITHIN_S = 10.0


def attained(run_dir: Path, inbox: Inbox, level: int) -> tuple[int, int] | None:
    """Of the requests that were due in a level: how many met the SLO, and how many there were. None if it failed."""
    limit_s = now_s() + WRITTEN_WITHIN_S
    while not inbox.all_written() and now_s() < limit_s:
        gevent.sleep(0.05)
    command = [sys.executable, "-m", "analysis", "attainment", str(run_dir), "--level", str(level)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        logger.error("Level %s can't be judged, so the search ends: %s", level, ended.stderr.strip())
        return None
    found = json.loads(ended.stdout)
    return found["met"], found["due"]
