"""A call whose exchange is measured: what all HTTP clients share between request and result.

The gRPC client has a call of its own, and takes from here how a decoded stream becomes a result.
"""

import time
from bisect import bisect_left
from collections.abc import Callable

from analysis.schema import ESTIMATED, STAMP_KERNEL, STAMP_READ
from scenarios.clients import outcome
from scenarios.clients.call import RequestResult, TokenEvent
from scenarios.clients.exchange import Exchange
from scenarios.clients.token_events import StreamDecoder


class MeasuredCall:
    """One request of an HTTP client, whose `send` runs the exchange. See `scenarios.clients.call.Call`.

    `streamed`: the answer comes as events. `in_one_piece`: it does so by one event with all of it.
    """

    def __init__(
        self,
        api: str,
        model: str,
        send: Callable[[Exchange], None],
        *,
        streamed: bool,
        in_one_piece: bool = False,
        cumulative: bool = False,
        secret: str = "",
        on_token: Callable[[TokenEvent], None] | None = None,
    ) -> None:
        self._api = api
        self._model = model
        self._send = send
        self._streamed = streamed
        self._in_one_piece = in_one_piece
        self._secret = secret
        self._on_token = on_token
        self._reported = 0
        self._finished = False
        self._decoder = StreamDecoder(api, cumulative=cumulative, keep_event_texts=on_token is not None)
        self._exchange = self._new_exchange()

    def _new_exchange(self) -> Exchange:
        on_tokens = self._report_tokens if self._on_token is not None else None
        return Exchange(self._decoder if self._streamed else None, on_tokens)

    def run(self) -> None:
        """Send the request and block until its stream has ended; faults of server and network are results."""
        self._exchange = exchange = self._new_exchange()  # the clock starts here, not where it was prepared
        try:
            self._send(exchange)
            self._finished = True
        except BaseException:
            self._finished = exchange.done  # killed while the connection was tidied up: nothing was cut off
            if not exchange.done:
                exchange.end_s = time.perf_counter()
            raise
        finally:
            response = exchange.response
            if self._finished and not self._streamed and 200 <= response.status < 300 and response.complete:
                self._decoder.feed_message(exchange.body)

    def _report_tokens(self) -> None:
        if self._on_token is not None and self._exchange.sent_s is not None:
            self._reported = report_tokens(self._decoder, self._exchange.sent_s, self._reported, self._on_token)

    def events_before(self, instant_s: float) -> int:
        """About how many token events arrived before an instant: those decoded, and pieces not decoded yet."""
        decoded_events = bisect_left(self._decoder.arrivals_s, instant_s)
        return decoded_events + self._exchange.response.pieces_before(instant_s)

    def result(self) -> RequestResult:
        """What is known now."""
        exchange, decoder, response = self._exchange, self._decoder, self._exchange.response
        if not self._finished and exchange.failure is None:
            exchange.consume()
        verdict = outcome.judge(exchange, decoder, self._api, streamed=self._streamed, finished=self._finished)
        result = result_of(
            decoder,
            verdict,
            api=self._api,
            model=self._model,
            started_s=exchange.started_s,
            sent_s=exchange.sent_s,
            end_s=exchange.end_s,
            secret=self._secret,
        )
        result.http_status = response.status or None
        result.retry_after_s = outcome.retry_after_s(response.headers.get("retry-after"))
        result.connect_ms = exchange.connect_ms
        result.streamed = self._streamed
        result.reads = response.reads
        result.coalesced_reads = decoder.coalesced_reads
        result.response_bytes = response.body_bytes
        result.connection_reused = exchange.reused
        result.stale_retries = exchange.stale_retries
        if response.headers_s is not None:
            result.headers_ms = (response.headers_s - result.sent_s) * 1000
        if response.reads:
            result.stamp = STAMP_READ if response.unstamped_reads else STAMP_KERNEL
            if result.stamp == STAMP_KERNEL:
                result.read_lag_max_ms = response.max_lag_s * 1000
        return without_token_times(result) if self._in_one_piece else result


def result_of(
    decoder: StreamDecoder,
    verdict: outcome.Verdict,
    *,
    api: str,
    model: str,
    started_s: float,
    sent_s: float | None,
    end_s: float | None,
    secret: str,
) -> RequestResult:
    """What verdict, decoder and the instants tell of a request; what its connection tells comes on top."""
    sent_s = sent_s if sent_s is not None else started_s
    end_s = end_s if end_s is not None else time.perf_counter()
    kind, error_class, error_text = verdict
    arrivals_ms = [(arrival_s - sent_s) * 1000 for arrival_s in decoder.arrivals_s]
    counts = decoder.event_counts()
    tokens = decoder.token_count()
    answer_s = decoder.first_answer_s
    return RequestResult(
        api=api,
        model=model,
        started_s=started_s,
        sent_s=sent_s,
        outcome=kind,
        e2e_ms=(end_s - sent_s) * 1000,
        error_class=error_class,
        error_text=outcome.tidy(error_text, secret),
        finish_reason=decoder.finish_reason,
        first_token_ms=arrivals_ms[0] if arrivals_ms else None,
        first_answer_ms=None if answer_s is None else (answer_s - sent_s) * 1000,
        last_token_ms=arrivals_ms[-1] if arrivals_ms else None,
        output_tokens=tokens.output,
        output_tokens_source=tokens.source,
        first_event_tokens=counts[0] if counts else None,
        input_tokens=tokens.input,
        cached_tokens=tokens.cached,
        reasoning_tokens=tokens.reasoning,
        token_arrivals_ms=arrivals_ms,
        token_counts=counts,
        token_channels=decoder.channels,
        text=decoder.text,
    )


def report_tokens(decoder: StreamDecoder, sent_s: float, reported: int, tell: Callable[[TokenEvent], None]) -> int:
    """Tell a live listener of the token events since the first `reported` ones; how many there are now."""
    while reported < len(decoder.arrivals_s):
        index = reported
        reported += 1
        arrival_ms = (decoder.arrivals_s[index] - sent_s) * 1000
        tell(TokenEvent(index, arrival_ms, decoder.counts[index], decoder.channels[index], decoder.event_texts[index]))
    return reported


def without_token_times(result: RequestResult) -> RequestResult:
    """The result of an answer that came in one piece although by a streaming API: it has text, but no token times."""
    if result.output_tokens_source == ESTIMATED:  # one event says nothing about the number of tokens
        result.output_tokens = result.output_tokens_source = None
    result.streamed = False
    result.first_token_ms = result.first_answer_ms = result.last_token_ms = result.first_event_tokens = None
    result.token_arrivals_ms, result.token_counts, result.token_channels = [], [], []
    return result
