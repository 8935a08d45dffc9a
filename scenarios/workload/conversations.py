"""Conversations: each request carries the whole history, with the answers that the engine really gave.

Who waits how long between two turns is the user's business.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from scenarios.clients.call import LLMRequest
from scenarios.spec import ConversationSpec, WorkloadSpec
from scenarios.workload.lengths import LengthSampler
from scenarios.workload.request import build_request
from scenarios.workload.synthetic import SyntheticRequests
from scenarios.workload.vocabulary import estimated_tokens

# Length classes, so that a report tells the first turn's TTFT from the others': those can come from the cache.
FIRST_TURN = "turn 1"
LATER_TURNS = "turn 2+"


class Conversations:
    """The conversations of one worker."""

    def __init__(
        self, spec: WorkloadSpec, conversation: ConversationSpec, seed: int, worker: int, source: SyntheticRequests
    ) -> None:
        rng = Random(f"{seed}/{worker}/conversations")
        self._spec = spec
        self._source = source
        self._turns = LengthSampler(conversation.turns, rng)
        self._later_inputs = LengthSampler(conversation.later_input, rng) if conversation.later_input else None

    def begin(self) -> "Conversation":
        """A new one."""
        return Conversation(self._spec, self._turns.draw(), self._source.next, self._later_question)

    def _later_question(self) -> tuple[str, int]:
        return self._source.question(self._later_inputs.draw() if self._later_inputs else None)


class Conversation:
    """One conversation under way: `next_request` and `answered` in turn."""

    def __init__(
        self,
        spec: WorkloadSpec,
        turns: int,
        first_request: Callable[[], LLMRequest],
        later_question: Callable[[], tuple[str, int]],
    ) -> None:
        self._spec = spec
        self._turns_left = turns
        self._first_request = first_request
        self._later_question = later_question
        self._history: list[Mapping[str, Any]] = []
        self._extra_body: Mapping[str, Any] = {}  # of its class of the mix

    def next_request(self) -> LLMRequest | None:
        """The request of the next turn; None when the conversation is over."""
        if self._turns_left == 0:
            return None
        self._turns_left -= 1
        return self._later_turn() if self._history else self._first_turn()

    def answered(self, text: str | None) -> None:
        """What the engine answered. Without an answer there is nothing to go on with."""
        if text:
            self._history.append({"role": "assistant", "content": text})
        else:
            self._turns_left = 0

    def _first_turn(self) -> LLMRequest:
        planned = self._first_request()
        self._extra_body = planned.extra_body
        self._history = [*(planned.messages or [_question(planned.prompt)])]
        return build_request(
            self._spec,
            messages=[*self._history],
            max_tokens=planned.max_tokens or 1,
            length_class=FIRST_TURN,
            input_tokens=planned.input_tokens_requested,
            extra_body=self._extra_body,
        )

    def _later_turn(self) -> LLMRequest | None:
        text, max_tokens = self._later_question()
        self._history.append(_question(text))
        context = self._spec.context_tokens
        if context and max_tokens + sum(estimated_tokens(each["content"]) for each in self._history) > context:
            self._turns_left = 0  # the history has outgrown the model
            return None
        return build_request(
            self._spec,
            messages=[*self._history],
            max_tokens=max_tokens,
            length_class=LATER_TURNS,
            extra_body=self._extra_body,
        )


def _question(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}
