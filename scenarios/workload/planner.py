"""What one worker sends: request after request, as the scenario's [workload] says.

When they are sent, and by whom, is for pacing and the users.
"""

from dataclasses import replace

from scenarios.clients.call import LLMRequest
from scenarios.spec import WorkloadSpec
from scenarios.workload.calibration import UNCALIBRATED, Calibration, Learner
from scenarios.workload.conversations import Conversation, Conversations
from scenarios.workload.dataset import DatasetRequests
from scenarios.workload.extras import Extras
from scenarios.workload.repeats import Repeats
from scenarios.workload.synthetic import SyntheticRequests
from scenarios.workload.traces import TraceRequests
from scenarios.workload.vocabulary import estimated_tokens


class Workload:
    """The requests of one worker of several. The same arguments give the same requests in the same order.

    Worker i of n takes row i, i + n, ... of a dataset or a trace; made-up prompts differ in any case.
    """

    def __init__(
        self, spec: WorkloadSpec, seed: int, worker: int, workers: int = 1, calibration: Calibration = UNCALIBRATED
    ) -> None:
        self._learner = Learner(calibration)
        self._repeats = Repeats()
        self._extras = Extras(spec, seed, worker)
        self._source: SyntheticRequests | DatasetRequests | TraceRequests
        if spec.dataset:
            self._source = DatasetRequests(spec, spec.dataset, seed, worker, workers)
        elif spec.trace:
            self._source = TraceRequests(spec, spec.trace, seed, worker, workers, self._learner)
        else:
            self._source = SyntheticRequests(spec, seed, worker, self._learner)
        self._conversations: Conversations | None = None
        if spec.conversation and isinstance(self._source, SyntheticRequests):
            self._conversations = Conversations(spec, spec.conversation, seed, worker, self._source)

    def for_user(self) -> "UserPlan":
        """The plan of one user; all users of a worker draw from the same workload."""
        return UserPlan(self, self._conversations)

    def next_request(self, planned_s: float | None = None) -> LLMRequest:
        """The next request, planned for an instant if an open loop says so. WorkloadEnd when a file is used up."""
        request = self._source.next()
        self._repeats.note(request.prompt)
        return replace(self._extras.on(request, self.next_model()), planned_s=planned_s)

    def next_model(self) -> str | None:
        """One of the scenario's model names by their weights; None where it is the run's only one."""
        return self._extras.next_model()

    def complete(self, request: LLMRequest, model: str | None) -> LLMRequest:
        """A conversation's turn with what all requests get; its model stays that of the conversation."""
        return self._extras.on(request, model)

    def next_timed(self) -> tuple[float, LLMRequest]:
        """The next request of a trace, with the seconds from the start of the load at which it is due."""
        assert isinstance(self._source, TraceRequests), "only a trace tells when"
        due_s, request = self._source.next_timed()
        self._repeats.note(request.prompt)
        return due_s, self._extras.on(request, self.next_model())

    def learn(self, request: LLMRequest, input_tokens: int | None) -> None:
        """An answer's usage has told how long the prompt was: later prompts are made to fit, if nobody knew before."""
        if input_tokens and request.input_tokens_requested and self._learner.learns:
            text = request.messages[-1]["content"] if request.messages else request.prompt
            self._learner.learn(estimated_tokens(text), input_tokens)

    def counts(self) -> dict[str, int]:
        """What was drawn or read, and what of it was cut, left out, bad or sent again."""
        return {**self._source.counts(), **self._repeats.counts()}


class UserPlan:
    """What one user sends: `next_request` and `answered` in turn. Only conversations belong to a user."""

    def __init__(self, workload: Workload, conversations: Conversations | None) -> None:
        self._workload = workload
        self._conversations = conversations
        self._conversation: Conversation | None = None
        self._model: str | None = None  # of the conversation

    def next_request(self) -> LLMRequest:
        """The next turn of the user's conversation, or of a new one; the worker's next request without any."""
        if self._conversations is None:
            return self._workload.next_request()
        request = self._conversation.next_request() if self._conversation else None
        while request is None:
            self._conversation = self._conversations.begin()
            self._model = self._workload.next_model()
            request = self._conversation.next_request()
        return self._workload.complete(request, self._model)

    def answered(self, request: LLMRequest, text: str | None, input_tokens: int | None) -> None:
        """What came back: the answer's text, None of a failed request, and the prompt's length by usage."""
        self._workload.learn(request, input_tokens)
        if self._conversation is not None:
            self._conversation.answered(text)
