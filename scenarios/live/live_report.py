"""The report of the run that goes on, made when somebody asks for it; after the run, the one in its folder.

The analysis runs in a process of its own: it neither blocks this one's event loop nor grows it.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flask import Response, send_file
from gevent.lock import BoundedSemaphore

from scenarios.live.board import Board

PAGE = "report.html"
FRESH_S = 10.0  # a report is made once for all who ask within this time


class LiveReport:
    """Makes one report at a time."""

    def __init__(self) -> None:
        self._lock = BoundedSemaphore()
        self._made: tuple[str, float, bytes] | None = None

    def page(self, board: Board) -> Response:
        """The report's page of the board's run."""
        folder = board.watched.run_dir.path
        if board.ended and (folder / PAGE).exists():
            return send_file((folder / PAGE).resolve(), max_age=0)
        with self._lock:
            if self._made is None or self._made[0] != folder.name or time.monotonic() - self._made[1] > FRESH_S:
                page = _make(folder)
                if page is None:
                    return Response("Nothing to report yet: no request has ended.", status=503, mimetype="text/plain")
                self._made = (folder.name, time.monotonic(), page)
            return Response(self._made[2], mimetype="text/html", headers={"Cache-Control": "no-store"})


def _make(folder: Path) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="tokenswarm-report-") as out:
        command = [sys.executable, "-m", "analysis", "report", str(folder), "--html", "--out", out]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        path = Path(out) / PAGE
        return path.read_bytes() if done.returncode == 0 and path.exists() else None
