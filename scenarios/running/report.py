"""The report after a run, made by the analysis in a process of its own.

So that reading a long run neither blocks the event loop of a live web UI nor grows this process.
"""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

from scenarios.running.run import Run

logger = logging.getLogger(__name__)

EXIT_OK, EXIT_MISSED, EXIT_INVALID = 0, 1, 3

SUMMARY_FILE = "report.json"
PAGE_FILE = "report.html"


def report(run_dir: Path, printed: bool) -> dict[str, Any] | None:
    """Write report.html and report.json into the run folder; the summary, or None when it failed."""
    command = [sys.executable, "-m", "analysis", "report", str(run_dir), "--html", "--json", "--out", str(run_dir)]
    quiet = None if printed else subprocess.DEVNULL
    if subprocess.run(command, stdout=quiet, stderr=quiet, check=False).returncode != 0:
        logger.error("No report: run 'tokenswarm report %s' to see why", run_dir)
        return None
    logger.info("Report: %s", run_dir / PAGE_FILE)
    summary: dict[str, Any] = json.loads((run_dir / SUMMARY_FILE).read_text(encoding="utf-8"))
    return summary


def exit_code(run: Run, summary: dict[str, Any] | None) -> int:
    """Exit code of the process: 3 when the run is invalid, 1 when no level met the SLO, else 0."""
    if not run.valid or summary is None:
        return EXIT_INVALID
    if run.plan.scenario.slo is not None:
        return EXIT_OK if summary["best_level"] is not None else EXIT_MISSED
    failed = sum(level["counts"]["failure"] for level in summary["levels"])
    return EXIT_MISSED if failed else EXIT_OK
