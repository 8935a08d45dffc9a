"""Calls through the load test's own client, made in a process of their own: it has to be patched by gevent."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def drive(address: str, calls: list[dict[str, Any]], limit_s: float = 30, **job: Any) -> list[dict[str, Any]]:
    """Results in the order of their ends; what a call may say is in `tests.support.drive_calls`."""
    sent = subprocess.run(
        [sys.executable, "-m", "tests.support.drive_calls"],
        cwd=ROOT,
        input=json.dumps({"url": address, "calls": calls, **job}),
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
    assert sent.returncode == 0, sent.stderr
    assert not sent.stderr
    results: list[dict[str, Any]] = json.loads(sent.stdout)
    return results
