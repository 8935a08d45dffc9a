"""Files that must be whole or not there: writes that end or raise, replacement at once, a lock on a run."""

import fcntl
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis import schema


def write_whole(file: io.FileIO, data: bytes) -> None:
    """Write all of it, or raise OSError: on a disk that gets full, one write may take only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def write_run_file(folder: Path, run: Mapping[str, Any]) -> None:
    """Replace run.json as a whole."""
    temporary = folder / (schema.RUN_FILE + ".tmp")
    temporary.write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(folder / schema.RUN_FILE)


def lock_if_free(file: io.FileIO) -> bool:
    """Lock an open file of a run against everybody else who writes it; the system unlocks it when its process ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
