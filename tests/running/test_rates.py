"""Rate levels in whole runs: requests come by a schedule whatever the answers take, and lateness is told."""

import statistics
from itertools import pairwise

import pytest

from tests.support.locust_run import ROOT, outcomes, run
from tests.support.scripted_server import chat_stream
from tests.support.swarm import PLAIN, calls, engine

RATE = {**PLAIN, "load.mode": "rate", "load.levels": None, "load.ramp_s": "0", "load.warmup_s": "0"}


def measured(finished):
    return [row for row in finished.rows("requests.csv") if row["phase"] == "measure"]


def lags_ms(rows):
    return [float(row["started_ms"]) - float(row["planned_ms"]) for row in rows]


def planned_unix_s(rows):
    return [float(row["sent_unix_s"]) + float(row["planned_ms"]) / 1000 for row in rows]


def test_poisson_over_two_workers_is_poisson_on_the_wire(tmp_path):
    settings = {**RATE, "load.rates": "50", "load.ramp_s": "1", "load.warmup_s": "0.5", "load.measure_s": "12"}
    with engine(chat_stream(ttft_ms=20, gap_ms=5, tokens=4)) as server:
        finished = run(tmp_path, "--processes", "2", "-H", server.url, settings=settings)
    rows = measured(finished)
    assert {row["worker"] for row in rows} == {"0", "1"}
    (level,) = finished.rows("levels.csv")
    assert (level["mode"], level["requested"], level["workers"], level["complete"]) == ("rate", "50", "2", "true")
    assert (int(level["planned"]), level["dropped"], level["missed"]) == (len(rows), "0", "0")
    assert len(rows) == pytest.approx(600, abs=3 * 600**0.5)  # a Poisson number
    gaps = [later - earlier for earlier, later in pairwise(sorted(planned_unix_s(rows)))]
    assert statistics.mean(gaps) == pytest.approx(1 / 50, rel=0.12)
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(1.0, abs=0.15)
    lags = sorted(lags_ms(rows))
    assert lags[0] >= 0
    assert lags[len(lags) // 2] < 3  # others share this machine
    # the workers' shares interleave: each request of the schedule is sent once
    assert sorted(row["request_id"] for row in finished.rows("requests.csv")) == sorted(
        seen.headers["x-request-id"].removeprefix(f"{finished.run_dir.name}-") for seen in calls(server)
    )


def test_a_low_rate_over_four_workers_does_not_drift(tmp_path):
    settings = {**RATE, "load.rates": "0.5", "load.arrivals": "constant", "load.measure_s": "20"}
    with engine(chat_stream(ttft_ms=3000, tokens=1)) as server:
        finished = run(tmp_path, "--processes", "4", "-H", server.url, settings=settings)
    rows = measured(finished)
    assert len(rows) == 10
    assert max(lags_ms(rows)) <= 50
    begun = sorted(float(row["sent_unix_s"]) for row in rows)
    assert [at - begun[0] for at in begun] == pytest.approx([2.0 * n for n in range(10)], abs=0.05)
    (level,) = finished.rows("levels.csv")
    assert float(level["measure_end_unix_s"]) - float(level["measure_start_unix_s"]) == pytest.approx(20, abs=0.2)
    assert len({row["worker"] for row in rows}) == 4


def test_a_rate_that_cannot_be_reached_is_late_and_said_to_be(tmp_path):
    # 20 places of 1 s: 20 per second of the 50 asked for
    settings = {
        **RATE,
        "load.rates": "50",
        "load.arrivals": "constant",
        "load.measure_s": "10",
        "load.max_in_flight": "20",
        "load.tail_s": "2",
    }
    with engine(chat_stream(ttft_ms=1000, tokens=1)) as server:
        finished = run(tmp_path, "-H", server.url, settings=settings)
    assert server.peak_in_flight <= 20
    rows = measured(finished)
    (level,) = finished.rows("levels.csv")
    begin, end = float(level["measure_start_unix_s"]), float(level["measure_end_unix_s"])
    sent = [float(row["sent_unix_s"]) for row in finished.rows("requests.csv")]
    achieved = sum(begin <= at < end for at in sent) / (end - begin)
    assert achieved == pytest.approx(20, abs=1)
    assert level["complete"] == "false"  # tail_s was over before all that was due had been sent
    assert int(level["planned"]) == 500
    assert int(level["missed"]) == 500 - len(rows)
    # in ten seconds 20 were sent ten times: the 200th, after 9.4 s, was due after 3.98 s, and 300 wait
    in_time = [row for row in rows if float(row["sent_unix_s"]) < end]
    assert 500 - len(in_time) == pytest.approx(300, abs=10)
    assert max(-float(row["planned_ms"]) for row in in_time) == pytest.approx(5420, abs=300)
    # the engine takes a second for each all the time; for those who wait it takes ever longer
    in_time.sort(key=lambda row: float(row["sent_unix_s"]))
    first, last = in_time[:20], in_time[-20:]
    for part, waited_ms in ((first, 0), (last, 5300)):
        assert statistics.median(float(row["first_token_ms"]) for row in part) == pytest.approx(1000, abs=150)
        from_plan = [float(row["first_token_ms"]) - float(row["planned_ms"]) for row in part]
        assert statistics.median(from_plan) == pytest.approx(1000 + waited_ms, abs=400)
    said = " ".join(finished.output.split())
    assert "rate not reached: 50 requests/s asked for, 20" in said
    assert "starts lag behind the plan by" in said
    assert "TTFT from plan" in said


def test_what_finds_no_place_is_dropped_and_counted(tmp_path):
    settings = {
        **RATE,
        "load.rates": "40",
        "load.arrivals": "constant",
        "load.measure_s": "4",
        "load.max_in_flight": "4",
        "load.when_full": "drop",
    }
    with engine(chat_stream(ttft_ms=490, tokens=1)) as server:
        finished = run(tmp_path, "--processes", "2", "-H", server.url, settings=settings)
    rows = measured(finished)
    (level,) = finished.rows("levels.csv")
    assert (level["planned"], level["missed"], level["complete"]) == ("160", "0", "true")
    assert int(level["dropped"]) == 160 - len(rows)
    assert 24 <= len(rows) <= 36  # 4 places, at most twice a second, 4 s
    assert server.peak_in_flight <= 4
    assert max(lags_ms(rows)) < 100


def test_each_rate_is_a_level_and_the_tail_waits_for_what_was_due(tmp_path):
    settings = {**RATE, "load.rates": "5,20", "load.ramp_s": "0.5", "load.warmup_s": "0.5", "load.measure_s": "2"}
    with engine(chat_stream(ttft_ms=1500, tokens=1)) as server:
        finished = run(tmp_path, "-H", server.url, settings=settings)
    assert finished.code == 0, finished.output
    levels = finished.rows("levels.csv")
    assert [(level["requested"], level["complete"]) for level in levels] == [("5", "true"), ("20", "true")]
    for level in levels:
        names = ("ramp_start", "warmup_start", "measure_start", "measure_end", "tail_end")
        bounds = [float(level[f"{name}_unix_s"]) for name in names]
        assert [later - earlier for earlier, later in pairwise(bounds)][:3] == pytest.approx([0.5, 0.5, 2.0], abs=0.01)
        mine = [row for row in finished.rows("requests.csv") if row["level"] == level["level"]]
        due = [row for row in mine if row["phase"] == "measure"]
        assert outcomes(due) == {"success": int(level["planned"])}
        assert max(float(row["sent_unix_s"]) + float(row["e2e_ms"]) / 1000 for row in due) <= bounds[4]


def test_killed_in_the_middle_every_request_has_its_row(tmp_path):
    settings = {**RATE, "load.rates": "20", "load.measure_s": "60", "load.stop_timeout_s": "0"}
    with engine(chat_stream(ttft_ms=2000, tokens=1)) as server:
        finished = run(tmp_path, "--processes", "2", "-t", "6s", "-H", server.url, settings=settings)
        seen = {seen.headers["x-request-id"] for seen in calls(server)}
    rows = finished.rows("requests.csv")
    assert seen <= {f"{finished.run_dir.name}-{row['request_id']}" for row in rows}
    assert finished.run["reconciliation"]["missing"] == 0
    assert outcomes(rows)["cut_off"] == pytest.approx(40, abs=25)  # 20 a second, 2 s each
    (level,) = finished.rows("levels.csv")
    assert int(level["planned"]) == len(measured(finished)) + int(level["missed"])


def test_a_user_with_requests_of_its_own_is_due_by_the_schedule_too(tmp_path):
    settings = {**RATE, "load.rates": "10", "load.arrivals": "constant", "load.measure_s": "2"}
    locustfile = ROOT / "locustfiles" / "custom_example.py"
    with engine(chat_stream(ttft_ms=1500, tokens=1)) as server:
        finished = run(tmp_path, "-H", server.url, settings=settings, locustfile=locustfile)
    rows = measured(finished)
    assert len(rows) == 20
    assert {row["length_class"] for row in rows} == {"support"}
    planned = sorted(planned_unix_s(rows))
    assert [later - earlier for earlier, later in pairwise(planned)] == pytest.approx([0.1] * 19, abs=0.002)
