"""Reading a truth file while the engine still writes it."""

import json
from pathlib import Path
from time import sleep
from typing import Any

Row = dict[str, Any]


def rows(truth: Path) -> list[Row]:
    """All rows that are there."""
    return [json.loads(line) for line in truth.read_text().splitlines()]


def wait_for_rows(truth: Path, count: int) -> list[Row]:
    """All rows, when so many are there: a row comes right after its request's last byte."""
    for _ in range(200):
        if len(found := rows(truth)) >= count:
            return found
        sleep(0.02)
    raise AssertionError(f"{len(rows(truth))} rows instead of {count}")


def only_row(truth: Path) -> Row:
    """The row of the only request."""
    (row,) = wait_for_rows(truth, 1)
    return row
