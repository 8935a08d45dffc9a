"""`tokenswarm recover`: add to a run folder what lost workers still have in their spool files.

Says what was merged, and names what stays missing. How the numbers look then is `tokenswarm report`'s business.
"""

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from scenarios.recording.merging import CannotMergeError, Merged, merge
from scenarios.recording.spool import SpoolError

EXIT_USAGE = 2


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--spool",
    "spool_dir",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder with the spool files (TMPDIR of the worker, mostly /tmp), or with copies of them.",
)
def recover(run: Path, spool_dir: Path) -> None:
    """Merge what lost workers still have on disk into the run folder RUN."""
    try:
        merged, info = merge(run, spool_dir)
    except (CannotMergeError, SpoolError) as error:
        print(error, file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}; nothing is half written, try again", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    for line in told(merged, info):
        print(line)


def told(merged: Iterable[Merged], info: dict[str, Any]) -> Iterable[str]:
    """What was merged and what is still missing, in lines."""
    for one in merged:
        spool = one.spool
        yield f"worker {spool.worker}: {one.requests} requests and {one.token_rows} token rows merged from {spool.path}"
        if spool.damaged_batches or spool.cut_bytes:
            yield f"  unreadable: {spool.damaged_batches} damaged batches, {spool.cut_bytes} bytes cut off at the end"
    counts = info["reconciliation"]
    yield f"{counts['started']} requests started, {counts['recorded']} recorded, {counts['missing']} missing"
    last_word = {worker["worker"]: worker for worker in info["workers"]}
    for worker, ids in counts.get("missing_requests", {}).items():
        about = last_word.get(int(worker), {})
        rest = counts["missing_by_worker"][worker] - len(ids)
        more = f" and {rest} more" if rest else ""
        where = f" on {about['host']}" if about.get("host") else ""
        at = f", last heard at {_utc(about['at_unix_s'])}" if about.get("at_unix_s") else ""
        yield f"  worker {worker}{where}{at}: no row for {', '.join(ids)}{more}"


def _utc(unix_s: float) -> str:
    return time.strftime("%H:%M:%S UTC", time.gmtime(unix_s))
