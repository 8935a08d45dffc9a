"""Connections: reused, replaced, drained, as many as there are users; and requests that are ended from outside."""

import time

import gevent
import pytest

from scenarios.clients.call import LLMRequest, TokenEvent
from scenarios.clients.factory import build_client
from tests.support.measuring import QUICK, lateness_ms, many, measure
from tests.support.scripted_server import (
    ABORT,
    DONE,
    Answer,
    ScriptedServer,
    chat_event,
    chat_stream,
)


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
