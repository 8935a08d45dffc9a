"""Many streams at once: nothing waits inside the client, nothing is lost, and limits are told before the start."""

import json
from collections import Counter
from itertools import accumulate
from pathlib import Path
from statistics import mean

import pytest

from tests.support.locust_run import Finished, command, finish, started
from tests.support.played import DATASET, END, Script, play, small_event
from tests.support.scripted_server import Answer

UNUSED = dict.fromkeys(("load.levels", "load.ramp_s", "load.measure_s", "load.warmup_requests"))  # by a trace
ONE_SECOND = Answer([(1000, small_event("t")), (0, END)])


def test_150_users_are_150_requests_at_the_server_at_once(tmp_path):
    played = play(tmp_path / "run", Script(ONE_SECOND, users=150, requests=150))
    rows = played.rows
    assert Counter(row["outcome"] for row in rows) == {"success": 150}
    assert played.server.peak_in_flight == 150
    assert max(played.off_ms(row, "e2e_ms", 1000) for row in rows) < 200


def test_waiting_for_a_place_counts_from_the_plan_and_is_shown_beside_what_the_server_took(tmp_path):
    trace = tmp_path / "trace.jsonl"
    rows = [{"timestamp": at_ms, "input_length": 20, "output_length": 1} for at_ms in (0, 100, 200, 300, 400)]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {"load.mode": "trace", "load.max_in_flight": "1", "workload.trace.file": str(trace), **DATASET, **UNUSED}
    played = play(tmp_path / "run", Script(Answer([(300, small_event("t")), (0, END)]), settings=settings))
    sent = played.rows
    late_ms = list(accumulate(map(played.late_ms, sent)))  # one that is late makes those behind it late
    assert [played.off_ms(row, "first_token_ms", 300) < 20 for row in sent] == [True] * 5
    from_plan_ms = [float(row["first_token_ms"]) - float(row["planned_ms"]) for row in sent]
    for right_ms, found_ms, server_ms in zip((300, 500, 700, 900, 1100), from_plan_ms, late_ms, strict=True):
        assert found_ms == pytest.approx(right_ms, abs=40 + server_ms)
    latencies = played.report["levels"][0]["latencies"]
    waits_ms = [float(row["started_ms"]) - float(row["planned_ms"]) for row in sent]
    assert latencies["queue_ms"]["mean"] == pytest.approx(mean(waits_ms), abs=0.01)
    assert latencies["queue_ms"]["mean"] == pytest.approx(400, abs=30 + late_ms[-1])
    assert latencies["ttft_from_plan_ms"]["mean"] == pytest.approx(mean(from_plan_ms), abs=0.01)
    assert "TTFT from plan" in played.finished.output


def test_64_users_with_prompts_of_200_kb_see_the_servers_ttft_or_a_mark_that_they_do_not(tmp_path):
    stream = Answer([(100 if n == 0 else 20, small_event("t")) for n in range(20)] + [(0, END)])
    settings = {"workload.inputs": "36000", "load.measure_s": "5"}
    played = play(tmp_path / "run", Script(stream, users=64, settings=settings))
    measured = [row for row in played.rows if row["phase"] == "measure"]
    assert min(len(seen.body) for seen in played.chats) > 200_000
    assert {row["outcome"] for row in measured} == {"success"}
    (level,) = played.report["levels"]
    # what the scripted server is late itself is not the client's
    ttft_ms = sorted(float(row["first_token_ms"]) - played.late_ms(row) for row in measured)
    p95_ms = ttft_ms[-(-95 * len(ttft_ms) // 100) - 1]
    assert p95_ms <= 150 or level["verdict"]["status"] == "client-bound"
    assert len(measured) > 64 * 5  # 5 s, 480 ms each
    health = played.finished.rows("health.csv")
    assert len(health) >= 5
    assert all(float(second["hub_lag_ms"]) >= 0 for second in health)


@pytest.mark.slow
def test_512_streams_in_one_worker_lose_no_row_though_few_files_may_be_open(tmp_path):
    truth = tmp_path / "truth.jsonl"
    settings = {
        "engine.practice": json.dumps(["--truth", str(truth)]),
        "load.levels": "512",
        "load.measure_s": "3",
        "load.stop_timeout_s": "30",
        "workload.output.tokens": "24",
    }
    finished = with_open_files(300, 1200, tmp_path, settings)  # Locust asks for 10,000 or leaves it at 300
    rows = finished.rows("requests.csv")
    assert Counter(row["outcome"] for row in rows) == {"success": len(rows)}
    assert max(int(second["in_flight"]) for second in finished.rows("health.csv")) == 512
    seen = [json.loads(line)["request_id"] for line in truth.read_text().splitlines()]
    assert sorted(seen) == sorted(f"{finished.run_dir.name}-{row['request_id']}" for row in rows)
    assert len(set(seen)) == len(seen)
    tokens = Counter(row["request_id"] for row in finished.rows("tokens.csv"))
    assert tokens == dict.fromkeys((row["request_id"] for row in rows), 24)
    assert finished.run["reconciliation"]["missing"] == 0


def test_too_few_open_files_are_told_before_the_first_request(tmp_path):
    finished = with_open_files(400, 400, tmp_path, {"load.levels": "8,512"})
    assert finished.code == 2
    assert "512 streams at once need 640 open files, and this process may have 400" in finished.output
    assert "Traceback" not in finished.output
    assert not (tmp_path / "runs").exists()


def with_open_files(soft: int, hard: int, folder: Path, settings: dict[str, str]) -> Finished:
    """A run whose processes may have so many files open, and may ask for so many."""
    limits = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
    with started(folder, ["bash", "-c", limits, "run", *command("--headless", settings=settings)]) as process:
        return finish(process, folder)
