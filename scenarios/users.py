"""Locust User classes: plan -> prompt -> client -> recorder.

One task is one LLM call, and one LLM call fires exactly one Locust `request` event, so Locust's own
tables stay true. A subclass sets `api`, or overrides `call_engine` to send something else with `send`.
In an open loop one user per process hosts the arrivals; each of them is such a call.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import gevent
from locust import User, task
from locust.exception import StopUser

from analysis import schema
from scenarios import options
from scenarios.clients.call import LLMRequest, RequestResult, TokenEvent
from scenarios.clients.cancelling import Cancelled, cancelled_in_time, counting_down
from scenarios.recording.events import has_listeners, hook
from scenarios.running import session
from scenarios.workload.rows import WorkloadEnd

options.install()

GOLDEN_RATIO = 0.618034
STAGGER_S = 1.0  # Locust spawns in steps of a second
RETRY_AFTER_CAP_S = 60.0
NOTHING_SENT_PAUSE_S = 1.0


class LLMError(Exception):
    """What became of a request that is not a success, for Locust's failure table."""


class LLMUser(User):
    """A user who sends one streaming request after the other, as the scenario's workload plans them."""

    abstract = True
    api: str | None = None  # None: the scenario's

    def on_start(self) -> None:
        """Take a number and start staggered: users of one spawn step must not send as one."""
        self.session = session.under_way()
        self.session.user_count += 1
        self.number = self.session.user_count
        self.plan = self.session.workload.for_user()
        self.pause_s = 0.0
        self.session.make_clients(self.api or self.session.scenario.engine.api)  # the first request must not wait
        if self.session.arrivals is None:
            gevent.sleep(self.number * GOLDEN_RATIO % 1 * min(STAGGER_S, self.session.scenario.load.ramp_s))

    def wait_time(self) -> float:
        """The scenario's think time between two requests, or longer after some failures: see `pause_after_s`.

        The wait is Locust's own, so a stop ends it at once.
        """
        return max(self.session.scenario.load.think_time_s, self.pause_s)

    @task
    def one_call(self) -> None:
        """Locust's task. It is not the method to override: Locust would then run both of them.

        In an open loop it lasts until the run stops: this user hosts the arrivals of its process.
        """
        if self.session.arrivals is None:
            self.call_engine()
        else:
            self.session.arrivals.serve(self)

    def stop(self, force: bool = False) -> bool:
        """Locust stops this user: an open loop that it hosts starts nothing more."""
        arrivals = session.current.arrivals if session.current else None
        if arrivals is not None:
            arrivals.halt(self)
        stopped: bool = super().stop(force)
        return stopped

    def next_arrival(self) -> LLMRequest:
        """The request of the next arrival; what `call_engine` makes by itself has none to be made ahead."""
        return LLMRequest() if self._calls_by_itself else self.plan.next_request()

    def arrive(self, request: LLMRequest) -> None:
        """Send the request of an arrival that is due."""
        if self._calls_by_itself:
            gevent.getcurrent().planned_s = request.planned_s
            with suppress(StopUser):
                self.call_engine()
        else:
            self._call(request)

    @property
    def _calls_by_itself(self) -> bool:
        return type(self).call_engine is not LLMUser.call_engine

    def call_engine(self) -> None:
        """Send the workload's next request; a dataset that is used up ends the user."""
        try:
            request = self.plan.next_request()
        except WorkloadEnd as end:
            self.session.workload_end = str(end)
            raise StopUser from end
        self._call(request)

    def _call(self, request: LLMRequest) -> None:
        result = self.send(request)
        answer = result.text if result.outcome == schema.SUCCESS else None
        self.plan.answered(request, answer, result.input_tokens)

    def send(self, request: LLMRequest) -> RequestResult:
        """Send one request and record what became of it, also when this user is killed meanwhile."""
        recorder = self.session.recorder
        planned_s = request.planned_s if request.planned_s is not None else _planned_s_of_this_arrival()
        request_id = recorder.started(planned_s)
        headers = {**request.extra_headers, "X-Request-Id": self._global_id(request_id)}
        request = replace(request, planned_s=planned_s, extra_headers=headers)
        hook("llm_request_started").fire(user=self, request_id=request_id, request=request)
        host, client = self.session.client(self.api or self.session.scenario.engine.api, self.number)
        call = client.call(request, counting_down(request, self._listener(request_id)))
        self.session.live.started(request_id, call)
        cancelled = False
        try:
            with cancelled_in_time(request):
                call.run()
        except Cancelled:
            cancelled = True
        finally:
            result = call.result()
            if cancelled:
                result.error_class = schema.CANCELLED
            self.pause_s = pause_after_s(result, self.session.scenario.load.respect_retry_after)
            recorder.finished(request_id, self.number, request, result, host)
            self._tell(request_id, request, result)
        return result

    def _global_id(self, request_id: str) -> str:
        return f"{self.session.info.run_id}-{request_id}"

    def _listener(self, request_id: str) -> Callable[[TokenEvent], None] | None:
        tokens = hook("llm_token")
        if not has_listeners(tokens):
            return None
        return lambda event: tokens.fire(user=self, request_id=request_id, event=event)

    def _tell(self, request_id: str, request: LLMRequest, result: RequestResult) -> None:
        exception: Exception | None = None
        if result.outcome != schema.SUCCESS and result.error_class != schema.CANCELLED:
            exception = LLMError(f"{result.error_class or result.outcome}: {result.error_text or ''}".rstrip(": "))
        self.environment.events.request.fire(
            request_type=result.api,
            name=f"prompt {request.length_class}" if request.length_class else "prompt",
            response_time=result.e2e_ms,
            response_length=result.response_bytes,
            exception=exception,
            context=self.context(),
        )
        hook("llm_request_finished").fire(user=self, request_id=request_id, request=request, result=result)


def _planned_s_of_this_arrival() -> float | None:
    """When the arrival that this greenlet serves was due; of its first request only."""
    greenlet = gevent.getcurrent()
    planned_s: float | None = getattr(greenlet, "planned_s", None)
    if planned_s is not None:
        greenlet.planned_s = None
    return planned_s


def pause_after_s(result: RequestResult, respect_retry_after: bool) -> float:
    """How long a user leaves the engine alone after a failure, if at all.

    As long as the Retry-After of an overloaded engine says, within reason. And a second when nothing could be
    sent: without it, users of an engine that is down would fail thousands of times a second and do nothing else.
    """
    if result.outcome == schema.FAILURE and result.sent_s == result.started_s:
        return NOTHING_SENT_PAUSE_S
    if respect_retry_after and result.http_status in (429, 503):
        return min(result.retry_after_s or 0.0, RETRY_AFTER_CAP_S)
    return 0.0
