"""Fuzz of the way from socket bytes to token events: any split of the same bytes gives the same result, and no
bytes whatever crash it or keep it from ending. `pytest --hypothesis-profile` or FUZZ_EXAMPLES=100000 runs it for longer.
"""

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Any

import gevent
import pytest
import yaml
from httptools import HttpParserError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenarios.clients.access import EngineAccess
from scenarios.clients.call import LLMRequest
from scenarios.clients.factory import build_client
from scenarios.clients.response import Response
from scenarios.clients.sse import EventDecoder
from scenarios.clients.token_events import StreamDecoder
from tests.support.scripted_server import from_case

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases/sse.yaml").read_text())
APIS = ("chat", "completions", "responses", "triton-generate")
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))

quick = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])

bodies = st.sampled_from(
    [b"".join(data for _, data in from_case(case["repro"]).script if isinstance(data, bytes)) for case in CASES]
    + [recording.read_bytes() for recording in (Path(__file__).parents[1] / "wire").glob("*/*.raw")]
)
line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("choices", "delta", "content", "text", "usage", "error", "index", "finish_reason", "tool_calls", "reasoning")
MORE_KEYS = ("completion_tokens", "prompt_tokens", "token_ids", "type", "response", "text_output", "num_output_tokens")
odd_objects = st.recursive(
    json_values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS + MORE_KEYS), inner, max_size=5),
    max_leaves=20,
)


@st.composite
def pieces_of(draw: Any, data: bytes) -> list[bytes]:
    """The same bytes cut anywhere."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def events_of(pieces: list[bytes]) -> list[tuple[bytes, bytes]]:
    decoder = EventDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.finish()


def state_of(decoder: StreamDecoder) -> tuple[Any, ...]:
    decoder.finish(99.0)
    return (
        decoder.text,
        decoder.channels,
        decoder.event_counts(),
        decoder.token_count(),
        decoder.finish_reason,
        decoder.error_text,
        decoder.malformed,
        decoder.ended,
        decoder.events,
    )


@quick
@given(st.data(), bodies, line_ends)
def test_events_do_not_depend_on_how_the_bytes_are_cut(data: st.DataObject, body: bytes, end: bytes) -> None:
    body = body.replace(b"\r\n", b"\n").replace(b"\n", end)
    assert events_of(data.draw(pieces_of(body))) == events_of([body])
    assert events_of([body[i : i + 1] for i in range(len(body))][:4000]) == events_of([body[:4000]])


@quick
@given(st.data(), bodies, st.sampled_from(APIS))
def test_results_do_not_depend_on_how_the_bytes_are_cut(data: st.DataObject, body: bytes, api: str) -> None:
    pieces = data.draw(pieces_of(body))
    whole, many, single = (StreamDecoder(api, keep_event_texts=True) for _ in range(3))
    whole.feed(body, 1.0)
    many.feed_reads(pieces, [float(i) for i in range(len(pieces))])
    for i, piece in enumerate(pieces):
        single.feed(piece, float(i))
    assert (many.arrivals_s, many.event_texts) == (single.arrivals_s, single.event_texts)
    assert state_of(many) == state_of(single) == state_of(whole)


@quick
@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"data: ", b"\n\n", b"\r", b":", b"{}", b"[DONE]"])))
def test_random_bytes_end_in_no_exception(pieces: list[bytes]) -> None:
    for api in APIS:
        decoder = StreamDecoder(api)
        decoder.feed_reads(pieces, [float(i) for i in range(len(pieces))])
        state_of(decoder)


@quick
@given(st.lists(odd_objects, max_size=12))
def test_json_of_any_shape_ends_in_no_exception(values: list[Any]) -> None:
    import json

    lines = [b"data: " + json.dumps(value).encode() + b"\n\n" for value in values]
    for api in APIS:
        for cumulative in (False, True):
            decoder = StreamDecoder(api, cumulative=cumulative)
            decoder.feed_reads(lines, [float(i) for i in range(len(lines))])
            state_of(decoder)
        message = StreamDecoder(api)
        message.feed_message(json.dumps(values[0] if values else None).encode())
        state_of(message)


@quick
@given(st.data(), bodies)
def test_the_body_does_not_depend_on_its_framing(data: st.DataObject, body: bytes) -> None:
    sizes = data.draw(st.lists(st.integers(1, 400), min_size=1, max_size=6))
    framed, start, turn = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", 0, 0
    while start < len(body):
        part = body[start : start + sizes[turn % len(sizes)]]
        framed += b"%x\r\n%s\r\n" % (len(part), part)
        start, turn = start + len(part), turn + 1
    response = Response()
    for piece in data.draw(pieces_of(framed + b"0\r\n\r\n")):
        response.parse(piece)
    assert response.complete
    assert b"".join(response.take()[0]) == body


@quick
@given(st.lists(st.binary(max_size=60), max_size=8), st.binary(max_size=10))
def test_bytes_that_are_not_http_are_said_to_be_that(pieces: list[bytes], start: bytes) -> None:
    response = Response()
    for piece in [start, *pieces]:
        try:
            response.parse(piece)
        except HttpParserError as error:
            response.not_http(error)
            assert response.wake
            return


@pytest.fixture(scope="module")
def noise_port() -> Any:
    """A server that answers each connection with the next of some bytes, and closes."""
    noise: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock, contextlib.suppress(OSError):  # the client may have seen enough
                sock.recv(65536)
                sock.sendall(noise.pop())
                sock.shutdown(socket.SHUT_WR)
                sock.recv(65536)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1], noise
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"]),
    st.binary(max_size=200) | bodies,
)
def test_whatever_a_server_sends_the_client_ends_with_a_result(noise_port: Any, head: bytes, rest: bytes) -> None:
    port, noise = noise_port
    noise.append(head + rest)
    client = build_client("chat", f"http://127.0.0.1:{port}", "m", EngineAccess().within(5))
    call = client.call(LLMRequest(prompt="x"))
    with gevent.Timeout(10):
        call.run()
    result = call.result()
    assert result.outcome in ("success", "failure", "empty")
    assert (result.outcome == "failure") == (result.error_class is not None)
    assert result.error_class is None or not result.error_class.startswith("timeout")
    client.close()
