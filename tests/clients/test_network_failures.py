"""What is said when the network fails, and when a time-out ends a request."""

import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import gevent
import pytest

from scenarios.clients.access import EngineAccess
from scenarios.clients.call import LLMRequest
from scenarios.clients.exchange import Timeouts
from scenarios.clients.factory import build_client
from tests.support.measuring import measure
from tests.support.scripted_server import (
    ABORT,
    DONE,
    RESET,
    Answer,
    ScriptedServer,
    chat_event,
    chat_stream,
    json_answer,
)


def test_a_refused_connection_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = measure(f"http://127.0.0.1:{port}")[0]
    assert (result.outcome, result.error_class) == ("failure", "connect")
    assert result.error_text == f"cannot connect to 127.0.0.1:{port}: connection refused"
    assert result.sent_s == result.started_s


def test_a_name_that_does_not_resolve_says_so() -> None:
    result = measure("http://no-such-host.invalid:8000")[0]
    assert result.error_class == "connect"
    assert result.error_text is not None
    assert result.error_text.startswith("cannot resolve host 'no-such-host.invalid'")


@pytest.mark.parametrize("how", [RESET, ABORT])
def test_a_connection_lost_in_the_middle_is_a_truncated_stream(how: str) -> None:
    with ScriptedServer(Answer([(10, chat_event("a")), (10, chat_event("b")), (10, how)])) as server:
        result = measure(server.url)[0]
    assert (result.outcome, result.error_class) == ("failure", "truncated_stream")
    assert len(result.token_arrivals_ms) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer([(0, b"SSH-2.0-OpenSSH_9.2\r\n")], raw=True),
        Answer([(0, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n")], raw=True),
        Answer([(5, b"data: {not json\n\n"), (5, DONE)]),
    ],
    ids=["no-http", "no-chunk-size", "no-json"],
)
def test_garbage_is_a_protocol_error(answer: Answer) -> None:
    with ScriptedServer(answer) as server:
        result = measure(server.url)[0]
    assert (result.outcome, result.error_class) == ("failure", "protocol_error")


def test_http_errors_keep_the_engines_message_and_its_retry_after() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    answers = [
        json_answer(429, {"error": {"message": "queue full"}}, **{"Retry-After": "277403"}),
        json_answer(503, {"detail": "starting"}, **{"Retry-After": later}),
        json_answer(400, {"object": "error", "message": "bad"}),
        Answer([(0, b"<h1>Bad Gateway</h1>")], 502, {"Content-Type": "text/html"}),
    ]
    with ScriptedServer(answers) as server:
        results = measure(server.url, times=4)
    assert [r.error_class for r in results] == ["http_429", "http_503", "http_400", "http_502"]
    assert [r.error_text for r in results] == ["queue full", "starting", "bad", "<h1>Bad Gateway</h1>"]
    assert [r.http_status for r in results] == [429, 503, 400, 502]
    assert results[0].retry_after_s == 277403
    assert results[1].retry_after_s == pytest.approx(90, abs=3)
    assert server.connections == 1


def test_nothing_is_sent_again_behind_the_users_back() -> None:
    busy = json_answer(503, {"error": "busy"})
    with ScriptedServer([busy, busy, chat_stream(100, 5, 3)]) as server:
        results = measure(server.url, times=3)
    assert [r.error_class for r in results] == ["http_503", "http_503", None]
    assert results[2].first_token_ms == pytest.approx(100, abs=30 + server.requests[2].late_ms)
    assert len(server.requests) == 3


def test_no_file_descriptor_left_is_a_class_of_its_own() -> None:
    code = (
        "import gevent, resource, socket\n"
        "from scenarios.clients.call import LLMRequest\n"
        "from scenarios.clients.factory import build_client\n"
        "client = build_client('chat', 'http://127.0.0.1:9', 'm')\n"
        "gevent.sleep(0)\n"  # makes the event loop
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "held = []\n"
        "try:\n"
        "    while True: held.append(socket.socket())\n"
        "except OSError: pass\n"
        "call = client.call(LLMRequest(prompt='x')); call.run(); print(call.result().error_class)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["fd_limit"], done.stderr


@pytest.mark.parametrize(
    ("timeouts", "error_class", "after_ms", "tokens"),
    [
        (Timeouts(first_token_s=0.1), "timeout_first_token", 100, 0),
        (Timeouts(gap_s=0.15), "timeout_gap", 300 + 50 + 150, 2),
        (Timeouts(total_s=0.325), "timeout_total", 325, 1),
    ],
)
def test_each_limit_has_its_class(timeouts: Timeouts, error_class: str, after_ms: float, tokens: int) -> None:
    script = [(2, chat_event("", role="assistant")), (298, chat_event("a")), (50, chat_event("b")), (2000, DONE)]
    with ScriptedServer(Answer(script)) as server:
        result = measure(server.url, timeouts=timeouts)[0]
    assert (result.outcome, result.error_class, len(result.token_arrivals_ms)) == ("failure", error_class, tokens)
    assert result.e2e_ms == pytest.approx(after_ms, abs=60)


def test_comments_do_not_count_as_tokens_for_the_gap() -> None:
    with ScriptedServer(Answer([(5, chat_event("a")), *[(50, b": ping\n\n")] * 20])) as server:
        result = measure(server.url, timeouts=Timeouts(gap_s=0.3))[0]
    assert result.error_class == "timeout_gap"


def test_a_long_stream_passes_when_its_gaps_are_short() -> None:
    with ScriptedServer(chat_stream(50, 100, 12)) as server:
        result = measure(server.url, timeouts=Timeouts(connect_s=0.3, first_token_s=0.5, gap_s=0.5, total_s=None))[0]
    assert (result.outcome, result.output_tokens) == ("success", 12)


def test_a_host_that_does_not_answer_is_a_connect_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, socket.socket() as filler:
        filler.connect(listener.getsockname())  # the queue is full now: the next one gets no answer
        second = socket.socket()
        second.setblocking(False)
        second.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        result = measure(url, timeouts=Timeouts(connect_s=0.2))[0]
        second.close()
    assert result.error_class == "timeout_connect"
    assert result.connect_ms == pytest.approx(200, abs=80)


def test_a_busy_client_does_not_take_unread_tokens_for_a_silent_server() -> None:
    with ScriptedServer(chat_stream(30, 30, 10)) as server:
        client = build_client("chat", server.url, "m", EngineAccess(timeouts=Timeouts(first_token_s=0.2)))
        call = client.call(LLMRequest(prompt="x"))
        job = gevent.spawn(call.run)
        while not server.requests:
            gevent.sleep(0.002)
        time.sleep(0.6)  # the whole process stands still, longer than the limit
        job.join()
        result = call.result()
        client.close()
    assert result.outcome == "success"
    assert result.stamp == "kernel"
    # the kernel joins what nobody reads: the time of its last segment survives, and the result says so
    assert result.last_token_ms == pytest.approx(300, abs=30 + server.requests[0].late_ms)
    assert result.read_lag_max_ms is not None
    assert result.read_lag_max_ms > 200
    assert result.coalesced_reads >= 1
