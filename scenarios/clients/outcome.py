"""What became of a request: outcome, error class and text, from what the wire and the decoder saw.

Success needs a proper end (end mark, or a finish reason and a cleanly ended message) and at least one token
event. An error under HTTP 200 is a failure, whatever tokens came before it.
"""

import email.utils
import math
import re
import time
from datetime import UTC

from analysis.schema import CUT_OFF, EMPTY, FAILURE, SUCCESS
from scenarios.clients import payloads
from scenarios.clients.exchange import Exchange
from scenarios.clients.token_events import StreamDecoder

_MAX_TEXT = 500

Verdict = tuple[str, str | None, str | None]  # outcome, error class, error text

# The end of a stream of these APIs is the end of its body: they have no end mark and need no finish reason.
_ENDS_WITH_BODY = ("triton-generate",)


def judge(exchange: Exchange, decoder: StreamDecoder, api: str, *, streamed: bool, finished: bool) -> Verdict:
    """Outcome of a request whose `run` has returned (`finished`) or was broken off."""
    response = exchange.response
    if exchange.failure is not None:
        return (FAILURE, *exchange.failure)
    if not finished:
        return CUT_OFF, None, None
    if response.error and not response.status:
        return FAILURE, "protocol_error" if response.reads else "disconnected", response.error
    if not response.status:
        return FAILURE, "disconnected", "the server closed the connection without an answer"
    if not 200 <= response.status < 300:
        return FAILURE, f"http_{response.status}", error_text_of(exchange.body) or f"HTTP {response.status}"
    if decoder.error_text is not None:
        return FAILURE, "server_error_event", decoder.error_text
    if decoder.malformed is not None and streamed:
        return FAILURE, "protocol_error", decoder.malformed
    if not decoder.ended and (fault := _broken_end(exchange)):
        return (FAILURE, *fault)
    if not streamed:
        return _judge_message(decoder)
    return _judge_stream(exchange, decoder, api)


def _broken_end(exchange: Exchange) -> tuple[str, str] | None:
    response = exchange.response
    if response.error and "HTTP/1.1" in response.error:
        return "protocol_error", response.error
    if not response.complete or response.error:
        return "truncated_stream", response.error or "the connection was closed in the middle of the answer"
    if exchange.cut_in_encoding:
        return "truncated_stream", "the body ended in the middle of its compressed data"
    return None


def _judge_stream(exchange: Exchange, decoder: StreamDecoder, api: str) -> Verdict:
    tokens = len(decoder.arrivals_s)
    media_type = exchange.response.media_type
    if not decoder.events and media_type != "text/event-stream":
        start = error_text_of(exchange.body) or "an empty body"
        return FAILURE, "not_an_event_stream", f"content type {media_type or 'missing'}: {start}"
    if not decoder.events:
        return FAILURE, "no_events", "the stream ended without any event"
    if not decoder.ended and decoder.finish_reason is None and api not in _ENDS_WITH_BODY:
        return FAILURE, "truncated_stream", "the stream ended without a finish reason or an end mark"
    if tokens:
        return SUCCESS, None, None
    if decoder.finish_reason is None and decoder.token_count().source is None and api not in _ENDS_WITH_BODY:
        return FAILURE, "no_events", "the stream ended without any token, finish reason or usage"
    return EMPTY, None, None


def _judge_message(decoder: StreamDecoder) -> Verdict:
    if decoder.malformed is not None or decoder.finish_reason is None:
        return FAILURE, "protocol_error", decoder.malformed or "the answer holds no choice"
    if decoder.text or decoder.token_count().output:
        return SUCCESS, None, None
    return EMPTY, None, None


def error_text_of(body: bytes) -> str:
    """The server's own message in an error body of any shape; else the body's beginning."""
    text = body[:4000].decode("utf-8", "replace").strip()
    try:
        message = payloads.error_message(payloads.decode_any(body.strip().removeprefix(b"data:")))
    except payloads.NotJSON:
        message = ""
    return message or text


def tidy(text: str | None, secret: str = "") -> str | None:
    """One line of bounded length without keys."""
    if text is None:
        return None
    if len(secret) > 3:
        text = text.replace(secret, "***")
    text = re.sub(r"\b(sk-|Bearer\s+)[\w\-.]{6,}", r"\1***", text)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


_NORMAL_FORM = (
    (re.compile(r"https?://\S+"), "URL"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "ID"),
    (re.compile(r"\b(?:chatcmpl|cmpl|resp|req|call|msg)[-_][\w-]+"), "ID"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"), "ID"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "N"),
)


def normal_form(text: str) -> str:
    """The text without what differs from request to request, so that like errors are counted together."""
    for pattern, stand_in in _NORMAL_FORM:
        text = pattern.sub(stand_in, text)
    return " ".join(text.split())


def retry_after_s(value: str | None) -> float | None:
    """Retry-After in seconds from now: a number of seconds or an HTTP date."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        pass
    else:
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, date.timestamp() - time.time())
