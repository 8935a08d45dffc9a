"""Gives a request up as its plan says: after so many tokens, or so long after its start."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gevent

from scenarios.clients.call import LLMRequest, TokenEvent

Listener = Callable[[TokenEvent], None]


class Cancelled(BaseException):
    """The request is given up. No `Exception`, so that no layer takes it for a fault of the server."""


def counting_down(request: LLMRequest, listener: Listener | None) -> Listener | None:
    """The listener of a request's token events, which raises `Cancelled` at the last token that is wanted."""
    if request.cancel_after_tokens is None:
        return listener
    left = request.cancel_after_tokens

    def on_token(event: TokenEvent) -> None:
        nonlocal left
        if listener is not None:
            listener(event)
        before, left = left, left - (1 if event.tokens is None else event.tokens)
        if before > 0 >= left:  # once: what had been read by then is decoded afterwards
            raise Cancelled

    return on_token


@contextmanager
def cancelled_in_time(request: LLMRequest) -> Iterator[None]:
    """What runs inside is ended by `Cancelled` when the request's time is over."""
    if request.cancel_after_ms is None:
        yield
        return
    with gevent.Timeout(request.cancel_after_ms / 1000, Cancelled()):
        yield
