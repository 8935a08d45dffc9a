"""Custom Locust event hooks of an LLM call, on `environment.events`:

llm_request_started(user, request_id, request)
    Before anything is sent. `request` is an `LLMRequest`.
llm_token(user, request_id, event)
    For each token event as it arrives: a `TokenEvent` with index, arrival_ms (since sent), tokens, channel
    and text. Streams are decoded live only while this hook has listeners; without any it costs nothing.
llm_request_finished(user, request_id, request, result)
    Once per request, whatever became of it. `result` is a `RequestResult`.

Listeners run in the user's greenlet: a slow one delays its user's next request, not the measured times.
"""

from locust import events
from locust.event import EventHook

HOOKS = ("llm_request_started", "llm_token", "llm_request_finished")


def add_hooks() -> None:
    """Put the hooks on Locust's global events, so that `@events.llm_token.add_listener` works in a locustfile."""
    for name in HOOKS:
        if not hasattr(events, name):
            setattr(events, name, EventHook())


def has_listeners(found: EventHook) -> bool:
    """Whether anybody listens; a stream without listeners is decoded after its end."""
    return bool(found._handlers)  # noqa: SLF001  # Locust has no public way to ask


def hook(name: str) -> EventHook:
    """One of the hooks above."""
    found = getattr(events, name)
    assert isinstance(found, EventHook)
    return found


add_hooks()
