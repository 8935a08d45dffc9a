"""Writes and prints the report of one run folder; the load side calls this at the end of a headless run."""

from pathlib import Path

from analysis import html, runs
from analysis.figures import summarise
from analysis.report_text import print_summary
from analysis.slo import Slo
from analysis.summary import RunSummary

HTML_FILE = "report.html"


def write_report(run_dir: str | Path, html_page: bool = True, objective: Slo | None = None) -> RunSummary:
    """Summarise a run and, unless told otherwise, write `report.html` into its folder."""
    run = runs.load(run_dir)
    summary = summarise(run, objective)
    if html_page:
        html.write_page(run, summary, run.path / HTML_FILE)
    return summary


def print_report(run_dir: str | Path, html_page: bool = True) -> RunSummary:
    """`write_report`, printed as tables on standard output."""
    summary = write_report(run_dir, html_page)
    print_summary(summary)
    return summary
