"""What one worker sends: request after request, as the scenario's [workload] says.

When they are sent, and by whom, is for pacing and the users.
"""

from dataclasses import replace

from scenarios.clients.call import LLMRequest
from scenarios.spec import WorkloadSpec
from scenarios.workload.calibration import UNCALIBRATED, Calibration, Learner
from scenarios.workload.dataset import DatasetRequests
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
        self._source: SyntheticRequests | DatasetRequests | TraceRequests
        if spec.dataset:
            self._source = DatasetRequests(spec, spec.dataset, seed, worker, workers)
        elif spec.trace:
            self._source = TraceRequests(spec, spec.trace, seed, worker, workers, self._learner)
        else:
            self._source = SyntheticRequests(spec, seed, worker, self._learner)

    def next_request(self, planned_s: float | None = None) -> LLMRequest:
        """The next request, planned for an instant if an open loop says so. WorkloadEnd when a file is used up."""
        request = self._source.next()
        return request if planned_s is None else replace(request, planned_s=planned_s)

    def next_timed(self) -> tuple[float, LLMRequest]:
        """The next request of a trace, with the seconds from the start of the load at which it is due."""
        assert isinstance(self._source, TraceRequests), "only a trace tells when"
        return self._source.next_timed()

    def learn(self, request: LLMRequest, input_tokens: int | None) -> None:
        """An answer's usage has told how long the prompt was: later prompts are made to fit, if nobody knew before."""
        if input_tokens and request.input_tokens_requested and self._learner.learns:
            text = request.messages[-1]["content"] if request.messages else request.prompt
            self._learner.learn(estimated_tokens(text), input_tokens)

    def counts(self) -> dict[str, int]:
        """What was drawn or read, and what of it was cut, left out, bad or sent again."""
        return self._source.counts()
