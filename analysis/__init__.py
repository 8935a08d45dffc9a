"""Reads run folders: metrics, verdicts and reports. Works without the load side: `python -m analysis report RUN`.

import analysis
run = analysis.load("runs/20260131T120000Z-demo")
run.requests.groupby("level")["first_token_ms"].median()
analysis.summarise(run).answer
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.figures import summarise
    from analysis.runs import Run, load
    from analysis.summary import RunSummary
    from analysis.tables import RunError

__all__ = ["Run", "RunError", "RunSummary", "load", "summarise"]

_HOMES = {
    "Run": "analysis.runs",
    "load": "analysis.runs",
    "RunSummary": "analysis.summary",
    "summarise": "analysis.figures",
    "RunError": "analysis.tables",
}


def __getattr__(name: str) -> Any:
    # imported when asked for: load workers need analysis.schema only, and pandas would cost each of them 0.5 s
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'analysis' has no attribute {name!r}")
