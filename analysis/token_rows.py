"""The token rows of a run, ordered by request and index, in compact columns that lie on disk where they are many.

A run of a hundred million token events then needs memory for a stretch of them at a time. What is made of the rows
is left to `analysis.gaps` and `analysis.windows`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import schema
from analysis.spool import TYPES, Mask, Rows, Spool
from analysis.tables import Damage, read_chunks

BLOCK_ROWS = 2_000_000  # token rows that are worked on at a time
MOST = 1e9  # an instant (in ms: eleven days) or a number beyond this is damage


class TokenRows:
    """Each (request, index) once, ordered by them; request r has the rows `bounds[r]` to `bounds[r + 1]`."""

    def __init__(self, ids: pd.Index, spool: Spool, bounds: NDArray[np.int64]) -> None:
        self.bounds = bounds
        self._ids = ids
        self._spool = spool

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def of(self, request: int) -> Rows:
        """The rows of one request."""
        return self._spool.read(int(self.bounds[request]), int(self.bounds[request + 1]))

    def blocks(self, chosen: Mask) -> Iterator[Rows]:
        """The rows of the chosen requests in their order, about `BLOCK_ROWS` at a time, each request as a whole."""
        for first, last in stretches(self.bounds):
            among = np.flatnonzero(chosen[first:last])
            if not len(among):
                continue
            low, high = first + int(among[0]), first + int(among[-1]) + 1
            rows = self._spool.read(int(self.bounds[low]), int(self.bounds[high]))
            if len(among) < high - low:
                rows = rows.take(chosen[rows.code])
            if len(rows.code):
                yield rows

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All rows as a DataFrame, in memory: about 25 bytes a row."""
        return self._framed(self._spool.read(0, len(self)))

    def frames(self) -> Iterator[pd.DataFrame]:
        """The same in stretches of about `BLOCK_ROWS` rows."""
        return (self._framed(rows) for rows in self.blocks(np.ones(len(self.bounds) - 1, dtype=bool)))

    def _framed(self, rows: Rows) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "request_id": pd.Categorical.from_codes(rows.code, categories=self._ids),
                "index": rows.index,
                "arrival_ms": rows.arrival_ms,
                "tokens": rows.tokens,
                "channel": pd.Categorical.from_codes(rows.channel, categories=pd.Index(schema.CHANNELS)),
            }
        )


def read_token_rows(files: Sequence[Path], ids: pd.Index, damages: list[Damage]) -> tuple[TokenRows, int]:
    """The rows of token files whose request is among `ids`, and how many name another."""
    spool = Spool()
    parts: list[_Part] = []
    noted = 0
    for file in files:
        found, refused = read_chunks(
            file,
            schema.TOKEN_COLUMNS,
            ("request_id", "index", "arrival_ms"),
            lambda frame: _spooled(spool, _compact(frame, ids)),
            texts="category",
        )
        parts += found
        damages += refused
        noted += _noted_orphans(file)
    counts = np.zeros(len(ids), dtype=np.int64)
    for part in parts:
        counts[part.first : part.first + len(part.counts)] += part.counts
    orphans = noted + sum(part.orphans for part in parts)
    if _in_order(parts):
        return TokenRows(ids, spool, _bounds(counts)), orphans
    return _ordered(ids, spool, parts, counts), orphans


def _noted_orphans(file: Path) -> int:
    """Token rows without a request that were left out when a Parquet file was written."""
    if file.suffix != ".parquet":
        return 0
    from analysis import parquet

    return int(parquet.read_notes(file).get("orphan_tokens", 0))


@dataclass(frozen=True, slots=True)
class _Part:
    """A chunk of a file as it lies in the spool."""

    start: int
    stop: int
    orphans: int
    first: int  # the lowest row number of a request
    counts: NDArray[np.int64]  # rows of that request and those after it
    lowest: int  # keys of the first and last row; None are out of order when `ordered`
    highest: int
    ordered: bool


def _spooled(spool: Spool, rows: Rows) -> _Part:
    start, stop = spool.append(rows)
    key = rows.key()
    known = rows.code[rows.code >= 0]
    first = int(known.min()) if len(known) else 0
    return _Part(
        start=start,
        stop=stop,
        orphans=len(rows.code) - len(known),
        first=first,
        counts=np.bincount(known - first) if len(known) else np.zeros(0, dtype=np.int64),
        lowest=int(key[0]) if len(key) else 0,
        highest=int(key[-1]) if len(key) else 0,
        ordered=len(known) == len(key) and bool((key[1:] > key[:-1]).all()),
    )


def _in_order(parts: Sequence[_Part]) -> bool:
    """Whether the rows lie in one piece and as they shall: so they do where workers ship whole requests."""
    filled = [part for part in parts if part.stop > part.start]
    if not all(part.ordered for part in filled) or (filled and filled[0].start):
        return False
    return all(before.highest < after.lowest and before.stop == after.start for before, after in pairwise(filled))


def _ordered(ids: pd.Index, spool: Spool, parts: Sequence[_Part], counts: NDArray[np.int64]) -> TokenRows:
    """The rows of a spool in their order: one stretch of requests after the other is gathered and sorted."""
    done, kept = Spool(), np.zeros(len(counts), dtype=np.int64)
    for first, last in stretches(_bounds(counts)):
        gathered = []
        for part in parts:
            if part.first < last and part.first + len(part.counts) > first:
                rows = spool.read(part.start, part.stop)
                gathered.append(rows.take((rows.code >= first) & (rows.code < last)))
        if not gathered:
            continue
        rows = Rows(*(np.concatenate([getattr(part, name) for part in gathered]) for name in TYPES))
        key = rows.key()
        order = np.argsort(key, kind="stable")
        key = key[order]
        rows = rows.take(order[np.concatenate([[True], key[1:] != key[:-1]])] if len(key) else order)
        kept[first:last] = np.bincount(rows.code - first, minlength=last - first)
        done.append(rows)
    return TokenRows(ids, done, _bounds(kept))


def _bounds(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def stretches(bounds: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Requests, from and up to, that have about `BLOCK_ROWS` rows together."""
    first, requests = 0, len(bounds) - 1
    while first < requests:
        last = int(np.searchsorted(bounds, bounds[first] + BLOCK_ROWS, side="right")) - 1
        last = min(max(last, first + 1), requests)
        yield first, last
        first = last


def _compact(frame: pd.DataFrame, ids: pd.Index) -> Rows:
    """A chunk of token rows in small types: a request is its row number, -1 when requests.csv lacks it."""
    names = frame["request_id"].astype("category")
    rows = ids.get_indexer(names.cat.categories)
    index, arrival = frame["index"].to_numpy(), frame["arrival_ms"].to_numpy()
    tokens = frame["tokens"].to_numpy()
    good = (names.cat.codes.to_numpy() >= 0) & (arrival >= 0) & (arrival < MOST) & (index >= 0) & (index < MOST)
    channels = frame["channel"].astype("category")
    channel = pd.Index(schema.CHANNELS).get_indexer(channels.cat.categories)
    return Rows(
        _taken(rows, names.cat.codes.to_numpy(), good).astype(np.int32),
        np.where(good, index, -1).astype(np.int32),
        arrival,
        np.where((tokens >= 0) & (tokens < MOST), tokens, np.nan).astype(np.float32),
        _taken(channel, channels.cat.codes.to_numpy(), good).astype(np.int8),
    )


def _taken(values: np.ndarray, codes: np.ndarray, good: np.ndarray) -> np.ndarray:
    """The value of each category code; -1 where the row is not good or has no category."""
    return np.where(good & (codes >= 0), values.take(codes), -1) if len(values) else np.full(len(codes), -1)
