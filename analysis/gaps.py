"""The gaps between successive token events of a request: inter-token latency, stalls, and what they add up to.

The rows are walked through in stretches; only the gaps of the chosen requests are kept, as eight bytes each.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.metrics import Floats
from analysis.spool import Mask, Rows
from analysis.token_rows import TokenRows


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps between successive token events of the same request, ordered by request. A gap over a lost row is none."""

    ms: Floats
    code: NDArray[np.int32]  # the row number in `requests` of each
    ended_ms: Floats  # when it ended, since sent


@dataclass(frozen=True, slots=True)
class Pool:
    """All gaps of some requests together."""

    ordered_ms: Floats  # ascending; negative ones are refused
    refused: int
    # by request, for those that have a gap
    longest_ms: Floats
    code: NDArray[np.int32]
    sum_ms: Floats
    count: Floats


def between(rows: Rows) -> Gaps:
    """The gaps in a stretch of token rows."""
    code, index, arrival = rows.code, rows.index, rows.arrival_ms
    follows = (code[1:] == code[:-1]) & (index[1:] == index[:-1] + 1)
    return Gaps((arrival[1:] - arrival[:-1])[follows], code[1:][follows], arrival[1:][follows])


def itl_ms(tokens: TokenRows, chosen: Mask) -> Floats:
    """Inter-token latency: the single gaps between successive token events of each chosen request, pooled."""
    pooled, filled = _room(tokens, chosen), 0
    for rows in tokens.blocks(chosen):
        ms = between(rows).ms
        pooled[filled : filled + len(ms)] = ms
        filled += len(ms)
    return pooled[:filled]


def pool(tokens: TokenRows, chosen: Mask) -> Pool:
    """The gaps of the chosen requests, in order of length and by request."""
    pooled, filled, refused = _room(tokens, chosen), 0, 0
    by_request: list[tuple[Floats, NDArray[np.int32], Floats, Floats]] = []
    for rows in tokens.blocks(chosen):
        gaps = between(rows)
        if not len(gaps.ms):
            continue
        starts = np.flatnonzero(np.concatenate([[True], gaps.code[1:] != gaps.code[:-1]]))
        longest = np.maximum.reduceat(gaps.ms, starts)
        good = gaps.ms[gaps.ms >= 0] if gaps.ms.min() < 0 else gaps.ms
        sums = np.add.reduceat(np.maximum(gaps.ms, 0.0), starts)
        counts = np.add.reduceat((gaps.ms >= 0).astype(np.float64), starts)
        by_request.append((longest, gaps.code[starts], sums, counts))
        pooled[filled : filled + len(good)] = good
        filled += len(good)
        refused += len(gaps.ms) - len(good)
    ordered = pooled[:filled]
    ordered.sort()
    none = (np.zeros(0), np.zeros(0, dtype=np.int32), np.zeros(0), np.zeros(0))
    longest, code, sums, counts = (np.concatenate(part) for part in zip(*(by_request or [none]), strict=True))
    return Pool(ordered, refused, longest, code, sums, counts)


def _room(tokens: TokenRows, chosen: Mask) -> Floats:
    """Room for every gap that the chosen requests can have; what stays empty costs no memory."""
    return np.empty(int(np.diff(tokens.bounds)[chosen].sum()), dtype=np.float64)
