"""Requests and token rows as Parquet: a fraction of the size of the CSV files, and read by any data tool.

The files stand for the CSV files of a run folder as long as they are newer than those. Columns and types are those
of `analysis.load`; what was refused or lost on the way is told in the metadata. Needs pyarrow, which is optional.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from analysis import schema, tables
from analysis.runs import Run, read_file
from analysis.schema import Column
from analysis.tables import Damage, RunError

T = TypeVar("T")
NOTES = b"tokenswarm"  # key of what the metadata tells


def write(run: Run, folder: Path) -> list[Path]:
    """Write the requests and token rows of a run; gives the files."""
    if find_spec("pyarrow") is None:
        raise RunError("writing Parquet needs pyarrow, which is not installed: pip install pyarrow")
    damages: list[Damage] = []
    requests = read_file(run.path, schema.REQUESTS_FILE, ("request_id", "outcome"), damages)
    frames = iter([requests])
    written = [_write(folder / _name(schema.REQUESTS_FILE), frames, {"damages": _listed(damages)})]
    if len(run.token_rows):
        stem = schema.TOKENS_FILE.removesuffix(".csv")
        lost = [damage for damage in run.damages if damage.file.startswith(f"{stem}.")]
        notes = {"damages": _listed(lost), "orphan_tokens": run.orphan_tokens}
        written.append(_write(folder / _name(schema.TOKENS_FILE), run.token_rows.frames(), notes))
    return written


def read_chunks(
    path: Path, columns: Sequence[Column], required: Iterable[str], reduce: Callable[[pd.DataFrame], T], texts: str
) -> tuple[list[T], list[Damage]]:
    """As `analysis.tables.read_chunks`, of a Parquet file."""
    if find_spec("pyarrow") is None:
        raise RunError(f"{path.name}: reading it needs pyarrow, which is not installed: pip install pyarrow")
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            known = [column for column in columns if column.name in names]
            if missing := [name for name in required if name not in names]:
                raise RunError(f"{path.name}: no column {', '.join(missing)}; is it a run file?")
            batches = file.iter_batches(tables.CHUNK_ROWS, columns=[column.name for column in known])
            frames = (_typed(pa.Table.from_batches([batch]).to_pandas(), known, texts) for batch in batches)
            found = [reduce(tables.complete(frame, columns)) for frame in frames]
        return found, [Damage(*each) for each in read_notes(path).get("damages", [])]
    except (pa.ArrowException, OSError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"{path.name}: not readable as Parquet ({reason}); without it the CSV files are read") from None


def read_notes(path: Path) -> dict[str, Any]:
    """What the writer of a file told beside the rows."""
    from pyarrow import parquet

    metadata: Mapping[bytes, bytes] = parquet.read_schema(path).metadata or {}
    notes = json.loads(metadata.get(NOTES, b"{}"))
    return notes if isinstance(notes, dict) else {}


def _write(path: Path, frames: Iterator[pd.DataFrame], notes: Mapping[str, Any]) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    unfinished = path.with_suffix(".parquet.part")
    writer = None
    try:
        for frame in frames:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            table = table.replace_schema_metadata({NOTES: json.dumps(notes)})
            writer = writer or parquet.ParquetWriter(unfinished, table.schema, compression="zstd")
            writer.write_table(table)
        if writer is not None:
            writer.close()
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _typed(frame: pd.DataFrame, known: Sequence[Column], texts: str) -> pd.DataFrame:
    """The columns in the types that reading the CSV file would give."""
    done: dict[str, pd.Series[Any]] = {}
    for column in known:
        values = frame[column.name]
        if column.type == "bool":
            done[column.name] = values.map({True: "true", False: "false"}).astype("str")
        elif column.type == "str":
            done[column.name] = values.astype("category" if texts == "category" else "str")
        else:
            done[column.name] = values.astype(np.float64)
    return pd.DataFrame(done, index=frame.index)


def _name(file: str) -> str:
    return file.removesuffix(".csv") + ".parquet"


def _listed(damages: Iterable[Damage]) -> list[list[str | int]]:
    return [[damage.file, damage.line, damage.reason] for damage in damages]
