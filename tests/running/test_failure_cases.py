"""Failing engines in whole runs: each request started is a row and one of Locust's, whatever became of it."""

import csv
from collections import Counter
from itertools import pairwise

import pytest

from tests.support.locust_run import Finished
from tests.support.played import END, Played, Script, play_all, s100, small_event
from tests.support.scripted_server import ABORT, RESET, Answer, json_answer

QUICK = Answer([(10, small_event("t")), (0, END)])
BUSY = json_answer(503, {"error": {"message": "overloaded", "type": "server_error", "code": 503}})
LIMITED = json_answer(429, {"error": {"message": "rate limit", "type": "rate_limit", "code": 429}})
BROKEN = json_answer(500, {"error": {"message": "CUDA out of memory", "type": "server_error", "code": 500}})
FOR_DAYS = json_answer(429, {"error": {"message": "come back later"}}, **{"Retry-After": "277403"})
FOR_A_SECOND = json_answer(503, {"error": {"message": "busy"}}, **{"Retry-After": "1"})

ONE_OF_EACH = {
    # on a new connection: one that has been idle may have died meanwhile, so there it is tried again
    "disconnected": Answer([(0, RESET)], raw=True),
    "http_429": LIMITED,
    "http_500": BROKEN,
    "truncated_stream": Answer([(0, small_event("t")), (10, ABORT)]),
    "server_error_event": Answer([(0, small_event("t")), (0, b'data: {"error": {"message": "worker died"}}\n\n')]),
    "not_an_event_stream": Answer([(0, b"<html>login</html>")], headers={"Content-Type": "text/html"}),
    "timeout_first_token": Answer([(1500, small_event("t")), (0, END)]),
    "timeout_gap": Answer([(0, small_event("t")), (1500, small_event("t")), (0, END)]),
}


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failures")
    return play_all(
        folder,
        {
            "refused for days": Script(FOR_DAYS, arguments=["-t", "5s"]),
            "refused then good": Script([BUSY, BUSY, s100()], requests=3),
            "asked to wait": Script([FOR_A_SECOND, QUICK], requests=2),
            "told not to wait": Script(
                [FOR_A_SECOND, QUICK], requests=2, settings={"load.respect_retry_after": "false"}
            ),
            "7 of 20": Script(
                lambda number, _: {1: LIMITED, 3: BROKEN}.get(number % 5, QUICK) if number < 18 else QUICK,
                requests=20,
                arguments=["--csv", str(folder / "locust")],
            ),
            "one of each": Script(
                list(ONE_OF_EACH.values()),
                requests=len(ONE_OF_EACH),
                settings={"engine.timeouts.first_token_s": "0.5", "engine.timeouts.gap_s": "0.5"},
            ),
            "nothing listens": Script(QUICK, requests=3, refuses_after_checks=True),
            "all fail": Script(BROKEN, requests=5),
        },
    )


def outcomes(run: Played) -> Counter[tuple[str, str]]:
    return Counter((row["outcome"], row["error_class"]) for row in run.rows)


def test_a_refused_request_is_a_failure_and_not_a_slow_success(played):
    run = played["refused then good"]
    assert [row["error_class"] for row in run.rows] == ["http_503", "http_503", ""]
    assert len(run.chats) == 3
    good = run.rows[-1]
    assert good["outcome"] == "success"
    assert run.off_ms(good, "first_token_ms", 100) < 15


def test_a_retry_after_of_days_ends_with_the_run_and_is_kept(played):
    run = played["refused for days"]
    (row,) = run.rows
    assert (row["outcome"], row["error_class"], row["retry_after_s"]) == ("failure", "http_429", "277403")
    begin, end = (run.finished.run[f"{name}_unix_s"] for name in ("started", "ended"))
    assert end - begin < 8  # 5 s, and Locust looks once a second
    assert run.finished.run["stopped_by"] == "run_time"


def test_a_refused_user_waits_as_long_as_it_was_asked_to(played):
    first, second = played["asked to wait"].rows
    assert float(second["sent_unix_s"]) - float(first["sent_unix_s"]) >= 1
    assert played["asked to wait"].finished.run["scenario"]["load"]["respect_retry_after"] is True


def test_a_scenario_may_go_on_at_once_after_a_refusal(played):
    first, second = played["told not to wait"].rows
    assert float(second["sent_unix_s"]) - float(first["sent_unix_s"]) < 0.5


def test_outcomes_sum_up_to_the_requests_started_and_locust_counts_the_same(played):
    run = played["7 of 20"]
    assert outcomes(run) == {("success", ""): 13, ("failure", "http_429"): 4, ("failure", "http_500"): 3}
    assert run.finished.run["reconciliation"]["started"] == 20
    with (run.finished.folder.parent / "locust_stats.csv").open(newline="") as lines:
        aggregated = {row["Name"]: row for row in csv.DictReader(lines)}["Aggregated"]
    assert (aggregated["Request Count"], aggregated["Failure Count"]) == ("20", "7")


def test_the_report_says_what_became_of_all_requests_and_the_exit_code_too(played):
    run = played["7 of 20"]
    counts = run.report["counts"]
    assert (counts["started"], counts["success"], counts["failure"]) == (20, 13, 7)
    assert counts["failures"] == {"http_429": 4, "http_500": 3}
    said = "20 requests started: 13 succeeded, 7 failed (4 http_429, 3 http_500), 0 empty, 0 cut off"
    assert said in run.finished.output
    assert run.finished.code == 1


def test_each_kind_of_failure_is_one_row_of_its_class(played):
    run = played["one of each"]
    assert [row["error_class"] for row in run.rows] == list(ONE_OF_EACH)
    assert {row["outcome"] for row in run.rows} == {"failure"}
    assert no_traceback(run.finished)


def test_refused_connections_are_rows_too(played):
    run = played["nothing listens"]
    assert outcomes(run) == {("failure", "connect"): 3}
    assert run.chats == []
    assert no_traceback(run.finished)
    sent = [float(row["sent_unix_s"]) for row in run.rows]
    assert min(later - earlier for earlier, later in pairwise(sent)) >= 1  # a dead engine is not asked all the time


def test_a_run_without_any_success_is_reported(played):
    run = played["all fail"]
    assert outcomes(run) == {("failure", "http_500"): 5}
    assert run.report["counts"]["failure"] == 5
    for level in run.report["levels"]:
        assert (level["latencies"]["ttft_ms"]["n"], level["latencies"]["ttft_ms"]["mean"]) == (0, None)
    assert "CUDA out of memory" in run.finished.output
    assert (run.finished.run_dir / "report.html").exists()
    assert no_traceback(run.finished)
    assert run.finished.code != 0


def no_traceback(finished: Finished) -> bool:
    return "Traceback" not in finished.output
