"""Requests from recorded production load: Mooncake JSONL, BurstGPT CSV or Azure LLM inference CSV.

A trace tells lengths and instants, and Mooncake's also which blocks of a prompt are shared; the texts are
made up to that. The instants are kept for an open loop; whoever sends in a closed loop ignores them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from scenarios.clients.call import LLMRequest
from scenarios.spec import TraceSpec, WorkloadSpec
from scenarios.workload.calibration import Learner
from scenarios.workload.prompts import PromptMaker
from scenarios.workload.request import build_request
from scenarios.workload.rows import BadRow, LeftOut, NoMoreRows, Rows
from scenarios.workload.vocabulary import length_class

BLOCKS_KEPT = 4096  # texts of blocks, about 3 kB each


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One recorded request. `at_s` is in the trace's own time."""

    at_s: float
    input_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...] = ()


class TraceRequests:
    """One worker's part of a trace."""

    def __init__(
        self, spec: WorkloadSpec, trace: TraceSpec, seed: int, worker: int, workers: int, learner: Learner
    ) -> None:
        self._spec = spec
        self._trace = trace
        self._learner = learner
        self._origin_s = Rows(trace.file, parse_row, max_bad_rows=trace.max_bad_rows).next().at_s
        self._prompts = PromptMaker(f"{seed}/{worker}", spec.language)
        shared = PromptMaker(f"{seed}/shared", spec.language)
        self._block: Callable[[int, int], str] = lru_cache(BLOCKS_KEPT)(
            lambda hash_id, units: shared.text(f"block {hash_id}", units)
        )
        self._number = 0
        self._rows = Rows(
            trace.file,
            self._usable,
            worker=worker,
            workers=workers,
            repeat=trace.repeat,
            max_bad_rows=trace.max_bad_rows,
        )

    def next(self) -> LLMRequest:
        """The next recorded request. WorkloadEnd after the last one."""
        return self.next_timed()[1]

    def next_timed(self) -> tuple[float, LLMRequest]:
        """The next recorded request, with the seconds from the start of the load at which it is due."""
        row = self._rows.next()
        number, self._number = self._number, self._number + 1
        request = build_request(
            self._spec,
            text=self._text(number, row),
            max_tokens=row.output_tokens,
            length_class=length_class(row.input_tokens),
            input_tokens=row.input_tokens,
        )
        at_s = row.at_s + self._rows.rounds * (self._trace.length_s or 0.0)
        return at_s / self._trace.speed, request

    def counts(self) -> dict[str, int]:
        """Rows by what became of them."""
        return self._rows.all_counts()

    def _usable(self, row: Mapping[str, Any]) -> TraceRow:
        parsed = parse_row(row)
        at_s = parsed.at_s - self._origin_s - self._trace.start_s
        if at_s < 0:
            raise LeftOut("before start_s")
        if self._trace.length_s is not None and at_s >= self._trace.length_s:
            raise NoMoreRows  # traces are in order of time
        context = self._spec.context_tokens
        if context and parsed.input_tokens + parsed.output_tokens > context:
            raise LeftOut(f"over context_tokens = {context}")
        return TraceRow(at_s, parsed.input_tokens, parsed.output_tokens, parsed.hash_ids)

    def _text(self, number: int, row: TraceRow) -> str:
        """Whole shared blocks, then a rest; a prompt without hash ids is all its own."""
        units = self._learner.calibration.units(row.input_tokens)
        size = self._trace.block_tokens
        blocks = [self._block(each, size) for each in row.hash_ids[: max(0, (units - 1) // size)]]
        rest = units - len(blocks) * size
        if len(row.hash_ids) == len(blocks) + 1:
            return self._prompts.join(*blocks, self._block(row.hash_ids[-1], rest))
        return self._prompts.join(*blocks, self._prompts.text(number, rest))


def parse_row(row: Mapping[str, Any]) -> TraceRow:
    """A row of any of the formats, told by its fields. BadRow where a field is missing or no number."""
    if "input_length" in row:
        hash_ids = row.get("hash_ids") or ()
        if not isinstance(hash_ids, list | tuple) or not all(isinstance(each, int) for each in hash_ids):
            raise BadRow("hash_ids is no list of numbers")
        at_s = _number(row, "timestamp") / 1000
        return TraceRow(at_s, _length(row, "input_length"), _length(row, "output_length"), tuple(hash_ids))
    if "Request tokens" in row:
        return TraceRow(_number(row, "Timestamp"), _length(row, "Request tokens"), _length(row, "Response tokens"))
    if "ContextTokens" in row:
        return TraceRow(_instant(row, "TIMESTAMP"), _length(row, "ContextTokens"), _length(row, "GeneratedTokens"))
    raise BadRow("no trace row: it needs input_length, Request tokens or ContextTokens")


def _number(row: Mapping[str, Any], key: str) -> float:
    try:
        return float(row[key])
    except (KeyError, TypeError, ValueError):
        raise BadRow(f"{key} is no number: found {str(row.get(key))[:40]!r}") from None


def _length(row: Mapping[str, Any], key: str) -> int:
    length = int(_number(row, key))
    if length < 1:
        raise BadRow(f"{key} is below 1: found {length}")  # BurstGPT marks failed requests so
    return length


def _instant(row: Mapping[str, Any], key: str) -> float:
    try:
        return datetime.fromisoformat(str(row[key])).timestamp()
    except (KeyError, ValueError):
        raise BadRow(f"{key} is no date and time: found {str(row.get(key))[:40]!r}") from None
