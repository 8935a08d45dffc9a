"""The terminal of a headless run: one calm view on a terminal, plain lines elsewhere, nothing with --quiet.

On a terminal the view stays at the bottom and log lines pass above it. Plain lines come at every change of phase and
about every ten seconds, so a log of hours stays readable.
"""

import logging
import sys
import time
from typing import Any

from rich.console import Console as Terminal
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from scenarios.live.board import Board

logger = logging.getLogger(__name__)

LINE_EVERY_S = 10.0
_STYLES = {"note": "yellow", "suspect": "yellow", "client-bound": "red"}
PERCENT_NAMES = ("p50", "p95", "p99")


class Console:
    """Shows the board of a headless run."""

    def __init__(self, quiet: bool, terminal: Terminal | None = None) -> None:
        self._quiet = quiet
        self._terminal = terminal or Terminal(stderr=True)
        self._live: Live | None = None
        self._board: Board | None = None
        self._streams: list[tuple[logging.StreamHandler[Any], Any]] = []
        self._said_phase: tuple[int | None, str | None] = (None, None)
        self._said_s = 0.0

    def begin(self, board: Board) -> None:
        """A run starts."""
        self._board = board
        if not self._quiet and self._terminal.is_terminal:
            # transient: the report takes the view's place
            self._live = Live(console=self._terminal, auto_refresh=False, transient=True)
            self._live.start()
            self._streams = _redirect_logs()

    def update(self) -> None:
        """Once a second."""
        if self._quiet or self._board is None:
            return
        if self._live:
            self._live.update(view(self._board), refresh=True)
        else:
            self._say_plainly(self._board)

    def end(self) -> None:
        """The run is over: leave the terminal as it was."""
        if self._live:
            self._live.stop()
            self._live = None
            for handler, stream in self._streams:
                handler.setStream(stream)
            self._streams = []
        if self._board and not self._quiet:
            self._terminal.print(Text(line(self._board)), soft_wrap=True)
        self._board = None

    def _say_plainly(self, board: Board) -> None:
        progress = board.progress()
        phase = (progress["level"], progress["phase"])
        if phase != self._said_phase or time.monotonic() - self._said_s >= LINE_EVERY_S:
            self._said_phase, self._said_s = phase, time.monotonic()
            self._terminal.print(Text(line(board)), soft_wrap=True)


def line(board: Board) -> str:
    """The run in one line."""
    progress, now, total = board.progress(), board.now(), board.totals
    parts = [_where(progress)]
    if progress["eta_s"]:
        parts.append(f"about {duration(progress['eta_s'])} left")
    failed = total.ended - total.counts.get("success", 0)
    parts.append(f"{total.ended} requests" + (f" ({failed} without success)" if failed else ""))
    parts.append(f"{now.get('in_flight', 0)} in flight")
    parts.append(f"{number(now['tok_s'])} tok/s")
    latencies = board.measured().latencies() if board.measured().ended else now
    for name, key in (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms")):
        if values := latencies.get(key):
            parts.append(f"{name} p50 {milliseconds(values[0])} p95 {milliseconds(values[1])} ms")
    return " | ".join(
        [*parts, *(f"{light.status}: {light.reason}" for light in board.lights() if _warns(light.status))]
    )


def view(board: Board) -> Group:
    """The run as a few lines that stay in place."""
    progress, now, total = board.progress(), board.now(), board.totals
    head = Table.grid(padding=(0, 2))
    share = progress["share"]
    bar = ProgressBar(total=1.0, completed=share or 0.0, width=30, pulse=share is None)
    left = f"about {duration(progress['eta_s'])} left" if progress["eta_s"] else ""
    head.add_row(Text(_where(progress), style="bold"), bar, Text(left, style="dim"))
    figures = Table.grid(padding=(0, 3))
    failed = total.ended - total.counts.get("success", 0)
    figures.add_row(
        Text(f"{total.ended} requests"),
        Text(f"{failed} without success", style="red" if failed else "dim"),
        Text(f"{now.get('in_flight', 0)} in flight, {now.get('waiting', 0)} waiting"),
        Text(f"{number(now['tok_s'])} output tok/s", style="bold"),
    )
    rows: list[Table | Text] = [head, figures, _latencies(board)]
    rows += [Text(f"! {x.name}: {x.reason}", style=_STYLES[x.status]) for x in board.lights() if _warns(x.status)]
    return Group(*rows)


def _latencies(board: Board) -> Table:
    measured = board.measured()
    table = Table(box=None, padding=(0, 2), header_style="dim")
    scope = "measured so far, ms" if measured.ended else "last 10 s, ms"
    table.add_column(scope)
    for percent in PERCENT_NAMES:
        table.add_column(percent, justify="right", min_width=8)
    values = measured.latencies() if measured.ended else board.now()
    for name, key in (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"), ("E2E", "e2e_ms")):
        table.add_row(name, *(milliseconds(value) for value in values.get(key, (None, None, None))))
    return table


def _where(progress: dict[str, Any]) -> str:
    if progress["level"] is None:
        return "starting"
    of = f" of {progress['levels']}" if progress["levels"] else ""
    phase = f", {progress['phase']}" if progress["phase"] else ""
    return f"level {progress['level']}{of}: {progress['mode']} {progress['requested']:g}{phase}"


def _warns(status: str) -> bool:
    return status in ("suspect", "client-bound")


def _redirect_logs() -> list[tuple[logging.StreamHandler[Any], Any]]:
    """Let log lines pass above the view: rich catches what goes to sys.stderr, handlers hold the stream before it."""
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in logging.root.manager.loggerDict)]
    handlers = {handler for each in loggers for handler in each.handlers if type(handler) is logging.StreamHandler}
    direct = [handler for handler in handlers if handler.stream in (sys.__stderr__, sys.__stdout__)]
    return [(handler, handler.setStream(sys.stderr)) for handler in direct]


def milliseconds(value: float | None) -> str:
    """A latency, to three digits or so; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def number(value: float | None) -> str:
    """A rate; a dash where there is none."""
    return "–" if value is None else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """For example 1 h 5 min, 3 min, 40 s."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min" if whole >= 120 else f"{whole} s"
