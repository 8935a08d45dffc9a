"""Requests from a file of prompts.

A row is told by its fields: `conversations` (ShareGPT), `body` (OpenAI batch), `messages` or `prompt`
(plain JSONL and CSV), each with an optional `max_tokens`.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, TypeGuard

from scenarios.clients.call import LLMRequest
from scenarios.spec import DatasetSpec, WorkloadSpec
from scenarios.workload.lengths import LengthSampler
from scenarios.workload.request import build_request
from scenarios.workload.rows import BadRow, LeftOut, Rows
from scenarios.workload.vocabulary import estimated_tokens, length_class

# Of a batch row's body: set by the run itself.
NOT_TAKEN_OVER = {"model", "stream", "stream_options", "messages", "prompt", "max_tokens", "max_completion_tokens"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One row: a prompt or a conversation so far, and how long its answer may be."""

    text: str = ""
    messages: list[dict[str, Any]] | None = None
    max_tokens: int | None = None
    extra_body: dict[str, Any] = field(default_factory=dict)

    def estimated_tokens(self) -> int:
        """About how long the prompt is."""
        texts = [self.text] if self.messages is None else [_content(each) for each in self.messages]
        return sum(estimated_tokens(text) for text in texts)


class DatasetRequests:
    """One worker's part of a dataset."""

    def __init__(self, spec: WorkloadSpec, dataset: DatasetSpec, seed: int, worker: int, workers: int) -> None:
        self._spec = spec
        self._outputs = LengthSampler(spec.output, Random(f"{seed}/{worker}/lengths"))
        self._rows = Rows(
            dataset.file,
            self._usable,
            worker=worker,
            workers=workers,
            repeat=dataset.repeat,
            max_bad_rows=dataset.max_bad_rows,
        )

    def next(self) -> LLMRequest:
        """The next row's request. WorkloadEnd after the last one."""
        sample, input_tokens, max_tokens = self._rows.next()
        return build_request(
            self._spec,
            text=sample.text,
            messages=sample.messages,
            max_tokens=max_tokens,
            length_class=length_class(input_tokens),
            extra_body=sample.extra_body,
        )

    def counts(self) -> dict[str, int]:
        """Rows by what became of them."""
        return self._rows.all_counts()

    def _usable(self, row: dict[str, Any]) -> tuple[Sample, int, int]:
        sample = parse_row(row)
        input_tokens = sample.estimated_tokens()
        max_tokens = sample.max_tokens or self._outputs.draw()
        if self._spec.context_tokens and input_tokens + max_tokens > self._spec.context_tokens:
            raise LeftOut(f"over context_tokens = {self._spec.context_tokens}")
        return sample, input_tokens, max_tokens


def parse_row(row: dict[str, Any]) -> Sample:
    """What a row of any of the formats asks for. BadRow where it does not say."""
    if "conversations" in row:
        return _sharegpt(row["conversations"])
    body = row.get("body", row)
    if not isinstance(body, dict):
        raise BadRow("body is no JSON object")
    max_tokens = _length(body.get("max_completion_tokens", body.get("max_tokens")))
    extra = {} if body is row else {key: value for key, value in body.items() if key not in NOT_TAKEN_OVER}
    messages, prompt = body.get("messages"), body.get("prompt")
    if isinstance(messages, list) and messages and all(_is_message(each) for each in messages):
        return Sample(messages=messages, max_tokens=max_tokens, extra_body=extra)
    if messages:
        raise BadRow("messages is no list of objects with a role")
    if _is_text(prompt):
        return Sample(text=prompt, max_tokens=max_tokens, extra_body=extra)
    raise BadRow("no prompt: a row needs prompt, messages, conversations or body")


def _sharegpt(turns: Any) -> Sample:
    """The first question and about the length of its recorded answer."""
    texts = [
        (str(turn.get("from") or turn.get("role")), turn.get("value") or turn.get("content"))
        for turn in (turns if isinstance(turns, list) else ())
        if isinstance(turn, dict)
    ]
    for (speaker, question), (_, answer) in pairwise(texts):
        if speaker in ("human", "user") and _is_text(question) and _is_text(answer):
            return Sample(text=question, max_tokens=estimated_tokens(answer))
    raise BadRow("no question with an answer: conversations needs a human turn and the next one")


def _length(value: Any) -> int | None:
    if value in (None, ""):
        return None
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)  # CSV cells are texts
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadRow(f"max_tokens is no length: found {str(value)[:40]!r}")
    return value


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _content(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
