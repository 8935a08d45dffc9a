"""A master whose port is taken: one clear line, and no children that would join somebody else's run.

Locust makes its runner before any of its events, so the exception itself is where this can be said.
"""

import sys
from types import TracebackType

import psutil
from locust.exception import RPCError


def explain_taken_port() -> None:
    """From now on, say what to do when the master's port is taken; everything else is shown as before."""
    show = sys.excepthook

    def explain(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not (isinstance(error, RPCError) and "Address already in use" in str(error)):
            show(kind, error, traceback)
            return
        for child in psutil.Process().children():  # workers of --processes
            child.terminate()
        print(
            f"The master's port is taken ({error}). Does another master run? End it, or choose another port with "
            "--master-bind-port, and the same with --master-port for the workers.",
            file=sys.stderr,
        )

    sys.excepthook = explain
