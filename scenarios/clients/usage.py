"""How many tokens: the server's usage in its three forms (final, running, per event), and what to do without."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.schema import ESTIMATED, RUNNING_USAGE, USAGE
from scenarios.clients.payloads import Choice, Usage


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Output tokens of the request and how they are known; the prompt's counts where the server tells."""

    output: int | None
    source: str | None
    input: int | None
    cached: int | None
    reasoning: int | None


class UsageCounter:
    """Takes the usage of one stream. With `sums_events` the server counts each event instead of the request."""

    def __init__(self, *, sums_events: bool) -> None:
        self.running: bool | None = None  # does the server send running usage? unknown before its first sign
        self._sums_events = sums_events
        self._running_counts: dict[int, int] = {}  # highest completion_tokens by choice index
        self._with_finish = False  # the last running usage came with a finish reason: it is final
        self._final_counts: list[int] = []
        self._finished_choices: set[int] = set()
        self._last: Usage | None = None

    def grown(self, usage: Usage | None, choice: Choice, *, has_payload: bool) -> int | None:
        """By how many tokens running usage grew with this event; None where the payload decides."""
        count = usage.completion_tokens if usage is not None else None
        if self.running is None and (has_payload or count is not None):
            # Usage that comes only with the finish is final, not running: then payload makes the token events.
            self.running = count is not None and (has_payload or not choice.finish_reason)
        if usage is not None and (count is not None or usage.prompt_tokens is not None):
            self._last = usage
        if count is None:
            return None
        index = choice.index or 0
        known = self._running_counts.get(index, 0)
        self._running_counts[index] = max(known, count)
        self._with_finish = bool(choice.finish_reason)
        if not self.running or (has_payload and count == 0):
            return None
        return max(0, count - known)

    def finished(self, choice: Choice) -> None:
        """A choice has its finish reason."""
        self._finished_choices.add(choice.index or 0)

    def final(self, usage: Usage) -> None:
        """Usage outside of any choice."""
        self._last = usage
        if usage.completion_tokens is not None:
            self._final_counts.append(usage.completion_tokens)

    def count(self, event_counts: Sequence[int | None]) -> TokenCount:
        """The final count, else the last running one, else the number of token events."""
        output: int | None
        output, source = len(event_counts), ESTIMATED
        if self._final_counts:
            # Some servers send one usage event per choice, others may repeat the request's.
            per_choice = len(self._final_counts) == len(self._finished_choices) > 1
            output, source = (sum if per_choice else max)(self._final_counts), USAGE
        elif self._running_counts:
            output = sum(self._running_counts.values())
            complete = self._with_finish and self._finished_choices.issuperset(self._running_counts)
            source = USAGE if complete else RUNNING_USAGE
        elif self._sums_events and event_counts and None not in event_counts:
            output, source = sum(filter(None, event_counts)), USAGE
        usage = self._last or Usage()
        if output == 0 and source == ESTIMATED:
            return TokenCount(None, None, usage.prompt_tokens, None, None)
        prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
        return TokenCount(
            output,
            source,
            usage.prompt_tokens,
            prompt.cached_tokens if prompt else None,
            completion.reasoning_tokens if completion else None,
        )

    def checked(self, event_counts: list[int | None]) -> list[int | None]:
        """Tokens per token event, all unknown where they contradict the server's own sum."""
        if len(self._running_counts) < 2 or None in event_counts:
            return event_counts
        agree = sum(filter(None, event_counts)) == self.count(event_counts).output
        return event_counts if agree else [None] * len(event_counts)
