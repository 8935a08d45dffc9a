"""How numbers and tables look on a terminal, for every command."""

import math

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table

NONE = "–"
PIPE_WIDTH = 140  # columns when nobody's terminal says otherwise


def print_rendered(rendered: RenderableType, console: Console) -> None:
    """Print anything; a pipe gets a fixed width and no colours."""
    if not console.is_terminal:
        console = Console(file=console.file, width=PIPE_WIDTH, color_system=None)
    console.print(rendered)


def new_table(title: str, *columns: str, left: int = 1) -> Table:
    """A plain table; the first `left` columns hold text."""
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position < left else "right", no_wrap=position >= left)
    return table


def number(value: float | None, digits: int = 1) -> str:
    """A number for a table; absent is a dash and never 0."""
    return NONE if value is None else f"{value:,.{digits}f}"


def ms(value: float | None) -> str:
    """Milliseconds with about three significant digits."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(share: float | None) -> str:
    """A share as percent."""
    return NONE if share is None else f"{share * 100:.1f} %"


def endless(value: float | None) -> str:
    """Milliseconds that may be infinite."""
    return "∞" if value == math.inf else ms(value)
