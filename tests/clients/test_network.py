"""What lies below the stream: connections, time-outs, TLS, proxies, compression, and what is said when they fail."""

import gzip
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import gevent
import pytest
import trustme

from scenarios.clients.access import EngineAccess
from scenarios.clients.call import LLMRequest, RequestResult, TokenEvent
from scenarios.clients.exchange import Timeouts
from scenarios.clients.factory import build_client, list_models
from scenarios.clients.stamps import COUNTERS
from scenarios.clients.tokenize import prompt_counter
from tests.support.scripted_server import (
    ABORT,
    DONE,
    RESET,
    Answer,
    ScriptedServer,
    chat_event,
    chat_stream,
    event,
    json_answer,
)

QUICK = chat_stream(ttft_ms=20, gap_ms=5, tokens=4)
SOON = Timeouts(connect_s=5, first_token_s=5, gap_s=5, total_s=None)


def measure(url: str, *, request: LLMRequest | None = None, times: int = 1, **options: Any) -> list[RequestResult]:
    client = build_client("chat", url, "m", EngineAccess(**{"timeouts": SOON, "proxies": {}, **options}))
    results = []
    for _ in range(times):
        call = client.call(request or LLMRequest(prompt="x", max_tokens=4))
        call.run()
        results.append(call.result())
    client.close()
    return results


def many(url: str, users: int, each: int = 1, pause_s: float = 0, **options: Any) -> list[RequestResult]:
    """So many users at once over one client."""
    client = build_client("chat", url, "m", EngineAccess(proxies={}, **options))
    results = []

    def user() -> None:
        for _ in range(each):
            call = client.call(LLMRequest(prompt="x"))
            call.run()
            results.append(call.result())
            gevent.sleep(pause_s)

    gevent.joinall([gevent.spawn(user) for _ in range(users)], raise_error=True)
    client.close()
    return results


def lateness_ms(server: ScriptedServer, results: list[RequestResult]) -> float:
    """How long the server, on a busy machine, took to see a request and was late with its answer, at most."""
    sent_s = sorted(r.sent_s for r in results)
    seen_s = sorted(seen.at_s for seen in server.requests)
    to_see_ms = max((seen - sent) * 1000 for seen, sent in zip(seen_s, sent_s, strict=True))
    return to_see_ms + max(seen.late_ms for seen in server.requests)


# ---------------------------------------------------------------------- connections


def test_a_connection_is_used_again_and_its_set_up_is_not_latency() -> None:
    with ScriptedServer(QUICK) as server:
        first, *later = measure(server.url, times=4)
    assert server.connections == 1
    assert first.connect_ms > 0
    assert not first.connection_reused
    assert [r.connect_ms for r in later] == [0, 0, 0]
    assert all(r.connection_reused for r in later)


def test_one_connection_per_request_where_asked_for() -> None:
    with ScriptedServer(QUICK) as server:
        results = measure(server.url, times=3, reuse_connections=False)
    assert server.connections == 3
    assert all(r.connect_ms > 0 for r in results)


def test_150_users_are_150_requests_at_once() -> None:
    with ScriptedServer(Answer([(1000, chat_event("x", "stop")), (0, DONE)])) as server:
        results = many(server.url, 150)
    assert server.peak_in_flight == 150
    assert {r.outcome for r in results} == {"success"}
    assert max(r.e2e_ms for r in results) < 1000 + 200 + lateness_ms(server, results)


def test_an_idle_connection_that_the_server_closed_fails_no_request() -> None:
    with ScriptedServer(chat_stream(100, 10, 3), idle_close_s=0.2) as server:
        results = many(server.url, 5, each=4, pause_s=0.205)  # right at the edge of being closed
    assert {r.outcome for r in results} == {"success"}
    assert sum(r.stale_retries for r in results) == server.connections - 5
    assert all(r.first_token_ms is not None and r.first_token_ms < 200 for r in results)


def test_a_connection_that_dies_without_an_answer_is_replaced_once() -> None:
    answers = [QUICK, Answer([(30, ABORT)], raw=True), QUICK, Answer([(0, ABORT)], raw=True)]
    with ScriptedServer(answers) as server:
        client = build_client("chat", server.url, "m")
        results = []
        for _ in range(2):
            call = client.call(LLMRequest(prompt="x"))
            call.run()
            results.append(call.result())
        client.close()
        fresh = measure(server.url)[0]
    first, second = results
    assert (first.outcome, second.outcome) == ("success", "success")
    assert (second.stale_retries, second.connection_reused, second.connect_ms > 0) == (1, False, True)
    assert second.first_token_ms is not None
    assert second.first_token_ms < 20 + 30  # from the second sending
    assert (second.sent_s - second.started_s) * 1000 >= 30  # the lost time
    # a new connection that dies is a failure: nobody sends a request twice behind the user's back
    assert (fresh.outcome, fresh.error_class, fresh.stale_retries) == ("failure", "disconnected", 0)


def test_bytes_after_the_end_mark_are_read_away_and_the_connection_goes_on() -> None:
    tail = Answer([*QUICK.script, (20, b": bye\n\n")])
    with ScriptedServer(tail) as server:
        results = measure(server.url, times=3)
    assert server.connections == 1
    assert all(r.e2e_ms < 20 + 15 + 15 + seen.late_ms for r, seen in zip(results, server.requests, strict=True))


def test_a_server_that_holds_the_stream_open_holds_up_nobody() -> None:
    with ScriptedServer(Answer([*QUICK.script, (3000, b": bye\n\n")])) as server:
        start_s = time.perf_counter()
        results = measure(server.url, times=3)
        took_s = time.perf_counter() - start_s
    assert {r.outcome for r in results} == {"success"}
    assert took_s < 2


def test_the_request_is_handed_over_whole_when_it_is_large() -> None:
    request = LLMRequest(prompt="x" * 3_000_000)
    with ScriptedServer(QUICK) as server:
        result = measure(server.url, request=request)[0]
    assert result.outcome == "success"
    assert len(server.requests[0].json["messages"][0]["content"]) == 3_000_000
    assert result.first_token_ms is not None
    assert result.first_token_ms < 20 + 100  # sent is when its last byte went


# ---------------------------------------------------------------------- failures of the network


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


# ---------------------------------------------------------------------- time-outs


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


# ---------------------------------------------------------------------- ending a request from outside


def test_a_killed_request_is_cut_off_and_keeps_what_it_had() -> None:
    with ScriptedServer(chat_stream(10, 20, 100)) as server:
        client = build_client("chat", server.url, "m")
        call = client.call(LLMRequest(prompt="x"))
        assert call.result().outcome == "cut_off"  # nothing sent yet
        job = gevent.spawn(call.run)
        gevent.sleep(0.2)
        underway = call.result()
        job.kill()
        result = call.result()
        deadline_s = time.perf_counter() + 2
        while server.in_flight and time.perf_counter() < deadline_s:
            gevent.sleep(0.01)
        assert server.in_flight == 0  # the connection was closed: the server need not go on
        client.close()
    assert isinstance(job.value, gevent.GreenletExit)
    assert (underway.outcome, result.outcome) == ("cut_off", "cut_off")
    assert 5 <= len(result.token_arrivals_ms) <= 11
    assert result.e2e_ms == pytest.approx(200, abs=80)
    assert result.output_tokens_source == "estimated"


def test_live_tokens_are_those_of_the_result() -> None:
    seen: list[tuple[float, TokenEvent]] = []
    with ScriptedServer(chat_stream(50, 20, 5)) as server:
        client = build_client("chat", server.url, "m")
        call = client.call(LLMRequest(prompt="x"), lambda token: seen.append((time.perf_counter(), token)))
        call.run()
        client.close()
    result = call.result()
    assert [token.text for _, token in seen] == [" t0", " t1", " t2", " t3", " t4"]
    assert [token.arrival_ms for _, token in seen] == result.token_arrivals_ms
    assert [token.index for _, token in seen] == [0, 1, 2, 3, 4]
    told_after_ms = [(told_s - result.sent_s) * 1000 - token.arrival_ms for told_s, token in seen]
    assert max(told_after_ms) < 30  # told when it came, not at the end


# ---------------------------------------------------------------------- TLS, proxies, IPv6


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def tls_of(ca: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    return context


def test_tls_is_set_up_once_and_apart_from_latency(ca: trustme.CA) -> None:
    slow = ScriptedServer(chat_stream(100, 10, 5), tls=tls_of(ca, "127.0.0.1"), accept_delay_s=0.08)
    with ca.cert_pem.tempfile() as ca_file, slow as server:
        results = many(server.url, 4, each=5, ca_file=ca_file)
    assert {r.outcome for r in results} == {"success"}
    late_ms = lateness_ms(server, results)
    connected = [r.connect_ms for r in results if r.connect_ms > 0]
    # an answer whose last chunk comes late keeps its connection busy: the next request takes a new one
    assert len(connected) == server.connections
    assert len(connected) == 4 or late_ms > 30
    assert min(connected) >= 80
    assert all(r.first_token_ms == pytest.approx(100, abs=20 + late_ms) for r in results)
    assert {r.stamp for r in results} == {"kernel"}  # of the segment that completed the TLS record


def test_certificates_are_checked_unless_told_not_to(ca: trustme.CA) -> None:
    with ScriptedServer(QUICK, tls=tls_of(ca, "127.0.0.1")) as server:
        refused = measure(server.url)[0]
        taken = measure(server.url, verify=False)[0]
        with ca.cert_pem.tempfile() as ca_file:
            other_name = measure(server.url.replace("127.0.0.1", "localhost"), ca_file=ca_file)[0]
    assert (refused.error_class, other_name.error_class) == ("tls", "tls")
    assert refused.error_text is not None
    assert "unable to get local issuer certificate" in refused.error_text
    assert taken.outcome == "success"


def test_https_to_a_plain_server_is_a_tls_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        result = measure(f"https://127.0.0.1:{listener.getsockname()[1]}", verify=False)[0]
        thread.join()
    assert result.error_class == "tls"
    assert result.error_text is not None
    assert "WRONG_VERSION_NUMBER" in result.error_text


def test_events_over_ipv6() -> None:
    with ScriptedServer(QUICK, host="::1") as server:
        assert measure(server.url)[0].outcome == "success"
    assert server.requests[0].headers["host"] == f"[::1]:{server.port}"


@contextmanager
def http_proxy(*arguments: str) -> Iterator[str]:
    import proxy

    with proxy.Proxy(
        ["--hostname", "127.0.0.1", "--port", "0", "--num-workers", "1", "--log-level", "ERROR", *arguments]
    ) as p:
        yield f"127.0.0.1:{p.flags.port}"


def test_proxies_come_from_the_environment(ca: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        http_proxy("--basic-auth", "user:pass") as proxy,
        ScriptedServer(QUICK) as plain,
        ScriptedServer(QUICK, tls=tls_of(ca, "0.0.0.0")) as tls,
        ca.cert_pem.tempfile() as ca_file,
    ):
        # leads here too, and is no loopback address, for which there are no proxies
        plain_url, tls_url = (each.url.replace("127.0.0.1", "0.0.0.0") for each in (plain, tls))
        for variable in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(variable, f"http://user:pass@{proxy}")
        for variable in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(variable, "")
        through = measure(plain_url, proxies=None, times=2)
        tunnelled = measure(tls_url, proxies=None, ca_file=ca_file)[0]
        monkeypatch.setenv("https_proxy", f"http://{proxy}")
        unknown = measure(tls_url, proxies=None, ca_file=ca_file)[0]
        monkeypatch.setenv("no_proxy", "0.0.0.0")
        direct = measure(plain_url, proxies=None)[0]
        named = measure(plain.url, proxies={"http": f"http://user:pass@{proxy}"})[0]
    assert [r.outcome for r in (*through, tunnelled, direct, named)] == ["success"] * 5
    first, _, without, by_hand = plain.requests
    assert ["via" in seen.headers for seen in (first, without, by_hand)] == [True, False, True]
    assert "proxy-authorization" not in plain.requests[0].headers
    assert unknown.error_class == "connect"
    assert unknown.error_text is not None
    assert "refused the tunnel: HTTP/1.1 407" in unknown.error_text


@pytest.mark.usefixtures("proxy_that_nobody_asks")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machine_is_asked_directly_whatever_proxy_the_environment_names(host: str) -> None:
    with ScriptedServer(QUICK, host="::1" if host == "[::1]" else "127.0.0.1") as server:
        assert measure(f"http://{host}:{server.port}", proxies=None)[0].outcome == "success"


@pytest.mark.usefixtures("proxy_that_nobody_asks")
def test_the_practice_engine_of_a_probe_is_asked_directly() -> None:
    probe = [sys.executable, "-m", "scenarios.cli", "probe", "--max-tokens", "4", "--timeout", "20", "--json"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["outcome"] == "success", done.stderr


@pytest.mark.usefixtures("proxy_that_nobody_asks")
def test_a_prompt_is_counted_directly() -> None:
    with (
        ScriptedServer(json_answer(200, {"count": 7})) as server,
        prompt_counter(server.url, api="chat", model="m") as count,
    ):
        assert count(LLMRequest(prompt="x")) == 7


@pytest.mark.parametrize(
    ("proxy", "text"),
    [
        ("socks5://127.0.0.1:9", "proxy socks5://127.0.0.1: only http:// proxies are supported"),
        ("http://user:pass", "the proxy for http is no address: expected http://HOST:PORT"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_told_without_its_password(proxy: str, text: str) -> None:
    result = measure("http://engine.invalid", proxies={"http": proxy})[0]
    assert (result.error_class, result.error_text) == ("connect", text)


# ---------------------------------------------------------------------- encodings, keys, answers of another form


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_identity_is_asked_for_and_compression_decoded_step_by_step(encoding: str) -> None:
    plain = chat_stream(100, 50, 5)

    def packed(cut: bool) -> Answer:
        packer = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
        script: list[tuple[float, bytes | str]] = []
        for delay, data in plain.script:
            assert isinstance(data, bytes)
            script.append((delay, packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)))
        script = script[:3] if cut else [*script, (0, packer.flush())]
        return Answer(script, headers={**plain.headers, "Content-Encoding": encoding})

    with ScriptedServer([packed(cut=False), packed(cut=True)]) as server:
        whole, cut = measure(server.url, times=2)
    assert server.requests[0].headers["accept-encoding"] == "identity"
    assert (whole.outcome, whole.output_tokens, whole.text) == ("success", 5, " t0 t1 t2 t3 t4")
    assert whole.first_token_ms == pytest.approx(100, abs=25 + server.requests[0].late_ms)
    assert (cut.outcome, cut.error_class) == ("failure", "truncated_stream")
    assert len(cut.token_arrivals_ms) == 3


def test_broken_or_unknown_compression_is_a_protocol_error() -> None:
    broken = gzip.compress(chat_event("a"))[:10] + b"garbage" * 20
    answers = [
        Answer([(0, broken)], headers={"Content-Type": "text/event-stream", "Content-Encoding": encoding})
        for encoding in ("gzip", "br")
    ]
    with ScriptedServer(answers) as server:
        results = measure(server.url, times=2)
    assert [r.error_class for r in results] == ["protocol_error", "protocol_error"]


def test_the_key_is_sent_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_KEY", "s3cr3t-value-1")
    refusal = json_answer(401, {"error": {"message": "Incorrect API key provided: s3cr3t-value-1, or sk-abcdef123456"}})
    with ScriptedServer(refusal) as server:
        result = measure(server.url, api_key_env="ENGINE_KEY")[0]
    assert server.requests[0].headers["authorization"] == "Bearer s3cr3t-value-1"
    assert result.error_text == "Incorrect API key provided: ***, or sk-***"
    with pytest.raises(ValueError, match="environment variable NO_SUCH_KEY is not set"):
        build_client("chat", "http://x", "m", EngineAccess(api_key_env="NO_SUCH_KEY"))


def test_an_answer_that_was_not_to_be_streamed() -> None:
    message = {
        "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 2},
    }
    with ScriptedServer(json_answer(200, message)) as server:
        asked = measure(server.url, request=LLMRequest(prompt="x", extra_body={"stream": False}))[0]
        unasked = measure(server.url)[0]
    assert "stream_options" not in server.requests[0].json
    assert (asked.outcome, asked.streamed, asked.text, asked.output_tokens) == ("success", False, "hello", 2)
    assert (asked.first_token_ms, asked.token_arrivals_ms) == (None, [])
    assert (unasked.outcome, unasked.error_class) == ("failure", "not_an_event_stream")


def test_an_orderly_end_without_a_token_is_empty() -> None:
    usage = event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 0})
    with ScriptedServer(
        Answer([(5, chat_event(role="assistant")), (0, chat_event(finish_reason="stop")), (0, usage), (0, DONE)])
    ) as s:
        result = measure(s.url)[0]
    assert (result.outcome, result.error_class, result.output_tokens) == ("empty", None, 0)


def test_headers_of_a_request_replace_those_of_the_client() -> None:
    with ScriptedServer(QUICK) as server:
        client = build_client("chat", server.url, "m", EngineAccess(headers={"X-Team": "a", "X-All": "1"}))
        for headers in ({}, {"x-team": "b", "X-Request-Id": "7"}, {}):
            client.call(LLMRequest(prompt="x", extra_headers=headers)).run()
        with pytest.raises(ValueError, match="line end"):
            client.call(LLMRequest(prompt="x", extra_headers={"X-Bad": "a\r\nb: c"})).run()
        client.close()
    assert [r.headers["x-team"] for r in server.requests] == ["a", "b", "a"]
    assert [r.headers.get("x-request-id") for r in server.requests] == [None, "7", None]
    assert [r.headers["x-all"] for r in server.requests] == ["1", "1", "1"]


def test_paths_are_under_v1_whether_the_address_says_so_or_not() -> None:
    models = json_answer(
        200, {"object": "list", "data": [{"id": "a", "object": "model", "created": 1, "owned_by": "x"}]}
    )
    with ScriptedServer(lambda seen: models if seen.method == "GET" else QUICK) as server:
        for url in (server.url, f"{server.url}/", f"{server.url}/v1", f"{server.url}/v1/"):
            measure(url)
            assert list_models(url) == ["a"]
    assert {seen.target for seen in server.requests} == {"/v1/chat/completions", "/v1/models"}


def test_sizes_and_reads_are_counted() -> None:
    before = replace(COUNTERS)
    one_burst = Answer([(10, b"".join(data for _, data in QUICK.script if isinstance(data, bytes)))])
    with ScriptedServer([QUICK, one_burst]) as server:
        paced, burst = measure(server.url, times=2)
    assert paced.response_bytes == burst.response_bytes == sum(len(data) for _, data in QUICK.script)
    assert burst.coalesced_reads == 1  # what came in one write has one arrival
    assert len(set(burst.token_arrivals_ms)) == 1
    assert COUNTERS.reads - before.reads == paced.reads + burst.reads
    assert COUNTERS.coalesced_reads - before.coalesced_reads == paced.coalesced_reads + 1
